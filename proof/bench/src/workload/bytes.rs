//! Work on the contents of one file for each thread, without fsync: `stream-write` and `stream-read` in order, `random-write` and
//! `random-read` anywhere. What is read has been written just before: it comes from a page cache wherever there is one.

use super::{Definition, Footprint, ParamDef, Params, Plan, Prepared, Worker, Workload};
use crate::BenchError;
use crate::contents::Contents;
use crate::fs::{Append, Dir, File, Fs};
use crate::measure::Meter;
use crate::rng::Rng;
use crate::units::{GIB, MIB};
use std::io;
use std::sync::Arc;

const FILE_SIZE: ParamDef =
    ParamDef::number("file-size", "256M", "bytes in a file; a stream begins anew at its end", 1, 64 * GIB);

const REQUEST: ParamDef = ParamDef::number("size", "1M", "bytes in a call, and their alignment", 1, 64 * MIB);

const SMALL: ParamDef = ParamDef { default: "4k", ..REQUEST };

pub(super) const STREAM_WRITE: Definition = Definition {
    name: "stream-write",
    about: "write the next part of a new file",
    params: &[REQUEST, FILE_SIZE],
    settings: &[],
    threads: 1,
    ops: 1_000,
    most_ops: u64::MAX,
    build: |params| build(true, true, params),
};

pub(super) const STREAM_READ: Definition = Definition {
    name: "stream-read",
    about: "read the next part of a file",
    build: |params| build(false, true, params),
    ..STREAM_WRITE
};

pub(super) const RANDOM_WRITE: Definition = Definition {
    name: "random-write",
    about: "overwrite a random aligned part of a written file",
    params: &[SMALL, FILE_SIZE],
    ops: 50_000,
    build: |params| build(true, false, params),
    ..STREAM_WRITE
};

pub(super) const RANDOM_READ: Definition = Definition {
    name: "random-read",
    about: "read a random aligned part of a file",
    build: |params| build(false, false, params),
    ..RANDOM_WRITE
};

fn build(writes: bool, in_order: bool, params: &Params) -> Result<Box<dyn Workload>, BenchError> {
    let bytes = Bytes {
        writes,
        in_order,
        size: params.length("size"),
        slots: params.number("file-size") / params.number("size"),
    };
    if bytes.slots == 0 {
        return Err(BenchError::Usage(format!("--param size={}: more than file-size", bytes.size)));
    }
    Ok(Box::new(bytes))
}

#[derive(Clone, Copy)]
struct Bytes {
    writes: bool,
    in_order: bool,
    size: usize,
    /// Places for a call in a file.
    slots: u64,
}

impl Workload for Bytes {
    fn footprint(&self, plan: &Plan) -> Footprint {
        let files = u64::from(plan.threads);
        Footprint { bytes: self.slots.saturating_mul(self.size as u64).saturating_mul(files), files }
    }

    fn longest(&self) -> u64 {
        self.size as u64
    }

    fn prepare(&self, fs: &dyn Fs, plan: &Plan) -> io::Result<Box<dyn Prepared>> {
        let root = fs.root();
        let mut rng = Rng::new(plan.seed, 0);
        let written = if self.writes && self.in_order { 0 } else { self.slots };
        for thread in 0..plan.threads {
            let mut file = root.create(&name(thread), Append::Seek)?;
            for slot in 0..written {
                file.write_at(slot * self.size as u64, plan.contents.piece(&mut rng, self.size as u64))?;
            }
            file.close()?;
        }
        Ok(Box::new(Ready { work: *self, root, contents: Arc::clone(&plan.contents), seed: plan.seed }))
    }
}

fn name(thread: u32) -> String {
    format!("file{thread:03}")
}

struct Ready {
    work: Bytes,
    root: Arc<dyn Dir>,
    contents: Arc<Contents>,
    seed: u64,
}

impl Prepared for Ready {
    fn worker(&self, thread: u32) -> io::Result<Box<dyn Worker + '_>> {
        let file = self.root.open(&name(thread), Append::Seek)?;
        let rng = Rng::new(self.seed, 1 + u64::from(thread));
        Ok(Box::new(Hand { ready: self, file, rng, buffer: vec![0; self.work.size], next: 0 }))
    }
}

struct Hand<'a> {
    ready: &'a Ready,
    file: Box<dyn File>,
    rng: Rng,
    buffer: Vec<u8>,
    next: u64,
}

impl Worker for Hand<'_> {
    fn step(&mut self, meter: &mut Meter) -> io::Result<()> {
        let work = self.ready.work;
        let slot = if work.in_order { self.next % work.slots } else { self.rng.below(work.slots) };
        let offset = slot * work.size as u64;
        self.next += 1;
        if work.writes {
            let data = self.ready.contents.piece(&mut self.rng, work.size as u64);
            meter.time(|_| self.file.write_at(offset, data))?;
            meter.user_bytes += work.size as u64;
            return Ok(());
        }
        let read = meter.time(|_| self.file.read_at(offset, &mut self.buffer))?;
        let short = || io::Error::other(format!("{read} of {} bytes at {offset} were read", work.size));
        if read == work.size { Ok(()) } else { Err(short()) }
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        self.file.close()
    }
}
