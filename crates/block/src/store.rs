//! The trait.

use crate::{BlockError, BlockStats, DeviceClass, PageLender, Pin, Result};
use std::io::IoSlice;

/// What a store can do beyond reading and writing; the facade refuses an engine that its home cannot carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// A write of this many aligned bytes is not torn by a crash.
    pub atomic_unit: u32,
    /// `flush` makes data survive a power cut; false for memory that only outlives the process.
    pub durable_flush: bool,
    /// Blocks can exchange their contents without a copy: what one [`BlockStore::exchange`] takes.
    pub swap: Option<Swaps>,
    /// Many changes can be made as one: the most bytes that the writes of one [`BlockStore::submit`] have.
    pub batch: Option<u64>,
    /// Writing is refused.
    pub read_only: bool,
    /// What it lies on.
    pub device: DeviceClass,
}

/// What one [`BlockStore::exchange`] takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swaps {
    /// Bytes of a block that can be exchanged.
    pub block: u32,
    /// The most pairs of blocks.
    pub pairs: u64,
    /// The most bytes that are stored with them.
    pub bytes: u32,
}

/// A medium for an image: an array of bytes with a write cache that `flush` empties.
///
/// All calls may come from many threads at once. Overlapping concurrent transfers have no defined order; callers
/// exclude them.
pub trait BlockStore: Send + Sync {
    /// How the user named the store, for messages.
    fn name(&self) -> &str;

    /// Size in bytes.
    fn size(&self) -> u64;

    /// What the store can do.
    fn caps(&self) -> Caps;

    /// Fills `buf` from byte `offset`.
    ///
    /// # Errors
    /// `OutOfRange`, or the medium's failure; `buf` is then undefined.
    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()>;

    /// Lends stored bytes from `offset` on, up to `len`, which is above 0, as they are now, for as long as the caller
    /// wants: at least one. `None`: the store has none to lend, or has lent as much as it may, and they are to be read.
    /// `bounded`: they may be held for long, so they count among those that the store may lend; otherwise they are
    /// given back before anything waits for it.
    ///
    /// # Errors
    /// As [`BlockStore::read`].
    fn pin(&self, _offset: u64, _len: u64, _bounded: bool) -> Result<Option<Pin>> {
        Ok(None)
    }

