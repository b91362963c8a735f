//! Batches of writes, as F2FS's ioctls make them: what is written through one open file between START and COMMIT becomes one operation of the volume, and nothing if the file is closed before.

use super::{Answer, Op, Ops, Sender};
use ondol::Ino;
use ondol::inodes::{Batch, Error};
use parking_lot::Mutex;
use rustix::io::Errno;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Bytes that all batches of a mount may hold together: they are in the server's memory.
const MOST: u64 = 64 << 20;

/// How long one waits for another.
const PATIENCE: Duration = Duration::from_millis(200);

/// The batches that are open, by the number of the open file.
#[derive(Default)]
pub(crate) struct Batches {
    /// The last number that was given to an open file.
    last: AtomicU64,
    open: Mutex<HashMap<u64, Arc<Mutex<Batch>>>>,
    /// How many there are, for those who look whether there is any.
    count: AtomicUsize,
    bytes: AtomicU64,
}

/// What an open file has collected.
pub(super) type Collected = Arc<Mutex<Batch>>;

impl Batches {
    /// A number for an open file, by which its batch will be known.
    pub(crate) fn number(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn of(&self, handle: u64) -> Option<Collected> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.open.lock().get(&handle).cloned()
    }

    /// Begins one, with nothing of an earlier one.
    fn begin(&self, handle: u64, ino: Ino) {
        drop(self.take(handle));
        self.open.lock().insert(handle, Arc::new(Mutex::new(Batch::new(ino))));
        self.count.fetch_add(1, Ordering::Release);
    }

    /// Ends one.
    fn take(&self, handle: u64) -> Option<Collected> {
        let taken = self.open.lock().remove(&handle)?;
        self.count.fetch_sub(1, Ordering::Release);
        self.bytes.fetch_sub(taken.lock().bytes(), Ordering::Relaxed);
        Some(taken)
    }

    /// Writes into one.
    pub(super) fn write(&self, batch: &Collected, offset: u64, data: &[u8]) -> Result<(), Error> {
        let mut batch = batch.lock();
        let before = batch.bytes();
        if self.bytes.load(Ordering::Relaxed) + data.len() as u64 > MOST {
            return Err(Error::TooBig { need: before + data.len() as u64, max: MOST });
        }
        batch.write(offset, data);
        // It may have become less, where parts lay over each other.
        self.bytes.fetch_add(batch.bytes().wrapping_sub(before), Ordering::Relaxed);
        Ok(())
    }
}

impl Ops {
    /// A number for an open file whose writes may become a batch.
    pub(crate) fn number_of_open(&self) -> u64 {
        self.batches.number()
    }

    /// From now on what is written through this open file is collected.
    pub(crate) fn begin_batch(&self, ino: Ino, handle: u64) -> Answer<()> {
        self.ask(Op::Ioctl, |i| {
            i.getattr(ino)?;
            self.batches.begin(handle, ino);
            Ok(())
        })
    }

    /// Makes what was collected, and makes it durable. Whatever comes of it, the batch is over.
    pub(crate) fn commit_batch(&self, handle: u64, sender: Sender) -> Answer<()> {
        let batch = self.batches.take(handle).ok_or(Errno::INVAL)?;
        let batch = batch.lock();
        self.change(Op::Ioctl, sender, |i| {
            i.apply_batches(&[&batch])?;
            i.fsync(batch.ino(), true)
        })
    }

    /// Has the kernel forget pages of a file that is mapped, which may have to wait for another request. One at a time does so, and who waits for another gives up soon: so there is always
    /// somebody to serve that request.
    pub(crate) fn one_notifies(&self, forget: impl FnOnce() -> io::Result<()>) {
        let alone = ondol::waits::long(|| self.exchanging.try_lock_for(PATIENCE));
        if alone.is_none() {
            tracing::warn!("maps of a file may show what it held before a batch: other files keep the kernel busy");
            return;
        }
        if let Err(e) = forget() {
            tracing::warn!("maps of a file may show what it held before a batch: {e}");
        }
    }

    /// Gives up what was collected; whether there was anything.
    pub(crate) fn drop_batch(&self, handle: u64) -> bool {
        self.batches.take(handle).is_some_and(|batch| !batch.lock().is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_batches_hold_is_bounded_and_given_back() {
        let batches = Batches::default();
        let (one, two) = (batches.number(), batches.number());
        assert!(one != 0 && one != two && batches.of(one).is_none());
        batches.begin(one, 12);
        batches.begin(two, 12);
        let (first, second) = (batches.of(one).unwrap(), batches.of(two).unwrap());
        let megabyte = vec![1; 1 << 20];
        for n in 0..63 {
            batches.write(&first, n << 20, &megabyte).unwrap();
        }
        batches.write(&first, 0, &megabyte[1..]).unwrap();
        batches.write(&second, 0, &megabyte).unwrap();
        assert!(matches!(batches.write(&second, 1 << 20, &megabyte), Err(Error::TooBig { .. })));
        batches.begin(one, 12);
        batches.write(&second, 1 << 20, &megabyte).unwrap();
        assert!(batches.take(two).is_some() && batches.take(two).is_none());
        assert_eq!(batches.bytes.load(Ordering::Relaxed), 0);
        assert!(batches.take(one).is_some() && batches.of(one).is_none());
        assert_eq!(batches.count.load(Ordering::Relaxed), 0);
    }
}
