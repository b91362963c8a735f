//! Bytes of the buffer's areas, and what makes them valid. `docs/write-buffer.md` has the same as tables.

use crate::home::Identity;
use ondol_medium::{HeaderFault, check_header, crc32c, seal_header};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

pub(crate) const SIGNATURE: [u8; 8] = *b"ONDOLWB\0";
/// The version of the format that this program writes.
pub const BUFFER_VERSION: u32 = 2;
/// Bytes of a line, to which all records are aligned.
pub(crate) const LINE: u64 = ondol_power::LINE as u64;
pub(crate) const HEADER_BYTES: usize = 128;
pub(crate) const FILE_BYTES: u64 = 512;
pub(crate) const BLOCK_BYTES: u64 = LINE;
pub(crate) const FRAGMENT_BYTES: u64 = 48;
/// Parts of a file's tree, each with a lock of its own.
pub(crate) const SHARDS: usize = 8;
/// Blocks that one operation can have in a large buffer.
const MOST_BLOCKS: u32 = 64;
/// Sequences and incarnations stay below, so that counting on cannot overflow.
pub(crate) const SEQUENCE_LIMIT: u64 = 1 << 48;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawHeader {
    signature: [u8; 8],
    version: U32,
    checksum: U32,
    uuid: [u8; 16],
    epoch: U64,
    state: U32,
    block_size: U32,
    blocks: U32,
    files: U32,
    incompat: U32,
    reserved: [u8; 68],
}

/// The lines of a slot behind its words.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawName {
    checksum: U32,
    incarnation: U32,
    len: U16,
    reserved: [u8; 6],
    identity: [u8; Identity::MAX],
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawBlock {
    checksum: U32,
    kind: U16,
    reserved: U16,
    sequence: U64,
    lbn: U64,
    slot: U32,
    incarnation: U32,
    start: U32,
    len: U32,
    data: U32,
    reserved2: [u8; 20],
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawFragment {
    checksum: U32,
    data: U32,
    sequence: U64,
    offset: U64,
    slot: U32,
    incarnation: U32,
    len: U32,
    life: U32,
    kind: U16,
    part: U16,
    reserved: [u8; 4],
}

const _: () = assert!(size_of::<RawHeader>() == HEADER_BYTES);
const _: () = assert!(size_of::<RawName>() as u64 + LINE == FILE_BYTES);
const _: () = assert!(size_of::<RawBlock>() as u64 == BLOCK_BYTES);
const _: () = assert!(size_of::<RawFragment>() as u64 == FRAGMENT_BYTES);

/// Whether an area may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AreaState {
    Ready = 1,
    Resetting = 2,
}

/// What a valid header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) uuid: [u8; 16],
    pub(crate) epoch: u64,
    pub(crate) state: AreaState,
    pub(crate) block_size: u32,
    pub(crate) blocks: u32,
    pub(crate) files: u32,
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut raw = RawHeader::new_zeroed();
        (raw.signature, raw.version, raw.uuid) = (SIGNATURE, BUFFER_VERSION.into(), self.uuid);
        (raw.epoch, raw.state) = (self.epoch.into(), (self.state as u32).into());
        (raw.block_size, raw.blocks, raw.files) = (self.block_size.into(), self.blocks.into(), self.files.into());
        let mut bytes: [u8; HEADER_BYTES] = zerocopy::transmute!(raw);
        seal_header(&mut bytes);
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, HeaderFault> {
        let raw: RawHeader = zerocopy::transmute!(*bytes);
        check_header(bytes, &SIGNATURE)?;
        match (raw.version.get(), raw.incompat.get()) {
            (BUFFER_VERSION, 0) => {}
            (BUFFER_VERSION, features) => return Err(HeaderFault::Features(features)),
            (version, _) => return Err(HeaderFault::Version(version)),
        }
        let state = match raw.state.get() {
            1 => AreaState::Ready,
            2 => AreaState::Resetting,
            _ => return Err(HeaderFault::Contents("no such state")),
        };
        let (epoch, block_size) = (raw.epoch.get(), raw.block_size.get());
        if epoch == 0 || epoch >> 63 != 0 {
            return Err(HeaderFault::Contents("epoch out of range"));
        }
        if !is_block_size(block_size) {
            return Err(HeaderFault::Contents("no such block size"));
        }
        Ok(Self { uuid: raw.uuid, epoch, state, block_size, blocks: raw.blocks.get(), files: raw.files.get() })
    }
}

impl Header {
    /// Blocks of a stripe: an operation on bytes lies in one, so that a few can never take the whole buffer.
    pub(crate) fn stripe(&self) -> u64 {
        u64::from((self.blocks / 4).clamp(1, MOST_BLOCKS))
    }
}

/// The shard that a block of a file belongs to. Recovery goes by it, too.
pub(crate) fn shard_of(lbn: u64, stripe: u64) -> usize {
    (lbn / stripe) as usize % SHARDS
}

