//! Hostile input from plain bytes, and what is demanded of whatever meets it.
//!
//! ```text
//!   bytes ─▶ Input ─▶ a seed image + patches (+ right checksums) ─▶ Guard ─▶ open, walk, calls, crash, recover, check
//!                  └▶ a log, a pool, mount options, calls of the test grammar
//! ```
//!
//! Each [`Target`] is one function of bytes. A fuzzer looks for bytes that make it panic, the tests of this crate run
//! the bytes that were found before. What a target demands: no panic; no more block reads in one call than the image
//! accounts for; no write outside of the image, and none at all where it is mounted read-only; and where nothing
//! hostile was done, the right answer.
#![forbid(unsafe_code)]

mod calls;
mod guard;
mod image;
mod input;
mod ops;
mod target;
mod walk;

pub use target::Target;
