//! A pool's header: bytes, and what makes them valid. `docs/format.md` has the same as a table.

use super::AREAS_START;
use crate::header::{HeaderFault, check_header, seal_header};
use crate::{Domain, PAGE};
use std::fmt;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub(crate) const SIGNATURE: [u8; 8] = *b"ONDOLPL\0";
/// The version of the format that this program writes.
pub const POOL_VERSION: u32 = 1;
pub(crate) const MAX_AREAS: usize = 124;
/// Counters stay below, so that adding to them cannot overflow.
const LIMIT: u64 = 1 << 63;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Raw {
    signature: [u8; 8],
    version: U32,
    checksum: U32,
    uuid: [u8; 16],
    size: U64,
    generation: U64,
    epoch: U64,
    volume: [u8; 16],
    domain: U32,
    area_count: U32,
    incompat: U32,
    reserved: [u8; 44],
    areas: [RawArea; MAX_AREAS],
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawArea {
    kind: U32,
    reserved: U32,
    start: U64,
    len: U64,
    reserved2: U64,
}

const _: () = assert!(size_of::<Raw>() == PAGE as usize);

/// What an area is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AreaKind(pub u32);

impl AreaKind {
    /// The log of a record engine.
    pub const JOURNAL_LOG: Self = Self(1);
    /// The page table's map.
    pub const PAGE_MAP: Self = Self(2);
    /// The page table's undo log.
    pub const PAGE_LOG: Self = Self(3);
    /// The pages of a page table.
    pub const PAGE_DATA: Self = Self(4);
    /// The write buffer's tables.
    pub const BUFFER_TABLES: Self = Self(5);
    /// The write buffer's contents.
    pub const BUFFER_DATA: Self = Self(6);
    /// The files of running programs.
    pub const RUN_FILES: Self = Self(7);
    /// What running programs have written.
    pub const RUN_LOG: Self = Self(8);
    /// The page table's configuration.
    pub const PAGE_CONFIG: Self = Self(9);
    /// File data that records of a record engine name.
    pub const JOURNAL_PAGES: Self = Self(10);
    /// The log before a volume in a bucket.
    pub const HOME_LOG: Self = Self(11);
}

const KINDS: [(AreaKind, &str); 11] = [
    (AreaKind::JOURNAL_LOG, "journal-log"),
    (AreaKind::PAGE_MAP, "page-map"),
    (AreaKind::PAGE_LOG, "page-log"),
    (AreaKind::PAGE_DATA, "page-data"),
    (AreaKind::BUFFER_TABLES, "buffer-tables"),
    (AreaKind::BUFFER_DATA, "buffer-data"),
    (AreaKind::RUN_FILES, "run-files"),
    (AreaKind::RUN_LOG, "run-log"),
    (AreaKind::PAGE_CONFIG, "page-config"),
    (AreaKind::JOURNAL_PAGES, "journal-pages"),
    (AreaKind::HOME_LOG, "home-log"),
];

impl fmt::Display for AreaKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match KINDS.iter().find(|(kind, _)| kind == self) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "kind-{}", self.0),
        }
    }
}

/// A range of whole pages of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// What it is for.
    pub kind: AreaKind,
    /// First byte.
    pub start: u64,
    /// Bytes.
    pub len: u64,
}

