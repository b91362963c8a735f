//! What there is to know of a volume: geometry, features, journal, counters. Serialised, it is what `info --json`
//! prints.

use crate::bucket::{self, BucketInfo};
use crate::home;
use crate::machine::claim;
use crate::memory::Shares;
use crate::nvm_meter::NvmMeter;
use crate::part::{Partition, partitions_in};
use crate::words::uuid_text;
use crate::{Counters, JournalEngine, Options, Result, Volume};
use ondol_format::Superblock;
use ondol_journal::{LogMap, jbd2};
use ondol_volume::Image;
use serde::Serialize;
use std::path::Path;

/// A volume's description.
#[derive(Clone, Debug, Serialize)]
pub struct Info {
    /// The image or device.
    pub target: String,
    /// Label.
    pub label: String,
    /// UUID.
    pub uuid: String,
    /// Bytes in a block.
    pub block_size: u32,
    /// Blocks.
    pub blocks: u64,
    /// Free blocks.
    pub free_blocks: u64,
    /// Blocks that only the privileged may use.
    pub reserved_blocks: u64,
    /// Inodes.
    pub inodes: u32,
    /// Free inodes.
    pub free_inodes: u64,
    /// Block groups.
    pub groups: u32,
    /// Bytes of an inode.
    pub inode_size: u16,
    /// Feature names as mke2fs has them.
    pub features: Vec<String>,
    /// `clean`, `dirty` (the journal must be replayed), `errors`, `unclean` (not unmounted cleanly, without a journal)
    /// or `mounted`.
    pub state: &'static str,
    /// The journal, if the image has one.
    pub journal: Option<JournalInfo>,
    /// The page table below, of an image in an NVM pool that is not mounted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<home::TableInfo>,
    /// The home in object storage, of a volume that lies there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bucket: Option<BucketInfo>,
    /// Mounted: data mode, engine, and what the engine promises.
    pub mount: Option<MountInfo>,
    /// Mounted, in a pool: what its pages are used for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages: Option<Pages>,
    /// Mounted: counters since the mount.
    pub counters: Option<Counters>,
}

/// The journal as it lies on the medium.
#[derive(Clone, Debug, Serialize)]
pub struct JournalInfo {
    /// Blocks.
    pub blocks: u32,
    /// The same in bytes.
    pub bytes: u64,
    /// It holds transactions.
    pub dirty: bool,
    /// Next transaction id.
    pub sequence: u32,
    /// Feature names.
    pub features: Vec<String>,
    /// UUID.
    pub uuid: String,
    /// The engine that a mount takes unless told otherwise.
    pub engine: &'static str,
    /// The data mode that a mount takes unless told otherwise.
    pub data: &'static str,
    /// UUID of the NVM pool that has changes which are not home.
    pub nvm: Option<String>,
}

/// How a volume is mounted.
#[derive(Clone, Debug, Serialize)]
pub struct MountInfo {
    /// Journal engine.
    pub engine: &'static str,
    /// `writeback`, `ordered` or `journal`.
    pub data: &'static str,
    /// `prefix` (an fsync makes all earlier operations durable) or `file`.
    pub fsync: &'static str,
    /// The options that hold as long as it is mounted, as `mount -o` takes them.
    pub options: String,
    /// The class of the device below the image, by which engines decide what to delay, to compress and to write
    /// through.
    pub device: &'static str,
    /// Changes are refused.
    pub read_only: bool,
    /// Why, if that is because of an error.
    pub stopped: Option<String>,
    /// Why nothing can be written to the image at present; what is synced is in the NVM pool all the same.
    pub not_home: Option<String>,
    /// The largest write that a crash cannot divide, in bytes.
    pub atomic_bytes: u64,
    /// What a server of the mount takes of memory at most, in bytes: see [`State::memory_bound`].
    pub memory_bound: u64,
    /// Which crashes a completed fsync survives on this medium.
    pub survives: &'static str,
}

/// What the pages of a pool are used for, 4096 bytes each (papers/4, §2.1). `free` is what the others leave of `total`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pages {
    /// All of them.
    pub total: u64,
    /// Storage: blocks that files and the file system have.
    pub storage: u64,
    /// Storage that is read in place, by views and maps that are not parted; a page that two read counts twice.
    pub read_in_place: u64,
    /// Memory: [`Volume::scratch`].
    pub memory: u64,
    /// The engine's: new contents that no block has yet.
    pub log: u64,
    /// What was overwritten or removed, and is read in place still.
    pub held: u64,
    /// For whoever comes first, but for what writing sets aside.
    pub free: u64,
}

