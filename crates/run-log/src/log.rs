//! What all processes of a run share: the two areas, mapped.

use crate::area::Places;
use crate::error::{Result, RunLogError};
use crate::format::{Header, LANE_WORDS, LANES_AT, shared, slot_at};
use crate::lane::Lane;
use crate::slot::Slot;
use ondol_medium::{Fenced, Nvm, Pool, Stored, inspect};
use std::sync::Arc;

/// The machine, for which an epoch of the log is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// The kernel's boot id: whether the page cache can be the same.
    pub boot: [u8; 16],
    /// Inode of the PID namespace: whether process numbers mean the same.
    pub namespace: u64,
}

impl LogOptions {
    /// This machine, now.
    pub fn here() -> Self {
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let digits: Vec<u8> = text.bytes().filter_map(|b| char::from(b).to_digit(16)).map(|d| d as u8).collect();
        let mut boot = [0; 16];
        boot.iter_mut().zip(digits.chunks_exact(2)).for_each(|(byte, pair)| *byte = pair[0] << 4 | pair[1]);
        Self { boot, namespace: Self::namespace_here() }
    }

    pub(crate) fn namespace_here() -> u64 {
        rustix::fs::stat("/proc/self/ns/pid").map_or(0, |stat| stat.st_ino)
    }
}

/// The log in a pool. Clones share it.
#[derive(Clone, Debug)]
pub struct Log {
    pub(crate) nvm: Arc<Nvm>,
    pub(crate) places: Places,
    pub(crate) header: Header,
    pub(crate) seal: u32,
}

/// A pool that nobody else uses.
#[derive(Debug)]
pub struct Opened {
    /// The log, as it was left.
    pub log: Log,
    /// It was never used.
    pub new: bool,
}

impl Log {
    /// The log in a pool that nobody else has open; it is made if there is none.
    ///
    /// # Errors
    /// `Small`, `Header`, or the medium's failure.
    pub fn prepare(pool: &mut Pool, here: &LogOptions) -> Result<Opened> {
        let places = Places::make(pool)?;
        let nvm = Arc::clone(pool.nvm());
        let header = match places.read(&nvm)? {
            Some(header) if !header.resetting => {
                let log = Self::new(nvm, places, header);
                // Whoever was killed may have stored words that are seen here and are not durable: that something is
                // retired, say.
                let mut batch = log.nvm.stored();
                batch.others(places.files, places.files_len)?;
                log.fence(batch)?;
                return Ok(Opened { log, new: false });
            }
            Some(header) => header,
            None => {
                let (lanes, slots, lane_len) = places.plan();
                let uuid = pool.header().uuid;
                Header {
                    uuid,
                    epoch: 1,
                    resetting: false,
                    lanes,
                    slots,
                    lane_len,
                    boot: here.boot,
                    namespace: here.namespace,
                }
            }
        };
        let header = Header { resetting: false, ..header };
        places.reset(&nvm, &header)?;
        Ok(Opened { log: Self::new(nvm, places, header), new: true })
    }

    /// The log in an opened medium with a pool, side by side with other processes. Changes nothing.
    ///
    /// # Errors
    /// `NoArea`, `Failed`, `Header`, what is wrong with the pool, or the medium's failure.
    pub fn join(nvm: Nvm) -> Result<Self> {
        let pool = inspect(&nvm)?.header(nvm.name(), nvm.size())?.clone();
        let places = Places::of(nvm.name(), &pool.areas)?;
        // A copy of a pool need not be on a medium of the same kind; nothing is stored to one that is only looked at.
        let nvm = if nvm.is_read_only() { nvm } else { nvm.with_domain(pool.domain)? };
        match places.read(&nvm)? {
            Some(header) if !header.resetting => {
                if nvm.shared().load_u64(places.files + shared::STOPPED)? != 0 {
                    return Err(RunLogError::Failed { pool: nvm.name().into() });
                }
                Ok(Self::new(Arc::new(nvm), places, header))
            }
            _ => Err(RunLogError::NoArea { pool: nvm.name().into() }),
        }
    }

