//! Filebench's personalities: `varmail`, `fileserver`, `webproxy`, as Filebench 1.5 defines them (`workloads/*.f` and
//! the flow operations that they name).
//!
//! A set of files with gamma-distributed sizes, 80 % of them there at the beginning; threads loop over flow operations,
//! each of which counts. An append is of a random length below a bound, at the file's end as `lseek` finds it. A file
//! that is open is not deleted, and that delete does not count; a set in which no file is left to pick ends the run
//! with an error, as there. Where a directory has a width, files lie in a tree whose directories hold as many entries:
//! Filebench draws those numbers, here each is the mean.

mod fileset;
mod flow;

use super::{Definition, Footprint, ParamDef, Params, Plan, Prepared, Worker, Workload};
use crate::BenchError;
use crate::contents::Contents;
use crate::fs::{Append, Dir, Fs};
use crate::rng::Rng;
use crate::units::MIB;
use fileset::FileSet;
use flow::{Flow, Hand};
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

const FILES: ParamDef = ParamDef::number("files", "10000", "files in the set", 1, 10_000_000);
const SIZE: ParamDef = ParamDef::number("size", "16k", "mean bytes in a file at the beginning", 1, 64 * MIB);
const GAMMA: ParamDef = ParamDef::real("gamma", "1.5", "shape of the distribution of sizes");
const APPEND: ParamDef = ParamDef::number("append", "16k", "an append is of a random length below this", 1, 64 * MIB);
const IOSIZE: ParamDef = ParamDef::number("iosize", "1M", "bytes in a read or write of a whole file", 1, 64 * MIB);
const WIDTH: ParamDef = ParamDef::number("width", "1000000", "entries in a directory", 2, 10_000_000);

pub(super) const VARMAIL: Definition = Definition {
    name: "varmail",
    about: "a mail server (Filebench 1.5): delete; create, append, fsync; open, read, append, fsync; open, read",
    params: &[ParamDef { default: "1000", ..FILES }, SIZE, GAMMA, APPEND, IOSIZE, WIDTH],
    threads: 16,
    ops: 200_000,
    most_ops: u64::MAX,
    build: |params| build(params, flow::VARMAIL),
};

pub(super) const FILESERVER: Definition = Definition {
    name: "fileserver",
    about: "a file server (Filebench 1.5): create, write; open, append; open, read; delete; stat",
    params: &[FILES, ParamDef { default: "128k", ..SIZE }, GAMMA, APPEND, IOSIZE, ParamDef { default: "20", ..WIDTH }],
    threads: 50,
    ops: 100_000,
    build: |params| build(params, flow::FILESERVER),
    ..VARMAIL
};

pub(super) const WEBPROXY: Definition = Definition {
    name: "webproxy",
    about: "a cache of web pages (Filebench 1.5): delete; create, append; five times open, read",
    params: &[FILES, SIZE, GAMMA, APPEND, IOSIZE, WIDTH],
    threads: 100,
    build: |params| build(params, flow::WEBPROXY),
    ..VARMAIL
};

/// Percent of the files that are there at the beginning.
const PREALLOCATED: u64 = 80;
/// Files for each thread, at least, so that there is always one to pick.
const FILES_PER_THREAD: u64 = 10;

fn build(params: &Params, flows: &'static [Flow]) -> Result<Box<dyn Workload>, BenchError> {
    Ok(Box::new(Personality {
        flows,
        files: u32::try_from(params.number("files")).unwrap_or(u32::MAX),
        size: params.number("size"),
        gamma: params.real("gamma"),
        append: params.number("append"),
        iosize: params.number("iosize"),
        width: params.number("width").max(2),
    }))
}

struct Personality {
    flows: &'static [Flow],
    files: u32,
    size: u64,
    gamma: f64,
    append: u64,
    iosize: u64,
    width: u64,
}

