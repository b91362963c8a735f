//! Power cuts of tables: a block is whole, what was flushed is there, and a transaction is there or not.

use crate::rig::Op::{self, Attach, Checkpoint, Discard, Flatten, Flush, InPlace, Lent, Part, Remap, Swap, Write};
use crate::rig::run;
use ondol_medium::Domain;
use ondol_power::Sampling;

fn explore(domain: Domain, ops: &[Op], sampling: Sampling, again: usize) -> usize {
    let run = run(domain, ops);
    let cuts = run.explore(sampling, again, 6_000);
    assert!(cuts.wrong.is_empty(), "{} of {} states: {}; {ops:?}", cuts.wrong.len(), cuts.states, cuts.wrong[0]);
    assert!(cuts.states > run.events.len() / 2, "{} states of {} events", cuts.states, run.events.len());
    cuts.states
}

/// Short scenes in which each rule matters.
pub(crate) const SCENES: [&[Op]; 12] = [
    &[Write(0, 2), Flush, Write(0, 1), Part(4000, 300), Flush, Write(1, 1)],
    &[Write(0, 2), Swap(0, 1), Swap(1, 4)],
    &[Write(0, 4), Flush, Checkpoint([0, 2, 1, 3], 0), Checkpoint([2, 5, 0, 4], 5)],
    &[Write(2, 1), Remap(2), Part(8200, 64), Remap(2), Discard(2, 1), Write(0, 1), Flush],
    // Pages are used again and again.
    &[Write(0, 3), Flush, Write(0, 3), Flush, Write(0, 3), Write(3, 3), Write(0, 3), Flush, Write(0, 6)],
    &[
        Write(0, 2),
        Flush,
        Lent(0),
        Part(100, 50),
        Lent(3),
        Lent(0),
        Flush,
        Lent(1),
        Swap(0, 1),
        Lent(0),
        Write(0, 1),
        Flush,
    ],
    &[Write(0, 3), Flush, Write(1, 1), Attach, Checkpoint([0, 1, 1, 2], 0), Attach, Write(2, 2), Flush],
    // Cycles, chains, blocks in the reserve, and nothing to do.
    &[Write(0, 6), Flush, Swap(0, 1), Swap(2, 4), Swap(4, 5), Flatten, Write(1, 1), Flatten, Flatten],
    &[Write(0, 6), Write(0, 6), Flush, Flatten, Remap(3), Swap(0, 3), Discard(1, 2), Flatten],
    &[Write(0, 2), Flush, InPlace(0, 2), Flush, InPlace(0, 1), Flush],
    // In place where a page is there and not lent; the last of these blocks has none.
    &[
        Write(0, 2),
        Flush,
        InPlace(0, 3),
        Flush,
        Lent(1),
        InPlace(0, 2),
        Swap(0, 4),
        InPlace(1, 3),
        Flush,
        InPlace(0, 2),
    ],
    &[Write(3, 2), Write(0, 1), Swap(0, 5), Flatten, Part(0, 100), Write(4, 2), Flatten],
];

#[test]
fn every_cut_of_short_scenes() {
    let mut states = 0;
    for domain in [Domain::Adr, Domain::Eadr, Domain::Msync] {
        for ops in SCENES {
            states += explore(domain, ops, Sampling::default().at_most(64), 23);
        }
    }
    println!("{states} states");
    assert!(states > 5_000, "{states}");
}

#[test]
fn cuts_of_any_operations() {
    let seeds = std::env::var("TABLE_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(12);
    let mut states = 0;
    for seed in 0..seeds {
        let shown = ondol_testkit::page_table::operations(seed, 6_000);
        assert_eq!(shown.wrong, None, "seed {seed}");
        states += shown.states;
    }
    println!("{states} states");
}
