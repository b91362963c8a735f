//! Random sequences: equal seeds give equal ones.

use super::{Mount, Others, Schedules, Workload, parse};
use crate::image::Kind;
use ondol_env::{Env, Fixed, Timestamp};
use ondol_testkit::op::Op;
use ondol_testkit::strategy::{self, Mix, number_fills_from};
use ondol_testkit::threads;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Calls before the recording.
const BEFORE: usize = 10;

/// Sequence after sequence, without end.
pub fn random(seed: u64) -> impl Iterator<Item = Workload> + Send {
    (0..).map(move |n| {
        let mut ops = sequence(seed, n);
        let mut calls = ops.split_off(ops.len().min(BEFORE));
        if n % 4 == 3 {
            calls.extend(number_fills_from(rewrites(seed ^ n.rotate_left(16)), REWRITES));
        }
        let image = Kind::in_turn(n);
        let (name, mount) = (format!("random {seed}/{n}"), Mount::in_turn(n / 3));
        Workload { name, image, mount, before: ops, remount: false, calls, others: None }
    })
}

/// Sequences on volumes that have little left, without end: calls find no space in their midst, and what is freed is taken at once.
pub fn scarce(seed: u64) -> impl Iterator<Item = Workload> + Send {
    random(seed ^ 0x5CA4_CE00).zip(0u64..).map(move |(mut workload, n)| {
        let sizes = ["8M", "4M", "2M", "1M", "512K", "256K", "128K", "64K", "32K", "16K", "8K", "4K", "2K", "1K", "1K"];
        let takes = sizes.iter().enumerate().map(|(i, size)| format!("fallocate-keep /full {}M {size}\n", 16 * i));
        let left = n * 7 % 48;
        let hole = format!("create /left 0644\nfallocate /left 0 {}K\ncreate /full 0644\n", left + 1);
        workload.before.extend(parse(&(hole + &takes.collect::<String>() + "unlink /left\nsync")));
        // An allocation that found no space is taken back, which is no call of its own.
        workload.calls.retain(|op| !matches!(op, Op::Fallocate { .. }));
        workload.name = format!("little space {seed}/{n}");
        workload
    })
}

/// Interleavings of each program of threads.
const SCHEDULES: u32 = 40;

/// Two or three threads after others, short programs and longer ones, without end.
pub fn threads(seed: u64) -> impl Iterator<Item = Workload> + Send {
    (0..).map(move |n: u64| {
        let of_this = seed.rotate_left(32) ^ n;
        let count = 2 + n as usize % 2;
        // A mistake that takes two calls is seen in few interleavings of ten.
        let calls = [1, 2, 4, 6][(n / 2 % 4) as usize];
        let mut calls = threads::random::random_calls(of_this, count, calls);
        if (n / 8).is_multiple_of(2) {
            calls[0].push(Op::Sync);
        }
        Workload {
            name: format!("threads {seed}/{n}"),
            image: Kind::in_turn(n),
            mount: Mount::in_turn(n / 3),
            before: threads::random::before(),
            remount: false,
            calls: calls.remove(0),
            others: Some(Others {
                calls,
                schedules: Schedules::Search { seed: of_this, count: SCHEDULES },
                background: (!n.is_multiple_of(4)).then_some(2),
                lead: 0,
            }),
        }
    })
}

/// Numbers of the fills of what is rewritten begin here.
const REWRITES: u32 = 3000;

/// One block is written short and long, again and again, some of that is committed, and what is committed goes home in between, without what came later.
pub(super) fn rewrites(seed: u64) -> Vec<Op> {
    let random = Fixed::new(Timestamp::default(), seed);
    let below = |n: u32| random.random_u32() % n;
    let file = ["/a", "/d/a"][below(2) as usize];
    let block = 4096 * u64::from(below(2));
    let line = |_| match below(10) {
        0..3 => format!("write {file} {} {} #1", block + u64::from(below(900)), 1 + below(100)),
        3..7 => format!("write {file} {} {} #1", block, [300, 1024, 1500, 4096][below(4) as usize]),
        7 => format!("fsync {file}"),
        8 => "sync".to_owned(),
        _ => "bring-home".to_owned(),
    };
    // Where it is there already, these change nothing.
    let first = format!("mkdir /d 0755\ncreate {file} 0644\nwrite {file} {block} 4096 #1\nsync\nbring-home\n");
    let some: Vec<String> = (0..4 + below(8)).map(line).collect();
    parse(&(first + &some.join("\n") + "\nbring-home"))
}

pub(super) fn sequence(seed: u64, n: u64) -> Vec<Op> {
    let bytes: Vec<u8> = [seed, n, seed, n].iter().flat_map(|word| word.to_le_bytes()).collect();
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mix = Mix { max_len: 20_000, ..Mix::default() };
    // Only a filter that refuses everything makes this fail, and there is none.
    strategy::ops_of(mix, 5..40).new_tree(&mut runner).map_or_else(|_| Vec::new(), |tree| tree.current())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondol_testkit::model::Model;

    #[test]
    fn what_is_rewritten_is_there_and_each_seed_has_its_own() {
        let mut kinds = std::collections::BTreeSet::new();
        for seed in 0..20 {
            let mut model = Model::empty();
            for op in rewrites(seed) {
                assert!(model.apply(&op).is_ok(), "{seed}: {op}");
            }
            kinds.insert(rewrites(seed).iter().map(Op::to_string).collect::<Vec<_>>());
        }
        assert!(kinds.len() > 15, "{}", kinds.len());
        let tail = |seed| random(seed).nth(3).map(|workload| workload.calls.last_chunk::<5>().cloned());
        assert_ne!(tail(1), tail(999));
    }
}
