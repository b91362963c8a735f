//! Pools with bytes that nobody wrote, and lines that the medium has lost: it is said what is wrong, and nothing wrong
//! is read.

use crate::rig::{BLOCKS, Image, PAGE, Run, opened, page, pool, read};
use ondol_block::BlockStore;
use ondol_faults::Defect;
use ondol_medium::{AreaKind, Domain, Nvm, Pool};
use ondol_page_table::{LogFault, MapFault, PageTable, TableError, TableSpec, check};
use ondol_power::{Cut, Layer, Medium};
use proptest::prelude::*;

/// A pool with four blocks written, and with its newest transaction open and half done; and what is to be read.
pub(crate) fn scene() -> (Vec<u8>, Image) {
    use crate::rig::Op::{Checkpoint, Flush, Write};
    let run: Run = crate::rig::run(Domain::Adr, &[Write(0, 4), Flush, Checkpoint([0, 2, 1, 5], 0)]);
    let media = [Medium { base: Layer::new(run.base.clone()), kind: Domain::Adr.crashes_as(), whole: None }];
    let states = (0..=run.events.len()).map(|n| Cut::after(&media, &run.events[..n]).everything().remove(0).to_bytes());
    let open: Vec<Vec<u8>> = states.filter(|state| check(&opened(state)).is_ok_and(|report| report.open)).collect();
    let state = open.last().expect("a transaction is open at some time").clone();
    let image = read(&PageTable::attach(&opened(&state)).unwrap()).unwrap();
    assert_eq!(image[1][..], page(2)[..]);
    (state, image)
}

fn area(bytes: &[u8], kind: AreaKind) -> std::ops::Range<usize> {
    let area = opened(bytes).area(kind).unwrap();
    area.start as usize..(area.start + area.len) as usize
}

/// What became of a damaged pool.
#[derive(Debug, Default)]
struct Answers {
    refused: usize,
    right: usize,
    wrong: Vec<String>,
}

impl Answers {
    fn judge(&mut self, pool: &Pool, image: &Image, what: &str) {
        match PageTable::attach(pool) {
            Err(TableError::Config { .. } | TableError::Map { .. } | TableError::Log { .. }) => self.refused += 1,
            Err(other) => self.wrong.push(format!("{what}: {other}")),
            Ok(table) => match read(&table) {
                Ok(found) if found == *image => self.right += 1,
                other => self.wrong.push(format!("{what}: {:?}", other.map(drop))),
            },
        }
    }
}

/// Every byte of the configuration, of the map's entries and of the log's records, one bit of it each.
fn flipped(bytes: &[u8], image: &Image) -> Answers {
    let mut answers = Answers::default();
    let map = area(bytes, AreaKind::PAGE_MAP).start;
    let log = area(bytes, AreaKind::PAGE_LOG).start;
    let config = area(bytes, AreaKind::PAGE_CONFIG).start;
    let places =
        (config..config + 128).chain(map..map + BLOCKS as usize * 8).chain(log..log + 8).chain(log + 64..log + 64 * 9);
    for at in places {
        let mut bad = bytes.to_vec();
        bad[at] ^= 1 << (at % 8);
        answers.judge(&opened(&bad), image, &format!("byte {at}"));
    }
    answers
}

#[test]
fn no_flipped_bit_is_believed() {
    let (bytes, image) = scene();
    let answers = flipped(&bytes, &image);
    assert!(answers.wrong.is_empty(), "{:?}", answers.wrong.first());
    println!("{} refused, {} right", answers.refused, answers.right);
    // A copy of the configuration is enough; entries that are undone are written anew.
    assert!(answers.refused > 400 && answers.right >= 128, "{answers:?}");
}