    /// Writes `bufs` one after the other from byte `offset`. When this returns, readers see the bytes; nothing is
    /// durable before a [`BlockStore::flush`] that begins later completes.
    ///
    /// # Errors
    /// `ReadOnly`, `OutOfRange`, or the medium's failure; any part may then be written.
    fn write_vectored(&self, offset: u64, bufs: &[IoSlice<'_>]) -> Result<()>;

    /// Writes one buffer; see [`BlockStore::write_vectored`].
    ///
    /// # Errors
    /// As [`BlockStore::write_vectored`].
    fn write(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.write_vectored(offset, &[IoSlice::new(buf)])
    }

    /// Writes buffers at several places, `(offset, bytes)`, for a caller that can do all of it again after a crash:
    /// until a [`BlockStore::flush`] that begins later completes, each byte of the medium is what it was or what it
    /// will be, and no [`Caps::atomic_unit`] holds for them. A store that otherwise copies on write can so store in
    /// place, and only what differs. Readers may meet it at the boundaries of places.
    ///
    /// # Errors
    /// As [`BlockStore::write_vectored`].
    fn write_in_place(&self, places: &[(u64, &[u8])]) -> Result<()> {
        places.iter().try_for_each(|(offset, bytes)| self.write(*offset, bytes))
    }

    /// Makes every write, discard and batch whose call returned before this one durable.
    ///
    /// # Errors
    /// The medium's failure. After one, no earlier unflushed write may be assumed durable, even if a later flush
    /// succeeds.
    fn flush(&self) -> Result<()>;

    /// Declares `len` bytes at `offset` unused: from now on they read as before or as zeros. False from a store that
    /// keeps them. Like a write, it is not durable before a [`BlockStore::flush`].
    ///
    /// # Errors
    /// `ReadOnly`, `OutOfRange`, or the medium's failure.
    fn discard(&self, offset: u64, len: u64) -> Result<bool>;

    /// Exchanges the contents of blocks, pair by pair, and stores `bytes` at `offset`, inside of one block that was
    /// written before: after a crash all of that has happened or nothing. Durable when this returns, and with it every
    /// write that returned before. Blocks count in units of [`Swaps::block`]; none is in two pairs. Readers see all of
    /// it at once.
    ///
    /// # Errors
    /// A store whose [`Caps::swap`] is `None`, or more than that says; `ReadOnly`, `OutOfRange`: nothing has happened.
    /// The medium's failure, as that of a flush.
    fn exchange(&self, pairs: &[(u64, u64)], offset: u64, bytes: &[u8]) -> Result<()> {
        let _nothing_happens = pairs;
        let (name, len) = (self.name().to_owned(), bytes.len() as u64);
        let source = std::io::Error::new(std::io::ErrorKind::Unsupported, "its blocks cannot be exchanged");
        Err(BlockError::Io { op: "exchange", name, offset, len, source })
    }

    /// A batch: writes `(offset, bytes)`, and declares `(offset, len)` unused as [`BlockStore::discard`] does; no byte
    /// is in two of them. After a crash all of that has happened or nothing, and only if everything has happened that
    /// was submitted, written or discarded before. When this returns, readers see it; it is not durable before
    /// [`BlockStore::settle`], or a [`BlockStore::flush`] that begins later. Returns the number of the batch, by which
    /// it is settled. Numbers grow, from one opening of the store to the next, too; not every number is that of a
    /// submitted batch. Who submits is alone: concurrent calls have no defined order.
    ///
    /// # Errors
    /// A store whose [`Caps::batch`] is `None`, or more bytes than that says; `ReadOnly`, `OutOfRange`: nothing has
    /// happened. The medium's failure: the batch may be there or not, readers may see it or not, and no batch can be
    /// submitted or settled any more.
    fn submit(&self, writes: &[(u64, &[u8])], discards: &[(u64, u64)]) -> Result<u64> {
        let len = writes.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        let _nothing_happens = discards;
        let source = std::io::Error::new(std::io::ErrorKind::Unsupported, "it takes no batches");
        Err(BlockError::Io { op: "submit", name: self.name().to_owned(), offset: 0, len, source })
    }

    /// Returns when the batch of this number is durable, with everything that was submitted, written or discarded
    /// before it. Several threads may settle at once, also while another batch is submitted; a store may serve them one
    /// after the other.
    ///
    /// # Errors
    /// A store whose [`Caps::batch`] is `None`; no batch has this number. The medium's failure: what was not durable
    /// never will be for sure, and no batch can be submitted or settled any more.
    fn settle(&self, number: u64) -> Result<()> {
        let source = std::io::Error::new(std::io::ErrorKind::Unsupported, "it takes no batches");
        Err(BlockError::Io { op: "settle", name: self.name().to_owned(), offset: number, len: 0, source })
    }

    /// Makes the store longer, while it is used: what is added holds zeros. Durable when this returns. A store that is
    /// as long already stays as it is.
    ///
    /// # Errors
    /// A store whose size is as it is; `ReadOnly`; the system's refusal.
    fn lengthen(&self, size: u64) -> Result<()> {
        if size <= self.size() {
            return Ok(());
        }
        let source = rustix::io::Errno::NOSPC.into();
        Err(BlockError::Io { op: "lengthen", name: self.name().to_owned(), offset: self.size(), len: size, source })
    }

    /// Its free pages, if it copies on write and lends them.
    fn lender(&self) -> Option<&dyn PageLender> {
        None
    }

    /// What this store has done since it was opened.
    fn stats(&self) -> BlockStats;
}
