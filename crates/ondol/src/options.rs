//! Mount options: ext4's words with ext4's meaning, and few of our own.

use crate::bucket::Durable;
use ondol_block::DeviceClass;
use ondol_format::jbd2::Extension;
use ondol_format::superblock as sb;
use ondol_medium::NvmModel;
use ondol_volume::{Atime, DataMode, Fsync, OnError};
use std::path::PathBuf;

mod parse;
mod store;
#[cfg(test)]
mod tests;
mod waiting;

pub use parse::{BUCKET_OPTION_NAMES, OPTION_NAMES, parse_size};

/// How a volume is opened. `docs/commands.md`, Mount options, has the words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    pub(crate) image: ImageOptions,
    pub(crate) journal: JournalOptions,
    pub(crate) pool: PoolOptions,
    pub(crate) bucket: BucketOptions,
}

/// What is opened, and how its files behave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ImageOptions {
    pub(crate) read_only: bool,
    pub(crate) recovery: bool,
    /// Byte offset of the copy of the superblock that serves.
    pub(crate) superblock: Option<u64>,
    /// The device of the journal, where that is another than the image.
    pub(crate) journal_path: Option<PathBuf>,
    /// The directory that the superblock is told of.
    pub(crate) mounted_on: Option<PathBuf>,
    pub(crate) on_error: Option<OnError>,
    pub(crate) atime: Option<Atime>,
    pub(crate) nodiratime: Option<bool>,
    pub(crate) grpid: Option<bool>,
    pub(crate) discard: Option<bool>,
    pub(crate) cache_bytes: u64,
    /// What `cache_bytes` gives unless it is set.
    pub(crate) cached_inodes: Option<usize>,
}

impl Default for ImageOptions {
    fn default() -> Self {
        Self {
            read_only: false,
            recovery: true,
            superblock: None,
            journal_path: None,
            mounted_on: None,
            on_error: None,
            atime: None,
            nodiratime: None,
            grpid: None,
            discard: None,
            cache_bytes: 128 << 20,
            cached_inodes: None,
        }
    }
}

/// What becomes durable when, and through which journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct JournalOptions {
    pub(crate) engine: Option<JournalEngine>,
    /// The size that the journal is to have, in bytes, if another than it has.
    pub(crate) size: Option<u64>,
    pub(crate) data: Option<DataMode>,
    pub(crate) fsync: Fsync,
    pub(crate) commit_seconds: Option<u64>,
    /// `None`: [`Options::dirty`].
    pub(crate) dirty_bytes: Option<u64>,
    /// For tests.
    pub(crate) kept_bytes: Option<u64>,
    /// `None`: as it is found.
    pub(crate) device: Option<DeviceClass>,
    pub(crate) zeroing: Option<bool>,
    /// Threads that write home; `None`: as many as seem good.
    pub(crate) checkpoint_threads: Option<usize>,
}

/// The NVM that the image lies in, or has in front of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PoolOptions {
    /// The pool in front of the image.
    pub(crate) path: Option<PathBuf>,
    /// Bytes of it that hold file data beside the log.
    pub(crate) buffer: Option<u64>,
    /// How slow it is to be.
    pub(crate) model: NvmModel,
}

/// Object storage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BucketOptions {
    /// The volume is taken from whoever has it open.
    pub(crate) take_over: bool,
    /// Seconds for which others then keep away.
    pub(crate) lease: Option<u64>,
    /// Seconds for which the store may be away; 0 for ever.
    pub(crate) timeout: Option<u64>,
    /// Bytes of memory for what is read of the store's own structures.
    pub(crate) cache: Option<u64>,
    /// When a write to it counts as durable.
    pub(crate) durable: Option<Durable>,
    /// The file of the log on this machine, the size of a new one, and how far the bucket may be behind it: bytes and
    /// seconds.
    pub(crate) redo: Option<PathBuf>,
    pub(crate) redo_size: Option<u64>,
    pub(crate) lag: Option<u64>,
    pub(crate) lag_seconds: Option<u64>,
    /// Logs of other machines or times of which it does not matter what they hold.
    pub(crate) give_up: Vec<[u8; 16]>,
    /// The directory of a cache on the local disk, and its size.
    pub(crate) disk_cache: Option<PathBuf>,
    pub(crate) disk_cache_size: Option<u64>,
}