pub(crate) fn is_block_size(size: u32) -> bool {
    size.is_power_of_two() && (512..=1 << 20).contains(&size)
}

/// A line of the inode table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockLine {
    Free,
    Fragments { life: u32, before: Option<Filled> },
    Record(BlockRecord),
}

/// How far a fragment block was filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Filled {
    pub(crate) block: u32,
    pub(crate) life: u32,
    /// Bytes, not 0.
    pub(crate) fill: u32,
}

/// A piece of one LBN in a block of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockRecord {
    pub(crate) owner: Owner,
    pub(crate) sequence: u64,
    pub(crate) lbn: u64,
    pub(crate) start: u32,
    pub(crate) len: u32,
    /// Checksum of the data.
    pub(crate) data: u32,
}

/// Whose a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Owner {
    pub(crate) slot: u32,
    pub(crate) incarnation: u32,
}

/// What a fragment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FragmentKind {
    Bytes = 1,
    Length = 2,
    Removed = 3,
}

/// A fragment without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fragment {
    pub(crate) owner: Owner,
    pub(crate) sequence: u64,
    pub(crate) offset: u64,
    pub(crate) len: u32,
    pub(crate) life: u32,
    pub(crate) kind: FragmentKind,
    /// How many fragments of the same operation lie before it in the block.
    pub(crate) part: u16,
    /// Checksum of the payload.
    pub(crate) data: u32,
}

/// What a state word says of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotState {
    Unused,
    Live(u32),
    Dead(u32),
}

/// Where all checksums of one pool and epoch begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seal(u32);

impl Seal {
    pub(crate) fn new(uuid: [u8; 16], epoch: u64) -> Self {
        Self(crc32c(crc32c(!0, &[&uuid]), &[&epoch.to_le_bytes()]))
    }

    fn sum(self, number: u64, bytes: &[u8]) -> u32 {
        crc32c(crc32c(self.0, &[&number.to_le_bytes()]), &[bytes])
    }

    fn is_sum(self, number: u64, bytes: &[u8], stored: u32) -> bool {
        self.sum(number, bytes) == stored
    }

    pub(crate) fn encode_line(self, block: u32, line: &BlockLine) -> [u8; BLOCK_BYTES as usize] {
        let mut raw = RawBlock::new_zeroed();
        match line {
            BlockLine::Free => return zerocopy::transmute!(raw),
            BlockLine::Fragments { life, before } => {
                (raw.kind, raw.sequence) = (1.into(), u64::from(*life).into());
                if let Some(before) = before {
                    (raw.slot, raw.incarnation) = (before.block.into(), before.life.into());
                    raw.start = before.fill.into();
                }
            }
            BlockLine::Record(r) => {
                (raw.kind, raw.sequence, raw.lbn) = (2.into(), r.sequence.into(), r.lbn.into());
                (raw.slot, raw.incarnation) = (r.owner.slot.into(), r.owner.incarnation.into());
                (raw.start, raw.len, raw.data) = (r.start.into(), r.len.into(), r.data.into());
            }
        }
        raw.checksum = self.sum(block.into(), &raw.as_bytes()[4..]).into();
        zerocopy::transmute!(raw)
    }

    /// `None`: the checksum is wrong, or what is under it cannot be.
    pub(crate) fn decode_line(self, block: u32, bytes: &[u8; 64], block_size: u32) -> Option<BlockLine> {
        if bytes.iter().all(|b| *b == 0) {
            return Some(BlockLine::Free);
        }
        let raw: RawBlock = zerocopy::transmute!(*bytes);
        if !self.is_sum(block.into(), &bytes[4..], raw.checksum.get()) {
            return None;
        }
        let (start, len, sequence) = (raw.start.get(), raw.len.get(), raw.sequence.get());
        match raw.kind.get() {
            1 => {
                let before = Filled { block: raw.slot.get(), life: raw.incarnation.get(), fill: start };
                let (life, before) = (u32::try_from(sequence).ok()?, Some(before).filter(|b| b.fill > 0));
                Some(BlockLine::Fragments { life, before })
            }
            2 => {
                let inside = len > 0 && start.checked_add(len)? <= block_size;
                // The end of the bytes in the file is a number, too.
                let place = raw.lbn.get().checked_add(1)?.checked_mul(block_size.into());
                let owner = Owner { slot: raw.slot.get(), incarnation: raw.incarnation.get() };
                let record = BlockRecord { owner, sequence, lbn: raw.lbn.get(), start, len, data: raw.data.get() };
                (inside && place.is_some_and(is_offset) && is_sequence(sequence)).then_some(BlockLine::Record(record))
            }
            _ => None,
        }
    }