/// What a server takes beside what `cache=` gives: the program itself, stacks, and what its allocator keeps for a while
/// to use it again.
const BESIDE: u64 = 64 << 20;

/// What an inode takes that somebody knows by number or has open, whether it is cached or not: how often, and its place
/// among the orphans.
const KNOWN: u64 = 192;

/// Describes the image at `path`, which nobody may have open for writing. Changes nothing.
///
/// # Errors
/// The image is in use, is not ext4, or is corrupt.
pub fn info(path: impl AsRef<Path>) -> Result<Info> {
    let path = path.as_ref();
    let (store, bucket) = match bucket::look(path)? {
        Some((store, bucket)) => (store, Some(bucket)),
        None => (home::look(path)?, None),
    };
    let image = Image::open(store)?;
    let mut info = describe(&image)?;
    info.table = home::table_info(path)?;
    if let (Some(_), Some(journal)) = (&bucket, &mut info.journal) {
        journal.engine = JournalEngine::Batch.name();
    }
    info.bucket = bucket;
    let state = image.superblock().raw().s_state.get();
    info.state = if image.needs_recovery() || info.journal.as_ref().is_some_and(|j| j.dirty) {
        "dirty"
    } else if state & ondol_format::superblock::STATE_ERROR != 0 {
        "errors"
    } else if state & ondol_format::superblock::STATE_VALID == 0 {
        "unclean"
    } else {
        "clean"
    };
    Ok(info)
}

/// The partitions of the disk or its image at `path`, by number; none where there is no table.
///
/// # Errors
/// It is in use by somebody who writes, or cannot be read; its table is damaged.
pub fn partitions(path: impl AsRef<Path>) -> Result<Vec<Partition>> {
    partitions_in(&claim::look(path.as_ref())?)
}

fn describe(image: &Image) -> Result<Info> {
    let sb: &Superblock = image.superblock();
    let journal = match sb.journal_inum() {
        Some(_) => Some(journal_info(image)?),
        None => None,
    };
    let (free_blocks, free_inodes) = image.free_counts()?;
    Ok(Info {
        target: image.name().to_owned(),
        label: text_of(sb.raw().volume_name()),
        uuid: uuid_text(&sb.raw().s_uuid),
        block_size: sb.block_size(),
        blocks: sb.blocks_count(),
        free_blocks,
        reserved_blocks: sb.r_blocks_count(),
        inodes: sb.inodes_count(),
        free_inodes,
        groups: sb.groups(),
        inode_size: sb.inode_size(),
        features: sb.features().names(),
        state: "clean",
        journal,
        table: None,
        bucket: None,
        mount: None,
        pages: None,
        counters: None,
    })
}

fn journal_info(image: &Image) -> Result<JournalInfo> {
    let map = LogMap::new(image.superblock().block_size(), image.journal_map()?);
    let found = jbd2::info(image.store(), &map)?;
    let asked = Options::default().over(image.superblock(), found.asks);
    Ok(JournalInfo {
        blocks: found.blocks,
        bytes: u64::from(found.blocks) * u64::from(image.superblock().block_size()),
        dirty: found.dirty || found.nvm.is_some(),
        sequence: found.sequence,
        features: found.features,
        uuid: uuid_text(&found.uuid),
        engine: asked.journal.engine.unwrap_or_default().name(),
        data: asked.journal.data.unwrap_or_default().name(),
        nvm: found.nvm.map(|attached| uuid_text(&attached.pool)),
    })
}

/// A label as it is where it is text, and otherwise as it can be shown.
fn text_of(label: &[u8]) -> String {
    std::str::from_utf8(label).map_or_else(|_| ondol_format::printable(label), str::to_owned)
}

impl Volume {
    /// Describes the mounted volume and counts what it has done.
    ///
    /// # Errors
    /// The store's failure, or corruption.
    pub fn info(&self) -> Result<Info> {
        let composed = self.doors.composed();
        let image = Image::open(composed.store.clone())?;
        let mut info = describe(&image)?;
        let statfs = composed.inodes.statfs();
        (info.free_blocks, info.free_inodes) = (statfs.free, statfs.files_free);
        info.state = "mounted";
        info.bucket = self.state().bucket();
        info.mount = Some(self.state().mount());
        info.pages = self.state().pages();
        info.counters = Some(self.state().counters());
        Ok(info)
    }

    /// What it tells of itself beside.
    pub fn state(&self) -> State<'_> {
        State(self)
    }
}

