//! False recovery (papers/3, §3.3): a transaction of which a part was never written, and whose place still holds what
//! an earlier lap of the journal left there, which fits by chance. Figure 3 has three cases: the first, the second, the
//! third block of three is missing.
//!
//! Each is refused by checksum and number, without the paper's zeroing. That it is these that refuse it is shown by
//! leaving them out: then each is believed.

use ondol_block::{BlockStore, RamStore};
use ondol_faults::Defect;
use ondol_format::Time;
use ondol_format::csum::uuid_seed;
use ondol_format::jbd2::{Extension, JournalIncompat, JournalSuperblock};
use ondol_format::unit::{self, Chunk, Tables};
use ondol_journal::jbd2::Recovered;
use ondol_journal::{LogMap, compressed};

const BLOCK: usize = 1024;
const UUID: [u8; 16] = [7; 16];
const JOURNAL: u64 = 10;
const BLOCKS: u64 = 2048;
/// Home of the first of two images.
const HOME: u64 = 1500;
/// Number of the unit that is expected, and of the one that lay there a lap before.
const NOW: u64 = (3 << 32) + 500;
const BEFORE: u64 = NOW - 400;

/// A unit of three blocks: two images of `byte`, which are not compressed, so that they lie in the second and third
/// block but for a few bytes.
fn unit_of(sequence: u64, byte: u8) -> Vec<u8> {
    let tables = unit::tables(&Tables {
        sequence,
        time: Time { sec: 1, nsec: 0 },
        block_size: BLOCK as u32,
        images: &[HOME, HOME + 1],
        revoked: &[],
        staged: &[],
    });
    let chunks = [Chunk::stored(vec![tables]), Chunk::stored(vec![vec![byte; 2 * BLOCK]])];
    let bytes = unit::write(sequence, sequence - 1, &chunks, uuid_seed(&UUID), BLOCK).unwrap();
    assert_eq!(bytes.len(), 3 * BLOCK);
    bytes
}

/// A journal in whose ring `unit` lies where unit [`NOW`] is expected; the home blocks hold ones.
fn medium(unit: &[u8], durable: u64) -> RamStore {
    let mut bytes = vec![0; BLOCK * BLOCKS as usize];
    let mut sb = JournalSuperblock::new(BLOCK as u32, 1024, UUID);
    sb.set_incompat(JournalIncompat::CSUM_V3 | JournalIncompat::COMPRESSED);
    sb.set_start(Some(1), NOW as u32);
    sb.set_extension(&Extension { engine: 2, data: 1, sequence: NOW, durable, attached: None });
    let at = JOURNAL as usize * BLOCK;
    bytes[at..at + 1024].copy_from_slice(&sb.encode());
    bytes[at + BLOCK..at + BLOCK + unit.len()].copy_from_slice(unit);
    bytes[HOME as usize * BLOCK..][..2 * BLOCK].fill(1);
    RamStore::from_bytes(bytes)
}

fn recover(store: &RamStore) -> ondol_journal::Result<Recovered> {
    compressed::recover(store, &LogMap::new(BLOCK as u32, [(JOURNAL, 1024)]), BLOCKS)
}

fn home(store: &RamStore) -> Vec<u8> {
    let mut bytes = vec![0; 2 * BLOCK];
    store.read(HOME * BLOCK as u64, &mut bytes).unwrap();
    bytes
}

/// The new unit with its block number `missing` as the lap before, or zeroing, left it.
fn with_missing(missing: usize, left: &[u8]) -> Vec<u8> {
    let mut bytes = unit_of(NOW, 0xAA);
    let range = missing * BLOCK..(missing + 1) * BLOCK;
    bytes[range.clone()].copy_from_slice(&left[range]);
    bytes
}

#[test]
fn a_whole_unit_is_replayed() {
    let store = medium(&unit_of(NOW, 0xAA), 0);
    assert_eq!(recover(&store).unwrap().transactions, 1);
    assert_eq!(home(&store), [0xAA; 2 * BLOCK]);
}

#[test]
fn the_three_cases_of_figure_3_are_refused_without_zeroing() {
    let before = unit_of(BEFORE, 0x55);
    for missing in 0..3 {
        let store = medium(&with_missing(missing, &before), 0);
        assert_eq!(recover(&store).unwrap(), Recovered::default(), "block {missing}");
        assert_eq!(home(&store), [1; 2 * BLOCK], "block {missing}");
        // Nothing of it can come back later: the next number is past it.
        let again = recover(&store).unwrap();
        assert_eq!(again, Recovered::default());
    }
}

