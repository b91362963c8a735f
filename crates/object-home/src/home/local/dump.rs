//! What a local log holds, for people: before it is given up, say. Needs no bucket and changes nothing.

use super::format::{Head, LogHeader};
use super::judge::text;
use super::medium::LogMedium;
use super::ring::{self, Ring};
use crate::ChunkFormat;
use crate::home::HomeError;
use std::sync::Arc;

/// What a local log says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogContents {
    /// Its UUID.
    pub uuid: [u8; 16],
    /// The UUID of the home that it belongs to.
    pub home: [u8; 16],
    /// The attach epoch of who wrote it.
    pub epoch: u64,
    /// Number of the first batch that it has.
    pub first: u64,
    /// Batches that it has, one after the other.
    pub batches: u64,
    /// Bytes of their records.
    pub bytes: u64,
    /// The newest batch that it knows to be in the bucket.
    pub shipped: u64,
    /// A batch that was durable, is not known to be in the bucket, and cannot be read.
    pub lost: Option<u64>,
}

/// A batch of a local log, as it changes the volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedBatch {
    /// Its number.
    pub number: u64,
    /// When it was submitted: seconds since 1970.
    pub time: i64,
    /// Where bytes are written, and which.
    pub writes: Vec<(u64, Vec<u8>)>,
    /// Ranges that hold nothing afterwards: first byte and length.
    pub discards: Vec<(u64, u64)>,
}

impl LogContents {
    /// Looks at a log. None: the medium holds zeros.
    ///
    /// # Errors
    /// It holds something else, or a log that is damaged; the medium fails.
    pub fn of(medium: &Arc<dyn LogMedium>) -> Result<Option<Self>, HomeError> {
        let Some(header) = ring::find(&**medium)? else { return Ok(None) };
        let survey = Ring::new(medium.clone(), header, header.tail.position).survey()?;
        let LogHeader { uuid, home, epoch, .. } = header;
        let shipped = survey.shipped.max(survey.first.saturating_sub(1));
        let (first, batches, bytes) = (survey.first, survey.next - survey.first, survey.bytes);
        Ok(Some(Self { uuid, home, epoch, first, batches, bytes, shipped, lost: survey.lost(shipped) }))
    }

    /// The UUID of the log, as people write it.
    pub fn name(&self) -> String {
        text(self.uuid)
    }

    /// Shows each batch of a log, in order.
    ///
    /// # Errors
    /// As [`LogContents::of`]; a record has no meaning; `each` fails.
    pub fn dump(
        medium: &Arc<dyn LogMedium>,
        mut each: impl FnMut(LoggedBatch) -> std::io::Result<()>,
    ) -> Result<(), HomeError> {
        let Some(header) = ring::find(&**medium)? else { return Ok(()) };
        let damaged = |what: String| HomeError::LogDamaged { log: medium.name().to_owned(), what };
        Ring::new(medium.clone(), header, header.tail.position).each(|head, body| {
            let batch = shown(&header, &head, &body).map_err(damaged)?;
            each(batch).map_err(|e| HomeError::Log {
                log: medium.name().to_owned(),
                what: "to show",
                why: e.to_string(),
            })
        })?;
        Ok(())
    }
}

fn shown(header: &LogHeader, head: &Head, body: &[u8]) -> Result<LoggedBatch, String> {
    let format = ChunkFormat::new(header.seed, header.chunk);
    let size = header.chunk.bytes() as u64;
    let at = |chunk: u64| chunk.checked_mul(size).ok_or_else(|| format!("chunk {chunk} is beyond all volumes"));
    let logged = head.contents(body)?;
    let mut batch = LoggedBatch { number: head.number, time: head.time, writes: vec![], discards: vec![] };
    for (number, value) in logged.chunks {
        let mut chunk = vec![0; header.chunk.bytes()];
        format.decode(number, &value, &mut chunk).map_err(|e| e.to_string())?;
        batch.writes.push((at(number)?, chunk));
    }
    for (first, count) in logged.runs {
        batch.discards.push((at(first)?, at(count)?));
    }
    Ok(batch)
}
