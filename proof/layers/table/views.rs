//! Views show what their blocks hold: across writes, swaps, remaps and discards, beside other threads, and within the
//! process's mappings.

use crate::rig::{BLOCKS, Op, PAGE, page, pool, read};
use ondol_block::BlockStore;
use ondol_env::sync::Arc;
use ondol_faults::Defect;
use ondol_medium::{AreaKind, Domain, Nvm, Pool, PoolSpec};
use ondol_page_table::{PageTable, Remapping, TableError, TableSpec, View, ViewSpec};
use ondol_schedule::{Schedule, Task};
use proptest::prelude::*;

const P: u64 = PAGE as u64;

fn spec(remapping: Remapping) -> ViewSpec {
    ViewSpec { blocks: 0..BLOCKS, remapping, ..ViewSpec::default() }
}

fn table() -> PageTable {
    let table = PageTable::attach(&pool()).unwrap();
    (0..4).for_each(|n| table.write(n * P, &page(n as u8 + 1)).unwrap());
    table.flush().unwrap();
    table
}

fn block<T: std::ops::Deref<Target = PageTable>>(view: &View<T>, n: u64) -> Vec<u8> {
    let mut bytes = vec![0; PAGE];
    view.read(n * P, &mut bytes).unwrap();
    bytes
}

#[test]
fn a_view_goes_with_its_blocks() {
    let table = table();
    let view = View::new(&table, &spec(Remapping::Transaction)).unwrap();
    let stats = view.stats();
    assert_eq!((stats.shown, stats.waiting, stats.unmapped), (BLOCKS, 0, None));
    assert!(block(&view, 2) == page(3) && block(&view, 5) == [0; PAGE]);
    assert_eq!(view.stats().looked_up, 0, "mapped");
    // A write is seen at once, by look-up, and mapped by the flush.
    table.write(2 * P, &page(9)).unwrap();
    assert!(block(&view, 2) == page(9) && block(&view, 1) == page(2));
    assert_eq!((view.stats().waiting, view.stats().shown, view.stats().looked_up), (1, BLOCKS - 1, 1));
    table.write(2 * P + 10, &[7; 5]).unwrap();
    table.flush().unwrap();
    assert_eq!((view.stats().waiting, view.stats().shown), (0, BLOCKS));
    let mut expected = page(9);
    expected[10..15].fill(7);
    assert!(block(&view, 2) == expected);
    // In place where the page is nobody's yet: read by look-up, too.
    table.write(3 * P, &page(10)).unwrap();
    view.refresh();
    table.write(3 * P + 100, &[5; 8]).unwrap();
    assert_eq!(view.stats().waiting, 1);
    let mut expected = page(10);
    expected[100..108].fill(5);
    assert!(block(&view, 3) == expected);
    // Swaps, and what has no page.
    table.swap(0, 5).unwrap();
    assert!(block(&view, 0) == [0; PAGE] && block(&view, 5) == page(1));
    table.discard(P, P).unwrap();
    assert!(block(&view, 1) == [0; PAGE]);
    table.flush().unwrap();
    let fresh = table.fresh().unwrap();
    table.fill(&fresh, 0, &page(11)).unwrap();
    table.remap(4, fresh).unwrap();
    let looked_up = view.stats().looked_up;
    let all = [vec![0; PAGE], vec![0; PAGE], page(9), expected.clone(), page(11), page(1)];
    (0..BLOCKS).filter(|n| *n != 2).for_each(|n| assert!(block(&view, n) == all[n as usize], "block {n}"));
    assert_eq!(view.stats().looked_up, looked_up, "all are mapped");
    let e = view.read(BLOCKS * P - 1, &mut [0; 2]).unwrap_err();
    assert!(matches!(e, TableError::OutsideView { .. }), "{e}");
    assert!(View::new(&table, &ViewSpec { blocks: 3..BLOCKS + 1, ..ViewSpec::default() }).is_err());
}

#[test]
fn neighbours_are_mapped_by_one_call_for_a_transaction_and_one_for_each_at_once() {
    let table = table();
    let (once, each) =
        (View::new(&table, &spec(Remapping::Transaction)), View::new(&table, &spec(Remapping::Immediate)));
    let (once, each) = (once.unwrap(), each.unwrap());
    let calls = || (once.stats().calls, each.stats().calls);
    let before = calls();
    let mut transaction = table.transaction();
    transaction.swap(0, 2);
    transaction.swap(1, 3);
    transaction.commit().unwrap();
    // Two runs of two: 2, 3 and 0, 1.
    assert_eq!(calls(), (before.0 + 2, before.1 + 4));
    assert_eq!((each.stats().waiting, each.stats().shown), (0, BLOCKS));
    let before = calls();
    table.write(0, &[page(20), page(21)].concat()).unwrap();
    assert_eq!(calls(), (before.0, before.1 + 2));
    table.flush().unwrap();
    assert_eq!(calls(), (before.0 + 1, before.1 + 2));
    for n in 0..BLOCKS {
        let mut bytes = vec![0; PAGE];
        table.read(n * P, &mut bytes).unwrap();
        assert!(block(&once, n) == bytes && block(&each, n) == bytes, "block {n}");
    }
}

