//! The disk after a cut, as recovery finds and changes it: directories and files behind a page cache, and what a cut
//! of recovery leaves of them.
//!
//! What is open is a file in memory that has the bytes.

use super::Random;
use super::kernel::{DIRS, Kernel, Moment, handle};
use ondol_env::sync::Arc;
use ondol_power::PowerDomain;
use ondol_run_log::{FileKind, Handle, Home, Listed, Look, Lookup, NameRecord, Subject, Times, Tree};
use rustix::fs::{OFlags, Timespec};
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

const SECOND: u64 = 1_000_000_000;

/// What the file system of the model is known by.
pub(crate) const FSID: u64 = 5;

/// A directory and a name.
type Entry = (usize, Vec<u8>);

/// A file or directory: those of the kernel by their numbers, then the root, then what recovery makes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    /// The file of the kernel's that it is, or is made for.
    pub(crate) of: usize,
    pub(crate) bytes: Vec<u8>,
    ctime: u64,
    mtime: u64,
}

/// What is to be read.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) nodes: Vec<Node>,
    pub(crate) names: BTreeMap<Entry, usize>,
    root: usize,
    /// Recovery is root's, who may open handles.
    is_roots: bool,
    /// The clock.
    now: u64,
}

#[derive(Clone)]
enum Step {
    Make(usize),
    Link(usize, Entry),
    Unlink(Entry),
    Rename(Entry, Entry),
    Write(usize, usize, Vec<u8>),
    Cut(usize, usize),
    Times(usize, u64),
    Sync(usize),
}

impl Step {
    /// The file, or the directory, that it changes or makes durable.
    fn node(&self) -> Option<usize> {
        match self {
            Self::Make(_) => None,
            Self::Link(_, (dir, _)) | Self::Unlink((dir, _)) | Self::Rename((dir, _), _) => Some(*dir),
            Self::Write(node, ..) | Self::Cut(node, _) | Self::Times(node, _) | Self::Sync(node) => Some(*node),
        }
    }
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = |(dir, name): &Entry| format!("d{dir}/{}", String::from_utf8_lossy(name));
        match self {
            Self::Make(of) => write!(f, "make again {of}"),
            Self::Link(node, to) => write!(f, "link {node} {}", path(to)),
            Self::Unlink(from) => write!(f, "unlink {}", path(from)),
            Self::Rename(from, to) => write!(f, "rename {} {}", path(from), path(to)),
            Self::Write(node, at, bytes) => write!(f, "write {node} {at} {}", bytes.len()),
            Self::Cut(node, len) => write!(f, "truncate {node} {len}"),
            Self::Times(node, mtime) => write!(f, "mtime of {node} {mtime}"),
            Self::Sync(node) => write!(f, "sync {node}"),
        }
    }
}

/// A step, and when it was done.
#[derive(Clone, Debug)]
struct Done {
    at: u64,
    step: Step,
}

/// Which part of a step the disk has.
#[derive(Clone, Copy)]
struct Part {
    contents: bool,
    times: bool,
}

impl State {
    /// What the disk has at a moment.
    pub(crate) fn of(kernel: &Kernel, moment: &Moment) -> Self {
        let node = |(of, file): (usize, &super::kernel::Inode)| {
            let bytes = file.bytes[..moment.home.get(of).copied().unwrap_or(0)].to_vec();
            let (ctime, mtime) = moment.times.get(of).copied().unwrap_or_default();
            Node { of, bytes, ctime, mtime }
        };
        let mut nodes: Vec<Node> = kernel.files.iter().enumerate().map(node).collect();
        let root = nodes.len();
        nodes.push(Node { of: root, ..Node::default() });
        let names = kernel.states[moment.names].0.iter().map(|((dir, name), file)| ((*dir, vec![*name]), *file));
        let dirs = (0..DIRS).map(|dir| ((root, format!("d{dir}").into_bytes()), dir));
        Self {
            nodes,
            names: names.chain(dirs).collect(),
            root,
            is_roots: kernel.states.len().is_multiple_of(2),
            now: kernel.clock,
        }
    }

