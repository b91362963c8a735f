//! The bytes of the areas `run-files` and `run-log`. `docs/design/run.md` has the same, but for shared words.

use ondol_medium::{HeaderFault, PAGE, check_header, crc32c, seal_header};
use zerocopy::little_endian::{I64, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub(crate) const SIGNATURE: [u8; 8] = *b"ONDOLRN\0";
/// The version of the format that this program writes.
pub const RUN_LOG_VERSION: u32 = 4;
/// How long after a file's newest durable record this run may have written to it without one that is: nanoseconds.
pub const HORIZON_NS: u64 = 5_000_000_000;

pub(crate) const HEADER: usize = 128;
pub(crate) const LINE: u64 = 64;
/// Records begin at multiples of this, and have a head of as many bytes.
pub(crate) const HEAD: usize = 64;
pub(crate) const LANES_AT: u64 = 2 * PAGE;
pub(crate) const LANE_WORDS: u64 = 128;
pub(crate) const SLOT: u64 = 1024;
/// Bytes of a slot's identity.
pub(crate) const IDENTITY: usize = 448;
pub(crate) const MAX_HANDLE: usize = 128;
pub(crate) const MAX_PATH: usize = 256;
/// A record of this slot says that the rest of the ring is not used.
pub(crate) const SKIP: u32 = u32::MAX;
/// Numbers of records are below this.
pub(crate) const SEQUENCES: u64 = 1 << 47;
/// The value of a checked word.
pub(crate) const VALUE: u64 = (1 << 48) - 1;

/// Places of shared words in `run-files`.
pub(crate) mod shared {
    pub(crate) const SEQUENCE: u64 = 1024;
    pub(crate) const TABLE_LOCK: u64 = 1088;
    pub(crate) const DRAIN_LOCK: u64 = 1152;
    pub(crate) const TOKEN: u64 = 1216;
    /// How often a slot's file was written down.
    pub(crate) const GIVEN: u64 = 1280;
    /// How often a directory became trusted.
    pub(crate) const NAMES: u64 = 1344;
    /// The pool has failed: not 0.
    pub(crate) const STOPPED: u64 = 1408;
    /// How many processes have let go of the pool.
    pub(crate) const LEFT: u64 = 1472;
    /// How many programs were started without the library, which they do not take.
    pub(crate) const UNFIT: u64 = 1536;
}

/// Places of words in a lane's words.
pub(crate) mod lane {
    pub(crate) const HEAD: u64 = 0;
    pub(crate) const TAIL: u64 = 64;
    pub(crate) const DURABLE: u64 = 72;
    pub(crate) const OWNER: u64 = 80;
    pub(crate) const LOCK: u64 = 88;
    /// The head that is durable: what lies before it is room.
    pub(crate) const ROOM: u64 = 96;
}

/// Places of words in a slot.
pub(crate) mod slot {
    pub(crate) const RETIRED: u64 = 448;
    pub(crate) const RECOVERING: u64 = 456;
    pub(crate) const STATE: u64 = 512;
    pub(crate) const LOCK: u64 = 520;
    pub(crate) const LAST: u64 = 528;
    pub(crate) const LAST_LANE: u64 = 536;
    pub(crate) const LAST_END: u64 = 544;
    pub(crate) const CTIME: u64 = 552;
    pub(crate) const MTIME: u64 = 560;
    pub(crate) const SIZE: u64 = 568;
    /// The earlier of mtime and ctime when the file became trusted.
    pub(crate) const BASE_TIME: u64 = 576;
    pub(crate) const BASE_SIZE: u64 = 584;
    pub(crate) const ACKED: u64 = 592;
    pub(crate) const ACKED_CTIME: u64 = 600;
    pub(crate) const DEV: u64 = 608;
    pub(crate) const INO: u64 = 616;
    pub(crate) const BIRTH: u64 = 624;
    /// Incarnation of the identity that is on the medium.
    pub(crate) const NAMED: u64 = 632;
    /// When its oldest record that is not retired was logged.
    pub(crate) const SINCE: u64 = 640;
    /// How many durable writes are left to the kernel before one tries again whether the file can be trusted; and how
    /// many after the next such try that is of no use.
    pub(crate) const PAUSE: u64 = 648;
    pub(crate) const NEXT_PAUSE: u64 = 656;
    /// [`crate::FileKind`] of the file, as in its identity.
    pub(crate) const KIND: u64 = 664;
    /// Where the newest record of its names ends, and in which lane.
    pub(crate) const NAME_LANE: u64 = 672;
    pub(crate) const NAME_END: u64 = 680;
    /// The slot of the directory that it is of, plus 1.
    pub(crate) const NAME_DIR: u64 = 688;
    /// What is retired durably.
    pub(crate) const SETTLED: u64 = 696;
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawHeader {
    signature: [u8; 8],
    version: U32,
    checksum: U32,
    uuid: [u8; 16],
    epoch: U64,
    state: U32,
    lanes: U32,
    slots: U32,
    incompat: U32,
    lane_len: U64,
    boot: [u8; 16],
    namespace: U64,
    reserved: [u8; 40],
}

const _: () = assert!(size_of::<RawHeader>() == HEADER);

/// What a valid header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) uuid: [u8; 16],
    pub(crate) epoch: u64,
    /// The tables are being zeroed: nothing in them counts.
    pub(crate) resetting: bool,
    pub(crate) lanes: u32,
    pub(crate) slots: u32,
    pub(crate) lane_len: u64,
    pub(crate) boot: [u8; 16],
    pub(crate) namespace: u64,
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER] {
        let raw = RawHeader {
            signature: SIGNATURE,
            version: RUN_LOG_VERSION.into(),
            checksum: U32::ZERO,
            uuid: self.uuid,
            epoch: self.epoch.into(),
            state: if self.resetting { 2 } else { 1 }.into(),
            lanes: self.lanes.into(),
            slots: self.slots.into(),
            incompat: U32::ZERO,
            lane_len: self.lane_len.into(),
            boot: self.boot,
            namespace: self.namespace.into(),
            reserved: [0; 40],
        };
        let mut bytes = [0; HEADER];
        bytes.copy_from_slice(raw.as_bytes());
        seal_header(&mut bytes);
        bytes
    }

    /// Reads a copy for areas of these sizes.
    pub(crate) fn decode(bytes: &[u8; HEADER], files: u64, log: u64) -> Result<Self, HeaderFault> {
        check_header(bytes, &SIGNATURE)?;
        let raw: &RawHeader = zerocopy::transmute_ref!(bytes);
        match (raw.version.get(), raw.incompat.get()) {
            (RUN_LOG_VERSION, 0) => {}
            (RUN_LOG_VERSION, features) => return Err(HeaderFault::Features(features)),
            (version, _) => return Err(HeaderFault::Version(version)),
        }
        let header = Self {
            uuid: raw.uuid,
            epoch: raw.epoch.get(),
            resetting: raw.state.get() == 2,
            lanes: raw.lanes.get(),
            slots: raw.slots.get(),
            lane_len: raw.lane_len.get(),
            boot: raw.boot,
            namespace: raw.namespace.get(),
        };
        let ring = header.lane_len.checked_mul(header.lanes.into()).is_some_and(|len| len <= log);
        let fits = ring && slot_at(header.lanes, header.slots) <= files;
        let counts = header.lanes > 0 && header.slots > 0 && matches!(raw.state.get(), 1 | 2);
        if !fits
            || !counts
            || header.lane_len < PAGE
            || !header.lane_len.is_multiple_of(PAGE)
            || header.epoch >= 1 << 63
        {
            return Err(HeaderFault::Contents("lanes and slots do not fit the areas"));
        }
        Ok(header)
    }

    /// What all checksums of this epoch go on from.
    pub(crate) fn seal(&self) -> u32 {
        crc32c(!0, &[&self.uuid, &self.epoch.to_le_bytes()])
    }
}

