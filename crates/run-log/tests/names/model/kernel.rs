//! A kernel that commits changes of names and times in their order, all at once, and keeps a file's bytes when it is
//! synced; and what a program asks of it.

use super::disk::FSID;
use ondol_env::sync::Arc;
use ondol_env::{Env, System};
use ondol_power::PowerDomain;
use ondol_run_log::{Call, Change, FileKind, Handle, Identity, Look, NameCall, Names, Place, Side, Subject, WriteCall};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Directories, before all files.
pub(crate) const DIRS: usize = 2;

/// A directory and a name.
pub(crate) type Name = (usize, u8);
pub(crate) type Bound = BTreeMap<Name, usize>;
/// A change of names, by number, and the directory that it was in.
pub(crate) type Step = (usize, usize);

/// What a cut may find, from a mark on.
#[derive(Clone, Default)]
pub(crate) struct Moment {
    /// How many changes of names the disk has.
    pub(crate) names: usize,
    /// What the disk has of each file.
    pub(crate) home: Vec<usize>,
    /// ctime and mtime of each file and directory on the disk.
    pub(crate) times: Vec<(u64, u64)>,
    /// Changes of each directory's names, and bytes of each file, that recovery may not fall behind.
    pub(crate) acked: [usize; DIRS],
    pub(crate) acked_bytes: Vec<usize>,
}

/// A file or directory.
#[derive(Clone, Default)]
pub(crate) struct Inode {
    pub(crate) bytes: Vec<u8>,
    pub(crate) ctime: u64,
    pub(crate) mtime: u64,
    pub(crate) born: Step,
    /// When it lost its last name.
    pub(crate) died: Option<Step>,
    /// It lost another name past the log: that may not be done when what is logged later is.
    pub(crate) unlogged: bool,
    /// The last change of its names in each directory.
    pub(crate) newest: [usize; DIRS],
}

pub(crate) struct Kernel {
    pub(crate) power: Arc<PowerDomain>,
    /// What the names stood for after each change, and the directories' ctimes then.
    pub(crate) states: Vec<(Bound, [u64; DIRS])>,
    pub(crate) files: Vec<Inode>,
    /// Files that were moved from one directory to the other.
    pub(crate) moves: Vec<usize>,
    /// Files that have replaced others: by which change, and how many bytes they had.
    pub(crate) over: Vec<(Step, usize, usize)>,
    pub(crate) clock: u64,
    pub(crate) now: Moment,
    pub(crate) moments: Vec<Moment>,
}

impl Kernel {
    pub(crate) fn mark(&mut self) {
        self.power.mark(self.moments.len() as u64);
        self.moments.push(self.now.clone());
    }

    pub(crate) fn tick(&mut self) -> u64 {
        let now = System.now();
        let now = now.sec as u64 * 1_000_000_000 + u64::from(now.nsec);
        self.clock = now.max(self.clock + 1);
        self.clock
    }

    pub(crate) fn bound(&self) -> &Bound {
        &self.states.last().unwrap().0
    }

    pub(crate) fn renames(&mut self, bound: Bound, file: usize, dirs: &[usize]) {
        let step = self.states.len();
        for dir in dirs {
            let ctime = self.tick();
            (self.files[*dir].ctime, self.files[*dir].mtime) = (ctime, ctime);
            self.files[file].newest[*dir] = step;
        }
        self.files[file].ctime = self.tick();
        let lost = |file: &usize| !bound.values().any(|bound| bound == file);
        let dead: Vec<usize> = self.bound().values().copied().filter(lost).collect();
        for dead in dead {
            self.files[dead].died = Some((step, dirs[0]));
        }
        let ctimes = [0, 1].map(|dir| self.files[dir].ctime);
        self.states.push((bound, ctimes));
    }

    /// A commit of the kernel's journal.
    pub(crate) fn commit(&mut self) {
        self.now.names = self.states.len() - 1;
        self.now.times = self.files.iter().map(|file| (file.ctime, file.mtime)).collect();
        self.mark();
    }

    pub(crate) fn look(&self, file: usize) -> Look {
        let Inode { bytes, ctime, mtime, .. } = &self.files[file];
        let kind = if file < DIRS { FileKind::Directory } else { FileKind::File };
        Look {
            dev: 7,
            ino: file as u64 + 1,
            birth: 1,
            ctime: *ctime,
            mtime: *mtime,
            size: bytes.len() as u64,
            kind,
            set_id: false,
        }
    }

    pub(crate) fn acknowledged(&mut self, file: usize) {
        if file < DIRS {
            self.now.acked[file] = self.states.len() - 1;
        } else {
            for (acked, newest) in self.now.acked.iter_mut().zip(self.files[file].newest) {
                *acked = newest.max(*acked);
            }
            self.now.acked_bytes[file] = self.files[file].bytes.len();
        }
        self.mark();
    }
}

pub(crate) fn handle(file: usize) -> Handle {
    Handle { kind: 1, bytes: (file as u64).to_le_bytes().to_vec() }
}

