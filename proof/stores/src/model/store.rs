//! A store that is as slow as a modelled device.

use super::{Device, Pace, Request};
use ondol_block::{BlockStats, BlockStore, Caps, Result};
use ondol_env::sync::atomic::{AtomicBool, Ordering};
use ondol_env::sync::{Arc, Mutex};
use std::io::IoSlice;

/// Passes requests on to `inner` and lets their senders wait as long as the device would take. Until
/// [`ModelStore::set_slow`], nobody waits.
pub struct ModelStore<S> {
    inner: S,
    device: Mutex<Device>,
    pace: Arc<dyn Pace>,
    slow: AtomicBool,
}

impl<S: BlockStore> ModelStore<S> {
    /// Puts `device` before `inner`.
    pub fn new(inner: S, device: Device, pace: Arc<dyn Pace>) -> Self {
        Self { inner, device: Mutex::new(device), pace, slow: AtomicBool::new(false) }
    }

    /// From now on requests take their time, or take none.
    pub fn set_slow(&self, slow: bool) {
        self.slow.store(slow, Ordering::SeqCst);
    }

    /// As [`Device::way`], while requests took their time.
    pub fn way(&self) -> Option<u64> {
        self.device.lock().way()
    }

    /// The store behind.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    fn wait(&self, request: Request) {
        if self.slow.load(Ordering::SeqCst) {
            let done = {
                let mut device = self.device.lock();
                device.serve(self.pace.now(), request)
            };
            self.pace.wait_until(done);
        }
    }
}

impl<S: BlockStore> BlockStore for ModelStore<S> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn caps(&self) -> Caps {
        Caps { swap: None, batch: None, ..self.inner.caps() }
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.inner.read(offset, buf)?;
        self.wait(Request::Read { offset, len: buf.len() as u64 });
        Ok(())
    }

    fn write_vectored(&self, offset: u64, bufs: &[IoSlice<'_>]) -> Result<()> {
        self.inner.write_vectored(offset, bufs)?;
        let len: usize = bufs.iter().map(|b| b.len()).sum();
        self.wait(Request::Write { offset, len: len as u64 });
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        self.inner.flush()?;
        self.wait(Request::Flush);
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> Result<bool> {
        self.inner.discard(offset, len)
    }

    fn stats(&self) -> BlockStats {
        self.inner.stats()
    }
}
