//! Making volumes.

use crate::machine::claim;
use crate::options::data_code;
use crate::{DataMode, Error, JournalEngine, Result, Volume};
use ondol_block::{Access, BlockStore, FileStore};
use ondol_env::{Env, System};
use ondol_format::jbd2::Extension;
use ondol_format::mkfs::{self, Chunk, Plan};
use ondol_format::superblock;
use std::fs::OpenOptions;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// How a volume is made; everything that is not set is decided as mke2fs does, but for the journal: its engine is `compressed`, its data mode
/// `journal`, and it is larger.
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
}

impl FormatOptions {
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

    /// Make the volume even where there is one already.
    #[must_use]
    pub fn force(mut self, yes: bool) -> Self {
        self.force = yes;
        self
    }
}

/// Bytes of zeros written at once.
const ZEROS: usize = 1 << 20;

impl Volume {
    /// Makes an empty ext4 volume on the file or block device at `path`. Durable when this returns.
    ///
    /// # Errors
    /// A file system is there already and `force` is not set; the size is missing or too small; an option cannot be
    /// honoured; the target is in use.
    pub fn format(path: impl AsRef<Path>, options: &FormatOptions) -> Result<()> {
        let path = path.as_ref();
        let fail = |what: String| Error::Format { target: path.display().to_string(), what };
        let (store, zeroed) = open_target(path, options, &fail)?;
        let plan = plan(options, &store, zeroed).map_err(|e| fail(e.to_string()))?;
        let zeros = vec![0; ZEROS];
        plan.emit(|chunk| match chunk {
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
        Ok(store.flush()?)
    }
}

fn plan(
    options: &FormatOptions,
    store: &FileStore,
    zeroed: bool,
) -> std::result::Result<Plan, ondol_format::FormatError> {
    let env = System;
    let mut o = mkfs::Options::new(env.random_uuid(), env.random_uuid(), env.now().sec);
    o.block_size = options.block_size;
    o.inodes = options.inodes;
    o.label = options.label.clone().into_bytes();
    o.features = o.features.apply(&options.features)?;
    o.root_owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    o.zeroed = zeroed;
    let engine = options.journal.unwrap_or(JournalEngine::Compressed);
    let data = options.data.unwrap_or(match engine {
        JournalEngine::Classic => DataMode::Ordered,
        JournalEngine::Compressed => DataMode::Journal,
    });
    o.journal_extension = Extension { engine: engine.code(), data: data_code(data), ..Extension::default() };
    o.roomy_journal = engine == JournalEngine::Compressed;
    if let Some(bytes) = options.journal_size {
        // The size of a block follows from that of the volume where it is not set.
        let block_size = Plan::new(&o, store.size())?.superblock().block_size();
        o.journal_blocks = Some(u32::try_from(bytes / u64::from(block_size)).unwrap_or(u32::MAX));
    }
    Plan::new(&o, store.size())
}

/// Opens, creates or resizes the target; also says whether it holds nothing but zeros.
fn open_target(path: &Path, options: &FormatOptions, fail: &dyn Fn(String) -> Error) -> Result<(FileStore, bool)> {
    let Ok(meta) = std::fs::metadata(path) else {
        let size = options.size.ok_or_else(|| fail("it does not exist: say how large it shall be (--size)".into()))?;
        return Ok((FileStore::create(path, size)?, true));
    };
    let store = claim::open(path, Access::Write)?;
    if !options.force && holds_ext4(&store) {
        return Err(fail("there is an ext file system on it already: -F makes a new one in its place".into()));
    }
    if meta.file_type().is_block_device() {
        if options.size.is_some_and(|s| s > store.size()) {
            return Err(fail(format!("the device has only {} bytes", store.size())));
        }
        return Ok((store, false));
    }
    // Cut to nothing and extended again, a regular file holds zeros. The lock is held until it has its new size.
    let size = options.size.unwrap_or(store.size());
    let file = OpenOptions::new().write(true).open(path).map_err(|e| fail(e.to_string()))?;
    file.set_len(0).and_then(|()| file.set_len(size)).map_err(|e| fail(e.to_string()))?;
    drop(store);
    Ok((claim::open(path, Access::Write)?, true))
}

fn holds_ext4(store: &FileStore) -> bool {
    let mut magic = [0; 2];
    store.read(superblock::OFFSET + 56, &mut magic).is_ok() && u16::from_le_bytes(magic) == superblock::MAGIC
}
