//! Whether a volume and a local log belong together, and what is done if not.
//!
//! The bucket's header names the log that may hold batches which the bucket has not: unless the last writer closed,
//! nobody writes to the volume without it. A log whose batches cannot come into the bucket any more is kept. Both are
//! given up only by the log's UUID.

use super::format::{LogHeader, Tail};
use super::ring::{self, Ring, Survey};
use super::{Local, Log};
use crate::home::record::Header;
use crate::home::{HomeError, Opening};
use ondol_env::{Env, System};

/// A log that will be used.
pub(in crate::home) struct Joined {
    pub(in crate::home) log: Log,
    pub(in crate::home) uuid: [u8; 16],
    /// What is to be brought to the bucket first.
    pub(in crate::home) survey: Option<Survey>,
}

/// No log has this UUID.
pub(in crate::home) const NONE: [u8; 16] = [0; 16];

/// The local log of an opening. `header` and `newest` are what the bucket says, before the epoch is raised. Nothing is
/// changed.
pub(in crate::home) fn judge(
    opening: &Opening,
    name: &str,
    header: &Header,
    newest: u64,
) -> Result<Option<Joined>, HomeError> {
    let given_up = |uuid: [u8; 16]| opening.give_up.contains(&uuid);
    let found = match &opening.local {
        Some(local) => Some((local, ring::find(&*local.medium)?)),
        None => None,
    };
    let here = found.as_ref().and_then(|(_, log)| log.as_ref()).map(|log| log.uuid);
    let is_wanted = header.log != NONE && !header.closed;
    if is_wanted && here != Some(header.log) && !given_up(header.log) {
        return Err(HomeError::LogMissing { name: name.to_owned(), log: text(header.log) });
    }
    let Some((local, log)) = found else { return Ok(None) };
    let Some(log) = log else { return fresh(local, header, 0).map(Some) };
    let mut ring = Ring::new(local.medium.clone(), log, log.tail.position);
    let survey = ring.survey()?;
    match refusal(name, header, newest, &ring, &survey) {
        // What is whole before the damage is no worse for it.
        Some(HomeError::LogDamaged { log, what }) if given_up(ring.header.uuid) => {
            tracing::warn!("the local log {log} is damaged: {what}; what follows is given up");
        }
        Some(e) if given_up(log.uuid) => {
            tracing::warn!("given up: {e}");
            return fresh(local, header, log.generation).map(Some);
        }
        Some(e) => return Err(e),
        None if log.uuid != header.log || log.epoch != header.epoch => {
            return fresh(local, header, log.generation).map(Some);
        }
        None => {}
    }
    if survey.shipped > newest {
        let (had, log) = (survey.shipped, ring.name());
        tracing::warn!("{name} has lost batches up to {had}, which the local log {log} still has");
    }
    ring.head = survey.end;
    Ok(Some(Joined { uuid: log.uuid, log: Log::new(local, ring), survey: Some(survey) }))
}

/// Why a log must not be used.
fn refusal(name: &str, header: &Header, newest: u64, ring: &Ring, survey: &Survey) -> Option<HomeError> {
    let LogHeader { uuid, home, epoch, .. } = ring.header;
    let (name, log, id) = (name.to_owned(), ring.name().to_owned(), text(uuid));
    if home != header.uuid {
        return Some(HomeError::LogForeign { name, log, uuid: id });
    }
    let batches = survey.behind(survey.shipped);
    if uuid != header.log || epoch < header.epoch {
        return (batches > 0).then_some(HomeError::LogOld { name, log, uuid: id, batches });
    }
    if epoch > header.epoch {
        // An opening that did not come to its end leaves an empty log, one epoch ahead.
        if epoch == header.epoch + 1 && survey.next == survey.first {
            return None;
        }
        let what = format!("the log is of epoch {epoch}, the bucket of epoch {}", header.epoch);
        return Some(HomeError::BucketOld { name, log, uuid: id, what });
    }
    if survey.first > newest.saturating_add(1) {
        let what = format!("the bucket had batch {}, and its newest is {newest}", survey.first - 1);
        return Some(HomeError::BucketOld { name, log, uuid: id, what });
    }
    survey.lost(newest).map(|number| {
        let log = format!("{log} ({id})");
        HomeError::LogDamaged { log, what: format!("batch {number} was durable and cannot be read") }
    })
}

/// A log that holds nothing yet. It is written when the volume is attached to it.
fn fresh(local: &Local, header: &Header, generation: u64) -> Result<Joined, HomeError> {
    let log = LogHeader {
        chunk: header.chunk,
        unit: local.medium.unit(),
        uuid: System.random_uuid(),
        home: header.uuid,
        epoch: header.epoch,
        generation,
        ring: ring::room(&*local.medium)?,
        tail: Tail { position: 0, number: 0 },
        seed: header.seed,
    };
    let ring = Ring::new(local.medium.clone(), log, 0);
    Ok(Joined { uuid: log.uuid, log: Log::new(local, ring), survey: None })
}

/// A UUID as people write it.
pub(super) fn text(uuid: [u8; 16]) -> String {
    uuid::Uuid::from_bytes(uuid).to_string()
}
