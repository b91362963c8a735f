//! The library as programs use it.

mod commits;
mod direct;
mod failures;
mod files;
mod fsync;
mod in_nvm;
mod listing;
mod one_client;
mod owned;
mod ranges;
mod scratch;
