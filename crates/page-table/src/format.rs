//! Bytes of the page table, and what makes them valid. `docs/format.md` has the same as tables.

use ondol_medium::{Area, AreaKind, HeaderFault, PAGE, check_header, crc32c, seal_header};
use std::ops::Range;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

pub(crate) const SIGNATURE: [u8; 8] = *b"ONDOLPT\0";
/// The version of the format that this program writes.
pub const TABLE_VERSION: u32 = 1;
/// Bytes of a line, of which undo records are made.
pub const LINE: u64 = ondol_power::LINE as u64;
pub(crate) const CONFIG_BYTES: usize = 128;
/// Bytes of an entry of the map.
pub(crate) const ENTRY: u64 = 8;
/// Pages that an entry can name.
pub(crate) const MOST_PAGES: u64 = u32::MAX as u64;
/// Entries that an undo record of the map has at most.
pub(crate) const ENTRIES: usize = 2;
/// Bytes of an undo record before its entries.
const RECORD_HEAD: usize = 24;
/// Bytes of an undo record before its bytes.
const BYTES_HEAD: usize = 32;
const ENTRY_RECORD: u8 = 1;
const BYTES_RECORD: u8 = 2;
/// What the checksums of entries and of the log's state begin with: one is never taken for the other.
const OF_ENTRY: [u8; 4] = *b"map\0";
const OF_STATE: [u8; 4] = *b"log\0";

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawConfig {
    signature: [u8; 8],
    version: U32,
    checksum: U32,
    uuid: [u8; 16],
    pool: [u8; 16],
    blocks: U64,
    pages: U64,
    parts: [[U64; 2]; 3],
    incompat: U32,
    reserved: [u8; 12],
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawRecord {
    checksum: U32,
    kind: u8,
    reserved: u8,
    count: U16,
    number: U32,
    line: U32,
    total: U32,
    reserved2: U32,
}

const _: () = assert!(size_of::<RawConfig>() == CONFIG_BYTES);
const _: () = assert!(size_of::<RawRecord>() == RECORD_HEAD);

/// What a valid configuration table says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    /// Of this table: random, and never that of an older one at the same place.
    pub(crate) uuid: [u8; 16],
    /// Of the pool that it was made in.
    pub(crate) pool: [u8; 16],
    /// Blocks of the image: logical block numbers are below.
    pub(crate) blocks: u64,
    /// Pages of the data area: physical block numbers are below.
    pub(crate) pages: u64,
    pub(crate) map: Part,
    pub(crate) log: Part,
    pub(crate) data: Part,
}

/// A part of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// First byte.
    pub(crate) start: u64,
    /// Bytes.
    pub(crate) len: u64,
}

impl From<Area> for Part {
    fn from(area: Area) -> Self {
        Self { start: area.start, len: area.len }
    }
}

impl Config {
    /// The areas that its parts lie in, in their order.
    pub(crate) const KINDS: [AreaKind; 3] = [AreaKind::PAGE_MAP, AreaKind::PAGE_LOG, AreaKind::PAGE_DATA];

