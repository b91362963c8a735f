//! How much memory recovery takes, whatever lies in the journal: full logs as engines write them, and lengths that
//! somebody made up.
//!
//! The figures are the system's (`VmHWM`), of a process for each journal: this test binary, started again.

use ondol_block::{Access, FileStore};
use ondol_format::Time;
use ondol_format::csum::{crc32c, uuid_seed};
use ondol_format::jbd2::{
    Commit, DescriptorWriter, Extension, JournalIncompat, JournalSuperblock, LogFormat, OldChecksum, RevokeWriter, Tag,
    revoke_capacity, tag_checksum,
};
use ondol_format::unit::{self, CHUNK, Chunk, StagedRun, Tables};
use ondol_journal::jbd2::Volume;
use ondol_journal::{LogMap, compressed, jbd2};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::Command;

const BLOCK: usize = 1024;
const UUID: [u8; 16] = [7; 16];
/// Blocks of the journal, which lies behind those of the volume.
const RING: u32 = 32 << 10;
const HOMES: u64 = 128 << 10;
const FIRST: u32 = 100;

/// What recovery may take beside the process itself: 8 MiB for what passes, and 64 bytes for each block of the ring or,
/// where they are more, for each different block that the log has images of.
fn bound_kib(blocks: u64) -> u64 {
    (8 << 10) + ((blocks.max(RING.into()) * 64) >> 10)
}

/// Says which image the child is to recover.
const IMAGE: &str = "ONDOL_MEMORY_IMAGE";
const TIME: Time = Time { sec: 1000, nsec: 0 };

fn map() -> LogMap {
    LogMap::new(BLOCK as u32, [(HOMES, u64::from(RING))])
}

fn superblock() -> JournalSuperblock {
    let mut sb = JournalSuperblock::new(BLOCK as u32, RING, UUID);
    sb.set_incompat(JournalIncompat::REVOKE | JournalIncompat::BIT64 | JournalIncompat::CSUM_V3);
    sb.set_start(Some(1), FIRST);
    sb
}

/// A ring that is being filled.
struct Ring {
    file: File,
    at: u64,
}

impl Ring {
    fn new(file: &File, sb: &JournalSuperblock) -> Self {
        file.set_len((HOMES + u64::from(RING)) * BLOCK as u64).unwrap();
        file.write_all_at(&sb.encode(), HOMES * BLOCK as u64).unwrap();
        Self { file: file.try_clone().unwrap(), at: 1 }
    }

    fn left(&self) -> usize {
        (u64::from(RING) - self.at) as usize
    }

    fn add(&mut self, bytes: &[u8]) {
        self.file.write_all_at(bytes, (HOMES + self.at) * BLOCK as u64).unwrap();
        self.at += bytes.len().div_ceil(BLOCK) as u64;
    }
}

/// Bytes that do not compress.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x.to_le_bytes()
    };
    std::iter::repeat_with(&mut next).take(len / 8).flatten().collect()
}

fn format() -> LogFormat {
    superblock().format()
}

fn commit(sequence: u32) -> Vec<u8> {
    let mut block = vec![0; BLOCK];
    Commit { sequence, time: TIME, old_checksum: OldChecksum::None }.write(&mut block, &format());
    block
}

/// jbd2: transactions of many images of different blocks, to the end of the ring.
fn full_of_images(file: &File) {
    let mut ring = Ring::new(file, &superblock());
    let most = DescriptorWriter::capacity(&format());
    let mut home = 0;
    for sequence in FIRST.. {
        if ring.left() < most + 3 {
            return;
        }
        let images: Vec<Vec<u8>> = (0..most as u64).map(|i| noise(home + i + 1, BLOCK)).collect();
        let mut descriptor = vec![0; BLOCK];
        let mut writer = DescriptorWriter::new(&mut descriptor, format(), sequence, &UUID);
        for (image, block) in images.iter().zip(home..) {
            writer.push(&Tag { block, escaped: false, checksum: tag_checksum(&format(), sequence, image) });
        }
        writer.finish();
        home += most as u64;
        ring.add(&[descriptor, images.concat(), commit(sequence)].concat());
    }
}

/// jbd2: one transaction that revokes a different block with every 8 bytes of the ring.
fn full_of_revokes(file: &File) {
    let mut ring = Ring::new(file, &superblock());
    let most = revoke_capacity(&format());
    let mut block = 1 << 32;
    while ring.left() > 2 {
        let mut bytes = vec![0; BLOCK];
        let mut writer = RevokeWriter::new(&mut bytes, format(), FIRST);
        for i in 0..most as u64 {
            writer.push(block + i);
        }
        writer.finish();
        ring.add(&bytes);
        block += most as u64;
    }
    ring.add(&commit(FIRST));
}

fn compressed_superblock() -> JournalSuperblock {
    let mut sb = superblock();
    sb.set_incompat(sb.incompat() | JournalIncompat::COMPRESSED);
    sb.set_extension(&Extension { engine: 2, data: 1, sequence: FIRST.into(), ..Extension::default() });
    sb
}

/// The unit of this number with these tables, and images of noise or of zeros.
fn unit_of(sequence: u32, images: &[u64], zeros: bool, revoked: &[u64], staged: &[StagedRun]) -> Vec<u8> {
    let sequence = u64::from(sequence);
    let tables = unit::tables(&Tables { sequence, time: TIME, block_size: BLOCK as u32, images, revoked, staged });
    let mut chunks: Vec<Chunk> = tables.chunks(CHUNK).map(Chunk::compressed).collect();
    chunks.extend(images.chunks(CHUNK / BLOCK).map(|some| match zeros {
        true => Chunk::compressed(&vec![0; some.len() * BLOCK]),
        false => Chunk::stored(vec![noise(some[0] + 1, some.len() * BLOCK)]),
    }));
    unit::write(sequence, sequence - 1, &chunks, uuid_seed(&UUID), BLOCK).unwrap()
}

