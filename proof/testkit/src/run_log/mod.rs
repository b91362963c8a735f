//! Programs under `ondol run`, without a kernel: processes and threads that write and sync, power cut after each event, and
//! recovery held against what was acknowledged. The kernel is a model ([`kernel`]); the log is the real one, on recorded NVM.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "what a rig cannot have is a panic, as in a test")]

pub mod kernel;
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

pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}