    fn is_dir(&self, node: usize) -> bool {
        node < DIRS || node == self.root
    }

    fn take(&mut self, step: &Step, part: Part) {
        match step {
            Step::Make(of) => self.nodes.push(Node { of: *of, ctime: self.now, mtime: self.now, ..Node::default() }),
            Step::Link(node, to) if part.contents => drop(self.names.insert(to.clone(), *node)),
            Step::Unlink(from) if part.contents => drop(self.names.remove(from)),
            Step::Rename(from, to) if part.contents => {
                let node = self.names.remove(from);
                self.names.extend(node.map(|node| (to.clone(), node)));
            }
            Step::Write(node, at, bytes) if part.contents => {
                let now = &mut self.nodes[*node].bytes;
                now.resize(now.len().max(at + bytes.len()), 0);
                now[*at..at + bytes.len()].copy_from_slice(bytes);
            }
            Step::Cut(node, len) if part.contents => self.nodes[*node].bytes.resize(*len, 0),
            _ => {}
        }
        let Some(node) = step.node().filter(|_| part.times && !matches!(step, Step::Sync(_))) else { return };
        let mtime = if let Step::Times(_, mtime) = step { *mtime } else { self.now };
        (self.nodes[node].ctime, self.nodes[node].mtime) = (self.now, mtime);
    }

    /// What a cut leaves after these steps. A journal commits names and times in their order, and all of them up to
    /// any sync; where there is `none`, each directory and each file is made durable by its own sync alone. Bytes are
    /// by that of their file in both.
    fn cut(&self, done: &[Done], random: &mut Random, none: bool) -> Self {
        let (all, steps) = (done.len(), done.iter().map(|done| &done.step));
        let mut upto = |least: usize| match random.below(3) {
            0 => least,
            1 => all,
            _ => least + random.below((all - least) as u64 + 1) as usize,
        };
        let behind = |is_sync: &dyn Fn(&Step) -> bool| steps.clone().rposition(is_sync).map_or(0, |last| last + 1);
        let committed = upto(behind(&|step| matches!(step, Step::Sync(_))));
        let mut kept = BTreeMap::new();
        for node in steps.clone().filter_map(Step::node) {
            let is_synced = |step: &Step| matches!(step, Step::Sync(synced) if *synced == node);
            kept.entry(node).or_insert_with(|| upto(behind(&is_synced)));
        }
        let mut state = self.clone();
        for (n, Done { at, step }) in done.iter().enumerate() {
            state.now = *at;
            let own = step.node().is_none_or(|node| n < kept[&node]);
            let is_of_a_dir = step.node().is_none_or(|node| self.is_dir(node));
            let part = match none {
                true => Part { contents: own, times: own },
                false => Part { contents: n < committed && (own || is_of_a_dir), times: n < committed },
            };
            state.take(step, part);
        }
        state
    }
}

/// The model, while a recovery runs.
#[derive(Debug)]
pub(crate) struct Disk {
    pub(crate) power: Arc<PowerDomain>,
    before: State,
    live: RefCell<State>,
    steps: RefCell<Vec<Done>>,
    open: RefCell<BTreeMap<usize, File>>,
    /// The nodes of what is open, by the inodes of this kernel's.
    inodes: RefCell<BTreeMap<u64, usize>>,
    /// Calls that have needed the disk.
    calls: Cell<u64>,
    /// Those that it refuses.
    refused: RefCell<Range<u64>>,
}

impl Disk {
    /// An hour later.
    pub(crate) fn new(power: Arc<PowerDomain>, mut before: State) -> Self {
        before.now += 3_600 * SECOND;
        let live = RefCell::new(before.clone());
        let (steps, open, inodes) = Default::default();
        Self { power, before, live, steps, open, inodes, calls: Cell::new(0), refused: RefCell::default() }
    }

    /// What is to be read now.
    pub(crate) fn live(&self) -> State {
        self.live.borrow().clone()
    }

    /// What a cut leaves after so many steps.
    pub(crate) fn cut(&self, steps: u64, random: &mut Random) -> State {
        let none = random.below(3) == 0;
        self.before.cut(&self.steps.borrow()[..steps as usize], random, none)
    }

