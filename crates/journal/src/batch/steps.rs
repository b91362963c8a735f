//! The commit timer, and who settles what it and full batches have submitted, as objects to be stepped.

use super::Core;
use crate::{JournalError, Result};
use ondol_env::reach::{self, Place};
use ondol_env::sync::Arc;
use ondol_env::{Bell, Progress, Step};
use std::time::Duration;

/// Rung for the steps of one engine.
#[derive(Debug, Default)]
pub(super) struct Bells {
    /// The running transaction has become large.
    pub(super) committer: Bell,
    /// Something was submitted that nobody waits for, or much was written beside batches.
    pub(super) settler: Bell,
}

/// The steps of one engine.
pub(super) fn steps(core: &Arc<Core>) -> Vec<Arc<dyn Step<Error = JournalError>>> {
    vec![Arc::new(Committer(core.clone())), Arc::new(Settler(core.clone()))]
}

/// Submits the running transaction when it is old or large.
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
        if age.as_secs() < core.config.commit_interval && !core.running_is_large() {
            return Ok(Progress::Idle);
        }
        reach::hit(Place::TimerCommit);
        core.commit_running()?;
        Ok(Progress::Worked)
    }
}

/// Makes durable what nobody waits for.
struct Settler(Arc<Core>);

impl Step for Settler {
    type Error = JournalError;

    fn name(&self) -> &'static str {
        "settle"
    }

    fn bell(&self) -> &Bell {
        &self.0.bells.settler
    }

    fn step(&self) -> Result<Progress> {
        let core = &self.0;
        let is_dirty = || core.in_place.bytes() >= core.config.dirty_bytes;
        let Some(_turn) = core.turns.take(|| !core.has_submitted() && !is_dirty()) else { return Ok(Progress::Idle) };
        core.check_alive()?;
        if is_dirty() { core.flush() } else { core.settle() }?;
        Ok(Progress::Worked)
    }
}
