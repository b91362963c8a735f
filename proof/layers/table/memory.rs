//! Pages as memory: which blocks' pages can be had, what is refused, and that all of them come back.

use crate::rig::{PAGE, opened, page, read};
use ondol_block::{BlockStore, Memory, Own, PageLender, Pin};
use ondol_faults::Defect;
use ondol_medium::{AreaKind, Nvm, Pool, PoolSpec};
use ondol_page_table::{PageTable, TableError, TableSpec, check};
use std::ops::Range;

const P: u64 = PAGE as u64;
const BLOCKS: u64 = 16;
const PAGES: u64 = BLOCKS + 24;

fn pool() -> Pool {
    let mut pool = Pool::create(Nvm::volatile(2 << 20).unwrap(), &PoolSpec::default()).unwrap();
    TableSpec { uuid: [4; 16], blocks: Some(BLOCKS), reserve: Some(PAGES - BLOCKS) }.make(&mut pool).unwrap();
    pool
}

/// Fills a lent page.
fn fill(pool: &Pool, page: u32, bytes: &[u8]) {
    let mut batch = pool.nvm().stored();
    batch.copy(pool.area(AreaKind::PAGE_DATA).unwrap().start + u64::from(page) * P, bytes).unwrap();
    let _fenced = batch.write_back().fence().unwrap();
}

fn lender(table: &PageTable) -> &dyn PageLender {
    table.lender().unwrap()
}

/// The memory, or the blocks that are busy.
fn own(table: &PageTable, blocks: Range<u64>) -> Result<Box<dyn Memory>, Vec<u64>> {
    own_all(table, std::slice::from_ref(&blocks))
}

fn own_all(table: &PageTable, blocks: &[Range<u64>]) -> Result<Box<dyn Memory>, Vec<u64>> {
    match lender(table).own(blocks).unwrap() {
        Own::Memory(memory) => Ok(memory),
        Own::Busy(blocks) => Err(blocks),
        Own::Short | Own::Refused(_) => Err(Vec::new()),
    }
}

fn scribble(memory: &mut dyn Memory, salt: usize) {
    memory.bytes_mut().iter_mut().enumerate().for_each(|(n, byte)| *byte = (n / 7 + salt) as u8);
}

fn is_scribbled(memory: &dyn Memory, salt: usize) -> bool {
    memory.bytes().iter().enumerate().all(|(n, byte)| *byte == (n / 7 + salt) as u8)
}

#[test]
fn pages_of_blocks_and_free_ones_are_memory_and_come_back() {
    let pool = pool();
    let table = PageTable::attach(&pool).unwrap();
    table.write(0, &page(1).repeat(4)).unwrap();
    table.flush().unwrap();
    let before = table.stats();
    // Two that have pages, and three that have none.
    let mut memory = own_all(&table, &[2..4, 5..8]).unwrap_or_else(|_| panic!("busy"));
    assert!(memory.bytes().len() == 5 * PAGE && memory.bytes().iter().all(|byte| *byte == 0));
    assert_eq!((table.stats().free, lender(&table).page_use().memory), (before.free - 3, 5));
    scribble(&mut *memory, 1);
    // All others are written as ever, whatever is memory.
    for n in 0..6 {
        let others = (0..2).chain([4]).chain(8..BLOCKS);
        others.for_each(|block| table.write(block * P, &page(n)).unwrap());
        table.flush().unwrap();
    }
    assert!(is_scribbled(&*memory, 1));
    // Another attaches meanwhile: nothing is to be undone.
    let again = PageTable::attach(&opened(&pool.nvm().to_bytes().unwrap())).unwrap();
    assert_eq!(read(&again).unwrap()[..2], [page(5).into(), page(5).into()]);
    assert_eq!(own(&table, 3..9).err(), Some(vec![3]), "a page is given once");
    drop(memory);
    assert_eq!(lender(&table).page_use().memory, 0);
    assert_eq!(table.stats().free, PAGES - (4 + 1 + (BLOCKS - 8)));
    table.write(0, &page(3).repeat(BLOCKS as usize)).unwrap();
    table.flush().unwrap();
    assert_eq!(table.stats().free, PAGES - BLOCKS);
    assert!(check(&pool).unwrap().problems.is_empty());
}

#[test]
fn what_others_speak_of_is_busy() {
    let pool = pool();
    let table = PageTable::attach(&pool).unwrap();
    table.write(0, &page(1).repeat(6)).unwrap();
    table.flush().unwrap();
    let lent = lender(&table).lend(2).unwrap().unwrap();
    lent.iter().for_each(|page| fill(&pool, *page, &crate::rig::page(9)));
    lender(&table).remap(&[(0, lent[0]), (7, lent[1])]).unwrap();
    table.write(P, &page(2)).unwrap();
    table.discard(2 * P, P).unwrap();
    let Some(Pin::Bytes(view)) = table.pin(3 * P, P, true).unwrap() else { panic!("no view") };
    // What is late is made durable first.
    assert_eq!(own(&table, 0..9).err(), Some(vec![0, 3, 7]), "of the lent ones a record speaks still");
    lender(&table).give(&lent);
    assert_eq!(own(&table, 0..9).err(), Some(vec![3]));
    drop(view);
    assert_eq!(own(&table, 0..9).ok().map(|memory| memory.bytes().len()), Some(9 * PAGE));
    let beyond = [0..1, BLOCKS - 1..BLOCKS + 1];
    assert!(lender(&table).own(&beyond).is_err());
    assert_eq!(lender(&table).page_use().memory, 0);
}

/// What a log still names is as the log has it.
#[test]
fn a_lent_page_is_not_given_away() {
    let changed = |defect| {
        let _planted = ondol_faults::set(defect).unwrap();
        let pool = pool();
        let table = PageTable::attach(&pool).unwrap();
        let lent = lender(&table).lend(1).unwrap().unwrap();
        fill(&pool, lent[0], &page(9));
        lender(&table).remap(&[(0, lent[0])]).unwrap();
        table.flush().unwrap();
        drop(own(&table, 0..1));
        let mut bytes = vec![0; PAGE];
        table.read(0, &mut bytes).unwrap();
        bytes != page(9)
    };
    assert!(!changed(None) && changed(Some(Defect::TableOwnsLent)));
}

#[test]
fn a_block_that_is_written_or_discarded_all_the_same_gets_another_page() {
    let pool = pool();
    let mut table = PageTable::attach(&pool).unwrap();
    table.write(0, &page(1).repeat(4)).unwrap();
    table.flush().unwrap();
    let mut memory = own(&table, 0..4).unwrap_or_else(|_| panic!("busy"));
    scribble(&mut *memory, 2);
    assert!(matches!(table.flatten(), Err(TableError::InHands { .. })));
    table.write(0, &page(7)).unwrap();
    table.write(P + 100, &[7; 200]).unwrap();
    table.discard(2 * P, P).unwrap();
    table.flush().unwrap();
    (0..3 * PAGES).for_each(|n| table.write((4 + n % (BLOCKS - 4)) * P, &page(n as u8)).unwrap());
    table.flush().unwrap();
    assert!(is_scribbled(&*memory, 2));
    assert_eq!(read(&table).unwrap()[0][..], page(7));
    assert_eq!(lender(&table).page_use().held, 3, "theirs, which nothing but the memory keeps");
    drop(memory);
    assert_eq!((lender(&table).page_use().held, table.stats().free), (0, PAGES - (BLOCKS - 1)));
    table.flatten().unwrap();
    assert!(check(&pool).unwrap().problems.is_empty());
}
