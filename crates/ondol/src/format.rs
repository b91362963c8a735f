//! What an empty volume is made of, and how that is written.

use crate::options::{NOT_ASKED_FOR, data_code};
use crate::{DataMode, Error, JournalEngine, Result};
use ondol_block::BlockStore;
use ondol_env::Env;
use ondol_format::jbd2::Extension;
use ondol_format::mkfs::{self, Chunk, Plan, Usage};
use ondol_format::superblock::{OFFSET, SIZE};
use std::convert::Infallible;
use std::ops::Range;

/// How a volume is made; everything that is not set is decided as mke2fs does, but for the journal: its engine is
/// `compressed`, its data mode `journal`, and it is larger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FormatOptions {
    size: Option<u64>,
    label: String,
    block_size: Option<u32>,
    inodes: Option<u32>,
    features: String,
    force: bool,
    journal: Option<JournalEngine>,
    data: Option<DataMode>,
    journal_size: Option<u64>,
    uuid: Option<[u8; 16]>,
    reserved_share: Option<u16>,
    bytes_per_inode: Option<u64>,
    usage: Option<Usage>,
    chunk: Option<u64>,
}

impl FormatOptions {
    /// What was asked for of the size in bytes, of the bytes in a block, and of what is there.
    pub(crate) fn asked(&self) -> (Option<u64>, Option<u32>, bool) {
        (self.size, self.block_size, self.force)
    }

    /// The bytes in a chunk that were asked for.
    pub(crate) fn chunk_asked(&self) -> Option<u64> {
        self.chunk
    }

    /// The engine that was asked for.
    pub(crate) fn engine(&self) -> Option<JournalEngine> {
        self.journal
    }

    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Size in bytes. Needed for a file that does not exist; an existing regular file is resized to it.
    #[must_use]
    pub fn size(mut self, bytes: u64) -> Self {
        self.size = Some(bytes);
        self
    }

    /// Label, at most 16 bytes.
    #[must_use]
    pub fn label(mut self, label: &str) -> Self {
        label.clone_into(&mut self.label);
        self
    }

    /// Bytes in a block: 1024, 2048 or 4096.
    #[must_use]
    pub fn block_size(mut self, bytes: u32) -> Self {
        self.block_size = Some(bytes);
        self
    }

    /// Number of inodes.
    #[must_use]
    pub fn inodes(mut self, count: u32) -> Self {
        self.inodes = Some(count);
        self
    }

    /// Features to add, or with `^` to leave out, as in `mke2fs -O`.
    #[must_use]
    pub fn features(mut self, list: &str) -> Self {
        list.clone_into(&mut self.features);
        self
    }

    /// The journal engine that the image asks for.
    #[must_use]
    pub fn journal(mut self, engine: JournalEngine) -> Self {
        self.journal = Some(engine);
        self
    }

    /// The data mode that the image asks for.
    #[must_use]
    pub fn data(mut self, data: DataMode) -> Self {
        self.data = Some(data);
        self
    }

    /// Size of the journal in bytes.
    #[must_use]
    pub fn journal_size(mut self, bytes: u64) -> Self {
        self.journal_size = Some(bytes);
        self
    }

    /// UUID of the volume; a random one without it.
    #[must_use]
    pub fn uuid(mut self, uuid: [u8; 16]) -> Self {
        self.uuid = Some(uuid);
        self
    }

    /// Blocks that only the privileged may use, in hundredths of a percent of the volume, at most 5000: 500.
    #[must_use]
    pub fn reserved_share(mut self, hundredths: u16) -> Self {
        self.reserved_share = Some(hundredths);
        self
    }

    /// Bytes of the volume for each inode, where their number is not set: 1024 to 64 MiB.
    #[must_use]
    pub fn bytes_per_inode(mut self, bytes: u64) -> Self {
        self.bytes_per_inode = Some(bytes);
        self
    }

    /// What the volume is for, which decides the size of blocks and the number of inodes where they are not set.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }

    /// Bytes in a chunk, in object storage alone: a power of two from 4096 to 65536. Chunks are what is stored,
    /// compressed and looked up as one. 4096.
    #[must_use]
    pub fn chunk(mut self, bytes: u64) -> Self {
        self.chunk = Some(bytes);
        self
    }

    /// The same, with this engine if none was asked for.
    pub(crate) fn journal_or(mut self, engine: JournalEngine) -> Self {
        self.journal.get_or_insert(engine);
        self
    }

    /// Make the volume even where there is something already, which is then lost.
    #[must_use]
    pub fn force(mut self, yes: bool) -> Self {
        self.force = yes;
        self
    }
}

/// Bytes of zeros written at once.
const ZEROS: usize = 1 << 20;

/// The superblock, and what lies before it.
const HEAD: u64 = OFFSET + SIZE as u64;

