//! Work on names, without fsync: `create`, `unlink`, `rename`, `stat`, `readdir`, and `untar`, which makes trees of small files.

use super::{Definition, Footprint, ParamDef, Params, Plan, Prepared, Worker, Workload, thread_dir};
use crate::contents::Contents;
use crate::fs::{Append, Dir, Fs};
use crate::measure::Meter;
use crate::rng::Rng;
use std::io;
use std::sync::Arc;

/// Largest file that `untar` makes, bytes; half of them are below a quarter of it.
const UNTAR_MAX: u64 = 32 << 10;

/// Files in a directory that `untar` makes.
const UNTAR_FILES: u64 = 20;

const FILES: ParamDef =
    ParamDef::number("files", "20000", "files in the directory; every thread has its own", 1, 10_000_000);

const LISTED: ParamDef = ParamDef { default: "100000", ..FILES };

pub(super) const CREATE: Definition = Definition {
    name: "create",
    about: "create an empty file in one directory, close it",
    params: &[],
    settings: &[],
    threads: 1,
    ops: 50_000,
    most_ops: 2_000_000,
    build: |_| Ok(Box::new(Names { work: Work::Create, files: 0 })),
};

pub(super) const UNLINK: Definition = Definition {
    name: "unlink",
    about: "remove a file of one block from one directory",
    ops: 20_000,
    most_ops: 200_000,
    build: |_| Ok(Box::new(Names { work: Work::Unlink, files: 0 })),
    ..CREATE
};

pub(super) const RENAME: Definition = Definition {
    name: "rename",
    about: "rename a file within its directory",
    params: &[FILES],
    most_ops: u64::MAX,
    build: |params| Ok(names(Work::Rename, params)),
    ..CREATE
};

pub(super) const STAT: Definition = Definition {
    name: "stat",
    about: "stat a random file of one directory",
    params: &[FILES],
    ops: 200_000,
    most_ops: u64::MAX,
    build: |params| Ok(names(Work::Stat, params)),
    ..CREATE
};

pub(super) const READDIR: Definition = Definition {
    name: "readdir",
    about: "list a whole directory",
    params: &[LISTED],
    ops: 10,
    most_ops: u64::MAX,
    build: |params| Ok(names(Work::Readdir, params)),
    ..CREATE
};

pub(super) const UNTAR: Definition = Definition {
    name: "untar",
    about: "create and write a small file; every twentieth is the first of a new directory",
    build: |_| Ok(Box::new(Names { work: Work::Untar, files: 0 })),
    ops: 20_000,
    most_ops: 200_000,
    ..CREATE
};

fn names(work: Work, params: &Params) -> Box<dyn Workload> {
    Box::new(Names { work, files: params.number("files").max(1) })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Create,
    Unlink,
    Rename,
    Stat,
    Readdir,
    Untar,
}

struct Names {
    work: Work,
    /// Files that are there before; `unlink` has as many as operations.
    files: u64,
}

impl Names {
    fn there(&self, plan: &Plan) -> u64 {
        if self.work == Work::Unlink { plan.ops } else { self.files }
    }
}

impl Workload for Names {
    fn footprint(&self, plan: &Plan) -> Footprint {
        let made = if matches!(self.work, Work::Create | Work::Untar) { plan.ops } else { self.there(plan) };
        let files = made.saturating_mul(plan.threads.into());
        let each = match self.work {
            Work::Untar => UNTAR_MAX,
            Work::Unlink => 4096,
            _ => 0,
        };
        // A name takes up to 40 bytes of a directory that is at worst half full.
        Footprint { bytes: files.saturating_mul(each + 80), files: files.saturating_add(files / UNTAR_FILES + 2) }
    }

    fn prepare(&self, fs: &dyn Fs, plan: &Plan) -> io::Result<Box<dyn Prepared>> {
        let root = fs.root();
        let mut rng = Rng::new(plan.seed, 0);
        let files = self.there(plan);
        for thread in 0..plan.threads {
            let dir = thread_dir(&root, thread)?;
            for n in 0..files {
                let mut file = dir.create(&before(n), Append::Seek)?;
                if self.work == Work::Unlink {
                    file.write_at(0, plan.contents.piece(&mut rng, 4096))?;
                }
                file.close()?;
            }
        }
        Ok(Box::new(Ready { work: self.work, root, files, contents: Arc::clone(&plan.contents), seed: plan.seed }))
    }
}

fn before(n: u64) -> String {
    format!("file{n:08}")
}

fn after(n: u64) -> String {
    format!("renamed{n:08}")
}

struct Ready {
    work: Work,
    root: Arc<dyn Dir>,
    files: u64,
    contents: Arc<Contents>,
    seed: u64,
}

impl Prepared for Ready {
    fn worker(&self, thread: u32) -> io::Result<Box<dyn Worker + '_>> {
        let dir = self.root.enter(&format!("thread{thread:03}"))?;
        let rng = Rng::new(self.seed, 1 + u64::from(thread));
        Ok(Box::new(Hand { ready: self, below: Arc::clone(&dir), dir, rng, next: 0 }))
    }
}

struct Hand<'a> {
    ready: &'a Ready,
    dir: Arc<dyn Dir>,
    /// Where `untar` is.
    below: Arc<dyn Dir>,
    rng: Rng,
    next: u64,
}

impl Hand<'_> {
    /// A file that is there: each once in a round, in no order of the directory's.
    fn turn(&self, n: u64) -> u64 {
        const STRIDE: u64 = 7919;
        let files = self.ready.files;
        if files.is_multiple_of(STRIDE) { n % files } else { n % files * STRIDE % files }
    }
}

impl Worker for Hand<'_> {
    fn step(&mut self, meter: &mut Meter) -> io::Result<()> {
        let n = self.next;
        self.next += 1;
        match self.ready.work {
            Work::Create => meter.time(|_| self.dir.create(&before(n), Append::Seek)?.close()),
            Work::Unlink => {
                let name = before(self.turn(n));
                meter.time(|_| self.dir.unlink(&name))
            }
            Work::Rename => {
                let file = self.turn(n);
                let there = (n / self.ready.files).is_multiple_of(2);
                let (from, to) = if there { (before(file), after(file)) } else { (after(file), before(file)) };
                meter.time(|_| self.dir.rename(&from, &to))
            }
            Work::Stat => {
                let name = before(self.rng.below(self.ready.files));
                meter.time(|_| self.dir.stat(&name)).map(drop)
            }
            Work::Readdir => {
                let names = meter.time(|_| self.dir.list())?.len() as u64;
                let wrong = || io::Error::other(format!("{names} names of {} were listed", self.ready.files));
                if names == self.ready.files { Ok(()) } else { Err(wrong()) }
            }
            Work::Untar => {
                let size = self.rng.below(UNTAR_MAX).min(self.rng.below(UNTAR_MAX));
                let data = self.ready.contents.piece(&mut self.rng, size);
                meter.time(|_| {
                    if n.is_multiple_of(UNTAR_FILES) {
                        self.below = self.dir.mkdir(&format!("dir{:06}", n / UNTAR_FILES))?;
                    }
                    let mut file = self.below.create(&before(n), Append::Seek)?;
                    file.write_at(0, data)?;
                    file.close()
                })?;
                meter.user_bytes += data.len() as u64;
                Ok(())
            }
        }
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}
