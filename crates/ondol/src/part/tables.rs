//! Partition tables as they lie on disks: MBR with logical partitions, and GPT.
//!
//! Whoever made them may have meant harm: no chain is followed for ever, and no partition goes beyond the disk.

use crate::{Error, Result};
use ondol_block::{BlockStore, FileStore};
use serde::Serialize;

/// A partition of a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Partition {
    /// As the kernel counts: from 1, logical ones from 5.
    pub number: u32,
    /// Its first byte.
    pub start: u64,
    /// Bytes.
    pub size: u64,
}

/// Sizes of a sector that a table of a disk's image may count in.
const SECTORS: [u64; 2] = [512, 4096];
/// Bytes of an MBR, whatever the size of a sector.
const MBR: usize = 512;
/// The type of an MBR's entry that stands for a GPT.
const PROTECTIVE: u8 = 0xee;
/// Types of entries in which logical partitions lie.
const EXTENDED: [u8; 3] = [0x05, 0x0f, 0x85];
/// Logical partitions that are looked for at most.
const MOST_LOGICAL: u32 = 256;
/// Entries of a GPT, and bytes of one, that are believed.
const MOST_ENTRIES: u32 = 1024;
const ENTRY_BYTES: std::ops::RangeInclusive<u32> = 128..=4096;

/// The partitions on a disk, by number; none where there is no table.
pub(crate) fn partitions_in(disk: &FileStore) -> Result<Vec<Partition>> {
    let Some(mbr) = sector(disk, 0)? else { return Ok(Vec::new()) };
    let entries = entries(&mbr);
    let found = if entries.iter().any(|entry| entry.kind == PROTECTIVE) {
        gpt(disk)?
    } else {
        // A device tells what it counts in; images are those of disks with 512.
        let sector = rustix::fs::ioctl_blksszget(disk.file()).map_or(SECTORS[0], u64::from);
        let mut found = primary(&entries, sector);
        for extended in entries.iter().filter(|entry| EXTENDED.contains(&entry.kind)) {
            let taken = found.iter().filter(|partition| partition.number > 4).count() as u32;
            found.extend(logical(disk, extended.start, sector, 5 + taken)?);
        }
        found
    };
    let is_within = |partition: &Partition| {
        partition.start.checked_add(partition.size).is_some_and(|end| end <= disk.size()) && partition.size > 0
    };
    match found.iter().find(|partition| !is_within(partition)) {
        Some(bad) => Err(damaged(disk, &format!("partition {} goes beyond its end", bad.number))),
        None => Ok(found),
    }
}

fn damaged(disk: &FileStore, what: &str) -> Error {
    Error::state(disk.name(), format!("its partition table is damaged: {what}"))
}

/// One entry of an MBR, in sectors.
struct Entry {
    kind: u8,
    start: u64,
    count: u64,
}

/// The MBR, or a link of the chain of logical partitions, at a byte; `None` if none is there.
fn sector(disk: &FileStore, at: u64) -> Result<Option<[u8; MBR]>> {
    if at.checked_add(MBR as u64).is_none_or(|end| end > disk.size()) {
        return Ok(None);
    }
    let mut bytes = [0; MBR];
    disk.read(at, &mut bytes)?;
    Ok((bytes[510..] == [0x55, 0xaa]).then_some(bytes))
}

