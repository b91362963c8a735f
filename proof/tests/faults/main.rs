//! What fails under a volume: bits of the log, transfers of the medium, space.

mod bits;
mod common;
mod eio;
mod space;
