//! The bytes of the cache's file. Numbers are little-endian.
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 4096 | the head: magic `OndolCch`, version (4), bytes of a part (4), slots (8), random id (16), crc32c of these 40 bytes (4) |
//! | 4096 | 16 for each slot | the directory: hash of a name (8), part (4), crc32c of the id, the slot's number and these 12 bytes (4) |
//! | behind it, at a multiple of 4096 | 66048 for each | a slot: its head of 512 bytes, and a part |
//!
//! Head of a slot: crc32c (4) of the id, the slot's number, the rest of the head and the part; bytes of the name (2), zero (2), part (4), its bytes (4), bytes of the object (8), when it was
//! last modified in seconds since 1970 (8), the name. A slot says all that it is; the directory only helps to find it.

use crate::format::sum;

/// Bytes of a part.
pub(super) const PART: u64 = 64 << 10;
/// Bytes of the head of a slot.
pub(super) const HEAD: usize = 512;
/// Bytes of a slot.
pub(super) const SLOT: usize = HEAD + PART as usize;
/// Bytes of an entry of the directory.
pub(super) const ENTRY: usize = 16;
/// Bytes of the file's head.
pub(super) const FILE_HEAD: u64 = 4096;
/// Where the name begins in the head of a slot.
const FIXED: usize = 32;
/// The most bytes of a name.
pub(super) const NAME: usize = HEAD - FIXED;

pub(super) const MAGIC: &[u8; 8] = b"OndolCch";
const VERSION: u32 = 1;

/// Fewer slots are not worth it.
pub(super) const LEAST: u64 = 16;

/// What a file says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileHead {
    pub(super) slots: u32,
    pub(super) id: [u8; 16],
}

/// A slot that is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot<'a> {
    pub(super) name: &'a str,
    pub(super) part: u32,
    pub(super) size: u64,
    pub(super) modified: i64,
    pub(super) bytes: &'a [u8],
}

