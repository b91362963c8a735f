//! `postmark`: Katcher's benchmark of mail and news servers (NetApp TR3022, version 1.5): a pool of small files in many
//! directories, then transactions, each of which reads or appends to a file, and creates or deletes one.
//!
//! Sizes, biases and the two halves of a transaction are Postmark's own; 10,000 files, 25,000 directories, 50,000
//! transactions and units of 1 MiB are paper 3's. Making a file of the pool counts as an operation as a transaction
//! does: that is what the paper's variant with fsync slows down. Threads have pools of their own in the same
//! directories.

use super::{Definition, Footprint, ParamDef, Params, Plan, Prepared, Worker, Workload};
use crate::contents::Contents;
use crate::fs::{Append, Dir, Durable, Fs};
use crate::measure::Meter;
use crate::rng::Rng;
use crate::units::MIB;
use std::io;
use std::sync::Arc;

pub(super) const DEFINITION: Definition = Definition {
    name: "postmark",
    about: "make a file of the pool; then: read or append to a file, and create or delete one",
    params: &[
        ParamDef::number("files", "10000", "files in the pool", 1, 10_000_000),
        ParamDef::number("subdirs", "25000", "directories that they lie in", 1, 60_000),
        ParamDef::number("min", "500", "bytes in the smallest file", 1, 64 * MIB),
        ParamDef::number("max", "10000", "bytes in the largest file", 1, 64 * MIB),
        ParamDef::number("unit", "1M", "bytes in a read or write", 1, 64 * MIB),
        ParamDef::word("fsync", "none", "fsync each file that is created", &["none", "create"]),
    ],
    threads: 1,
    ops: 60_000,
    most_ops: 500_000,
    build: |params| Ok(Box::new(Postmark::new(params))),
};

/// Of ten transactions so many read, and do not append; and so many create, and do not delete.
const BIAS: u64 = 5;

#[derive(Clone, Copy)]
struct Postmark {
    files: u64,
    subdirs: u64,
    min: u64,
    max: u64,
    unit: u64,
    fsync: bool,
}

impl Postmark {
    fn new(params: &Params) -> Self {
        let (min, max) = (params.number("min"), params.number("max"));
        Self {
            files: params.number("files"),
            subdirs: params.number("subdirs"),
            min,
            max: max.max(min),
            unit: params.number("unit"),
            fsync: params.word("fsync") == "create",
        }
    }
}

impl Workload for Postmark {
    fn footprint(&self, plan: &Plan) -> Footprint {
        let files = plan.ops.saturating_mul(plan.threads.into());
        let each = self.max.next_multiple_of(4096);
        let bytes = files.saturating_mul(each).saturating_add(self.subdirs.saturating_mul(4096));
        Footprint { bytes, files: files.saturating_add(self.subdirs) }
    }

    fn longest(&self) -> u64 {
        self.unit.min(self.max)
    }

    fn prepare(&self, fs: &dyn Fs, plan: &Plan) -> io::Result<Box<dyn Prepared>> {
        let root = fs.root();
        for n in 0..self.subdirs {
            root.mkdir(&subdir(n))?;
        }
        let pool = self.files.div_ceil(plan.threads.into());
        Ok(Box::new(Ready { work: *self, root, pool, contents: Arc::clone(&plan.contents), seed: plan.seed }))
    }
}

fn subdir(n: u64) -> String {
    format!("s{n}")
}

struct Ready {
    work: Postmark,
    root: Arc<dyn Dir>,
    /// Files in a thread's pool.
    pool: u64,
    contents: Arc<Contents>,
    seed: u64,
}

impl Prepared for Ready {
    fn worker(&self, thread: u32) -> io::Result<Box<dyn Worker + '_>> {
        let rng = Rng::new(self.seed, 1 + u64::from(thread));
        let buf = vec![0; self.work.longest() as usize];
        Ok(Box::new(Hand { ready: self, rng, thread, made: 0, files: Vec::new(), buf }))
    }
}

/// A file of the pool.
struct Entry {
    subdir: u64,
    number: u64,
    size: u64,
}

struct Hand<'a> {
    ready: &'a Ready,
    rng: Rng,
    thread: u32,
    /// Files made so far.
    made: u64,
    files: Vec<Entry>,
    buf: Vec<u8>,
}

impl Worker for Hand<'_> {
    fn step(&mut self, meter: &mut Meter) -> io::Result<()> {
        if self.made < self.ready.pool || self.files.is_empty() {
            return meter.time(|meter| self.create(meter));
        }
        meter.time(|meter| {
            let file = self.rng.below(self.files.len() as u64) as usize;
            if self.rng.below(10) < BIAS {
                self.read(file)?
            } else {
                self.append(file, meter)?
            }
            if self.rng.below(10) < BIAS { self.create(meter) } else { self.delete() }
        })
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}

impl Hand<'_> {
    fn dir(&self, entry: &Entry) -> io::Result<Arc<dyn Dir>> {
        self.ready.root.pass(&subdir(entry.subdir))
    }

    fn name(&self, entry: &Entry) -> String {
        format!("{}-{}", self.thread, entry.number)
    }

    fn entry(&self, file: usize) -> io::Result<&Entry> {
        super::nth(&self.files, file)
    }

    fn create(&mut self, meter: &mut Meter) -> io::Result<()> {
        let work = self.ready.work;
        let size = work.min + self.rng.below(work.max - work.min + 1);
        let entry = Entry { subdir: self.rng.below(work.subdirs), number: self.made, size };
        self.made += 1;
        let mut file = self.dir(&entry)?.create(&self.name(&entry), Append::Flag)?;
        let mut offset = 0;
        while offset < size {
            let data = self.ready.contents.piece(&mut self.rng, (size - offset).min(work.unit));
            file.write_at(offset, data)?;
            offset += data.len() as u64;
        }
        meter.user_bytes += size;
        if work.fsync {
            meter.fsync(file.as_mut(), Some(Durable::All))?;
        }
        self.files.push(entry);
        file.close()
    }

    fn delete(&mut self) -> io::Result<()> {
        let file = self.rng.below(self.files.len() as u64) as usize;
        let entry = self.files.swap_remove(file);
        self.dir(&entry)?.unlink(&self.name(&entry))
    }

    fn read(&mut self, file: usize) -> io::Result<()> {
        let entry = self.entry(file)?;
        let (dir, name, size) = (self.dir(entry)?, self.name(entry), entry.size);
        let unit = self.ready.work.unit;
        let mut file = dir.open(&name, Append::Flag)?;
        let mut offset = 0;
        while offset < size {
            let len = (size - offset).min(unit) as usize;
            match file.read_at(offset, self.buf.get_mut(..len).unwrap_or_default())? {
                0 => return Err(io::Error::other(format!("{name} ends at {offset} instead of {size}"))),
                read => offset += read as u64,
            }
        }
        file.close()
    }

    fn append(&mut self, file: usize, meter: &mut Meter) -> io::Result<()> {
        let most = self.ready.work.max;
        let entry = self.files.get_mut(file).ok_or_else(|| io::Error::other("the pool has no such file"))?;
        let len = self.rng.below(most.saturating_sub(entry.size) + 1).min(self.ready.work.unit);
        entry.size += len;
        let entry = self.entry(file)?;
        let (dir, name) = (self.dir(entry)?, self.name(entry));
        let data = self.ready.contents.piece(&mut self.rng, len);
        let mut file = dir.open(&name, Append::Flag)?;
        if !data.is_empty() {
            file.append(data)?;
        }
        meter.user_bytes += data.len() as u64;
        file.close()
    }
}
