//! `append`: a log that grows by one durable record after the other.

use super::{Definition, Footprint, ParamDef, Plan, Prepared, SYNCS, Worker, Workload};
use crate::contents::Contents;
use crate::fs::{Append, Dir, Durable, File, Fs};
use crate::measure::Meter;
use crate::rng::Rng;
use crate::units::MIB;
use std::io;
use std::sync::Arc;

pub(super) const DEFINITION: Definition = Definition {
    name: "append",
    about: "append to a file, fsync it; every thread has its own file",
    params: &[
        ParamDef::number("size", "4k", "bytes in an append", 1, 64 * MIB),
        ParamDef::word("sync", "fsync", "what makes it durable", SYNCS),
    ],
    threads: 1,
    ops: 20_000,
    most_ops: 200_000,
    build: |params| Ok(Box::new(Log { size: params.number("size"), sync: Durable::of(params) })),
};

struct Log {
    size: u64,
    sync: Option<Durable>,
}

impl Workload for Log {
    fn footprint(&self, plan: &Plan) -> Footprint {
        let ops = plan.ops.saturating_mul(plan.threads.into());
        Footprint { bytes: ops.saturating_mul(self.size), files: plan.threads.into() }
    }

    fn longest(&self) -> u64 {
        self.size
    }

    fn prepare(&self, fs: &dyn Fs, plan: &Plan) -> io::Result<Box<dyn Prepared>> {
        let root = fs.root();
        for thread in 0..plan.threads {
            root.create(&name(thread), Append::Flag)?.close()?;
        }
        let contents = Arc::clone(&plan.contents);
        Ok(Box::new(Ready { root, size: self.size, contents, sync: self.sync, seed: plan.seed }))
    }
}

fn name(thread: u32) -> String {
    format!("log{thread:03}")
}

struct Ready {
    root: Arc<dyn Dir>,
    size: u64,
    contents: Arc<Contents>,
    sync: Option<Durable>,
    seed: u64,
}

impl Prepared for Ready {
    fn worker(&self, thread: u32) -> io::Result<Box<dyn Worker + '_>> {
        let file = self.root.open(&name(thread), Append::Flag)?;
        Ok(Box::new(Appender { ready: self, file, rng: Rng::new(self.seed, 1 + u64::from(thread)) }))
    }
}

struct Appender<'a> {
    ready: &'a Ready,
    file: Box<dyn File>,
    rng: Rng,
}

impl Worker for Appender<'_> {
    fn step(&mut self, meter: &mut Meter) -> io::Result<()> {
        let data = self.ready.contents.piece(&mut self.rng, self.ready.size);
        meter.time(|meter| {
            self.file.append(data)?;
            meter.fsync(self.file.as_mut(), self.ready.sync)
        })?;
        meter.user_bytes += data.len() as u64;
        Ok(())
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        self.file.close()
    }
}
