//! Random operations against plain memory, and attaching in between.

use crate::rig::{BLOCKS, Image, Op, PAGE, PAGES, pool, read};
use ondol_block::BlockStore;
use ondol_page_table::{PageTable, check};
use proptest::prelude::*;

fn op() -> impl Strategy<Value = Op> {
    let block = || 0..BLOCKS;
    prop_oneof![
        4 => (block(), 1..4u64).prop_map(|(block, n)| Op::Write(block, n.min(BLOCKS - block))),
        4 => (0..BLOCKS * PAGE as u64, 1..9000u64).prop_map(|(at, n)| Op::Part(at, n.min(BLOCKS * PAGE as u64 - at))),
        1 => (block(), 1..4u64).prop_map(|(block, n)| Op::Discard(block, n.min(BLOCKS - block))),
        2 => Just(Op::Flush),
        3 => (block(), block()).prop_map(|(a, b)| Op::Swap(a, b)),
        1 => block().prop_map(Op::Remap),
        2 => (any::<[u8; 4]>(), block()).prop_map(|(four, to)| Op::Checkpoint(four.map(|n| u64::from(n) % BLOCKS), to)),
        1 => Just(Op::Attach),
        1 => Just(Op::Flatten),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_table_is_an_array_of_blocks(ops in proptest::collection::vec(op(), 1..40)) {
        let pool = pool();
        let mut table = PageTable::attach(&pool).unwrap();
        let mut image: Image = read(&table).unwrap();
        for (n, op) in ops.into_iter().enumerate() {
            let tag = (n * 5 + 1) as u8;
            let op = match op {
                // A checkpoint stores into a block that has a page, where that is when the blocks are swapped.
                Op::Checkpoint(four, to) => {
                    for block in 0..BLOCKS {
                        if table.page(block).unwrap().is_none() {
                            Op::Write(block, 1).run(&table, tag);
                            image = Op::Write(block, 1).model(&image, tag);
                        }
                    }
                    Op::Checkpoint(four, to)
                }
                Op::Attach => {
                    table.flush().unwrap();
                    drop(table);
                    table = PageTable::attach(&pool).unwrap();
                    Op::Attach
                }
                Op::Flatten => {
                    let done = table.flatten().unwrap();
                    prop_assert!(done.copied >= done.moved && done.copied <= 2 * done.moved, "{done:?}");
                    prop_assert_eq!(table.flatness().displaced, 0);
                    Op::Flatten
                }
                op => op,
            };
            op.run(&table, tag);
            image = op.model(&image, tag);
            prop_assert!(read(&table).unwrap() == image, "{op:?}");
        }
        table.flush().unwrap();
        // No page is lost, and none is given twice.
        let stats = table.stats();
        let mapped = (0..BLOCKS).filter(|block| table.page(*block).unwrap().is_some()).count() as u64;
        prop_assert_eq!((stats.free, stats.late), (PAGES - mapped, 0));
        let report = check(&pool).unwrap();
        prop_assert_eq!((report.mapped, report.open, report.problems), (mapped, false, Vec::new()));
        drop(table);
        prop_assert!(read(&PageTable::attach(&pool).unwrap()).unwrap() == image);
    }
}
