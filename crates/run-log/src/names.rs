//! Changes of names: what a program makes, removes, renames and links in directories whose changes are all in the log.
//!
//! A directory is trusted as a file is: its ctime tells whether anybody else has changed it. Its lock comes before that
//! of a file. Which call is which record: `name_record`.

use crate::call::Written;
use crate::client::{Client, LONGEST_LOOK_NS, Tracked};
use crate::error::Result;
use crate::format::{RecordHead, SlotKey, shared, slot};
use crate::lock::Held;
use crate::look::{FileKind, Identity, Look, Subject};
use crate::name_record::{Change, Names};
use crate::slot::Slot;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use zerocopy::FromZeros;

/// A directory of a change of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one that has the name that is made or removed.
    There,
    /// The one that a file leaves for another.
    Left,
}

/// A program's change of names, and how it is done.
pub trait NameCall {
    /// Why the kernel refuses.
    type Fail;

    /// The number of the process that calls: another one after fork(2).
    fn process(&self) -> u32 {
        std::process::id()
    }

    /// Monotonic time, nanoseconds.
    fn now_ns(&self) -> u64;

    /// Which names. A removal is [`Change::Remove`], whatever names the file has besides.
    fn names(&self) -> &Names;

    /// Looks at a directory.
    ///
    /// # Errors
    /// The kernel's.
    fn look(&self, side: Side) -> std::result::Result<Look, Self::Fail>;

    /// The file that is made, removed, renamed or linked: `done` says whether the change is over. It goes by the name
    /// that it has then; if that was removed by what [`NameCall::hold`] has kept. None if there is none.
    fn subject(&self, done: bool) -> Option<Subject>;

    /// Keeps the file, whose name is about to be removed, to be looked at without it. False if it cannot be had.
    fn hold(&self) -> bool;

    /// What has the new name of a rename before it; none if nothing has.
    ///
    /// # Errors
    /// It cannot be told.
    fn replaced(&self) -> std::result::Result<Option<Subject>, Self::Fail>;

    /// Does it.
    ///
    /// # Errors
    /// The kernel's.
    fn run(&self) -> std::result::Result<(), Self::Fail>;
}

/// A directory whose lock is held.
struct Dir<'c> {
    side: Side,
    slot: Slot<'c>,
    incarnation: u64,
    _held: Held<'c>,
}

/// The directories of a change, locked: where the name is, and behind it the one that is left.
struct Dirs<'c> {
    me: u64,
    all: Vec<Dir<'c>>,
}

impl Dirs<'_> {
    fn are_trusted(&self) -> bool {
        let trusted =
            |dir: &Dir<'_>| Some(dir.slot.is_trusted().ok()? && dir.slot.incarnation().ok()? == dir.incarnation);
        self.all.iter().all(|dir| trusted(dir) == Some(true))
    }

    fn distrust(&self) {
        // If the memory fails nothing is trusted anyway.
        self.all.iter().for_each(|dir| drop(dir.slot.distrust()));
    }
}

/// A file with a slot whose names change, locked.
struct Known<'s> {
    slot: Slot<'s>,
    incarnation: u64,
    _held: Held<'s>,
}

impl Client {
    /// The slot of a trusted file or directory: all its changes are in the log. It may be another one's by the time it
    /// is locked, which is seen then.
    ///
    /// # Errors
    /// The medium's failure.
    pub fn trusted(&self, look: &Look) -> Result<Option<SlotKey>> {
        let Some(key) = self.find(look)? else { return Ok(None) };
        Ok(self.log.slot(key.index).is_trusted()?.then_some(key))
    }

    /// A file that is new in a directory was synced for real: whether the directory is to be synced, too, so that its
    /// names are logged from then on.
    ///
    /// # Errors
    /// The medium's failure.
    pub fn wants_names(&self, SlotKey { index, incarnation }: SlotKey) -> Result<bool> {
        let slot = self.log.slot(index);
        if slot.incarnation()? != incarnation || !slot.may_trust()? {
            return Ok(false);
        }
        match slot.load(slot::PAUSE)? {
            0 => slot.tried().map(|()| true),
            pause => slot.set(slot::PAUSE, pause - 1).map(|()| false),
        }
    }

