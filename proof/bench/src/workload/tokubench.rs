//! `tokubench`: many small files in a balanced tree of directories (facts: BetrFS, FAST '15, which creates three
//! million files of 200 bytes, no directory with more than 128 entries).
//!
//! Every thread fills a tree of its own, leaf after leaf; a directory is made with the first file below it, within the
//! measured time. A file is an operation, so that operations a second are files a second over the whole run.

use super::{Definition, Footprint, ParamDef, Plan, Prepared, Worker, Workload, thread_dir};
use crate::contents::Contents;
use crate::fs::{Append, Dir, Fs};
use crate::measure::Meter;
use crate::rng::Rng;
use crate::units::MIB;
use std::io;
use std::sync::Arc;

pub(super) const DEFINITION: Definition = Definition {
    name: "tokubench",
    about: "make a small file in a balanced tree of directories, write it, close it",
    params: &[
        ParamDef::number("size", "200", "bytes in a file", 0, 64 * MIB),
        ParamDef::number("fanout", "128", "entries in a directory", 2, 60_000),
    ],
    threads: 1,
    ops: 100_000,
    most_ops: 2_000_000,
    build: |params| Ok(Box::new(Tokubench { size: params.number("size"), fanout: params.number("fanout").max(2) })),
};

#[derive(Clone, Copy)]
struct Tokubench {
    size: u64,
    fanout: u64,
}

impl Tokubench {
    /// Levels of directories above a thread's files, so that none has more entries than it may.
    fn levels(&self, files: u64) -> u32 {
        let mut leaves = files.div_ceil(self.fanout);
        let mut levels = 0;
        while leaves > 1 {
            leaves = leaves.div_ceil(self.fanout);
            levels += 1;
        }
        levels
    }
}

impl Workload for Tokubench {
    fn footprint(&self, plan: &Plan) -> Footprint {
        let files = plan.ops.saturating_mul(plan.threads.into());
        let dirs = (files / self.fanout).saturating_mul(2).saturating_add(2 * u64::from(plan.threads));
        let bytes = files.saturating_mul(self.size.next_multiple_of(4096)).saturating_add(dirs.saturating_mul(8192));
        Footprint { bytes, files: files.saturating_add(dirs) }
    }

    fn longest(&self) -> u64 {
        self.size
    }

    fn prepare(&self, fs: &dyn Fs, plan: &Plan) -> io::Result<Box<dyn Prepared>> {
        let root = fs.root();
        let tops = (0..plan.threads).map(|thread| thread_dir(&root, thread)).collect::<io::Result<_>>()?;
        let levels = self.levels(plan.ops);
        Ok(Box::new(Ready { work: *self, tops, levels, contents: Arc::clone(&plan.contents), seed: plan.seed }))
    }
}

struct Ready {
    work: Tokubench,
    /// Of each thread.
    tops: Vec<Arc<dyn Dir>>,
    levels: u32,
    contents: Arc<Contents>,
    seed: u64,
}

impl Prepared for Ready {
    fn worker(&self, thread: u32) -> io::Result<Box<dyn Worker + '_>> {
        let top = Arc::clone(super::nth(&self.tops, thread as usize)?);
        let rng = Rng::new(self.seed, 1 + u64::from(thread));
        Ok(Box::new(Hand { ready: self, leaf: Arc::clone(&top), top, rng, made: 0 }))
    }
}

struct Hand<'a> {
    ready: &'a Ready,
    top: Arc<dyn Dir>,
    /// Where files are being made.
    leaf: Arc<dyn Dir>,
    rng: Rng,
    made: u64,
}

impl Hand<'_> {
    /// Makes the directories that begin with this leaf, and goes there.
    fn go_to(&mut self, leaf: u64) -> io::Result<()> {
        let fanout = self.ready.work.fanout;
        let mut dir = Arc::clone(&self.top);
        for level in (0..self.ready.levels).rev() {
            // Leaves below a directory of this level; it begins with the first of them.
            let below = fanout.saturating_pow(level);
            let name = format!("{:05}", leaf / below % fanout);
            if leaf.is_multiple_of(below) {
                dir.mkdir(&name)?;
            }
            dir = dir.pass(&name)?;
        }
        self.leaf = dir;
        Ok(())
    }
}

impl Worker for Hand<'_> {
    fn step(&mut self, meter: &mut Meter) -> io::Result<()> {
        let Tokubench { size, fanout } = self.ready.work;
        let n = self.made;
        self.made += 1;
        let data = self.ready.contents.piece(&mut self.rng, size);
        meter.time(|_| {
            if n.is_multiple_of(fanout) {
                self.go_to(n / fanout)?;
            }
            let mut file = self.leaf.create(&format!("{n:08}"), Append::Seek)?;
            file.write_at(0, data)?;
            file.close()
        })?;
        meter.user_bytes += size;
        Ok(())
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}
