//! Pools as homes of images, whose page tables lie.

use super::images::look;
use crate::image::{Kind, Seed};
use crate::input::Input;
use ondol_block::BlockStore;
use ondol_medium::{AreaKind, Nvm, Pool, PoolSpec, crc32c, seal_header};
use ondol_page_table::{PageTable, TableSpec, View, ViewSpec, check};
use ondol_power::{Cut, Kind as Power, Layer, Medium, PowerDomain};
use std::ops::Range;
use std::sync::OnceLock;

const PAGE: u64 = 4096;
/// Blocks of the table that holds no volume.
const BLOCKS: u64 = 24;

/// A pool, and where the parts of its table lie: the first copy of the configuration table, the map, the log.
struct Home {
    bytes: Vec<u8>,
    parts: [Range<usize>; 3],
}

impl Home {
    fn of(bytes: Vec<u8>) -> Self {
        let pool = Pool::open(Nvm::from_bytes(&bytes).expect("memory")).expect("a pool");
        let blocks = check(&pool).expect("a table").blocks as usize;
        let parts = [(AreaKind::PAGE_CONFIG, 128), (AreaKind::PAGE_MAP, 8 * blocks), (AreaKind::PAGE_LOG, 64 * 12)];
        let parts = parts.map(|(kind, len)| {
            let start = pool.area(kind).expect("an area of the table").start as usize;
            start..start + len
        });
        Self { bytes, parts }
    }

    /// Some blocks, and a transaction that is open and half done.
    fn plain() -> &'static Self {
        static HOME: OnceLock<Home> = OnceLock::new();
        HOME.get_or_init(|| {
            let base =
                made(BLOCKS, 16, |table| (0..BLOCKS - 4).try_for_each(|n| table.write(n * PAGE, &[n as u8; 4096])));
            let power = PowerDomain::new();
            let pool = Pool::open(Nvm::from_bytes(&base).expect("memory").record(power.clone(), 0)).expect("a pool");
            let table = PageTable::attach(&pool).expect("a table");
            let mut transaction = table.transaction();
            (0..4).for_each(|n| transaction.swap(n, n + 18));
            transaction.store(6, 100, &[9; 300]);
            transaction.commit().expect("a sound table");
            let media = [Medium { base: Layer::new(base), kind: Power::Nvm, whole: None }];
            let events = power.take();
            let state = |n: usize| Cut::after(&media, &events[..n]).everything().remove(0).to_bytes();
            let is_open = |state: &Vec<u8>| {
                let pool = Pool::open(Nvm::from_bytes(state).expect("memory")).expect("a pool");
                check(&pool).is_ok_and(|report| report.open)
            };
            Home::of((0..events.len()).rev().map(state).find(is_open).expect("it was open at some time"))
        })
    }

    /// A volume.
    fn volume() -> &'static Self {
        static HOME: OnceLock<Home> = OnceLock::new();
        HOME.get_or_init(|| {
            let image = Seed::of(Kind::SmallPages).layer.to_bytes();
            Self::of(made(image.len() as u64 / PAGE, 64, |table| {
                let pages = image.chunks(PAGE as usize).zip((0..).step_by(PAGE as usize));
                pages
                    .filter(|(page, _)| page.iter().any(|byte| *byte != 0))
                    .try_for_each(|(page, at)| table.write(at, page))
            }))
        })
    }

    /// Patched, with right checksums unless the input wants them wrong.
    fn patched(&self, input: &mut Input<'_>) -> Vec<u8> {
        let (mut bytes, word) = (self.bytes.clone(), input.u8());
        for _ in 0..word & 15 {
            let part = input.pick(&[0, 1, 1, 2, 2]);
            let part = self.parts[part].clone();
            let at = part.start + input.below(part.len());
            match input.u8() % 4 {
                0 => bytes[at] ^= 1 << (input.u8() % 8),
                1 => bytes[at] = input.u8(),
                // A whole word: another entry, or a small number.
                2 => {
                    let from = part.start + input.below(part.len()) / 8 * 8;
                    let to = at / 8 * 8;
                    bytes.copy_within(from..from + 8, to);
                }
                _ => {
                    let new = input.split(4);
                    bytes[at..at + new.len()].copy_from_slice(new);
                }
            }
        }
        if word & 16 == 0 {
            self.seal(&mut bytes);
        }
        bytes
    }

    /// Makes all checksums right.
    fn seal(&self, bytes: &mut [u8]) {
        let [config, map, log] = self.parts.clone();
        for copy in [config.start + PAGE as usize, config.start] {
            seal_header(&mut bytes[copy..copy + 128]);
        }
        let seal = crc32c(!0, &[&bytes[config.start + 16..config.start + 32]]);
        for (block, at) in (0u64..).zip(map.step_by(8)) {
            put(bytes, at + 4, crc32c(seal, &[b"map\0", &block.to_le_bytes(), &bytes[at..at + 4]]));
        }
        put(bytes, log.start + 4, crc32c(seal, &[b"log\0", &bytes[log.start..log.start + 4]]));
        for at in log.skip(64).step_by(64) {
            // Of a record of bytes as many lines as it says.
            let count = usize::from(u16::from_le_bytes([bytes[at + 6], bytes[at + 7]])).min(PAGE as usize);
            let len = if bytes[at + 4] == 2 { (32 + count).next_multiple_of(64) } else { 64 };
            put(bytes, at, crc32c(seal, &[&bytes[at + 4..at + len]]));
        }
    }
}

fn put(bytes: &mut [u8], at: usize, sum: u32) {
    bytes[at..at + 4].copy_from_slice(&sum.to_le_bytes());
}