/// How transactions become durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JournalEngine {
    /// jbd2's own log: whole blocks, two flushes a commit. The kernel and e2fsck can replay it.
    #[default]
    Classic,
    /// One LZ4-compressed unit and one flush a commit (papers/3). While it is mounted, or when it was not unmounted
    /// cleanly, only Ondol can open the image.
    Compressed,
    /// As `classic`, for an image in an NVM pool: a checkpoint puts blocks of the log into the places of those at home,
    /// without a copy (papers/1).
    Swap,
    /// A log in an NVM pool, without locks that all threads meet (papers/5). While it is mounted, or when it was not
    /// unmounted cleanly, only Ondol with that pool can open the image.
    Scalable,
    /// For an image in an NVM pool: a log in the same pool, which names pages of the image; file data is written once.
    /// While it is mounted, or when it was not unmounted cleanly, only Ondol can open the image.
    Remap,
    /// For a home that takes batches ([`ondol_block::Caps::batch`]), as object storage does: each transaction is one
    /// batch. There is no log, and every state is consistent by itself. File data is as safe in every data mode as with
    /// `data=journal`.
    Batch,
}

impl JournalEngine {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Classic, Self::Compressed, Self::Swap, Self::Scalable, Self::Remap, Self::Batch];
    /// Those that an image can ask for.
    pub const OF_IMAGES: [Self; 4] = [Self::Classic, Self::Compressed, Self::Swap, Self::Remap];

    /// Its name as in `journal=`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Compressed => "compressed",
            Self::Swap => "swap",
            Self::Scalable => "scalable",
            Self::Remap => "remap",
            Self::Batch => "batch",
        }
    }

    /// The number that stands for it in a journal's superblock.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Classic => 1,
            Self::Compressed => 2,
            Self::Scalable => 3,
            Self::Swap => 4,
            Self::Remap => 5,
            Self::Batch => 6,
        }
    }

    /// Whether its log is jbd2's, which the kernel and e2fsck replay.
    pub fn logs_as_jbd2(self) -> bool {
        matches!(self, Self::Classic | Self::Swap)
    }

    /// Whether its log holds records, in an NVM pool.
    pub fn logs_records(self) -> bool {
        matches!(self, Self::Scalable | Self::Remap)
    }

    pub(crate) fn of_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|engine| engine.code() == code)
    }
}

/// Why neither mkfs nor tune take `scalable`.
pub(crate) const NOT_ASKED_FOR: &str = "an image cannot ask for engine scalable: the pool that it needs is named when \
                                        it is opened (mount option `nvm=POOL`)";

/// What an image that can have engines `swap` and `remap` lies on.
pub(crate) const IN_POOL: &str = "an image in an NVM pool, and its journal in the image";

/// There is no journal engine of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no journal engine: choose classic, compressed, swap, scalable, remap or batch")]
pub struct UnknownEngine(
    /// The name.
    pub String,
);

impl std::str::FromStr for JournalEngine {
    type Err = UnknownEngine;

    fn from_str(name: &str) -> Result<Self, UnknownEngine> {
        let found = Self::ALL.into_iter().find(|engine| engine.name() == name);
        found.ok_or_else(|| UnknownEngine(name.to_owned()))
    }
}

/// The numbers that stand for data modes in a journal's superblock.
const DATA_CODES: [(u8, DataMode); 3] = [(1, DataMode::Journal), (2, DataMode::Ordered), (3, DataMode::Writeback)];

/// The number that stands for a data mode in a journal's superblock.
pub(crate) fn data_code(data: DataMode) -> u8 {
    DATA_CODES.iter().find(|(_, mode)| *mode == data).map_or(0, |(code, _)| *code)
}

/// An option that cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// There is no such option.
    #[error("unknown mount option `{0}`")]
    Unknown(String),
    /// The option does not take this value.
    #[error("mount option `{option}={value}`: the value must be {expected}")]
    Value {
        /// The option's name.
        option: &'static str,
        /// What was given.
        value: String,
        /// What it takes, as the end of the sentence.
        expected: &'static str,
    },
}

/// The least memory that `cache=` takes, in bytes.
const MIN_CACHE: u64 = 4 << 20;

/// Seconds after which a commit is made, as ext4 has it.
const DEFAULT_COMMIT: u64 = 5;

impl Options {
    /// Reads a comma-separated list of options over the defaults; later ones win.
    ///
    /// # Errors
    /// Unknown options and bad values, by name.
    pub fn parse(list: &str) -> Result<Self, OptionError> {
        let mut options = Self::default();
        for word in list.split(',').map(str::trim).filter(|w| !w.is_empty()) {
            options.apply(word)?;
        }
        Ok(options)
    }

    pub(crate) fn commit_seconds(&self) -> u64 {
        self.journal.commit_seconds.unwrap_or(DEFAULT_COMMIT)
    }

