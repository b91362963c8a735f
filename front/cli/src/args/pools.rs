//! Commands about NVM pools and the images in them.

use crate::size;
use clap::{Args, Subcommand};
use ondol::pool::{Domain, NvmModel};
use std::path::PathBuf;

/// Write the image in a pool to a file or device
///
/// The blocks come in their logical order: the kernel and e2fsck take what is made. What the journal holds is replayed
/// into it. Nothing of the target is changed.
#[derive(Debug, Args)]
pub(crate) struct Export {
    /// Make it even where there is something already, which is then lost
    #[arg(short = 'F', long)]
    pub(crate) force: bool,
    /// nvm:POOL, or an image file or block device
    pub(crate) target: PathBuf,
    /// File or block device to write to
    pub(crate) image: PathBuf,
}

/// Bring an image with blocks of 4096 bytes into a pool
///
/// The pool is made if it is not there. The image in it is the same, byte for byte.
#[derive(Debug, Args)]
pub(crate) struct Import {
    /// Do it even where the pool has an image already, which is then lost
    #[arg(short = 'F', long)]
    pub(crate) force: bool,
    /// Image file or block device
    pub(crate) image: PathBuf,
    /// nvm:POOL
    pub(crate) target: PathBuf,
}

const INFO: &str = if ondol::HAS_BUCKETS {
    "Show a pool's state, and which crashes it survives; of the log of a volume in object storage, what it holds"
} else {
    "Show a pool's state, and which crashes it survives"
};

const DUMP: &str = if ondol::HAS_BUCKETS {
    "Show the headers and the first bytes of each area; of the log of a volume in object storage, each batch"
} else {
    "Show the headers and the first bytes of each area"
};

#[derive(Debug, Subcommand)]
pub(crate) enum Pool {
    /// Make a pool on a DAX device or in a file, which only its owner may read
    Create(PoolCreate),
    #[command(about = INFO)]
    Info(PoolInfo),
    #[command(about = DUMP)]
    Dump(PoolDump),
    /// Put the blocks of the image in a pool into the order of their numbers, in place
    ///
    /// Block n goes to page n, so that what lies side by side in the image lies side by side in memory, and can be
    /// mapped in few pieces. The image stays the same. It can be interrupted at any moment, and run again.
    Flatten(PoolFlatten),
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
    /// Make it even where there is something already, which is then lost
    #[arg(short = 'F', long)]
    pub(crate) force: bool,
    /// DAX device or file
    pub(crate) pool: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct PoolInfo {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// DAX device or file; or the file of `durable=local,redo=FILE`
    pub(crate) pool: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct PoolDump {
    /// DAX device or file; or the file of `durable=local,redo=FILE`
    pub(crate) pool: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct PoolFlatten {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
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