impl FileHead {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(PART as u32).to_le_bytes());
        bytes.extend_from_slice(&u64::from(self.slots).to_le_bytes());
        bytes.extend_from_slice(&self.id);
        bytes.extend_from_slice(&sum(&[&bytes]).to_le_bytes());
        bytes.resize(FILE_HEAD as usize, 0);
        bytes
    }

    /// None: it is not one that can be used.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let body = bytes.get(..40)?;
        let fits = body[..8] == MAGIC[..]
            && body[8..12] == VERSION.to_le_bytes()
            && body[12..16] == (PART as u32).to_le_bytes()
            && bytes.get(40..44)? == sum(&[body]).to_le_bytes();
        let slots = u64::from_le_bytes(body[16..24].try_into().ok()?);
        Some(Self { slots: slots.try_into().ok()?, id: body[24..40].try_into().ok()? }).filter(|_| fits)
    }

    /// Where the directory ends and the slots begin.
    pub(super) fn slots_at(&self) -> u64 {
        FILE_HEAD + (u64::from(self.slots) * ENTRY as u64).next_multiple_of(FILE_HEAD)
    }

    pub(super) fn len(&self) -> u64 {
        self.slots_at() + u64::from(self.slots) * SLOT as u64
    }

    /// The most slots of a file of `bytes`.
    pub(super) fn fitting(bytes: u64) -> u64 {
        let fitting = bytes.saturating_sub(2 * FILE_HEAD) / (SLOT + ENTRY) as u64;
        fitting.min(u64::from(u32::MAX))
    }

    pub(super) fn entry(&self, slot: u32, hash: u64, part: u32) -> [u8; ENTRY] {
        let mut entry = [0; ENTRY];
        entry[..8].copy_from_slice(&hash.to_le_bytes());
        entry[8..12].copy_from_slice(&part.to_le_bytes());
        let sum = sum(&[&self.id, &slot.to_le_bytes(), &entry[..12]]);
        entry[12..].copy_from_slice(&sum.to_le_bytes());
        entry
    }

    /// Hash and part, if the entry is right.
    pub(super) fn entry_of(&self, slot: u32, entry: &[u8]) -> Option<(u64, u32)> {
        let hash = u64::from_le_bytes(entry.get(..8)?.try_into().ok()?);
        let part = u32::from_le_bytes(entry.get(8..12)?.try_into().ok()?);
        (self.entry(slot, hash, part)[..] == *entry).then_some((hash, part))
    }

    /// FNV-1a, of the id and the name.
    pub(super) fn hash(&self, name: &str) -> u64 {
        let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        self.id.iter().chain(name.as_bytes()).fold(0xcbf2_9ce4_8422_2325, step)
    }

    /// The bytes of slot `number`: head and part, and nothing behind.
    pub(super) fn slot(&self, number: u32, slot: &Slot<'_>) -> Vec<u8> {
        let mut bytes = vec![0; HEAD];
        bytes[4..6].copy_from_slice(&(slot.name.len() as u16).to_le_bytes());
        bytes[8..12].copy_from_slice(&slot.part.to_le_bytes());
        bytes[12..16].copy_from_slice(&(slot.bytes.len() as u32).to_le_bytes());
        bytes[16..24].copy_from_slice(&slot.size.to_le_bytes());
        bytes[24..32].copy_from_slice(&slot.modified.to_le_bytes());
        bytes[FIXED..FIXED + slot.name.len()].copy_from_slice(slot.name.as_bytes());
        bytes.extend_from_slice(slot.bytes);
        let sum = sum(&[&self.id, &number.to_le_bytes(), &bytes[4..]]);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// What slot `number` holds, if it is right.
    pub(super) fn slot_of<'a>(&self, number: u32, bytes: &'a [u8]) -> Option<Slot<'a>> {
        let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let long = |at: usize| bytes.get(at..at + 8)?.try_into().ok();
        let len = word(12)? as usize;
        let all = bytes.get(..HEAD.checked_add(len).filter(|_| len <= PART as usize)?)?;
        if word(0)? != sum(&[&self.id, &number.to_le_bytes(), &all[4..]]) {
            return None;
        }
        let name_len = u16::from_le_bytes([all[4], all[5]]) as usize;
        let name = std::str::from_utf8(all[..HEAD].get(FIXED..FIXED + name_len)?).ok()?;
        let (size, modified) = (u64::from_le_bytes(long(16)?), i64::from_le_bytes(long(24)?));
        let part = word(8)?;
        // Only the last part is shorter than others.
        let fits = PART.min(size.checked_sub(u64::from(part) * PART)?) == len as u64;
        Some(Slot { name, part, size, modified, bytes: &all[HEAD..] }).filter(|_| fits && len > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileHead = FileHead { slots: 40, id: [3; 16] };

    #[test]
    fn heads_come_back_and_files_have_the_size_that_was_asked_for() {
        assert_eq!(FileHead::decode(&FILE.encode()), Some(FILE));
        for bytes in [2 << 20, 10 << 20, 12_345_678, 1 << 40] {
            let slots = FileHead::fitting(bytes) as u32;
            let (len, more) = (FileHead { slots, ..FILE }.len(), FileHead { slots: slots + 1, ..FILE }.len());
            assert!(len <= bytes && more > bytes - 2 * FILE_HEAD, "{bytes}: {len} {more}");
        }
        assert_eq!((FileHead::fitting(0), FileHead::fitting(u64::MAX)), (0, u64::from(u32::MAX)));
    }

    #[test]
    fn any_byte_that_is_changed_is_found() {
        let bytes = vec![7; PART as usize - 5];
        let size = 3 * PART - 5;
        let slot = Slot { name: "a/compacted/b", part: 2, size, modified: -1, bytes: &bytes };
        let stored = FILE.slot(9, &slot);
        assert_eq!(FILE.slot_of(9, &stored), Some(slot));
        assert_eq!((FILE.slot_of(8, &stored), FileHead { id: [4; 16], ..FILE }.slot_of(9, &stored)), (None, None));
        for at in (0..HEAD).chain([HEAD + 1, stored.len() - 1]) {
            let mut changed = stored.clone();
            changed[at] ^= 0x10;
            assert_eq!(FILE.slot_of(9, &changed), None, "byte {at}");
        }
        assert!((0..stored.len()).step_by(97).all(|len| FILE.slot_of(9, &stored[..len]).is_none()));
        let entry = FILE.entry(9, FILE.hash("a"), 2);
        assert_eq!(FILE.entry_of(9, &entry), Some((FILE.hash("a"), 2)));
        assert_eq!((FILE.entry_of(8, &entry), FILE.entry_of(9, &[0; ENTRY])), (None, None));
        let head = FILE.encode();
        for at in 0..44 {
            let mut changed = head.clone();
            changed[at] ^= 1;
            assert_eq!(FileHead::decode(&changed), None, "byte {at}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_a_slot_or_none(
            mut bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..2 * HEAD),
            is_summed in proptest::prelude::any::<bool>(),
        ) {
            // What is behind the checksum is looked at, too.
            if is_summed && bytes.len() >= HEAD {
                let len = bytes.len() as u32 - HEAD as u32;
                bytes[12..16].copy_from_slice(&len.to_le_bytes());
                bytes[6..8].fill(0);
                let sum = sum(&[&FILE.id, &9u32.to_le_bytes(), &bytes[4..]]);
                bytes[..4].copy_from_slice(&sum.to_le_bytes());
            }
            let slot = FILE.slot_of(9, &bytes);
            assert!(slot.is_none_or(|slot| slot.bytes.len() as u64 <= PART && slot.name.len() <= NAME));
            FileHead::decode(&bytes);
        }
    }

    #[test]
    fn a_slot_that_fits_its_checksum_and_nothing_else_is_none() {
        let bytes = vec![7; 100];
        let slot = |part, size, bytes| Slot { name: "a", part, size, modified: 0, bytes };
        assert!(FILE.slot_of(1, &FILE.slot(1, &slot(0, 100, &bytes))).is_some());
        for (part, size) in [(0, 101), (0, 99), (1, 100), (u32::MAX, 100)] {
            assert_eq!(FILE.slot_of(1, &FILE.slot(1, &slot(part, size, &bytes))), None, "{part} {size}");
        }
        assert_eq!(FILE.slot_of(1, &FILE.slot(1, &slot(1, PART, &[]))), None);
    }
}
