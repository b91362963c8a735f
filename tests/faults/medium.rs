//! A medium that fails at a chosen transfer, and what is left on it.

use ondol_block::{BlockError, BlockStats, BlockStore, Caps, Result};
use ondol_env::sync::Mutex;
use ondol_power::Layer;
use std::io::IoSlice;
use std::ops::Range;

/// The kinds of transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    Flush,
}

/// The `nth` transfer of this kind fails with EIO, counted from 0; and all later ones, unless it is `once`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    pub(crate) nth: u64,
    pub(crate) once: bool,
}

/// Transfers that were tried.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tried {
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) flushes: u64,
}

/// What is behind the trait.
struct State {
    fault: Option<Fault>,
    tried: Tried,
    /// What readers see.
    seen: Layer,
    /// What a power cut leaves at worst.
    durable: Layer,
    /// Written since the last flush. A failed flush loses them for good: that is what Linux does.
    pending: Vec<(usize, Vec<u8>)>,
    /// Something has failed.
    failed: bool,
    /// A flush, or a write into the journal, has failed.
    stops: bool,
}

/// A medium in memory that fails as it is told.
pub(crate) struct Medium {
    size: u64,
    journal: Vec<Range<u64>>,
    state: Mutex<State>,
}

/// Bytes of ext4's superblock, which arrive together or not at all.
const SUPERBLOCK: Range<u64> = 1024..2048;

/// What is not torn, in bytes.
const SECTOR: usize = 512;

impl Medium {
    /// Begins with `layer`; the journal lies in these bytes.
    pub(crate) fn new(layer: &Layer, journal: Vec<Range<u64>>, fault: Option<Fault>) -> Self {
        let (seen, durable) = (layer.clone(), layer.clone());
        let state =
            State { fault, tried: Tried::default(), seen, durable, pending: Vec::new(), failed: false, stops: false };
        Self { size: layer.len() as u64, journal, state: Mutex::new(state) }
    }

    pub(crate) fn tried(&self) -> Tried {
        self.state.lock().tried
    }

    /// Whether anything has failed so far.
    pub(crate) fn failed(&self) -> bool {
        self.state.lock().failed
    }

    /// Whether something has failed after which nothing may be promised any more.
    pub(crate) fn stops(&self) -> bool {
        self.state.lock().stops
    }

    /// Everything that was accepted; and the same without what was never made durable.
    pub(crate) fn left(&self) -> [Layer; 2] {
        let state = self.state.lock();
        [state.seen.clone(), state.durable.clone()]
    }

    fn error(op: &'static str, offset: u64, len: usize) -> BlockError {
        let source = std::io::Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error());
        BlockError::Io { op, name: "a failing medium".into(), offset, len: len as u64, source }
    }
}

impl State {
    /// Whether the next transfer of this kind fails.
    fn trips(&mut self, kind: Kind) -> bool {
        let count = match kind {
            Kind::Read => &mut self.tried.reads,
            Kind::Write => &mut self.tried.writes,
            Kind::Flush => &mut self.tried.flushes,
        };
        *count += 1;
        let nth = *count - 1;
        let trips = self.fault.is_some_and(|f| f.kind == kind && if f.once { nth == f.nth } else { nth >= f.nth });
        self.failed |= trips;
        trips
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        self.seen.write(at, bytes);
        self.pending.push((at, bytes.to_vec()));
    }
}

impl BlockStore for Medium {
    fn name(&self) -> &str {
        "a failing medium"
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn caps(&self) -> Caps {
        Caps { atomic_unit: 512, durable_flush: true, byte_addressable: false, swap: false, read_only: false }
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        assert!(offset + buf.len() as u64 <= self.size, "a read outside the medium");
        let mut state = self.state.lock();
        if state.trips(Kind::Read) {
            return Err(Self::error("read", offset, buf.len()));
        }
        state.seen.read(offset as usize, buf);
        Ok(())
    }

    fn write_vectored(&self, offset: u64, bufs: &[IoSlice<'_>]) -> Result<()> {
        let bytes: Vec<u8> = bufs.iter().flat_map(|buf| buf.iter().copied()).collect();
        let end = offset + bytes.len() as u64;
        assert!(end <= self.size, "a write outside the medium");
        let mut state = self.state.lock();
        if !state.trips(Kind::Write) {
            state.write(offset as usize, &bytes);
            return Ok(());
        }
        state.stops |= self.journal.iter().any(|range| offset < range.end && end > range.start);
        // Every other failed write has got half of it done.
        let half = bytes.len() / 2 / SECTOR * SECTOR;
        let is_whole = offset < SUPERBLOCK.end && end > SUPERBLOCK.start;
        if state.tried.writes.is_multiple_of(2) && !is_whole {
            state.write(offset as usize, &bytes[..half]);
        }
        Err(Self::error("write", offset, bytes.len()))
    }

    fn flush(&self) -> Result<()> {
        let mut state = self.state.lock();
        let fails = state.trips(Kind::Flush);
        let pending = std::mem::take(&mut state.pending);
        if fails {
            state.stops = true;
            return Err(Self::error("flush", 0, 0));
        }
        pending.iter().for_each(|(at, bytes)| state.durable.write(*at, bytes));
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> Result<bool> {
        assert!(offset + len <= self.size, "a discard outside the medium");
        let mut state = self.state.lock();
        if state.trips(Kind::Write) {
            return Err(Self::error("discard", offset, len as usize));
        }
        state.write(offset as usize, &vec![0; len as usize]);
        Ok(true)
    }

    fn stats(&self) -> BlockStats {
        BlockStats::default()
    }
}
