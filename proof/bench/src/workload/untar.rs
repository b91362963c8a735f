//! `untar`: trees of small files, without fsync.

use super::{Definition, Footprint, Plan, Prepared, Worker, Workload, thread_dir};
use crate::contents::Contents;
use crate::fs::{Append, Dir, Fs};
use crate::measure::Meter;
use crate::rng::Rng;
use std::io;
use std::sync::Arc;

/// Largest file, bytes; half of them are below a quarter of it.
const MAX: u64 = 32 << 10;

/// Files in a directory.
const FILES: u64 = 20;

pub(super) const DEFINITION: Definition = Definition {
    name: "untar",
    about: "create and write a small file; every twentieth is the first of a new directory",
    params: &[],
    threads: 1,
    ops: 20_000,
    most_ops: 200_000,
    build: |_| Ok(Box::new(Untar)),
};

struct Untar;

impl Workload for Untar {
    fn footprint(&self, plan: &Plan) -> Footprint {
        let files = plan.ops.saturating_mul(plan.threads.into());
        // A name takes up to 40 bytes of a directory that is at worst half full.
        Footprint { bytes: files.saturating_mul(MAX + 80), files: files.saturating_add(files / FILES + 2) }
    }

    fn prepare(&self, fs: &dyn Fs, plan: &Plan) -> io::Result<Box<dyn Prepared>> {
        let root = fs.root();
        let tops = (0..plan.threads).map(|thread| thread_dir(&root, thread)).collect::<io::Result<_>>()?;
        Ok(Box::new(Ready { tops, contents: Arc::clone(&plan.contents), seed: plan.seed }))
    }
}

struct Ready {
    /// Of each thread.
    tops: Vec<Arc<dyn Dir>>,
    contents: Arc<Contents>,
    seed: u64,
}

impl Prepared for Ready {
    fn worker(&self, thread: u32) -> io::Result<Box<dyn Worker + '_>> {
        let dir = Arc::clone(super::nth(&self.tops, thread as usize)?);
        let rng = Rng::new(self.seed, 1 + u64::from(thread));
        Ok(Box::new(Hand { contents: &self.contents, below: Arc::clone(&dir), dir, rng, next: 0 }))
    }
}

struct Hand<'a> {
    contents: &'a Contents,
    dir: Arc<dyn Dir>,
    /// Where files are being made.
    below: Arc<dyn Dir>,
    rng: Rng,
    next: u64,
}

impl Worker for Hand<'_> {
    fn step(&mut self, meter: &mut Meter) -> io::Result<()> {
        let n = self.next;
        self.next += 1;
        let size = self.rng.below(MAX).min(self.rng.below(MAX));
        let data = self.contents.piece(&mut self.rng, size);
        meter.time(|_| {
            if n.is_multiple_of(FILES) {
                self.below = self.dir.mkdir(&format!("dir{:06}", n / FILES))?;
            }
            let mut file = self.below.create(&format!("file{n:08}"), Append::Seek)?;
            file.write_at(0, data)?;
            file.close()
        })?;
        meter.user_bytes += data.len() as u64;
        Ok(())
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}
