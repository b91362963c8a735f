//! FUSE's messages as they lie in memory: what the kernel writes to the descriptor and what it reads from it.
//!
//! Facts from the kernel's public header `include/uapi/linux/fuse.h`, protocol 7.31 to 7.45. All numbers are in the
//! machine's byte order. Nothing here trusts a byte: a request that is too short, too long or makes no sense is an
//! error.
//!
//! - `numbers`: opcodes and flags.
//! - `wire`: the structures.
//! - `request`: from bytes to a typed request.
//! - `reply`: from values to bytes.

pub(crate) mod numbers;
pub(crate) mod reply;
pub(crate) mod request;
#[cfg(test)]
mod tests;
pub(crate) mod wire;

pub(crate) use request::{Header, Malformed, Operation, Request};