/// What a valid header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The pool's UUID.
    pub uuid: [u8; 16],
    /// Bytes of the pool, headers included.
    pub size: u64,
    /// Rises with each change of the header.
    pub generation: u64,
    /// Rises with each attach; 0 before the first.
    pub epoch: u64,
    /// UUID of the volume that the pool is attached to.
    pub volume: Option<[u8; 16]>,
    /// The persistence domain that was chosen when the pool was made.
    pub domain: Domain,
    /// The areas by their place; none overlap.
    pub areas: Vec<Area>,
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; PAGE as usize] {
        let mut raw = Raw {
            signature: SIGNATURE,
            version: POOL_VERSION.into(),
            checksum: U32::ZERO,
            uuid: self.uuid,
            size: self.size.into(),
            generation: self.generation.into(),
            epoch: self.epoch.into(),
            volume: self.volume.unwrap_or_default(),
            domain: self.domain.code().into(),
            area_count: (self.areas.len() as u32).into(),
            incompat: U32::ZERO,
            reserved: [0; 44],
            areas: zerocopy::FromZeros::new_zeroed(),
        };
        for (raw, area) in raw.areas.iter_mut().zip(&self.areas) {
            (raw.kind, raw.start, raw.len) = (area.kind.0.into(), area.start.into(), area.len.into());
        }
        let mut bytes = [0; PAGE as usize];
        bytes.copy_from_slice(raw.as_bytes());
        seal_header(&mut bytes);
        bytes
    }

    /// Reads a copy of the header. A newer version or feature is one only if the checksum is right.
    pub(crate) fn decode(bytes: &[u8; PAGE as usize]) -> Result<Self, HeaderFault> {
        let raw: &Raw = zerocopy::transmute_ref!(bytes);
        check_header(bytes, &SIGNATURE)?;
        match (raw.version.get(), raw.incompat.get()) {
            (POOL_VERSION, 0) => {}
            (POOL_VERSION, features) => return Err(HeaderFault::Features(features)),
            (version, _) if version > POOL_VERSION => return Err(HeaderFault::Version(version)),
            _ => return Err(HeaderFault::Contents("the version is 0")),
        }
        let header = Self {
            uuid: raw.uuid,
            size: raw.size.get(),
            generation: raw.generation.get(),
            epoch: raw.epoch.get(),
            volume: Some(raw.volume).filter(|v| *v != [0; 16]),
            domain: Domain::from_code(raw.domain.get()).ok_or(HeaderFault::Contents("no such persistence domain"))?,
            areas: areas(raw)?,
        };
        header.check()?;
        Ok(header)
    }

    /// Every field is in its range, and no area overlaps another.
    pub(crate) fn check(&self) -> Result<(), HeaderFault> {
        if self.size <= AREAS_START || !self.size.is_multiple_of(PAGE) {
            return Err(HeaderFault::Contents("the size is not that of a pool"));
        }
        if self.generation >= LIMIT || self.epoch >= LIMIT {
            return Err(HeaderFault::Contents("generation or epoch out of range"));
        }
        let mut free = AREAS_START;
        for (index, area) in self.areas.iter().enumerate() {
            let fault = |what| Err(HeaderFault::Area { index, start: area.start, len: area.len, what });
            let Some(end) = area.start.checked_add(area.len).filter(|end| *end <= self.size) else {
                return fault("reaches past the pool's end");
            };
            if !area.start.is_multiple_of(PAGE) || !area.len.is_multiple_of(PAGE) || area.len == 0 {
                return fault("is not made of whole pages");
            }
            if area.start < free {
                return fault("overlaps what is before it");
            }
            free = end;
        }
        Ok(())
    }
}

