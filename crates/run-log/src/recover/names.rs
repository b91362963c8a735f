//! Bringing what is live of a directory into it: `docs/design/run.md`, Names.

use crate::Log;
use crate::error::Result;
use crate::handle::Handle;
use crate::look::{FileKind, Look, Subject};
use crate::name_record::{Change, NameRecord};
use crate::recover::bring::{beside, has, write};
use crate::recover::elsewhere::Elsewhere;
use crate::recover::kept::{Kept, Touched, touched};
use crate::recover::place::{For, Place, find};
use crate::recover::{FoundDir, FoundFile, Outcome};
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// What is to be done with a directory.
#[derive(Debug)]
pub(super) enum Plan {
    /// It cannot be had, and why.
    Unreachable(String),
    /// It was removed.
    Gone,
    /// The kernel has everything.
    Whole(File),
    /// Records behind this sequence are to be brought in. A recovery before this one may have begun with that.
    Names { dir: File, path: PathBuf, behind: u64, begun: bool },
    /// Somebody else has changed it.
    Beside(PathBuf),
}

/// What became of directories and files, by path.
type Told = Vec<(PathBuf, Outcome)>;

/// Looks at a directory before anything is changed.
pub(super) fn plan(log: &Log, elsewhere: &mut Elsewhere, dir: &FoundDir, same_boot: bool) -> Result<Plan> {
    let (file, path) = match elsewhere.find(&dir.identity, For::Sync) {
        Place::Here(file, path) => (file, path.unwrap_or_else(|| dir.identity.path.clone())),
        Place::Gone => return Ok(Plan::Gone),
        Place::Unknown(why) | Place::Hidden(why, _) => return Ok(Plan::Unreachable(why)),
    };
    let now = match Look::at(file.as_fd()) {
        Ok(now) => now,
        Err(e) => return Ok(Plan::Unreachable(format!("{}: {e}", path.display()))),
    };
    if let Some(behind) = log.slot(dir.slot).names_begun(dir.incarnation)? {
        return Ok(Plan::Names { dir: file, path, behind, begun: true });
    }
    // Where the page cache outlived the programs it has all changes, of others, too.
    let newest = dir.records.last().map_or(0, |record| record.ctime);
    if same_boot && now.dev == dir.dev && now.ctime >= newest {
        return Ok(Plan::Whole(file));
    }
    Ok(match dir.kept(now.ctime) {
        Kept::All => Plan::Whole(file),
        Kept::Behind(behind) => Plan::Names { dir: file, path, behind, begun: false },
        Kept::Unknown => Plan::Beside(path),
    })
}

/// Does it. Takes those files out of `files` that are done with, and answers them, too, if all is well: they are to be retired before the directory.
pub(super) fn bring(
    log: &Log,
    dir: &FoundDir,
    plan: Plan,
    files: &mut Vec<FoundFile>,
) -> Result<(Told, Vec<FoundFile>)> {
    let mut bringing = Bringing { log, dir, files, taken: Vec::new(), told: Vec::new() };
    let done = match plan {
        Plan::Unreachable(why) => Err(io::Error::other(why)),
        Plan::Gone => {
            bringing.told.push((dir.identity.path.clone(), Outcome::Gone));
            Ok(())
        }
        Plan::Whole(file) => {
            bringing.removed();
            file.sync_all()
        }
        Plan::Names { dir: file, path, behind, begun } => {
            if !begun {
                log.slot(dir.slot).begin_names(dir.incarnation, behind)?;
            }
            bringing.removed();
            bringing.names(&file, &path, behind, begun)
        }
        Plan::Beside(path) => {
            bringing.removed();
            bringing.beside(&path)
        }
    };
    let Bringing { mut told, taken, files, .. } = bringing;
    let Err(e) = done else { return Ok((told, taken)) };
    // What was born here is nowhere else: it must not be taken for removed.
    let named: BTreeSet<&[u8]> = dir.records.iter().map(|record| &*record.handle.bytes).collect();
    let here = |file: &FoundFile| {
        let identity = file.identity.as_ref();
        identity.is_some_and(|id| id.fsid == dir.identity.fsid && named.contains(&*id.handle.bytes))
    };
    let waiting = files.extract_if(.., |file| here(file)).chain(taken);
    let paths = waiting.filter_map(|file| file.identity.map(|identity| identity.path));
    let what = Outcome::Unreachable(e.to_string());
    told = paths.map(|path| (path, what.clone())).collect();
    told.push((dir.identity.path.clone(), what));
    Ok((told, Vec::new()))
}