    /// What holds as long as a volume is mounted, as [`Options::parse`] reads it. Whether it is read only, and access
    /// times, are the kernel's to change.
    pub(crate) fn fixed(&self) -> String {
        let (data, on_error) =
            (self.journal.data.unwrap_or_default().name(), self.image.on_error.unwrap_or_default().name());
        let (commit, dirty, cache) = (self.commit_seconds(), self.dirty(), self.image.cache_bytes);
        let (journal, fsync) = (self.journal.engine.unwrap_or_default().name(), self.journal.fsync.name());
        let mut text = format!(
            "data={data},journal={journal},fsync={fsync},errors={on_error},commit={commit},dirty={dirty},cache={cache}"
        );
        if let Some(bytes) = self.journal.size {
            text += &format!(",journal_size={bytes}");
        }
        if self.journal.zeroing == Some(true) {
            text += ",zeroing";
        }
        if let Some(threads) = self.journal.checkpoint_threads {
            text += &format!(",checkpoint_threads={threads}");
        }
        if let Some(device) = self.journal.device {
            text += &format!(",device={device}");
        }
        if let Some(bytes) = self.pool.buffer {
            text += &format!(",buffer={bytes}");
        }
        text += if self.image.grpid == Some(true) { ",grpid" } else { ",nogrpid" };
        if !self.image.recovery {
            text += ",norecovery";
        }
        if let Some(offset) = self.image.superblock {
            text += &format!(",sb={}", offset >> 10);
        }
        if let Some(path) = &self.image.journal_path {
            text += &format!(",journal_path={}", path.display());
        }
        if let Some(path) = &self.pool.path {
            text += &format!(",nvm={}", path.display());
        }
        if !self.pool.model.is_off() {
            text += &format!(",nvm_model={}", self.pool.model.to_string().replace(',', "+"));
        }
        for (name, value) in self.bucket.words() {
            text += &format!(",{name}={value}");
        }
        text
    }

    /// Whether the volume is opened for reading only.
    pub fn read_only(&self) -> bool {
        self.image.read_only
    }

    /// Opens for reading only.
    #[must_use]
    pub fn with_read_only(mut self, read_only: bool) -> Self {
        self.image.read_only = read_only;
        self
    }

    /// Chooses the data mode.
    #[must_use]
    pub fn with_data(mut self, data: DataMode) -> Self {
        self.journal.data = Some(data);
        self
    }

    /// What an fsync makes durable.
    pub fn fsync(&self) -> Fsync {
        self.journal.fsync
    }

    /// Chooses what an fsync of one file makes durable.
    #[must_use]
    pub fn with_fsync(mut self, fsync: Fsync) -> Self {
        self.journal.fsync = fsync;
        self
    }

    /// Chooses the journal engine.
    #[must_use]
    pub fn with_journal(mut self, journal: JournalEngine) -> Self {
        self.journal.engine = Some(journal);
        self
    }

    /// Gives the image a journal of `bytes`, rounded down to whole blocks, before it is opened, if its own is of
    /// another size and it is opened for writing.
    #[must_use]
    pub fn with_journal_size(mut self, bytes: u64) -> Self {
        self.journal.size = Some(bytes);
        self
    }

    /// Overwrites journal blocks with zeros when their transactions are home, as papers/3 does. Nothing depends on it.
    #[must_use]
    pub fn with_zeroing(mut self, zeroing: bool) -> Self {
        self.journal.zeroing = Some(zeroing);
        self
    }

    /// Has so many threads write home at a checkpoint, at least one.
    #[must_use]
    pub fn with_checkpoint_threads(mut self, threads: usize) -> Self {
        self.journal.checkpoint_threads = Some(threads.max(1));
        self
    }

    /// Has so many bytes of the NVM pool hold file data beside the log (`buffer=`), rounded up to pages; 0 for none.
    /// What a pool has is laid down when it first gets a volume.
    #[must_use]
    pub fn with_buffer(mut self, bytes: u64) -> Self {
        self.pool.buffer = Some(bytes);
        self
    }

    /// The journal engine that was chosen; `None` for the image's own.
    pub fn journal(&self) -> Option<JournalEngine> {
        self.journal.engine
    }

    /// Chooses what happens when corruption is found.
    #[must_use]
    pub fn with_on_error(mut self, on_error: OnError) -> Self {
        self.image.on_error = Some(on_error);
        self
    }

    /// The data mode that was chosen; `None` for the image's own.
    pub fn data(&self) -> Option<DataMode> {
        self.journal.data
    }

