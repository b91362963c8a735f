//! What the whole-stack tests share: parameters from the environment, why something cannot be mounted here, and the
//! program as a mount.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "real programs run in real time")]

mod program;
pub mod programs;

pub use program::{mount, no_fuse_mount, program};

use ondol_testkit::image::KernelMount;
use ondol_testkit::op::{Op, text};
use ondol_testkit::shrink::shrink;
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use std::path::Path;

/// A number from the environment, for longer hunts: `ONDOL_CASES=2000 cargo test …`.
pub fn parameter(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

/// Whether this is a long hunt (`cargo xtask hunt`), not the tests of a change.
pub fn hunting() -> bool {
    std::env::var_os("ONDOL_HUNT").is_some()
}

/// How much of something random is tried: what `name` says in the environment, or else `long` in a hunt and `short`
/// otherwise.
pub fn depth(name: &str, short: u64, long: u64) -> u64 {
    parameter(name, if hunting() { long } else { short })
}

/// The image of a live mount as it is while nothing is written to it. A copy that is made during a write may have half
/// a block, which no power cut leaves.
pub fn still(path: &Path) -> Vec<u8> {
    let read = || std::fs::read(path).expect("an image");
    let mut before = read();
    loop {
        let now = read();
        if now == before {
            return now;
        }
        before = now;
    }
}

/// Why kernel mounts are not possible here.
pub fn no_kernel_mount() -> Option<&'static str> {
    KernelMount::unavailable()
}

/// Runs `test` on random sequences and panics with the smallest that fails, as text to try again. Equal seeds
/// (`ONDOL_SEED`) give equal sequences.
pub fn hunt(cases: u64, ops: impl Strategy<Value = Vec<Op>>, test: impl Fn(&[Op]) -> Result<(), String>) {
    // Removing calls one by one finds smaller sequences than shrinking each of them does.
    let config = Config { cases: cases as u32, failure_persistence: None, max_shrink_iters: 0, ..Config::default() };
    let seed = parameter("ONDOL_SEED", 1);
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed.to_le_bytes(); 4].concat());
    let outcome = TestRunner::new_with_rng(config, rng).run(&ops, |ops| test(&ops).map_err(TestCaseError::fail));
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(first, ops)) => {
            let smallest = shrink(ops, |ops| test(ops).is_err());
            let reason = match test(&smallest) {
                Err(reason) => reason,
                Ok(()) => format!("{first}\n(not every time)"),
            };
            panic!("{reason}\nseed {seed}, smallest sequence:\n{}", text::print(&smallest));
        }
        Err(TestError::Abort(reason)) => panic!("{reason}"),
    }
}