impl Workload for Personality {
    fn footprint(&self, _plan: &Plan) -> Footprint {
        // Of three picks of an existing file one deletes it: few are appended to more often than ten times.
        let mean = self.size.saturating_add(self.append.saturating_mul(4)).saturating_add(4096);
        let files = u64::from(self.files);
        Footprint { bytes: mean.saturating_mul(files), files: files.saturating_add(files / self.width * 2 + 2) }
    }

    fn longest(&self) -> u64 {
        self.append.max(self.iosize)
    }

    fn prepare(&self, fs: &dyn Fs, plan: &Plan) -> io::Result<Box<dyn Prepared>> {
        if u64::from(self.files) < FILES_PER_THREAD * u64::from(plan.threads) {
            let (files, threads) = (self.files, plan.threads);
            return Err(io::Error::other(format!("{files} files are too few for {threads} threads: --param files=")));
        }
        let mut rng = Rng::new(plan.seed, 0);
        let sizes = (0..self.files).map(|_| rng.gamma(self.gamma, self.size as f64) as u64).collect();
        let tree = Tree { root: fs.root().mkdir("bigfileset")?, width: self.width, files: self.files.into() };
        tree.make()?;
        let mut ready = Ready {
            flows: self.flows,
            tree,
            set: FileSet::new(0, BTreeSet::new()),
            sizes,
            contents: Arc::clone(&plan.contents),
            append: self.append,
            iosize: self.iosize,
            seed: plan.seed,
        };
        let mut order: Vec<u32> = (0..self.files).collect();
        rng.shuffle(&mut order);
        let mut existing = BTreeSet::new();
        for number in order {
            if rng.below(100) < PREALLOCATED {
                ready.write_new(number, &mut rng)?;
                existing.insert(number);
            }
        }
        ready.set = FileSet::new(self.files, existing);
        Ok(Box::new(ready))
    }
}

/// The directories of a set.
struct Tree {
    root: Arc<dyn Dir>,
    /// Entries in a directory.
    width: u64,
    files: u64,
}

impl Tree {
    /// Directories that hold files.
    fn leaves(&self) -> u64 {
        self.files.div_ceil(self.width)
    }

    fn make(&self) -> io::Result<()> {
        let leaves = self.leaves();
        for leaf in (0..leaves).filter(|_| leaves > 1) {
            if leaf.is_multiple_of(self.width) {
                self.root.mkdir(&format!("{:05}", leaf / self.width))?;
            }
            self.root.pass(&format!("{:05}", leaf / self.width))?.mkdir(&format!("{leaf:05}"))?;
        }
        Ok(())
    }

    /// The directory of a file.
    fn of(&self, file: u32) -> io::Result<Arc<dyn Dir>> {
        let leaves = self.leaves();
        if leaves <= 1 {
            return Ok(Arc::clone(&self.root));
        }
        let leaf = u64::from(file) % leaves;
        self.root.pass(&format!("{:05}", leaf / self.width))?.pass(&format!("{leaf:05}"))
    }
}

/// A set of files that is there, and what is done to it.
struct Ready {
    flows: &'static [Flow],
    tree: Tree,
    set: FileSet,
    /// Bytes of each file when it is written as a whole.
    sizes: Vec<u64>,
    contents: Arc<Contents>,
    append: u64,
    iosize: u64,
    seed: u64,
}

impl Ready {
    fn size(&self, number: u32) -> u64 {
        self.sizes.get(number as usize).copied().unwrap_or(0)
    }

    fn write_new(&self, number: u32, rng: &mut Rng) -> io::Result<()> {
        let mut file = self.tree.of(number)?.create(&flow::name(number), Append::Seek)?;
        let size = self.size(number);
        let mut offset = 0;
        while offset < size {
            let data = self.contents.piece(rng, (size - offset).min(self.iosize));
            file.write_at(offset, data)?;
            offset += data.len() as u64;
        }
        file.close()
    }
}

impl Prepared for Ready {
    fn worker(&self, thread: u32) -> io::Result<Box<dyn Worker + '_>> {
        let rng = Rng::new(self.seed, 1 + u64::from(thread));
        Ok(Box::new(Hand::new(self, rng)))
    }
}
