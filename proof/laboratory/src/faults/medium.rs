//! Media that fail together, as they are told.

use super::fault::{Fault, Kind, Tried};
use crate::log::{Log, SUPERBLOCK};
use ondol_block::{BlockError, BlockStats, BlockStore, Caps, LayerStore, Result as Done};
use ondol_env::sync::{Arc, Mutex};
use ondol_power::{Event, PowerDomain, UNIT};
use std::io::IoSlice;

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) tried: Tried,
    /// Something has failed.
    pub(super) failed: bool,
    /// A flush, or a write into the journal, has failed, after which nothing may be called durable.
    pub(super) stops: bool,
}

/// Recorded disks in memory that fail together, as they are told.
pub(super) struct Failures {
    pub(super) domain: Arc<PowerDomain>,
    pub(super) log: Log,
    pub(super) fault: Option<Fault>,
    /// A log in a pool keeps what home did not take, and may go on; what is called durable then, crashes judge.
    pub(super) outlives_flushes: bool,
    pub(super) state: Mutex<State>,
}

/// One of them.
pub(super) struct Failing {
    pub(super) inner: LayerStore,
    pub(super) medium: u32,
    pub(super) all: Arc<Failures>,
}

impl Failures {
    fn trips(&self, kind: Kind) -> bool {
        let mut state = self.state.lock();
        let [_, count] = state.tried.of(kind);
        let nth = *count;
        *count += 1;
        let fails = |f: &Fault| f.kind == kind && nth >= f.nth && nth - f.nth < f.times;
        let trips = self.fault.as_ref().is_some_and(fails);
        state.failed |= trips;
        trips
    }

    /// The volume is open: what is tried from now on counts by itself.
    pub(super) fn opened(&self) {
        let mut state = self.state.lock();
        for kind in [Kind::Read, Kind::Write, Kind::Flush] {
            let [opening, all] = state.tried.of(kind);
            *opening = *all;
        }
    }

    fn stop(&self) {
        self.state.lock().stops = true;
    }
}

impl Failing {
    fn error(op: &'static str, offset: u64, len: usize) -> BlockError {
        let source = std::io::Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error());
        BlockError::Io { op, name: "a failing medium".into(), offset, len: len as u64, source }
    }
}

impl BlockStore for Failing {
    fn name(&self) -> &str {
        "a failing medium"
    }

    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn caps(&self) -> Caps {
        self.inner.caps()
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Done<()> {
        if self.all.trips(Kind::Read) {
            return Err(Self::error("read", offset, buf.len()));
        }
        self.inner.read(offset, buf)
    }

    fn write_vectored(&self, offset: u64, bufs: &[IoSlice<'_>]) -> Done<()> {
        let bytes: Vec<u8> = bufs.iter().flat_map(|buf| buf.iter().copied()).collect();
        let end = offset + bytes.len() as u64;
        if !self.all.trips(Kind::Write) {
            self.inner.write(offset, &bytes)?;
            self.all.domain.push(Event::Write { medium: self.medium, offset, bytes: bytes.into() });
            return Ok(());
        }
        if self.caps().batch.is_some() {
            // It has not been taken in, and is nowhere.
            return Err(Self::error("write", offset, bytes.len()));
        }
        let is_of_log = self.all.log.meets(self.medium as usize, &(offset..end));
        if is_of_log {
            self.all.stop();
        }
        // Readers see half of every other one outside of the log, which a flush then makes durable.
        let is_whole = self.medium == 0 && offset < SUPERBLOCK.end && end > SUPERBLOCK.start;
        let is_seen = self.all.state.lock().tried.writes[1].is_multiple_of(2) && !is_whole && !is_of_log;
        let (seen, rest) = bytes.split_at(if is_seen { bytes.len() / 2 / UNIT * UNIT } else { 0 });
        if !seen.is_empty() {
            self.inner.write(offset, seen)?;
            self.all.domain.push(Event::Write { medium: self.medium, offset, bytes: seen.into() });
        }
        let from = offset + seen.len() as u64;
        self.all.domain.push(Event::WriteFailed { medium: self.medium, offset: from, bytes: rest.into() });
        Err(Self::error("write", offset, bytes.len()))
    }

    fn flush(&self) -> Done<()> {
        if self.all.trips(Kind::Flush) {
            if !self.all.outlives_flushes {
                self.all.stop();
            }
            self.all.domain.push(Event::FlushFailed { medium: self.medium });
            return Err(Self::error("flush", 0, 0));
        }
        self.all.domain.push(Event::Flush { medium: self.medium });
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> Done<bool> {
        if self.all.trips(Kind::Write) {
            return Err(Self::error("discard", offset, len as usize));
        }
        let done = self.inner.discard(offset, len)?;
        self.all.domain.push(Event::Discard { medium: self.medium, offset, len });
        Ok(done)
    }

    /// One that fails may be there or not.
    fn submit(&self, writes: &[(u64, &[u8])], discards: &[(u64, u64)]) -> Done<u64> {
        let trips = self.all.trips(Kind::Write);
        let is_seen = !trips || self.all.state.lock().tried.writes[1].is_multiple_of(2);
        let number = if is_seen { self.inner.submit(writes, discards)? } else { u64::MAX };
        self.all.domain.push(Event::batch(self.medium, number, writes, discards));
        if trips {
            self.all.stop();
            return Err(Self::error("submit", 0, writes.len()));
        }
        Ok(number)
    }

    fn settle(&self, number: u64) -> Done<()> {
        if self.all.trips(Kind::Flush) {
            self.all.stop();
            return Err(Self::error("settle", number, 0));
        }
        self.inner.settle(number)?;
        self.all.domain.push(Event::Settled { medium: self.medium, number });
        Ok(())
    }

    fn stats(&self) -> BlockStats {
        BlockStats::default()
    }
}
