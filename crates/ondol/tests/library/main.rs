//! The library as programs use it.

mod failures;
mod listing;
mod one_client;
mod ranges;
