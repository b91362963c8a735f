//! `create-fsync`: new files that are durable before the next one begins, as mail servers and package managers make
//! them.

use super::{Definition, Footprint, ParamDef, Plan, Prepared, Worker, Workload, nth, thread_dir};
use crate::contents::Contents;
use crate::fs::{Append, Dir, Durable, Fs};
use crate::measure::Meter;
use crate::rng::Rng;
use crate::units::MIB;
use std::io;
use std::sync::Arc;

pub(super) const DEFINITION: Definition = Definition {
    name: "create-fsync",
    about: "create a file, write it, fsync it, close it",
    params: &[
        ParamDef::number("size", "4k", "bytes in a file", 0, 64 * MIB),
        ParamDef::number("files", "10000", "files in a directory; every thread has its own directories", 1, 10_000_000),
    ],
    threads: 1,
    ops: 20_000,
    most_ops: 200_000,
    build: |params| Ok(Box::new(Create { size: params.number("size"), files: params.number("files").max(1) })),
};

struct Create {
    size: u64,
    files: u64,
}

impl Create {
    fn dirs(&self, plan: &Plan) -> u64 {
        plan.ops.div_ceil(self.files).max(1)
    }
}

impl Workload for Create {
    fn footprint(&self, plan: &Plan) -> Footprint {
        let files = plan.ops.saturating_mul(plan.threads.into());
        let dirs = self.dirs(plan).saturating_add(1).saturating_mul(plan.threads.into());
        let bytes = files.saturating_mul(self.size.next_multiple_of(4096));
        // A name takes up to 40 bytes of a directory that is at worst half full.
        Footprint { bytes: bytes.saturating_add(files.saturating_mul(80)), files: files.saturating_add(dirs) }
    }

    fn longest(&self) -> u64 {
        self.size
    }

    fn prepare(&self, fs: &dyn Fs, plan: &Plan) -> io::Result<Box<dyn Prepared>> {
        let root = fs.root();
        let mut dirs = Vec::new();
        for thread in 0..plan.threads {
            let dir = thread_dir(&root, thread)?;
            dirs.push((0..self.dirs(plan)).map(|d| dir.mkdir(&format!("{d:04}"))).collect::<io::Result<_>>()?);
        }
        let contents = Arc::clone(&plan.contents);
        Ok(Box::new(Ready { dirs, size: self.size, contents, files: self.files, seed: plan.seed }))
    }
}

struct Ready {
    /// By thread.
    dirs: Vec<Vec<Arc<dyn Dir>>>,
    size: u64,
    contents: Arc<Contents>,
    files: u64,
    seed: u64,
}

impl Prepared for Ready {
    fn worker(&self, thread: u32) -> io::Result<Box<dyn Worker + '_>> {
        Ok(Box::new(Creator {
            ready: self,
            dirs: nth(&self.dirs, thread as usize)?,
            rng: Rng::new(self.seed, 1 + u64::from(thread)),
            next: 0,
        }))
    }
}

struct Creator<'a> {
    ready: &'a Ready,
    dirs: &'a [Arc<dyn Dir>],
    rng: Rng,
    next: u64,
}

impl Worker for Creator<'_> {
    fn step(&mut self, meter: &mut Meter) -> io::Result<()> {
        let dir = nth(self.dirs, (self.next / self.ready.files) as usize)?;
        let name = format!("{:08}", self.next);
        self.next += 1;
        let data = self.ready.contents.piece(&mut self.rng, self.ready.size);
        meter.time(|meter| {
            let mut file = dir.create(&name, Append::Seek)?;
            file.write_at(0, data)?;
            meter.fsync(file.as_mut(), Some(Durable::All))?;
            file.close()
        })?;
        meter.user_bytes += data.len() as u64;
        Ok(())
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}
