//! Bringing names into directories together: each file that is to have a name has it before another one is taken from
//! it.
//!
//! - *Recovering* is published first, with the sequence of the last record that the disk has, for a repetition.
//! - A name that stands neither for what it stood for before the records nor for what it is to stand for stays:
//!   somebody else has given it away.
//! - A file that was born and not kept is made without a name, with all its bytes, owner and mode, and synced; then
//!   linked to a name of recovery's own and renamed. So no name is ever without its file.
//! - Names that must go are removed last. A file's last name goes only if a record says that it was lost, and not if
//!   the file was written to later than the horizon (mtime and ctime both).
//! - If a name cannot be given (owner, space), none is taken away in any of the directories.

use crate::format::HORIZON_NS;
use crate::handle::Handle;
use crate::look::{FileKind, Identity};
use crate::name_record::{Change, NameRecord};
use crate::recover::bring::{beside, has, write};
use crate::recover::elsewhere::Elsewhere;
use crate::recover::home::Home;
use crate::recover::kept::{Touched, touched};
use crate::recover::names::Told;
use crate::recover::place::{For, Place};
use crate::recover::{FoundDir, FoundFile, Outcome};
use rustix::fs::OFlags;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A directory that records are brought into.
pub(super) struct Target<'d> {
    pub(super) home: &'d dyn Home,
    pub(super) found: &'d FoundDir,
    pub(super) dir: File,
    pub(super) path: PathBuf,
    /// The sequence behind which they are.
    pub(super) behind: u64,
    /// A recovery before this one may have made files already.
    pub(super) begun: bool,
}

/// Directories whose records name the same files, on one file system.
pub(super) struct Bringing<'r, 'h> {
    pub(super) home: &'h dyn Home,
    /// What names of recovery's own begin with.
    pub(super) mark: String,
    pub(super) dirs: &'r [&'r FoundDir],
    pub(super) elsewhere: &'r mut Elsewhere<'h>,
    pub(super) files: &'r mut Vec<FoundFile>,
    pub(super) taken: Vec<FoundFile>,
    pub(super) told: Told,
}

/// A name in one of the directories.
struct Name<'t> {
    target: &'t Target<'t>,
    name: Vec<u8>,
    /// The name that recovery gives first.
    by: String,
    touched: Touched,
}

/// What is known while names are given.
struct Work<'t> {
    names: &'t [Name<'t>],
    /// Files that have lost their last name.
    dead: BTreeSet<&'t [u8]>,
    /// Files that the records made and the kernel has not kept, by handle.
    births: BTreeMap<&'t [u8], &'t NameRecord>,
    /// Those that are made again: the handle that each has now, and a name of it.
    made: BTreeMap<Vec<u8>, (Handle, &'t Target<'t>, Vec<u8>)>,
    /// Names that somebody else has taken since, and for which of those files.
    taken: Vec<(&'t File, PathBuf, Handle)>,
}

