//! How the volume of a workload is mounted, beside its engine and data mode.

use ondol::{DeviceClass, Fsync, JournalEngine, Options};
use ondol_medium::{Domain, PAGE};
use std::fmt;
use std::str::FromStr;

/// A few ways that matter to what is written when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mount {
    /// So little memory that blocks leave and enter the cache all the time, and few images wait for their checkpoint.
    #[default]
    Tight,
    /// Room for all that the log can hold, and for much dirty data: checkpoints and commits come when the log asks for
    /// them. Where clients are threads, two threads do a checkpoint.
    Roomy,
    /// The same with little dirty data, and what is at home is overwritten in the log.
    Zeroing,
    /// Little dirty data is allowed, and the cache has a few blocks.
    Dirty,
    /// As [`Mount::Tight`], and an fsync covers its file alone (`fsync=file`).
    File,
    /// Much room, and new data is written by commits alone.
    Kept,
    /// Much room, and no more new data than two blocks waits for a commit: the next operation, or the background,
    /// writes it.
    Early,
    /// Much room, over what is said to be memory: new data is written through, and units are not compressed.
    Through,
    /// As [`Mount::Tight`], and a log in NVM begins shortly before the end of its ring, so that records go round it.
    Lap,
}

impl Mount {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Tight,
        Self::Roomy,
        Self::Zeroing,
        Self::Dirty,
        Self::File,
        Self::Kept,
        Self::Early,
        Self::Through,
        Self::Lap,
    ];

    /// One of all, with little memory more often.
    pub(crate) fn in_turn(n: u64) -> Self {
        if n.is_multiple_of(2) { Self::Tight } else { Self::ALL[(n / 2) as usize % Self::ALL.len()] }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Tight => "tight",
            Self::Roomy => "roomy",
            Self::Zeroing => "zeroing",
            Self::Dirty => "dirty",
            Self::File => "file",
            Self::Kept => "kept",
            Self::Early => "early",
            Self::Through => "through",
            Self::Lap => "lap",
        }
    }

    /// `options`, which are those of tests, changed accordingly.
    pub(crate) fn over(self, options: Options, engine: JournalEngine) -> Options {
        // A long write is then more than may wait: the next operation lends a hand with it.
        let little = |options: Options| options.with_dirty(64 << 10).with_kept(16 << 10);
        let has_room = matches!(self, Self::Roomy | Self::Kept | Self::Early | Self::Through);
        let options = if engine == JournalEngine::Compressed && !has_room { little(options) } else { options };
        match self {
            // Few records make a slice, and a checkpoint has several of them to take.
            Self::File => Self::Tight.over(options, engine).with_fsync(Fsync::File),
            Self::Lap => Self::Tight.over(options, engine),
            Self::Tight if engine.logs_records() => options.with_cache(LITTLE),
            Self::Tight => options,
            Self::Roomy | Self::Kept => options.with_cache(ROOMY),
            Self::Early => options.with_cache(ROOMY).with_kept(2 << 10),
            Self::Through => options.with_cache(ROOMY).with_device(DeviceClass::Memory),
            Self::Zeroing => options.with_cache(ROOMY).with_zeroing(true),
            Self::Dirty => little(options).with_cache(LITTLE),
        }
    }
}

impl Mount {
    /// Bytes of an NVM log of a volume with blocks of so many bytes. The small one comes to its end again and again,
    /// and still takes operations of a hundred blocks; the other takes more than a workload writes.
    pub(crate) fn pool(self, block_size: u64) -> u64 {
        let blocks = if matches!(self, Self::Tight | Self::File | Self::Lap) { 640 } else { 1024 };
        blocks * block_size
    }

    /// Lines of an NVM log that lie before the end of its ring when a workload begins; `None` for all.
    pub(crate) fn lines_to_end(self, domain: Domain) -> Option<u64> {
        // Workloads differ in what they do before they are recorded. With the persistence domain another part of it
        // is near the end.
        (self == Self::Lap).then_some(if domain.caches_survive() { 400 } else { 160 })
    }

    /// Bytes of an NVM log in the pool that an image lies in. Each state looks through it twice, so it is as short as
    /// operations of fifty pages allow.
    pub(crate) fn log_in_pool(self) -> u64 {
        self.pool(PAGE) / 2
    }
}

impl Mount {
    /// Lines of the log of a page table that an image lies under: so few that checkpoints are split, and blocks of
    /// large transactions copied, or many.
    pub(crate) fn lines(self) -> u64 {
        if matches!(self, Self::Zeroing | Self::Dirty) { 1024 } else { 64 }
    }
}

/// Bytes of a cache that has room for a few blocks.
const LITTLE: u64 = 96 << 10;

/// Bytes of a cache that holds more than any log of the laboratory.
const ROOMY: u64 = 16 << 20;

impl fmt::Display for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Mount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|mount| mount.name() == text);
        found.ok_or_else(|| format!("no such mount: {text} (one of {names})"))
    }
}