    pub(crate) fn encode_fragment(self, block: u32, f: &Fragment) -> [u8; FRAGMENT_BYTES as usize] {
        let mut raw = RawFragment::new_zeroed();
        (raw.data, raw.sequence, raw.offset) = (f.data.into(), f.sequence.into(), f.offset.into());
        (raw.slot, raw.incarnation) = (f.owner.slot.into(), f.owner.incarnation.into());
        (raw.len, raw.life) = (f.len.into(), f.life.into());
        (raw.kind, raw.part) = ((f.kind as u16).into(), f.part.into());
        raw.checksum = self.sum(block.into(), &raw.as_bytes()[4..]).into();
        zerocopy::transmute!(raw)
    }

    /// `None`: the checksum is wrong, or what is under it cannot be.
    pub(crate) fn decode_fragment(self, block: u32, bytes: &[u8; 48], block_size: u32) -> Option<Fragment> {
        let raw: RawFragment = zerocopy::transmute!(*bytes);
        // Zeros would be a fragment to whom no checksum matters: there is no kind 0.
        let kind = match raw.kind.get() {
            1 => FragmentKind::Bytes,
            2 => FragmentKind::Length,
            3 => FragmentKind::Removed,
            _ => return None,
        };
        if !self.is_sum(block.into(), &bytes[4..], raw.checksum.get()) {
            return None;
        }
        let (offset, len, sequence) = (raw.offset.get(), raw.len.get(), raw.sequence.get());
        let end = offset.checked_add(len.into()).filter(|end| is_offset(*end))?;
        let fits = match kind {
            // It lies in one LBN.
            FragmentKind::Bytes => len > 0 && offset / u64::from(block_size) == (end - 1) / u64::from(block_size),
            FragmentKind::Length | FragmentKind::Removed => len == 0,
        };
        let owner = Owner { slot: raw.slot.get(), incarnation: raw.incarnation.get() };
        let (life, part, data) = (raw.life.get(), raw.part.get(), raw.data.get());
        (fits && is_sequence(sequence)).then_some(Fragment { owner, sequence, offset, len, life, kind, part, data })
    }

    pub(crate) fn encode_name(self, owner: Owner, identity: &Identity) -> [u8; (FILE_BYTES - LINE) as usize] {
        let mut raw = RawName::new_zeroed();
        let bytes = identity.bytes();
        (raw.incarnation, raw.len) = (owner.incarnation.into(), (bytes.len() as u16).into());
        raw.identity[..bytes.len()].copy_from_slice(bytes);
        raw.checksum = self.sum(owner.slot.into(), &raw.as_bytes()[4..]).into();
        zerocopy::transmute!(raw)
    }

    pub(crate) fn decode_name(self, slot: u32, bytes: &[u8; 448]) -> Option<(u32, Identity)> {
        let raw: RawName = zerocopy::transmute!(*bytes);
        if !self.is_sum(slot.into(), &bytes[4..], raw.checksum.get()) {
            return None;
        }
        let identity = raw.identity.get(..raw.len.get().into()).and_then(|id| Identity::new(id).ok())?;
        Some((raw.incarnation.get(), identity))
    }

    pub(crate) fn state_word(self, slot: u32, state: SlotState) -> u64 {
        let low = match state {
            SlotState::Unused => return 0,
            SlotState::Live(incarnation) => u64::from(incarnation) | 1 << 32,
            SlotState::Dead(incarnation) => u64::from(incarnation) | 2 << 32,
        };
        low | u64::from(self.sum(slot.into(), &low.to_le_bytes()) as u16) << 48
    }

    pub(crate) fn read_state(self, slot: u32, word: u64) -> Option<SlotState> {
        let incarnation = word as u32;
        [SlotState::Unused, SlotState::Live(incarnation), SlotState::Dead(incarnation)]
            .into_iter()
            .find(|state| self.state_word(slot, *state) == word)
    }

    pub(crate) fn synced_word(self, owner: Owner, sequence: u64) -> u64 {
        let mut bytes = [0; 12];
        bytes[..8].copy_from_slice(&sequence.to_le_bytes());
        bytes[8..].copy_from_slice(&owner.incarnation.to_le_bytes());
        sequence | u64::from(self.sum(owner.slot.into(), &bytes) as u16) << 48
    }

    pub(crate) fn read_synced(self, owner: Owner, word: u64) -> Option<u64> {
        let sequence = word & (SEQUENCE_LIMIT - 1);
        (self.synced_word(owner, sequence) == word).then_some(sequence)
    }
}

fn is_sequence(sequence: u64) -> bool {
    (1..SEQUENCE_LIMIT).contains(&sequence)
}

/// A file's offset or length that an operating system can take.
pub(crate) fn is_offset(offset: u64) -> bool {
    i64::try_from(offset).is_ok()
}

/// Checksum of a record's data.
pub(crate) fn data_sum(bytes: &[u8]) -> u32 {
    crc32c(!0, &[bytes])
}

/// As [`data_sum`], judged.
pub(crate) fn is_data(bytes: &[u8], sum: u32) -> bool {
    data_sum(bytes) == sum
}

#[cfg(test)]
mod tests;
