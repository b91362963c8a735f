//! A journal that was made over another with the same UUID, and was not zeroed (`mke2fs -U SAME -E
//! lazy_journal_init=1`): what the older one left in the ring is neither replayed nor taken for damage, and real damage
//! is still told. Looking for it takes few reads.

use ondol_block::{Access, BlockStore, DeviceClass, FileStore, RamStore};
use ondol_env::sync::Arc;
use ondol_env::{Fixed, Timestamp};
use ondol_format::Time;
use ondol_format::jbd2::{
    Commit, DescriptorWriter, Extension, JournalIncompat, JournalSuperblock, LogFormat, OldChecksum, Tag, tag_checksum,
};
use ondol_journal::jbd2::{self, Volume};
use ondol_journal::{
    Client, Config, Corrupt, Extent, Ground, Handle, Images, Journal, Kind, LogMap, Patches, Ranges, compressed, open,
};
use ondol_stores::{FaultPlan, Faulty};
use std::os::unix::fs::FileExt;

const BLOCK: usize = 1024;
const UUID: [u8; 16] = [7; 16];
/// Blocks of the journal, which is where the medium begins.
const JOURNAL: u64 = 256;
const HOME: u64 = JOURNAL + 10;
const BLOCKS: u64 = JOURNAL + 64;
/// When the older volume was used, when this one was made, and when it is used.
const BEFORE: i64 = 1000;
const MADE: i64 = 5000;
const NOW: i64 = 9000;

fn superblock(blocks: u32) -> JournalSuperblock {
    let mut sb = JournalSuperblock::new(BLOCK as u32, blocks, UUID);
    sb.set_incompat(JournalIncompat::REVOKE | JournalIncompat::BIT64 | JournalIncompat::CSUM_V3);
    sb
}

fn format() -> LogFormat {
    superblock(JOURNAL as u32).format()
}

/// A transaction as blocks: descriptor, `images` images, commit block.
fn transaction(sequence: u32, images: usize, time: i64) -> Vec<Vec<u8>> {
    let contents: Vec<Vec<u8>> = (0..images).map(|i| vec![sequence as u8 ^ i as u8 ^ time as u8; BLOCK]).collect();
    let mut descriptor = vec![0; BLOCK];
    let mut writer = DescriptorWriter::new(&mut descriptor, format(), sequence, &UUID);
    for (image, block) in contents.iter().zip(HOME..) {
        writer.push(&Tag { block, escaped: false, checksum: tag_checksum(&format(), sequence, image) });
    }
    writer.finish();
    let mut commit = vec![0; BLOCK];
    let time = Time { sec: time, nsec: 0 };
    Commit { sequence, time, old_checksum: OldChecksum::None }.write(&mut commit, &format());
    std::iter::once(descriptor).chain(contents).chain([commit]).collect()
}

/// A medium whose journal begins with block 1.
struct Log {
    bytes: Vec<u8>,
    /// Where the next block goes.
    at: usize,
}

impl Log {
    /// A ring that holds `older` transactions from number `from` on, of so many images.
    fn over(older: u32, from: u32, images: usize) -> Self {
        let mut log = Self { bytes: vec![0; BLOCK * BLOCKS as usize], at: 1 };
        (from..from + older).for_each(|sequence| log.add(&transaction(sequence, images, BEFORE)));
        log.at = 1;
        log
    }

    fn add(&mut self, blocks: &[Vec<u8>]) {
        for block in blocks {
            self.bytes[self.at * BLOCK..][..BLOCK].copy_from_slice(block);
            self.at += 1;
        }
    }

    /// Its journal as it is found after a crash.
    fn store(&self, first: u32) -> RamStore {
        let mut sb = superblock(JOURNAL as u32);
        sb.set_start(Some(1), first);
        let mut bytes = self.bytes.clone();
        bytes[..1024].copy_from_slice(&sb.encode());
        RamStore::from_bytes(bytes)
    }

