//! The commit timer and the background checkpointer, as objects to be stepped.

use super::Core;
use super::commit::Why;
use crate::{JournalError, Result};
use ondol_env::reach::{self, Place};
use ondol_env::sync::Arc;
use ondol_env::{Bell, Progress, Step};
use std::time::Duration;

/// Rung for the steps of one engine.
#[derive(Debug, Default)]
pub(crate) struct Bells {
    /// The running transaction has become large.
    pub(crate) committer: Bell,
    /// Much data is dirty.
    pub(crate) flusher: Bell,
    /// The log, or the memory for its images, is crowded.
    pub(crate) checkpointer: Bell,
}

/// The steps of one engine: committer, flusher of data, checkpointer.
pub(crate) fn steps(core: &Arc<Core>) -> Vec<Arc<dyn Step<Error = JournalError>>> {
    vec![Arc::new(Committer(core.clone())), Arc::new(Flusher(core.clone())), Arc::new(Checkpointer(core.clone()))]
}

/// Commits the running transaction when it is old or large.
struct Committer(Arc<Core>);

impl Step for Committer {
    type Error = JournalError;

    fn name(&self) -> &'static str {
        "commit"
    }

    fn bell(&self) -> &Bell {
        &self.0.bells.committer
    }

    fn step(&self) -> Result<Progress> {
        let core = &self.0;
        let Some(started) = core.running.started() else { return Ok(Progress::Idle) };
        let age = Duration::from_nanos(core.env.monotonic_ns().saturating_sub(started));
        let old = (age.as_secs() >= core.config.commit_interval).then_some(Why::Age);
        let Some(why) = old.or_else(|| core.too_large()) else { return Ok(Progress::Idle) };
        reach::hit(Place::TimerCommit);
        core.commit_running(why)?;
        Ok(Progress::Worked)
    }
}

/// Writes new data home before too much of it waits, and flushes file data before too much of it is dirty.
struct Flusher(Arc<Core>);

impl Step for Flusher {
    type Error = JournalError;

    fn name(&self) -> &'static str {
        "flush"
    }

    fn bell(&self) -> &Bell {
        &self.0.bells.flusher
    }

    fn step(&self) -> Result<Progress> {
        if self.0.stage_much()? {
            return Ok(Progress::Worked);
        }
        if self.0.in_place.bytes() < self.0.bound.dirty {
            return Ok(Progress::Idle);
        }
        self.0.check_alive()?;
        reach::hit(Place::BackgroundFlush);
        self.0.flush()?;
        Ok(Progress::Worked)
    }
}

/// Checkpoints while more than half of the log, or of the memory for its images, is in use.
struct Checkpointer(Arc<Core>);

impl Step for Checkpointer {
    type Error = JournalError;

    fn name(&self) -> &'static str {
        "checkpoint"
    }

    fn bell(&self) -> &Bell {
        &self.0.bells.checkpointer
    }

    fn step(&self) -> Result<Progress> {
        let core = &self.0;
        let crowded = core.space.half_full() || core.pending.lock().bytes() > core.config.pending_bytes / 2;
        if !crowded || !core.checkpoint_some()? {
            return Ok(Progress::Idle);
        }
        reach::hit(Place::BackgroundCheckpoint);
        Ok(Progress::Worked)
    }
}
