//! Changes of names: what a program makes, removes, renames and links in a directory whose changes are all in the log.
//!
//! A directory is trusted as a file is: its ctime tells whether anybody else has changed it. Its lock comes before that of a file.

use crate::call::Written;
use crate::client::{Client, LONGEST_LOOK_NS};
use crate::error::Result;
use crate::format::{RecordHead, slot};
use crate::lock::Held;
use crate::look::{FileKind, Identity, Look, Subject};
use crate::name_record::{Change, Names};
use crate::slot::Slot;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use zerocopy::FromZeros;

/// A program's change of names in one directory, and how it is done.
pub trait NameCall {
    /// Why the kernel refuses.
    type Fail;

    /// The number of the process that calls: another one after fork(2).
    fn process(&self) -> u32 {
        std::process::id()
    }

    /// Monotonic time, nanoseconds.
    fn now_ns(&self) -> u64;

    /// Which names.
    fn names(&self) -> &Names;

    /// Looks at the directory.
    ///
    /// # Errors
    /// The kernel's.
    fn look(&self) -> std::result::Result<Look, Self::Fail>;

    /// The file that is made, removed, renamed or linked, by the name that it has now: `done` says whether the change is over. None if there is none.
    fn subject(&self, done: bool) -> Option<Subject>;

    /// What has the new name of a rename before it.
    fn replaced(&self) -> Option<Subject>;

    /// Does it.
    ///
    /// # Errors
    /// The kernel's.
    fn run(&self) -> std::result::Result<(), Self::Fail>;
}

/// A directory whose lock is held.
struct Dir<'c> {
    slot: Slot<'c>,
    incarnation: u64,
    me: u64,
}

/// A file with a slot whose names change, locked.
struct Known<'s> {
    slot: Slot<'s>,
    incarnation: u64,
    _held: Held<'s>,
}

impl Client {
    /// The slot of a trusted file or directory: all its changes are in the log. It may be another one's by the time it is locked, which is seen then.
    ///
    /// # Errors
    /// The medium's failure.
    pub fn trusted(&self, look: &Look) -> Result<Option<(u32, u64)>> {
        let Some((index, incarnation)) = self.find(look)? else { return Ok(None) };
        Ok(self.log.slot(index).is_trusted()?.then_some((index, incarnation)))
    }

    /// A file that is new in a directory was synced for real: whether the directory is to be synced, too, so that its names are logged from then on.
    ///
    /// # Errors
    /// The medium's failure.
    pub fn wants_names(&self, (index, incarnation): (u32, u64)) -> Result<bool> {
        let slot = self.log.slot(index);
        if slot.incarnation()? != incarnation || !slot.may_trust()? {
            return Ok(false);
        }
        match slot.load(slot::PAUSE)? {
            0 => slot.tried().map(|()| true),
            pause => slot.set(slot::PAUSE, pause - 1).map(|()| false),
        }
    }

    /// Names in the directory in a slot are about to be changed past the log.
    ///
    /// # Errors
    /// The medium's failure.
    pub fn unlogged_names(&self, (index, incarnation): (u32, u64)) -> Result<()> {
        let slot = self.log.slot(index);
        if slot.incarnation()? == incarnation { slot.distrust() } else { Ok(()) }
    }

    /// Changes names in the directory in a slot, as the kernel does it, and logs that. A file that is made is trusted from birth. `Stale`: nothing was done, and the caller is to do it past the log.
    ///
    /// # Errors
    /// The kernel's.
    pub fn change_names<C: NameCall>(
        &self,
        (index, incarnation): (u32, u64),
        call: &C,
    ) -> std::result::Result<Written<()>, C::Fail> {
        let slot = self.log.slot(index);
        let locked = self.me(call.process()).and_then(|me| Ok(slot.lock(me)?.map(|held| (me, held))));
        let Some((me, _held)) = locked.ok().flatten() else {
            // Whoever has it must not take what this does for its own.
            let _ = slot.distrust();
            return Ok(Written::Stale);
        };
        let dir = Dir { slot, incarnation, me };
        let began = call.now_ns();
        let Some(before) = self.expected_dir(&dir, call) else { return Ok(Written::Stale) };
        let change = call.names().change;
        let (subject, replaced, known) = match change {
            Change::Create => (None, None, [None, None]),
            _ => {
                // The kernel will say that there is nothing.
                let Some(subject) = call.subject(false) else { return Ok(Written::Stale) };
                let replaced = if change == Change::Rename { call.replaced() } else { None };
                let Some(known) = self.known(&dir, call, (&subject, replaced.as_ref())) else {
                    let _ = dir.slot.distrust();
                    return Ok(Written::Stale);
                };
                (Some(subject), replaced, known)
            }
        };
        let begins = call.now_ns();
        call.run()?;
        let ends = call.now_ns();
        // The change itself may wait for the kernel's journal, with the directory locked.
        let away = |now: u64| begins.saturating_sub(began) + now.saturating_sub(ends);
        let after = call.look().ok().filter(|_| away(call.now_ns()) <= LONGEST_LOOK_NS);
        let subject = if change == Change::Create { call.subject(true) } else { subject };
        let noted = match (after, subject) {
            (Some(after), Some(subject)) => {
                let made = Made { names: call.names(), subject, replaced, before, after };
                self.note_names(&dir, &made).unwrap_or(None)
            }
            _ => None,
        };
        if noted.is_none() {
            let _ = dir.slot.distrust();
        }
        // If the memory fails nothing is trusted anyway.
        let _ = self.follow(change, &known, noted, || call.subject(true));
        Ok(Written::Done(()))
    }

