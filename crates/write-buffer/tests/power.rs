//! Power cuts of NVM and home together: what was acknowledged is there, nothing else appears, and recovery can be cut,
//! too.

mod common;

use common::Op::{self, FailingSettle, Flush, Reclaim, Remove, SetLen, Settle, Sync, Write};
use common::cuts::{Run, random_ops};
use ondol_power::{Kind, Sampling};

fn write(file: usize, offset: u64, len: usize) -> Op {
    Write { file, offset, len }
}

/// Explores a run and expects nothing wrong. Returns how many states were recovered.
fn explore(blocks: u64, kind: Kind, ops: &[Op], sampling: Sampling, again: usize) -> usize {
    let run = Run::record(blocks, kind, ops);
    let found = run.explore(sampling, again);
    assert!(found.wrong.is_empty(), "{} of {} states: {}; {ops:?}", found.wrong.len(), found.states, found.wrong[0]);
    assert!(found.states > run.events() / 2, "{} states of {} events", found.states, run.events());
    found.states
}

fn all() -> Sampling {
    Sampling { all_of: 512, ..Sampling::default() }
}

/// Scenes of few operations, each with what it is about.
fn scenes() -> Vec<(&'static str, Vec<Op>)> {
    vec![
        ("small writes share lines and blocks", vec![write(0, 10, 20), write(0, 20, 20), write(1, 0, 5)]),
        ("a block over a fragment over a block", vec![write(0, 0, 512), write(0, 100, 30), write(0, 0, 512)]),
        ("a write across blocks", vec![write(0, 400, 800)]),
        (
            "overwritten between flush and sync",
            vec![
                write(0, 0, 300),
                write(0, 600, 50),
                Flush(0),
                Flush(1),
                write(0, 20, 60),
                Sync,
                Settle,
                write(0, 0, 9),
            ],
        ),
        ("two files, one synced", vec![write(0, 0, 200), write(1, 0, 200), Settle, write(1, 50, 60), write(0, 3, 3)]),
        (
            "cut and written again",
            vec![write(0, 0, 900), Settle, SetLen { file: 0, len: 100 }, write(0, 600, 40), Settle],
        ),
        (
            "cut below what is home and made longer",
            vec![
                write(0, 0, 900),
                Settle,
                SetLen { file: 0, len: 100 },
                SetLen { file: 0, len: 700 },
                Settle,
                write(0, 650, 10),
            ],
        ),
        ("removed and made again", vec![write(0, 0, 300), Settle, Remove { file: 0 }, write(0, 100, 20), Settle]),
        (
            "a sync fails and the system forgets what was written",
            vec![write(0, 0, 700), FailingSettle, write(0, 100, 20), Settle, write(0, 5, 5), FailingSettle, Settle],
        ),
        ("removed before it was ever home", vec![write(0, 0, 100), Remove { file: 0 }, write(1, 0, 10), Settle]),
    ]
}

#[test]
fn every_cut_of_short_scenes() {
    let mut states = 0;
    for kind in [Kind::Nvm, Kind::PersistentCaches] {
        for (_, ops) in scenes() {
            states += explore(16, kind, &ops, all(), 7);
        }
    }
    assert!(states > 5_000, "{states}");
    println!("{states} states");
}

/// With eight blocks nearly every write waits, and blocks are used again and again.
#[test]
fn cuts_of_a_buffer_that_is_always_full() {
    let mut ops = Vec::new();
    for n in 0..14u64 {
        ops.push(write((n % 3) as usize, n * 300 % 1500, 200 + 100 * (n as usize % 5)));
        ops.push(write((n % 2) as usize, n * 77, 20));
        if n % 4 == 3 {
            ops.extend([Reclaim, Flush(0), Sync]);
        }
    }
    let states = explore(8, Kind::Nvm, &ops, Sampling::default().at_most(64), 23);
    println!("{states} states");
}

#[test]
fn cuts_of_any_operations() {
    let seeds = std::env::var("BUFFER_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(24);
    let mut states = 0;
    for seed in 0..seeds {
        let kind = if seed % 4 == 3 { Kind::PersistentCaches } else { Kind::Nvm };
        let sampling = Sampling { seed, ..Sampling::default().at_most(24) };
        states += explore(8 + 8 * (seed % 2), kind, &random_ops(seed, 24), sampling, 29);
    }
    println!("{states} states");
}

/// Fragments that live are moved together, and the blocks that they leave are used by others.
#[test]
fn cuts_of_compaction() {
    // Three fragments to a block; then two of each die, but not those of the block that is still open.
    let mut ops: Vec<Op> = (0..24).map(|n| write(0, n * 130, 120)).collect();
    for n in (0..21u64).filter(|n| n % 3 != 0) {
        ops.push(write(0, n * 130, 1));
        ops.push(write(0, n * 130, 120));
    }
    ops.extend([SetLen { file: 0, len: 3000 }, Reclaim]);
    for n in 0..4u64 {
        ops.extend([write(1, n * 512, 512), Reclaim]);
    }
    ops.push(Settle);
    let run = Run::record(16, Kind::Nvm, &ops);
    assert!(run.stats.compactions > 0, "{:?}", run.stats);
    let found = run.explore(Sampling::default().at_most(48), 11);
    assert!(found.wrong.is_empty(), "{} of {} states: {}", found.wrong.len(), found.states, found.wrong[0]);
    println!("{} states", found.states);
}
