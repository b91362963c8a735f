//! What Ondol keeps in the journal superblock, in bytes that jbd2 leaves alone: which engine the image is for, where
//! the sequence numbers of a compressed journal have got to, and which NVM pool has its last changes. `docs/format.md`
//! specifies it.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// `ONDL`, little-endian.
const MAGIC: u32 = 0x4c44_4e4f;
const VERSION: u8 = 2;

/// The last 64 bytes before the checksum of a journal superblock, little-endian. All zeros where Ondol has nothing to
/// say.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawExtension {
    /// `ONDL`.
    pub magic: U32,
    /// 2.
    pub version: u8,
    /// The engine that the image asks for: 0 none in particular, 1 `classic`, 2 `compressed`, 4 `swap`, 5 `remap`.
    pub engine: u8,
    /// The data mode that the image asks for: 0 none in particular, 1 `journal`, 2 `ordered`, 3 `writeback`.
    pub data: u8,
    /// Zero.
    pub zero: u8,
    /// Number of the unit at the tail, or of the next one when the log is empty.
    pub sequence: U64,
    /// Number of the newest unit known to be durable; 0 for none.
    pub durable: U64,
    /// UUID of the NVM pool that the volume was attached to last; zeros for none.
    pub pool: [u8; 16],
    /// The pool's epoch then.
    pub epoch: U64,
    /// Zeros.
    pub zeros: [u8; 16],
}

const _: () = assert!(size_of::<RawExtension>() == 64);

/// See [`RawExtension`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extension {
    /// The engine that the image asks for: 0 none in particular, 1 `classic`, 2 `compressed`, 4 `swap`, 5 `remap`.
    pub engine: u8,
    /// The data mode that the image asks for: 0 none in particular, 1 `journal`, 2 `ordered`, 3 `writeback`.
    pub data: u8,
    /// Number of the unit at the tail, or of the next one when the log is empty; 0 if there has never been one.
    pub sequence: u64,
    /// Number of the newest unit known to be durable; 0 for none.
    pub durable: u64,
    /// The NVM pool that the volume was attached to last.
    pub attached: Option<Attached>,
}

/// A volume's place in the life of an NVM pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attached {
    /// UUID of the pool.
    pub pool: [u8; 16],
    /// Its epoch, which is another with every attach.
    pub epoch: u64,
}

impl RawExtension {
    /// What it says; nothing where it is another's or of another version.
    pub fn get(&self) -> Extension {
        if self.magic.get() != MAGIC || self.version != VERSION {
            return Extension::default();
        }
        let Self { engine, data, pool, .. } = *self;
        let attached = (pool != [0; 16]).then_some(Attached { pool, epoch: self.epoch.get() });
        Extension { engine, data, sequence: self.sequence.get(), durable: self.durable.get(), attached }
    }

    /// Says `extension`.
    pub fn set(&mut self, extension: &Extension) {
        *self = Self::new_zeroed();
        if *extension != Extension::default() {
            (self.magic, self.version) = (U32::new(MAGIC), VERSION);
            (self.engine, self.data) = (extension.engine, extension.data);
            (self.sequence, self.durable) = (U64::new(extension.sequence), U64::new(extension.durable));
            if let Some(Attached { pool, epoch }) = extension.attached {
                (self.pool, self.epoch) = (pool, U64::new(epoch));
            }
        }
    }
}
