//! The library as programs use it.

mod failures;
mod fsync;
mod listing;
mod one_client;
mod ranges;