    /// How often a directory became trusted, in this epoch. A change of names past the log that finds another number
    /// afterwards came to a directory that may be trusted by then, and is [`Client::unseen`].
    pub fn named(&self) -> u64 {
        // If the memory fails nothing is trusted anyway.
        self.log.nvm.shared().load_u64(self.log.shared(shared::NAMES)).unwrap_or_default()
    }

    /// Changes names in the directory in a slot, as the kernel does it, and logs that; of a move the directory that is
    /// `left` has the second slot. A file that is made is trusted from birth. `Stale`: nothing was done, and the caller
    /// is to do it past the log.
    ///
    /// # Errors
    /// The kernel's.
    pub fn change_names<C: NameCall>(
        &self,
        there: SlotKey,
        left: Option<SlotKey>,
        call: &C,
    ) -> std::result::Result<Written<()>, C::Fail> {
        let Some(dirs) = self.lock_dirs(there, left, call) else {
            // Whoever has them must not take what this does for its own.
            for key in [there].into_iter().chain(left) {
                let _ = self.log.slot(key.index).distrust();
            }
            return Ok(Written::Stale);
        };
        if !dirs.are_trusted() {
            return Ok(Written::Stale);
        }
        let stale = || {
            dirs.distrust();
            Ok(Written::Stale)
        };
        let mut files = None;
        if call.names().change != Change::Create {
            let Some(subject) = call.subject(false) else {
                // The kernel says that there is nothing; if there is by now, nobody whom this sees has made it.
                call.run()?;
                dirs.distrust();
                return Ok(Written::Done(()));
            };
            files = self.lock_files(&dirs, call, subject);
            if files.is_none() {
                return stale();
            }
        }
        // Only now: others may have a file's lock, and what is made durable may be much.
        let began = call.now_ns();
        let Some(before) = self.expected_dirs(&dirs, call) else { return Ok(Written::Stale) };
        let (change, files) = match files.map(|files| files.look(self, call)) {
            None => (Change::Create, None),
            Some(Some((change, files))) => (change, Some(files)),
            Some(None) => return stale(),
        };
        let begins = call.now_ns();
        call.run()?;
        let ends = call.now_ns();
        // The change itself may wait for the kernel's journal, with the directory locked.
        let away = |now: u64| begins.saturating_sub(began) + now.saturating_sub(ends);
        let after: Option<Vec<Look>> = dirs.all.iter().map(|dir| call.look(dir.side).ok()).collect();
        let after = after.filter(|_| away(call.now_ns()) <= LONGEST_LOOK_NS);
        let now = if change == Change::Remove { None } else { call.subject(true) };
        let subject = whose(change, files.as_ref(), now.as_ref());
        let noted = match (after, subject) {
            (Some(after), Some(subject)) => {
                let names = Names { change, ..call.names().clone() };
                let replaced = files.as_ref().and_then(|files| files.replaced.clone());
                let made = Made { names, subject, replaced, before, after };
                self.note_names(&dirs, &made).unwrap_or(None)
            }
            _ => None,
        };
        if noted.is_none() {
            dirs.distrust();
        }
        if let Some(files) = &files {
            // If the memory fails nothing is trusted anyway.
            let _ = self.follow(change, &files.known, noted, now);
        }
        Ok(Written::Done(()))
    }

