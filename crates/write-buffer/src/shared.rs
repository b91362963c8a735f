//! What all parts of a buffer share.

use crate::area::Area;
use crate::file::FileState;
use crate::fragments::Open;
use crate::home::Home;
use crate::options::Options;
use crate::queue::{DirtyQueues, Due, Place, SyncQueue};
use crate::space::Space;
use crate::stats::Counters;
use crate::table::Files;
use ondol_env::sync::atomic::{AtomicU32, Ordering::SeqCst};
use ondol_env::sync::{Arc, Mutex};
use ondol_env::{Bell, Env};
use std::fmt;

/// Most open fragment blocks of writers.
const MOST_OPEN: u32 = 16;

/// When the stages work, in blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marks {
    /// Blocks are short when fewer are free.
    pub(crate) short: u32,
    /// So short that any sync is worth it.
    pub(crate) very_short: u32,
    /// Blocks that make a sync worth it.
    pub(crate) worth: u64,
    /// Entries of a dirty queue that make a flush worth it.
    pub(crate) low: usize,
    /// Nanoseconds after which it is flushed and synced all the same.
    pub(crate) age: u64,
}

/// A buffer.
pub(crate) struct Core {
    pub(crate) area: Arc<Area>,
    pub(crate) home: Arc<dyn Home>,
    pub(crate) env: Arc<dyn Env>,
    pub(crate) marks: Marks,
    pub(crate) space: Space,
    /// Open fragment blocks of writers, by thread.
    pub(crate) open: Vec<Mutex<Open>>,
    /// That of compaction.
    pub(crate) compactor: Mutex<Open>,
    pub(crate) life: AtomicU32,
    pub(crate) dirty: DirtyQueues,
    pub(crate) flushed: SyncQueue,
    pub(crate) files: Mutex<Files>,
    pub(crate) counters: Counters,
    /// Somebody waits for everything to come home: watermarks are ignored.
    hurry: AtomicU32,
    /// Of all stages: what one does is work for the next.
    pub(crate) bell: Bell,
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("pool", &self.area.name()).field("marks", &self.marks).finish_non_exhaustive()
    }
}

/// While it lives, watermarks are ignored.
pub(crate) struct Hurry<'c>(&'c Core);

impl Drop for Hurry<'_> {
    fn drop(&mut self) {
        self.0.hurry.fetch_sub(1, SeqCst);
    }
}

impl Core {
    pub(crate) fn new(area: Area, home: Arc<dyn Home>, env: Arc<dyn Env>, options: &Options) -> Self {
        let area = Arc::new(area);
        let blocks = area.header.blocks;
        let marks = Marks {
            short: (blocks / 8).max(2),
            very_short: (blocks / 16).max(1),
            worth: u64::from(blocks / 16).max(1),
            low: options.low_watermark,
            age: options.age_ms.saturating_mul(1_000_000),
        };
        let files = Files::new(area.header.files);
        Self {
            space: Space::new(area.clone()),
            area,
            home,
            env,
            marks,
            open: (0..(blocks / 8).clamp(1, MOST_OPEN)).map(|_| Mutex::default()).collect(),
            compactor: Mutex::default(),
            life: AtomicU32::new(1),
            dirty: DirtyQueues::new(options.flushers),
            flushed: SyncQueue::default(),
            files: Mutex::new(files),
            counters: Counters::default(),
            hurry: AtomicU32::new(0),
            bell: Bell::default(),
        }
    }

    pub(crate) fn is_short(&self) -> bool {
        self.space.available() < self.marks.short
    }

    pub(crate) fn hurry(&self) -> Hurry<'_> {
        self.hurry.fetch_add(1, SeqCst);
        self.bell.ring();
        Hurry(self)
    }

    /// Whether watermarks are ignored.
    pub(crate) fn is_hurried(&self) -> bool {
        self.hurry.load(SeqCst) > 0
    }

    /// Puts an entry into its dirty queue, and wakes the flushers if that is long enough now.
    pub(crate) fn push_due(&self, file: &Arc<FileState>, place: Place) {
        if self.push_quietly(file, place) == self.marks.low {
            self.bell.ring();
        }
    }

    /// As [`Core::push_due`], but wakes nobody: stages that fail would go on without a pause. Returns how long the
    /// queue is.
    pub(crate) fn push_quietly(&self, file: &Arc<FileState>, place: Place) -> usize {
        self.dirty.push(Due { file: file.clone(), place, since: self.env.monotonic_ns() })
    }
}
