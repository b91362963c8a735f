//! Pages that are lent: whose they are, and when they are free.

use crate::rig::{BLOCKS, PAGE, PAGES, fill, opened, page, pool, read};
use ondol_block::{BlockStore, PageLender};
use ondol_page_table::{PageTable, TableError, TableSpec, check};

const P: u64 = PAGE as u64;

fn lender(table: &PageTable) -> &dyn PageLender {
    table.lender().unwrap()
}

/// Pages that are lent, and those that are free.
fn counts(table: &PageTable) -> (u64, u64) {
    (lender(table).lent(), table.stats().free)
}

#[test]
fn a_part_of_the_reserve_is_lent_and_the_rest_never() {
    let table = PageTable::attach(&pool()).unwrap();
    let most = lender(&table).most_lent();
    assert_eq!((most, lender(&table).page_bytes()), ((PAGES - BLOCKS) / 2, PAGE as u32));
    assert_eq!(lender(&table).lend(most + 1).unwrap(), None);
    let pages = lender(&table).lend(most).unwrap().unwrap();
    assert_eq!((lender(&table).lend(1).unwrap(), counts(&table)), (None, (most, PAGES - most)));
    // Whatever is lent, everything can be written, again and again.
    (0..5).for_each(|n| table.write(0, &page(n).repeat(BLOCKS as usize)).unwrap());
    table.flush().unwrap();
    lender(&table).give(&pages);
    lender(&table).give(&pages);
    assert_eq!(counts(&table), (0, PAGES - BLOCKS));
}

#[test]
fn a_block_gets_a_lent_page_with_the_next_flush() {
    let pool = pool();
    let table = PageTable::attach(&pool).unwrap();
    table.write(0, &[page(1), page(2)].concat()).unwrap();
    table.flush().unwrap();
    let pages = lender(&table).lend(2).unwrap().unwrap();
    fill(&table, pages[0], &page(8));
    fill(&table, pages[1], &page(9));
    assert!(lender(&table).remap(&[(0, pages[0]), (BLOCKS, pages[1])]).is_err());
    assert_eq!(read(&table).unwrap()[0][..], page(1), "nothing has changed");
    let before = table.nvm().stats();
    lender(&table).remap(&[(0, pages[0]), (1, pages[1])]).unwrap();
    lender(&table).remap(&[(0, pages[0]), (1, pages[1])]).unwrap();
    assert_eq!(read(&table).unwrap()[..2], [page(8).into(), page(9).into()]);
    let not_flushed = PageTable::attach(&opened(&pool.nvm().to_bytes().unwrap())).unwrap();
    assert_eq!(read(&not_flushed).unwrap()[..2], [page(1).into(), page(2).into()]);
    assert_eq!(counts(&table), (2, PAGES - 4), "the old pages are not free yet");
    table.flush().unwrap();
    let after = table.nvm().stats();
    assert_eq!(
        (after.fences - before.fences, after.lines - before.lines, after.copied_bytes - before.copied_bytes),
        (1, 1, 0)
    );
    assert_eq!(counts(&table), (2, PAGES - 2));
    lender(&table).give(&pages);
    assert_eq!(counts(&table), (0, PAGES - 2), "they are the table's");
    assert!(check(&pool).unwrap().problems.is_empty());
}

/// As long as a page is lent nobody stores to it, whatever becomes of its entry.
#[test]
fn a_lent_page_is_nobody_elses_even_when_its_block_has_another() {
    let table = PageTable::attach(&pool()).unwrap();
    let pages = lender(&table).lend(1).unwrap().unwrap();
    fill(&table, pages[0], &page(5));
    lender(&table).remap(&[(2, pages[0])]).unwrap();
    // Not in place, though no durable entry names the page.
    table.write(2 * P + 10, &[1; 10]).unwrap();
    (0..4 * PAGES).for_each(|n| table.write(n % BLOCKS * P, &page(n as u8)).unwrap());
    let mut bytes = vec![0; PAGE];
    table.flush().unwrap();
    lender(&table).remap(&[(2, pages[0])]).unwrap();
    table.read(2 * P, &mut bytes).unwrap();
    assert_eq!(bytes, page(5));
}

