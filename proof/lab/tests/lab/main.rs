//! The program `ondol-lab`, run as a user runs it, beside the program `ondol`.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "real programs run in real time")]

mod bench;
#[cfg(feature = "object")]
mod bucket_bench;
mod kills;
mod paper_two;
mod place;
mod wrong;