/// Units as large as they get, a quarter of the ring each.
fn full_of_units(file: &File) {
    let mut ring = Ring::new(file, &compressed_superblock());
    let each = u64::from(RING) / 4 - 200;
    for n in 0..4 {
        let images: Vec<u64> = (n * each..(n + 1) * each).collect();
        ring.add(&unit_of(FIRST + n as u32, &images, false, &[], &[]));
    }
    assert!(ring.left() < 1000);
}

/// Units of images of more different blocks than the ring has.
fn compressing_well(file: &File) {
    let mut ring = Ring::new(file, &compressed_superblock());
    let each = HOMES / 5;
    for n in 0..5 {
        let images: Vec<u64> = (n * each..(n + 1) * each).collect();
        ring.add(&unit_of(FIRST + n as u32, &images, true, &[], &[]));
    }
}

/// Whose size or contents' size somebody has made as large as the ring.
fn false_length(file: &File, field: usize) {
    let mut ring = Ring::new(file, &compressed_superblock());
    let mut unit = unit_of(FIRST, &[5], false, &[], &[]);
    unit[field..field + 4].copy_from_slice(&((RING - 2) * BLOCK as u32).to_le_bytes());
    if field > 4 {
        let size = u32::from_le_bytes(unit[..4].try_into().unwrap()) as usize;
        let sum = crc32c(uuid_seed(&UUID), &unit[8..size]);
        unit[4..8].copy_from_slice(&sum.to_le_bytes());
    }
    ring.add(&unit);
}

/// Tables that compress well and are as long as the ring.
fn long_tables(file: &File, revokes: bool) {
    let mut ring = Ring::new(file, &compressed_superblock());
    let bytes = RING as usize * BLOCK * 3 / 4;
    let (revoked, staged) = match revokes {
        true => (vec![7; bytes / 8], Vec::new()),
        false => (Vec::new(), vec![StagedRun { start: 3, blocks: 0, checksum: uuid_seed(&UUID) }; bytes / 16]),
    };
    ring.add(&unit_of(FIRST, &[], false, &revoked, &staged));
}

/// A process of its own recovers the journal: what it says, and its peak of memory in KiB.
fn recovered(make: impl FnOnce(&File)) -> (String, u64) {
    let image = tempfile::NamedTempFile::new().unwrap();
    make(image.as_file());
    child(image.path().as_os_str())
}

fn child(image: &std::ffi::OsStr) -> (String, u64) {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "recovers_what_it_is_told_to", "--nocapture", "--test-threads=1"]).env(IMAGE, image);
    let said = String::from_utf8(child.output().unwrap().stdout).unwrap();
    let line = said.lines().find_map(|line| line.split_once("recovery: ")).expect(&said).1;
    let (peak, outcome) = line.split_once(' ').unwrap();
    (outcome.to_owned(), peak.parse().unwrap())
}

/// What the other tests start with an image; alone it recovers nothing, which is the memory of the process itself.
#[test]
fn recovers_what_it_is_told_to() {
    let image = std::env::var_os(IMAGE).unwrap_or_default();
    let outcome = match image.is_empty() {
        true => "nothing to do".to_owned(),
        false => {
            let store = FileStore::open(image.as_ref(), Access::Write).unwrap();
            let volume = Volume { blocks: HOMES, made: 0 };
            let recovered = match jbd2::info(&store, &map()).unwrap().compressed {
                true => compressed::recover(&store, &map(), volume.blocks),
                false => jbd2::recover(&store, &map(), volume),
            };
            recovered.map_or_else(|e| e.to_string(), |r| format!("{} of {}", r.blocks, r.transactions))
        }
    };
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap().trim_end_matches("kB").trim();
    println!("recovery: {peak} {outcome}");
}

#[test]
fn recovery_takes_a_bounded_amount_of_memory() {
    let (_, process) = child("".as_ref());
    type Make = Box<dyn FnOnce(&File)>;
    let cases: Vec<(&str, Make, &str)> = vec![
        ("a log full of images", Box::new(full_of_images), " of "),
        ("a log full of revokes", Box::new(full_of_revokes), "0 of 1"),
        ("units that fill the ring", Box::new(full_of_units), " of 4"),
        ("units that compress well", Box::new(compressing_well), " of 5"),
        ("a size that is made up", Box::new(|file| false_length(file, 0)), "0 of 0"),
        ("contents that are made up", Box::new(|file| false_length(file, 36)), "for 1 images"),
        ("revokes without end", Box::new(|file| long_tables(file, true)), "revokes of more than"),
        ("staged runs without end", Box::new(|file| long_tables(file, false)), "0 of 1"),
    ];
    for (name, make, expected) in cases {
        let (outcome, peak) = recovered(make);
        let took = peak.saturating_sub(process);
        let blocks = outcome.split_once(" of ").and_then(|(blocks, _)| blocks.parse().ok()).unwrap_or(0);
        let bound = bound_kib(blocks);
        println!("{name}: {took} KiB of {bound}, {outcome}");
        assert!(outcome.contains(expected), "{name}: {outcome}");
        assert!(took < bound, "{name}: {took} KiB of {bound}");
    }
}
