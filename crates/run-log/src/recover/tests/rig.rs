//! Directories that the kernel has not kept what the log has of.

use crate::format::SlotKey;
use crate::name_record::{Change, Names};
use crate::recover::Outcome;
use crate::slot::Begun;
use crate::{
    Call, Client, FileKind, Handle, Identity, Log, LogOptions, Look, NameCall, Place, Side, Subject, WriteCall, Written,
};
use ondol_medium::{Nvm, Pool, PoolSpec};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// An hour, nanoseconds.
pub(super) const HOUR: i64 = 3_600_000_000_000;

/// A device that the directory is not on: the page cache is another one.
pub(super) const DEV: u64 = 1;

/// A directory that the kernel has not kept what the log has of, and one in it, `sub`: their ctimes are long before the
/// log's.
pub(super) struct Lost<'d> {
    pub(super) dir: &'d Path,
    pub(super) client: Client,
    pub(super) clocks: [Cell<u64>; 2],
}

pub(super) struct OneChange<'l> {
    pub(super) lost: &'l Lost<'l>,
    pub(super) names: Names,
    pub(super) there: usize,
    pub(super) left: Option<usize>,
    pub(super) subject: Subject,
    pub(super) replaced: Option<Subject>,
    /// What is replaced is linked once more after the first look at it.
    pub(super) linked: bool,
    pub(super) looks: Cell<u32>,
}

pub(super) struct OneCall {
    pub(super) look: Look,
    pub(super) identity: Option<Identity>,
    pub(super) bytes: &'static [u8],
    pub(super) size: Cell<u64>,
}

/// Which directory a path is in, and the name.
pub(super) fn split(path: &str) -> (usize, &str) {
    path.strip_prefix("sub/").map_or((0, path), |name| (1, name))
}

impl NameCall for OneChange<'_> {
    type Fail = ();

    fn now_ns(&self) -> u64 {
        0
    }

    fn names(&self) -> &Names {
        &self.names
    }

    fn look(&self, side: Side) -> Result<Look, ()> {
        Ok(self.lost.look(if side == Side::Left { self.left.unwrap() } else { self.there }))
    }

    fn subject(&self, done: bool) -> Option<Subject> {
        let ctime = self.subject.look.ctime + u64::from(done);
        Some(Subject { look: Look { ctime, ..self.subject.look }, ..self.subject.clone() })
    }

    fn hold(&self) -> bool {
        true
    }

    fn replaced(&self) -> Result<Option<Subject>, ()> {
        let links = u32::from(self.linked && self.looks.replace(1) > 0);
        Ok(self.replaced.clone().map(|file| Subject { links: file.links + links, ..file }))
    }

    fn run(&self) -> Result<(), ()> {
        for dir in [self.there].into_iter().chain(self.left) {
            let clock = &self.lost.clocks[dir];
            clock.set(clock.get() + 1);
        }
        Ok(())
    }
}

impl Call for OneCall {
    type Fail = ();

    fn look(&self) -> Result<Look, ()> {
        Ok(Look { size: self.size.get(), ..self.look })
    }

    fn now_ns(&self) -> u64 {
        0
    }

    fn settle(&self) -> bool {
        true
    }

    fn sync(&self) -> Result<(), ()> {
        Ok(())
    }

    fn refused(&self) {}

    fn refuses_sync(&self, (): &()) -> bool {
        false
    }

    fn identity(&self) -> Option<Identity> {
        self.identity.clone()
    }
}

impl WriteCall for OneCall {
    fn refuses_write(&self, (): &()) -> bool {
        false
    }

    fn write(&self) -> Result<usize, ()> {
        self.size.set(self.size.get() + self.bytes.len() as u64);
        Ok(self.bytes.len())
    }

    fn place(&self) -> Option<Place> {
        Some(Place::Append)
    }

    fn cursor(&self) -> Option<u64> {
        None
    }

    fn moved(&self, _end: u64) -> bool {
        true
    }

    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn bytes(&self, len: usize, show: &mut dyn FnMut(&[&[u8]])) {
        show(&[&self.bytes[..len]]);
    }
}

impl<'d> Lost<'d> {
    pub(super) fn new(dir: &'d Path) -> Self {
        Self::with(dir, [HOUR; 2])
    }

    /// With times of the directory and of `sub` that lie so far from now: nanoseconds.
    pub(super) fn with(dir: &'d Path, from_now: [i64; 2]) -> Self {
        Self::in_pool([9; 16], dir, from_now)
    }

    /// As [`Lost::with`], in a pool with this UUID.
    pub(super) fn in_pool(uuid: [u8; 16], dir: &'d Path, from_now: [i64; 2]) -> Self {
        let pool = Nvm::volatile(2 << 20).unwrap();
        let mut pool = Pool::create(pool, &PoolSpec { uuid, ..PoolSpec::default() }).unwrap();
        let log = Log::prepare(&mut pool, &LogOptions::here()).unwrap().log;
        let clock = |from_now: i64| Cell::new(crate::client::wall_ns().saturating_add_signed(from_now));
        let lost = Self { dir, client: Client::new(log).unwrap(), clocks: from_now.map(clock) };
        fs::create_dir_all(dir.join("sub")).unwrap();
        for (which, path) in [dir.to_owned(), dir.join("sub")].into_iter().enumerate() {
            let identity = Identity::of(File::open(&path).unwrap().as_fd(), path);
            let call = OneCall { look: lost.look(which), identity, bytes: b"", size: Cell::new(0) };
            let slot = lost.client.slot(&lost.look(which)).unwrap().unwrap();
            assert_eq!(lost.client.sync(slot, &call), Ok(false));
        }
        lost
    }