fn births(records: &[NameRecord]) -> impl Iterator<Item = &NameRecord> {
    records.iter().filter(|record| record.names.change == Change::Create)
}

struct Bringing<'r> {
    log: &'r Log,
    dir: &'r FoundDir,
    files: &'r mut Vec<FoundFile>,
    taken: Vec<FoundFile>,
    told: Told,
}

/// A directory that records are brought into.
struct Target<'t> {
    dir: &'t File,
    path: &'t Path,
    /// A recovery before this one may have made files already.
    begun: bool,
    /// Files that the records made, by handle.
    births: BTreeMap<&'t [u8], &'t NameRecord>,
    /// Those that are made again: the handle that each has now, and a name of it.
    made: BTreeMap<Vec<u8>, (Handle, Vec<u8>)>,
    /// Names that somebody else has taken since, and for which of those files.
    taken: Vec<(PathBuf, Handle)>,
}

fn c_name(name: &[u8]) -> io::Result<CString> {
    Ok(CString::new(name)?)
}

impl Target<'_> {
    /// What a name stands for on the disk.
    fn at(&self, name: &[u8]) -> io::Result<Option<Handle>> {
        match Handle::at(self.dir.as_fd(), &c_name(name)?) {
            Ok(handle) => Ok(Some(handle)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn open(&self, name: &[u8], flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        Ok(rustix::fs::openat(self.dir, &*c_name(name)?, flags, Mode::empty())?.into())
    }

    /// Gives a file one more name.
    fn link(&self, file: &File, name: &str) -> io::Result<()> {
        let from = format!("/proc/self/fd/{}", file.as_raw_fd());
        Ok(rustix::fs::linkat(rustix::fs::CWD, from, self.dir, name, AtFlags::SYMLINK_FOLLOW)?)
    }
}

impl Bringing<'_> {
    /// Takes a file with live records.
    fn take(&mut self, handle: &Handle) -> Option<&FoundFile> {
        let fsid = self.dir.identity.fsid;
        let is_it = |file: &FoundFile| {
            file.identity.as_ref().is_some_and(|identity| identity.fsid == fsid && identity.handle == *handle)
        };
        let found = self.files.iter().position(is_it)?;
        self.taken.push(self.files.remove(found));
        self.taken.last()
    }

    /// Nobody wants the records of files that have lost their last name.
    fn removed(&mut self) {
        for record in &self.dir.records {
            let gone =
                if record.names.change == Change::Remove { Some(&record.handle) } else { record.replaced.as_ref() };
            if let Some(gone) = gone
                && let Some(path) = self.take(gone).and_then(|file| file.identity.as_ref()).map(|id| id.path.clone())
            {
                self.told.push((path, Outcome::Gone));
            }
        }
    }

    /// Brings the records behind a sequence in. First every file has a name of recovery's own, so that none is without one at any time; then these become the names that are wanted.
    fn names(&mut self, dir: &File, path: &Path, behind: u64, begun: bool) -> io::Result<()> {
        let records: Vec<_> = self.dir.records.iter().filter(|record| record.sequence > behind).collect();
        let births = births(&self.dir.records).filter(|record| record.sequence > behind);
        let births = births.map(|record| (&*record.handle.bytes, record)).collect();
        let names = touched(&records);
        let mut target = Target { dir, path, begun, births, made: BTreeMap::new(), taken: Vec::new() };
        let mut ready = Vec::new();
        for (n, (name, touched)) in names.iter().enumerate() {
            let by = format!(".ondol-{}-{}-{n}", self.log.epoch(), self.dir.slot);
            let Some(handle) = &touched.now else { continue };
            match self.prepare(&mut target, name, touched, handle, &by, &names) {
                Ok(true) => ready.push((by, name)),
                Ok(false) => {}
                Err(e) => {
                    // Its bytes stay in the log.
                    self.take(handle);
                    let why = format!("the name cannot be given: {e}");
                    self.told.push((path.join(OsStr::from_bytes(name)), Outcome::Unreachable(why)));
                }
            }
        }
        for (path, handle) in std::mem::take(&mut target.taken) {
            // It may have another name still.
            if !target.made.contains_key(&handle.bytes) {
                self.aside(&path, &handle)?;
            }
        }
        // A cut finds each of them complete.
        dir.sync_all()?;
        if self.told.iter().any(|(_, outcome)| matches!(outcome, Outcome::Unreachable(_))) {
            // Names that are taken away might be the last ones of what could not be given its own.
            return Ok(());
        }
        let changed = self.place(&target, &names, ready)?;
        dir.sync_all()?;
        self.told.push((path.into(), Outcome::Named(changed)));
        Ok(())
    }

    /// Gives files the names that they are to have, and takes those away that are to be gone. No name is taken from a file that is to have one and has it not.
    fn place(
        &mut self,
        target: &Target<'_>,
        names: &BTreeMap<Vec<u8>, Touched>,
        ready: Vec<(String, &Vec<u8>)>,
    ) -> io::Result<u64> {
        let mut changed = ready.len() as u64;
        let by: BTreeMap<&Vec<u8>, &String> = ready.iter().map(|(by, name)| (*name, by)).collect();
        // It has its own name, or is about to.
        let placed = |handle: &Handle| -> io::Result<bool> {
            let mut wanted = names.iter().filter(|(_, touched)| touched.now.as_ref() == Some(handle)).peekable();
            if wanted.peek().is_none() {
                return Ok(true);
            }
            for (name, _) in wanted {
                let about = by.get(name).map_or(Ok(None), |by| target.at(by.as_bytes()))?;
                if about.as_ref() == Some(handle) || target.at(name)?.as_ref() == Some(handle) {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        for (by, name) in &ready {
            if target.at(name)?.map_or(Ok(true), |old| placed(&old))? {
                rustix::fs::renameat(target.dir, by, target.dir, &*c_name(name)?)?;
            }
        }
        for (name, touched) in names.iter().filter(|(_, touched)| touched.now.is_none()) {
            let Some(before) = touched.before.as_ref() else { continue };
            if target.at(name)?.as_ref() == Some(before) && placed(before)? {
                rustix::fs::unlinkat(target.dir, &*c_name(name)?, AtFlags::empty())?;
                changed += 1;
            }
        }
        Ok(changed)
    }

    /// Sees to it that the file that a name is to stand for has the name `by`; false if the name stands for it already, or is somebody else's by now.
    fn prepare(
        &mut self,
        target: &mut Target<'_>,
        name: &[u8],
        touched: &Touched,
        handle: &Handle,
        by: &str,
        names: &BTreeMap<Vec<u8>, Touched>,
    ) -> io::Result<bool> {
        if let Some(record) = target.births.get(&*handle.bytes).copied() {
            return self.prepare_born(target, (name, touched, by), handle, record);
        }
        let current = target.at(name)?;
        if current.as_ref() == Some(handle) {
            return Ok(false);
        }
        let linked = target.begun && target.at(by.as_bytes())?.as_ref() == Some(handle);
        if current != touched.before {
            // Somebody else's by now.
            if linked {
                rustix::fs::unlinkat(target.dir, by, AtFlags::empty())?;
            }
            return Ok(false);
        }
        if linked {
            return Ok(true);
        }
        let file = self.existing(target, handle, names)?;
        target.link(&file, by).map(|()| true)
    }

    /// As [`Bringing::prepare`], for a file that the kernel has not kept: whatever stands for it has another handle.
    fn prepare_born(
        &mut self,
        target: &mut Target<'_>,
        (name, touched, by): (&[u8], &Touched, &str),
        handle: &Handle,
        record: &NameRecord,
    ) -> io::Result<bool> {
        let (current, ours) = (target.at(name)?, target.at(by.as_bytes())?);
        if current.as_ref() == Some(handle) {
            return Ok(false);
        }
        let made = target.made.get(&handle.bytes).map(|(made, _)| made.clone());
        if made.is_some() && made == current {
            return Ok(false);
        }
        let path = target.path.join(OsStr::from_bytes(name));
        if current != touched.before {
            if target.begun && made.is_none() && ours.is_none() && self.is_made(target, name, handle)? {
                self.was_made(target, handle, name, path)?;
                return Ok(false);
            }
            // Somebody else's by now.
            if target.begun && ours.is_some() {
                rustix::fs::unlinkat(target.dir, by, AtFlags::empty())?;
            }
            target.taken.push((path, handle.clone()));
            return Ok(false);
        }
        if ours.is_some() && made == ours {
            return Ok(true);
        }
        if ours.is_some() && target.begun && made.is_none() && self.is_made(target, by.as_bytes(), handle)? {
            self.was_made(target, handle, by.as_bytes(), path)?;
            return Ok(true);
        }
        let Some((_, at)) = target.made.get(&handle.bytes) else {
            let (file, outcome) = self.make(target.dir, handle, record)?;
            target.link(&file, by)?;
            target.made.insert(handle.bytes.clone(), (Handle::of(file.as_fd())?, by.into()));
            self.told.push((path, outcome));
            return Ok(true);
        };
        target.link(&target.open(at, OFlags::PATH)?, by).map(|()| true)
    }

    /// A recovery that was cut has made the file that has this name.
    fn was_made(&mut self, target: &mut Target<'_>, handle: &Handle, at: &[u8], path: PathBuf) -> io::Result<()> {
        let pieces = self.take(handle).map_or_else(Vec::new, FoundFile::pieces);
        let bytes = pieces.iter().map(|piece| piece.part.len() as u64).sum();
        self.told.push((path, Outcome::Made(bytes)));
        if let Some(now) = target.at(at)? {
            target.made.insert(handle.bytes.clone(), (now, at.to_vec()));
        }
        Ok(())
    }

    /// A file that exists, by one of its names or its handle.
    fn existing(&self, target: &Target<'_>, handle: &Handle, names: &BTreeMap<Vec<u8>, Touched>) -> io::Result<File> {
        for name in names.keys() {
            if target.at(name)?.as_ref() == Some(handle) {
                return target.open(name, OFlags::PATH);
            }
        }
        // Names that no record touches.
        for entry in std::fs::read_dir(target.path)? {
            let name = entry?.file_name();
            if target.at(name.as_bytes())?.as_ref() == Some(handle) {
                return target.open(name.as_bytes(), OFlags::PATH);
            }
        }
        let known = self.files.iter().filter_map(|file| file.identity.as_ref());
        let mut known = known.filter(|identity| identity.fsid == self.dir.identity.fsid && identity.handle == *handle);
        match known.next().map(|identity| find(identity, For::Sync)) {
            Some(Place::Here(file, _)) => Ok(file),
            _ => handle.open(target.dir.as_fd(), false),
        }
    }

    /// The file at a name is what a recovery that was cut has made for a handle.
    fn is_made(&self, target: &Target<'_>, name: &[u8], handle: &Handle) -> io::Result<bool> {
        let look = Subject::at(target.dir.as_fd(), &c_name(name)?)?.look;
        let fsid = self.dir.identity.fsid;
        let mut logged = self.files.iter().filter(|file| {
            file.identity.as_ref().is_some_and(|identity| identity.fsid == fsid && identity.handle == *handle)
        });
        // Without records it was brought in, and they were retired.
        let Some(logged) = logged.next() else { return Ok(look.kind == FileKind::File) };
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
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(dir, ".", flags, Mode::RUSR | Mode::WUSR)?);
        let now = file.metadata()?;
        if (now.uid(), now.gid()) != (record.uid, record.gid) {
            rustix::fs::fchown(&file, Some(Uid::from_raw(record.uid)), Some(Gid::from_raw(record.gid)))?;
        }
        file.set_permissions(std::fs::Permissions::from_mode(record.mode & 0o7777))?;
        let bytes = match self.take(handle) {
            Some(logged) => write(&file, logged, &logged.pieces())?,
            None => file.sync_all().map(|()| 0)?,
        };
        Ok((file, Outcome::Made(bytes)))
    }

    /// A name is somebody else's by now: what was logged of the file goes beside it.
    fn aside(&mut self, path: &Path, handle: &Handle) -> io::Result<()> {
        let epoch = self.log.epoch();
        let done = match self.take(handle) {
            Some(logged) => beside(path, logged, &logged.pieces(), epoch)?,
            None => return Ok(()),
        };
        self.told.push((path.into(), done));
        Ok(())
    }

    /// The directory is not as the records left it: files that were made and are not to be found go beside their names.
    fn beside(&mut self, path: &Path) -> io::Result<()> {
        let records: Vec<_> = self.dir.records.iter().collect();
        let born: BTreeSet<&[u8]> = births(&self.dir.records).map(|record| &*record.handle.bytes).collect();
        for (name, touched) in touched(&records) {
            let Some(handle) = touched.now.filter(|handle| born.contains(&*handle.bytes)) else { continue };
            let fsid = self.dir.identity.fsid;
            let known = self.files.iter().filter_map(|file| file.identity.as_ref());
            let known = known.filter(|identity| identity.fsid == fsid && identity.handle == handle);
            let lost = known.map(|identity| find(identity, For::Sync)).any(|place| !matches!(place, Place::Here(..)));
            if lost {
                self.aside(&path.join(OsStr::from_bytes(&name)), &handle)?;
            }
        }
        Ok(())
    }
}
