//! The buffer against plain files: any operations, with so few blocks that watermark, shortage, reclaim and compaction
//! happen all the time.

mod common;

use common::{BLOCK, Op, Rig};
use proptest::prelude::*;

fn op() -> impl Strategy<Value = Op> {
    let file = 0usize..3;
    let offset = prop_oneof![0u64..4 * BLOCK, (0u64..8).prop_map(|n| n * BLOCK), 0u64..20 * BLOCK];
    let len =
        prop_oneof![4 => 1usize..40, 3 => 100usize..300, 2 => Just(512usize), 2 => 500usize..3000, 1 => Just(0usize)];
    prop_oneof![
        12 => (file.clone(), offset.clone(), len.clone())
            .prop_map(|(file, offset, len)| Op::Write { file, offset, len }),
        2 => (file.clone(), 0u64..6 * BLOCK).prop_map(|(file, len)| Op::SetLen { file, len }),
        1 => file.clone().prop_map(|file| Op::Remove { file }),
        3 => (file.clone(), offset, len).prop_map(|(file, offset, len)| Op::Read { file, offset, len }),
        3 => (0usize..2).prop_map(Op::Flush),
        1 => Just(Op::Sync),
        2 => Just(Op::Reclaim),
        1 => Just(Op::Settle),
        1 => file.prop_map(|file| Op::Close { file }),
        1 => Just(Op::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn as_with_plain_files(blocks in prop_oneof![Just(8u64), Just(16), Just(24)],
            ops in proptest::collection::vec(op(), 1..80)) {
        let mut rig = Rig::new(blocks);
        for op in &ops {
            rig.apply(op);
            rig.check();
        }
        rig.buffer.settle().unwrap();
        rig.check();
        rig.check_home();
        let stats = rig.buffer.stats();
        prop_assert_eq!(stats.dirty_bytes, 0);
    }
}

/// The strategy does what it is for: every stage has had work.
#[test]
fn nothing_is_left_out() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let (mut waits, mut compactions, mut syncs, mut whole, mut small) = (0, 0, 0, 0, 0);
    for _ in 0..40 {
        let ops = proptest::collection::vec(op(), 80).new_tree(&mut runner).unwrap().current();
        let mut rig = Rig::new(16);
        for op in ops.iter().filter(|op| !matches!(op, Op::Reopen)) {
            rig.apply(op);
        }
        let stats = rig.buffer.stats();
        (waits, compactions) = (waits + stats.waits, compactions + stats.compactions);
        (syncs, whole, small) = (syncs + stats.home_syncs, whole + stats.block_records, small + stats.fragments);
    }
    assert!(
        waits > 50 && compactions > 5 && syncs > 50 && whole > 50 && small > 50,
        "{waits} {compactions} {syncs} {whole} {small}"
    );
}