/// Where a slot lies in `run-files`; for the number of slots, the end of the table.
pub(crate) fn slot_at(lanes: u32, slot: u32) -> u64 {
    (LANES_AT + u64::from(lanes) * LANE_WORDS).next_multiple_of(PAGE) + u64::from(slot) * SLOT
}

/// What the checks of words of a thing go on from that is `named` so.
pub(crate) fn named_seal(seal: u32, named: &[u64]) -> u32 {
    named.iter().fold(seal, |state, n| crc32c(state, &[&n.to_le_bytes()]))
}

/// A word with its check.
pub(crate) fn checked_word(seal: u32, named: &[u64], value: u64) -> u64 {
    let check = crc32c(named_seal(seal, named), &[&(value & VALUE).to_le_bytes()]);
    (value & VALUE) | u64::from(check) << 48
}

/// The value of a word, if its check is right. A word of zeros is 0.
pub(crate) fn word_value(seal: u32, named: &[u64], word: u64) -> Option<u64> {
    (word == 0 || checked_word(seal, named, word) == word).then_some(word & VALUE)
}

/// The head of a record.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct RecordHead {
    pub(crate) checksum: U32,
    pub(crate) len: U32,
    pub(crate) position: U64,
    pub(crate) sequence: U64,
    pub(crate) slot: U32,
    /// Of the slot; [`RecordHead::MOVE`] and [`RecordHead::TIMES`] above it.
    pub(crate) incarnation: U32,
    /// Of a move the second slot, with its incarnation in the upper half.
    pub(crate) offset: U64,
    /// ctime of the file or directory after the change.
    pub(crate) ctime: U64,
    /// Of a file [`slot::BASE_TIME`]; of a move the ctime of the directory in the second slot.
    pub(crate) base_time: U64,
    pub(crate) base_size: U64,
}