impl Target<'_> {
    /// What a name stands for on the disk.
    fn at(&self, name: &[u8]) -> io::Result<Option<Handle>> {
        match self.home.handle_at(&self.dir, name) {
            Ok(handle) => Ok(Some(handle)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Opens what has a name, if that is the file still.
    fn open_only(&self, name: &[u8], handle: &Handle) -> io::Result<File> {
        let file = self.open(name, OFlags::PATH)?;
        let is_it = self.home.handle(&file)? == *handle;
        is_it.then_some(file).ok_or_else(|| io::Error::other("somebody changes it"))
    }

    fn open(&self, name: &[u8], flags: OFlags) -> io::Result<File> {
        self.home.open(&self.dir, name, flags)
    }

    /// Gives a file one more name.
    fn link(&self, file: &File, name: &str) -> io::Result<()> {
        self.home.link(file, &self.dir, name.as_bytes())
    }

    fn unlink(&self, name: &[u8]) -> io::Result<()> {
        self.home.unlink(&self.dir, name)
    }
}

impl Name<'_> {
    fn path(&self) -> PathBuf {
        self.target.path.join(OsStr::from_bytes(&self.name))
    }

    /// What it stands for on the disk.
    fn now(&self) -> io::Result<Option<Handle>> {
        self.target.at(&self.name)
    }

    /// What recovery's own name stands for.
    fn ours(&self) -> io::Result<Option<Handle>> {
        self.target.at(self.by.as_bytes())
    }
}

impl Work<'_> {
    /// A file has a name that it is to have, or is about to; or is to have none.
    fn placed(&self, handle: &Handle) -> io::Result<bool> {
        let mut wanted = self.names.iter().filter(|name| name.touched.now.as_ref() == Some(handle)).peekable();
        if wanted.peek().is_none() {
            return Ok(true);
        }
        for name in wanted {
            if name.ours()?.as_ref() == Some(handle) || name.now()?.as_ref() == Some(handle) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The name may be taken from what it stands for: that has the name that it is to have, and another one, unless a
    /// record says that it lost its last and nobody has written to it since.
    fn may_lose(&self, name: &Name<'_>, old: &Handle) -> io::Result<bool> {
        if !self.placed(old)? {
            return Ok(false);
        }
        let now = name.target.home.subject(&name.target.dir, &name.name)?;
        let newest = name.target.found.records.last().map_or(0, |record| record.ctime);
        // Anybody may set an mtime, to the future, too, and recovery's own removal of another name sets the ctime: a
        // write sets both.
        let since = now.look.mtime.min(now.look.ctime) > newest.saturating_add(HORIZON_NS);
        Ok(now.links > 1 || self.dead.contains(&*old.bytes) && !since)
    }

    /// Gives files the names that they are to have, and takes those away that are to be gone. A file that cannot have
    /// its name, because another one would be lost, keeps the one that recovery has given it. Answers how many in each
    /// directory, and these.
    fn place(&self, ready: &[&Name<'_>]) -> io::Result<(BTreeMap<PathBuf, u64>, Told)> {
        let mut changed = BTreeMap::<_, u64>::new();
        let mut count = |name: &Name<'_>| *changed.entry(name.target.path.clone()).or_default() += 1;
        let mut kept = Vec::new();
        for name in ready {
            if name.now()?.map_or(Ok(true), |old| self.may_lose(name, &old))? {
                name.target.home.rename(&name.target.dir, name.by.as_bytes(), &name.name)?;
                count(name);
            } else {
                kept.push((name.path(), Outcome::Beside(name.target.path.join(&name.by))));
            }
        }
        for name in self.names.iter().filter(|name| name.touched.now.is_none()) {
            let Some(before) = name.touched.before.as_ref() else { continue };
            if name.now()?.as_ref() != Some(before) {
                continue;
            }
            if self.may_lose(name, before)? {
                name.target.unlink(&name.name)?;
                count(name);
            } else {
                kept.push((name.path(), Outcome::Changed(1)));
            }
        }
        Ok((changed, kept))
    }
}

impl Bringing<'_, '_> {
    fn fsid(&self) -> u64 {
        self.dirs.first().map_or(0, |dir| dir.identity.fsid)
    }

    /// Where a file with live records is among them.
    fn position(&self, handle: &Handle) -> Option<usize> {
        let fsid = self.fsid();
        let is_it = |file: &FoundFile| {
            file.identity.as_ref().is_some_and(|identity| identity.fsid == fsid && identity.handle == *handle)
        };
        self.files.iter().position(is_it)
    }

    /// Takes a file with live records.
    fn take(&mut self, handle: &Handle) -> Option<&FoundFile> {
        let found = self.position(handle)?;
        self.taken.push(self.files.remove(found));
        self.taken.last()
    }

    /// Nobody wants the records of files that have lost their last name.
    pub(super) fn removed(&mut self) {
        for gone in self.dirs.iter().flat_map(|dir| &dir.records).filter_map(NameRecord::dead) {
            if let Some(path) = self.take(gone).and_then(|file| file.identity.as_ref()).map(|id| id.path.clone()) {
                self.told.push((path, Outcome::Gone));
            }
        }
    }

    /// Brings the records in that the kernel has not kept. First every file has a name of recovery's own, so that none
    /// is without one at any time; then these become the names that are wanted. Directories that somebody else has
    /// changed stay as they are: what was born there, or came there, and is not to be found goes beside its name. What
    /// was born in one that is gone is made where another one is to have it.
    pub(super) fn names(
        &mut self,
        targets: &[Target<'_>],
        others: &[(&FoundDir, File, PathBuf)],
        gone: &[&FoundDir],
    ) -> io::Result<()> {
        let names: Vec<Name<'_>> = targets.iter().flat_map(|target| wanted(target, &self.mark)).collect();
        let elsewhere = others.iter().map(|(dir, ..)| *dir).chain(gone.iter().copied());
        let births = targets.iter().flat_map(Target::births).chain(self.lost(elsewhere, targets, &names));
        let births = births.map(|record| (&*record.handle.bytes, record)).collect();
        let dead = self.dirs.iter().flat_map(|dir| &dir.records).filter_map(NameRecord::dead);
        let dead = dead.map(|handle| &*handle.bytes).collect();
        let mut work = Work { names: &names, dead, births, made: BTreeMap::new(), taken: Vec::new() };
        let mut ready = Vec::new();
        for name in &names {
            let Some(handle) = &name.touched.now else { continue };
            match self.prepare(&mut work, name, handle) {
                Ok(true) => ready.push(name),
                Ok(false) => {}
                Err(e) => {
                    // Its bytes stay in the log.
                    self.take(handle);
                    let why = format!("the name cannot be given: {e}");
                    self.told.push((name.path(), Outcome::Unreachable(why)));
                }
            }
        }
        for (dir, file, path) in others {
            let records: Vec<_> = dir.records.iter().collect();
            self.told.push((path.clone(), Outcome::Changed(records.len() as u64)));
            for (name, touched) in touched(&records) {
                let born = touched.now.filter(|handle| work.births.contains_key(&*handle.bytes));
                work.taken.extend(born.map(|handle| (file, path.join(OsStr::from_bytes(&name)), handle)));
            }
        }
        for (dir, path, handle) in std::mem::take(&mut work.taken) {
            // It may have another name still.
            if !work.made.contains_key(&handle.bytes) {
                self.aside(dir, &path, &handle)?;
            }
        }
        // A cut finds each of them complete.
        targets.iter().try_for_each(|target| self.home.sync(&target.dir))?;
        if self.told.iter().any(|(_, outcome)| matches!(outcome, Outcome::Unreachable(_))) {
            // Names that are taken away might be the last ones of what could not be given its own.
            return Ok(());
        }
        let (mut changed, kept) = work.place(&ready)?;
        self.told.extend(kept);
        targets.iter().try_for_each(|target| self.home.sync(&target.dir))?;
        for path in targets.iter().map(|target| &target.path) {
            self.told.push((path.clone(), Outcome::Named(changed.remove(path).unwrap_or(0))));
        }
        Ok(())
    }

    /// Files all of whose bytes are in the log, that were made in these directories, which somebody else has changed or
    /// removed since, and are not to be found; but those that the kernel has kept in one of the targets were removed.
    fn lost<'d>(
        &mut self,
        dirs: impl Iterator<Item = &'d FoundDir>,
        targets: &[Target<'_>],
        names: &[Name<'_>],
    ) -> Vec<&'d NameRecord> {
        let kept =
            targets.iter().flat_map(|target| target.found.records.iter().filter(|r| r.sequence <= target.behind));
        let kept =
            kept.flat_map(NameRecord::handles).chain(names.iter().filter_map(|name| name.touched.before.as_ref()));
        let kept: BTreeSet<&[u8]> = kept.map(|handle| &*handle.bytes).collect();
        let mut lost = Vec::new();
        for record in dirs.flat_map(|dir| &dir.records).filter(|record| record.is_birth()) {
            let logged = self.position(&record.handle).and_then(|at| self.files.get(at));
            let all = logged.is_some_and(|file| !file.in_part) && !kept.contains(&*record.handle.bytes);
            if all && matches!(self.find(&record.handle), Place::Gone) {
                lost.push(record);
            }
        }
        lost
    }

    /// Looks for a file that records name, all over its file system.
    fn find(&mut self, handle: &Handle) -> Place {
        let records = self.dirs.iter().flat_map(|dir| dir.records.iter().map(move |record| (dir, record)));
        let Some((dir, record)) = records.into_iter().find(|(_, record)| record.handle == *handle) else {
            return Place::Unknown("no record names it".into());
        };
        let names = &record.names;
        let name = if names.change == Change::Rename { &names.old } else { &names.name };
        let path = dir.identity.path.join(OsStr::from_bytes(name));
        let (fsid, ino, handle) = (dir.identity.fsid, record.ino, handle.clone());
        self.elsewhere.find(&Identity { fsid, ino, kind: FileKind::File, handle, path }, For::Sync)
    }

    /// Sees to it that the file that a name is to stand for has the name `by`; false if the name stands for it already,
    /// or is somebody else's by now.
    fn prepare<'t>(&mut self, work: &mut Work<'t>, name: &'t Name<'t>, handle: &Handle) -> io::Result<bool> {
        if let Some(record) = work.births.get(&*handle.bytes).copied() {
            return self.prepare_born(work, name, handle, record);
        }
        let current = name.now()?;
        if current.as_ref() == Some(handle) {
            return Ok(false);
        }
        let linked = name.target.begun && name.ours()?.as_ref() == Some(handle);
        if current != name.touched.before {
            // Somebody else's by now.
            if linked {
                name.target.unlink(name.by.as_bytes())?;
            }
            return Ok(false);
        }
        if linked {
            return Ok(true);
        }
        let Some(file) = self.existing(work, handle)? else {
            // Somebody has removed it since.
            self.told.push((name.path(), Outcome::Gone));
            return Ok(false);
        };
        name.target.link(&file, &name.by).map(|()| true)
    }

    /// As [`Bringing::prepare`], for a file that the kernel has not kept: whatever stands for it has another handle.
    fn prepare_born<'t>(
        &mut self,
        work: &mut Work<'t>,
        name: &'t Name<'t>,
        handle: &Handle,
        record: &NameRecord,
    ) -> io::Result<bool> {
        let (target, by) = (name.target, name.by.as_bytes());
        let (current, ours) = (name.now()?, name.ours()?);
        if current.as_ref() == Some(handle) {
            return Ok(false);
        }
        let made = work.made.get(&handle.bytes).map(|(made, ..)| made.clone());
        if made.is_some() && made == current {
            return Ok(false);
        }
        if current != name.touched.before {
            if target.begun && made.is_none() && ours.is_none() && self.is_made(target, &name.name, handle)? {
                self.was_made(work, name, handle, &name.name)?;
                return Ok(false);
            }
            // Somebody else's by now.
            if target.begun && ours.is_some() {
                target.unlink(by)?;
            }
            work.taken.push((&target.dir, name.path(), handle.clone()));
            return Ok(false);
        }
        if ours.is_some() && made == ours {
            return Ok(true);
        }
        if ours.is_some() && target.begun && made.is_none() && self.is_made(target, by, handle)? {
            self.was_made(work, name, handle, by)?;
            return Ok(true);
        }
        if ours.is_some() && target.begun {
            // What a recovery has left that the disk refused something, or half of whose names were lost.
            target.unlink(by)?;
        }
        let Some((made, there, at)) = work.made.get(&handle.bytes) else {
            let (file, outcome) = self.make(&target.dir, handle, record)?;
            target.link(&file, &name.by)?;
            work.made.insert(handle.bytes.clone(), (self.home.handle(&file)?, target, by.into()));
            self.told.push((name.path(), outcome));
            return Ok(true);
        };
        target.link(&there.open_only(at, made)?, &name.by).map(|()| true)
    }

    /// A recovery that was cut has made the file that has the name `at`.
    fn was_made<'t>(&mut self, work: &mut Work<'t>, name: &'t Name<'t>, handle: &Handle, at: &[u8]) -> io::Result<()> {
        let pieces = self.take(handle).map_or_else(Vec::new, FoundFile::pieces);
        let bytes = pieces.iter().map(|piece| piece.part.len() as u64).sum();
        self.told.push((name.path(), Outcome::Made(bytes)));
        if let Some(now) = name.target.at(at)? {
            work.made.insert(handle.bytes.clone(), (now, name.target, at.to_vec()));
        }
        Ok(())
    }

    /// A file that was not made by these records, by one of its names or its handle; none if it is no more.
    fn existing(&mut self, work: &Work<'_>, handle: &Handle) -> io::Result<Option<File>> {
        let named = |name: &&Name<'_>| {
            let Touched { before, now } = &name.touched;
            before.as_ref() == Some(handle) || now.as_ref() == Some(handle)
        };
        for name in work.names.iter().filter(named) {
            if name.now()?.as_ref() == Some(handle) {
                return name.target.open_only(&name.name, handle).map(Some);
            }
        }
        match self.find(handle) {
            Place::Here(file, _) => Ok(Some(file)),
            Place::Gone => Ok(None),
            Place::Unknown(why) | Place::Hidden(why) => Err(io::Error::other(why)),
        }
    }

    /// The file at a name is what a recovery that was cut has made for a handle.
    fn is_made(&self, target: &Target<'_>, name: &[u8], handle: &Handle) -> io::Result<bool> {
        let look = self.home.subject(&target.dir, name)?.look;
        // Without records it was brought in, and they were retired.
        let Some(logged) = self.position(handle).and_then(|at| self.files.get(at)) else {
            return Ok(look.kind == FileKind::File);
        };
        let pieces = logged.pieces();
        let end = pieces.iter().map(|piece| piece.offset + piece.part.len() as u64).max().unwrap_or(0);
        let len = logged.lengths().map_or(end, |(_, len)| len);
        if look.kind != FileKind::File || look.size != len {
            return Ok(false);
        }
        match target.open(name, OFlags::RDONLY) {
            Ok(file) => has(&file, logged, &pieces),
            // It may have been made so that this user cannot read it.
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Ok(true),
            Err(e) => Err(e),
        }
    }

    /// Makes a file again that the kernel has not kept; it has no name yet.
    fn make(&mut self, dir: &File, handle: &Handle, record: &NameRecord) -> io::Result<(File, Outcome)> {
        let (home, file) = (self.home, self.home.unnamed(dir, record)?);
        let bytes = match self.take(handle) {
            Some(logged) => write(home, &file, logged)?,
            None => home.sync(&file).map(|()| 0)?,
        };
        Ok((file, Outcome::Made(bytes)))
    }

    /// A name is somebody else's by now: what was logged of the file goes beside it.
    fn aside(&mut self, dir: &File, path: &Path, handle: &Handle) -> io::Result<()> {
        let (home, mark) = (self.home, self.mark.clone());
        let Some(logged) = self.take(handle) else { return Ok(()) };
        let done = beside(home, dir, path, logged, &mark)?;
        self.told.push((path.into(), done));
        Ok(())
    }
}

impl Target<'_> {
    /// Records that the kernel has not kept.
    fn pending(&self) -> impl Iterator<Item = &NameRecord> {
        self.found.records.iter().filter(|record| record.sequence > self.behind)
    }

    fn births(&self) -> impl Iterator<Item = &NameRecord> {
        self.pending().filter(|record| record.is_birth())
    }
}

/// The names that records touch which the kernel has not kept.
fn wanted<'t>(target: &'t Target<'t>, mark: &str) -> Vec<Name<'t>> {
    let pending: Vec<_> = target.pending().collect();
    let slot = target.found.slot;
    let names = touched(&pending).into_iter().enumerate();
    names.map(|(n, (name, touched))| Name { target, name, by: format!("{mark}-{slot}-{n}"), touched }).collect()
}
