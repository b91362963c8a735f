//! Reads and overwrites of blocks of files that are there already, as databases make them.

use super::{Definition, Footprint, ParamDef, Params, Plan, Prepared, SYNCS, Worker, Workload};
use crate::BenchError;
use crate::contents::Contents;
use crate::fs::{Append, Dir, Durable, File, Fs};
use crate::measure::Meter;
use crate::rng::Rng;
use crate::units::{GIB, MIB};
use std::io;
use std::sync::Arc;

const SIZE: ParamDef = ParamDef::number("size", "4k", "bytes at a time, and their alignment", 1, 64 * MIB);
const FILE_SIZE: ParamDef = ParamDef::number("file-size", "64M", "bytes in a file; every thread has one", 1, 64 * GIB);

pub(super) const OVERWRITE: Definition = Definition {
    name: "overwrite",
    about: "overwrite a random aligned block of a written file, fsync it",
    params: &[SIZE, FILE_SIZE, ParamDef::word("sync", "fsync", "what makes it durable", SYNCS)],
    threads: 1,
    ops: 20_000,
    most_ops: u64::MAX,
    build: |params| build(params, Does::Overwrite(Durable::of(params))),
};

pub(super) const READ: Definition = Definition {
    name: "read",
    about: "read a block of a written file",
    params: &[SIZE, FILE_SIZE, ParamDef::word("order", "random", "which block is next", &["random", "forward"])],
    threads: 1,
    ops: 200_000,
    most_ops: u64::MAX,
    build: |params| build(params, if params.word("order") == "forward" { Does::ReadNext } else { Does::ReadAny }),
};

/// What a step does with a block.
#[derive(Clone, Copy)]
enum Does {
    Overwrite(Option<Durable>),
    ReadAny,
    ReadNext,
}

fn build(params: &Params, does: Does) -> Result<Box<dyn Workload>, BenchError> {
    let (size, file_size) = (params.number("size"), params.number("file-size"));
    if file_size < size {
        return Err(BenchError::Usage(format!("--param size={size}: more than file-size={file_size}")));
    }
    Ok(Box::new(Blocks { size, file_size, does }))
}

struct Blocks {
    size: u64,
    file_size: u64,
    does: Does,
}

impl Workload for Blocks {
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
        Ok(Box::new(Ready { root, size: self.size, contents, slots, does: self.does, seed: plan.seed }))
    }
}

fn name(thread: u32) -> String {
    format!("file{thread:03}")
}

struct Ready {
    root: Arc<dyn Dir>,
    size: u64,
    contents: Arc<Contents>,
    /// Blocks in a file.
    slots: u64,
    does: Does,
    seed: u64,
}

impl Prepared for Ready {
    fn worker(&self, thread: u32) -> io::Result<Box<dyn Worker + '_>> {
        let file = self.root.open(&name(thread), Append::Seek)?;
        let (rng, buf) = (Rng::new(self.seed, 1 + u64::from(thread)), vec![0; self.size as usize]);
        Ok(Box::new(Client { ready: self, file, rng, next: 0, buf }))
    }
}

struct Client<'a> {
    ready: &'a Ready,
    file: Box<dyn File>,
    rng: Rng,
    /// The block that comes next, where they come in order.
    next: u64,
    buf: Vec<u8>,
}

impl Worker for Client<'_> {
    fn step(&mut self, meter: &mut Meter) -> io::Result<()> {
        let Ready { size, slots, does, .. } = *self.ready;
        let slot = if matches!(does, Does::ReadNext) { self.next } else { self.rng.below(slots) };
        self.next = (slot + 1) % slots;
        let offset = slot.saturating_mul(size);
        if let Does::Overwrite(sync) = does {
            let data = self.ready.contents.piece(&mut self.rng, size);
            meter.time(|meter| {
                self.file.write_at(offset, data)?;
                meter.fsync(self.file.as_mut(), sync)
            })?;
        } else {
            let read = meter.time(|_| self.file.read_at(offset, &mut self.buf))?;
            if read as u64 != size {
                return Err(io::Error::other(format!("{read} bytes of {size} are there at {offset}")));
            }
        }
        meter.user_bytes += size;
        Ok(())
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        self.file.close()
    }
}
