//! The store that hostile images lie on: it fails the run when something is done that no image may bring about.

use ondol_block::{BlockStats, BlockStore, Caps, DeviceClass, Result};
use ondol_env::sync::Mutex;
use ondol_env::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use ondol_power::Layer;
use std::io::IoSlice;

/// A medium in memory that knows what is allowed.
pub(crate) struct Guard {
    size: u64,
    state: Mutex<State>,
    /// Whether writes are allowed.
    writable: AtomicBool,
    reads: AtomicU64,
    limit: AtomicU64,
}

struct State {
    layer: Layer,
    /// Writes until power fails: later ones are lost.
    power: u64,
    what: &'static str,
}

/// Bytes that count as one read.
const UNIT: u64 = 1024;

impl Guard {
    pub(crate) fn new(layer: Layer, writable: bool) -> Self {
        let size = layer.len() as u64;
        Self {
            size,
            state: Mutex::new(State { layer, power: u64::MAX, what: "opening" }),
            writable: AtomicBool::new(writable),
            reads: AtomicU64::new(0),
            limit: AtomicU64::new(limit(size)),
        }
    }

    /// One call begins: it may read everything there is a few times over, and no more.
    pub(crate) fn begin(&self, what: &'static str) {
        self.reads.store(0, Relaxed);
        self.state.lock().what = what;
    }

    /// From now on nothing may be written.
    pub(crate) fn freeze(&self) {
        self.writable.store(false, Relaxed);
    }

    /// Power fails after `writes` further writes.
    pub(crate) fn fail_after(&self, writes: u64) {
        self.state.lock().power = writes;
    }

    /// Whether writes are lost by now.
    pub(crate) fn is_dark(&self) -> bool {
        self.state.lock().power == 0
    }

    /// What it holds.
    pub(crate) fn layer(&self) -> Layer {
        self.state.lock().layer.clone()
    }

    fn start(&self, what: &str, offset: u64, len: usize) -> usize {
        let inside = offset.checked_add(len as u64).is_some_and(|end| end <= self.size);
        assert!(inside, "{what} of {len} bytes at {offset}, outside of the image of {} bytes", self.size);
        offset as usize
    }

    fn count(&self, len: usize) {
        let units = (len as u64).div_ceil(UNIT).max(1);
        let limit = self.limit.load(Relaxed);
        if self.reads.fetch_add(units, Relaxed) + units > limit {
            panic!("{} read more than {limit} KiB of an image of {} KiB", self.state.lock().what, self.size / UNIT);
        }
    }
}

/// KiB that one call may read of an image of `size` bytes: recovery and the check go over it several times.
fn limit(size: u64) -> u64 {
    16 * size.div_ceil(UNIT) + 1024
}

impl BlockStore for Guard {
    fn name(&self) -> &str {
        "hostile"
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn caps(&self) -> Caps {
        let read_only = !self.writable.load(Relaxed);
        Caps {
            atomic_unit: 512,
            durable_flush: true,
            swap: None,
            batch: None,
            read_only,
            device: DeviceClass::default(),
        }
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let at = self.start("read", offset, buf.len());
        self.count(buf.len());
        self.state.lock().layer.read(at, buf);
        Ok(())
    }

    fn write_vectored(&self, offset: u64, bufs: &[IoSlice<'_>]) -> Result<()> {
        let len = bufs.iter().map(|b| b.len()).sum();
        let mut at = self.start("write", offset, len);
        let mut state = self.state.lock();
        assert!(self.writable.load(Relaxed), "{} wrote to a read-only image at {offset}", state.what);
        if state.power == 0 {
            return Ok(());
        }
        state.power -= 1;
        for buf in bufs {
            state.layer.write(at, buf);
            at += buf.len();
        }
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> Result<bool> {
        let at = self.start("discard", offset, usize::try_from(len).unwrap_or(usize::MAX));
        let mut state = self.state.lock();
        assert!(self.writable.load(Relaxed), "{} discarded from a read-only image at {offset}", state.what);
        if state.power > 0 {
            state.power -= 1;
            state.layer.write(at, &vec![0; usize::try_from(len).unwrap_or(usize::MAX)]);
        }
        Ok(true)
    }

    fn stats(&self) -> BlockStats {
        BlockStats::default()
    }
}