/// A slot, as that of one file: it is given to others later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotKey {
    /// Which slot of the log.
    pub index: u32,
    /// How often it was given.
    pub incarnation: u64,
}

const _: () = assert!(size_of::<RecordHead>() == HEAD);

impl RecordHead {
    /// The record is of two directories: the one that a file came to and the one that it left.
    pub(crate) const MOVE: u32 = 1 << 31;
    /// The payload is the times that a file was given ([`RawTimes`]), and none of its bytes.
    pub(crate) const TIMES: u32 = 1 << 30;

    /// The slots that the record is of.
    pub(crate) fn slots(&self) -> impl Iterator<Item = SlotKey> {
        let (named, offset) = (self.incarnation.get(), self.offset.get());
        let left = (named & Self::MOVE != 0).then_some(SlotKey { index: offset as u32, incarnation: offset >> 32 });
        let incarnation = u64::from(named & !(Self::MOVE | Self::TIMES));
        [SlotKey { index: self.slot.get(), incarnation }].into_iter().chain(left)
    }

    /// The record is of times that a file was given.
    pub(crate) fn gives_times(&self) -> bool {
        self.incarnation.get() & Self::TIMES != 0
    }

    /// The checksum over the head and the parts of the payload.
    pub(crate) fn sum(&self, seal: u32, lane: u32, payload: &[&[u8]]) -> u32 {
        let head = self.as_bytes().get(4..).unwrap_or_default();
        let state = crc32c(seal, &[&u64::from(lane).to_le_bytes(), head]);
        crc32c(state, payload)
    }

    /// Bytes in the ring.
    pub(crate) fn span(len: u64) -> u64 {
        (HEAD as u64 + len).next_multiple_of(LINE)
    }
}

/// Times that a file was given: the payload of a record.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct RawTimes {
    pub(crate) atime_s: I64,
    pub(crate) mtime_s: I64,
    pub(crate) atime_ns: U32,
    pub(crate) mtime_ns: U32,
}

/// A slot's identity on the medium.
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct RawIdentity {
    pub(crate) checksum: U32,
    pub(crate) incarnation: U32,
    pub(crate) fsid: U64,
    pub(crate) ino: U64,
    pub(crate) birth: U64,
    pub(crate) dev: U64,
    pub(crate) handle_type: U32,
    pub(crate) handle_len: U32,
    pub(crate) handle: [u8; MAX_HANDLE],
    pub(crate) path_len: U32,
    pub(crate) kind: U32,
    pub(crate) reserved: [u8; 8],
    pub(crate) path: [u8; MAX_PATH],
}

const _: () = assert!(size_of::<RawIdentity>() == IDENTITY);

impl RawIdentity {
    pub(crate) fn sum(&self, seal: u32, slot: u32) -> u32 {
        crc32c(seal, &[&u64::from(slot).to_le_bytes(), self.as_bytes().get(4..).unwrap_or_default()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            uuid: [7; 16],
            epoch: 3,
            resetting: false,
            lanes: 4,
            slots: 8,
            lane_len: 8192,
            boot: [1; 16],
            namespace: 9,
        }
    }

    #[test]
    fn what_is_written_is_read_and_no_flipped_bit_goes_unnoticed() {
        let bytes = header().encode();
        assert_eq!(Header::decode(&bytes, 1 << 20, 1 << 20), Ok(header()));
        for bit in 0..HEADER * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::decode(&bad, 1 << 20, 1 << 20).is_err(), "bit {bit}");
        }
        assert!(Header::decode(&bytes, 1 << 20, 4 * 8192 - 1).is_err());
        assert!(Header::decode(&bytes, slot_at(4, 8) - 1, 1 << 20).is_err());
    }

    #[test]
    fn a_word_of_another_file_or_epoch_does_not_count() {
        let word = checked_word(header().seal(), &[5, 1], 77);
        assert_eq!(word_value(header().seal(), &[5, 1], word), Some(77));
        assert_eq!(word_value(header().seal(), &[5, 2], word), None);
        assert_eq!(word_value(Header { epoch: 4, ..header() }.seal(), &[5, 1], word), None);
        assert_eq!(word_value(header().seal(), &[5, 1], 0), Some(0));
        for bit in 0..64 {
            assert_ne!(word_value(header().seal(), &[5, 1], word ^ 1 << bit), Some(77), "bit {bit}");
        }
    }

    #[test]
    fn fields_lie_where_the_format_says() {
        let identity = RawIdentity { path: [8; MAX_PATH], ..zerocopy::FromZeros::new_zeroed() };
        assert_eq!(&identity.as_bytes()[191..193], &[0, 8]);
        let head = RecordHead { sequence: 5.into(), base_size: 6.into(), ..zerocopy::FromZeros::new_zeroed() };
        assert_eq!((head.as_bytes()[16], head.as_bytes()[56]), (5, 6));
        assert_eq!([0, 1, 64, 65].map(RecordHead::span), [64, 128, 128, 192]);
    }
}