#[test]
fn beyond_its_mappings_a_view_looks_up() {
    let table = table();
    for n in 0..BLOCKS {
        table.write(n * P, &page(n as u8)).unwrap();
        // No two pages are neighbours.
        let other = table.fresh().unwrap();
        table.flush().unwrap();
        table.give_back(other);
    }
    let few = ViewSpec { most_mappings: Some(4), ..spec(Remapping::Transaction) };
    let view = View::new(&table, &few).unwrap();
    let stats = view.stats();
    assert!(stats.shown > 0 && stats.shown < BLOCKS && stats.mappings <= 4, "{stats:?}");
    (0..BLOCKS).for_each(|n| assert!(block(&view, n) == page(n as u8), "block {n}"));
    assert!(view.stats().looked_up > 0);
    table.swap(0, 5).unwrap();
    assert!(block(&view, 0) == page(5) && block(&view, 5) == page(0));
}

#[test]
fn what_is_undone_for_reading_alone_is_not_mapped_as_it_lies_there() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let bytes = crate::hostile::scene().0;
    std::fs::write(&path, &bytes).unwrap();
    let options = ondol_medium::NvmOptions { access: ondol_medium::Access::Read, ..Default::default() };
    let table = PageTable::attach(&Pool::open(Nvm::open(&path, &options).unwrap()).unwrap()).unwrap();
    let view = View::new(&table, &spec(Remapping::Transaction)).unwrap();
    let image = read(&table).unwrap();
    (0..BLOCKS).for_each(|n| assert!(block(&view, n)[..] == image[n as usize][..], "block {n}"));
    let stats = view.stats();
    assert!(stats.shown < BLOCKS && stats.shown > 0, "{stats:?}");
}

fn op() -> impl Strategy<Value = Op> {
    let block = || 0..BLOCKS;
    prop_oneof![
        4 => (block(), 1..4u64).prop_map(|(block, n)| Op::Write(block, n.min(BLOCKS - block))),
        4 => (0..BLOCKS * P, 1..9000u64).prop_map(|(at, n)| Op::Part(at, n.min(BLOCKS * P - at))),
        1 => (block(), 1..4u64).prop_map(|(block, n)| Op::Discard(block, n.min(BLOCKS - block))),
        2 => Just(Op::Flush),
        3 => (block(), block()).prop_map(|(a, b)| Op::Swap(a, b)),
        1 => block().prop_map(Op::Remap),
    ]
}