    pub(super) fn look(&self, dir: usize) -> Look {
        let (now, kind) = (self.clocks[dir].get(), FileKind::Directory);
        Look { dev: DEV, ino: 2 + dir as u64, birth: 1, ctime: now, mtime: now, size: 0, kind, set_id: false }
    }

    pub(super) fn slot(&self, dir: usize) -> SlotKey {
        self.client.trusted(&self.look(dir)).unwrap().unwrap()
    }

    pub(super) fn change(&self, change: Change, old: &str, name: &str, subject: &Subject, replaced: Option<Subject>) {
        let done = self.changed(change, [old, name], subject, replaced, false);
        assert_eq!(done, Ok(Written::Done(())), "{name}");
    }

    /// As [`Lost::change`], if the file that is replaced is `linked` meanwhile.
    pub(super) fn changed(
        &self,
        change: Change,
        [old, name]: [&str; 2],
        subject: &Subject,
        replaced: Option<Subject>,
        linked: bool,
    ) -> Result<Written<()>, ()> {
        let ((there, name), (from, old)) = (split(name), split(old));
        let left = (change == Change::Rename && from != there).then_some(from);
        let change = if left.is_some() { Change::Arrive } else { change };
        let names = Names { change, name: name.into(), old: old.into() };
        let (subject, looks) = (subject.clone(), Cell::new(0));
        let call = OneChange { lost: self, names, there, left, subject, replaced, linked, looks };
        self.client.change_names(self.slot(there), left.map(|left| self.slot(left)), &call)
    }

    /// A file that the kernel has not kept, with these bytes.
    pub(super) fn born(&self, name: &str, ino: u64, bytes: &'static [u8]) -> Subject {
        let now = crate::client::wall_ns();
        let look =
            Look { dev: DEV, ino, birth: ino, ctime: now, mtime: now, size: 0, kind: FileKind::File, set_id: false };
        let (handle, owner) = (Handle { kind: 1, bytes: vec![ino as u8; 8] }, fs::metadata(self.dir).unwrap());
        let subject = Subject { look, handle, links: 1, mode: 0o100_604, uid: owner.uid(), gid: owner.gid() };
        self.change(Change::Create, "", name, &subject, None);
        // Its ctime is one later when it is looked at the second time.
        let subject = Subject { look: Look { ctime: now + 1, ..look }, ..subject };
        if bytes.is_empty() { subject } else { self.write(&subject, bytes) }
    }

    /// A file that is there, and trusted: nothing was written to it.
    pub(super) fn trust(&self, name: &str) -> Subject {
        let path = self.dir.join(name);
        let file = Subject { look: Look { dev: DEV, ..self.real(name).look }, ..self.real(name) };
        let identity = Identity::of(File::open(&path).unwrap().as_fd(), path);
        let call = OneCall { look: file.look, identity, bytes: b"", size: Cell::new(file.look.size) };
        let slot = self.client.slot(&file.look).unwrap().unwrap();
        assert_eq!(self.client.sync(slot, &call), Ok(false));
        file
    }

    /// Logs bytes at the end of a trusted file.
    pub(super) fn write(&self, file: &Subject, bytes: &'static [u8]) -> Subject {
        let call = OneCall { look: file.look, identity: None, bytes, size: Cell::new(file.look.size) };
        let slot = self.client.slot(&file.look).unwrap().unwrap();
        assert_eq!(self.client.write(slot, &call), Ok(Written::Done(bytes.len())));
        Subject { look: call.look().unwrap(), ..file.clone() }
    }

    /// What is there on the disk.
    pub(super) fn real(&self, name: &str) -> Subject {
        let dir = File::open(self.dir).unwrap();
        Subject::at(dir.as_fd(), &std::ffi::CString::new(name).unwrap()).unwrap()
    }

    /// Recovery, of the log as it is now, which stays so.
    pub(super) fn recover(&self, begun: bool) -> Vec<Outcome> {
        self.recover_but(begun, &[])
    }

    /// As [`Lost::recover`], if one that was cut had retired these directories.
    pub(super) fn recover_but(&self, begun: bool, retired: &[usize]) -> Vec<Outcome> {
        let log = &self.client.log;
        self.client.persist().unwrap();
        let copy = Nvm::from_bytes(&log.nvm.to_bytes().unwrap()).unwrap();
        let log = Log::join(copy).unwrap();
        if begun {
            for dir in &crate::found(&log).unwrap().dirs {
                let begun = Begun { behind: dir.records[0].sequence - 1, waits: false };
                log.slot(dir.slot).begin_names(dir.incarnation, begun).unwrap();
            }
        }
        for dir in &crate::found(&log).unwrap().dirs {
            if retired.iter().any(|retired| self.slot(*retired).index == dir.slot) {
                log.retire_dir(dir).unwrap();
            }
        }
        let recovered = crate::recover(&log).unwrap();
        assert!(recovered.is_complete() && crate::found(&log).unwrap().is_empty(), "{recovered:?}");
        recovered.files.into_iter().map(|(_, outcome)| outcome).collect()
    }

    pub(super) fn contents(&self) -> BTreeMap<String, Vec<u8>> {
        let mut contents = BTreeMap::new();
        for (dir, before) in [(self.dir.to_owned(), ""), (self.dir.join("sub"), "sub/")] {
            for entry in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap()) {
                let name = entry.file_name().into_string().unwrap();
                if name != "sub" {
                    contents.insert(format!("{before}{name}"), fs::read(entry.path()).unwrap());
                }
            }
        }
        contents
    }
}