    pub(crate) fn encode(&self) -> [u8; CONFIG_BYTES] {
        let mut raw = RawConfig::new_zeroed();
        (raw.signature, raw.version) = (SIGNATURE, TABLE_VERSION.into());
        (raw.uuid, raw.pool) = (self.uuid, self.pool);
        (raw.blocks, raw.pages) = (self.blocks.into(), self.pages.into());
        raw.parts = [self.map, self.log, self.data].map(|part| [part.start.into(), part.len.into()]);
        let mut bytes: [u8; CONFIG_BYTES] = zerocopy::transmute!(raw);
        seal_header(&mut bytes);
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; CONFIG_BYTES]) -> Result<Self, HeaderFault> {
        let raw: RawConfig = zerocopy::transmute!(*bytes);
        check_header(bytes, &SIGNATURE)?;
        match (raw.version.get(), raw.incompat.get()) {
            (TABLE_VERSION, 0) => {}
            (TABLE_VERSION, features) => return Err(HeaderFault::Features(features)),
            (version, _) => return Err(HeaderFault::Version(version)),
        }
        let [map, log, data] = raw.parts.map(|[start, len]| Part { start: start.get(), len: len.get() });
        let (blocks, pages) = (raw.blocks.get(), raw.pages.get());
        let config = Self { uuid: raw.uuid, pool: raw.pool, blocks, pages, map, log, data };
        config.check()?;
        Ok(config)
    }

    /// Where pages lie in the medium: in their order there, since memory has none, and neighbours take one mapping.
    pub(crate) fn runs<'p>(&self, pages: impl Iterator<Item = &'p u32>) -> Vec<Range<u64>> {
        let mut pages: Vec<u32> = pages.copied().collect();
        pages.sort_unstable();
        let mut runs: Vec<Range<u64>> = Vec::new();
        for page in pages {
            let at = self.page_at(page);
            match runs.last_mut() {
                Some(run) if run.end == at => run.end += PAGE,
                _ => runs.push(at..at + PAGE),
            }
        }
        runs
    }

    /// Its numbers fit to each other.
    fn check(&self) -> Result<(), HeaderFault> {
        if self.pages > MOST_PAGES || self.blocks == 0 || self.blocks >= self.pages {
            return Err(HeaderFault::Contents("blocks or pages out of range"));
        }
        if self.map.len / ENTRY < self.blocks || self.log.len < 2 * PAGE || self.data.len / PAGE < self.pages {
            return Err(HeaderFault::Contents("an area is too small for what it is to hold"));
        }
        Ok(())
    }

    /// Where the entry of a block lies in the pool.
    pub(crate) fn entry_at(&self, block: u64) -> u64 {
        self.map.start + block * ENTRY
    }

    /// Where a page lies in the pool.
    pub(crate) fn page_at(&self, page: u32) -> u64 {
        self.data.start + u64::from(page) * PAGE
    }

    /// The page that begins at this byte of the pool, if one does.
    pub(crate) fn page_of(&self, place: u64) -> Option<u32> {
        let offset = place.checked_sub(self.data.start).filter(|offset| offset.is_multiple_of(PAGE))?;
        u32::try_from(offset / PAGE).ok().filter(|page| u64::from(*page) < self.pages)
    }

    /// Where a line of the log lies in the pool; line 0 has the state.
    pub(crate) fn line_at(&self, line: u32) -> u64 {
        self.log.start + u64::from(line) * LINE
    }

    /// Lines that the undo records of a transaction can have.
    pub(crate) fn log_lines(&self) -> u64 {
        (self.log.len / LINE - 1).min(u64::from(u32::MAX) / 2)
    }
}

/// Whether a transaction is open, and which was the newest. One word, so it is never torn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogState {
    /// Below 2^31; after the last comes 0.
    pub(crate) number: u32,
    pub(crate) open: bool,
}

impl LogState {
    /// Numbers are counted modulo this.
    pub(crate) const NUMBERS: u32 = 1 << 31;
}

/// An undo record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Undo {
    /// What entries of the map were: block, word.
    Entries(Vec<(u64, u64)>),
    /// What bytes of a page were.
    Bytes { page: u32, offset: u32, old: Vec<u8> },
}

impl Undo {
    /// Lines that its record takes.
    pub(crate) fn lines(&self) -> u64 {
        match self {
            Self::Entries(_) => 1,
            Self::Bytes { old, .. } => (BYTES_HEAD + old.len()).div_ceil(LINE as usize) as u64,
        }
    }
}

/// The place of a record: which transaction, in which line of the log it begins, and how many lines all records have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) number: u32,
    pub(crate) line: u32,
    pub(crate) total: u32,
}

/// The checksums of one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seal(u32);

impl Seal {
    pub(crate) fn new(uuid: [u8; 16]) -> Self {
        Self(crc32c(!0, &[&uuid]))
    }

    /// The entry of a block: the page that it is mapped to, plus one, or zero; and a checksum of this and of the
    /// block's number.
    pub(crate) fn entry(self, block: u64, page: Option<u32>) -> u64 {
        let low = page.map_or(0, |page| page + 1);
        u64::from(low) | u64::from(self.entry_sum(block, low)) << 32
    }

