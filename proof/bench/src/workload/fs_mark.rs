//! `fs-mark`: files of one size are made, written, synced and closed, one after the other, as fs_mark 3.3 does it (facts: its help
//! text and what it prints and leaves; the code is not its own).
//!
//! Names are 40 bytes long, 16 of which are equal for all files of a thread's loop, and 24 random. The seven ways to sync are its `-S 0` to `6`. A
//! loop is its `-n`: what syncs afterwards does so when a thread has made so many files, within the measured time. Files stay, as
//! with its `-k`. An operation is a file; fs_mark's "files a second" is operations a second.

use super::{Definition, Footprint, ParamDef, Params, Plan, Prepared, Setting, Worker, Workload, nth, thread_dir};
use crate::contents::Contents;
use crate::fs::{Append, Dir, Durable, Fs};
use crate::measure::Meter;
use crate::rng::Rng;
use crate::units::MIB;
use std::io;
use std::sync::Arc;

pub(super) const DEFINITION: Definition = Definition {
    name: "fs-mark",
    about: "make a file, write it, fsync it, close it, as fs_mark does (its option of each parameter in brackets)",
    params: &[
        ParamDef::number("size", "4k", "bytes in a file [-s]", 0, 64 * MIB),
        ParamDef::number("write", "16k", "bytes in a write [-w]", 1, 64 * MIB),
        ParamDef::word(
            "sync",
            "fsync",
            "none, fsync before close, or after a loop: sync-one, post-reverse, sync-post-reverse, post, sync-post [-S 0 to 6]",
            &["none", "fsync", "sync-one", "post-reverse", "sync-post-reverse", "post", "sync-post"],
        ),
        ParamDef::number("loop", "1000", "files of a thread's loop [-n]", 1, 10_000_000),
        ParamDef::number("subdirs", "0", "directories below a thread's own that take turns; 0 is none [-D]", 0, 60_000),
        ParamDef::number("each", "1", "files that a directory gets when it has its turn [-N]", 1, 10_000_000),
        ParamDef::word(
            "dirs",
            "own",
            "whether threads have directories of their own [as many -d as -t] or share one [one -d]",
            &["own", "shared"],
        ),
    ],
    settings: &[Setting { name: "original", about: "fs_mark's own size of a file", values: &[("size", "51200")] }],
    threads: 1,
    ops: 20_000,
    most_ops: 200_000,
    build: |params| Ok(Box::new(FsMark::new(params))),
};

/// What comes after a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    Nothing,
    /// One file of each directory.
    One,
    InOrder,
    InReverse,
}

#[derive(Clone, Copy)]
struct FsMark {
    size: u64,
    write: u64,
    /// fsync before close.
    in_loop: bool,
    /// A sync of everything, before what comes after a loop.
    sync_all: bool,
    after: After,
    files: u64,
    subdirs: u64,
    each: u64,
    shared: bool,
}

impl FsMark {
    fn new(params: &Params) -> Self {
        let sync = params.word("sync");
        Self {
            size: params.number("size"),
            write: params.number("write").max(1),
            in_loop: sync == "fsync",
            sync_all: sync.starts_with("sync-"),
            after: match sync {
                "sync-one" => After::One,
                "post" | "sync-post" => After::InOrder,
                "post-reverse" | "sync-post-reverse" => After::InReverse,
                _ => After::Nothing,
            },
            files: params.number("loop").max(1),
            subdirs: params.number("subdirs"),
            each: params.number("each").max(1),
            shared: params.word("dirs") == "shared",
        }
    }
}

impl Workload for FsMark {
    fn footprint(&self, plan: &Plan) -> Footprint {
        let files = plan.ops.saturating_mul(plan.threads.into());
        let dirs = self.subdirs.saturating_add(1).saturating_mul(plan.threads.into());
        // A name takes 48 bytes of a directory that is at worst half full.
        let bytes = files.saturating_mul(self.size.next_multiple_of(4096).saturating_add(96));
        Footprint { bytes: bytes.saturating_add(dirs.saturating_mul(4096)), files: files.saturating_add(dirs) }
    }

    fn longest(&self) -> u64 {
        self.size.min(self.write)
    }

