//! Ondol: a crash-consistent ext4 in user space, as a library.
//!
//! A [`Volume`] is an ordinary ext4 image, opened without a kernel module and without root. Its calls feel like
//! `std::fs`; what they promise after a crash is more: in `data=journal` the volume holds exactly the state after some
//! prefix of the operations that took effect, including everything up to the last completed [`Volume::sync`].
//!
//! ```
//! use ondol::{FormatOptions, OpenOptions, Volume};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let image = dir.path().join("disk.img");
//! Volume::format(&image, &FormatOptions::new().size(64 << 20).label("demo"))?;
//! let volume = Volume::open(&image)?;
//! volume.create_dir("/notes")?;
//! let file = OpenOptions::new().read(true).write(true).create(true).open(&volume, "/notes/today")?;
//! file.write_all_at(b"warm floor", 0)?;
//! file.sync_data()?; // fdatasync: a crash keeps it, and all that was done before
//!
//! // What is there now, lent without a copy where the medium is NVM: later writes do not change it.
//! let before = file.view(..)?;
//! // All of it or nothing, to a crash and to other threads.
//! volume.transaction(|tx| {
//!     tx.write("/notes/today", b"warmer floor").rename("/notes/today", "/notes/yesterday");
//!     Ok(())
//! })?;
//! assert_eq!(before.to_vec(), b"warm floor");
//! assert_eq!(volume.read("/notes/yesterday")?, b"warmer floor");
//! drop((before, file)); // a volume is closed when nothing holds it
//! volume.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! Cargo features, none of them by default:
//!
//! - `object`: a volume may lie in object storage. A target such as `s3://BUCKET/PREFIX` names it ([`is_in_bucket`]),
//!   [`snapshot`] keeps it as it is.
//!
//! [`File::view`] and [`File::map`] lend the stored bytes of a file in an NVM pool, without a copy. What is stored to
//! [`File::map_mut`] is committed as one.
//!
//! [`Volume::scratch`] is working memory out of the free space of a volume in a pool.
//!
//! [`pool`] makes NVM pools, looks at them, and measures what persisting costs there.
//!
//! [`buffer`] is for programs that write to files of their own through a library; [`run`] is for programs on the file
//! systems that they have: their synchronous writes end in a pool.
//!
//! [`Volume::inodes`] is the layer below: calls by inode number, for mounts and other servers.
#![forbid(unsafe_code)]

/// The README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod attributes;
mod background;
mod bucket;
pub mod buffer;
mod compose;
mod counters;
mod directory;
mod discard;
mod error;
mod fast_commit;
mod file;
mod format;
mod holding;
mod home;
mod info;
mod journal_size;
pub mod machine;
mod maintain;
mod make;
mod map_mut;
mod media;
mod memory;
mod metadata;
mod mounted;
mod nvm;
mod nvm_meter;
mod open;
mod options;
mod part;
mod path;
pub mod pool;
mod prefault;
mod progress;
mod recording;
mod remedy;
mod resize;
pub mod run;
mod salvage;
mod scratch;
mod settings;
mod target;
mod transaction;
mod transfer;
mod view;
mod volume;
mod whole;
mod words;

pub use attributes::Attributes;
pub use bucket::{
    BucketInfo, DiskCacheInfo, Durable, HAS_BUCKETS, LagInfo, LeaseInfo, LocalBatch, LocalLogInfo, LocalLogState,
    RequestInfo, Snapshot, Snapshots, StoredInfo, clone_volume, delete_volume, is_local_log,
    is_there as is_volume_there, local_log, local_log_batches, local_log_batches_in_pool, mark_of,
    require_named as require_named_in_bucket, says_closed, snapshot, snapshot_delete, snapshots,
};
pub use counters::Counters;
pub use directory::{DirBuilder, DirEntry, ReadDir};
pub use discard::{Discarded, discard as discard_nvm, discard_media as discard_nvm_of};
pub use error::{Error, Result, errno_of};
pub use file::{File, OpenOptions};
pub use format::{FormatOptions, format_store};
pub use home::{TableInfo, attach as attach_table, format_pool};
pub use info::{Info, MountInfo, Pages, State, info, partitions};
pub use maintain::{
    CheckReport, RecoverReport, Tune, check, check_by_copy, check_media, check_telling, mark_checked, recover,
    recover_media, recover_telling, recover_with_pool, tune, tune_store,
};
pub use map_mut::MapMut;
pub use media::Media;
pub use metadata::{FileTimes, Metadata};
pub use nvm::Lost;
pub use nvm_meter::NvmMeter;
pub use ondol_block::{Access, BlockStats, DeviceClass, PageUse, open_file, passed, reopen};
pub use ondol_env::counters::{Counter, Counts, Kind as CounterKind, Unit as CounterUnit};
pub use ondol_env::{Timestamp, waits};
pub use ondol_format::mkfs::Usage;
pub use ondol_format::{is_printable, line, printable};
pub use ondol_journal::{CacheStats, EngineStats};
pub use ondol_medium::NvmStats;
pub use ondol_volume::{
    Atime, Attr, Caller, CopyRange, DataMode, Device, Exchange, Extent, Fallocate, FileType, FsxAttr, Fsync, Ino,
    OnError, ROOT, Rename, ResizeStep, Resized, Seek, SetAttr, SetTime, SetXattr, StatFs, VolumeStats,
};
pub use open::Open;
pub use options::{BUCKET_OPTION_NAMES, JournalEngine, OPTION_NAMES, OptionError, Options, UnknownEngine, parse_size};
pub use part::{Part, Partition, part_in, part_of};
pub use prefault::{MapStats, Prefault};
pub use progress::{Progress, Told};
pub use remedy::Remedy;
pub use resize::{NewSize, ResizeReport, Sizes, resize, resize_media, resize_telling, sizes};
pub use salvage::{ForcedReport, recover_by_force, recover_store_by_force, recover_with_pool_by_force};
pub use scratch::{Aside, Scratch};
pub use target::{is_in_bucket, pool_of};
pub use transaction::Transaction;
pub use transfer::{Transferred, export, export_media, export_telling, import, import_store};
pub use view::{Map, View};
pub use volume::Volume;
pub use words::counted;

/// The inode-level API.
pub mod inodes {
    pub use ondol_volume::{Batch, DirEntry, Error, Volume as Inodes};
    pub use ondol_volume::{FileIo, FileRanges, FreeSpace, InodeOps, Namespace, PageCache, Xattrs};
}