/// A pool with a table that is filled.
fn made(blocks: u64, reserve: u64, fill: impl FnOnce(&PageTable) -> ondol_block::Result<()>) -> Vec<u8> {
    let nvm =
        Nvm::volatile((blocks + reserve) * PAGE + (blocks * 8).next_multiple_of(PAGE) + (96 << 10)).expect("memory");
    let mut pool = Pool::create(nvm, &PoolSpec { uuid: [9; 16], ..PoolSpec::default() }).expect("room for a pool");
    let spec = TableSpec { uuid: [8; 16], blocks: Some(blocks), reserve: Some(reserve) };
    spec.make(&mut pool).expect("room for a table");
    let table = PageTable::attach(&pool).expect("a new table");
    fill(&table).and_then(|()| table.flush()).expect("a sound table");
    drop(table);
    pool.nvm().to_bytes().expect("memory")
}

pub(super) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let has_volume = input.one_in(4);
    let home = if has_volume { Home::volume() } else { Home::plain() };
    let nvm = Nvm::from_bytes(&home.patched(&mut input)).expect("memory");
    let pool = Pool::open(nvm).expect("the pool itself is sound");
    let checked = check(&pool);
    let Ok(table) = PageTable::attach(&pool) else {
        let is_told = checked.as_ref().map_or(true, |report| report.open || !report.problems.is_empty());
        assert!(is_told, "refused, and the check has found nothing: {checked:?}");
        return;
    };
    let image = read(&table);
    if has_volume {
        look(&Layer::new(image), input.pick(&["ro", "ro,norecovery"]));
    } else {
        Used { pool: &pool, table, image }.run(&mut input);
    }
}

fn read(table: &PageTable) -> Vec<u8> {
    let mut image = vec![0; table.size() as usize];
    table.read(0, &mut image).expect("what is attached can be read");
    image
}

/// A table that was believed, and what it holds.
struct Used<'p> {
    pool: &'p Pool,
    table: PageTable,
    image: Vec<u8>,
}

impl Used<'_> {
    fn run(mut self, input: &mut Input<'_>) {
        let mut tag = 0;
        while !input.is_empty() && tag < 60 {
            tag += 1;
            self.step(tag, input);
        }
        self.table.flush().expect("a table that was believed works");
        assert!(read(&self.table) == self.image, "something else is read than was written");
        drop(self.table);
        let report = check(self.pool).expect("a table");
        assert!(report.problems.is_empty() && !report.open, "{report:?}");
    }

    fn step(&mut self, tag: u8, input: &mut Input<'_>) {
        let (size, blocks) = (self.image.len(), self.image.len() / PAGE as usize);
        let (a, b) = (input.below(blocks), input.below(blocks));
        let page = |block: usize| block * PAGE as usize..(block + 1) * PAGE as usize;
        match input.u8() % 8 {
            0 | 1 => {
                let at = a * PAGE as usize + input.below(PAGE as usize);
                let len = (input.below(9000) + 1).min(size - at);
                self.image[at..at + len].fill(tag);
                self.table.write(at as u64, &self.image[at..at + len]).expect("there is a reserve");
            }
            2 => {
                self.image[page(a)].fill(0);
                self.table.discard(a as u64 * PAGE, PAGE).expect("a block can be unmapped");
            }
            3 => self.table.flush().expect("a flush"),
            4 => {
                let (of_a, of_b) = (self.image[page(a)].to_vec(), self.image[page(b)].to_vec());
                self.image[page(a)].copy_from_slice(&of_b);
                self.image[page(b)].copy_from_slice(&of_a);
                self.table.swap(a as u64, b as u64).expect("a swap");
            }
            5 => {
                self.table.flatten().expect("a page is free");
                assert_eq!(self.table.flatness().displaced, 0);
            }
            6 => {
                self.table.flush().expect("a flush");
                self.table = PageTable::attach(self.pool).expect("it was attached before");
            }
            _ => {
                let blocks = a.min(b) as u64..a.max(b) as u64 + 1;
                let range = page(a.min(b)).start..page(a.max(b)).end;
                let view =
                    View::new(&self.table, &ViewSpec { blocks, ..ViewSpec::default() }).expect("blocks of the table");
                let mut found = vec![0; range.len()];
                view.read(0, &mut found).expect("what is attached can be read");
                assert!(found == self.image[range], "a view shows something else");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_seeds_are_what_they_are_said_to_be() {
        let pool = |home: &Home| Pool::open(Nvm::from_bytes(&home.bytes).expect("memory")).expect("a pool");
        assert!(check(&pool(Home::plain())).expect("a table").open);
        let report = check(&pool(Home::volume())).expect("a table");
        assert!(!report.open && report.problems.is_empty() && report.mapped > 20, "{report:?}");
        for home in [Home::plain(), Home::volume()] {
            let mut sealed = home.bytes.clone();
            home.seal(&mut sealed);
            // Lines behind the records of the transaction have checksums then, too, and nobody reads them.
            let log = home.parts[2].clone();
            assert!(sealed[..log.start] == home.bytes[..log.start] && sealed[log.end..] == home.bytes[log.end..]);
        }
    }

    /// Without a patch everything is used; with some, what is believed works.
    #[test]
    fn sound_tables_are_used_and_wrong_checksums_refused() {
        for volume in [0, 3] {
            run(&[volume, 0, 5, 4, 0, 9, 9, 7, 7, 3, 2, 2, 6, 0, 9, 7, 1, 1, 2]);
            run(&[volume, 16 + 1, 1, 40, 0, 3]);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            run(&bytes);
        }
    }
}