#[test]
fn each_is_believed_where_only_decompression_is_asked() {
    let _planted = ondol_faults::set(Some(Defect::UncheckedUnit)).expect("a build for tests");
    let before = unit_of(BEFORE, 0x55);
    for missing in 0..3 {
        let store = medium(&with_missing(missing, &before), 0);
        assert_eq!(recover(&store).unwrap().transactions, 1, "block {missing}");
        let found = home(&store);
        assert!(found != [1; 2 * BLOCK] && found.contains(&0xAA), "block {missing}: no false recovery was built");
        assert!(missing == 0 || found.contains(&0x55), "block {missing}");
    }
}

/// Zeros do not help where contents were stored as they are: they fit as well as anything.
#[test]
fn zeroing_does_not_replace_the_checksum() {
    let zeros = vec![0; 3 * BLOCK];
    for missing in 0..3 {
        let store = medium(&with_missing(missing, &zeros), 0);
        assert_eq!(recover(&store).unwrap(), Recovered::default());
    }
    let _planted = ondol_faults::set(Some(Defect::UncheckedUnit)).expect("a build for tests");
    let store = medium(&with_missing(2, &zeros), 0);
    assert_eq!(recover(&store).unwrap().transactions, 1);
    assert!(home(&store).contains(&0), "zeros were taken for contents");
}

#[test]
fn a_whole_unit_of_an_earlier_lap_is_refused_by_its_number() {
    let store = medium(&unit_of(BEFORE, 0x55), 0);
    assert_eq!(recover(&store).unwrap(), Recovered::default());
    let _planted = ondol_faults::set(Some(Defect::StaleUnit)).expect("a build for tests");
    let store = medium(&unit_of(BEFORE, 0x55), 0);
    assert_eq!(recover(&store).unwrap().transactions, 1);
}

/// What was durable and is not whole any more is damage, and said; nothing is replayed and nothing is dropped.
#[test]
fn a_damaged_middle_is_no_end() {
    let two = |first: Vec<u8>| [first, unit_of(NOW + 1, 0xBB)].concat();
    let mut damaged = unit_of(NOW, 0xAA);
    damaged[2000] ^= 1;
    for (store, what) in
        [(medium(&two(damaged.clone()), 0), "by the next unit"), (medium(&damaged, NOW), "by the superblock")]
    {
        let before = store.to_bytes();
        let why = recover(&store).expect_err(what).to_string();
        assert!(why.contains(&format!("journal unit {NOW}")) && why.contains("was durable"), "{what}: {why}");
        assert!(store.to_bytes() == before, "{what}: something was written");
    }
    let store = medium(&two(unit_of(NOW, 0xAA)), 0);
    assert_eq!(recover(&store).unwrap().transactions, 2);
    assert_eq!(home(&store), [0xBB; 2 * BLOCK]);
    // The last unit alone may be broken: it was never told to be durable.
    let store = medium(&damaged, NOW - 1);
    assert_eq!(recover(&store).unwrap(), Recovered::default());
}

/// With a right checksum, too, a unit that makes no sense is said to be corrupt, and nothing is written.
#[test]
fn a_unit_that_makes_no_sense_is_corrupt() {
    let tables = |images: &[u64], block_size: u32| {
        let time = Time { sec: 1, nsec: 0 };
        unit::tables(&Tables { sequence: NOW, time, block_size, images, revoked: &[], staged: &[] })
    };
    let cases = [
        (tables(&[HOME], 4096), BLOCK, "size"),
        (tables(&[HOME], BLOCK as u32), 2 * BLOCK, "images"),
        (tables(&[BLOCKS], BLOCK as u32), BLOCK, "no such block"),
        (tables(&[JOURNAL + 3], BLOCK as u32), BLOCK, "no such block"),
    ];
    for (tables, len, word) in cases {
        let chunks = [Chunk::stored(vec![tables]), Chunk::stored(vec![vec![9; len]])];
        let store = medium(&unit::write(NOW, 0, &chunks, uuid_seed(&UUID), BLOCK).unwrap(), 0);
        let before = store.to_bytes();
        let why = recover(&store).expect_err(word).to_string();
        assert!(why.contains(word), "{word}: {why}");
        assert!(store.to_bytes() == before, "{word}: something was written");
    }
}