    /// Bounds the memory for cached and uncommitted blocks, in bytes. The option `cache=` takes 4 MiB or more; less
    /// makes sense where caches are to be left and entered often.
    #[must_use]
    pub fn with_cache(mut self, bytes: u64) -> Self {
        self.image.cache_bytes = bytes;
        self
    }

    /// Keeps up to `count` inodes in memory that nobody uses, instead of what the cache has room for.
    #[must_use]
    pub fn with_cached_inodes(mut self, count: usize) -> Self {
        self.image.cached_inodes = Some(count);
        self
    }

    /// Commits by itself what is `seconds` old.
    #[must_use]
    pub fn with_commit_seconds(mut self, seconds: u64) -> Self {
        self.journal.commit_seconds = Some(seconds);
        self
    }

    /// Whether reading changes access times, as `relatime`.
    #[must_use]
    pub fn with_atime(mut self, atime: bool) -> Self {
        self.image.atime = Some(if atime { Atime::Relative } else { Atime::Never });
        self
    }

    /// Whether access times of directories are kept, where those of files are.
    #[must_use]
    pub fn with_diratime(mut self, diratime: bool) -> Self {
        self.image.nodiratime = Some(!diratime);
        self
    }

    /// Tells the superblock that the volume is mounted on `dir` (`s_last_mounted`), if it is mounted for writing.
    #[must_use]
    pub fn with_mounted_on(mut self, dir: impl Into<PathBuf>) -> Self {
        self.image.mounted_on = Some(dir.into());
        self
    }

    /// Names the device of a journal that is not in the image.
    #[must_use]
    pub fn with_journal_path(mut self, path: impl Into<PathBuf>) -> Self {
        self.image.journal_path = Some(path.into());
        self
    }

    /// Names the NVM pool in front of the image, and with it engine `scalable` unless another was chosen.
    #[must_use]
    pub fn with_nvm(mut self, path: impl Into<PathBuf>) -> Self {
        self.pool.path = Some(path.into());
        self
    }

    /// Makes the NVM that the image lies in, or has in front of it, as slow as a model: for measuring on memory what a
    /// device would take.
    #[must_use]
    pub fn with_nvm_model(mut self, model: NvmModel) -> Self {
        self.pool.model = model;
        self
    }

    /// What is left open here as the image has it: Ondol's choice in its journal's superblock, then the text of mount
    /// options in its superblock, then its default options there.
    pub(crate) fn over(mut self, image: &sb::Superblock, asks: Extension) -> Self {
        self.journal.engine = self.journal.engine.or(JournalEngine::of_code(asks.engine));
        self.journal.data =
            self.journal.data.or(DATA_CODES.iter().find(|(code, _)| *code == asks.data).map(|(_, mode)| *mode));
        let mut text = Self::default();
        for word in
            String::from_utf8_lossy(image.raw().mount_opts()).split(',').map(str::trim).filter(|w| !w.is_empty())
        {
            if let Err(e) = text.apply(word) {
                tracing::warn!("in the superblock's mount options: {e}");
            }
        }
        let defaults = image.raw().s_default_mount_opts.get();
        self.journal.data = self.journal.data.or(text.journal.data).or(match defaults & sb::DEFM_JMODE {
            sb::DEFM_JMODE_DATA => Some(DataMode::Journal),
            sb::DEFM_JMODE_ORDERED => Some(DataMode::Ordered),
            sb::DEFM_JMODE_WBACK => Some(DataMode::Writeback),
            _ => None,
        });
        self.image.on_error = self.image.on_error.or(text.image.on_error).or(match image.raw().s_errors.get() {
            sb::ERRORS_CONTINUE => Some(OnError::Continue),
            // Nobody's machine is stopped from here; what comes next to that is to refuse changes.
            _ => Some(OnError::RemountReadOnly),
        });
        self.image.discard = self.image.discard.or(text.image.discard).or(Some(defaults & sb::DEFM_DISCARD != 0));
        self.image.grpid = self.image.grpid.or(text.image.grpid).or(Some(defaults & sb::DEFM_BSDGROUPS != 0));
        self.journal.commit_seconds = self.journal.commit_seconds.or(text.journal.commit_seconds);
        self.image.atime = self.image.atime.or(text.image.atime);
        self.image.nodiratime = self.image.nodiratime.or(text.image.nodiratime);
        self
    }

    /// Discards blocks once their freeing is durable.
    #[must_use]
    pub fn with_discard(mut self, discard: bool) -> Self {
        self.image.discard = Some(discard);
        self
    }
}
