//! The write buffer of papers/2 under random operations and under several callers and its own stages, with power cut
//! after each event, and recovery held against a plain model.
#![allow(clippy::unwrap_used, reason = "what a rig cannot have is a panic, as in a test")]

#[path = "../../../../crates/write-buffer/tests/common/mod.rs"]
mod common;
mod threads;

pub use threads::threads;

use crate::run_log::Shown;
use common::cuts::{Run, random_ops};
use ondol_power::{Kind, Sampling};

/// Operations by a seed on a buffer that is nearly always full, and cuts of them. For one of 29 states recovery is cut,
/// too.
pub fn cuts(seed: u64) -> Shown {
    let kind = if seed % 4 == 3 { Kind::PersistentCaches } else { Kind::Nvm };
    let run = Run::record(8 + 8 * (seed % 2), kind, &random_ops(seed, 24));
    let found = run.explore(Sampling { seed, ..Sampling::default().at_most(24) }, 29);
    Shown { states: found.states, fast: 0, wrong: found.wrong.into_iter().next() }
}
