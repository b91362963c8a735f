//! Views and maps of a table that are held while it changes, against a model; and what becomes of their pages.

use crate::rig::{PAGE, fill, page};
use ondol_block::{BlockStore, MapPart, Mapped, PageLender, PageUse, Pin, Pinned};
use ondol_env::sync::Arc;
use ondol_faults::Defect;
use ondol_medium::{Nvm, Pool, PoolSpec};
use ondol_page_table::{PageTable, TableError, TableSpec, check};
use ondol_schedule::{Schedule, Task};

const P: u64 = PAGE as u64;
const BLOCKS: u64 = 16;
const RESERVE: u64 = 24;
/// A third of what can be lent.
const MOST: u64 = 4;

fn table() -> (Pool, PageTable) {
    let mut pool = Pool::create(Nvm::volatile(2 << 20).unwrap(), &PoolSpec::default()).unwrap();
    TableSpec { uuid: [4; 16], blocks: Some(BLOCKS), reserve: Some(RESERVE) }.make(&mut pool).unwrap();
    let table = PageTable::attach(&pool).unwrap();
    (pool, table)
}

fn lender(table: &PageTable) -> &dyn PageLender {
    table.lender().unwrap()
}

fn pins(table: &PageTable) -> PageUse {
    lender(table).page_use()
}

fn pinned(table: &PageTable, block: u64, blocks: u64, bounded: bool) -> Option<Pinned> {
    match table.pin(block * P, blocks * P, bounded).unwrap() {
        Some(Pin::Bytes(bytes)) => Some(bytes),
        _ => None,
    }
}

/// A map of one block.
fn mapped(table: &PageTable, block: u64) -> Option<Box<dyn Mapped>> {
    let bytes = pinned(table, block, 1, false)?;
    lender(table).map(&[MapPart::Place(bytes.place(), P)]).unwrap()
}

#[test]
fn a_view_is_the_stored_page_and_stays_what_it_is() {
    let (pool, table) = table();
    table.write(0, &[page(1), page(2), page(3)].concat()).unwrap();
    let read = pool.nvm().stats().read_bytes;
    let view = pinned(&table, 0, 3, true).unwrap();
    assert_eq!((view.len(), pool.nvm().stats().read_bytes), (3 * PAGE, read), "neighbours are one slice");
    let inside = table.pin(P + 100, 50, true).unwrap();
    assert!(matches!(&inside, Some(Pin::Bytes(bytes)) if bytes[..] == page(2)[100..150]));
    assert!(matches!(table.pin(4 * P + 7, 3 * P, true).unwrap(), Some(Pin::Zeros(len)) if len == 3 * P));
    assert!(table.pin(0, BLOCKS * P + 1, true).is_err());
    // In place, were it not for the view.
    table.write(100, &[9; 100]).unwrap();
    table.write(P, &page(7)).unwrap();
    table.flush().unwrap();
    table.discard(2 * P, P).unwrap();
    table.flush().unwrap();
    assert_eq!((pins(&table).held, table.stats().held), (3, 3));
    let whole = [page(1), page(2), page(3)].concat();
    assert!(view[..] == whole && table.stats().free == BLOCKS + RESERVE - 2 - 3);
    drop(view);
    assert_eq!((pins(&table).held, pins(&table).pinned), (1, 1), "the second page has another pin");
    drop(inside);
    assert_eq!(
        (pins(&table), table.stats().free),
        (PageUse { pinnable: MOST, all: BLOCKS + RESERVE, ..PageUse::default() }, BLOCKS + RESERVE - 2)
    );
}

#[test]
fn pins_are_bounded_and_what_can_be_lent_gives_them_room() {
    let (_pool, table) = table();
    table.write(0, &page(1).repeat(BLOCKS as usize)).unwrap();
    let all = lender(&table).most_lent();
    let lent = lender(&table).lend(all).unwrap().unwrap();
    assert!(pinned(&table, 0, 1, true).is_none(), "everything is lent");
    lender(&table).give(&lent[..MOST as usize]);
    let views: Vec<Pinned> = (0..2 * BLOCKS).map_while(|n| pinned(&table, n % BLOCKS, 1, true)).collect();
    assert_eq!((views.len() as u64, pins(&table).pinned), (MOST, MOST));
    assert!(lender(&table).lend(1).unwrap().is_none() && lender(&table).most_lent() == all - MOST);
    // Whatever is pinned and lent, everything can be written, again and again.
    (0..9).for_each(|n| table.write(0, &page(n).repeat(BLOCKS as usize)).unwrap());
    assert!(views.iter().all(|view| view[..] == page(1)));
    table.flush().unwrap();
    assert_eq!(pins(&table).held, MOST);
    drop(views);
    assert!(pinned(&table, 0, 1, true).is_some());
    lender(&table).give(&lent);
    assert_eq!(table.stats().free, RESERVE);
}

