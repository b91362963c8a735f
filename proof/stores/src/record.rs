//! A recorder between a volume and its medium.

use ondol_block::{BlockStats, BlockStore, Caps, Result};
use ondol_env::sync::Arc;
use ondol_power::{Event, PowerDomain};
use std::io::IoSlice;

/// A store that passes everything on to `inner`, and records writes, discards, flushes and (for who asks) reads in a
/// power domain.
#[derive(Debug)]
pub struct Recorder<S> {
    inner: S,
    medium: u32,
    domain: Arc<PowerDomain>,
}

impl<S: BlockStore> Recorder<S> {
    /// Records `inner` as medium number `medium` of `domain`.
    pub fn new(inner: S, medium: u32, domain: Arc<PowerDomain>) -> Self {
        Self { inner, medium, domain }
    }

    /// The recorded store.
    pub fn inner(&self) -> &S {
        &self.inner
    }
}

impl<S: BlockStore> BlockStore for Recorder<S> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn size(&self) -> u64 {
        self.inner.size()
    }

    /// An exchange is no event: what can do one records its memory.
    fn caps(&self) -> Caps {
        Caps { swap: None, ..self.inner.caps() }
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.domain.note_read(self.medium, offset, buf.len() as u64);
        self.inner.read(offset, buf)
    }

    fn write_vectored(&self, offset: u64, bufs: &[IoSlice<'_>]) -> Result<()> {
        self.inner.write_vectored(offset, bufs)?;
        let bytes: Vec<u8> = bufs.iter().flat_map(|b| b.iter().copied()).collect();
        self.domain.push(Event::Write { medium: self.medium, offset, bytes: bytes.into() });
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        self.inner.flush()?;
        self.domain.push(Event::Flush { medium: self.medium });
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> Result<bool> {
        let done = self.inner.discard(offset, len)?;
        if done {
            self.domain.push(Event::Discard { medium: self.medium, offset, len });
        }
        Ok(done)
    }

    fn submit(&self, writes: &[(u64, &[u8])], discards: &[(u64, u64)]) -> Result<u64> {
        let number = self.inner.submit(writes, discards)?;
        self.domain.push(Event::batch(self.medium, number, writes, discards));
        Ok(number)
    }

    fn settle(&self, number: u64) -> Result<()> {
        self.inner.settle(number)?;
        self.domain.push(Event::Settled { medium: self.medium, number });
        Ok(())
    }

    fn stats(&self) -> BlockStats {
        self.inner.stats()
    }
}
