//! The commit timer, the flusher of data and the background checkpointer, as objects to be stepped.

use super::BlockCore;
use super::commit::Why;
use crate::Result;
use crate::common::Part;
use ondol_env::Progress;

/// The committer, the flusher of data, the checkpointer.
pub(super) const PARTS: [Part<BlockCore>; 3] = [
    ("commit", |bells| &bells.committer, BlockCore::commit_step),
    ("flush", |bells| &bells.flusher, BlockCore::flush_step),
    ("checkpoint", |bells| &bells.checkpointer, BlockCore::checkpoint_step),
];

impl BlockCore {
    /// Commits the running transaction when it is old or large.
    fn commit_step(&self) -> Result<Progress> {
        let Some(started) = self.running.started() else { return Ok(Progress::Idle) };
        let old = self.is_old(self.since(started)).then_some(Why::Age);
        let Some(why) = old.or_else(|| self.too_large()) else { return Ok(Progress::Idle) };
        self.commit_running(why)?;
        Ok(Progress::Worked)
    }

    /// Writes new data home before too much of it waits, and flushes file data before too much of it is dirty.
    fn flush_step(&self) -> Result<Progress> {
        if self.stage_much()? {
            return Ok(Progress::Worked);
        }
        if self.in_place.bytes() < self.bound.dirty {
            return Ok(Progress::Idle);
        }
        self.check_alive()?;
        self.flush()?;
        Ok(Progress::Worked)
    }

    /// Checkpoints while more than half of the log, or of the memory for its images, is in use.
    fn checkpoint_step(&self) -> Result<Progress> {
        let crowded = self.space.half_full() || self.pending.lock().bytes() > self.config.pending_bytes / 2;
        if !crowded || !self.checkpoint_some()? {
            return Ok(Progress::Idle);
        }
        Ok(Progress::Worked)
    }
}
