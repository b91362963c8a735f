//! Changes of a file that are no writes: truncations, times that it is given, and what leaves it as it is.
//!
//! - A truncation is a record, durable before the file is cut: the kernel may commit it at any time, and an older
//!   record that then brought back bytes behind the new end would make a file that never was. It is stored once more
//!   after the cut, since a sync between may have retired the first. What cannot be logged (fallocate(2), `fopen` with
//!   `w`, too) makes a real fsync first.
//! - Times are a record. If they cannot be logged, records that are not young go home first, and trust ends.
//! - chmod(2), chown(2), xattrs and flags change the ctime alone; recovery knows the file by its mtime. The next fsync
//!   is real, but for fchown(2) to the owner that the file has, as SQLite does as root.
//! - copy_file_range(2), splice(2), mapped and direct writes are not seen: the ctime tells.

use crate::call::Call;
use crate::client::{Client, LONGEST_LOOK_NS, wall_ns};
use crate::error::Result;
use crate::format::{RawTimes, RecordHead, SlotKey, slot};
use crate::look::{Look, Times};
use crate::slot::Slot;
use zerocopy::{FromZeros, IntoBytes};

impl Client {
    /// Cuts or extends a file to `len` bytes by `change`. In the log, if all of the file is there and this can be;
    /// otherwise as [`Client::unlogged`].
    ///
    /// # Errors
    /// The kernel's.
    pub fn truncate<C: Call>(
        &self,
        SlotKey { index, incarnation }: SlotKey,
        call: &C,
        len: u64,
        change: impl Fn() -> std::result::Result<(), C::Fail>,
    ) -> std::result::Result<(), C::Fail> {
        let slot = self.log.slot(index);
        let locked = self.me(call.process()).and_then(|me| Ok(slot.lock(me)?.map(|held| (me, held))));
        if let Some((me, _held)) = locked.ok().flatten() {
            let began = call.now_ns();
            let before = self.expected(&slot, incarnation, call).filter(|_| self.fits(&slot, incarnation, 0));
            let note = || self.note_length(me, &slot, incarnation, len).unwrap_or(false);
            // One that is longer brings nothing back.
            let ahead = |before: &Look| len >= before.size || note() && self.acknowledge(&slot, incarnation).is_ok();
            if let Some(before) = before.filter(|before| call.may_cut() && ahead(before)) {
                let begins = call.now_ns();
                let done = change();
                let ends = call.now_ns();
                // The change itself may wait for the kernel's journal, with the file locked.
                let away = |now: u64| begins.saturating_sub(began) + now.saturating_sub(ends);
                let after = call.look().ok().filter(|_| done.is_ok() && away(call.now_ns()) <= LONGEST_LOOK_NS);
                let as_expected =
                    |after: &Look| after.same(&before) && after.size == len && after.ctime >= before.ctime;
                // Once more: what was logged ahead may have been retired by a sync that came before the change.
                let kept = after.filter(as_expected).is_some_and(|after| note() && slot.expect(&after).is_ok());
                // Otherwise what was logged does not tell what the file is.
                return if kept { done } else { self.give_up(&slot, incarnation, call).and(done) };
            }
        }
        self.unlogged(SlotKey { index, incarnation }, call, change)?
    }

    /// What a trusted file looks like, if it is as expected. The caller has the lock.
    fn expected<C: Call>(&self, slot: &Slot<'_>, incarnation: u64, call: &C) -> Option<Look> {
        let trusted = slot.is_trusted().ok()? && slot.incarnation().ok()? == incarnation;
        let expected = slot.expected().ok()?;
        call.look().ok().filter(|now| trusted && *now == expected)
    }

    /// Logs that a file has `len` bytes, or is about to: a record without bytes. That is durable before a file is cut:
    /// the kernel may commit it at any time, and what is cut off must not come back in part.
    fn note_length(&self, me: u64, slot: &Slot<'_>, incarnation: u64, len: u64) -> Result<bool> {
        // From now on it may be as short as this on the disk.
        slot.set(slot::BASE_SIZE, len.min(slot.load(slot::BASE_SIZE)?))?;
        let head = Self::head(slot, incarnation, wall_ns())?;
        self.record(me, &[slot], RecordHead { offset: len.into(), ..head }, 0, |show| show(&[]))
    }

    /// The head of a record of a file that has this ctime.
    pub(crate) fn head(slot: &Slot<'_>, incarnation: u64, ctime: u64) -> Result<RecordHead> {
        Ok(RecordHead {
            incarnation: (incarnation as u32).into(),
            ctime: ctime.into(),
            base_time: slot.load(slot::BASE_TIME)?.into(),
            base_size: slot.load(slot::BASE_SIZE)?.into(),
            ..RecordHead::new_zeroed()
        })
    }