/// What a volume that is open tells of itself. Nothing is read from the medium, unless a method says so.
#[derive(Clone, Copy, Debug)]
pub struct State<'v>(&'v Volume);

impl State<'_> {
    /// The counters now. Nothing is read from the medium.
    pub fn counters(self) -> Counters {
        let composed = self.0.doors.composed();
        Counters {
            device: composed.store.stats(),
            nvm: composed.nvm.read(),
            engine: composed.engine.stats(),
            cache: composed.engine.cache().stats(),
            files: composed.inodes.stats(),
            pages: composed.store.lender().map(|lender| lender.page_use()).unwrap_or_default(),
            recovered: composed.recovered,
        }
    }

    /// As [`Volume::info`], with what a volume in object storage takes there: the store is asked for a list, which is
    /// waited for up to ten seconds.
    ///
    /// # Errors
    /// As [`Volume::info`]. A store that does not answer leaves it out.
    pub fn info_with_usage(self) -> Result<Info> {
        let mut info = self.0.info()?;
        if let (Some(held), Some(bucket)) = (&self.0.doors.composed().held, &mut info.bucket) {
            held.weigh(bucket);
        }
        Ok(info)
    }

    /// The home in object storage, of a volume that lies there: as it is known here. The store is asked nothing.
    pub fn bucket(self) -> Option<BucketInfo> {
        self.0.doors.composed().held.as_ref().map(|held| held.info())
    }

    /// How it is mounted.
    pub fn mount(self) -> MountInfo {
        let composed = self.0.doors.composed();
        MountInfo {
            engine: composed.engine.name(),
            data: composed.inodes.data_mode().name(),
            fsync: composed.inodes.fsync_mode().name(),
            options: composed.options.fixed(),
            device: composed.options.device_of(&*composed.store).name(),
            read_only: composed.inodes.is_read_only(),
            stopped: composed.inodes.stopped(),
            not_home: composed.engine.home_failure(),
            atomic_bytes: composed.inodes.files().atomic_bytes(),
            memory_bound: self.memory_bound(),
            survives: if let Some(hold) = &composed.attached {
                hold.survives()
            } else if composed.held.as_ref().is_some_and(|held| held.is_local()) {
                "a completed fsync survives a power cut, and the loss of this machine some seconds later: it is in \
                 the local log, and soon in object storage"
            } else if composed.held.is_some() {
                "a completed fsync survives the loss of this machine: it is in object storage"
            } else if composed.store.caps().durable_flush {
                "a completed fsync survives a power cut, if the device below honours flushes"
            } else {
                "a completed fsync survives the death of this process, but no power cut: the image lies in memory"
            },
        }
    }

    /// What the pages of the pool are used for; `None` if the volume does not lie in one, or its blocks are smaller
    /// than its pages.
    pub fn pages(self) -> Option<Pages> {
        let (composed, statfs) = (self.0.doors.composed(), self.0.inodes().statfs());
        let lender = composed.store.lender().filter(|lender| lender.page_bytes() == statfs.block_size)?;
        let (used, memory) = (lender.page_use(), composed.inodes.space().memory_blocks());
        // Others than a page table lend, too.
        if used.all == 0 {
            return None;
        }
        let blocks = composed.inodes.blocks();
        let storage = blocks.saturating_sub(statfs.free + memory);
        let taken = storage + used.memory + used.lent + used.held;
        Some(Pages {
            total: used.all,
            storage,
            read_in_place: used.pinned,
            memory: used.memory,
            log: used.lent,
            held: used.held,
            free: used.all.saturating_sub(taken),
        })
    }

    /// Counts what happens on the NVM that this volume lies on or has in front of it, also after it is closed, as its
    /// last writes are then. Its pool stays taken as long as this is there.
    pub fn nvm_meter(self) -> NvmMeter {
        self.0.doors.composed().nvm.clone()
    }

    /// Bytes that requests which carry or fetch much may take, all at a time: a share of `cache=`.
    pub fn request_bytes(self) -> u64 {
        Shares::of(self.0.doors.composed().options.image.cache_bytes).requests
    }

    /// Bytes of memory that a server of this volume takes at most, about: twice `cache=`, where all shares are full and
    /// no image is shared between them, and what it takes without, with 192 for each inode that a kernel knows. A
    /// single operation of the library that changes more than that is not bound by it.
    pub fn memory_bound(self) -> u64 {
        2 * self.0.doors.composed().options.image.cache_bytes
            + BESIDE
            + KNOWN * self.0.inodes().inode_ops().known_inodes() as u64
    }
}