impl Kernel {
    fn path(&self, file: usize) -> PathBuf {
        let name = self.bound().iter().find(|(_, bound)| **bound == file).map(|(name, _)| *name);
        match name {
            Some((dir, name)) => format!("/d{dir}/{}", char::from(name)).into(),
            None => format!("/d{file}").into(),
        }
    }
}

/// A write to a file, or a sync of a file or a directory.
pub(crate) struct OneCall<'k> {
    pub(crate) kernel: &'k RefCell<Kernel>,
    pub(crate) file: usize,
    pub(crate) bytes: &'k [u8],
    /// They are to be durable when the write returns.
    pub(crate) durable: bool,
}

impl Call for OneCall<'_> {
    type Fail = ();

    fn look(&self) -> Result<Look, ()> {
        Ok(self.kernel.borrow().look(self.file))
    }

    fn now_ns(&self) -> u64 {
        0
    }

    fn settle(&self) -> bool {
        true
    }

    fn sync(&self) -> Result<(), ()> {
        let mut k = self.kernel.borrow_mut();
        k.now.home[self.file] = k.files[self.file].bytes.len();
        k.commit();
        Ok(())
    }

    fn refused(&self) {}

    fn refuses_sync(&self, (): &()) -> bool {
        false
    }

    fn identity(&self) -> Option<Identity> {
        let kind = self.look().ok()?.kind;
        let path = self.kernel.borrow().path(self.file);
        Some(Identity { fsid: FSID, ino: self.file as u64 + 1, kind, handle: handle(self.file), path })
    }
}

impl WriteCall for OneCall<'_> {
    fn refuses_write(&self, (): &()) -> bool {
        false
    }

    fn write(&self) -> Result<usize, ()> {
        let wrote = self.write_lazily(0)?;
        if self.durable {
            self.sync()?;
        }
        Ok(wrote)
    }

    fn durable(&self) -> bool {
        self.durable
    }

    fn lazy(&self) -> bool {
        true
    }

    fn write_lazily(&self, _start: u64) -> Result<usize, ()> {
        let mut k = self.kernel.borrow_mut();
        let now = k.tick();
        let file = &mut k.files[self.file];
        file.bytes.extend(self.bytes);
        (file.ctime, file.mtime) = (now, now);
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

/// A change of names.
pub(crate) struct OneChange<'k> {
    pub(crate) kernel: &'k RefCell<Kernel>,
    pub(crate) names: Names,
    pub(crate) there: Name,
    pub(crate) old: Name,
    pub(crate) held: Cell<Option<usize>>,
}

impl OneChange<'_> {
    fn of(&self, file: usize) -> Subject {
        let k = self.kernel.borrow();
        let links = k.bound().values().filter(|bound| **bound == file).count() as u32;
        // What recovery makes is told by its owner.
        Subject { look: k.look(file), handle: handle(file), links, mode: 0o100_604, uid: file as u32, gid: 0 }
    }

    fn at(&self, name: Name) -> Option<Subject> {
        let file = *self.kernel.borrow().bound().get(&name)?;
        Some(self.of(file))
    }

    /// The directory that a file leaves for another.
    pub(crate) fn left(&self) -> Option<usize> {
        (self.names.change == Change::Arrive).then_some(self.old.0)
    }
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
        Ok(self.kernel.borrow().look(if side == Side::Left { self.old.0 } else { self.there.0 }))
    }

    fn subject(&self, done: bool) -> Option<Subject> {
        match self.names.change {
            Change::Rename | Change::Arrive | Change::Link if !done => self.at(self.old),
            _ => self.held.get().map(|file| self.of(file)).or_else(|| self.at(self.there)),
        }
    }

    fn hold(&self) -> bool {
        self.held.set(self.kernel.borrow().bound().get(&self.there).copied());
        true
    }

    fn replaced(&self) -> Result<Option<Subject>, ()> {
        Ok(self.at(self.there))
    }

    fn run(&self) -> Result<(), ()> {
        let mut k = self.kernel.borrow_mut();
        let (mut bound, step) = (k.bound().clone(), k.states.len());
        let change = self.names.change;
        let file = match change {
            Change::Create => {
                let now = k.tick();
                let born = (step, self.there.0);
                k.files.push(Inode { ctime: now, mtime: now, born, ..Inode::default() });
                k.now.home.push(0);
                k.now.acked_bytes.push(0);
                k.files.len() - 1
            }
            Change::Link => bound[&self.old],
            Change::Remove => bound.remove(&self.there).unwrap(),
            _ => bound.remove(&self.old).unwrap(),
        };
        if change != Change::Remove && bound.insert(self.there, file).is_some() {
            // The kernel writes back what comes in the place of another.
            let len = k.files[file].bytes.len();
            k.over.push(((step, self.there.0), file, len));
            k.now.home[file] = len;
        }
        let dirs: Vec<usize> = [self.there.0].into_iter().chain(self.left()).collect();
        if dirs.len() == DIRS {
            k.moves.push(step);
        }
        k.renames(bound, file, &dirs);
        Ok(())
    }
}