fn areas(raw: &Raw) -> Result<Vec<Area>, HeaderFault> {
    let table = raw.areas.get(..raw.area_count.get() as usize).ok_or(HeaderFault::Contents("more areas than fit"))?;
    let area = |a: &RawArea| Area { kind: AreaKind(a.kind.get()), start: a.start.get(), len: a.len.get() };
    Ok(table.iter().map(area).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header() -> Header {
        let area = |kind, page: u64, pages: u64| Area { kind, start: page * PAGE, len: pages * PAGE };
        Header {
            uuid: *b"pool-pool-pool-p",
            size: 64 * PAGE,
            generation: 5,
            epoch: 3,
            volume: Some(*b"volume-volume-vo"),
            domain: Domain::Adr,
            areas: vec![area(AreaKind::JOURNAL_LOG, 2, 10), area(AreaKind(77), 12, 52)],
        }
    }

    fn sealed(change: impl FnOnce(&mut [u8; PAGE as usize])) -> [u8; PAGE as usize] {
        let mut bytes = header().encode();
        change(&mut bytes);
        seal_header(&mut bytes);
        bytes
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(Header::decode(&header().encode()), Ok(header()));
        let free = Header { volume: None, areas: Vec::new(), ..header() };
        assert_eq!(Header::decode(&free.encode()), Ok(free));
    }

    #[test]
    fn fields_lie_where_the_format_says() {
        let bytes = header().encode();
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!((&bytes[..8], u32_at(8)), (&b"ONDOLPL\0"[..], 1));
        assert_eq!((&bytes[16..32], &bytes[56..72]), (&b"pool-pool-pool-p"[..], &b"volume-volume-vo"[..]));
        assert_eq!((u64_at(32), u64_at(40), u64_at(48)), (64 * PAGE, 5, 3));
        assert_eq!((u32_at(72), u32_at(76), u32_at(80)), (1, 2, 0));
        assert_eq!((u32_at(160), u64_at(168), u64_at(176)), (77, 12 * PAGE, 52 * PAGE));
    }

    #[test]
    fn crc32c_is_ext4s() {
        // crc32c of 32 zeros is 0x8a9136aa with the final inversion (RFC 3720, B.4).
        assert_eq!(crate::crc32c(!0, &[&[0; 32]]), !0x8a91_36aa);
        assert_eq!(crate::crc32c(!0, &[&[0; PAGE as usize]]), !0x98f9_4189);
    }

    #[test]
    fn every_fault_has_its_name() {
        let fault =
            |change: &dyn Fn(&mut [u8; PAGE as usize])| Header::decode(&sealed(change)).unwrap_err().to_string();
        let put = |at: usize, word: u64| {
            move |b: &mut [u8; PAGE as usize]| b[at..at + 8].copy_from_slice(&word.to_le_bytes())
        };
        assert_eq!(fault(&|b| b[0] = b'X'), "no signature");
        assert_eq!(fault(&|b| b[8] = 2), "version 2");
        assert_eq!(fault(&|b| b[8] = 0), "the version is 0");
        assert_eq!(fault(&|b| b[80] = 4), "unknown features 0x4");
        assert_eq!(fault(&|b| b[72] = 9), "no such persistence domain");
        assert_eq!(fault(&|b| b[76] = 125), "more areas than fit");
        assert!(fault(&put(32, 8192)).contains("size"));
        assert!(fault(&put(32, 64 * PAGE + 1)).contains("size"));
        assert!(fault(&put(40, u64::MAX)).contains("generation"));
        assert!(fault(&put(48, 1 << 63)).contains("epoch"));
        assert!(fault(&put(136, PAGE)).contains("area 0 (byte 4096, 40960 bytes) overlaps"));
        assert!(fault(&put(168, 11 * PAGE)).contains("area 1"));
        assert!(fault(&put(176, 53 * PAGE)).contains("past the pool's end"));
        assert!(fault(&put(176, u64::MAX)).contains("past the pool's end"));
        assert!(fault(&put(176, 100)).contains("whole pages"));
        assert!(fault(&put(176, 0)).contains("whole pages"));
    }

    proptest! {
        #[test]
        fn no_flipped_bit_goes_unnoticed(bit in 0usize..8 * PAGE as usize) {
            let mut bytes = header().encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Header::decode(&bytes).is_err());
        }

        #[test]
        fn any_bytes_under_a_right_checksum_are_an_answer(junk in proptest::collection::vec(any::<u8>(), 4084)) {
            let bytes = sealed(|b| b[16..].copy_from_slice(&junk[4..]));
            if let Ok(header) = Header::decode(&bytes) {
                prop_assert!(header.check().is_ok());
            }
        }
    }
}
