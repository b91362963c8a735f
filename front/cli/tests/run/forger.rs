//! What anybody can do who has a pool: a log for any file that can be named, made with the log's own means.

use crate::power::NOBODY;
use ondol_medium::{Nvm, NvmOptions, Pool, PoolSpec};
use ondol_run_log::{
    Call, Change, Client, FileKind, Identity, Log, LogOptions, Look, NameCall, Names, Place, Side, Subject, WriteCall,
    Written,
};
use std::cell::Cell;
use std::ffi::CString;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

/// What pools have.
pub(crate) const SIZE: u64 = 2 << 20;

/// A pool that is being forged, of another boot.
pub(crate) struct Forger(Client);

struct Forged<'f> {
    look: Look,
    identity: Identity,
    bytes: &'f [u8],
    size: Cell<u64>,
}

/// A file that a directory is said to have got.
struct Born<'f> {
    dir: Look,
    ctime: Cell<u64>,
    names: Names,
    file: &'f Subject,
}

fn subject(path: &Path) -> Subject {
    let dir = File::open(path.parent().unwrap()).unwrap();
    Subject::at(dir.as_fd(), &CString::new(path.file_name().unwrap().as_bytes()).unwrap()).unwrap()
}

impl Forger {
    /// A pool at `path`; another one goes.
    pub(crate) fn new(path: &Path) -> Self {
        let _ = fs::remove_file(path);
        let nvm = Nvm::create(path, SIZE, &NvmOptions::default()).unwrap();
        let mut pool = Pool::create(nvm, &PoolSpec { uuid: [7; 16], ..PoolSpec::default() }).unwrap();
        let boot = LogOptions { boot: [1; 16], ..LogOptions::here() };
        Self(Client::new(Log::prepare(&mut pool, &boot).unwrap().log).unwrap())
    }

    /// Whose it is, and who may do what with it.
    pub(crate) fn done(self, path: &Path, user: u32, mode: u32) {
        self.0.persist().unwrap();
        drop(self);
        chown(path, Some(user), Some(user)).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Bytes that a file is to begin with. As somebody who has changed it last, an hour ago, if `theirs`.
    pub(crate) fn bytes(self, victim: &Path, bytes: &[u8], theirs: bool) -> Self {
        let Subject { look, handle, .. } = subject(victim);
        let [mtime, ctime] = [look.mtime, look.ctime].map(|at| at - if theirs { 3_600_000_000_000 } else { 0 });
        let fsid = rustix::fs::statvfs(victim.parent().unwrap()).unwrap().f_fsid;
        let identity = Identity { fsid, ino: look.ino, kind: FileKind::File, handle, path: victim.into() };
        // Nobody asks whether the length is right: what was there already stays behind.
        let look = Look { size: 0, mtime, ctime, dev: 1, set_id: false, ..look };
        let call = Forged { look, identity, bytes, size: Cell::new(0) };
        let slot = self.0.slot(&look).unwrap().unwrap();
        assert_eq!(self.0.sync(slot, &call), Ok(false));
        assert_eq!(self.0.write(slot, &call), Ok(Written::Done(bytes.len())));
        self
    }

    /// A new file in a directory, with this mode and owner.
    pub(crate) fn born(self, path: &Path, mode: u32, user: u32) -> Self {
        let dir = path.parent().unwrap();
        let Subject { look, handle, .. } = subject(dir);
        let fsid = rustix::fs::statvfs(dir).unwrap().f_fsid;
        let look = Look { dev: 1, size: 0, ..look };
        let identity = Identity { fsid, ino: look.ino, kind: FileKind::Directory, handle, path: dir.into() };
        let call = Forged { look, identity, bytes: b"", size: Cell::new(0) };
        let slot = self.0.slot(&look).unwrap().unwrap();
        assert_eq!(self.0.sync(slot, &call), Ok(false));
        let handle = ondol_run_log::Handle { kind: 1, bytes: vec![0x7E; 8] };
        let file = Look { ino: 0x7E7E_7E7E, kind: FileKind::File, size: 0, ..look };
        let file = Subject { look: file, handle, links: 1, mode, uid: user, gid: user };
        let name = path.file_name().unwrap().as_bytes().to_vec();
        let names = Names { change: Change::Create, name, old: Vec::new() };
        let born = Born { dir: look, ctime: Cell::new(look.ctime), names, file: &file };
        assert_eq!(self.0.change_names(slot, None, &born), Ok(Written::Done(())));
        self
    }
}

impl Call for Forged<'_> {
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
        Some(self.identity.clone())
    }
}

impl WriteCall for Forged<'_> {
    fn refuses_write(&self, (): &()) -> bool {
        false
    }

    fn write(&self) -> Result<usize, ()> {
        self.size.set(self.bytes.len() as u64);
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

impl NameCall for Born<'_> {
    type Fail = ();

    fn now_ns(&self) -> u64 {
        0
    }

    fn names(&self) -> &Names {
        &self.names
    }

    fn look(&self, _side: Side) -> Result<Look, ()> {
        let ctime = self.ctime.get();
        let mtime = if ctime == self.dir.ctime { self.dir.mtime } else { ctime };
        Ok(Look { ctime, mtime, ..self.dir })
    }

    fn subject(&self, _done: bool) -> Option<Subject> {
        Some(self.file.clone())
    }

    fn hold(&self) -> bool {
        true
    }

    fn replaced(&self) -> Result<Option<Subject>, ()> {
        Ok(None)
    }

    fn run(&self) -> Result<(), ()> {
        self.ctime.set(self.dir.ctime + 1);
        Ok(())
    }
}

/// The user that forges.
pub(crate) const USER: u32 = NOBODY;
