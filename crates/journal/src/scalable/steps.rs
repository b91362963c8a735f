//! The commit timer, the flusher of data and the background checkpointer, as objects to be stepped.

use super::Core;
use crate::{JournalError, Result};
use ondol_env::reach::{self, Place};
use ondol_env::sync::Arc;
use ondol_env::{Bell, Progress, Step};
use std::time::Duration;

/// Rung for the steps of one engine.
#[derive(Debug, Default)]
pub(super) struct Bells {
    /// Much is not committed. What is old it finds by the clock.
    pub(super) committer: Bell,
    /// Much data is dirty.
    pub(super) flusher: Bell,
    /// The log, or the memory for its blocks, is crowded.
    pub(super) checkpointer: Bell,
}

pub(super) fn steps(core: &Arc<Core>) -> Vec<Arc<dyn Step<Error = JournalError>>> {
    vec![Arc::new(Committer(core.clone())), Arc::new(Flusher(core.clone())), Arc::new(Checkpointer(core.clone()))]
}

/// Commits what is old, or much.
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
        let Some(newest) = core.log.newest() else {
            core.waiting_since.nothing();
            return Ok(Progress::Idle);
        };
        let age = core.uncommitted_ns().unwrap_or_else(|| {
            core.waiting_since.begin(&*core.env);
            0
        });
        let is_old = Duration::from_nanos(age).as_secs() >= core.config.commit_interval;
        if !is_old && !core.much_is_uncommitted() && !core.much_waits(false) {
            return Ok(Progress::Idle);
        }
        reach::hit(Place::TimerCommit);
        // What is old is committed in time, whoever is at the disk.
        core.commit_late(crate::Tid(newest), !is_old)?;
        Ok(Progress::Worked)
    }
}

/// Flushes file data that was written in place before too much of it is dirty.
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
        let core = &self.0;
        if core.in_place.bytes() < core.bound.dirty {
            return Ok(Progress::Idle);
        }
        core.check_alive()?;
        reach::hit(Place::BackgroundFlush);
        core.or_abort(core.flush_data())?;
        Ok(Progress::Worked)
    }
}

/// Checkpoints while more than half of the log, or of the memory for its blocks, is in use.
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
        if !core.is_crowded(2) || core.home_rests() {
            return Ok(Progress::Idle);
        }
        if !core.checkpoint()? {
            core.commit_late(core.tid(), true)?;
            if !core.checkpoint()? {
                return Ok(Progress::Idle);
            }
        }
        reach::hit(Place::BackgroundCheckpoint);
        Ok(Progress::Worked)
    }
}
