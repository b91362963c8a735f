//! The command line of `ondol bench`.

use crate::contents::Class;
use clap::{Args, Subcommand};
use std::path::PathBuf;

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
    /// Draw the figures of a paper
    #[command(hide = true)]
    Paper {
        /// Everything after the command's name.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
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
    /// What is written
    #[arg(long, value_enum, default_value_t = Class::Random)]
    pub class: Class,
    /// Count the time of a sync at the end of every turn, so that nothing is left to be written
    #[arg(long)]
    pub settle: bool,
    /// Set a parameter of the workload
    #[arg(long = "param", value_name = "NAME=VALUE")]
    pub params: Vec<String>,
    /// Where images are made
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    pub dir: PathBuf,
    /// Write the result as JSON; `-` is standard output, without the table
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write WORKLOAD.json and WORKLOAD.md into this directory
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
}