    fn prepare(&self, fs: &dyn Fs, plan: &Plan) -> io::Result<Box<dyn Prepared>> {
        let root = fs.root();
        let below = |top: Arc<dyn Dir>| match self.subdirs {
            0 => Ok(vec![top]),
            n => (0..n).map(|n| top.mkdir(&format!("{n:02x}"))).collect::<io::Result<Vec<_>>>(),
        };
        let dirs = if self.shared {
            vec![below(root)?]
        } else {
            (0..plan.threads).map(|thread| below(thread_dir(&root, thread)?)).collect::<io::Result<_>>()?
        };
        let contents = Arc::clone(&plan.contents);
        Ok(Box::new(Ready { work: *self, dirs, contents, ops: plan.ops, seed: plan.seed }))
    }
}

struct Ready {
    work: FsMark,
    /// Of each thread, or of all.
    dirs: Vec<Vec<Arc<dyn Dir>>>,
    contents: Arc<Contents>,
    /// Files of each thread.
    ops: u64,
    seed: u64,
}

impl Prepared for Ready {
    fn worker(&self, thread: u32) -> io::Result<Box<dyn Worker + '_>> {
        let dirs = nth(&self.dirs, if self.work.shared { 0 } else { thread as usize })?;
        let rng = Rng::new(self.seed, 1 + u64::from(thread));
        Ok(Box::new(Hand { ready: self, dirs, rng, made: 0, names: Vec::new() }))
    }
}

struct Hand<'a> {
    ready: &'a Ready,
    dirs: &'a [Arc<dyn Dir>],
    rng: Rng,
    made: u64,
    /// The files of this loop with their directories; kept where something comes after it.
    names: Vec<(usize, String)>,
}

impl Hand<'_> {
    /// Forty bytes: a loop's number as its time stamp was, and random ones.
    fn name(&mut self) -> String {
        const LETTERS: &[u8; 36] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
        let mut name = format!("{:08x}~~~~~~~~", self.made / self.ready.work.files);
        for _ in 0..24 {
            let letter = LETTERS.get(self.rng.below(LETTERS.len() as u64) as usize).copied().unwrap_or(b'0');
            name.push(letter.into());
        }
        name
    }

    fn sync(&self, (dir, name): &(usize, String), meter: &mut Meter) -> io::Result<()> {
        let mut file = nth(self.dirs, *dir)?.open(name, Append::Seek)?;
        meter.fsync(file.as_mut(), Durable::All)?;
        file.close()
    }

    /// What is done when a loop is over.
    fn after(&mut self, meter: &mut Meter) -> io::Result<()> {
        let names = std::mem::take(&mut self.names);
        if self.ready.work.sync_all {
            nth(self.dirs, 0)?.sync_all()?;
        }
        match self.ready.work.after {
            After::Nothing => Ok(()),
            After::InOrder => names.iter().try_for_each(|file| self.sync(file, meter)),
            After::InReverse => names.iter().rev().try_for_each(|file| self.sync(file, meter)),
            After::One => {
                let last_of = |dir| names.iter().rfind(|(of, _)| *of == dir);
                (0..self.dirs.len()).filter_map(last_of).try_for_each(|file| self.sync(file, meter))
            }
        }
    }
}

impl Worker for Hand<'_> {
    fn step(&mut self, meter: &mut Meter) -> io::Result<()> {
        let work = self.ready.work;
        let dir = (self.made / work.each % self.dirs.len().max(1) as u64) as usize;
        let name = self.name();
        let target = nth(self.dirs, dir)?;
        meter.time(|meter| {
            let mut file = target.create(&name, Append::Seek)?;
            let mut offset = 0;
            while offset < work.size {
                let data = self.ready.contents.piece(&mut self.rng, (work.size - offset).min(work.write));
                file.write_at(offset, data)?;
                offset += data.len() as u64;
            }
            if work.in_loop {
                meter.fsync(file.as_mut(), Durable::All)?;
            }
            file.close()
        })?;
        meter.user_bytes += work.size;
        self.made += 1;
        if work.after != After::Nothing {
            self.names.push((dir, name));
        }
        if self.made.is_multiple_of(work.files) || self.made == self.ready.ops { self.after(meter) } else { Ok(()) }
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}
