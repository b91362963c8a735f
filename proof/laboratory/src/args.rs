//! The command line of `ondol crash`.

use crate::faults::Fault;
use crate::image::Kind;
use crate::workload::Mount;
use clap::Args;
use ondol::{DataMode, Durable, JournalEngine};
use ondol_faults::Defect;
use ondol_schedule::Schedule;
use std::path::PathBuf;

/// Try what crashes leave behind
///
/// Records what a volume writes while it does the calls of a workload, builds the states that a power cut could leave
/// after each event, recovers each with the code that ships, and compares what comes out with a model. Without a
/// workload a minute is spent on each engine, its data modes in turn, and shared from the first second on by scenarios,
/// workloads that come to every place that matters, single calls, pairs, random sequences, variations of what reached
/// something new, and several threads.
///
/// Exit code: 0 if nothing breaks the contract, 1 if something does (the smallest is shown, with the command that
/// builds it again), 2 if the call is wrong or nothing could be tried, 130 after ^C.
#[derive(Debug, Args)]
pub struct CrashArgs {
    /// Journal engine: classic, compressed, swap, scalable, remap or batch [default: one after the other; for --case
    /// and --kill classic]
    #[arg(long, value_name = "ENGINE")]
    pub(crate) engine: Option<JournalEngine>,
    /// Data mode: ordered, journal or writeback [default: all of them; for --case and --kill journal]
    #[arg(long, value_name = "MODE")]
    pub(crate) data: Option<DataMode>,
    /// exhaustive-1, exhaustive-2, random, threads, pool (the life of an NVM pool), resize (volumes that grow and
    /// shrink; resize:NAME is one of them), tools (what else changes an image that nobody has mounted; tools:NAME is
    /// one of them), run (programs under `ondol run`), buffer (the write buffer), log (an NVM log alone), table (a
    /// page table alone), or a file with one call a line (`-` for standard input; docs/crash-testing.md has the
    /// grammar)
    #[arg(long, value_name = "WORKLOAD")]
    pub(crate) workload: Option<String>,
    /// Persistence domain of NVM pools: adr, eadr (caches of processors survive) or msync (ordinary files) [default:
    /// hunts take turns; adr for one workload]
    #[arg(long, value_parser = ["adr", "eadr", "msync"], value_name = "DOMAIN")]
    pub(crate) domain: Option<String>,
    /// Stop after so many distinct states of each engine
    #[arg(long, value_name = "NUMBER")]
    pub(crate) states: Option<u64>,
    /// Stop after so many seconds for each engine (60 if nothing else ends it)
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seconds: Option<u64>,
    /// Stop after so many seconds of processors for each engine, however busy the machine is
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["case", "kill"])]
    pub(crate) processor_seconds: Option<u64>,
    /// Tell violations as they were found, without making them small
    #[arg(long)]
    pub(crate) as_found: bool,
    /// Stop an engine after so many different violations [default: 8; 1 with --plant]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..),
        conflicts_with_all = ["case", "kill"])]
    pub(crate) violations: Option<u64>,
    /// Seed of everything random; printed
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    pub(crate) seed: u64,
    /// Processors to use [default: all]; for --kill, threads of the load [default: 4]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) processors: Option<usize>,
    /// How many recoveries in a row are crashed
    #[arg(long, default_value_t = 2, value_name = "NUMBER")]
    pub(crate) depth: u32,
    /// Of every so many states e2fsck judges one too; 0 for none
    #[arg(long, default_value_t = 2000, value_name = "NUMBER")]
    pub(crate) fsck_every: u64,
    /// Put the volume into object storage: into a store in memory, which is cut between any two requests. A sync ends
    /// there (remote), or in a log on this machine, which is cut, too (local). Engine batch, one thread
    #[arg(long, value_name = "DURABLE", value_parser = durable, conflicts_with_all = ["case", "kill"],
        hide = !ondol::HAS_BUCKETS)]
    pub(crate) store: Option<Durable>,
    /// Break a rule on purpose, with --kill in the servers: something must be found (builds of `cargo xtask lab` only;
    /// `list` names them)
    #[arg(long, value_name = "DEFECT")]
    pub(crate) plant: Option<String>,
    /// The volume of all workloads: small, orphan-file, pages, wide-log, whole-seconds, many-groups, block-map,
    /// inline-data, clusters, wide-clusters, values, large-inodes or linear [default: small for --calls and a file,
    /// else each its own]
    #[arg(long, value_name = "KIND")]
    pub(crate) image: Option<Kind>,
    /// How it is mounted: tight (little memory), roomy, zeroing, dirty, file (tight, and an fsync covers its file
    /// alone), kept (commits alone write new data), early (nearly all is written before) or through (the medium is said
    /// to be memory: new data is written through) [default: tight for --calls and a file, else each its own]
    #[arg(long, value_name = "MOUNT")]
    pub(crate) mount: Option<Mount>,
    /// Calls to record, instead of a workload, separated by `;`; once for each thread
    #[arg(long, conflicts_with = "workload", value_name = "CALLS")]
    pub(crate) calls: Vec<String>,
    /// In which interleaving several --calls are done, as in random:7, pct-3-200:7, untold-2-14:7, untold-random:7 or
    /// at-80-0:7 [default: many, of which the best are crashed]
    #[arg(long, value_name = "POLICY:SEED")]
    pub(crate) schedule: Option<Schedule>,
    /// Seconds that go by at each turn of background work between the calls of several threads
    #[arg(long, value_name = "NUMBER")]
    pub(crate) background: Option<u64>,
    /// Of several --calls, so many of the first thread are done before the others begin
    #[arg(long, default_value_t = 0, value_name = "NUMBER")]
    pub(crate) lead: usize,
    /// How the medium fails while --calls are done: read, write or flush, which one, and how many in a row, as in
    /// write:17 or flush:3:1
    #[arg(long, value_name = "KIND:NUMBER[:TIMES]")]
    pub(crate) fault: Option<Fault>,
    /// Calls before the recording
    #[arg(long, default_value = "", value_name = "CALLS")]
    pub(crate) before: String,
    /// Unmount and mount between these and the recording
    #[arg(long)]
    pub(crate) remount: bool,
    /// Build this one state again, as a violation names it
    #[arg(long, value_name = "CASE", conflicts_with_all = ["states", "seconds"])]
    pub(crate) case: Option<String>,
    /// Kill the server of a mount so many times under load, as `kill -9` does, instead of building states; needs FUSE
    #[arg(long, value_name = "ROUNDS", value_parser = clap::value_parser!(u64).range(1..),
        conflicts_with_all = ["workload", "calls", "case", "states", "seconds", "image", "mount"])]
    pub(crate) kill: Option<u64>,
    /// Size of the image for --kill
    #[arg(long, default_value = "64M", value_parser = size, value_name = "SIZE")]
    pub(crate) image_size: u64,
    /// Where the image for --kill is made, and removed [default: /dev/shm]
    #[arg(long, requires = "kill", value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

fn size(text: &str) -> Result<u64, String> {
    ondol::parse_size(text)
        .ok_or_else(|| format!("`{text}` is not a size: write a number with K, M, G or T, as in 64M"))
}

fn durable(text: &str) -> Result<Durable, String> {
    let known = [Durable::Remote, Durable::Local].into_iter().find(|durable| durable.name() == text);
    known.ok_or_else(|| format!("`{text}` is nothing that a sync ends in: choose remote or local"))
}

impl CrashArgs {
    /// The planted defect.
    pub(crate) fn defect(&self) -> Result<Option<Defect>, String> {
        self.plant.as_deref().map(|name| name.parse().map_err(|e: ondol_faults::Unknown| e.to_string())).transpose()
    }
}
