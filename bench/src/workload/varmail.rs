//! `varmail`: a mail server with a file for each message, as Filebench 1.5 defines it (`workloads/varmail.f` and the
//! flow operations that it names).
//!
//! 1,000 files in one directory (mean directory width 1,000,000), sizes gamma-distributed with mean 16 KiB and gamma
//! 1.5, 80 % of them there at the beginning. 16 threads loop over 13 flow operations, each of which counts. An append
//! is of a random length below 16 KiB, at the file's end as `lseek` finds it. A file that is open is not deleted, and
//! that delete does not count; a set in which no file is left to pick ends the run with an error, as there.

use super::fileset::FileSet;
use super::params::Values;
use super::{Definition, Footprint, ParamDef, Params, Plan, Prepared, Worker, Workload};
use crate::BenchError;
use crate::fs::{Append, Dir, Durable, File, Fs};
use crate::measure::Meter;
use crate::rng::Rng;
use crate::units::MIB;
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

pub(super) const DEFINITION: Definition = Definition {
    name: "varmail",
    about: "a mail server (Filebench 1.5): delete; create, append, fsync; open, read, append, fsync; open, read",
    params: &[
        ParamDef {
            name: "files",
            default: "1000",
            about: "files in the set",
            values: Values::Number { min: 1, max: 10_000_000 },
        },
        ParamDef {
            name: "size",
            default: "16k",
            about: "mean bytes in a file at the beginning",
            values: Values::Number { min: 1, max: 64 * MIB },
        },
        ParamDef { name: "gamma", default: "1.5", about: "shape of the distribution of sizes", values: Values::Real },
        ParamDef {
            name: "append",
            default: "16k",
            about: "an append is of a random length below this",
            values: Values::Number { min: 1, max: 64 * MIB },
        },
        ParamDef {
            name: "iosize",
            default: "1M",
            about: "bytes in a read",
            values: Values::Number { min: 1, max: 64 * MIB },
        },
    ],
    threads: 16,
    ops: 200_000,
    most_ops: u64::MAX,
    build,
};

/// Percent of the files that are there at the beginning.
const PREALLOCATED: u64 = 80;
/// Files for each thread, at least, so that there is always one to pick.
const FILES_PER_THREAD: u64 = 10;

fn build(params: &Params) -> Result<Box<dyn Workload>, BenchError> {
    Ok(Box::new(Varmail {
        files: u32::try_from(params.number("files")).unwrap_or(u32::MAX),
        size: params.number("size"),
        gamma: params.real("gamma"),
        append: params.number("append"),
        iosize: params.length("iosize"),
    }))
}

struct Varmail {
    files: u32,
    size: u64,
    gamma: f64,
    append: u64,
    iosize: usize,
}

impl Workload for Varmail {
    fn footprint(&self, _plan: &Plan) -> Footprint {
        // Of three picks of an existing file one deletes it: few are appended to more often than ten times.
        let mean = self.size.saturating_add(self.append.saturating_mul(4)).saturating_add(4096);
        Footprint { bytes: mean.saturating_mul(self.files.into()), files: self.files.into() }
    }

    fn prepare(&self, fs: &dyn Fs, plan: &Plan) -> io::Result<Box<dyn Prepared>> {
        if u64::from(self.files) < FILES_PER_THREAD * u64::from(plan.threads) {
            let (files, threads) = (self.files, plan.threads);
            return Err(io::Error::other(format!("{files} files are too few for {threads} threads: --param files=")));
        }
        let dir = fs.root().mkdir("bigfileset")?;
        let mut rng = Rng::new(plan.seed, 0);
        let mut order: Vec<u32> = (0..self.files).collect();
        rng.shuffle(&mut order);
        let mut data = vec![0; MIB as usize];
        rng.fill(&mut data);
        let mut existing = BTreeSet::new();
        for number in order {
            if rng.below(100) >= PREALLOCATED {
                continue;
            }
            let size = rng.gamma(self.gamma, self.size as f64) as u64;
            let mut file = dir.create(&name(number), Append::Seek)?;
            let mut offset = 0;
            while offset < size {
                let len = (size - offset).min(MIB);
                file.write_at(offset, data.get(..len as usize).unwrap_or_default())?;
                offset += len;
            }
            file.close()?;
            existing.insert(number);
        }
        data.resize(usize::try_from(self.append).unwrap_or(usize::MAX), 0);
        rng.fill(&mut data);
        let set = FileSet::new(self.files, existing);
        Ok(Box::new(Ready { dir, set, data, iosize: self.iosize, seed: plan.seed }))
    }
}

