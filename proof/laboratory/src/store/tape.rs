//! A log on this machine, in memory: what happens to it is noted in a power domain.

use ondol_env::sync::Mutex;
use ondol_object_home::LogMedium;
use ondol_power::{Event, Layer, PowerDomain};
use std::io::{Error, ErrorKind, Result};
use std::sync::Arc;

/// As a file that `redo=` names.
#[derive(Debug)]
pub(super) struct Tape {
    bytes: Mutex<Vec<u8>>,
    domain: Option<Arc<PowerDomain>>,
}

/// Records begin at multiples of it, as in a file.
const UNIT: u64 = 4096;

/// Bytes before the ring.
const BEFORE: usize = 8192;

impl Tape {
    /// With a ring of so many bytes, that holds nothing.
    pub(super) fn zeros(ring: usize) -> Layer {
        Layer::new(vec![0; BEFORE + ring])
    }

    /// That holds what a layer does. Recorded as the first medium of `domain`.
    pub(super) fn of(layer: &Layer, domain: Option<Arc<PowerDomain>>) -> Arc<Self> {
        Arc::new(Self { bytes: Mutex::new(layer.to_bytes()), domain })
    }

    /// What it holds now.
    pub(super) fn layer(&self) -> Layer {
        Layer::new(self.bytes.lock().clone())
    }

    fn note(&self, event: impl FnOnce() -> Event) {
        if let Some(domain) = &self.domain {
            domain.push(event());
        }
    }
}

impl LogMedium for Tape {
    fn name(&self) -> &str {
        "the log on this machine"
    }

    fn size(&self) -> u64 {
        self.bytes.lock().len() as u64
    }

    fn unit(&self) -> u64 {
        UNIT
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let bytes = self.bytes.lock();
        let part = bytes.get(offset as usize..).and_then(|rest| rest.get(..buf.len()));
        buf.copy_from_slice(part.ok_or_else(|| Error::from(ErrorKind::UnexpectedEof))?);
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut all = self.bytes.lock();
        let part = all.get_mut(offset as usize..).and_then(|rest| rest.get_mut(..bytes.len()));
        part.ok_or_else(|| Error::from(ErrorKind::UnexpectedEof))?.copy_from_slice(bytes);
        drop(all);
        self.note(|| Event::Write { medium: 0, offset, bytes: bytes.into() });
        Ok(())
    }

    fn persist(&self) -> Result<()> {
        self.note(|| Event::Flush { medium: 0 });
        Ok(())
    }
}