/// Maps have as many pages as they like: those that only they keep are parted from them when somebody needs pages.
#[test]
fn maps_give_pages_back_when_they_are_needed() {
    let (_pool, table) = table();
    table.write(0, &page(1).repeat(BLOCKS as usize)).unwrap();
    let view = pinned(&table, 3, 1, true).unwrap();
    let mut maps = Vec::new();
    for n in 2..40u8 {
        let expected = page(n - 1);
        let parts: Vec<Pinned> = (0..BLOCKS).map(|block| pinned(&table, block, 1, false).unwrap()).collect();
        let places: Vec<MapPart<'_>> = parts.iter().map(|bytes| MapPart::Place(bytes.place(), P)).collect();
        maps.push((lender(&table).map(&places).unwrap().unwrap(), expected));
        drop(parts);
        table.write(0, &page(n).repeat(BLOCKS as usize)).unwrap();
        table.flush().unwrap();
    }
    assert!(pins(&table).parted > 30 * BLOCKS, "{:?}", pins(&table));
    let most = lender(&table).most_lent();
    let lent = lender(&table).lend(most).unwrap().expect("maps make room");
    assert!(maps.iter().all(|(map, expected)| map.bytes().chunks(PAGE).all(|page| page == expected)));
    assert!(view[..] == page(1));
    lender(&table).give(&lent);
    drop((maps, view));
    assert_eq!((pins(&table).held, table.stats().free), (0, RESERVE));
}

#[test]
fn a_table_with_pins_is_not_made_flat_and_views_outlive_it() {
    let (pool, mut table) = table();
    (0..3).for_each(|n| table.write(0, &page(n)).unwrap());
    let view = pinned(&table, 0, 1, true).unwrap();
    assert!(matches!(table.flatten(), Err(TableError::InHands { pages: 1, .. })));
    table.write(0, &page(9)).unwrap();
    table.flush().unwrap();
    assert!(matches!(table.flatten(), Err(TableError::InHands { pages: 1, .. })));
    let map = mapped(&table, 0).unwrap();
    drop(table);
    drop(pool);
    assert!(view[..] == page(2) && map.bytes() == page(9));
}

/// What lies in a page that a transaction was cut off in is another than what it holds: it is read, not lent.
#[test]
fn a_lost_page_is_not_lent_and_its_neighbours_are() {
    let (pool, table) = table();
    table.write(0, &[page(1), page(2), page(3)].concat()).unwrap();
    let first = pinned(&table, 0, 1, true).unwrap().place();
    pool.nvm().poison().add_line(first + P + 64);
    assert!(matches!((table.pin(0, 3 * P, true), table.pin(P, P, true)), (Ok(None), Ok(None))));
    let map = lender(&table).map(&[MapPart::Place(first, 2 * P)]).unwrap();
    assert!(map.is_none(), "whoever copies instead may not want what is lost");
    assert!(pinned(&table, 0, 1, true).unwrap()[..] == page(1) && pinned(&table, 2, 1, true).unwrap()[..] == page(3));
    table.write(P, &page(5)).unwrap();
    assert!(pinned(&table, 1, 1, true).unwrap()[..] == page(5));
}

/// What is stored to a map is the map's alone, and the pages that it was made of are free for others with the first
/// store.
#[test]
fn stores_to_a_map_take_its_pages_from_the_table() {
    let (_pool, table) = table();
    table.write(0, &[page(1), page(2), page(3)].concat()).unwrap();
    table.flush().unwrap();
    let bytes = pinned(&table, 0, 3, false).unwrap();
    let parts = [MapPart::Place(bytes.place(), 3 * P), MapPart::Zeros(2 * P), MapPart::Bytes(&[5; 10])];
    let mut map = lender(&table).map(&parts).unwrap().unwrap();
    drop(bytes);
    let mut expected = [page(1), page(2), page(3), vec![0; 2 * PAGE], vec![5; 10]].concat();
    // The pages of the map alone are held, and two of them no more.
    (0..3).for_each(|block| table.write(block * P, &page(9)).unwrap());
    table.flush().unwrap();
    assert_eq!(pins(&table).held, 3);
    for (at, len) in [(PAGE + 7, PAGE), (PAGE + 8, 1), (3 * PAGE - 1, PAGE + 5), (5 * PAGE + 9, 1)] {
        map.bytes_mut(at, len).unwrap().fill(7);
        expected[at..at + len].fill(7);
        assert_eq!((map.bytes() == expected, pins(&table).held, pins(&table).parted), (true, 1, 2));
    }
    assert!(map.bytes_mut(5 * PAGE, 11).is_none() && map.bytes_mut(usize::MAX, 2).is_none());
    assert!(map.bytes_mut(0, 0).unwrap().is_empty());
    let mut read = vec![0; 5 * PAGE];
    table.read(0, &mut read).unwrap();
    assert!(read[..3 * PAGE] == page(9).repeat(3) && read[3 * PAGE..] == vec![0; 2 * PAGE]);
    drop(map);
    assert_eq!((pins(&table).held, table.stats().free), (0, BLOCKS + RESERVE - 3));
}