    fn new(nvm: Arc<Nvm>, places: Places, header: Header) -> Self {
        let seal = header.seal();
        Self { nvm, places, header, seal }
    }

    /// Empties the log and begins the next epoch. The caller has seen that nothing in it is live, and that nobody else
    /// uses it.
    ///
    /// # Errors
    /// The medium's failure.
    pub fn reset(&mut self, here: &LogOptions) -> Result<()> {
        let epoch = self.header.epoch + 1;
        self.header = Header { epoch, boot: here.boot, namespace: here.namespace, ..self.header.clone() };
        self.places.reset(&self.nvm, &self.header)?;
        self.seal = self.header.seal();
        Ok(())
    }

    /// The medium.
    pub fn nvm(&self) -> &Arc<Nvm> {
        &self.nvm
    }

    /// The machine, and the boot, that this epoch began on.
    pub fn machine(&self) -> LogOptions {
        LogOptions { boot: self.header.boot, namespace: self.header.namespace }
    }

    /// How often the log was begun anew.
    pub fn epoch(&self) -> u64 {
        self.header.epoch
    }

    /// What names begin with that recovery gives: no other pool's are the same.
    pub(crate) fn mark(&self) -> String {
        let uuid: String = self.header.uuid.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        format!(".ondol-{uuid}-{}", self.header.epoch)
    }

    /// Bytes of all lanes.
    pub fn room(&self) -> u64 {
        self.header.lane_len * u64::from(self.header.lanes)
    }

    pub(crate) fn shared(&self, word: u64) -> u64 {
        self.places.files + word
    }

    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot<'_>> {
        (0..self.header.slots).map(|index| self.slot(index))
    }

    pub(crate) fn slot(&self, index: u32) -> Slot<'_> {
        Slot { log: self, index, at: self.places.files + slot_at(self.header.lanes, index) }
    }

    pub(crate) fn lanes(&self) -> impl Iterator<Item = Lane<'_>> {
        (0..self.header.lanes).map(|index| self.lane(index))
    }

    pub(crate) fn lane(&self, index: u32) -> Lane<'_> {
        let words = self.places.files + LANES_AT + u64::from(index) * LANE_WORDS;
        let ring = self.places.log + u64::from(index) * self.header.lane_len;
        Lane { log: self, index, words, ring }
    }

    /// A token that no other program of this epoch has.
    pub(crate) fn token(&self) -> Result<u64> {
        Ok(self.nvm.shared().fetch_add(self.shared(shared::TOKEN), 1)? & u64::from(u32::MAX))
    }

    /// Counts one more in a shared word.
    pub(crate) fn count(&self, word: u64) -> Result<()> {
        Ok(self.nvm.shared().fetch_add(self.shared(word), 1).map(drop)?)
    }

    /// Makes a batch durable. If that fails the pool has failed: the kernel tells those who have it open, and not who
    /// opens it later.
    pub(crate) fn fence<'n>(&self, batch: Stored<'n>) -> Result<Fenced<'n>> {
        batch.write_back().fence().or_else(|e| {
            self.stop()?;
            Err(e.into())
        })
    }

    /// The pool has failed: nobody joins it until its data is home.
    pub(crate) fn stop(&self) -> Result<()> {
        Ok(self.nvm.shared().store_u64(self.shared(shared::STOPPED), 1)?)
    }

    /// Nothing is left in the pool.
    pub(crate) fn go_on(&self) -> Result<()> {
        Ok(self.nvm.shared().store_u64(self.shared(shared::STOPPED), 0)?)
    }

    /// The next sequence number.
    pub(crate) fn sequence(&self) -> Result<u64> {
        Ok(self.nvm.shared().fetch_add(self.shared(shared::SEQUENCE), 1)?)
    }
}
