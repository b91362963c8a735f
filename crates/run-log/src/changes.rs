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
use crate::client::{Client, LONGEST_LOOK_NS, Tracked, wall_ns};
use crate::error::Result;
use crate::format::{RawTimes, RecordHead, SlotKey, slot};
use crate::look::{Look, Times};
use zerocopy::{FromZeros, IntoBytes};

impl Client {
    /// Cuts or extends a file to `len` bytes by `change`. In the log, if all of the file is there and this can be;
    /// otherwise as [`Client::unlogged`].
    ///
    /// # Errors
    /// The kernel's.
    pub fn truncate<C: Call>(
        &self,
        key: SlotKey,
        call: &C,
        len: u64,
        change: impl Fn() -> std::result::Result<(), C::Fail>,
    ) -> std::result::Result<(), C::Fail> {
        let file = self.tracked(key);
        let slot = &file.slot;
        let locked = self.me(call.process()).and_then(|me| Ok(slot.lock(me)?.map(|held| (me, held))));
        if let Some((me, _held)) = locked.ok().flatten() {
            let began = call.now_ns();
            let before = file.expected(call).filter(|_| file.fits(0));
            let note = || file.note_length(me, len).unwrap_or(false);
            // One that is longer brings nothing back.
            let ahead = |before: &Look| len >= before.size || note() && file.acknowledge().is_ok();
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
                return if kept { done } else { file.give_up(call).and(done) };
            }
        }
        self.unlogged(key, call, change)?
    }

    /// Sets a file's times by `change`, after which `times` reads them. In the log, if all of the file is there and
    /// this can be: a trusted file stays so. Otherwise live records that are not young go home first, as far as the
    /// kernel lets them: recovery knows a file by its times.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_times<C: Call>(
        &self,
        key: SlotKey,
        call: &C,
        change: impl FnOnce() -> std::result::Result<(), C::Fail>,
        times: impl FnOnce() -> Option<Times>,
    ) -> std::result::Result<(), C::Fail> {
        let file = self.tracked(key);
        let slot = &file.slot;
        if !slot.incarnation().is_ok_and(|now| now == key.incarnation) {
            return change();
        }
        let locked = self.me(call.process()).and_then(|me| Ok(slot.lock_once(me)?.map(|held| (me, held))));
        let locked = locked.ok().flatten();
        let began = call.now_ns();
        let before = locked.as_ref().and_then(|_| file.expected(call));
        let before = before.filter(|_| file.fits(size_of::<RawTimes>() as u64));
        let Some((before, (me, _held))) = before.zip(locked.as_ref()) else {
            file.times_are_unlogged(call);
            return change();
        };
        change()?;
        let after = call.look().ok().filter(|_| call.now_ns().saturating_sub(began) <= LONGEST_LOOK_NS);
        let after = after.filter(|after| *after == Look { ctime: after.ctime, mtime: after.mtime, ..before });
        let noted = after.zip(times()).map(|(after, times)| file.note_times(*me, &after, times));
        if !matches!(noted, Some(Ok(true))) {
            file.times_are_unlogged(call);
        }
        Ok(())
    }

    /// Runs a change after which the file is what it was, but for its ctime: a trusted one stays so. `change` says
    /// whether it is as it was.
    pub fn kept<C: Call>(&self, key: SlotKey, call: &C, change: impl FnOnce() -> bool) {
        let file = self.tracked(key);
        let slot = &file.slot;
        let held = self.me(call.process()).and_then(|me| slot.lock(me)).ok().flatten();
        let before = held.as_ref().and_then(|_| file.expected(call));
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
        key: SlotKey,
        call: &C,
        change: impl FnOnce() -> T,
    ) -> std::result::Result<T, C::Fail> {
        let file = self.tracked(key);
        let slot = &file.slot;
        let held = self.me(call.process()).and_then(|me| slot.lock(me)).ok().flatten();
        let same = slot.incarnation().is_ok_and(|now| now == key.incarnation);
        if same && slot.is_live().unwrap_or(true) {
            if held.is_none() {
                let _ = slot.give_up();
            }
            file.sync_for_real(call)?;
        }
        if same {
            let _ = slot.distrust();
        }
        let answer = change();
        drop(held);
        Ok(answer)
    }
}

impl Tracked<'_> {
    /// What a trusted file looks like, if it is as expected. The caller has the lock.
    fn expected<C: Call>(&self, call: &C) -> Option<Look> {
        let trusted = self.slot.is_trusted().ok()? && self.slot.incarnation().ok()? == self.incarnation;
        let expected = self.slot.expected().ok()?;
        call.look().ok().filter(|now| trusted && *now == expected)
    }

    /// Logs that a file has `len` bytes, or is about to: a record without bytes. That is durable before a file is cut:
    /// the kernel may commit it at any time, and what is cut off must not come back in part.
    fn note_length(&self, me: u64, len: u64) -> Result<bool> {
        // From now on it may be as short as this on the disk.
        self.slot.set(slot::BASE_SIZE, len.min(self.slot.load(slot::BASE_SIZE)?))?;
        let head = self.head(wall_ns())?;
        self.client.record(me, &[&self.slot], RecordHead { offset: len.into(), ..head }, 0, |show| show(&[]))
    }

    /// The head of a record of a file that has this ctime.
    pub(crate) fn head(&self, ctime: u64) -> Result<RecordHead> {
        Ok(RecordHead {
            incarnation: (self.incarnation as u32).into(),
            ctime: ctime.into(),
            base_time: self.slot.load(slot::BASE_TIME)?.into(),
            base_size: self.slot.load(slot::BASE_SIZE)?.into(),
            ..RecordHead::new_zeroed()
        })
    }

    /// The file is not trusted any more. Recovery would know it still if its newest record is young.
    fn times_are_unlogged<C: Call>(&self, call: &C) {
        // What the disk refuses the next sync says.
        let _ = if self.fits(0) { self.slot.distrust().is_ok() } else { self.give_up(call).is_ok() };
    }

    /// Logs times that a file was given. False if there is no room.
    fn note_times(&self, me: u64, after: &Look, times: Times) -> Result<bool> {
        let mut head = self.head(after.ctime)?;
        head.incarnation |= RecordHead::TIMES;
        let raw = RawTimes::from(times);
        let noted = self
            .client
            .record(me, &[&self.slot], head, size_of::<RawTimes>() as u64, |show| show(&[raw.as_bytes()]))?;
        Ok(noted && self.slot.expect(after).is_ok() && self.slot.is_trusted()?)
    }
}
