//! Background work: on threads, or step by step. Only the facade gives the steps of engine, volume and write buffer
//! threads.

use crate::Result;
use ondol_env::sync::Arc;
use ondol_env::{Background, Progress, Step};
use ondol_journal::JournalError;

/// A step of a volume.
pub(crate) type Work = Arc<dyn Step<Error = JournalError>>;

/// Gives each step a thread: a checkpoint keeps no commit waiting.
pub(crate) fn start<E: 'static>(steps: Vec<Arc<dyn Step<Error = E>>>) -> Background<E> {
    let mut background = Background::default();
    for step in steps {
        if let Err(e) = background.run(step.clone()) {
            tracing::warn!("no thread to {} ({e}): operations do its work themselves", step.name());
        }
    }
    background
}

/// Rounds of steps that find work after which something must be wrong.
const ROUNDS: u32 = 10_000;

/// Runs the steps of a volume in turn until none of them finds anything to do.
pub(crate) fn run_until_idle(steps: &[Work]) -> Result<()> {
    for _ in 0..ROUNDS {
        let mut worked = false;
        for step in steps {
            worked |= step.step()? == Progress::Worked;
        }
        if !worked {
            return Ok(());
        }
    }
    Err(ondol_volume::Error::Invalid("background work does not come to an end").into())
}