/// Pages that a view keeps as well are not what a writer waits for: the next ones are parted.
#[test]
fn maps_give_pages_back_although_views_keep_others() {
    let (_pool, table) = table();
    let all = |tag: u8| (0..BLOCKS as u8).flat_map(|n| page(tag + n)).collect::<Vec<_>>();
    let map = |table: &PageTable| -> Vec<_> { (0..BLOCKS).map(|n| mapped(table, n).unwrap()).collect() };
    table.write(0, &all(1)).unwrap();
    table.flush().unwrap();
    let view = pinned(&table, 0, MOST, true).unwrap();
    let first = map(&table);
    table.write(0, &all(40)).unwrap();
    table.flush().unwrap();
    let second = map(&table);
    for round in 0..4 {
        for block in 0..BLOCKS {
            table.write(block * P, &page(100 + round)).unwrap();
            table.flush().unwrap();
        }
    }
    assert!(view[..] == all(1)[..MOST as usize * PAGE]);
    let is = |map: &[Box<dyn Mapped>], tag: u8| (0..).zip(map).all(|(n, map)| map.bytes() == page(tag + n));
    assert!(is(&first, 1) && is(&second, 40));
    drop((view, first, second));
    assert_eq!((pins(&table).held, table.stats().free), (0, RESERVE));
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// What a run has seen: pages lent, requests that were refused, pages that pins kept, pages that maps gave back.
#[derive(Debug, Default)]
struct Seen {
    lent: u64,
    refused: u64,
    held: u64,
    parted: u64,
}

struct Run {
    pool: Pool,
    table: PageTable,
    model: Vec<Vec<u8>>,
    views: Vec<(Pinned, Vec<u8>)>,
    maps: Vec<(Box<dyn Mapped>, Vec<u8>)>,
    random: Random,
    seen: Seen,
}

impl Run {
    fn new(seed: u64) -> Self {
        let (pool, table) = table();
        let (views, maps) = (Vec::new(), Vec::new());
        let random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        Self { pool, table, model: vec![vec![0; PAGE]; BLOCKS as usize], views, maps, random, seen: Seen::default() }
    }

    fn expected(&self, block: u64, blocks: u64) -> Vec<u8> {
        self.model[block as usize..(block + blocks) as usize].concat()
    }

    fn step(&mut self, tag: u8) -> Result<(), String> {
        let text = |e: &dyn std::fmt::Display| e.to_string();
        let (block, table) = (self.random.below(BLOCKS), &self.table);
        match self.random.below(12) {
            0 | 1 => {
                let count = 1 + self.random.below(BLOCKS - block);
                table.write(block * P, &page(tag).repeat(count as usize)).map_err(|e| text(&e))?;
                self.model[block as usize..][..count as usize].fill(page(tag));
            }
            2 | 3 => {
                let (from, len) = (self.random.below(4000) as usize, 1 + self.random.below(96) as usize);
                table.write(block * P + from as u64, &vec![tag; len]).map_err(|e| text(&e))?;
                self.model[block as usize][from..from + len].fill(tag);
            }
            4 => {
                table.discard(block * P, P).map_err(|e| text(&e))?;
                self.model[block as usize].fill(0);
            }
            5 => table.flush().map_err(|e| text(&e))?,
            6 => {
                let other = self.random.below(BLOCKS);
                let mut transaction = table.transaction();
                transaction.swap(block, other);
                if table.page(other).map_err(|e| text(&e))?.is_some() {
                    transaction.store(block, 1000, &[tag; 200]);
                }
                let stores = table.page(other).map_err(|e| text(&e))?.is_some();
                transaction.commit().map_err(|e| text(&e))?;
                self.model.swap(block as usize, other as usize);
                if stores {
                    self.model[block as usize][1000..1200].fill(tag);
                }
            }
            7 => {
                if let Some(pages) = lender(table).lend(1).map_err(|e| text(&e))? {
                    fill_page(table, pages[0], &page(tag));
                    lender(table).remap(&[(block, pages[0])]).map_err(|e| text(&e))?;
                    self.model[block as usize] = page(tag);
                    lender(table).give(&pages);
                }
            }
            8 | 9 => self.look(block)?,
            10 => self.store(tag)?,
            _ => {
                let (views, maps) = (self.views.len() as u64, self.maps.len() as u64);
                match self.random.below(2) {
                    0 if views > 0 => drop(self.views.swap_remove(self.random.below(views) as usize)),
                    1 if maps > 0 => drop(self.maps.swap_remove(self.random.below(maps) as usize)),
                    _ => {}
                }
            }
        }
        self.judge()
    }

    /// Stores to a map, which nobody else sees.
    fn store(&mut self, tag: u8) -> Result<(), String> {
        if self.maps.is_empty() {
            return Ok(());
        }
        let at = self.random.below(self.maps.len() as u64) as usize;
        let (map, was) = &mut self.maps[at];
        let from = self.random.below(was.len() as u64) as usize;
        let len = 1 + self.random.below(5000).min((was.len() - from) as u64 - 1) as usize;
        map.bytes_mut(from, len).ok_or("no memory for a store")?.fill(tag);
        was[from..from + len].fill(tag);
        Ok(())
    }

    fn look(&mut self, block: u64) -> Result<(), String> {
        let count = 1 + self.random.below((BLOCKS - block).min(4));
        let is_map = self.random.below(3) == 0;
        match self.table.pin(block * P, count * P, !is_map).map_err(|e| e.to_string())? {
            None => self.seen.refused += 1,
            Some(Pin::Zeros(len)) => {
                let zeros = self.expected(block, len / P);
                return if zeros.iter().all(|byte| *byte == 0) { Ok(()) } else { Err("no zeros".into()) };
            }
            Some(Pin::Bytes(bytes)) => {
                let expected = self.expected(block, bytes.len() as u64 / P);
                self.seen.lent += 1;
                if is_map {
                    let part = [MapPart::Place(bytes.place(), bytes.len() as u64), MapPart::Bytes(b"end")];
                    let map = lender(&self.table).map(&part).map_err(|e| e.to_string())?.ok_or("no map")?;
                    self.maps.push((map, [&expected[..], b"end"].concat()));
                } else {
                    self.views.push((bytes, expected));
                }
            }
        }
        Ok(())
    }

    fn judge(&mut self) -> Result<(), String> {
        let mut all = vec![0; BLOCKS as usize * PAGE];
        self.table.read(0, &mut all).map_err(|e| e.to_string())?;
        if all != self.model.concat() {
            return Err("the table is not what was written".into());
        }
        let is_same = |(seen, was): (&[u8], &Vec<u8>)| seen == was;
        let views = self.views.iter().map(|(view, was)| (&view[..], was));
        if !views.chain(self.maps.iter().map(|(map, was)| (map.bytes(), was))).all(is_same) {
            return Err("what was lent has changed".into());
        }
        self.seen.held = self.seen.held.max(pins(&self.table).held);
        Ok(())
    }

    /// Everything is given back in the end.
    fn end(mut self) -> Result<Seen, String> {
        self.seen.parted = pins(&self.table).parted;
        (self.views, self.maps) = (Vec::new(), Vec::new());
        self.table.flush().map_err(|e| e.to_string())?;
        let mapped = (0..BLOCKS).filter(|n| self.table.page(*n).unwrap().is_some()).count() as u64;
        let now = (self.table.stats().free, pins(&self.table).held, pins(&self.table).pinned);
        if now != (BLOCKS + RESERVE - mapped, 0, 0) {
            return Err(format!("{mapped} mapped; free, held, pinned: {now:?}"));
        }
        drop(self.table);
        let problems = check(&self.pool).map_err(|e| e.to_string())?.problems;
        if problems.is_empty() { Ok(self.seen) } else { Err(problems.join("; ")) }
    }
}

fn fill_page(table: &PageTable, page: u32, bytes: &[u8]) {
    let place = lender(table).pin_page(page, false).unwrap().unwrap().place();
    let mut batch = table.nvm().stored();
    batch.copy(place, bytes).unwrap();
    let _fenced = batch.write_back().fence().unwrap();
}

fn run(seed: u64) -> Result<Seen, String> {
    let mut run = Run::new(seed);
    (0..400u32).try_for_each(|n| run.step(n as u8))?;
    run.end()
}

#[test]
fn views_and_maps_stay_what_they_are_whatever_is_done_to_the_table() {
    let mut sum = Seen::default();
    for seed in 0..60 {
        let seen = run(seed).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        let Seen { lent, refused, held, parted } = seen;
        sum = Seen {
            lent: sum.lent + lent,
            refused: sum.refused + refused,
            held: sum.held.max(held),
            parted: sum.parted + parted,
        };
    }
    println!("{sum:?}");
    assert!(sum.lent > 500 && sum.refused > 50 && sum.held > MOST && sum.parted > 0, "{sum:?}");
}

#[test]
fn a_pinned_page_that_is_used_again_is_found() {
    let _planted = ondol_faults::set(Some(Defect::TablePinnedReuse)).unwrap();
    assert!((0..10).any(|seed| run(seed).is_err()));
}

/// Blocks 0 and 1 are written, whole and in part; 2 and 3 are swapped with bytes in them; 4 gets lent pages. Two look
/// at them.
fn tasks(table: &Arc<PageTable>) -> Vec<Task> {
    let task = |work: fn(&PageTable)| -> Task {
        let table = table.clone();
        Box::new(move || work(&table))
    };
    let look = |table: &PageTable| {
        for block in (0..5).chain(0..5) {
            let Some(Pin::Bytes(view)) = table.pin(block * P, P, block % 2 == 0).unwrap() else { continue };
            let first = view.to_vec();
            let map = lender(table).map(&[MapPart::Place(view.place(), P)]).unwrap();
            ondol_env::sync::thread::yield_now();
            assert!(view[..] == first && map.is_none_or(|map| map.bytes() == first), "block {block} changed");
            // Each store makes all its bytes one.
            assert!(first[..2048].iter().all(|byte| *byte == first[0]), "block {block} is torn");
        }
    };
    vec![
        task(|table| (10..13).for_each(|n| table.write(0, &[n; PAGE]).unwrap())),
        task(|table| {
            (20..23).for_each(|n| table.write(P, &[n; 2048]).unwrap());
            table.flush().unwrap();
        }),
        task(|table| {
            for n in 30..32 {
                let mut transaction = table.transaction();
                transaction.swap(2, 3);
                transaction.store(2, 0, &[n; 2048]);
                transaction.commit().unwrap();
            }
        }),
        task(|table| {
            for n in 40..42 {
                if let Some(pages) = lender(table).lend(1).unwrap() {
                    fill_page(table, pages[0], &[n; PAGE]);
                    lender(table).remap(&[(4, pages[0])]).unwrap();
                    table.flush().unwrap();
                    lender(table).give(&pages);
                }
            }
        }),
        task(look),
        task(look),
    ]
}

#[test]
fn pins_beside_writers_swaps_and_loans_in_any_order() {
    let fresh = || {
        let (pool, table) = table();
        (0..5).for_each(|n| table.write(n * P, &[n as u8; PAGE]).unwrap());
        table.flush().unwrap();
        (pool, Arc::new(table))
    };
    let (_pool, table) = fresh();
    let steps = Schedule::in_turn(0).run(tasks(&table)).unwrap().steps;
    for number in 0..200 {
        let (pool, table) = fresh();
        let ran = Schedule::fitted(steps, number).run(tasks(&table));
        assert!(ran.is_ok(), "interleaving {number}: {ran:?}");
        table.flush().unwrap();
        let now = (table.stats().free, pins(&table).held, pins(&table).pinned);
        assert_eq!(now, (BLOCKS + RESERVE - 5, 0, 0), "interleaving {number}");
        drop(table);
        assert!(check(&pool).unwrap().problems.is_empty(), "interleaving {number}");
    }
}

#[test]
fn a_page_is_filled_where_the_rig_says() {
    // The rig of other tests knows one table alone.
    let table = PageTable::attach(&crate::rig::pool()).unwrap();
    let pages = lender(&table).lend(1).unwrap().unwrap();
    fill(&table, pages[0], &page(3));
    assert!(lender(&table).pin_page(pages[0], true).unwrap().is_some_and(|bytes| bytes[..] == page(3)));
    assert!(lender(&table).pin_page(u32::MAX, true).unwrap().is_none());
}