/// Every byte of the areas, what nobody uses included, with a bit turned over, and what is used in two more ways:
/// refused by name, or everything is right and stays so while it is used.
#[test]
fn no_changed_byte_of_configuration_map_or_log_does_harm() {
    let (bytes, image) = scene();
    let mut answers = Answers::default();
    for kind in [AreaKind::PAGE_CONFIG, AreaKind::PAGE_MAP, AreaKind::PAGE_LOG] {
        let (start, used_len) = (area(&bytes, kind).start, if kind == AreaKind::PAGE_LOG { 64 * 9 } else { 128 });
        for at in area(&bytes, kind) {
            let more = if at < start + used_len { [0xff, bytes[at]] } else { [0; 2] };
            for flip in [1u8 << (at % 8), more[0], more[1]] {
                if flip != 0 {
                    let mut bad = bytes.clone();
                    bad[at] ^= flip;
                    let (pool, before) = (opened(&bad), answers.right);
                    answers.judge(&pool, &image, &format!("{kind}, byte {at} ^ {flip:#x}"));
                    if answers.right > before && at % 16 == 0 {
                        used(&pool, &image);
                    }
                }
            }
        }
    }
    assert!(answers.wrong.is_empty(), "{} {:?}", answers.wrong.len(), answers.wrong.first());
    println!("{} refused, {} right", answers.refused, answers.right);
    assert!(answers.refused > 1200 && answers.right > 15_000, "{} {}", answers.refused, answers.right);
}

/// A table that attaches works.
fn used(pool: &Pool, image: &Image) {
    let mut table = PageTable::attach(pool).unwrap();
    table.write(0, &page(77)).unwrap();
    table.flatten().unwrap();
    table.swap(0, 3).unwrap();
    drop(table);
    let found = read(&PageTable::attach(pool).unwrap()).unwrap();
    assert!(found[3][..] == page(77)[..] && found[0] == image[3] && found[1..3] == image[1..3]);
    assert_eq!(check(pool).unwrap().problems, Vec::<String>::new());
}

#[test]
fn checksums_that_are_not_verified_are_found_out() {
    let (bytes, image) = scene();
    for defect in [Defect::TableUncheckedEntry, Defect::TableUncheckedRecord] {
        let _planted = ondol_faults::set(Some(defect)).unwrap();
        let answers = flipped(&bytes, &image);
        assert!(!answers.wrong.is_empty(), "{defect}: {answers:?}");
    }
}

#[test]
fn damage_has_a_name() {
    let (bytes, _) = scene();
    let attach = |bytes: &[u8]| PageTable::attach(&opened(bytes)).map(drop).unwrap_err();
    let with = |at: usize, new: &[u8]| {
        let mut bytes = bytes.clone();
        bytes[at..at + new.len()].copy_from_slice(new);
        bytes
    };
    let map = area(&bytes, AreaKind::PAGE_MAP).start;
    let log = area(&bytes, AreaKind::PAGE_LOG).start;
    let config = area(&bytes, AreaKind::PAGE_CONFIG).start;
    // Blocks 3 and 4 have no part in the open transaction.
    let e = attach(&with(map + 8 * 3, &[0; 8]));
    assert!(matches!(e, TableError::Map { first: MapFault::Checksum { block: 3, word: 0 }, count: 1, .. }), "{e}");
    assert!(e.to_string().contains("the entry of block 3"), "{e}");
    let e = attach(&with(log, &[0; 8]));
    assert!(matches!(e, TableError::Log { what: LogFault::State(0), .. }), "{e}");
    let e = attach(&with(log + 64 + 30, &[0x55]));
    assert!(matches!(e, TableError::Log { what: LogFault::Record { line: 1, .. }, .. }), "{e}");
    let both = [(config + 20, [1]), (config + PAGE + 20, [1])];
    let e = attach(&both.iter().fold(bytes.clone(), |mut bytes, (at, new)| {
        bytes[*at..at + 1].copy_from_slice(new);
        bytes
    }));
    assert!(matches!(e, TableError::Config { .. }) && e.to_string().contains("checksum"), "{e}");
    // One copy is enough, and is written anew.
    let pool = opened(&with(config + 20, &[1]));
    let report = check(&pool).unwrap();
    assert!(report.problems.len() == 1 && report.problems[0].contains("attaching mends it"), "{report:?}");
    drop(PageTable::attach(&pool).unwrap());
    assert_eq!(check(&pool).unwrap().problems, Vec::<String>::new());
}

