//! What is written in place, outside of the log, and the flushes that make it durable.

use crate::{JournalError, Result};
use ondol_block::BlockStore;
use ondol_env::sync::RwLock;
use ondol_env::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, SeqCst},
};

/// Bytes over stored ones from which on they are written in place, where the log does not order that before its
/// transactions: the commit then flushes first.
pub const IN_PLACE: usize = 64 << 10;

/// Counts of writes in place, and how many of them a completed flush covers.
#[derive(Debug, Default)]
pub(crate) struct InPlace {
    begun: AtomicU64,
    written: AtomicU64,
    flushed: AtomicU64,
    /// Bytes written since a flush last began.
    bytes: AtomicU64,
    /// Bytes that flushes under way are to make durable.
    under_way: AtomicU64,
    /// Held shared by flushes under way.
    flushing: RwLock<()>,
}

impl InPlace {
    /// Writes, and tells how many bytes wait for a flush. What fails counts too: a part of it may be there, and what
    /// can be read has to become durable.
    ///
    /// # Errors
    /// Those of `write`.
    pub(crate) fn write(&self, bytes: usize, write: impl FnOnce() -> Result<()>) -> Result<u64> {
        self.begun.fetch_add(1, SeqCst);
        let written = write();
        self.written.fetch_add(1, SeqCst);
        written?;
        Ok(self.bytes.fetch_add(bytes as u64, Relaxed) + bytes as u64)
    }

    /// As [`InPlace::write`], of what nobody reads there unless it succeeds: what fails does not count.
    ///
    /// # Errors
    /// Those of `write`.
    pub(crate) fn write_or_leave(&self, bytes: usize, write: impl FnOnce() -> Result<()>) -> Result<u64> {
        self.begun.fetch_add(1, SeqCst);
        if let Err(e) = write() {
            self.begun.fetch_sub(1, SeqCst);
            return Err(e);
        }
        self.written.fetch_add(1, SeqCst);
        Ok(self.bytes.fetch_add(bytes as u64, Relaxed) + bytes as u64)
    }

    /// Writes that have ended.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(SeqCst)
    }

    /// Whether a flush covers the first `written` writes.
    pub(crate) fn covers(&self, written: u64) -> bool {
        self.flushed.load(SeqCst) >= written
    }

    /// Bytes that wait for a flush to begin.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Bytes that no flush has made durable. What a flush that failed was to make durable stays in it.
    pub(crate) fn not_durable(&self) -> u64 {
        self.bytes.load(SeqCst) + self.under_way.load(SeqCst)
    }

    /// What waits for a flush goes under way with one that begins. For a moment it counts twice, and never as durable.
    fn take(&self) -> u64 {
        loop {
            let taken = self.bytes.load(SeqCst);
            self.under_way.fetch_add(taken, SeqCst);
            if self.bytes.compare_exchange(taken, 0, SeqCst, SeqCst).is_ok() {
                return taken;
            }
            self.under_way.fetch_sub(taken, SeqCst);
        }
    }

    /// What was written before the call is durable when this returns. `failed` is told of an error, and whether writes
    /// in place were not durable before, while flushes beside it wait: a system may tell only one of them what was
    /// lost, so the others must find the engine stopped, which `check` tells.
    ///
    /// # Errors
    /// The store's; those of `check`.
    pub(crate) fn flush(
        &self,
        store: &dyn BlockStore,
        failed: impl FnOnce(&JournalError, bool),
        check: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let seen = self.written();
        let taken = self.take();
        let beside = self.flushing.read();
        let flushed = store.flush().map_err(JournalError::from);
        if let Err(e) = &flushed {
            failed(e, !self.covers(self.begun.load(SeqCst)));
        }
        drop(beside);
        flushed?;
        drop(self.flushing.write());
        check()?;
        self.flushed.fetch_max(seen, SeqCst);
        self.under_way.fetch_sub(taken, SeqCst);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondol_block::{BlockError, BlockStats, Caps, RamStore};
    use ondol_env::sync::{Arc, thread};
    use std::io::{Error, IoSlice};
    use std::sync::{Barrier, OnceLock};
    use std::time::Duration;

    /// Two flushes at once: the first fails, after the second has been told that all is well.
    struct Twice(Barrier, AtomicU64);

    impl BlockStore for Twice {
        fn name(&self) -> &str {
            "two flushes"
        }

        fn size(&self) -> u64 {
            0
        }

        fn caps(&self) -> Caps {
            RamStore::new(0).caps()
        }

        fn read(&self, _: u64, _: &mut [u8]) -> ondol_block::Result<()> {
            Ok(())
        }

        fn write_vectored(&self, _: u64, _: &[IoSlice<'_>]) -> ondol_block::Result<()> {
            Ok(())
        }

        fn flush(&self) -> ondol_block::Result<()> {
            let is_first = self.1.fetch_add(1, SeqCst) == 0;
            self.0.wait();
            if !is_first {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
            let source = Error::other("what was written is lost");
            Err(BlockError::Io { op: "flush", name: String::new(), offset: 0, len: 0, source })
        }

        fn discard(&self, _: u64, _: u64) -> ondol_block::Result<bool> {
            Ok(false)
        }

        fn stats(&self) -> BlockStats {
            BlockStats::default()
        }
    }

    fn two_flushes(in_place: &Arc<InPlace>) -> Vec<bool> {
        let store = Arc::new(Twice(Barrier::new(2), AtomicU64::new(0)));
        let stopped = Arc::new(OnceLock::new());
        let one = || {
            let (in_place, store, stopped) = (in_place.clone(), store.clone(), stopped.clone());
            thread::spawn(move || {
                let stop = |_: &JournalError, at_risk: bool| {
                    if at_risk {
                        stopped.set(()).unwrap();
                    }
                };
                let check = || match stopped.get() {
                    Some(()) => Err(JournalError::Aborted("it has failed".into())),
                    None => Ok(()),
                };
                in_place.flush(&*store, stop, check).is_ok()
            })
        };
        [one(), one()].map(|thread| thread.join().unwrap()).to_vec()
    }

    #[test]
    fn a_flush_beside_one_that_loses_data_fails_too() {
        let in_place = Arc::new(InPlace::default());
        assert_eq!(in_place.write(10, || Ok(())).unwrap(), 10);
        assert_eq!(two_flushes(&in_place), [false, false]);
        assert!(!in_place.covers(in_place.written()));
        assert_eq!(in_place.not_durable(), 10);
    }

    #[test]
    fn what_a_flush_has_under_way_is_not_durable() {
        let in_place = InPlace::default();
        in_place.write(10, || Ok(())).unwrap();
        let under_way = || {
            assert_eq!((in_place.bytes(), in_place.not_durable()), (0, 10));
            in_place.write(5, || Ok(())).map(|_| ())
        };
        in_place.flush(&RamStore::new(0), |_, _| (), under_way).unwrap();
        assert_eq!((in_place.bytes(), in_place.not_durable()), (5, 5));
    }

    #[test]
    fn a_flush_that_loses_nothing_stops_nobody() {
        let in_place = Arc::new(InPlace::default());
        let mut ended = two_flushes(&in_place);
        ended.sort();
        assert_eq!(ended, [false, true]);
    }
}
