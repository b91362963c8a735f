//! `append-fsync`: a log that grows by one durable record after the other.

use super::params::Values;
use super::{Definition, Footprint, ParamDef, Plan, Prepared, Worker, Workload};
use crate::fs::{Append, Dir, Durable, File, Fs};
use crate::measure::Meter;
use crate::rng::Rng;
use crate::units::MIB;
use std::io;
use std::sync::Arc;

pub(super) const DEFINITION: Definition = Definition {
    name: "append-fsync",
    about: "append to a file, fsync it; every thread has its own file",
    params: &[
        ParamDef {
            name: "size",
            default: "4k",
            about: "bytes in an append",
            values: Values::Number { min: 1, max: 64 * MIB },
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
    most_ops: 200_000,
    build: |params| {
        let sync = if params.word("sync") == "fdatasync" { Durable::Data } else { Durable::All };
        Ok(Box::new(Log { size: params.length("size"), sync }))
    },
};

struct Log {
    size: usize,
    sync: Durable,
}

impl Workload for Log {
    fn footprint(&self, plan: &Plan) -> Footprint {
        let ops = plan.ops.saturating_mul(plan.threads.into());
        Footprint { bytes: ops.saturating_mul(self.size as u64), files: plan.threads.into() }
    }

    fn prepare(&self, fs: &dyn Fs, plan: &Plan) -> io::Result<Box<dyn Prepared>> {
        let root = fs.root();
        for thread in 0..plan.threads {
            root.create(&name(thread), Append::Flag)?.close()?;
        }
        let mut data = vec![0; self.size];
        Rng::new(plan.seed, 0).fill(&mut data);
        Ok(Box::new(Ready { root, data, sync: self.sync }))
    }
}

fn name(thread: u32) -> String {
    format!("log{thread:03}")
}

struct Ready {
    root: Arc<dyn Dir>,
    data: Vec<u8>,
    sync: Durable,
}

impl Prepared for Ready {
    fn worker(&self, thread: u32) -> io::Result<Box<dyn Worker + '_>> {
        Ok(Box::new(Appender { ready: self, file: self.root.open(&name(thread), Append::Flag)? }))
    }
}

struct Appender<'a> {
    ready: &'a Ready,
    file: Box<dyn File>,
}

impl Worker for Appender<'_> {
    fn step(&mut self, meter: &mut Meter) -> io::Result<()> {
        let data = &self.ready.data;
        meter.time(|_| {
            self.file.append(data)?;
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
