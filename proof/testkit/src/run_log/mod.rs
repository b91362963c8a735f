//! Programs under `ondol run`, without a kernel: processes and threads that write and sync, power cut after each
//! event, and recovery held against what was acknowledged. The kernel is a model ([`kernel`], and of names that of
//! the log's own tests); the log is the real one, on recorded NVM.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "what a rig cannot have is a panic, as in a test")]

pub mod kernel;
#[path = "../../../../crates/run-log/tests/names/model/mod.rs"]
mod names;
pub mod program;
pub mod threads;

/// What cuts of one run have shown.
#[derive(Debug, Default)]
pub struct Shown {
    /// States that were recovered.
    pub states: usize,
    /// Syncs that ended in the log.
    pub fast: usize,
    /// What is wrong with one of the states.
    pub wrong: Option<String>,
}

pub(crate) use names::Random;

/// Names in two directories, so many cuts of what is done to them, and of one in 20 of those recoveries that are cut or
/// refused and done again.
pub fn names(seed: u64, states: u64) -> Shown {
    let names::Cuts { states, fast, wrong } = names::cuts(seed, states, 20);
    Shown { states, fast, wrong }
}