    /// The number of whole transactions that were replayed.
    fn recover(&self, first: u32) -> Result<u64, String> {
        let map = LogMap::new(BLOCK as u32, [(0, JOURNAL)]);
        let recovered = jbd2::recover(&self.store(first), &map, Volume { blocks: BLOCKS, made: MADE });
        recovered.map(|r| r.transactions).map_err(|e| e.to_string())
    }

    /// Whether a block of this transaction lies there, by chance.
    fn goes_on(&self, at: usize, sequence: u32) -> bool {
        let there = &self.bytes[at * BLOCK..][..12];
        there[..4] == [0xc0, 0x3b, 0x39, 0x98] && there[8..] == sequence.to_be_bytes()
    }
}

/// How far the transaction came that the crash cut off: blocks of it that arrived.
const ARRIVED: [usize; 4] = [0, 1, 2, 4];

#[test]
fn what_an_older_journal_left_is_no_damage() {
    let (mut cases, mut refused) = (0, Vec::new());
    for (older, newer) in (1..=6).flat_map(|a| (1..=6).map(move |b| (a, b))) {
        for (from, first) in [(1, 1), (1, 3), (4, 1), (20, 22)] {
            for (whole, arrived) in (0..8).flat_map(|n| ARRIVED.map(|arrived| (n, arrived))) {
                let mut log = Log::over(30, from, older);
                (first..first + whole).for_each(|n| log.add(&transaction(n, newer, NOW)));
                let cut = transaction(first + whole, newer, NOW);
                let arrived = arrived.min(cut.len() - 1);
                log.add(&cut[..arrived]);
                // jbd2 itself would take these for its own.
                let commit = if arrived > 0 { log.at + cut.len() - 1 - arrived } else { log.at };
                if log.goes_on(log.at, first + whole) || log.goes_on(commit, first + whole) {
                    continue;
                }
                cases += 1;
                match log.recover(first) {
                    Ok(n) => assert_eq!(n, u64::from(whole)),
                    Err(e) => {
                        refused.push(format!("{older}/{newer} images, {whole} whole from {first}, {arrived}: {e}"))
                    }
                }
            }
        }
    }
    assert!(cases > 3000, "{cases}");
    assert!(refused.is_empty(), "{} of {cases}, such as {}", refused.len(), refused[0]);
}

#[test]
fn damage_is_told_whatever_lies_behind_the_log() {
    for (older, newer) in (1..=6).flat_map(|a| (1..=6).map(move |b| (a, b))) {
        let mut log = Log::over(30, 1, older);
        (1..=6).for_each(|n| log.add(&transaction(n, newer, NOW)));
        if log.goes_on(log.at, 7) {
            continue;
        }
        let each = newer + 2;
        // All blocks but the last commit block, without which the last transaction has never been.
        for damaged in 1..log.at - 1 {
            let mut log = Log { bytes: log.bytes.clone(), at: log.at };
            log.bytes[damaged * BLOCK + 5] ^= 4;
            let recovered = log.recover(1);
            let is_image = (damaged - 1) % each > 0 && damaged % each > 0;
            if is_image && damaged <= 5 * each {
                assert_eq!(recovered, Ok(6), "a newer image has its place");
            } else {
                recovered.expect_err(&format!("{older}/{newer} images, block {damaged}"));
            }
        }
    }
}

/// Nothing is sealed.
struct Plain;

impl Client for Plain {
    fn build(&self, _kind: Kind, _bytes: &mut [u8]) -> bool {
        false
    }

    fn verify(&self, _block: u64, _kind: Kind, _bytes: &[u8]) -> Result<(), Corrupt> {
        Ok(())
    }
    fn seal(&self, _b: u64, _k: Kind, _image: &[u8], _dirty: &Ranges, _tx: &dyn Images) -> Patches {
        Patches::default()
    }

    fn may_tear(&self, _: Kind) -> bool {
        false
    }