    /// What was done.
    pub(crate) fn steps(&self) -> Vec<String> {
        self.steps.borrow().iter().map(|done| format!("{:?}", done.step)).collect()
    }

    /// It will refuse calls by these numbers.
    pub(crate) fn refuses(&self, calls: Range<u64>) {
        *self.refused.borrow_mut() = calls;
    }

    /// Ten minutes later it refuses nothing more.
    pub(crate) fn is_well(&self) {
        self.refuses(0..0);
        self.live.borrow_mut().now += 600 * SECOND;
    }

    fn step(&self, step: Step) -> io::Result<()> {
        self.asked()?;
        let (mut live, mut steps) = (self.live.borrow_mut(), self.steps.borrow_mut());
        live.now += 1;
        live.take(&step, Part { contents: true, times: true });
        steps.push(Done { at: live.now, step });
        self.power.mark(steps.len() as u64);
        Ok(())
    }

    /// A call that needs the disk.
    fn asked(&self) -> io::Result<()> {
        let call = self.calls.replace(self.calls.get() + 1);
        if self.refused.borrow().contains(&call) { Err(Errno::IO.into()) } else { Ok(()) }
    }

    fn node(&self, file: &File) -> io::Result<usize> {
        let ino = file.metadata()?.ino();
        Ok(self.inodes.borrow()[&ino])
    }

    fn entry(&self, dir: &File, name: &[u8]) -> io::Result<Entry> {
        Ok((self.node(dir)?, name.to_vec()))
    }

    fn there(&self, dir: &File, name: &[u8]) -> io::Result<usize> {
        let entry = self.entry(dir, name)?;
        self.live.borrow().names.get(&entry).copied().ok_or(Errno::NOENT.into())
    }

    fn opened(&self, node: usize, flags: OFlags) -> io::Result<File> {
        self.asked()?;
        let (live, mut open) = (self.live.borrow(), self.open.borrow_mut());
        if flags.contains(OFlags::DIRECTORY) && !live.is_dir(node) {
            return Err(Errno::NOTDIR.into());
        }
        if let Some(file) = open.get(&node) {
            return file.try_clone();
        }
        let file = File::from(rustix::fs::memfd_create("file", rustix::fs::MemfdFlags::CLOEXEC)?);
        file.write_all_at(&live.nodes[node].bytes, 0)?;
        self.inodes.borrow_mut().insert(file.metadata()?.ino(), node);
        open.insert(node, file.try_clone()?);
        Ok(file)
    }

    fn look_at(&self, node: usize) -> Look {
        let live = self.live.borrow();
        let Node { ctime, mtime, ref bytes, .. } = live.nodes[node];
        let kind = if live.is_dir(node) { FileKind::Directory } else { FileKind::File };
        // Another device than before the cut.
        let (dev, ino, size) = (8, node as u64 + 1, bytes.len() as u64);
        Look { dev, ino, birth: 1, ctime, mtime, size, kind, set_id: false }
    }
}

impl Lookup for Disk {
    fn now_ns(&self) -> u64 {
        self.live.borrow().now
    }

    fn trees(&self, fsids: &BTreeSet<u64>) -> Vec<Tree> {
        let root = self.live.borrow().root;
        let dir = fsids.contains(&FSID).then(|| self.opened(root, OFlags::PATH).ok()).flatten();
        dir.map(|dir| Tree { fsid: FSID, root: "/".into(), point: "/".into(), dir }).into_iter().collect()
    }

    fn open_below(&self, dir: &File, path: &Path, flags: OFlags) -> io::Result<File> {
        let (mut node, live) = (self.node(dir)?, self.live.borrow());
        for name in path.iter().filter(|name| *name != ".") {
            node = *live.names.get(&(node, name.as_bytes().to_vec())).ok_or(Errno::NOENT)?;
        }
        drop(live);
        self.opened(node, flags)
    }

    fn open_handle(&self, _mount: &File, wanted: &Handle) -> io::Result<File> {
        let live = self.live.borrow();
        if !live.is_roots {
            return Err(Errno::PERM.into());
        }
        let found = live.names.values().copied().find(|node| handle(*node) == *wanted);
        drop(live);
        self.opened(found.ok_or(Errno::STALE)?, OFlags::PATH)
    }

