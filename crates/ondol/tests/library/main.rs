//! The library as programs use it.

mod failures;
mod fsync;
mod in_nvm;
mod listing;
mod one_client;
mod ranges;