    /// Locks the directories of a change: those of two in the order of their slots, as everybody does.
    fn lock_dirs<C: NameCall>(&self, there: SlotKey, left: Option<SlotKey>, call: &C) -> Option<Dirs<'_>> {
        // One of them was given to the other meanwhile.
        if left.is_some_and(|left| left.index == there.index) {
            return None;
        }
        let me = self.me(call.process()).ok()?;
        let mut wanted = vec![(there, Side::There)];
        wanted.extend(left.map(|left| (left, Side::Left)));
        wanted.sort_unstable_by_key(|(key, _)| key.index);
        let mut all = Vec::new();
        for (SlotKey { index, incarnation }, side) in wanted {
            let slot = self.log.slot(index);
            let held = slot.lock(me).ok()??;
            all.push(Dir { side, slot, incarnation, _held: held });
        }
        all.sort_unstable_by_key(|dir| dir.side == Side::Left);
        Some(Dirs { me, all })
    }

    /// What trusted directories look like, if they are as expected and the next change can be logged.
    fn expected_dirs<C: NameCall>(&self, dirs: &Dirs<'_>, call: &C) -> Option<Vec<Look>> {
        let looks: Option<Vec<Look>> = dirs.all.iter().map(|dir| call.look(dir.side).ok()).collect();
        let fits = |(dir, before): (&Dir<'_>, &Look)| {
            let file = Tracked { client: self, slot: dir.slot, incarnation: dir.incarnation };
            dir.slot.expected().is_ok_and(|expected| expected == *before) && file.fits(0)
        };
        let looks = looks.filter(|looks| dirs.all.iter().zip(looks).all(fits));
        if looks.is_none() {
            dirs.distrust();
        }
        looks
    }

    /// Locks what has a slot of the files whose names are to change: the one that gets another name or loses one, and
    /// the one that is replaced; and makes durable what has to be before that. None if such a change is not logged:
    /// only trusted files get other names, their contents durable before.
    fn lock_files<'s, C: NameCall>(&'s self, dirs: &Dirs<'_>, call: &C, subject: Subject) -> Option<Files<'s>> {
        let change = call.names().change;
        let renames = matches!(change, Change::Rename | Change::Arrive);
        let replaced = if renames { call.replaced().ok()? } else { None };
        if [Some(&subject), replaced.as_ref()].into_iter().flatten().any(|file| file.look.kind != FileKind::File) {
            return None;
        }
        let first = self.lock_known(dirs.me, &subject, Slot::lock)?;
        let second = replaced.as_ref().map_or(Some(None), |file| self.lock_known(dirs.me, file, Slot::try_lock))?;
        if change != Change::Remove {
            let file = first.as_ref().filter(|file| file.slot.is_trusted().unwrap_or(false))?;
            Tracked { client: self, slot: file.slot, incarnation: file.incarnation }.acknowledge().ok()?;
        }
        let known = [first, second];
        known.iter().flatten().try_for_each(|file| self.in_order(&file.slot, dirs)).ok()?;
        Some(Files { subject, replaced, known })
    }

    /// The newest record of a file's names is durable, or in one of these directories: it is durable before the next
    /// one.
    fn in_order(&self, slot: &Slot<'_>, dirs: &Dirs<'_>) -> Result<()> {
        let dir = slot.load(slot::NAME_DIR)?;
        if dirs.all.iter().any(|known| u64::from(known.slot.index) + 1 == dir) { Ok(()) } else { slot.persist_name() }
    }

    /// Locks the slot of a file, if it has one; none if that cannot be had. The second file is only tried, since two
    /// are locked here in any order.
    fn lock_known<'s>(
        &'s self,
        me: u64,
        file: &Subject,
        lock: impl FnOnce(&Slot<'s>, u64) -> Result<Option<Held<'s>>>,
    ) -> Option<Option<Known<'s>>> {
        let Some(SlotKey { index, incarnation }) = self.find(&file.look).ok()? else { return Some(None) };
        let slot = self.log.slot(index);
        let held = lock(&slot, me).ok()??;
        // It may just be given to another file, which has this incarnation then.
        let Look { dev, ino, birth, .. } = file.look;
        let same = slot.incarnation().ok()? == incarnation && slot.key().ok()? == [dev, ino, birth];
        same.then_some(Some(Known { slot, incarnation, _held: held }))
    }

    /// What a change of names does to the files: the one with other names has another ctime by that alone; one without
    /// a name is nobody's.
    fn follow(
        &self,
        change: Change,
        [file, replaced]: &[Option<Known<'_>>; 2],
        noted: Option<Logged>,
        now: Option<Subject>,
    ) -> Result<()> {
        let gone = if change == Change::Remove { file } else { replaced };
        if let (Some(known), Some(logged)) = (gone, noted) {
            self.forget(known, logged)?;
        }
        let Some(known) = file.as_ref().filter(|_| change != Change::Remove) else { return Ok(()) };
        let before = known.slot.expected()?;
        match (now, noted) {
            (Some(Subject { look, .. }), Some(logged)) if look == (Look { ctime: look.ctime, ..before }) => {
                known.slot.expect(&look)?;
                logged.is_name_of(&known.slot)
            }
            _ => known.slot.distrust(),
        }
    }

    /// Logs a change. Answers where its record ends; none if the directories are not what that change alone makes of
    /// them, or if there is no room.
    fn note_names(&self, dirs: &Dirs<'_>, made: &Made) -> Result<Option<Logged>> {
        let Made { names, subject, replaced, before, after } = made;
        let alone = |(before, after): (&Look, &Look)| {
            after.same(before) && after.ctime > before.ctime && after.mtime == after.ctime
        };
        let (Some(dir), Some(now)) = (dirs.all.first(), after.first()) else { return Ok(None) };
        // Recovery makes no file with setuid or setgid bits.
        let set_id = names.change == Change::Create && subject.look.set_id;
        if set_id || !before.iter().zip(after).all(alone) {
            return Ok(None);
        }
        let born = if names.change == Change::Create { self.prepare_born(dirs.me, dir, names, subject)? } else { None };
        let payload = names.encode(subject, replaced.as_ref());
        let mut head = RecordHead {
            incarnation: (dir.incarnation as u32).into(),
            ctime: now.ctime.into(),
            ..RecordHead::new_zeroed()
        };
        if let (Some(left), Some(now)) = (dirs.all.get(1), after.get(1)) {
            head.incarnation |= RecordHead::MOVE;
            head.offset = (u64::from(left.slot.index) | left.incarnation << 32).into();
            head.base_time = now.ctime.into();
        }
        let slots: Vec<_> = dirs.all.iter().map(|dir| &dir.slot).collect();
        if !self.record(dirs.me, &slots, head, payload.len() as u64, |show| show(&[&payload]))? {
            return Ok(None);
        }
        for (slot, after) in slots.into_iter().zip(after) {
            slot.expect(after)?;
            slot.served()?;
        }
        let (lane, end) = (dir.slot.load(slot::LAST_LANE)?, dir.slot.load(slot::LAST_END)?);
        let logged = Logged { lane, end, dir: u64::from(dir.slot.index) + 1 };
        if let Some(born) = born {
            self.begin_born(dirs.me, &self.log.slot(born.index), born.incarnation, subject, logged)?;
        }
        Ok(Some(logged))
    }

    /// Gives a slot to a file that was made, and writes down which it is.
    fn prepare_born(&self, me: u64, dir: &Dir<'_>, names: &Names, subject: &Subject) -> Result<Option<SlotKey>> {
        if subject.look.kind != FileKind::File || subject.look.size != 0 || subject.links != 1 {
            return Ok(None);
        }
        let Some((_, _, of_dir)) = dir.slot.identity()? else { return Ok(None) };
        let Some(SlotKey { index, incarnation }) = self.slot(&subject.look)? else { return Ok(None) };
        let path = of_dir.path.join(OsStr::from_bytes(&names.name));
        let (ino, handle) = (subject.look.ino, subject.handle.clone());
        let identity = Identity { fsid: of_dir.fsid, ino, kind: FileKind::File, handle, path };
        let slot = self.log.slot(index);
        let Some(_held) = slot.try_lock(me)? else { return Ok(None) };
        // Somebody else may have opened and synced it already.
        let fresh = slot.incarnation()? == incarnation && slot.load(slot::NAMED)? != incarnation;
        Ok((fresh && slot.name(incarnation, &subject.look, &identity)?).then_some(SlotKey { index, incarnation }))
    }

    /// The record that a file was made is stored: from now on its writes are logged.
    fn begin_born(&self, me: u64, slot: &Slot<'_>, incarnation: u64, subject: &Subject, logged: Logged) -> Result<()> {
        let Some(_held) = slot.lock(me)? else { return Ok(()) };
        if slot.incarnation()? != incarnation || slot.is_trusted()? {
            return Ok(());
        }
        slot.expect(&subject.look)?;
        slot.begins_at(&subject.look)?;
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

    /// Gives a file another name past the log by `change`, or takes one away: nobody who is seen changes its names
    /// meanwhile, or takes this for part of a change of its own. A file that `gets` a name is given a slot for that,
    /// where names are logged.
    ///
    /// # Errors
    /// The medium's failure; the change was not made then.
    pub fn unlogged_names<T>(&self, look: &Look, gets: bool, change: impl FnOnce() -> T) -> Result<T> {
        let slot = if gets && self.named() != 0 { self.slot(look)? } else { self.find(look)? };
        let Some(key) = slot else { return Ok(change()) };
        let slot = self.log.slot(key.index);
        let _held = slot.lock_once(self.me(std::process::id())?)?;
        Ok(change())
    }
}

/// Files whose names change, locked: whoever else gives or takes them names, and is seen, waits.
struct Files<'s> {
    /// The one that gets another name or loses one.
    subject: Subject,
    /// The one in whose place it comes.
    replaced: Option<Subject>,
    known: [Option<Known<'s>>; 2],
}

impl Files<'_> {
    /// Looks at them, now that they are locked. Answers which change it is, a removal of a last name or of another.
    /// None if they are other files by now, or the change is not logged: only of a trusted file it is known that its
    /// other names are durable, or in the log.
    fn look<C: NameCall>(self, client: &Client, call: &C) -> Option<(Change, Self)> {
        let subject = call.subject(false)?;
        let replaced = self.replaced.as_ref().map_or(Ok(None), |_| call.replaced()).ok()?;
        let still = match (&self.replaced, &replaced) {
            (Some(before), Some(now)) => before.is(now),
            (before, now) => before.is_none() && now.is_none(),
        };
        if !still || !self.subject.is(&subject) {
            return None;
        }
        let files = Self { subject, replaced, ..self };
        let [first, second] = &files.known;
        // Whoever gives such a file another name past the log gives it a slot first.
        let unknown = |known: &Option<Known<'_>>, file: &Subject| {
            Some(known.is_some() || client.find(&file.look).ok()?.is_none())
        };
        let all = [(first, Some(&files.subject)), (second, files.replaced.as_ref())];
        for (known, file) in all.into_iter().filter_map(|(known, file)| Some((known, file?))) {
            unknown(known, file)?.then_some(())?;
        }
        let change = match call.names().change {
            Change::Remove if files.subject.links > 1 => Change::Unlink,
            change => change,
        };
        let whole = |known: &Known<'_>, file: &Subject| {
            Some(known.slot.is_trusted().ok()? && known.slot.expected().ok()? == file.look)
        };
        let carried = match (change, first) {
            (Change::Remove, _) => true,
            (_, Some(known)) => whole(known, &files.subject)? && (change != Change::Unlink || call.hold()),
            (_, None) => false,
        };
        let (gone, known) = match change {
            Change::Remove => (Some(&files.subject), first),
            Change::Unlink => (None, &None),
            _ => (files.replaced.as_ref(), second),
        };
        // One that lost another name past the log may be there again under that one.
        if let (Some(gone), Some(known)) = (gone, known)
            && known.slot.is_live().ok()?
            && !whole(known, gone)?
        {
            return None;
        }
        let last = gone.is_none_or(|gone| gone.links == 1);
        (last && carried).then_some((change, files))
    }
}

/// Which file's names were changed, if it is the one that was looked at before: a path may lead to another one by
/// `now`.
fn whose(change: Change, files: Option<&Files<'_>>, now: Option<&Subject>) -> Option<Subject> {
    match files {
        None => now.cloned(),
        Some(files) => {
            let same = change == Change::Remove || now.is_some_and(|now| now.is(&files.subject));
            same.then(|| files.subject.clone())
        }
    }
}

/// A change that the kernel has made.
struct Made {
    names: Names,
    subject: Subject,
    replaced: Option<Subject>,
    /// Of the directories.
    before: Vec<Look>,
    after: Vec<Look>,
}

/// Where a record ends.
#[derive(Clone, Copy, Debug)]
struct Logged {
    lane: u64,
    end: u64,
    /// The slot of its directory, plus 1.
    dir: u64,
}

impl Logged {
    /// A sync of the file is to make this record durable, too.
    fn is_name_of(self, slot: &Slot<'_>) -> Result<()> {
        slot.set(slot::NAME_LANE, self.lane)?;
        slot.set(slot::NAME_DIR, self.dir)?;
        slot.set(slot::NAME_END, self.end)
    }
}