    fn reopen(&self, found: &File, _writable: bool) -> io::Result<File> {
        found.try_clone()
    }

    fn open(&self, dir: &File, name: &[u8], flags: OFlags) -> io::Result<File> {
        self.opened(self.there(dir, name)?, flags)
    }

    fn list(&self, dir: &File) -> io::Result<Vec<Listed>> {
        self.asked()?;
        let (dir, live) = (self.node(dir)?, self.live.borrow());
        let listed = |(entry, node): (&Entry, &usize)| Listed {
            name: entry.1.clone(),
            ino: *node as u64 + 1,
            may_be_dir: live.is_dir(*node),
        };
        Ok(live.names.iter().filter(|(entry, _)| entry.0 == dir).map(listed).collect())
    }

    fn look(&self, file: &File) -> io::Result<Look> {
        Ok(self.look_at(self.node(file)?))
    }

    fn times(&self, file: &File) -> io::Result<Times> {
        let ns = self.look(file)?.mtime;
        let time = Timespec { tv_sec: (ns / SECOND) as i64, tv_nsec: (ns % SECOND) as _ };
        Ok(Times { atime: time, mtime: time })
    }

    fn handle(&self, file: &File) -> io::Result<Handle> {
        Ok(handle(self.node(file)?))
    }

    fn subject(&self, dir: &File, name: &[u8]) -> io::Result<Subject> {
        let node = self.there(dir, name)?;
        let links = self.live.borrow().names.values().filter(|other| **other == node).count() as u32;
        Ok(Subject { look: self.look_at(node), handle: handle(node), links, mode: 0o100_604, uid: 0, gid: 0 })
    }

    fn handle_at(&self, dir: &File, name: &[u8]) -> io::Result<Handle> {
        Ok(handle(self.there(dir, name)?))
    }
}

impl Home for Disk {
    fn unnamed(&self, _dir: &File, record: &NameRecord) -> io::Result<File> {
        self.step(Step::Make(record.uid as usize))?;
        let made = self.live.borrow().nodes.len() - 1;
        self.opened(made, OFlags::RDWR)
    }

    fn create(&self, dir: &File, name: &[u8]) -> io::Result<File> {
        if self.there(dir, name).is_ok() {
            return Err(Errno::EXIST.into());
        }
        self.step(Step::Make(usize::MAX))?;
        let made = self.live.borrow().nodes.len() - 1;
        self.step(Step::Link(made, self.entry(dir, name)?))?;
        self.opened(made, OFlags::WRONLY)
    }

    fn link(&self, file: &File, dir: &File, name: &[u8]) -> io::Result<()> {
        match self.there(dir, name) {
            Ok(_) => Err(Errno::EXIST.into()),
            Err(_) => self.step(Step::Link(self.node(file)?, self.entry(dir, name)?)),
        }
    }

    fn unlink(&self, dir: &File, name: &[u8]) -> io::Result<()> {
        self.there(dir, name)?;
        self.step(Step::Unlink(self.entry(dir, name)?))
    }

    fn rename(&self, dir: &File, old: &[u8], new: &[u8]) -> io::Result<()> {
        // Two names of one file: nothing is done.
        if self.there(dir, new).ok() == Some(self.there(dir, old)?) {
            return Ok(());
        }
        self.step(Step::Rename(self.entry(dir, old)?, self.entry(dir, new)?))
    }

    fn write(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.step(Step::Write(self.node(file)?, offset as usize, bytes.to_vec()))?;
        file.write_all_at(bytes, offset)
    }

    fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        self.step(Step::Cut(self.node(file)?, len as usize))?;
        file.set_len(len)
    }

    fn set_times(&self, file: &File, times: Times) -> io::Result<()> {
        let mtime = times.mtime.tv_sec as u64 * SECOND + times.mtime.tv_nsec as u64;
        self.step(Step::Times(self.node(file)?, mtime))
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        self.step(Step::Sync(self.node(file)?))
    }
}