#[test]
fn two_blocks_of_one_page_are_named() {
    let pool = pool();
    drop(PageTable::attach(&pool).unwrap());
    let bytes = pool.nvm().to_bytes().unwrap();
    let map = area(&bytes, AreaKind::PAGE_MAP).start as u64;
    let table = PageTable::attach(&pool).unwrap();
    table.write(0, &page(1)).unwrap();
    table.flush().unwrap();
    let one = table.page(0).unwrap().unwrap();
    // The entry of block 2, made in another pool with the same table, for that page.
    let other = opened(&bytes);
    let twin = PageTable::attach(&other).unwrap();
    for _ in 0..=one {
        twin.write(2 * PAGE as u64, &page(2)).unwrap();
        twin.flush().unwrap();
        if twin.page(2).unwrap() == Some(one) {
            break;
        }
    }
    assert_eq!(twin.page(2).unwrap(), Some(one));
    let word = other.nvm().load_u64(map + 16).unwrap();
    drop(table);
    let mut batch = pool.nvm().stored();
    batch.store_u64(map + 16, word).unwrap();
    let _fenced = batch.write_back().fence().unwrap();
    let e = PageTable::attach(&pool).map(drop).unwrap_err();
    assert!(matches!(e, TableError::Map { first: MapFault::Shared { block: 2, .. }, .. }), "{e}");
    assert_eq!(check(&pool).unwrap().problems.len(), 1);
}

#[test]
fn a_lost_line_costs_its_page_alone() {
    let pool = pool();
    let table = PageTable::attach(&pool).unwrap();
    table.write(0, &[page(1), page(2), page(3)].concat()).unwrap();
    table.flush().unwrap();
    let at = pool.area(AreaKind::PAGE_DATA).unwrap().start + u64::from(table.page(1).unwrap().unwrap()) * 4096;
    pool.nvm().poison().add_line(at + 640);
    let mut buf = vec![0; PAGE];
    let e = table.read(4096, &mut buf).unwrap_err();
    assert!(e.to_string().contains("lost") || e.to_string().contains(&(at + 640).to_string()), "{e}");
    assert_eq!(e.raw_os_error(), None, "the facade makes EIO of it");
    table.read(4096, &mut buf[..640]).unwrap();
    table.read(8192, &mut buf).unwrap();
    assert_eq!(buf, page(3));
    // A part of it cannot be changed; all of it can.
    table.write(4096 + 10, &[9; 10]).unwrap_err();
    table.write(4096, &page(4)).unwrap();
    table.flush().unwrap();
    drop(table);
    let table = PageTable::attach(&pool).unwrap();
    table.read(4096, &mut buf).unwrap();
    assert_eq!(buf, page(4));
}

#[test]
fn lost_lines_of_map_and_log_are_named() {
    let (bytes, _) = scene();
    let poisoned = |at: usize| {
        let nvm = Nvm::from_bytes(&bytes).unwrap();
        nvm.poison().add_line(at as u64);
        PageTable::attach(&Pool::open(nvm).unwrap()).map(drop).unwrap_err()
    };
    let log = area(&bytes, AreaKind::PAGE_LOG).start;
    for line in [0, 1, 2] {
        let e = poisoned(log + line * 64);
        assert!(matches!(e, TableError::Log { what: LogFault::Lost(at), .. } if at as usize == log + line * 64), "{e}");
    }
    let closed = pool();
    let map = closed.area(AreaKind::PAGE_MAP).unwrap().start;
    closed.nvm().poison().add_line(map);
    let e = PageTable::attach(&closed).map(drop).unwrap_err();
    assert!(matches!(e, TableError::Map { first: MapFault::Lost { block: 0, .. }, count: BLOCKS, .. }), "{e}");
}

