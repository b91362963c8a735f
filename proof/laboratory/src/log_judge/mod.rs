//! A judge of the log itself: whether what is written and what is durable keeps the rules of a log, whatever a recovery would
//! make of it.
//!
//! It follows the events of a run, reads each log that is durable by itself, with the format's parsers or less, and knows nothing
//! of the engine that wrote it: [`block`] of media that are written and flushed, [`nvm`] of the log in a pool. It finds what breaks an
//! order in each run, and not only where that leaves wrong bytes in a state that is built. It cannot see what data a transaction
//! lacks, nor what records in NVM mean.

mod block;
mod nvm;
mod read;

use crate::log::Log;
use ondol_power::{Event, Kind, Medium};

/// Judges the log of a volume at each event of a run. Says nothing where its rules do not apply.
///
/// # Errors
/// The rule that is broken, and by what.
pub(crate) fn judge(log: &Log, media: &[Medium], events: &[Event]) -> Result<(), String> {
    if let Some(log) = &log.nvm {
        return nvm::judge(log, media, events);
    }
    let applies = log.image.is_none() && media.iter().all(|medium| medium.kind == Kind::Block);
    if applies { block::judge(log, media, events) } else { Ok(()) }
}

fn at(event: usize, what: &str) -> String {
    format!("the rules of the log, at event {event}: {what}")
}
