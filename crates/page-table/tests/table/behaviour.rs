//! What callers are promised, counted where it is a count.

use crate::rig::{BLOCKS, PAGE, PAGES, page, pool, read};
use ondol_block::BlockStore;
use ondol_medium::{Nvm, NvmOptions, Pool};
use ondol_page_table::{PageTable, TableError};
use std::io::IoSlice;

const P: u64 = PAGE as u64;

fn block(table: &PageTable, block: u64) -> Vec<u8> {
    let mut bytes = vec![0; PAGE];
    table.read(block * P, &mut bytes).unwrap();
    bytes
}

/// Fences, lines written back and bytes copied of what `call` does.
fn costs(table: &PageTable, call: impl FnOnce()) -> (u64, u64, u64) {
    let before = table.nvm().stats();
    call();
    let after = table.nvm().stats();
    (after.fences - before.fences, after.lines - before.lines, after.copied_bytes - before.copied_bytes)
}

#[test]
fn each_change_costs_what_the_design_says() {
    let table = PageTable::attach(&pool()).unwrap();
    let two = [page(1), page(2)].concat();
    assert_eq!(costs(&table, || table.write(0, &two).unwrap()), (1, 0, 2 * P), "one fence a write, each byte once");
    assert_eq!(costs(&table, || table.flush().unwrap()), (1, 1, 0), "one fence and a line of the map");
    assert_eq!(costs(&table, || table.flush().unwrap()), (0, 0, 0), "nothing is new");
    assert_eq!(costs(&table, || table.swap(0, 1).unwrap()), (4, 4, 0), "records, open, changes, commit");
    assert_eq!(costs(&table, || table.swap(1, 1).unwrap()), (0, 0, 0));
    let fresh = table.fresh().unwrap();
    table.fill(&fresh, 0, &page(3)).unwrap();
    assert_eq!(costs(&table, || table.remap(0, fresh).unwrap()), (1, 1, 0), "one entry is one word");
    let many = || {
        let mut transaction = table.transaction();
        (0..3).for_each(|n| transaction.swap(n, n + 3));
        transaction.commit().unwrap();
    };
    // Blocks 0 and 1 have pages, and change places with 3 and 4; nothing and nothing are no change.
    assert_eq!(costs(&table, many), (4, 2 + 1 + 1 + 1, 0));
    // A second write before the flush goes to the page that nobody has yet, or replaces it.
    table.write(0, &page(7)).unwrap();
    assert_eq!(costs(&table, || table.write(100, &[1; 100]).unwrap()).0, 1);
    assert_eq!(table.stats().late, 1);
}

#[test]
fn blocks_are_exchanged_with_bytes_of_another() {
    let table = PageTable::attach(&pool()).unwrap();
    table.write(0, &[page(1), page(2), page(3), page(4), page(5)].concat()).unwrap();
    let swaps = table.caps().swap.expect("an exchange");
    assert_eq!((swaps.block, swaps.pairs < table.log_lines()), (PAGE as u32, true));
    // What was written before is durable, too: a line of the map. Then records of swaps and bytes, state, map, bytes,
    // state.
    let (fences, _, copied) = costs(&table, || table.exchange(&[(0, 2), (1, 5)], 4 * P + 100, &[9; 12]).unwrap());
    assert_eq!((fences, copied), (5, 0));
    let mut with_bytes = page(5);
    with_bytes[100..112].fill(9);
    let now = [page(3), vec![0; PAGE], page(1), page(4), with_bytes, page(2)];
    assert_eq!(read(&table).unwrap().iter().map(|block| block.to_vec()).collect::<Vec<_>>(), now);
    assert!(table.exchange(&[(0, BLOCKS)], 0, &[1]).is_err() && table.exchange(&[], BLOCKS * P, &[1]).is_err());
    assert_eq!(block(&table, 0), page(3), "nothing has happened");
}

#[test]
fn unmapped_blocks_are_zeros_and_discard_returns_their_pages() {
    let table = PageTable::attach(&pool()).unwrap();
    assert_eq!((block(&table, 3), table.stats().free), (vec![0; PAGE], PAGES));
    table.write(0, &vec![7; 3 * PAGE]).unwrap();
    table.flush().unwrap();
    assert_eq!(table.stats().free, PAGES - 3);
    // Only what lies in the range as a whole.
    assert!(table.discard(P - 1, P + 2).unwrap());
    table.flush().unwrap();
    assert_eq!((block(&table, 0), block(&table, 1), block(&table, 2)), (vec![7; PAGE], vec![0; PAGE], vec![7; PAGE]));
    assert_eq!((table.stats().free, table.page(1).unwrap()), (PAGES - 2, None));
    table.write(P + 5, b"x").unwrap();
    assert_eq!(block(&table, 1)[4..7], [0, b'x', 0]);
}

