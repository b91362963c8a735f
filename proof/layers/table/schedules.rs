//! Readers, writers and swaps, in interleavings that a seed decides, and power cuts of those.

use crate::rig::{BLOCKS, PAGE, PAGES, page, pool, read};
use ondol_block::BlockStore;
use ondol_env::sync::Arc;
use ondol_faults::Defect;
use ondol_medium::Nvm;
use ondol_page_table::{PageTable, check};
use ondol_schedule::{Schedule, Task};
use ondol_testkit::page_table;

const P: u64 = PAGE as u64;

/// Blocks 0 and 1 are swapped, 2 and 3 are written, all by others than who reads; what is read is a whole block that
/// was there.
fn crowd(table: &Arc<PageTable>) -> Vec<Task> {
    let task = |work: fn(&PageTable)| -> Task {
        let table = table.clone();
        Box::new(move || work(&table))
    };
    vec![
        task(|table| (0..4).for_each(|_| table.swap(0, 1).unwrap())),
        task(|table| {
            for n in 0..4 {
                table.write(2 * P, &page(50 + n)).unwrap();
                if n == 2 {
                    table.flush().unwrap();
                }
            }
        }),
        task(|table| {
            for n in 0..3 {
                table.write(3 * P, &page(60 + n)).unwrap();
                // Beside the other writer's bytes, in the same page.
                table.write(4 * P + 100, &[n; 100]).unwrap();
            }
        }),
        task(|table| {
            for n in 0..3 {
                table.write(4 * P + 200, &[n; 100]).unwrap();
                table.discard(5 * P, P).unwrap();
                table.write(5 * P, &page(70)).unwrap();
            }
        }),
        task(|table| {
            for n in 0..6 {
                let block = n % 3;
                let mut bytes = vec![0; PAGE];
                table.read(block * P, &mut bytes).unwrap();
                let of = if block < 2 { 1..3 } else { 50..54 };
                let is_whole = of.chain([3]).any(|tag| bytes == page(tag));
                assert!(is_whole, "block {block} is torn, or another's");
            }
        }),
    ]
}

fn rig() -> Arc<PageTable> {
    let table = PageTable::attach(&pool()).unwrap();
    (0..3).for_each(|n| table.write(n * P, &page(n as u8 + 1)).unwrap());
    Arc::new(table)
}

#[test]
fn readers_writers_and_swaps_in_any_order() {
    let steps = Schedule::in_turn(0).run(crowd(&rig())).unwrap().steps;
    for number in 0..150 {
        let table = rig();
        if let Err(e) = Schedule::fitted(steps, number).run(crowd(&table)) {
            panic!("{e}");
        }
        let table = Arc::into_inner(table).expect("no task has it any more");
        table.flush().unwrap();
        let image = read(&table).unwrap();
        let expected = [page(1), page(2), page(53), page(62)];
        (0..4).for_each(|n| assert!(image[n][..] == expected[n][..], "block {n}"));
        let mut shared = vec![0; PAGE];
        shared[100..300].fill(2);
        assert!(image[4][..] == shared[..] && image[5][..] == page(70)[..]);
        assert_eq!(table.stats().free, PAGES - BLOCKS);
        let pool = ondol_medium::Pool::open(Nvm::from_bytes(&table.nvm().to_bytes().unwrap()).unwrap()).unwrap();
        assert_eq!(check(&pool).unwrap().problems, Vec::<String>::new());
        drop(table);
        assert!(read(&PageTable::attach(&pool).unwrap()).unwrap() == image);
    }
}

#[test]
fn cuts_of_interleavings() {
    let count = std::env::var("TABLE_SCHEDULES").ok().and_then(|n| n.parse().ok()).unwrap_or(80);
    let mut states = 0;
    for number in 0..count {
        let shown = page_table::threads(number, 150);
        assert_eq!(shown.wrong, None, "interleaving {number}");
        states += shown.states;
    }
    println!("{states} states");
    for defect in [Defect::TableEarlyReuse, Defect::TablePublishBeforeData, Defect::TableCommitBeforeChange] {
        let _planted = ondol_faults::set(Some(defect)).unwrap();
        let found = (0..10).find(|number| page_table::threads(*number, 150).wrong.is_some());
        println!("{defect}: {found:?}");
        assert!(found.is_some(), "{defect}");
    }
}