fn name(number: u32) -> String {
    format!("{number:08}")
}

struct Ready {
    dir: Arc<dyn Dir>,
    set: FileSet,
    /// What is appended.
    data: Vec<u8>,
    iosize: usize,
    seed: u64,
}

impl Prepared for Ready {
    fn worker(&self, thread: u32) -> io::Result<Box<dyn Worker + '_>> {
        let rng = Rng::new(self.seed, 1 + u64::from(thread));
        Ok(Box::new(Mailer { ready: self, rng, buf: vec![0; self.iosize] }))
    }
}

struct Mailer<'a> {
    ready: &'a Ready,
    rng: Rng,
    buf: Vec<u8>,
}

/// A file that this thread has open.
struct Opened {
    number: u32,
    file: Box<dyn File>,
}

impl Worker for Mailer<'_> {
    fn step(&mut self, meter: &mut Meter) -> io::Result<()> {
        self.delete(meter)?;

        let mut message = self.create(meter)?;
        self.append(meter, &mut message)?;
        fsync(meter, &mut message)?;
        self.close(meter, message)?;

        let mut message = self.open(meter)?;
        self.read_whole(meter, &mut message)?;
        self.append(meter, &mut message)?;
        fsync(meter, &mut message)?;
        self.close(meter, message)?;

        let mut message = self.open(meter)?;
        self.read_whole(meter, &mut message)?;
        self.close(meter, message)
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}

impl Mailer<'_> {
    fn delete(&self, meter: &mut Meter) -> io::Result<()> {
        let Ready { dir, set, .. } = self.ready;
        let number = set.pick_existing().ok_or_else(exhausted)?;
        if set.is_open(number) {
            set.left(number);
            return Ok(());
        }
        meter.time(|_| dir.unlink(&name(number)))?;
        set.deleted(number);
        Ok(())
    }

    fn create(&self, meter: &mut Meter) -> io::Result<Opened> {
        let Ready { dir, set, .. } = self.ready;
        let number = set.pick_missing().ok_or_else(exhausted)?;
        let file = meter.time(|_| {
            // Filebench looks whether the directory is there before it creates a file.
            dir.stat(".")?;
            dir.create(&name(number), Append::Seek)
        })?;
        set.opened(number);
        Ok(Opened { number, file })
    }

    fn open(&self, meter: &mut Meter) -> io::Result<Opened> {
        let Ready { dir, set, .. } = self.ready;
        let number = set.pick_existing().ok_or_else(exhausted)?;
        let file = meter.time(|_| dir.open(&name(number), Append::Seek))?;
        set.opened(number);
        Ok(Opened { number, file })
    }

    fn append(&mut self, meter: &mut Meter, message: &mut Opened) -> io::Result<()> {
        let len = self.rng.below(self.ready.data.len() as u64);
        let data = self.ready.data.get(..len as usize).unwrap_or_default();
        meter.time(|_| if data.is_empty() { Ok(()) } else { message.file.append(data) })?;
        meter.user_bytes += len;
        Ok(())
    }

    fn read_whole(&mut self, meter: &mut Meter, message: &mut Opened) -> io::Result<()> {
        meter.time(|_| {
            let mut offset = 0;
            loop {
                match message.file.read_at(offset, &mut self.buf)? {
                    0 => return Ok(()),
                    len => offset += len as u64,
                }
            }
        })
    }

    fn close(&self, meter: &mut Meter, message: Opened) -> io::Result<()> {
        meter.time(|_| message.file.close())?;
        self.ready.set.closed(message.number);
        Ok(())
    }
}

fn fsync(meter: &mut Meter, message: &mut Opened) -> io::Result<()> {
    meter.time(|_| message.file.fsync(Durable::All))?;
    meter.fsyncs += 1;
    Ok(())
}

fn exhausted() -> io::Error {
    io::Error::other("the set has no file left to pick: raise --param files=")
}
