//! The library over every engine, in pools, and where media fail.

mod commits;
mod direct;
mod failures;
mod fsync;
mod in_nvm;
mod one_client;
mod scratch;
