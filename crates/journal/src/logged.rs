//! What records of a log say of a live block, in engines that have such: how much of it is in the log alone. Under the
//! lock of the block's buffer.

use crate::Block;
use ondol_env::sync::Arc;
use ondol_env::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Release},
};
use std::sync::Weak;

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Logged {
    /// Records that have changes of this block and are not home yet.
    records: u32,
    /// One of them builds on what the block held before: that is needed until all are home.
    builds_on: bool,
    /// What it held before the first of them; `None` for zeros.
    before: Option<Block>,
    /// Its new data that is in memory alone, if it is.
    waiting: Option<Weak<Waiting>>,
}

impl Logged {
    /// A record that is not home builds on what the block held before.
    pub(crate) fn needs_base(&self) -> bool {
        self.builds_on
    }

    /// All that it holds is at home, but for changes that have no record yet.
    pub(crate) fn is_home(&self) -> bool {
        self.records == 0
    }

    /// So many records are not home.
    pub(crate) fn has(&self, records: u32) -> bool {
        self.records == records
    }

    /// Another record has changes of it, which build on its live bytes or say all of it.
    pub(crate) fn add(&mut self, builds_on: bool) {
        self.builds_on = builds_on || (self.builds_on && self.records > 0);
        self.records += 1;
    }

    /// So many records are home. Whether all are.
    pub(crate) fn bring_home(&mut self, records: u32) -> bool {
        self.records = self.records.saturating_sub(records);
        self.records == 0
    }

    /// What the oldest record that is not home builds on.
    pub(crate) fn before(&self) -> Option<Block> {
        self.before.clone()
    }

    pub(crate) fn set_before(&mut self, before: Option<Block>) {
        self.before = before;
    }

    pub(crate) fn wait(&mut self, waiting: &Arc<Waiting>) {
        self.waiting = Some(Arc::downgrade(waiting));
    }

    /// Its new data that is in memory alone, which it forgets.
    pub(crate) fn take_waiting(&mut self) -> Option<Arc<Waiting>> {
        self.waiting.take()?.upgrade()
    }
}

/// New data that is in memory alone. Its record names a page that does not hold it yet.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) page: u32,
    pub(crate) block: u64,
    pub(crate) image: Block,
    /// Where its record lies, once that is complete.
    pub(crate) position: AtomicU64,
    /// Where the record lies that frees the block, once that is complete.
    pub(crate) freed: AtomicU64,
}

impl Waiting {
    /// Its record is complete.
    pub(crate) fn named_at(&self, position: u64) {
        self.position.store(position, Release);
    }

    /// A complete record frees its block.
    pub(crate) fn freed_at(&self, position: u64) {
        self.freed.store(position, Release);
    }

    /// What commits everything below `end` needs nothing of it.
    pub(crate) fn is_freed_below(&self, end: u64) -> bool {
        (1..end).contains(&self.freed.load(Acquire))
    }
}
