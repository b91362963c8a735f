//! A process that is to have no part in the log any more: its rights are others than those of whoever has the pool.

use crate::client::Client;
use crate::error::Result;
use crate::format::{shared, slot};
use crate::look::Look;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

impl Client {
    /// Brings home what is in the log, since this process will write and sync unseen: afterwards no record is live that
    /// is older than this call. `open` are the files that the process has open, which nobody trusts again; `sync` syncs
    /// a device's file system, and answers whether it could.
    ///
    /// # Errors
    /// The medium's failure.
    pub fn bring_home(&self, open: impl Iterator<Item = Look>, mut sync: impl FnMut(u64) -> bool) -> Result<()> {
        for look in open {
            if let Some(key) = self.find(&look)? {
                self.log.slot(key.index).give_up()?;
            }
        }
        let mut live = Vec::new();
        for slot in self.log.slots() {
            // What the disk has refused no sync retires.
            if slot.is_live()? && !slot.has_failed()? {
                live.push((slot, slot.load(slot::NAMED)?, slot.load(slot::LAST)?));
            }
        }
        let mut synced = BTreeMap::new();
        for (slot, incarnation, last) in live {
            let dev = slot.load(slot::DEV)?;
            if *synced.entry(dev).or_insert_with(|| sync(dev)) {
                slot.retire(incarnation, last)?;
            }
        }
        Ok(())
    }

    /// Counts a program that is started without the library.
    pub fn unfit(&self) {
        // If the memory fails nobody says so.
        let _ = self.log.count(shared::UNFIT);
    }

    /// Lets go of the pool, which is mapped here no more. With `alone`, no other thread of this process is at it, and
    /// its lanes are for others.
    ///
    /// # Errors
    /// The medium's failure; it may be mapped still.
    pub fn leave(&self, alone: bool) -> Result<()> {
        let me = self.me.load(Relaxed);
        if alone && me >> 32 == u64::from(std::process::id()) {
            // If the memory fails others do without.
            let _ = self.log.lanes().try_for_each(|lane| lane.disown(me));
        }
        let _ = self.log.count(shared::LEFT);
        Ok(self.log.nvm.leave()?)
    }
}