pub(crate) fn plan(
    options: &FormatOptions,
    size: u64,
    zeroed: bool,
    env: &dyn Env,
) -> std::result::Result<Plan, ondol_format::FormatError> {
    let uuid = options.uuid.unwrap_or_else(|| env.random_uuid());
    let mut o = mkfs::Options::new(uuid, env.random_uuid(), env.now().sec);
    o.block_size = options.block_size.or(options.usage.map(|usage| usage.block_size));
    o.bytes_per_inode = options.bytes_per_inode.or(options.usage.map(|usage| usage.bytes_per_inode));
    o.reserved_share = options.reserved_share.unwrap_or(o.reserved_share);
    o.inodes = options.inodes;
    o.label = options.label.clone().into_bytes();
    o.features = o.features.apply(&options.features)?;
    o.root_owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    o.zeroed = zeroed;
    let engine = options.journal.unwrap_or(JournalEngine::Compressed);
    if engine == JournalEngine::Scalable {
        return Err(ondol_format::FormatError::Parameter(NOT_ASKED_FOR.into()));
    }
    let data = options.data.unwrap_or(match engine {
        JournalEngine::Classic | JournalEngine::Scalable => DataMode::Ordered,
        JournalEngine::Compressed | JournalEngine::Swap | JournalEngine::Remap | JournalEngine::Batch => {
            DataMode::Journal
        }
    });
    // In object storage its engine needs no asking for. The image asks for what is good for it elsewhere.
    let asked = if engine == JournalEngine::Batch { JournalEngine::Compressed } else { engine };
    o.journal_extension = Extension { engine: asked.code(), data: data_code(data), ..Extension::default() };
    o.roomy_journal = engine == JournalEngine::Compressed;
    if let Some(bytes) = options.journal_size {
        // The size of a block follows from that of the volume where it is not set.
        let block_size = Plan::new(&o, size)?.superblock().block_size();
        o.journal_blocks = Some(u32::try_from(bytes / u64::from(block_size)).unwrap_or(u32::MAX));
    }
    Plan::new(&o, size)
}

/// Discards the bytes before `end` that will not be written; says whether all of them could be.
pub(crate) fn wipe(store: &dyn BlockStore, written: &[Range<u64>], end: u64) -> Result<bool> {
    let mut at = 0;
    for range in written.iter().cloned().chain(std::iter::once(end..end)).filter(|range| range.start <= end) {
        if range.start > at && !store.discard(at, range.start - at)? {
            return Ok(false);
        }
        at = range.end;
    }
    Ok(true)
}

/// The bytes that a plan writes, in their order.
pub(crate) fn written(plan: &Plan) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    let noted: std::result::Result<(), Infallible> = plan.emit(|chunk| {
        let (start, len) = match chunk {
            Chunk::Bytes { offset, bytes } => (offset, bytes.len() as u64),
            Chunk::Zeros { offset, len } => (offset, len),
        };
        ranges.push(start..start + len);
        Ok(())
    });
    let Ok(()) = noted;
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|next, kept| {
        let touch = next.start <= kept.end;
        kept.end = if touch { kept.end.max(next.end) } else { kept.end };
        touch
    });
    ranges
}

/// As [`crate::Volume::format`], in all of `store` and over whatever is there, with any clock. `is_file`: what is
/// discarded there holds zeros.
///
/// # Errors
/// As [`crate::Volume::format`].
pub fn format_store(store: &dyn BlockStore, options: &FormatOptions, is_file: bool, env: &dyn Env) -> Result<()> {
    let fail = |e: ondol_format::FormatError| Error::format(store.name().to_owned(), e.to_string());
    let plan = plan(options, store.size(), is_file, env).map_err(fail)?;
    if is_file {
        forget(store)?;
        wipe(store, &written(&plan), store.size())?;
    }
    write(store, &plan)
}

/// Takes away what a volume is known by. Durable when this returns.
pub(crate) fn forget(store: &dyn BlockStore) -> ondol_block::Result<()> {
    let len = HEAD.min(store.size()) as usize;
    store.write(0, &[0; HEAD as usize][..len])?;
    store.flush()
}

/// Nobody takes for a volume what a crash leaves of this: what was there goes first, durably, and the superblock
/// comes when all else is durable.
pub(crate) fn write(store: &dyn BlockStore, plan: &Plan) -> Result<()> {
    let zeros = vec![0; ZEROS];
    plan.emit(|chunk| match chunk {
        // The first and the last: zeros, and the superblock.
        Chunk::Bytes { offset, bytes } if offset < HEAD => {
            store.flush()?;
            store.write(offset, bytes)?;
            store.flush()
        }
        Chunk::Bytes { offset, bytes } => store.write(offset, bytes),
        Chunk::Zeros { mut offset, mut len } => {
            while len > 0 {
                let n = len.min(ZEROS as u64);
                store.write(offset, &zeros[..n as usize])?;
                (offset, len) = (offset + n, len - n);
            }
            Ok(())
        }
    })?;
    Ok(())
}