#[test]
fn what_is_no_table_is_refused_by_name() {
    let empty = Pool::create(Nvm::volatile(8 << 20).unwrap(), &Default::default()).unwrap();
    assert!(matches!(PageTable::attach(&empty), Err(TableError::NoTable { .. })));
    assert!(matches!(check(&empty), Err(TableError::NoTable { .. })));
    let mut small = Pool::create(Nvm::volatile(1 << 20).unwrap(), &Default::default()).unwrap();
    let e = TableSpec::default().make(&mut small).unwrap_err();
    assert!(matches!(e, TableError::Small { most: 0, .. }), "{e}");
    assert!(small.header().areas.is_empty(), "nothing is allotted");
    let mut bytes = pool().nvm().to_bytes().unwrap();
    let config = area(&bytes, AreaKind::PAGE_CONFIG).start;
    for copy in [config, config + PAGE] {
        bytes[copy + 8] = 2;
        ondol_medium::seal_header(&mut bytes[copy..copy + 128]);
    }
    let e = PageTable::attach(&opened(&bytes)).map(drop).unwrap_err();
    assert!(matches!(e, TableError::Newer { .. }) && e.to_string().contains("version 2"), "{e}");
    for copy in [config, config + PAGE] {
        bytes[copy + 8] = 1;
        bytes[copy + 32] ^= 1;
        ondol_medium::seal_header(&mut bytes[copy..copy + 128]);
    }
    assert!(matches!(PageTable::attach(&opened(&bytes)), Err(TableError::Foreign { .. })));
}

/// Makes the checksums of all parts right, whatever they hold.
fn sealed(bytes: &mut [u8], at: [usize; 3]) {
    let [config, map, log] = at;
    let crc = |state, bytes: &[u8]| ondol_medium::crc32c(state, &[bytes]);
    for copy in [config + PAGE, config] {
        ondol_medium::seal_header(&mut bytes[copy..copy + 128]);
    }
    let seal = crc(!0, &bytes[config + 16..config + 32]);
    for block in 0..BLOCKS as usize {
        let at = map + 8 * block;
        let covered = [&b"map\0"[..], &(block as u64).to_le_bytes(), &bytes[at..at + 4]].concat();
        bytes[at + 4..at + 8].copy_from_slice(&crc(seal, &covered).to_le_bytes());
    }
    let covered = [&b"log\0"[..], &bytes[log..log + 4]].concat();
    bytes[log + 4..log + 8].copy_from_slice(&crc(seal, &covered).to_le_bytes());
    for line in 1..10 {
        let at = log + 64 * line;
        // Of a record of bytes as many lines as it says.
        let count = usize::from(u16::from_le_bytes([bytes[at + 6], bytes[at + 7]]));
        let len = if bytes[at + 4] == 2 { (32 + count.min(1024)).next_multiple_of(64) } else { 64 };
        let sum = crc(seal, &bytes[at + 4..at + len]);
        bytes[at..at + 4].copy_from_slice(&sum.to_le_bytes());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// What is believed because its checksums are right is still in range, or refused: nothing panics, and a table that
    /// attaches works.
    #[test]
    fn lies_under_right_checksums_do_no_harm(
        patches in proptest::collection::vec((0..4usize, 0..640usize, any::<u8>(), any::<bool>()), 1..6),
    ) {
        let (mut bytes, _) = scene_once();
        let kinds = [AreaKind::PAGE_CONFIG, AreaKind::PAGE_MAP, AreaKind::PAGE_LOG];
        let [config, map, log] = kinds.map(|kind| area(&bytes, kind).start);
        for (part, at, byte, small) in patches {
            let (start, len) = [(config, 128), (map, 8 * BLOCKS as usize), (log, 8), (log + 64, 576)][part];
            bytes[start + at % len] = if small { byte % 16 } else { byte };
        }
        sealed(&mut bytes, [config, map, log]);
        let pool = opened(&bytes);
        let checked = check(&pool);
        match PageTable::attach(&pool) {
            Err(_) => {
                let is_told = checked.map_or(true, |report| !report.problems.is_empty() || report.open);
                prop_assert!(is_told);
            }
            Ok(table) => {
                for block in 0..table.size() / PAGE as u64 {
                    table.write(block * PAGE as u64, &page(block as u8)).unwrap();
                }
                table.flush().unwrap();
                table.swap(0, table.size() / PAGE as u64 - 1).unwrap();
                drop(table);
                prop_assert_eq!(check(&pool).unwrap().problems, Vec::<String>::new());
            }
        }
    }
}

fn scene_once() -> (Vec<u8>, Image) {
    static SCENE: std::sync::OnceLock<(Vec<u8>, Image)> = std::sync::OnceLock::new();
    SCENE.get_or_init(scene).clone()
}
