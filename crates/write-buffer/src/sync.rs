//! The sync stage: what was written home is made durable there, and one word says so for the whole file (papers/2,
//! §3.1).
//!
//! If blocks are merely short, it waits until a sixteenth of them would become clean, unless fewer than that are free.

use crate::file::FileState;
use crate::queue::Place;
use crate::shared::Core;
use crate::stats::Counters;
use crate::tree::Life;
use crate::{BufferError, Result};
use ondol_env::sync::Arc;
use ondol_env::sync::atomic::Ordering::SeqCst;
use ondol_env::{Bell, Progress, Step};
use std::time::Duration;

/// How long a settle waits for flushes of others before it looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// The syncer.
#[derive(Debug)]
pub struct Syncer {
    pub(crate) core: Arc<Core>,
}

impl Step for Syncer {
    type Error = BufferError;

    fn name(&self) -> &'static str {
        "sync"
    }

    fn bell(&self) -> &Bell {
        &self.core.bell
    }

    /// Syncs what waits for it, if blocks are short and it is worth it, if it is old, or if there is need.
    ///
    /// # Errors
    /// `Home`: what was not durable is written home again; noted in its file. The NVM's failure.
    fn step(&self) -> Result<Progress> {
        let core = &self.core;
        let (blocks, since) = core.flushed.state();
        let Some(since) = since else { return Ok(Progress::Idle) };
        let is_old = core.env.monotonic_ns().saturating_sub(since) >= core.marks.age;
        let is_worth_it = blocks >= core.marks.worth || core.space.available() < core.marks.very_short;
        if core.is_hurried() || is_old || (core.is_short() && is_worth_it) {
            core.sync_all()?;
            return Ok(Progress::Worked);
        }
        Ok(Progress::Idle)
    }
}

impl Core {
    /// Syncs all files with something written home.
    pub(crate) fn sync_all(&self) -> Result<()> {
        let mut result = Ok(());
        for file in self.flushed.take_all() {
            result = result.and(self.sync_file(&file));
        }
        if result.is_ok() {
            self.bell.ring();
        }
        result
    }

    /// Makes durable what is home, and publishes up to where that is everything.
    pub(crate) fn sync_file(&self, file: &Arc<FileState>) -> Result<()> {
        let _alone = file.syncing.lock();
        // Before the sync: what is written home during it may not be durable.
        let point = file.sync_point();
        if point <= file.whole.lock().synced || file.life() != Life::Open {
            return Ok(());
        }
        Counters::add(&self.counters.home_syncs, 1);
        if let Err(e) = file.home.sync() {
            self.flush_again(file);
            return Err(self.failed(file, "sync", e));
        }
        self.publish(file, point)
    }

    /// The caller syncs the file alone, and it keeps its slot meanwhile.
    fn publish(&self, file: &FileState, point: u64) -> Result<()> {
        let mut batch = self.area.nvm().stored();
        let word = self.area.seal.synced_word(file.owner, point);
        batch.store_u64(self.area.synced_at(file.owner.slot), word)?;
        batch.write_back().fence()?;
        let mut gone = Vec::new();
        file.shards().for_each(|shard| shard.write().set_synced(point));
        // Last: who sees this point finds everything up to it clean.
        file.whole.lock().set_synced(point, &mut gone);
        self.space.let_go(&gone);
        Ok(())
    }

    /// After a failed sync the system may have forgotten what was written: all of it that is not durable goes home
    /// again.
    fn flush_again(&self, file: &Arc<FileState>) {
        for shard in file.shards() {
            for (lbn, node) in &mut shard.write().nodes {
                if node.phase.sync_failed() {
                    self.push_quietly(file, Place::Block(*lbn));
                }
            }
        }
        if file.whole.lock().length.sync_failed() {
            self.push_quietly(file, Place::Length);
        }
    }

    /// Brings everything of these files home that is in the buffer now.
    pub(crate) fn settle(&self, files: &[Arc<FileState>]) -> Result<()> {
        let _hurry = self.hurry();
        let state = |file: &Arc<FileState>| (file.last.load(SeqCst), file.failures.load(SeqCst));
        let goals: Vec<(u64, u64)> = files.iter().map(state).collect();
        loop {
            let seen = self.bell.rings();
            match self.flush_all() {
                // Perhaps of a file that nobody asked about: each is looked at.
                Ok(()) | Err(BufferError::Home(_)) => {}
                Err(e) => return Err(e),
            }
            let mut is_done = true;
            for (file, (goal, failures)) in files.iter().zip(&goals) {
                if file.failures.load(SeqCst) != *failures
                    && let Some(error) = file.failed.lock().clone()
                {
                    return Err(error.into());
                }
                self.sync_file(file)?;
                is_done &= file.whole.lock().synced >= *goal || file.life() != Life::Open;
            }
            if is_done {
                return Ok(());
            }
            // Somebody else is writing some of it home.
            self.bell.wait(seen, LOOK_AGAIN);
        }
    }
}