fn entries(mbr: &[u8; MBR]) -> Vec<Entry> {
    let number = |bytes: &[u8]| u64::from(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
    let entry = |e: &[u8]| Entry { kind: e[4], start: number(&e[8..12]), count: number(&e[12..16]) };
    mbr[446..510].chunks_exact(16).map(entry).collect()
}

/// Those of the MBR itself; what logical partitions lie in holds no image.
fn primary(entries: &[Entry], sector: u64) -> Vec<Partition> {
    let is_one = |(_, e): &(u32, &Entry)| e.kind != 0 && e.count > 0 && !EXTENDED.contains(&e.kind);
    (1..)
        .zip(entries)
        .filter(is_one)
        .map(|(number, e)| Partition { number, start: e.start * sector, size: e.count * sector })
        .collect()
}

/// Those in an extended partition, which begins with sector `extended`: a chain of tables, each with one partition and
/// the next table.
fn logical(disk: &FileStore, extended: u64, sector_bytes: u64, first: u32) -> Result<Vec<Partition>> {
    let (mut found, mut here) = (Vec::new(), extended);
    for _ in 0..MOST_LOGICAL {
        let Some(table) = sector(disk, here * sector_bytes)? else {
            return Err(damaged(disk, "a link of the chain of logical partitions is missing"));
        };
        let entries = entries(&table);
        if entries[0].kind != 0 && entries[0].count > 0 {
            let (start, size) = ((here + entries[0].start) * sector_bytes, entries[0].count * sector_bytes);
            found.push(Partition { number: first + found.len() as u32, start, size });
        }
        if !EXTENDED.contains(&entries[1].kind) || entries[1].start == 0 {
            return Ok(found);
        }
        here = extended + entries[1].start;
    }
    Err(damaged(disk, "the chain of logical partitions has no end"))
}

fn gpt(disk: &FileStore) -> Result<Vec<Partition>> {
    for sector in SECTORS {
        let last = (disk.size() / sector).saturating_sub(1);
        for header in [1, last] {
            if let Some(found) = table(disk, header, sector)? {
                return Ok(found);
            }
        }
    }
    Err(damaged(disk, "neither the GPT nor its copy at the end is whole"))
}

/// The table whose header is in a sector, if it is whole.
fn table(disk: &FileStore, header: u64, sector: u64) -> Result<Option<Vec<Partition>>> {
    let Some(at) = header.checked_mul(sector).filter(|at| at.checked_add(sector).is_some_and(|end| end <= disk.size()))
    else {
        return Ok(None);
    };
    let mut bytes = vec![0; sector as usize];
    disk.read(at, &mut bytes)?;
    let (size, sum) = (number(&bytes, 12), number(&bytes, 16));
    if bytes[..8] != *b"EFI PART" || !(92..=512).contains(&size) || wide(&bytes, 24) != header {
        return Ok(None);
    }
    bytes[16..20].fill(0);
    if crc32(&bytes[..size as usize]) != sum {
        return Ok(None);
    }
    let (place, count, entry_bytes, sum) =
        (wide(&bytes, 72), number(&bytes, 80), number(&bytes, 84), number(&bytes, 88));
    if count > MOST_ENTRIES || !ENTRY_BYTES.contains(&entry_bytes) {
        return Ok(None);
    }
    let mut entries = vec![0; (count * entry_bytes) as usize];
    let fits = place
        .checked_mul(sector)
        .filter(|at| at.checked_add(entries.len() as u64).is_some_and(|end| end <= disk.size()));
    let Some(at) = fits else { return Ok(None) };
    disk.read(at, &mut entries)?;
    if crc32(&entries) != sum {
        return Ok(None);
    }
    let used = (1..).zip(entries.chunks_exact(entry_bytes as usize)).filter(|(_, entry)| entry[..16] != [0; 16]);
    let partition = |(partition, entry): (u32, &[u8])| {
        let (first, last) = (wide(entry, 32), wide(entry, 40));
        let sectors = last.checked_sub(first).and_then(|n| n.checked_add(1));
        let (start, size) = (first.checked_mul(sector), sectors.and_then(|n| n.checked_mul(sector)));
        let whole = start.zip(size).map(|(start, size)| Partition { number: partition, start, size });
        whole.ok_or_else(|| damaged(disk, &format!("partition {partition} ends before it begins, or nowhere")))
    };
    used.map(partition).collect::<Result<_>>().map(Some)
}

fn number(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().rev().fold(0, |n, byte| n << 8 | u32::from(*byte))
}

fn wide(bytes: &[u8], at: usize) -> u64 {
    u64::from(number(bytes, at)) | u64::from(number(bytes, at + 4)) << 32
}

/// The checksum of a GPT: CRC-32 as in Ethernet. A table is small.
fn crc32(bytes: &[u8]) -> u32 {
    let byte = |sum: u32, byte: &u8| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 })
    };
    !bytes.iter().fold(!0, byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondol_block::Access;
    use std::io::Write;

    fn disk(bytes: &[u8]) -> FileStore {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        FileStore::from_file(file, "disk".into(), Access::Read).unwrap()
    }

    /// An MBR whose entries are these: type, start, count.
    fn mbr(parts: &[(u8, u32, u32)]) -> Vec<u8> {
        let mut bytes = vec![0; MBR];
        for (at, (kind, start, count)) in (446..).step_by(16).zip(parts) {
            bytes[at + 4] = *kind;
            bytes[at + 8..at + 12].copy_from_slice(&start.to_le_bytes());
            bytes[at + 12..at + 16].copy_from_slice(&count.to_le_bytes());
        }
        bytes[510..].copy_from_slice(&[0x55, 0xaa]);
        bytes
    }

    #[test]
    fn the_checksum_is_that_of_ethernet() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn hostile_tables_are_refused() {
        assert_eq!(partitions_in(&disk(b"")).unwrap(), []);
        assert_eq!(partitions_in(&disk(&[0; 4096])).unwrap(), []);
        let sectors = |table: &[u8], count: usize| disk(&[table, &vec![0; count * MBR - table.len()]].concat());
        let one = Partition { number: 2, start: 512, size: 1024 };
        assert_eq!(partitions_in(&sectors(&mbr(&[(0, 1, 1), (0x83, 1, 2)]), 3)).unwrap(), [one]);
        let said = |disk: &FileStore| partitions_in(disk).unwrap_err().to_string();
        assert!(said(&sectors(&mbr(&[(0x83, 1, 3)]), 3)).contains("partition 1 goes beyond its end"));
        assert!(said(&sectors(&mbr(&[(0x83, u32::MAX, u32::MAX)]), 3)).contains("goes beyond its end"));
        assert!(said(&sectors(&mbr(&[(PROTECTIVE, 1, 3)]), 100)).contains("neither the GPT nor its copy"));
        assert!(said(&sectors(&mbr(&[(5, 2, 1)]), 4)).contains("is missing"));
        // A chain that leads back to itself.
        let chain = [mbr(&[(0x0f, 1, 9)]), mbr(&[(0, 0, 0), (5, 1, 1)]), mbr(&[(0x83, 1, 1), (5, 1, 1)])].concat();
        assert!(said(&sectors(&chain, 8)).contains("has no end"));
    }
}
