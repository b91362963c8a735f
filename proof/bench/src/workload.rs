//! What is done to a file system.

mod append;
mod create;
mod filebench;
mod overwrite;
mod params;
mod postmark;
mod tokubench;
mod untar;

pub(crate) use params::{ParamDef, Params};

use crate::BenchError;
use crate::contents::Contents;
use crate::fs::{Dir, Durable, Fs};
use crate::measure::Meter;
use crate::units::{GIB, MIB};
use std::io;
use std::sync::Arc;

/// A workload as it is listed.
pub(crate) struct Definition {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// One operation, in one line.
    pub(crate) about: &'static str,
    /// Its parameters besides `seed`.
    pub(crate) params: &'static [ParamDef],
    /// Threads, unless told otherwise.
    pub(crate) threads: u32,
    /// Operations in a turn over all threads, unless told otherwise.
    pub(crate) ops: u64,
    /// Operations in a turn that is limited by time, at most: what is written has to fit on the target.
    pub(crate) most_ops: u64,
    /// Makes it from its parameters.
    pub(crate) build: fn(&Params) -> Result<Box<dyn Workload>, BenchError>,
}

/// All workloads.
pub(crate) const ALL: [&Definition; 10] = [
    &create::DEFINITION,
    &overwrite::OVERWRITE,
    &overwrite::READ,
    &append::DEFINITION,
    &filebench::VARMAIL,
    &filebench::FILESERVER,
    &filebench::WEBPROXY,
    &postmark::DEFINITION,
    &tokubench::DEFINITION,
    &untar::DEFINITION,
];

/// The workload with this name.
pub(crate) fn find(name: &str) -> Result<&'static Definition, BenchError> {
    ALL.into_iter().find(|workload| workload.name == name).ok_or_else(|| {
        let names: Vec<_> = ALL.iter().map(|workload| workload.name).collect();
        BenchError::Usage(format!("workload {name}: unknown; there are {}", names.join(", ")))
    })
}

/// What `--param sync=` may be.
const SYNCS: &[&str] = &["fsync", "fdatasync", "none"];

impl Durable {
    /// What `sync` asks for after each operation.
    fn of(params: &Params) -> Option<Self> {
        match params.word("sync") {
            "fsync" => Some(Self::All),
            "fdatasync" => Some(Self::Data),
            _ => None,
        }
    }
}

/// How much of it: fixed before anything is made.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Threads.
    pub(crate) threads: u32,
    /// Operations of each thread, at most.
    pub(crate) ops: u64,
    /// What the random choices are made from.
    pub(crate) seed: u64,
    /// What is written.
    pub(crate) contents: Arc<Contents>,
}

/// What a workload leaves on the target, at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Footprint {
    /// Bytes in files.
    pub(crate) bytes: u64,
    /// Files and directories.
    pub(crate) files: u64,
}

impl Footprint {
    /// An image on which this fits with room to spare: ext4 makes an inode for 16 KiB, and below 512 MiB mke2fs chooses
    /// other parameters. Never less than 1 GiB.
    pub(crate) fn image_size(self) -> u64 {
        let data = self.bytes.saturating_mul(2).saturating_add(256 * MIB);
        let inodes = self.files.saturating_mul(20 << 10);
        let size = data.saturating_add(inodes).max(GIB);
        size.checked_next_multiple_of(64 * MIB).unwrap_or(size)
    }

    /// Bytes that really land on the medium.
    pub(crate) fn stored(self) -> u64 {
        self.bytes.saturating_add(self.files.saturating_mul(1 << 10)).saturating_add(64 * MIB)
    }
}

/// A workload with its parameters.
pub(crate) trait Workload {
    /// What it will leave on the target.
    fn footprint(&self, plan: &Plan) -> Footprint;
    /// Bytes in its longest write.
    fn longest(&self) -> u64 {
        0
    }
    /// Makes what has to be there before the clock runs.
    fn prepare(&self, fs: &dyn Fs, plan: &Plan) -> io::Result<Box<dyn Prepared>>;
}

/// A workload whose files are there.
pub(crate) trait Prepared: Sync {
    /// The one that does a thread's share.
    fn worker(&self, thread: u32) -> io::Result<Box<dyn Worker + '_>>;
}

/// One thread's share of a workload.
pub(crate) trait Worker: Send {
    /// One operation, or one loop of several.
    fn step(&mut self, meter: &mut Meter) -> io::Result<()>;
    /// Closes what is open, when the clock has stopped.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

/// The directory of one thread: threads do not meet in a directory unless the workload wants it.
fn thread_dir(root: &Arc<dyn Dir>, thread: u32) -> io::Result<Arc<dyn Dir>> {
    root.mkdir(&format!("thread{thread:03}"))
}

/// `items[i]`, or an error: threads and files are counted by the plan.
fn nth<T>(items: &[T], index: usize) -> io::Result<&T> {
    items.get(index).ok_or_else(|| io::Error::other(format!("the workload has no part {index}")))
}

#[cfg(test)]
mod tests;