    /// What an entry says; `None`: it was never written.
    pub(crate) fn page(self, block: u64, word: u64) -> Option<Option<u32>> {
        let (low, sum) = (word as u32, (word >> 32) as u32);
        let holds = sum == self.entry_sum(block, low);
        holds.then_some(low.checked_sub(1))
    }

    fn entry_sum(self, block: u64, low: u32) -> u32 {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&OF_ENTRY);
        bytes[4..12].copy_from_slice(&block.to_le_bytes());
        bytes[12..].copy_from_slice(&low.to_le_bytes());
        crc32c(self.0, &[&bytes])
    }

    pub(crate) fn state(self, state: LogState) -> u64 {
        let low = state.number << 1 | u32::from(state.open);
        u64::from(low) | u64::from(self.state_sum(low)) << 32
    }

    pub(crate) fn log_state(self, word: u64) -> Option<LogState> {
        let (low, sum) = (word as u32, (word >> 32) as u32);
        (sum == self.state_sum(low)).then_some(LogState { number: low >> 1, open: low & 1 == 1 })
    }

    fn state_sum(self, low: u32) -> u32 {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&OF_STATE);
        bytes[4..].copy_from_slice(&low.to_le_bytes());
        crc32c(self.0, &[&bytes])
    }

    /// A record: whole lines.
    pub(crate) fn encode(self, place: Place, undo: &Undo) -> Vec<u8> {
        let mut raw = RawRecord::new_zeroed();
        (raw.number, raw.line, raw.total) = (place.number.into(), place.line.into(), place.total.into());
        let mut contents = Vec::new();
        match undo {
            Undo::Entries(entries) => {
                (raw.kind, raw.count) = (ENTRY_RECORD, (entries.len() as u16).into());
                for (block, word) in entries {
                    contents.extend_from_slice(&block.to_le_bytes());
                    contents.extend_from_slice(&word.to_le_bytes());
                }
            }
            Undo::Bytes { page, offset, old } => {
                (raw.kind, raw.count) = (BYTES_RECORD, (old.len() as u16).into());
                contents.extend_from_slice(&page.to_le_bytes());
                contents.extend_from_slice(&offset.to_le_bytes());
                contents.extend_from_slice(old);
            }
        }
        let mut bytes = [raw.as_bytes(), &contents].concat();
        bytes.resize((undo.lines() * LINE) as usize, 0);
        let sum = crc32c(self.0, &[&bytes[4..]]);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Bytes that the record takes that begins with this line, as far as it says so.
    pub(crate) fn record_len(line: &[u8; LINE as usize]) -> Option<usize> {
        let (raw, _) = RawRecord::read_from_prefix(line).ok()?;
        let count = usize::from(raw.count.get());
        match raw.kind {
            ENTRY_RECORD if (1..=ENTRIES).contains(&count) => Some(LINE as usize),
            BYTES_RECORD if (1..=PAGE as usize).contains(&count) => {
                Some((BYTES_HEAD + count).next_multiple_of(LINE as usize))
            }
            _ => None,
        }
    }

    /// The record of this place of a transaction; `line` and `number` are wanted, the total is its own. `None`: it is
    /// not whole, or another.
    pub(crate) fn decode(self, bytes: &[u8], number: u32, line: u32) -> Option<(u32, Undo)> {
        let (stored, rest) = bytes.split_first_chunk::<4>()?;
        if crc32c(self.0, &[rest]) != u32::from_le_bytes(*stored) {
            return None;
        }
        let (raw, _) = RawRecord::read_from_prefix(bytes).ok()?;
        if raw.number.get() != number || raw.line.get() != line {
            return None;
        }
        let count = usize::from(raw.count.get());
        let u32_at = |at: usize| bytes.get(at..).and_then(<[u8]>::first_chunk).copied().map(u32::from_le_bytes);
        let u64_at = |at: usize| bytes.get(at..).and_then(<[u8]>::first_chunk).copied().map(u64::from_le_bytes);
        let undo = match raw.kind {
            ENTRY_RECORD => {
                let entry = |n: usize| Some((u64_at(RECORD_HEAD + 16 * n)?, u64_at(RECORD_HEAD + 16 * n + 8)?));
                Undo::Entries((0..count).map(entry).collect::<Option<_>>()?)
            }
            _ => {
                let old = bytes.get(BYTES_HEAD..BYTES_HEAD + count)?.to_vec();
                Undo::Bytes { page: u32_at(RECORD_HEAD)?, offset: u32_at(RECORD_HEAD + 4)?, old }
            }
        };
        Some((raw.total.get(), undo))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEAL: Seal = Seal(7);

    fn config() -> Config {
        let part = |start, len| Part { start, len };
        let (map, log, data) = (part(8192, 4096), part(12_288, 8192), part(20_480, 40_960));
        Config { uuid: [1; 16], pool: [2; 16], blocks: 8, pages: 10, map, log, data }
    }

    #[test]
    fn a_configuration_is_read_as_it_was_written_and_no_flipped_bit_is_believed() {
        let bytes = config().encode();
        assert_eq!(Config::decode(&bytes), Ok(config()));
        for bit in 0..CONFIG_BYTES * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Config::decode(&bad).is_err(), "bit {bit}");
        }
        let fault = |at: usize, byte: u8| {
            let mut bytes = bytes;
            bytes[at] = byte;
            seal_header(&mut bytes);
            Config::decode(&bytes).unwrap_err()
        };
        assert_eq!((fault(8, 2), fault(112, 1)), (HeaderFault::Version(2), HeaderFault::Features(1)));
        for (at, byte) in [(48, 11), (48, 0), (56, 11), (73, 0), (89, 0)] {
            assert!(matches!(fault(at, byte), HeaderFault::Contents(_)), "byte {at}");
        }
    }

    /// The checksum is linear: what is true of flips of one entry is true of those of all.
    #[test]
    fn an_entry_checks_itself_against_up_to_three_flipped_bits() {
        for page in [None, Some(0), Some(77), Some(u32::MAX - 1)] {
            let word = SEAL.entry(9, page);
            assert_eq!(SEAL.page(9, word), Some(page));
            assert_eq!((SEAL.page(8, word), Seal(8).page(9, word)), (None, None));
            for (a, b) in (0..64).flat_map(|a| (0..=a).map(move |b| (a, b))) {
                for c in 0..=b {
                    // Twice the same bit is none.
                    let flips = (1u64 << a) ^ (1 << b) ^ (1 << c);
                    assert!(flips == 0 || SEAL.page(9, word ^ flips).is_none(), "{a} {b} {c}");
                }
            }
        }
        assert_eq!((SEAL.page(9, 0), SEAL.page(9, !0)), (None, None));
    }

    #[test]
    fn a_state_is_one_word_that_checks_itself() {
        for state in [LogState { number: 0, open: false }, LogState { number: LogState::NUMBERS - 1, open: true }] {
            let word = SEAL.state(state);
            assert_eq!(SEAL.log_state(word), Some(state));
            for bit in 0..64 {
                assert_eq!(SEAL.log_state(word ^ 1 << bit), None, "bit {bit}");
            }
        }
        assert_eq!(SEAL.log_state(0), None);
    }

    #[test]
    fn a_record_is_whole_or_not() {
        let place = Place { number: 5, line: 3, total: 9 };
        for undo in [
            Undo::Entries(vec![(4, 5)]),
            Undo::Entries(vec![(4, 5), (6, 7)]),
            Undo::Bytes { page: 3, offset: 1024, old: (0..=255).collect() },
            Undo::Bytes { page: 3, offset: 0, old: vec![9; 4096] },
        ] {
            let record = SEAL.encode(place, &undo);
            assert_eq!(record.len() as u64, undo.lines() * LINE);
            assert_eq!(Seal::record_len(record.first_chunk().unwrap()), Some(record.len()));
            assert_eq!(SEAL.decode(&record, 5, 3), Some((9, undo)));
            assert_eq!((SEAL.decode(&record, 6, 3), SEAL.decode(&record, 5, 4)), (None, None));
            for bit in 0..record.len().min(320) * 8 {
                let mut bad = record.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(SEAL.decode(&bad, 5, 3), None, "bit {bit}");
            }
        }
        assert_eq!(Seal::record_len(&[0; 64]), None);
    }
}
