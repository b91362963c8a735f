//! Bytes of the log, and what makes them valid. `docs/format.md` has the same as tables.

use crate::ring::{GAPS, Span};
use ondol_medium::{HeaderFault, check_header, crc32c, seal_header};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

pub(crate) const SIGNATURE: [u8; 8] = *b"ONDOLNL\0";
/// The version of the format that this program writes.
pub const LOG_VERSION: u32 = 1;
/// Bytes of a line, to which all records are aligned.
pub const LINE: u64 = ondol_power::LINE as u64;
pub(crate) const HEADER_BYTES: usize = 64;
/// Bytes of a record before its contents.
pub(crate) const HEAD: usize = 16;
/// Bytes of a record, as far as its length says it.
pub(crate) const RECORD_BYTES: u64 = (1 << 24) - 1;
/// Positions and numbers stay below, so that counting on cannot overflow.
pub(crate) const LIMIT: u64 = 1 << 62;
const OPERATION: u32 = 1;
const COMMIT: u32 = 2;

pub(crate) type Line = [u8; LINE as usize];

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawHeader {
    signature: [u8; 8],
    version: U32,
    checksum: U32,
    uuid: [u8; 16],
    pool: [u8; 16],
    lines: U64,
    incompat: U32,
    reserved: U32,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawTail {
    checksum: U32,
    reserved: U32,
    position: U64,
    number: U64,
    reserved2: [u8; 40],
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawHead {
    checksum: U32,
    kind_and_len: U32,
    position: U64,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawCommit {
    head: RawHead,
    number: U64,
    from: U64,
    records: U32,
    gap_count: U32,
    time: U64,
    gaps: [[U32; 2]; GAPS],
}

const _: () = assert!(size_of::<RawHeader>() == HEADER_BYTES);
const _: () = assert!(size_of::<RawTail>() == LINE as usize);
const _: () = assert!(size_of::<RawHead>() == HEAD);
const _: () = assert!(size_of::<RawCommit>() == LINE as usize);

/// What a valid header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Of this log: random, and never that of an older one at the same place.
    pub(crate) uuid: [u8; 16],
    /// Of the pool that it was made in.
    pub(crate) pool: [u8; 16],
    pub(crate) lines: u64,
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut raw = RawHeader::new_zeroed();
        (raw.signature, raw.version, raw.uuid) = (SIGNATURE, LOG_VERSION.into(), self.uuid);
        (raw.pool, raw.lines) = (self.pool, self.lines.into());
        let mut bytes: [u8; HEADER_BYTES] = zerocopy::transmute!(raw);
        seal_header(&mut bytes);
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, HeaderFault> {
        let raw: RawHeader = zerocopy::transmute!(*bytes);
        check_header(bytes, &SIGNATURE)?;
        match (raw.version.get(), raw.incompat.get()) {
            (LOG_VERSION, 0) => Ok(Self { uuid: raw.uuid, pool: raw.pool, lines: raw.lines.get() }),
            (LOG_VERSION, features) => Err(HeaderFault::Features(features)),
            (version, _) => Err(HeaderFault::Version(version)),
        }
    }
}

/// From where recovery reads, and the number of the last commit before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tail {
    pub(crate) position: u64,
    pub(crate) number: u64,
}

/// What a record begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) is_commit: bool,
    /// Bytes, these among them.
    pub(crate) len: u64,
}

/// The checksums of one log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seal(u32);

impl Seal {
    pub(crate) fn new(uuid: [u8; 16]) -> Self {
        Self(crc32c(!0, &[&uuid]))
    }

    pub(crate) fn encode_tail(self, tail: Tail) -> Line {
        let mut raw = RawTail::new_zeroed();
        (raw.position, raw.number) = (tail.position.into(), tail.number.into());
        raw.checksum = crc32c(self.0, &[&raw.as_bytes()[4..]]).into();
        zerocopy::transmute!(raw)
    }

    pub(crate) fn decode_tail(self, line: &Line) -> Option<Tail> {
        let raw: RawTail = zerocopy::transmute!(*line);
        let tail = Tail { position: raw.position.get(), number: raw.number.get() };
        let holds = self.is_sum(&line[4..], raw.checksum.get());
        (holds && (1..LIMIT).contains(&tail.position) && tail.number < LIMIT).then_some(tail)
    }

    /// The first bytes of an operation's record, whose contents these are.
    pub(crate) fn encode_head(self, position: u64, contents: &[u8]) -> [u8; HEAD] {
        let len = HEAD + contents.len();
        let mut raw = RawHead::new_zeroed();
        (raw.kind_and_len, raw.position) = ((OPERATION | (len as u32) << 8).into(), position.into());
        raw.checksum = crc32c(self.0, &[&raw.as_bytes()[4..], contents]).into();
        zerocopy::transmute!(raw)
    }

    /// `None`: no record of this position begins so.
    pub(crate) fn decode_head(bytes: &[u8; HEAD], position: u64) -> Option<Head> {
        let raw: RawHead = zerocopy::transmute!(*bytes);
        let (kind, len) = (raw.kind_and_len.get() & 0xff, u64::from(raw.kind_and_len.get() >> 8));
        let is_known = raw.position.get() == position
            && match kind {
                OPERATION => len >= HEAD as u64,
                COMMIT => len == LINE,
                _ => false,
            };
        is_known.then_some(Head { is_commit: kind == COMMIT, len })
    }

