//! Batches of writes, as F2FS's ioctls make them: what is written through one open file between START and COMMIT becomes one operation of the volume, and nothing if the file is closed before.

use super::contents::clear_suid;
use super::{Answer, Op, Ops, Sender};
use ondol::Ino;
use ondol::inodes::{Batch, Error};
use parking_lot::{Mutex, MutexGuard};
use rustix::io::Errno;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Bytes that all batches of a mount may hold together: they are in the server's memory.
pub(crate) const MOST: usize = 64 << 20;

/// How long one waits for another: who takes the place of those that the other needs, and who does not.
const PATIENCE: Duration = Duration::from_millis(200);
const LONG_PATIENCE: Duration = Duration::from_secs(30);

/// The batches that are open, by the number of the open file.
#[derive(Default)]
pub(crate) struct Batches {
    /// The last number that was given to an open file.
    last: AtomicU64,
    open: Mutex<HashMap<u64, Collected>>,
    /// How many there are, for those who look whether there is any.
    count: AtomicUsize,
    bytes: AtomicU64,
    /// How many requests are served at the same time, wherever one comes.
    at_once: AtomicUsize,
    /// Those that wait for one another.
    waiting: AtomicUsize,
}

/// What an open file has collected; nothing once the batch has ended.
pub(super) type Collected = Arc<Mutex<Option<Batch>>>;

/// A batch that has ended, which takes memory until it is dropped.
struct Ended<'b> {
    batch: Batch,
    batches: &'b Batches,
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.batches.bytes.fetch_sub(self.batch.held(), Ordering::Relaxed);
    }
}

impl Batches {
    /// A number for an open file, by which its batch will be known.
    pub(crate) fn number(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn are_served(&self, at_once: usize) {
        self.at_once.store(at_once, Ordering::Relaxed);
    }

    /// Waits for another. The one that is waited for needs a place, and whom that one waits for needs another.
    fn wait<T>(&self, wait: impl FnOnce(Duration) -> Option<T>) -> Option<T> {
        let waiting = self.waiting.fetch_add(1, Ordering::Relaxed) + 1;
        let leaves_room = waiting + 2 <= self.at_once.load(Ordering::Relaxed);
        let got = ondol::waits::long(|| wait(if leaves_room { LONG_PATIENCE } else { PATIENCE }));
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        got
    }

    pub(super) fn of(&self, handle: u64) -> Option<Collected> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.open.lock().get(&handle).cloned()
    }

    /// Begins one; one that has begun goes on.
    fn begin(&self, handle: u64, ino: Ino) {
        self.open.lock().entry(handle).or_insert_with(|| {
            self.count.fetch_add(1, Ordering::Release);
            Arc::new(Mutex::new(Some(Batch::new(ino))))
        });
    }

