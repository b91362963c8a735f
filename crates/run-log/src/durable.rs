//! Writes that are durable when they return, and what syncs past the log.
//!
//! A program that writes with `O_SYNC` never calls fsync, so such a write may begin trust, by a real fsync under the
//! lock. The first one to a file never tries. Each try is followed by a pause twice as long as the last (0, 1, 3, up to
//! 255 durable writes); each durable write that ends in the log shortens it. None tries while the lane is half full.
//!
//! What syncs past the log (sync(2), msync(2) and their kin) makes the whole log durable before: else, of two writes to
//! one place, the older could be durable in the log and the newer not, and recovery would put the older over the newer.

use crate::call::{Call, WriteCall, Written};
use crate::client::{Client, Tracked};
use crate::error::Result;
use crate::format::{SlotKey, slot};

impl Client {
    /// A write is over whose file had no slot that counted when it began, and has one now. The file's next sync is
    /// real, and no older record outlives what the write has promised.
    ///
    /// # Errors
    /// The kernel's.
    pub fn appeared<C: WriteCall>(
        &self,
        key: SlotKey,
        call: &C,
        answer: std::result::Result<usize, C::Fail>,
    ) -> std::result::Result<usize, C::Fail> {
        // If the memory fails nothing is trusted anyway.
        let _ = self.unseen(key);
        self.tracked(key).promised(call, answer)
    }

    /// Makes durable what was written to the file, if all of it is in the log: true then. Nothing is synced for real
    /// otherwise.
    pub fn sync_logged<C: Call>(&self, key: SlotKey, call: &C) -> bool {
        let file = self.tracked(key);
        let slot = &file.slot;
        if !slot.is_trusted().unwrap_or(false) {
            return false;
        }
        let Some(_held) = self.me(call.process()).and_then(|me| slot.lock(me)).ok().flatten() else { return false };
        file.logged_all(call)
    }

    /// A sync by whoever may not wait for locks, and allocates nothing: a signal handler that came while its thread had
    /// some. Durable when it returns.
    ///
    /// # Errors
    /// The kernel's.
    pub fn sync_at_once<C: Call>(&self, key: SlotKey, call: &C) -> std::result::Result<(), C::Fail> {
        self.tracked(key).sync_and_retire(call)
    }

    /// A write by such a one, unseen: the file is not trusted any more, and what the write has promised is synced.
    ///
    /// # Errors
    /// The kernel's.
    pub fn write_at_once<C: WriteCall>(&self, key: SlotKey, call: &C) -> std::result::Result<usize, C::Fail> {
        let file = self.tracked(key);
        if !file.is_still(call) {
            return call.write();
        }
        // If the memory fails nothing is trusted anyway.
        let _ = self.map(key);
        let wrote = file.told(call, call.write())?;
        if wrote > 0 && call.durable() {
            self.sync_at_once(key, call)?;
        }
        Ok(wrote)
    }

    /// Makes durable what is in the log, of all files. Whoever syncs for real what this log does not see synced
    /// (sync(2), msync(2)) does it before: afterwards an older record that is durable must not be all that recovery
    /// finds.
    ///
    /// # Errors
    /// The medium's failure.
    pub fn persist(&self) -> Result<()> {
        self.log.lanes().try_for_each(|lane| lane.persist(lane.tail()?))
    }
}

impl Tracked<'_> {
    /// The file is not trusted, and a durable write is to try whether it can be.
    pub(crate) fn begins<C: WriteCall>(&self, call: &C) -> Result<bool> {
        if !call.may_be_durable() || !self.slot.may_trust()? || !call.durable() {
            return Ok(false);
        }
        let pause = self.slot.load(slot::PAUSE)?;
        if pause > 0 {
            self.slot.set(slot::PAUSE, pause - 1)?;
            return Ok(false);
        }
        if !call.lazy() {
            return Ok(false);
        }
        // Where there is no room trust would be lost at once.
        Ok(self.client.lane(self.client.me(call.process())?, self.client.log.header.lane_len / 2)?.is_some())
    }

    /// A durable write to a file that is not trusted, and a sync for real behind it, which may begin trust. The caller
    /// has the lock, so others with such writes wait and are not in the way.
    pub(crate) fn begin<C: WriteCall>(&self, call: &C) -> std::result::Result<Written<usize>, C::Fail> {
        call.look()?;
        if !self.is_still(call) {
            return Ok(Written::Stale);
        }
        let wrote = self.told(call, call.write())?;
        if wrote > 0 {
            self.sync_for_real(call)?;
            // If the memory fails nothing is trusted anyway.
            let _ = self.slot.tried();
        }
        Ok(Written::Done(wrote))
    }

    /// What a write past the log has done. If the kernel has promised it, no older record may come back over it; nor
    /// may the file be written to for long while records are live, which recovery would take for somebody else's doing.
    pub(crate) fn promised<C: WriteCall>(
        &self,
        call: &C,
        answer: std::result::Result<usize, C::Fail>,
    ) -> std::result::Result<usize, C::Fail> {
        let wrote = self.told(call, answer)?;
        // Trust may have been taken away with records left: by a mapping, or from somebody that is gone.
        if wrote > 0 && self.slot.is_live().unwrap_or(true) {
            if call.durable() {
                self.sync_and_retire(call)?;
            } else if !self.fits(0) && self.is_of(call) && !self.slot.has_failed().unwrap_or(true) {
                // What the disk refuses the next sync will say.
                let _ = self.sync_and_retire(call);
            }
        }
        Ok(wrote)
    }

    /// Syncs for real without the file's lock, and retires what was logged before.
    pub(crate) fn sync_and_retire<C: Call>(&self, call: &C) -> std::result::Result<(), C::Fail> {
        let last = self.slot.load(slot::LAST);
        self.sync_file(call)?;
        if let (Ok(last), Ok(look), Ok(key)) = (last, call.look(), self.slot.key())
            && key == [look.dev, look.ino, look.birth]
        {
            // If the memory fails nothing is trusted anyway.
            let _ = self.slot.retire(self.incarnation, last);
        }
        Ok(())
    }

    /// Syncs the file for real. What the disk refuses, now or before, stays in the log: the kernel says it once, and a
    /// sync that succeeds after that proves nothing.
    pub(crate) fn sync_file<C: Call>(&self, call: &C) -> std::result::Result<(), C::Fail> {
        call.sync().inspect_err(|e| self.refused(call, call.refuses_sync(e)))?;
        let failed = self.slot.has_failed().unwrap_or(false) && self.is_still(call);
        if failed { Err(call.refused()) } else { Ok(()) }
    }

    /// What the kernel has answered to a write: it may have told that the disk refuses what was written before.
    pub(crate) fn told<C: WriteCall>(
        &self,
        call: &C,
        answer: std::result::Result<usize, C::Fail>,
    ) -> std::result::Result<usize, C::Fail> {
        answer.inspect_err(|e| self.refused(call, call.refuses_write(e)))
    }

    /// Notes that the disk has refused what is in the log, if it has.
    fn refused<C: Call>(&self, call: &C, by_disk: bool) {
        if by_disk && self.slot.is_live().unwrap_or(true) && self.is_still(call) {
            // If the memory fails nothing is trusted anyway.
            let _ = self.slot.fail(self.incarnation);
        }
    }
}
