//! The command line of `ondol bench`.

use crate::contents::{TEXT, ratio_of};
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// What is waited for at the end of a turn, within its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Settle {
    /// A sync: everything is durable.
    Sync,
    /// Closing or unmounting: everything is durable, and the journal is empty.
    Close,
}

/// `ondol bench …`
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: BenchCommand,
}

/// The commands of `ondol bench`.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// List the workloads with their parameters, and the targets
    List,
    /// Run a workload on one or more targets and compare them with the first
    Run(RunArgs),
    /// Measure the figures of a paper
    Paper(PaperArgs),
    /// Run workloads on mounts, beside the kernel's ext4 and servers of nothing
    Mount(MountArgs),
    /// Show the figures of two results beside each other, with their ratios
    Compare(CompareArgs),
    /// Serve a file system without a volume
    #[command(hide = true)]
    Serve(ServeArgs),
    /// Write a new file with O_SYNC on each of some threads
    #[command(hide = true)]
    Write(WriteArgs),
}

/// `ondol bench mount …`
#[derive(Clone, Debug, Args)]
pub struct MountArgs {
    /// Smaller sets, fewer operations, one round
    #[arg(long)]
    pub quick: bool,
    /// How often every target has its turn [default: 5, or 1 with --quick]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
    /// Where images are made, if it is in memory; otherwise /dev/shm
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    pub dir: PathBuf,
    /// Write the result as JSON; `-` is standard output, without the tables
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// `ondol bench compare …`
#[derive(Clone, Debug, Args)]
pub struct CompareArgs {
    /// The result to compare with: a JSON file that --json has written
    pub old: PathBuf,
    /// The other result
    pub new: PathBuf,
}

/// `ondol bench serve …`, which stands behind the targets `null` and `passthrough`: serves until it is unmounted or its
/// standard input ends, and answers each line there with what it has counted, in JSON on one line.
#[derive(Clone, Debug, Args)]
pub struct ServeArgs {
    /// What is served
    #[command(subcommand)]
    pub what: Served,
}

/// A file system without a volume.
#[derive(Clone, Debug, Subcommand)]
pub enum Served {
    /// Names and sizes in memory
    Null {
        /// Mount options
        #[arg(short = 'o', long, default_value = "")]
        options: String,
        /// Where to mount it
        point: PathBuf,
    },
    /// A directory, handed on
    Passthrough {
        /// Mount options
        #[arg(short = 'o', long, default_value = "")]
        options: String,
        /// The directory
        below: PathBuf,
        /// Where to mount it
        point: PathBuf,
    },
}

/// `ondol bench write …`, which `bench paper 2` starts, by itself and under `ondol run`.
#[derive(Clone, Debug, Args)]
pub struct WriteArgs {
    /// Where the files are made
    #[arg(long)]
    pub dir: PathBuf,
    /// Threads, each with a file of its own
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: u32,
    /// Bytes in all files together
    #[arg(long)]
    pub bytes: u64,
    /// Bytes in a write
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    pub unit: u64,
    /// Write through a write buffer in this pool, which is made, instead of with O_SYNC
    #[arg(long, requires = "size")]
    pub pool: Option<PathBuf>,
    /// Bytes of the pool
    #[arg(long, requires = "pool", default_value_t = 0)]
    pub size: u64,
}

/// `ondol bench paper …`
#[derive(Clone, Debug, Args)]
pub struct PaperArgs {
    /// The paper: 1, the persistent page table and block swap; 2, the NVM write buffer; 3, the compressed journal; 4,
    /// access to files in storage-class memory; 5, the lock-free NVM journal
    #[arg(value_parser = paper)]
    pub number: u32,
    /// Smaller sets, fewer operations, one round
    #[arg(long)]
    pub quick: bool,
    /// Each idea of the paper off by itself, too, beside the full system; of papers 1, 3 and 5
    #[arg(long)]
    pub ablate: bool,
    /// Only this figure, or table
    #[arg(long, value_name = "N")]
    pub figure: Option<u32>,
    /// How often every target has its turn [default: 5, or 1 with --quick]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
    /// A kind of NVM, as `ondol bench list` names it, in place of this machine's memory; of papers 1 and 5
    #[arg(long, value_name = "NAME", value_parser = crate::nvm::preset)]
    pub nvm_model: Option<&'static str>,
    /// How well what is written compresses: bytes for each byte that LZ4 makes of them, 1 to 16; not of papers 2 and 4
    #[arg(long, value_name = "R", default_value = TEXT, value_parser = ratio_of)]
    pub ratio: f64,
    /// Where images are made, if it is in memory; otherwise /dev/shm. Files of paper 2 lie there if it is on a disk;
    /// otherwise in /var/tmp
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    pub dir: PathBuf,
    /// Write the result as JSON; `-` is standard output, without the tables
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

fn paper(number: &str) -> Result<u32, String> {
    match number {
        "1" => Ok(1),
        "2" => Ok(2),
        "3" => Ok(3),
        "4" => Ok(4),
        "5" => Ok(5),
        _ => Err("there are papers 1 to 5".into()),
    }
}

/// `ondol bench run …`
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// The workload; `ondol bench list` names them
    pub workload: String,
    /// A file system to run on; the first one is what the others are compared with
    #[arg(long = "on", value_name = "TARGET", required = true)]
    pub on: Vec<String>,
    /// How often every target has its turn
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Threads that work at the same time [default: the workload's]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
    /// Let each turn last so long instead of a number of operations
    #[arg(long, value_name = "S", conflicts_with = "ops")]
    pub seconds: Option<f64>,
    /// Operations in each turn, over all threads [default: the workload's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub ops: Option<u64>,
    /// How well what is written compresses: bytes for each byte that LZ4 makes of them, 1 to 16
    #[arg(long, value_name = "R", default_value = "1", value_parser = ratio_of)]
    pub ratio: f64,
    /// Count also what a turn leaves to be done later: a sync at its end, or closing, which brings everything home
    #[arg(long, value_enum, value_name = "HOW", num_args = 0..=1, default_missing_value = "sync")]
    pub settle: Option<Settle>,
    /// A kind of NVM, as `ondol bench list` names it, for each target that has NVM and no nvm_model= of its own
    #[arg(long, value_name = "NAME", value_parser = crate::nvm::preset)]
    pub nvm_model: Option<&'static str>,
    /// Set a parameter of the workload
    #[arg(long = "param", value_name = "NAME=VALUE")]
    pub params: Vec<String>,
    /// Where images are made
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    pub dir: PathBuf,
    /// Write the result as JSON; `-` is standard output, without the table
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}