    /// Ends one.
    fn take(&self, handle: u64) -> Option<Ended<'_>> {
        let taken = {
            let mut open = self.open.lock();
            let taken = open.remove(&handle)?;
            self.count.fetch_sub(1, Ordering::Release);
            taken
        };
        // A write that has found it before is in it, or finds that it has ended.
        let batch = taken.lock().take()?;
        Some(Ended { batch, batches: self })
    }

    /// Writes into one; false if it has ended.
    pub(super) fn write(&self, batch: &Collected, offset: u64, data: &[u8]) -> Result<bool, Error> {
        let mut batch = batch.lock();
        let Some(batch) = &mut *batch else { return Ok(false) };
        // It may cut a part in two.
        let (before, need) = (batch.held(), data.len() as u64 + 2 * Batch::PART);
        if self.bytes.fetch_add(need, Ordering::Relaxed) + need > MOST as u64 {
            self.bytes.fetch_sub(need, Ordering::Relaxed);
            return Err(Error::TooBig { need: before + need, max: MOST as u64 });
        }
        let written = batch.write(offset, data);
        // It may have become less, where parts lay over each other.
        self.bytes.fetch_add(batch.held().wrapping_sub(before).wrapping_sub(need), Ordering::Relaxed);
        written.map(|()| true)
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
            i.check_open(ino, true, false, false)?;
            self.batches.begin(handle, ino);
            Ok(())
        })
    }

    /// Makes what was collected, has the kernel forget its pages of the file (`forget`), and makes it durable. Whatever comes of it, the batch is over.
    ///
    /// Forgetting pages may have to wait for another request. One at a time does so, and who waits for another gives up before anything is made, soon where nobody else could serve that
    /// request.
    pub(crate) fn commit_batch(&self, handle: u64, sender: Sender, forget: &dyn Fn() -> io::Result<()>) -> Answer<()> {
        let ended = self.batches.take(handle).ok_or(Errno::INVAL)?;
        let batch = &ended.batch;
        let alone = self.exchanging.try_lock();
        let alone = alone.or_else(|| self.batches.wait(|time| self.exchanging.try_lock_for(time)));
        let alone = alone.ok_or(Errno::AGAIN)?;
        self.change(Op::Ioctl, sender, |i| {
            // What may only be appended to, or not be changed, may have become so since.
            i.check_open(batch.ino(), true, false, false)?;
            {
                let _ends_stay = self.ends_stay();
                clear_suid(i, batch.ino(), sender)?;
                i.apply_batches(&[batch])?;
            }
            if let Err(e) = forget() {
                tracing::warn!("maps of a file may show what it held before a batch: {e}");
            }
            drop(alone);
            i.fsync(batch.ino(), true)
        })
    }

    /// While this is held no batch makes a file longer, and nothing is appended.
    pub(super) fn ends_stay(&self) -> MutexGuard<'_, ()> {
        self.ends.try_lock().unwrap_or_else(|| ondol::waits::long(|| self.ends.lock()))
    }

    /// Gives up what was collected; whether there was anything.
    pub(crate) fn drop_batch(&self, handle: u64) -> bool {
        self.batches.take(handle).is_some_and(|ended| !ended.batch.is_empty())
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
            assert!(batches.write(&first, n << 20, &megabyte).unwrap());
        }
        assert!(matches!(batches.write(&second, 0, &megabyte), Err(Error::TooBig { .. })));
        // A part has its place beside its bytes.
        for n in 0..4000 {
            batches.write(&second, 2 * n, &[1]).unwrap();
        }
        assert!(batches.bytes.load(Ordering::Relaxed) >= (63 << 20) + 4000 * 129);
        // One that has begun goes on, and one that has ended takes nothing more, but its memory until it is dropped.
        batches.begin(one, 12);
        assert!(batches.of(one).unwrap().lock().as_ref().unwrap().bytes() == 63 << 20);
        let ended = batches.take(one).unwrap();
        assert!(batches.of(one).is_none() && !batches.write(&first, 0, &megabyte).unwrap());
        assert!(matches!(batches.write(&second, 1 << 20, &megabyte), Err(Error::TooBig { .. })));
        drop(ended);
        assert!(batches.write(&second, 1 << 20, &megabyte).unwrap());
        assert!(batches.take(two).is_some() && batches.take(two).is_none());
        assert_eq!(batches.bytes.load(Ordering::Relaxed), 0);
        assert_eq!(batches.count.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn who_leaves_room_for_others_waits_for_an_exchange() {
        use ondol::{FormatOptions, Options, ROOT, Volume};
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("image");
        Volume::format(&image, &FormatOptions::new().size(8 << 20)).unwrap();
        let ops = Ops::new(Volume::open_with(&image, &Options::default()).unwrap());
        let root = Sender { uid: 0, gid: 0, umask: 0, thread: 0 };
        let ino = ops.create(ROOT, b"file", 0o600, root).unwrap().ino;
        let commit = || {
            let handle = ops.number_of_open();
            ops.begin_batch(ino, handle).unwrap();
            ops.commit_batch(handle, root, &|| Ok(()))
        };
        let exchange = ops.exchanging.lock();
        // The third would have to serve what the exchange waits for.
        ops.batches.are_served(2);
        assert_eq!(commit(), Err(Errno::AGAIN.into()));
        ops.batches.are_served(3);
        std::thread::scope(|scope| {
            let waits = scope.spawn(commit);
            while ops.batches.waiting.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            assert_eq!(commit(), Err(Errno::AGAIN.into()));
            assert!(!waits.is_finished());
            drop(exchange);
            assert_eq!(waits.join().unwrap(), Ok(()));
        });
        ops.release(ino).unwrap();
        ops.close().unwrap().close().unwrap();
    }
}
