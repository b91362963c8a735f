//! The commit timer, and who settles what it and full batches have submitted, as objects to be stepped.

use super::BatchCore;
use crate::Result;
use crate::common::Part;
use ondol_env::Progress;

/// The committer, and who settles.
pub(super) const PARTS: [Part<BatchCore>; 2] = [
    ("commit", |bells| &bells.committer, BatchCore::commit_step),
    ("settle", |bells| &bells.flusher, BatchCore::settle_step),
];

impl BatchCore {
    /// Submits the running transaction when it is old or large.
    fn commit_step(&self) -> Result<Progress> {
        let Some(started) = self.running.started() else { return Ok(Progress::Idle) };
        if !self.is_old(self.since(started)) && !self.running_is_large() {
            return Ok(Progress::Idle);
        }
        self.commit_running()?;
        Ok(Progress::Worked)
    }

    /// Makes durable what nobody waits for.
    fn settle_step(&self) -> Result<Progress> {
        let is_dirty = || self.in_place.bytes() >= self.config.dirty_bytes;
        let Some(_turn) = self.turns.take(|| !self.has_submitted() && !is_dirty()) else { return Ok(Progress::Idle) };
        self.check_alive()?;
        if is_dirty() { self.flush() } else { self.settle() }?;
        Ok(Progress::Worked)
    }
}
