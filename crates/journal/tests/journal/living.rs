//! What transactions of block engines are made of: why they are committed, and what they have of blocks that are freed in them.

use crate::classic::Classic;
use crate::compressed::Compressed;
use crate::contract::{BLOCK, Bench, HOME, META, Rig, bench, bench_with, config};
use ondol_journal::{Config, EngineStats};

fn each(test: impl Fn(&dyn Rig)) {
    test(&Classic);
    test(&Compressed { zeroing: false });
}

/// Commits that somebody asked for, and those of old transactions, of dirty ones, of ones that keep much, and for promises.
fn reasons(stats: &EngineStats) -> [u64; 5] {
    let EngineStats { commits_asked, commits_age, commits_dirty, commits_kept, commits_promises, .. } = *stats;
    [commits_asked, commits_age, commits_dirty, commits_kept, commits_promises]
}

/// Lets the background do what there is to do.
fn idle(b: &Bench) {
    b.engine.steps().iter().for_each(|step| assert!(step.step().is_ok()));
}

fn fill(b: &Bench, blocks: std::ops::Range<u64>) {
    let mut h = b.handle(blocks.clone().count() as u32);
    blocks.for_each(|block| h.write(block, META, 0, &[1; BLOCK]).unwrap());
    h.close();
}

#[test]
fn why_transactions_are_committed_is_counted() {
    each(|rig| {
        let b = bench_with(rig, Config { dirty_bytes: 100 * BLOCK as u64, ..config() });
        fill(&b, HOME..HOME + 1);
        b.sync();
        fill(&b, HOME..HOME + 1);
        idle(&b);
        assert_eq!(reasons(&b.engine.stats()), [1, 0, 0, 0, 0], "it is neither old nor large");
        b.env.advance(6_000_000_000);
        idle(&b);
        fill(&b, HOME..HOME + 100);
        idle(&b);
        let stats = b.engine.stats();
        assert_eq!((reasons(&stats), stats.commits), ([1, 1, 1, 0, 0], 3));
    });
}

#[test]
fn a_transaction_that_has_had_its_space_promised_is_committed_for_that() {
    each(|rig| {
        let b = bench(rig);
        let most = u64::from(b.engine.max_blocks());
        (0..most / 100 + 1).for_each(|n| fill(&b, HOME + n * 100..HOME + n * 100 + 99));
        idle(&b);
        let stats = b.engine.stats();
        assert!(stats.commits_promises > 0 && stats.commits_promises == stats.commits, "{stats:?}");
    });
}
