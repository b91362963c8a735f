//! Stored bytes, lent: what a store that is memory has to give without a copy.

use std::fmt;
use std::ops::Deref;

/// Bytes that do not change as long as this is held, whatever is written to the store meanwhile. They are what the
/// store held when they were asked for.
pub struct Pinned {
    bytes: Box<dyn AsRef<[u8]> + Send + Sync>,
    place: u64,
}

/// What a store lends.
#[derive(Debug)]
pub enum Pin {
    /// So many zeros, which lie nowhere.
    Zeros(u64),
    /// Stored bytes.
    Bytes(Pinned),
}

/// Where some bytes of a map come from ([`crate::PageLender::map`]).
#[derive(Clone, Copy, Debug)]
pub enum MapPart<'b> {
    /// What was lent, from this place of the memory below on: so many bytes.
    Place(u64, u64),
    /// So many zeros.
    Zeros(u64),
    /// These, to be copied.
    Bytes(&'b [u8]),
}

/// Stored bytes at addresses that lie in a row, as they were when they were mapped.
pub trait Mapped: Send + Sync {
    /// All of them.
    fn bytes(&self) -> &[u8];

    /// Enters pages of so many bytes from byte `at` on in the processor's table, in one call to the kernel, so that
    /// reading them takes no page fault. False: the kernel does not.
    fn enter(&self, at: usize, len: usize) -> bool;

    /// So many bytes from byte `at` on, to be changed for whoever holds this, and nobody else: no store shows in what
    /// is mapped. `None`: there are not so many, or there is no memory; nothing has changed then.
    fn bytes_mut(&mut self, at: usize, len: usize) -> Option<&mut [u8]>;
}

/// Pages of a store that somebody has for himself, as memory: at addresses that lie in a row. They begin as zeros;
/// after a crash they are free, or blocks that nobody owns.
pub trait Memory: Send + Sync {
    /// All of it.
    fn bytes(&self) -> &[u8];

    /// All of it, to be changed.
    fn bytes_mut(&mut self) -> &mut [u8];
}

/// What came of asking for memory ([`crate::PageLender::own`]).
pub enum Own {
    /// There it is.
    Memory(Box<dyn Memory>),
    /// The pages of these blocks are spoken of elsewhere: by a log, which is over when everything has been written
    /// home; or somebody reads them in place.
    Busy(Vec<u64>),
    /// The store has too few pages now: others have them in hands, or read what they held.
    Short,
    /// The store cannot give these as memory; says why.
    Refused(&'static str),
}

ondol_env::counters! {
    /// How the pages of a store are used now. Of those that are pinned, a page with two pins counts twice.
    pub struct PageUse, "pages_";
    pinned: Gauge, Number, "Pages of the pool that are read in place.";
    pinnable: Gauge, Number, "Pages of the pool that may be read in place at a time.";
    held: Gauge, Number, "Pages of the pool that were overwritten or removed and are read in place still.";
    parted: Gauge, Number, "Pages of maps that private copies have taken the place of.";
    memory: Gauge, Number, "Pages of the pool that are somebody's memory.";
    lent: Gauge, Number, "Pages of the pool that are lent, and of which no block is made yet.";
    all: Gauge, Number, "Pages of the pool.";
}

impl Pinned {
    /// Bytes whose first lies at byte `place` of the memory below, for whoever knows that.
    pub fn new(bytes: impl AsRef<[u8]> + Send + Sync + 'static, place: u64) -> Self {
        Self { bytes: Box::new(bytes), place }
    }

    /// Where the first byte lies in the memory below.
    pub fn place(&self) -> u64 {
        self.place
    }
}

impl Deref for Pinned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        (*self.bytes).as_ref()
    }
}

impl fmt::Debug for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pinned({} bytes at {})", self.len(), self.place)
    }
}
