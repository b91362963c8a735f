//! `overwrite-fsync`: small writes in place into files that are there already, as databases make them.

use super::params::Values;
use super::{Definition, Footprint, ParamDef, Params, Plan, Prepared, Worker, Workload};
use crate::BenchError;
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
        ParamDef {
            name: "size",
            default: "4k",
            about: "bytes in an overwrite, and their alignment",
            values: Values::Number { min: 1, max: 64 * MIB },
        },
        ParamDef {
            name: "file-size",
            default: "64M",
            about: "bytes in a file; every thread has one",
            values: Values::Number { min: 1, max: 64 * GIB },
        },
        ParamDef {
            name: "sync",
            default: "fsync",
            about: "what makes it durable",
            values: Values::Words(&["fsync", "fdatasync"]),
        },
    ],
    threads: 1,
    ops: 20_000,
    most_ops: u64::MAX,
    build,
};

fn build(params: &Params) -> Result<Box<dyn Workload>, BenchError> {
    let overwrite = Overwrite {
        size: params.length("size"),
        file_size: params.number("file-size"),
        sync: if params.word("sync") == "fdatasync" { Durable::Data } else { Durable::All },
    };
    if overwrite.file_size < overwrite.size as u64 {
        let text = format!("--param size={}: more than file-size={}", overwrite.size, overwrite.file_size);
        return Err(BenchError::Usage(text));
    }
    Ok(Box::new(overwrite))
}

struct Overwrite {
    size: usize,
    file_size: u64,
    sync: Durable,
}

impl Workload for Overwrite {
    fn footprint(&self, plan: &Plan) -> Footprint {
        let files = u64::from(plan.threads);
        Footprint { bytes: self.file_size.saturating_mul(files), files }
    }

    fn prepare(&self, fs: &dyn Fs, plan: &Plan) -> io::Result<Box<dyn Prepared>> {
        let root = fs.root();
        let mut rng = Rng::new(plan.seed, 0);
        let mut data = vec![0; MIB as usize];
        for thread in 0..plan.threads {
            rng.fill(&mut data);
            let mut file = root.create(&name(thread), Append::Seek)?;
            let mut offset = 0;
            while offset < self.file_size {
                let len = (self.file_size - offset).min(MIB);
                file.write_at(offset, data.get(..len as usize).unwrap_or_default())?;
                offset += len;
            }
            file.fsync(Durable::All)?;
            file.close()?;
        }
        let mut data = vec![0; self.size];
        rng.fill(&mut data);
        let slots = self.file_size / self.size as u64;
        Ok(Box::new(Ready { root, data, slots, sync: self.sync, seed: plan.seed }))
    }
}

fn name(thread: u32) -> String {
    format!("file{thread:03}")
}

struct Ready {
    root: Arc<dyn Dir>,
    data: Vec<u8>,
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
        let data = &self.ready.data;
        let offset = self.rng.below(self.ready.slots).saturating_mul(data.len() as u64);
        meter.time(|_| {
            self.file.write_at(offset, data)?;
            self.file.fsync(self.ready.sync)
        })?;
        meter.user_bytes += data.len() as u64;
        meter.fsyncs += 1;
        Ok(())
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        self.file.close()
    }
}