/// After a crash, pages are lent again before anybody takes a free one: those that have an entry by then, too.
#[test]
fn what_is_claimed_is_not_taken() {
    let pool = pool();
    let table = PageTable::attach(&pool).unwrap();
    let pages = lender(&table).lend(2).unwrap().unwrap();
    pages.iter().for_each(|n| fill(&table, *n, &page(*n as u8)));
    lender(&table).remap(&[(0, pages[0])]).unwrap();
    table.flush().unwrap();
    drop(table);
    let table = PageTable::attach(&pool).unwrap();
    assert_eq!(counts(&table), (0, PAGES - 1));
    lender(&table).claim(&[pages[0], pages[1], pages[1], u32::MAX]);
    assert_eq!(counts(&table), (2, PAGES - 2));
    (0..4 * PAGES).for_each(|n| table.write(n % BLOCKS * P, &page(100)).unwrap());
    lender(&table).remap(&[(0, pages[0]), (1, pages[1])]).unwrap();
    let now = read(&table).unwrap();
    assert_eq!(now[..2], [page(pages[0] as u8).into(), page(pages[1] as u8).into()]);
    table.flush().unwrap();
    lender(&table).give(&pages);
    assert_eq!(counts(&table), (0, PAGES - BLOCKS));
}

/// A record may lie: no block gets a page that is not lent, that there is not, or that another block has, and nothing
/// is changed.
#[test]
fn a_page_that_is_not_lent_for_it_is_refused() {
    let pool = pool();
    let table = PageTable::attach(&pool).unwrap();
    table.write(0, &[page(1), page(2)].concat()).unwrap();
    table.flush().unwrap();
    let pages = lender(&table).lend(1).unwrap().unwrap();
    fill(&table, pages[0], &page(7));
    let lent = pages[0];
    let free = (0..PAGES as u32).rev().find(|n| *n != lent).unwrap();
    for lie in [vec![(3, free)], vec![(3, lent), (4, lent)], vec![(3, PAGES as u32)], vec![(3, u32::MAX)]] {
        assert!(lender(&table).remap(&lie).is_err(), "{lie:?}");
        let now = read(&table).unwrap();
        assert!(now[3..5].iter().all(|block| block.iter().all(|byte| *byte == 0)), "{lie:?}");
    }
    lender(&table).remap(&[(0, lent)]).unwrap();
    assert!(lender(&table).remap(&[(1, lent)]).is_err(), "block 0 has it");
    table.flush().unwrap();
    assert!(check(&pool).unwrap().problems.is_empty());
}

/// Nobody moves pages about while some are lent.
#[test]
fn a_table_that_has_lent_pages_is_not_made_flat() {
    let mut table = PageTable::attach(&pool()).unwrap();
    (0..3).for_each(|n| table.write(0, &page(n)).unwrap());
    let pages = lender(&table).lend(1).unwrap().unwrap();
    assert!(matches!(table.flatten(), Err(TableError::InHands { pages: 1, .. })));
    lender(&table).give(&pages);
    assert_eq!(table.flatten().unwrap().mapped, 1);
}

/// Writers that find no page free wait for those who have some in hands, and for the map: with the reserve there is
/// always one to come.
#[test]
fn many_writers_and_a_small_reserve_are_never_told_that_there_is_no_page() {
    let nvm = ondol_medium::Nvm::volatile(4 << 20).unwrap();
    let mut pool = ondol_medium::Pool::create(nvm, &ondol_medium::PoolSpec::default()).unwrap();
    let spec = TableSpec { uuid: [6; 16], blocks: Some(256), reserve: Some(64) };
    spec.make(&mut pool).unwrap();
    let table = PageTable::attach(&pool).unwrap();
    table.write(0, &page(1).repeat(256)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..6u64 {
            let table = &table;
            scope.spawn(move || {
                let bytes = page(thread as u8).repeat(32);
                (0..300).for_each(|n| table.write((thread * 32 + n % 4) * P, &bytes).unwrap());
            });
        }
    });
    table.flush().unwrap();
    assert_eq!(table.stats().free, 64);
}
