//! What a program asks for, and how it is done for real.

use crate::look::{Identity, Look};

/// Where a write goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// To this offset.
    At(u64),
    /// To the file's end.
    Append,
    /// To where the descriptor's offset is.
    Cursor,
}

/// A program's call on one file, and how it is done for real.
pub trait Call {
    /// Why the kernel refuses.
    type Fail;

    /// Looks at the file.
    ///
    /// # Errors
    /// The kernel's.
    fn look(&self) -> std::result::Result<Look, Self::Fail>;

    /// The number of the process that calls: another one after fork(2).
    fn process(&self) -> u32 {
        std::process::id()
    }

    /// Monotonic time, nanoseconds: how long a thread is away between two looks.
    fn now_ns(&self) -> u64;

    /// Waits until every change of the file that is under way is over, whoever makes it; false if that cannot be had,
    /// or if writes may be under way that nobody can wait for.
    fn settle(&self) -> bool;

    /// Syncs the file for real, contents and everything about it.
    ///
    /// # Errors
    /// The kernel's.
    fn sync(&self) -> std::result::Result<(), Self::Fail>;

    /// What a sync answers where the disk has refused what is in the log of the file: EIO.
    fn refused(&self) -> Self::Fail;

    /// A sync that fails so has told that the disk did not take what was written before.
    fn refuses_sync(&self, fail: &Self::Fail) -> bool;

    /// What the file is to be known by; none if it has no handle.
    fn identity(&self) -> Option<Identity>;

    /// The program may change the file's length by this call, as far as it can be told without trying.
    fn may_cut(&self) -> bool {
        true
    }
}

/// A program's write to one file, and how it is done for real.
pub trait WriteCall: Call {
    /// As [`Call::refuses_sync`], of a durable write. It may be refused for lack of room without having written
    /// anything.
    fn refuses_write(&self, fail: &Self::Fail) -> bool;

    /// Does the write; answers how many bytes went in.
    ///
    /// # Errors
    /// The kernel's.
    fn write(&self) -> std::result::Result<usize, Self::Fail>;

    /// The write is to be durable when it returns: `O_SYNC`, `O_DSYNC`, `RWF_SYNC`, `RWF_DSYNC`.
    fn durable(&self) -> bool {
        false
    }

    /// Whether it is worth asking if the write is durable: may be wrong, and takes no time.
    fn may_be_durable(&self) -> bool {
        true
    }

    /// A durable write that can be done without being made durable, which a log would make faster.
    fn lazy(&self) -> bool {
        false
    }

    /// Does a durable write at `start`, which is where it goes, without making it durable if that can be had; answers
    /// how many bytes went in. The descriptor's offset may stay until [`WriteCall::moved`].
    ///
    /// # Errors
    /// The kernel's.
    fn write_lazily(&self, _start: u64) -> std::result::Result<usize, Self::Fail> {
        self.write()
    }

    /// Where the write goes; none if that cannot be told, or it goes past the page cache.
    fn place(&self) -> Option<Place>;

    /// The descriptor's offset, for a write that goes there.
    fn cursor(&self) -> Option<u64>;

    /// A write to the descriptor's offset is over: moves the offset if the write has not done so. True if it is `end`
    /// now, where the write ended, and so nobody else has moved it since [`WriteCall::cursor`].
    fn moved(&self, end: u64) -> bool;

    /// Bytes of the write.
    fn len(&self) -> u64;

    /// There is nothing to write.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Shows the write's first `len` bytes, in parts.
    fn bytes(&self, len: usize, show: &mut dyn FnMut(&[&[u8]]));
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written<T> {
    /// It was done; the kernel's answer.
    Done(T),
    /// Nothing was done: the slot is another file's by now, to be looked for again.
    Stale,
}
