//! The command line.

use crate::size;
use clap::{Args, Parser, Subcommand};
use ondol::pool::{Domain, NvmModel};
use std::ffi::OsString;
use std::path::PathBuf;

/// Crash-consistent ext4 in user space.
#[derive(Debug, Parser)]
#[command(name = "ondol", version, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make an ext4 file system
    Mkfs(Mkfs),
    /// Mount a volume on a directory
    Mount(Mount),
    /// Unmount; returns when the image is clean
    Umount(Umount),
    /// Make durable everything done before on a mounted volume
    Sync(Sync),
    /// Check a volume, with fsck's exit codes
    Check(Check),
    /// Replay the journal and leave the image clean
    Recover(Recover),
    /// Show geometry, features, journal and counters
    Info(Info),
    /// Measure against other file systems
    Bench(ondol_bench::BenchArgs),
    /// Change how a clean image is journaled
    #[command(hide = true)]
    Tune(Ignored),
    /// Write the image out of a pool
    #[command(hide = true)]
    Export(Ignored),
    /// Make and look at NVM pools
    #[command(subcommand)]
    Pool(Pool),
    /// Run a command under the write buffer
    #[command(hide = true)]
    Run(Ignored),
    // What it does, its arguments say.
    Crash(ondol_laboratory::CrashArgs),
}

#[derive(Debug, Args)]
pub(crate) struct Mkfs {
    /// Size of the file system; a file is made this large, an existing one keeps its size without it
    #[arg(long, value_parser = size::parse, value_name = "SIZE")]
    pub(crate) size: Option<u64>,
    /// Volume label, up to 16 bytes
    #[arg(short = 'L', value_name = "LABEL")]
    pub(crate) label: Option<String>,
    /// Block size in bytes: 1024, 2048 or 4096
    #[arg(short = 'b', value_name = "BYTES")]
    pub(crate) block_size: Option<u32>,
    /// Number of inodes
    #[arg(short = 'N', value_name = "NUMBER")]
    pub(crate) inodes: Option<u32>,
    /// Features to turn on, or off with ^, separated by commas
    #[arg(short = 'O', value_name = "FEATURES")]
    pub(crate) features: Option<String>,
    /// Make it even where there is a file system already
    #[arg(short = 'F')]
    pub(crate) force: bool,
    /// Image file or block device
    pub(crate) target: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Mount {
    /// Make and format an image file of this size if there is none
    #[arg(long, value_parser = size::parse, value_name = "SIZE")]
    pub(crate) create: Option<u64>,
    /// Mount options, separated by commas
    #[arg(short = 'o', value_name = "OPTIONS", allow_hyphen_values = true)]
    pub(crate) options: Vec<String>,
    /// Stay in the foreground, with messages on standard error
    #[arg(short = 'f')]
    pub(crate) foreground: bool,
    /// Image file or block device
    pub(crate) target: PathBuf,
    /// Where to mount it
    pub(crate) dir: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Umount {
    /// Where the volume is mounted
    pub(crate) dir: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Sync {
    /// A directory on the mounted volume
    pub(crate) dir: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Change nothing
    #[arg(short = 'n')]
    pub(crate) read_only: bool,
    /// Go by the copy of the superblock in this block; changes nothing
    #[arg(short = 'b', value_name = "BLOCK")]
    pub(crate) superblock: Option<u64>,
    /// Image file or block device
    pub(crate) target: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Recover {
    /// Give up what an NVM pool holds
    #[arg(long)]
    pub(crate) discard_nvm: bool,
    /// Image file or block device
    pub(crate) target: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Info {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print counters too
    #[arg(long)]
    pub(crate) stats: bool,
    /// Image file, block device, or a directory on a mounted volume
    pub(crate) target: PathBuf,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Pool {
    /// Make a pool on a DAX device or in a file
    Create(PoolCreate),
    /// Show a pool's state, and which crashes it survives
    Info(PoolInfo),
    /// Show the headers and the first bytes of each area
    Dump(PoolDump),
    /// Show what persisting costs: times and counters of each step
    Measure(PoolMeasure),
}

#[derive(Debug, Args)]
pub(crate) struct PoolCreate {
    /// Size of the pool; a file is made or extended to this, a device or an existing file is used as a whole without it
    #[arg(long, value_parser = size::parse, value_name = "SIZE")]
    pub(crate) size: Option<u64>,
    /// Persistence domain: auto, adr, eadr, gpf, msync or volatile
    #[arg(long, value_name = "DOMAIN", default_value = "auto")]
    pub(crate) domain: Domain,
    /// Make it even where there is something already
    #[arg(short = 'F')]
    pub(crate) force: bool,
    /// DAX device or file
    pub(crate) pool: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct PoolInfo {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// DAX device or file
    pub(crate) pool: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct PoolDump {
    /// DAX device or file
    pub(crate) pool: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct PoolMeasure {
    /// Imitate a slower NVM: read=300ns,write=100ns,bandwidth=2G, each part optional
    #[arg(long, value_name = "MODEL", default_value = "off")]
    pub(crate) nvm_model: NvmModel,
    /// Persistence domain to imitate instead of the pool's own: adr, eadr, gpf, msync or volatile
    #[arg(long, value_name = "DOMAIN", default_value = "auto")]
    pub(crate) domain: Domain,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// DAX device or file
    pub(crate) pool: PathBuf,
}

/// Arguments of a command whose name is taken.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Ignored {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    pub(crate) words: Vec<OsString>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definitions_agree_with_each_other() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn names_and_options_are_those_of_the_manual() {
        for line in [
            "mkfs --size 1G -L label -b 4096 -N 1000 -O ^has_journal -F x.img",
            "mount --create 1G -o ro,data=journal -o allow_other -f x.img /mnt",
            "umount /mnt",
            "sync /mnt",
            "check -n x.img",
            "recover --discard-nvm x.img",
            "info --json --stats x.img",
            "bench run varmail --on dir:/tmp --json out",
            "tune --journal classic x.img",
            "export x y",
            "pool create --size 1G /dev/dax0.0",
            "pool create --domain eadr -F /dev/dax0.0",
            "pool info --json /dev/dax0.0",
            "pool dump /dev/dax0.0",
            "pool measure --nvm-model read=300ns,write=100ns,bandwidth=2G --domain eadr --json /dev/dax0.0",
            "run --buffer P --dir /d -- ls -l",
            "crash --engine classic --data journal",
        ] {
            let words = std::iter::once("ondol").chain(line.split(' '));
            Arguments::try_parse_from(words).unwrap_or_else(|e| panic!("{line}: {e}"));
        }
    }
}