#[test]
fn vectored_writes_of_any_cut_are_one() {
    let table = PageTable::attach(&pool()).unwrap();
    let bytes: Vec<u8> = (0..4 * PAGE).map(|n| (n / 3) as u8).collect();
    let (a, b, c) = (&bytes[..1000], &bytes[1000..1000], &bytes[1000..10_000]);
    let bufs = [a, b, c, &bytes[10_000..]].map(IoSlice::new);
    table.write_vectored(3000, &bufs).unwrap();
    let mut found = vec![0; bytes.len()];
    table.read(3000, &mut found).unwrap();
    assert!(found == bytes);
    table.write_vectored(0, &[]).unwrap();
    table.write(BLOCKS * P - 1, &[1, 2]).unwrap_err();
    table.read(BLOCKS * P, &mut [0]).unwrap_err();
    assert_eq!((table.stats().late, BlockStore::stats(&table).writes), (5, 2));
}

#[test]
fn a_full_image_can_be_written_over_and_over() {
    let pool = pool();
    let table = PageTable::attach(&pool).unwrap();
    for round in 0..20 {
        let bytes = vec![round; (BLOCKS * P) as usize];
        table.write(0, &bytes).unwrap();
        (0..BLOCKS).for_each(|n| table.write(n * P + 9, &[round + 1]).unwrap());
        assert_eq!(block(&table, BLOCKS - 1)[8..11], [round, round + 1, round]);
    }
    table.flush().unwrap();
    assert_eq!(table.stats().free, PAGES - BLOCKS);
}

#[test]
fn a_transaction_that_does_not_fit_changes_nothing() {
    let pool = pool();
    let table = PageTable::attach(&pool).unwrap();
    table.write(0, &[page(1), page(2)].concat()).unwrap();
    table.flush().unwrap();
    let before = pool.nvm().to_bytes().unwrap();
    let most = table.log_lines();
    let mut transaction = table.transaction();
    transaction.swap(0, 1);
    (0..3).for_each(|_| transaction.store(0, 0, &[9; PAGE]));
    assert!(transaction.lines() > most);
    match transaction.commit() {
        Err(TableError::TooLarge { lines, most: limit, .. }) => assert_eq!((lines, limit), (196, most)),
        other => panic!("{other:?}"),
    }
    for (a, b) in [(0, BLOCKS), (u64::MAX, 0)] {
        assert!(matches!(table.swap(a, b), Err(TableError::OutOfRange { .. })));
    }
    let mut transaction = table.transaction();
    transaction.swap(0, 1);
    transaction.store(5, 0, b"x");
    assert!(matches!(transaction.commit(), Err(TableError::Unmapped { block: 5, .. })));
    let fresh = table.fresh().unwrap();
    let mut transaction = table.transaction();
    transaction.remap(0, fresh);
    transaction.store(0, 4090, b"over the end");
    assert!(matches!(transaction.commit(), Err(TableError::OutOfRange { block: 0, .. })));
    assert!(pool.nvm().to_bytes().unwrap() == before && table.stats().free == PAGES - 2);
    drop(table.transaction());
    table.swap(0, 1).unwrap();
    assert_eq!((block(&table, 0), block(&table, 1)), (page(2), page(1)));
}

#[test]
fn later_changes_of_a_transaction_see_the_earlier_ones() {
    let pool = pool();
    let table = PageTable::attach(&pool).unwrap();
    table.write(0, &[page(1), page(2), page(3)].concat()).unwrap();
    let mut transaction = table.transaction();
    transaction.swap(0, 1);
    transaction.swap(1, 2);
    // Block 1 has now what block 2 had.
    transaction.store(1, 0, b"warm");
    transaction.store(1, 2, b"floor");
    transaction.commit().unwrap();
    let changed = |mut page: Vec<u8>| {
        page[..7].copy_from_slice(b"wafloor");
        page
    };
    assert_eq!(block(&table, 0), page(2));
    assert_eq!(block(&table, 1), changed(page(3)));
    assert_eq!(block(&table, 2), page(1));
    drop(table);
    assert_eq!(block(&PageTable::attach(&pool).unwrap(), 1), changed(page(3)));
}

#[test]
fn a_pool_that_is_only_read_is_not_changed() {
    let dir = tempfile();
    let path = dir.join(format!("ondol-page-table-{}", std::process::id()));
    let made = pool();
    std::fs::write(&path, made.nvm().to_bytes().unwrap()).unwrap();
    let table = |access| {
        let nvm = Nvm::open(&path, &NvmOptions { access, ..NvmOptions::default() }).unwrap();
        Pool::open(nvm).and_then(|pool| PageTable::attach(&pool).map_err(|e| panic!("{e}"))).unwrap()
    };
    let written = table(ondol_medium::Access::Write);
    written.write(0, &page(1)).unwrap();
    written.flush().unwrap();
    drop(written);
    let before = std::fs::read(&path).unwrap();
    let only = table(ondol_medium::Access::Read);
    assert!(only.caps().read_only && read(&only).unwrap()[0][..] == page(1)[..]);
    for refused in [only.write(0, b"x"), only.discard(0, P).map(drop)] {
        assert!(matches!(refused, Err(ondol_block::BlockError::ReadOnly { .. })), "{refused:?}");
    }
    assert!(matches!(only.swap(0, 1), Err(TableError::ReadOnly { .. })));
    drop(only);
    assert!(std::fs::read(&path).unwrap() == before);
    std::fs::remove_file(&path).unwrap();
}

fn tempfile() -> std::path::PathBuf {
    std::env::temp_dir()
}