    /// What a trusted directory looks like, if it is as expected and the next change can be logged.
    fn expected_dir<C: NameCall>(&self, dir: &Dir<'_>, call: &C) -> Option<Look> {
        let slot = &dir.slot;
        let trusted = slot.is_trusted().ok()? && slot.incarnation().ok()? == dir.incarnation;
        if !trusted {
            return None;
        }
        let before = call.look().ok()?;
        let fits = slot.expected().is_ok_and(|expected| expected == before) && self.fits(slot, dir.incarnation, 0);
        if !fits {
            let _ = slot.distrust();
        }
        fits.then_some(before)
    }

    /// Locks what has a slot of the files whose names are to change: the one that gets another name or loses its last, and the one that is replaced. None if such a change is not logged: only trusted files get
    /// other names, their contents durable before, and only the last name of a file is taken from it, since nobody knows where its others are.
    fn known<'s, C: NameCall>(
        &'s self,
        dir: &Dir<'_>,
        call: &C,
        (subject, replaced): (&Subject, Option<&Subject>),
    ) -> Option<[Option<Known<'s>>; 2]> {
        let change = call.names().change;
        if [Some(subject), replaced].into_iter().flatten().any(|file| file.look.kind != FileKind::File) {
            return None;
        }
        let first = self.lock_known(dir.me, subject, Slot::lock)?;
        // Whoever else links or removes it, and is seen, waits.
        let now = call.subject(false)?;
        let second = replaced.map(|replaced| self.lock_known(dir.me, replaced, Slot::try_lock));
        let gone = if change == Change::Remove { Some(&now) } else { replaced };
        let last = gone.is_none_or(|gone| gone.links == 1);
        let carried = match (change, &first) {
            (Change::Remove, _) => true,
            (_, Some(file)) => {
                file.slot.is_trusted().ok()?
                    && file.slot.expected().ok()? == now.look
                    && self.acknowledge(&file.slot, file.incarnation).is_ok()
            }
            (_, None) => false,
        };
        let second = second.unwrap_or(Some(None))?;
        // One that lost another name past the log may be there again under that one.
        let (gone, known) = if change == Change::Remove { (Some(&now), &first) } else { (replaced, &second) };
        if let (Some(gone), Some(known)) = (gone, known)
            && known.slot.is_live().ok()?
            && !(known.slot.is_trusted().ok()? && known.slot.expected().ok()? == gone.look)
        {
            return None;
        }
        (last && carried && now.look.same(&subject.look)).then_some([first, second])
    }

    /// Locks the slot of a file, if it has one; none if that cannot be had. The second file is only tried, since two are locked here in any order.
    fn lock_known<'s>(
        &'s self,
        me: u64,
        file: &Subject,
        lock: impl FnOnce(&Slot<'s>, u64) -> Result<Option<Held<'s>>>,
    ) -> Option<Option<Known<'s>>> {
        let Some((index, incarnation)) = self.find(&file.look).ok()? else { return Some(None) };
        let slot = self.log.slot(index);
        let held = lock(&slot, me).ok()??;
        let same = slot.incarnation().ok()? == incarnation;
        same.then_some(Some(Known { slot, incarnation, _held: held }))
    }

    /// What a change of names does to the files: the one with another name has another ctime by that alone; one without a name is nobody's.
    fn follow(
        &self,
        change: Change,
        [file, replaced]: &[Option<Known<'_>>; 2],
        noted: Option<Logged>,
        now: impl FnOnce() -> Option<Subject>,
    ) -> Result<()> {
        let gone = if change == Change::Remove { file } else { replaced };
        if let (Some(known), Some(logged)) = (gone, noted) {
            self.forget(known, logged)?;
        }
        let Some(known) = file.as_ref().filter(|_| change != Change::Remove) else { return Ok(()) };
        let before = known.slot.expected()?;
        match (now(), noted) {
            (Some(Subject { look, .. }), Some(logged)) if look == (Look { ctime: look.ctime, ..before }) => {
                known.slot.expect(&look)?;
                logged.is_name_of(&known.slot)
            }
            _ => known.slot.distrust(),
        }
    }

    /// Logs a change. Answers where its record ends; none if the directory is not what that change alone makes of it, or if there is no room.
    fn note_names(&self, dir: &Dir<'_>, made: &Made<'_>) -> Result<Option<Logged>> {
        let Made { names, subject, replaced, before, after } = made;
        if !after.same(before) || after.ctime <= before.ctime || after.mtime != after.ctime {
            return Ok(None);
        }
        let born = if names.change == Change::Create { self.prepare_born(dir, names, subject)? } else { None };
        let payload = names.encode(subject, replaced.as_ref());
        let head = RecordHead {
            incarnation: (dir.incarnation as u32).into(),
            mtime: after.ctime.into(),
            ..RecordHead::new_zeroed()
        };
        if !self.record(dir.me, &dir.slot, head, payload.len() as u64, |show| show(&[&payload]))? {
            return Ok(None);
        }
        dir.slot.expect(after)?;
        dir.slot.served()?;
        let logged = Logged { lane: dir.slot.load(slot::LAST_LANE)?, end: dir.slot.load(slot::LAST_END)? };
        if let Some((slot, incarnation)) = born {
            self.begin_born(dir.me, &self.log.slot(slot), incarnation, subject, logged)?;
        }
        Ok(Some(logged))
    }

    /// Gives a slot to a file that was made, and writes down which it is.
    fn prepare_born(&self, dir: &Dir<'_>, names: &Names, subject: &Subject) -> Result<Option<(u32, u64)>> {
        if subject.look.kind != FileKind::File || subject.look.size != 0 || subject.links != 1 {
            return Ok(None);
        }
        let Some((_, _, of_dir)) = dir.slot.identity()? else { return Ok(None) };
        let Some((index, incarnation)) = self.slot(&subject.look)? else { return Ok(None) };
        let path = of_dir.path.join(OsStr::from_bytes(&names.name));
        let (ino, handle) = (subject.look.ino, subject.handle.clone());
        let identity = Identity { fsid: of_dir.fsid, ino, kind: FileKind::File, handle, path };
        let slot = self.log.slot(index);
        let Some(_held) = slot.try_lock(dir.me)? else { return Ok(None) };
        // Somebody else may have opened and synced it already.
        let fresh = slot.incarnation()? == incarnation && slot.load(slot::NAMED)? != incarnation;
        Ok((fresh && slot.name(incarnation, &subject.look, &identity)?).then_some((index, incarnation)))
    }

    /// The record that a file was made is stored: from now on its writes are logged.
    fn begin_born(&self, me: u64, slot: &Slot<'_>, incarnation: u64, subject: &Subject, logged: Logged) -> Result<()> {
        let Some(_held) = slot.lock(me)? else { return Ok(()) };
        if slot.incarnation()? != incarnation || slot.is_trusted()? {
            return Ok(());
        }
        slot.expect(&subject.look)?;
        slot.set(slot::BASE_MTIME, subject.look.mtime)?;
        slot.set(slot::BASE_SIZE, 0)?;
        logged.is_name_of(slot)?;
        slot.trust().map(drop)
    }

    /// A file has lost its last name: once that is durable, nobody wants its records.
    fn forget(&self, known: &Known<'_>, logged: Logged) -> Result<()> {
        let Known { slot, incarnation, .. } = known;
        if slot.is_live()? {
            self.log.lane(logged.lane as u32).persist(logged.end)?;
            slot.retire(*incarnation, slot.load(slot::LAST)?)?;
        }
        slot.free()
    }

    /// Gives a file one more name past the log, by `change`: nobody who is seen takes its names away meanwhile.
    ///
    /// # Errors
    /// The medium's failure; the change was not made then.
    pub fn unlogged_link<T>(&self, look: &Look, change: impl FnOnce() -> T) -> Result<T> {
        let slot = self.find(look)?.map(|(index, _)| self.log.slot(index));
        let me = self.me(std::process::id())?;
        let _held = match &slot {
            Some(slot) => slot.lock(me)?,
            None => None,
        };
        Ok(change())
    }
}

/// A change that the kernel has made.
struct Made<'a> {
    names: &'a Names,
    subject: Subject,
    replaced: Option<Subject>,
    before: Look,
    after: Look,
}

/// Where a record ends.
#[derive(Clone, Copy, Debug)]
struct Logged {
    lane: u64,
    end: u64,
}

impl Logged {
    /// A sync of the file is to make this record durable, too.
    fn is_name_of(self, slot: &Slot<'_>) -> Result<()> {
        slot.set(slot::NAME_LANE, self.lane)?;
        slot.set(slot::NAME_END, self.end)
    }
}