    /// Sets a file's times by `change`, after which `times` reads them. In the log, if all of the file is there and
    /// this can be: a trusted file stays so. Otherwise live records that are not young go home first, as far as the
    /// kernel lets them: recovery knows a file by its times.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_times<C: Call>(
        &self,
        SlotKey { index, incarnation }: SlotKey,
        call: &C,
        change: impl FnOnce() -> std::result::Result<(), C::Fail>,
        times: impl FnOnce() -> Option<Times>,
    ) -> std::result::Result<(), C::Fail> {
        let slot = self.log.slot(index);
        if !slot.incarnation().is_ok_and(|now| now == incarnation) {
            return change();
        }
        let locked = self.me(call.process()).and_then(|me| Ok(slot.lock_once(me)?.map(|held| (me, held))));
        let locked = locked.ok().flatten();
        let began = call.now_ns();
        let before = locked.as_ref().and_then(|_| self.expected(&slot, incarnation, call));
        let before = before.filter(|_| self.fits(&slot, incarnation, size_of::<RawTimes>() as u64));
        let Some((before, (me, _held))) = before.zip(locked.as_ref()) else {
            self.times_are_unlogged(&slot, incarnation, call);
            return change();
        };
        change()?;
        let after = call.look().ok().filter(|_| call.now_ns().saturating_sub(began) <= LONGEST_LOOK_NS);
        let after = after.filter(|after| *after == Look { ctime: after.ctime, mtime: after.mtime, ..before });
        let noted = after.zip(times()).map(|(after, times)| self.note_times(*me, &slot, incarnation, &after, times));
        if !matches!(noted, Some(Ok(true))) {
            self.times_are_unlogged(&slot, incarnation, call);
        }
        Ok(())
    }

    /// The file is not trusted any more. Recovery would know it still if its newest record is young.
    fn times_are_unlogged<C: Call>(&self, slot: &Slot<'_>, incarnation: u64, call: &C) {
        // What the disk refuses the next sync says.
        let _ = if self.fits(slot, incarnation, 0) {
            slot.distrust().is_ok()
        } else {
            self.give_up(slot, incarnation, call).is_ok()
        };
    }

    /// Logs times that a file was given. False if there is no room.
    fn note_times(&self, me: u64, slot: &Slot<'_>, incarnation: u64, after: &Look, times: Times) -> Result<bool> {
        let mut head = Self::head(slot, incarnation, after.ctime)?;
        head.incarnation |= RecordHead::TIMES;
        let raw = RawTimes::from(times);
        let noted = self.record(me, &[slot], head, size_of::<RawTimes>() as u64, |show| show(&[raw.as_bytes()]))?;
        Ok(noted && slot.expect(after).is_ok() && slot.is_trusted()?)
    }

    /// Runs a change after which the file is what it was, but for its ctime: a trusted one stays so. `change` says
    /// whether it is as it was.
    pub fn kept<C: Call>(&self, SlotKey { index, incarnation }: SlotKey, call: &C, change: impl FnOnce() -> bool) {
        let slot = self.log.slot(index);
        let held = self.me(call.process()).and_then(|me| slot.lock(me)).ok().flatten();
        let before = held.as_ref().and_then(|_| self.expected(&slot, incarnation, call));
        let began = call.now_ns();
        let unchanged = change();
        let soon = call.now_ns().saturating_sub(began) <= LONGEST_LOOK_NS;
        if let (true, true, Some(before), Ok(after)) = (unchanged, soon, before, call.look())
            && after == (Look { ctime: after.ctime, ..before })
        {
            // If the memory fails nothing is trusted anyway.
            let _ = slot.expect(&after);
        }
    }

    /// Runs a change that is not logged and that live records must not outlive, a truncation: they go home first, and
    /// no write comes between.
    ///
    /// # Errors
    /// The kernel's refusal to sync; the change is not made then.
    pub fn unlogged<C: Call, T>(
        &self,
        SlotKey { index, incarnation }: SlotKey,
        call: &C,
        change: impl FnOnce() -> T,
    ) -> std::result::Result<T, C::Fail> {
        let slot = self.log.slot(index);
        let held = self.me(call.process()).and_then(|me| slot.lock(me)).ok().flatten();
        let same = slot.incarnation().is_ok_and(|now| now == incarnation);
        if same && slot.is_live().unwrap_or(true) {
            if held.is_none() {
                let _ = slot.give_up();
            }
            self.sync_for_real(&slot, incarnation, call)?;
        }
        if same {
            let _ = slot.distrust();
        }
        let answer = change();
        drop(held);
        Ok(answer)
    }
}