    fn release(&self, _freed: &[Extent]) {}
}

/// A first transaction whose tail is set, and of which nothing else arrives: the older journal's first one must not
/// come in its place.
#[test]
fn a_new_journal_does_not_replay_an_older_one() {
    let mut bytes = Log::over(9, 1, 3).bytes;
    bytes[..1024].copy_from_slice(&superblock(JOURNAL as u32).encode());
    let store = Arc::new(Faulty::new(RamStore::from_bytes(bytes)));
    let map = LogMap::new(BLOCK as u32, [(0, JOURNAL)]);
    let config = Config {
        commit_interval: 5,
        dirty_bytes: 1 << 20,
        kept_bytes: Some(1 << 20),
        device: DeviceClass::Disk,
        cache_bytes: 1 << 20,
        pending_bytes: 1 << 20,
        journaled_data: true,
        discard: false,
        zeroing: false,
        checkpoint_threads: None,
    };
    let env = Arc::new(Fixed::new(Timestamp { sec: NOW, nsec: 0 }, 1));
    let ground = Ground { store: store.clone(), block_size: BLOCK, client: Arc::new(Plain), env, config };
    let engine = open(ground, Journal::Classic(map.clone())).unwrap();
    let mut handle = Handle::begin(&*engine, 1).unwrap();
    handle.write(HOME, Kind { class: 1, owner: 1, salt: 0 }, 0, &[1; BLOCK]).unwrap();
    let tid = handle.close();
    store.arm(FaultPlan { writes: Some(1), ..FaultPlan::default() });
    engine.wait(tid).unwrap_err();
    store.arm(FaultPlan::default());
    assert!(jbd2::info(&*store, &map).unwrap().dirty, "the tail is set");
    let recovered = jbd2::recover(&*store, &map, Volume { blocks: BLOCKS, made: MADE }).unwrap();
    assert_eq!(recovered.transactions, 0);
    let mut home = [0; BLOCK];
    store.read(HOME * BLOCK as u64, &mut home).unwrap();
    assert_eq!(home, [0; BLOCK]);
}

/// A disk that holds `bytes`.
fn disk(bytes: &[u8]) -> FileStore {
    let file = tempfile::tempfile().unwrap();
    file.write_all_at(bytes, 0).unwrap();
    FileStore::from_file(file, "disk".into(), Access::Write).unwrap()
}

/// The whole ring is looked at, in few reads.
#[test]
fn a_ring_is_read_in_large_pieces() {
    const RING: u64 = 64 << 10;
    let map = LogMap::new(BLOCK as u32, [(BLOCKS, RING)]);
    let medium = |sb: JournalSuperblock| {
        let mut bytes = vec![0; BLOCK * (BLOCKS + RING) as usize];
        bytes[BLOCKS as usize * BLOCK..][..1024].copy_from_slice(&sb.encode());
        bytes
    };
    let mut sb = superblock(RING as u32);
    sb.set_start(Some(1), 5);
    let mut bytes = medium(sb);
    bytes[(BLOCKS as usize + 1) * BLOCK..][..3 * BLOCK].copy_from_slice(&transaction(5, 1, NOW).concat());
    let store = disk(&bytes);
    jbd2::recover(&store, &map, Volume { blocks: BLOCKS + RING, made: MADE }).unwrap();
    let (pieces, reads) = ((RING * BLOCK as u64) >> 20, store.stats().reads);
    assert!(reads < pieces + 20, "classic: {reads} reads");

    let mut sb = superblock(RING as u32);
    sb.set_incompat(sb.incompat() | JournalIncompat::COMPRESSED);
    sb.set_start(Some(1), 5);
    sb.set_extension(&Extension { sequence: 5, ..Extension::default() });
    let store = disk(&medium(sb));
    compressed::recover(&store, &map, BLOCKS + RING).unwrap();
    let reads = store.stats().reads;
    assert!(reads < pieces + 20, "compressed: {reads} reads");
}
