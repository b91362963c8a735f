//! The commit timer, the flusher of data and the background checkpointer, as objects to be stepped.

use super::ScalableCore;
use crate::Result;
use crate::common::Part;
use ondol_env::Progress;

/// The committer, the flusher of data, the checkpointer.
pub(super) const PARTS: [Part<ScalableCore>; 3] = [
    ("commit", |bells| &bells.committer, ScalableCore::commit_step),
    ("flush", |bells| &bells.flusher, ScalableCore::flush_step),
    ("checkpoint", |bells| &bells.checkpointer, ScalableCore::checkpoint_step),
];

impl ScalableCore {
    /// Commits what is old, or much.
    fn commit_step(&self) -> Result<Progress> {
        let Some(newest) = self.log.newest() else {
            self.waiting_since.nothing();
            return Ok(Progress::Idle);
        };
        let age = self.uncommitted_ns().unwrap_or_else(|| {
            self.waiting_since.begin(&*self.env);
            0
        });
        let is_old = self.is_old(age);
        if !is_old && !self.much_is_uncommitted() && !self.much_waits(false) {
            return Ok(Progress::Idle);
        }
        // What is old is committed in time, whoever is at the disk.
        self.commit_late(crate::Tid(newest), !is_old)?;
        Ok(Progress::Worked)
    }

    /// Flushes file data that was written in place before too much of it is dirty.
    fn flush_step(&self) -> Result<Progress> {
        if self.in_place.bytes() < self.bound.dirty {
            return Ok(Progress::Idle);
        }
        self.check_alive()?;
        self.or_abort(self.flush_data())?;
        Ok(Progress::Worked)
    }

    /// Checkpoints while more than half of the log, or of the memory for its blocks, is in use.
    fn checkpoint_step(&self) -> Result<Progress> {
        if !self.is_crowded(2) || self.failing.rests(self.env.monotonic_ns()) {
            return Ok(Progress::Idle);
        }
        if !self.checkpoint()? {
            self.commit_late(self.tid(), true)?;
            if !self.checkpoint()? {
                return Ok(Progress::Idle);
            }
        }
        Ok(Progress::Worked)
    }
}