    /// Whether all of a record is there.
    pub(crate) fn is_whole(self, record: &[u8]) -> bool {
        match record.split_first_chunk::<4>() {
            Some((stored, rest)) => self.is_sum(rest, u32::from_le_bytes(*stored)),
            None => false,
        }
    }

    pub(crate) fn encode_commit(self, span: &Span, time: u64) -> Line {
        let mut raw = RawCommit::new_zeroed();
        (raw.head.kind_and_len, raw.head.position) = ((COMMIT | (LINE as u32) << 8).into(), span.at.into());
        (raw.number, raw.from, raw.time) = (span.number.into(), span.from.into(), time.into());
        (raw.records, raw.gap_count) = ((span.records as u32).into(), (span.gaps.len() as u32).into());
        let gaps = span.gaps.as_slice();
        for (raw, (at, lines)) in raw.gaps.iter_mut().zip(gaps) {
            *raw = [((at - span.from) as u32).into(), (*lines as u32).into()];
        }
        raw.head.checksum = crc32c(self.0, &[&raw.as_bytes()[4..]]).into();
        zerocopy::transmute!(raw)
    }

    /// Whether a line says of itself that it is the commit of this position: one look at most lines of a ring is
    /// enough.
    pub(crate) fn is_commit_of(line: &Line, position: u64) -> bool {
        line[4] == COMMIT as u8 && line[8..16] == position.to_le_bytes()
    }

    /// The commit of this position, and its time; `None`: there is none.
    pub(crate) fn decode_commit(self, line: &Line, position: u64) -> Option<(Span, u64)> {
        let raw: RawCommit = zerocopy::transmute!(*line);
        let head: [u8; HEAD] = zerocopy::transmute!(raw.head);
        let is_commit = Self::decode_head(&head, position).is_some_and(|head| head.is_commit);
        if !is_commit || !self.is_whole(line) {
            return None;
        }
        let (from, number) = (raw.from.get(), raw.number.get());
        let count = raw.gap_count.get() as usize;
        if from > position || number == 0 || number >= LIMIT || count > GAPS {
            return None;
        }
        let gap = |raw: &[U32; 2]| (from + u64::from(raw[0].get()), u64::from(raw[1].get()));
        let gaps = raw.gaps[..count].iter().map(gap).collect();
        let span = Span { number, from, at: position, records: raw.records.get().into(), gaps };
        Some((span, raw.time.get()))
    }

    fn is_sum(self, bytes: &[u8], stored: u32) -> bool {
        crc32c(self.0, &[bytes]) == stored
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEAL: Seal = Seal(7);

    #[test]
    fn what_is_encoded_is_read_back_and_nothing_else_is() {
        let header = Header { uuid: [1; 16], pool: [2; 16], lines: 4096 };
        assert_eq!(Header::decode(&header.encode()), Ok(header));
        let tail = Tail { position: 77, number: 3 };
        assert_eq!(SEAL.decode_tail(&SEAL.encode_tail(tail)), Some(tail));
        let span = Span { number: 4, from: 80, at: 100, records: 3, gaps: vec![(85, 2), (90, 9)] };
        let line = SEAL.encode_commit(&span, 99);
        assert_eq!(SEAL.decode_commit(&line, 100), Some((span, 99)));
        assert_eq!(SEAL.decode_commit(&line, 164), None, "another lap");
        assert!(Seal::is_commit_of(&line, 100) && !Seal::is_commit_of(&line, 164));
        assert_eq!(Seal(8).decode_commit(&line, 100), None, "another log");
        for bit in 0..512 {
            let mut bad = line;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(SEAL.decode_commit(&bad, 100), None, "bit {bit}");
            let mut bad = SEAL.encode_tail(tail);
            bad[bit / 8] ^= 1 << (bit % 8);
            // What is reserved for later versions is covered, too.
            assert_eq!(SEAL.decode_tail(&bad), None, "bit {bit}");
            let mut bad = header.encode();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::decode(&bad).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_record_is_whole_or_not() {
        let head = SEAL.encode_head(9, b"warm floor");
        let mut record = head.to_vec();
        record.extend_from_slice(b"warm floor");
        assert_eq!(Seal::decode_head(&head, 9), Some(Head { is_commit: false, len: 26 }));
        assert!(SEAL.is_whole(&record));
        for bit in 0..record.len() * 8 {
            let mut bad = record.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(!SEAL.is_whole(&bad), "bit {bit}");
        }
        assert!(!SEAL.is_whole(&[]) && Seal::decode_head(&[0; HEAD], 0).is_none());
    }

    #[test]
    fn other_formats_are_told_apart() {
        let fault = |at: usize, byte: u8| {
            let mut bytes = Header { uuid: [1; 16], pool: [2; 16], lines: 64 }.encode();
            bytes[at] = byte;
            seal_header(&mut bytes);
            Header::decode(&bytes)
        };
        assert_eq!(fault(8, 2), Err(HeaderFault::Version(2)));
        assert_eq!(fault(56, 4), Err(HeaderFault::Features(4)));
        assert_eq!(fault(0, b'X'), Err(HeaderFault::NoSignature));
    }
}
