//! Random sequences: equal seeds give equal ones.

use super::{Others, Workload};
use crate::image::Kind;
use ondol_testkit::op::Op;
use ondol_testkit::schedule::{Policy, Schedule};
use ondol_testkit::strategy::{self, Mix};
use ondol_testkit::threads;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Calls before the recording.
const BEFORE: usize = 10;

/// Sequence after sequence, without end.
pub fn random(seed: u64) -> impl Iterator<Item = Workload> + Send {
    (0..).map(move |n| {
        let mut ops = sequence(seed, n);
        let calls = ops.split_off(ops.len().min(BEFORE));
        let image = Kind::USUAL[n as usize % Kind::USUAL.len()];
        Workload { name: format!("random {seed}/{n}"), image, before: ops, remount: false, calls, others: None }
    })
}

/// Two or three threads after others, each time in another interleaving, without end.
pub fn threads(seed: u64) -> impl Iterator<Item = Workload> + Send {
    (0..).map(move |n: u64| {
        let of_this = seed.rotate_left(32) ^ n;
        let count = 2 + n as usize % 2;
        let mut calls = threads::random::random_calls(of_this, count, 12 / count);
        // One in three: any of them at every point. Else: few changes of place, at places that matter.
        let policy = if n.is_multiple_of(3) { Policy::Random } else { Policy::Priorities { depth: 3, steps: 1500 } };
        Workload {
            name: format!("threads {seed}/{n}"),
            image: Kind::USUAL[n as usize % Kind::USUAL.len()],
            before: threads::random::before(),
            remount: false,
            calls: calls.remove(0),
            others: Some(Others { calls, schedule: Schedule::new(policy, of_this), background: Some(2) }),
        }
    })
}

fn sequence(seed: u64, n: u64) -> Vec<Op> {
    let bytes: Vec<u8> = [seed, n, seed, n].iter().flat_map(|word| word.to_le_bytes()).collect();
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mix = Mix { max_len: 20_000, ..Mix::default() };
    // Only a filter that refuses everything makes this fail, and there is none.
    strategy::ops_of(mix, 5..40).new_tree(&mut runner).map_or_else(|_| Vec::new(), |tree| tree.current())
}
