//! `overwrite-fsync`: small writes in place into files that are there already, as databases make them.

use super::{Definition, Footprint, ParamDef, Params, Plan, Prepared, Worker, Workload};
use crate::BenchError;
use crate::contents::Contents;
use crate::fs::{Append, Dir, Durable, File, Fs};
use crate::measure::Meter;
use crate::rng::Rng;
use crate::units::{GIB, MIB};
use std::io;
use std::sync::Arc;

pub(super) const DEFINITION: Definition = Definition {
    name: "overwrite-fsync",
    about: "overwrite a random aligned block of a written file, fsync it",
    params: &[
        ParamDef::number("size", "4k", "bytes in an overwrite, and their alignment", 1, 64 * MIB),
        ParamDef::number("file-size", "64M", "bytes in a file; every thread has one", 1, 64 * GIB),
        ParamDef::word("sync", "fsync", "what makes it durable", &["fsync", "fdatasync"]),
    ],
    threads: 1,
    ops: 20_000,
    most_ops: u64::MAX,
    build,
};

fn build(params: &Params) -> Result<Box<dyn Workload>, BenchError> {
    let overwrite = Overwrite {
        size: params.number("size"),
        file_size: params.number("file-size"),
        sync: if params.word("sync") == "fdatasync" { Durable::Data } else { Durable::All },
    };
    if overwrite.file_size < overwrite.size {
        let text = format!("--param size={}: more than file-size={}", overwrite.size, overwrite.file_size);
        return Err(BenchError::Usage(text));
    }
    Ok(Box::new(overwrite))
}

struct Overwrite {
    size: u64,
    file_size: u64,
    sync: Durable,
}

impl Workload for Overwrite {
    fn footprint(&self, plan: &Plan) -> Footprint {
        let files = u64::from(plan.threads);
        Footprint { bytes: self.file_size.saturating_mul(files), files }
    }

    fn longest(&self) -> u64 {
        self.size.max(MIB)
    }

    fn prepare(&self, fs: &dyn Fs, plan: &Plan) -> io::Result<Box<dyn Prepared>> {
        let root = fs.root();
        let mut rng = Rng::new(plan.seed, 0);
        for thread in 0..plan.threads {
            let mut file = root.create(&name(thread), Append::Seek)?;
            let mut offset = 0;
            while offset < self.file_size {
                let data = plan.contents.piece(&mut rng, (self.file_size - offset).min(MIB));
                file.write_at(offset, data)?;
                offset += data.len() as u64;
            }
            file.fsync(Durable::All)?;
            file.close()?;
        }
        let slots = self.file_size / self.size;
        let contents = Arc::clone(&plan.contents);
        Ok(Box::new(Ready { root, size: self.size, contents, slots, sync: self.sync, seed: plan.seed }))
    }
}

fn name(thread: u32) -> String {
    format!("file{thread:03}")
}

struct Ready {
    root: Arc<dyn Dir>,
    size: u64,
    contents: Arc<Contents>,
    /// Places for a write in a file.
    slots: u64,
    sync: Durable,
    seed: u64,
}

impl Prepared for Ready {
    fn worker(&self, thread: u32) -> io::Result<Box<dyn Worker + '_>> {
        let file = self.root.open(&name(thread), Append::Seek)?;
        Ok(Box::new(Writer { ready: self, file, rng: Rng::new(self.seed, 1 + u64::from(thread)) }))
    }
}

struct Writer<'a> {
    ready: &'a Ready,
    file: Box<dyn File>,
    rng: Rng,
}

impl Worker for Writer<'_> {
    fn step(&mut self, meter: &mut Meter) -> io::Result<()> {
        let offset = self.rng.below(self.ready.slots).saturating_mul(self.ready.size);
        let data = self.ready.contents.piece(&mut self.rng, self.ready.size);
        meter.time(|meter| {
            self.file.write_at(offset, data)?;
            meter.fsync(self.file.as_mut(), self.ready.sync)
        })?;
        meter.user_bytes += data.len() as u64;
        Ok(())
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        self.file.close()
    }
}
