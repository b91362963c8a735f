//! Failing on purpose: errors at the n-th read, write or flush.

use ondol_block::{BlockError, BlockStats, BlockStore, Caps, PageLender, Pin, Result};
use ondol_env::sync::Mutex;
use std::io::{Error, IoSlice};

/// Which calls fail with EIO. Counts are calls still to pass before the first failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultPlan {
    /// Reads that still succeed, or `None` for no read faults.
    pub reads: Option<u64>,
    /// Writes that still succeed, or `None` for no write faults.
    pub writes: Option<u64>,
    /// Flushes that still succeed, or `None` for no flush faults.
    pub flushes: Option<u64>,
    /// Fail once and then work again, instead of failing for good.
    pub once: bool,
}

/// A store that passes calls on to `inner` until the plan says otherwise.
#[derive(Debug)]
pub struct Faulty<S> {
    inner: S,
    plan: Mutex<FaultPlan>,
}

impl<S: BlockStore> Faulty<S> {
    /// Wraps `inner`; nothing fails before [`Faulty::arm`].
    pub fn new(inner: S) -> Self {
        Self { inner, plan: Mutex::default() }
    }

    /// Replaces the plan.
    pub fn arm(&self, plan: FaultPlan) {
        *self.plan.lock() = plan;
    }

    /// The wrapped store.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    fn trip(&self, op: &'static str, offset: u64, len: u64) -> Result<()> {
        let mut plan = self.plan.lock();
        let once = plan.once;
        let left = match op {
            "read" => &mut plan.reads,
            "flush" | "settle" => &mut plan.flushes,
            _ => &mut plan.writes,
        };
        match left {
            None => Ok(()),
            Some(0) => {
                if once {
                    *left = None;
                }
                let source = Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error());
                Err(BlockError::Io { op, name: self.inner.name().to_owned(), offset, len, source })
            }
            Some(n) => {
                *n -= 1;
                Ok(())
            }
        }
    }
}

impl<S: BlockStore> BlockStore for Faulty<S> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn caps(&self) -> Caps {
        self.inner.caps()
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.trip("read", offset, buf.len() as u64)?;
        self.inner.read(offset, buf)
    }

    fn write_vectored(&self, offset: u64, bufs: &[IoSlice<'_>]) -> Result<()> {
        let len: usize = bufs.iter().map(|b| b.len()).sum();
        self.trip("write", offset, len as u64)?;
        self.inner.write_vectored(offset, bufs)
    }

    /// Fails at each place as a write does; what comes before it is written.
    fn write_in_place(&self, places: &[(u64, &[u8])]) -> Result<()> {
        for (n, (offset, bytes)) in places.iter().enumerate() {
            if let Err(e) = self.trip("write", *offset, bytes.len() as u64) {
                self.inner.write_in_place(&places[..n])?;
                return Err(e);
            }
        }
        self.inner.write_in_place(places)
    }

    fn flush(&self) -> Result<()> {
        self.trip("flush", 0, self.inner.size())?;
        self.inner.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> Result<bool> {
        self.trip("discard", offset, len)?;
        self.inner.discard(offset, len)
    }

    /// Fails as a read does.
    fn pin(&self, offset: u64, len: u64, bounded: bool) -> Result<Option<Pin>> {
        self.trip("read", offset, len)?;
        self.inner.pin(offset, len, bounded)
    }

    /// Fails as a write does.
    fn exchange(&self, pairs: &[(u64, u64)], offset: u64, bytes: &[u8]) -> Result<()> {
        self.trip("exchange", offset, bytes.len() as u64)?;
        self.inner.exchange(pairs, offset, bytes)
    }

    /// Fails as a write does.
    fn submit(&self, writes: &[(u64, &[u8])], discards: &[(u64, u64)]) -> Result<u64> {
        self.trip("submit", 0, writes.iter().map(|(_, bytes)| bytes.len() as u64).sum())?;
        self.inner.submit(writes, discards)
    }

    /// Fails as a flush does.
    fn settle(&self, number: u64) -> Result<()> {
        self.trip("settle", 0, self.inner.size())?;
        self.inner.settle(number)
    }

    fn lender(&self) -> Option<&dyn PageLender> {
        self.inner.lender()
    }

    fn stats(&self) -> BlockStats {
        self.inner.stats()
    }
}