/// Operations, with views of both kinds, and whether they saw what the table had, always.
fn agree(ops: &[Op]) -> Result<(), String> {
    let table = PageTable::attach(&pool()).unwrap();
    let once = View::new(&table, &spec(Remapping::Transaction)).unwrap();
    let each = View::new(&table, &spec(Remapping::Immediate)).unwrap();
    let few = ViewSpec { most_mappings: Some(5), blocks: 1..4, ..spec(Remapping::Transaction) };
    let few = View::new(&table, &few).unwrap();
    for (n, op) in ops.iter().enumerate() {
        op.run(&table, (n * 5 + 1) as u8);
        let mut bytes = vec![0; (BLOCKS * P) as usize];
        for (view, which) in [(&once, "once"), (&each, "each")] {
            let image = read(&table).unwrap().concat();
            view.read(0, &mut bytes).unwrap();
            if bytes != image {
                return Err(format!("{which}, after {n}: {op:?}"));
            }
            for at in (0..BLOCKS * P - 300).step_by(1777) {
                view.read(at, &mut bytes[..300]).unwrap();
                if bytes[..300] != image[at as usize..at as usize + 300] {
                    return Err(format!("{which}, byte {at}, after {n}: {op:?}"));
                }
            }
            few.read(100, &mut bytes[..3 * PAGE - 100]).unwrap();
            if bytes[..3 * PAGE - 100] != image[PAGE + 100..4 * PAGE] {
                return Err(format!("few, after {n}: {op:?}"));
            }
        }
    }
    table.flush().unwrap();
    if once.stats().waiting + each.stats().waiting > 0 {
        return Err("something waits after a flush".into());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn views_show_what_the_table_has(ops in proptest::collection::vec(op(), 1..40)) {
        prop_assert_eq!(agree(&ops), Ok(()));
    }
}

#[test]
fn a_view_that_shows_old_pages_is_found_out() {
    let ops = [Op::Write(0, 3), Op::Flush, Op::Write(0, 1), Op::Write(1, 2), Op::Flush, Op::Swap(0, 4)];
    assert_eq!(agree(&ops), Ok(()));
    let _planted = ondol_faults::set(Some(Defect::TableShownTooLong)).unwrap();
    assert!(agree(&ops).is_err());
}

/// Blocks 0 and 1 are swapped and written, and every reader finds one of the contents that there were, whole.
fn crowd(table: &Arc<PageTable>, remapping: Remapping) -> Vec<Task> {
    let task = |work: fn(&Arc<PageTable>, Remapping)| -> Task {
        let table = table.clone();
        Box::new(move || work(&table, remapping))
    };
    let reader = |table: &Arc<PageTable>, remapping| {
        let view = View::new(table.clone(), &spec(remapping)).unwrap();
        for n in 0..8 {
            let found = block(&view, n % 4);
            let of = if n % 4 < 2 { 1..3 } else { 50..54 };
            let is_whole = of.chain((n % 4 > 1).then_some(n as u8 % 4 + 1)).any(|tag| found == page(tag));
            assert!(is_whole, "block {} is torn, or another's", n % 4);
            let mut both = vec![0; 2 * PAGE];
            view.read(0, &mut both).unwrap();
            assert!(both[..PAGE] != both[PAGE..], "a swap is seen half done");
        }
    };
    vec![
        task(|table, _| (0..4).for_each(|_| table.swap(0, 1).unwrap())),
        task(|table, _| {
            for n in 0..4 {
                table.write(2 * P, &page(50 + n)).unwrap();
                if n % 2 == 1 {
                    table.flush().unwrap();
                }
            }
        }),
        task(|table, _| {
            for n in 0..4 {
                table.write(3 * P, &page(50 + n)).unwrap();
                // Pages are used again.
                (0..4).for_each(|more| table.write(5 * P, &page(80 + more)).unwrap());
            }
        }),
        task(reader),
        task(reader),
    ]
}

#[test]
fn readers_of_views_beside_writers_and_swaps_in_any_order() {
    for remapping in [Remapping::Transaction, Remapping::Immediate] {
        let steps = Schedule::in_turn(0).run(crowd(&Arc::new(table()), remapping)).unwrap().steps;
        for number in 0..80 {
            let table = Arc::new(table());
            if let Err(e) = Schedule::fitted(steps, number).run(crowd(&table, remapping)) {
                panic!("{remapping:?}: {e}");
            }
            let view = View::new(&*table, &spec(remapping)).unwrap();
            let expected = [page(1), page(2), page(53), page(53)];
            (0..4).for_each(|n| assert!(block(&view, n) == expected[n as usize], "block {n}"));
        }
    }
}

#[test]
fn schedules_find_a_view_that_shows_old_pages() {
    let rig = || crowd(&Arc::new(table()), Remapping::Transaction);
    let steps = Schedule::in_turn(0).run(rig()).unwrap().steps;
    let _planted = ondol_faults::set(Some(Defect::TableShownTooLong)).unwrap();
    assert!((0..40).any(|number| Schedule::fitted(steps, number).run(rig()).is_err()));
}

/// The tag whose page this is, whole.
fn tag_of(bytes: &[u8]) -> Option<u8> {
    (0..=255).find(|tag: &u8| bytes[0] == tag.wrapping_mul(31)).filter(|tag| bytes == page(*tag))
}

/// Threads of the machine, on every kind of domain.
#[test]
#[allow(clippy::disallowed_methods, reason = "a test")]
fn threads_read_views_of_what_others_change() {
    for domain in [Domain::Volatile, Domain::Eadr] {
        let nvm = Nvm::volatile(4 << 20).unwrap().with_domain(domain).unwrap();
        let mut pool = Pool::create(nvm, &PoolSpec::default()).unwrap();
        TableSpec { uuid: [5; 16], blocks: Some(16), reserve: Some(40) }.make(&mut pool).unwrap();
        assert!(pool.area(AreaKind::PAGE_DATA).is_some());
        let table = PageTable::attach(&pool).unwrap();
        (0..16).for_each(|n| table.write(n * P, &page(n as u8)).unwrap());
        table.flush().unwrap();
        let view = View::new(&table, &ViewSpec { blocks: 0..16, ..ViewSpec::default() }).unwrap();
        let reads: u64 = std::thread::scope(|s| {
            let readers: Vec<_> = (0..3)
                .map(|of| {
                    let (view, mut pair) = (&view, vec![0; 2 * PAGE]);
                    s.spawn(move || {
                        for n in 0..3_000u64 {
                            let first = (n + of) % 8 * 2;
                            view.read(first * P, &mut pair).unwrap();
                            // Two blocks are swapped, or written with the same tag by one call each.
                            let tags = [&pair[..PAGE], &pair[PAGE..]].map(tag_of);
                            assert!(tags[0].is_some() && tags[1].is_some(), "block {first}: {tags:?}");
                            assert!(first >= 8 || tags[0] != tags[1], "a swap is seen half done");
                        }
                        3_000
                    })
                })
                .collect();
            let mut n = 0u8;
            while readers.iter().any(|reader| !reader.is_finished()) {
                n = n.wrapping_add(1);
                let pair = u64::from(n) % 4 * 2;
                table.swap(pair, pair + 1).unwrap();
                table.write((8 + u64::from(n) % 8) * P, &page(n)).unwrap();
                if n.is_multiple_of(5) {
                    table.flush().unwrap();
                    std::thread::yield_now();
                }
            }
            readers.into_iter().map(|reader| reader.join().unwrap()).sum()
        });
        assert_eq!(reads, 9_000);
        println!("{domain}: {:?}", view.stats());
    }
}
