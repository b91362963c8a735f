//! What a local log holds, for people: before it is given up, say. Needs no bucket and changes nothing.

use super::format::{Head, LogHeader, Logged};
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

/// The same with ranges in place of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedRanges {
    /// Its number.
    pub number: u64,
    /// When it was submitted: seconds since 1970.
    pub time: i64,
    /// Ranges that are written: first byte and length.
    pub writes: Vec<(u64, u64)>,
    /// Ranges that hold nothing afterwards.
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
        walk(medium, |header, head, logged| {
            let mut writes = Vec::with_capacity(logged.chunks.len());
            let discards = changes(header, &logged, |at, chunk| writes.push((at, chunk.to_vec())))?;
            Ok(each(LoggedBatch { number: head.number, time: head.time, writes, discards }))
        })
    }

    /// As [`LogContents::dump`], of each batch only which ranges it changes. So it takes no more memory than the log's
    /// records, whatever they would become.
    ///
    /// # Errors
    /// The same.
    pub fn list(
        medium: &Arc<dyn LogMedium>,
        mut each: impl FnMut(LoggedRanges) -> std::io::Result<()>,
    ) -> Result<(), HomeError> {
        walk(medium, |header, head, logged| {
            let mut writes = Vec::with_capacity(logged.chunks.len());
            let discards = changes(header, &logged, |at, chunk| writes.push((at, chunk.len() as u64)))?;
            Ok(each(LoggedRanges { number: head.number, time: head.time, writes, discards }))
        })
    }
}

/// Goes through the batches of a log. What `each` says may be a fault of the log, or of whoever is shown it.
fn walk(
    medium: &Arc<dyn LogMedium>,
    mut each: impl FnMut(&LogHeader, &Head, Logged) -> Result<std::io::Result<()>, String>,
) -> Result<(), HomeError> {
    let Some(header) = ring::find(&**medium)? else { return Ok(()) };
    let name = || medium.name().to_owned();
    Ring::new(medium.clone(), header, header.tail.position).each(|head, body| {
        let shown = head.contents(&body).and_then(|logged| each(&header, &head, logged));
        let shown = shown.map_err(|what| HomeError::LogDamaged { log: name(), what })?;
        shown.map_err(|e| HomeError::Log { log: name(), what: "to show", why: e.to_string() })
    })?;
    Ok(())
}

/// Shows each chunk as it stands in the volume, and returns the ranges that hold nothing.
fn changes(header: &LogHeader, logged: &Logged, mut each: impl FnMut(u64, &[u8])) -> Result<Vec<(u64, u64)>, String> {
    let format = ChunkFormat::new(header.seed, header.chunk);
    let size = header.chunk.bytes() as u64;
    let at = |chunk: u64| chunk.checked_mul(size).ok_or_else(|| format!("chunk {chunk} is beyond all volumes"));
    let mut chunk = vec![0; header.chunk.bytes()];
    for (number, value) in &logged.chunks {
        format.decode(*number, value, &mut chunk).map_err(|e| e.to_string())?;
        each(at(*number)?, &chunk);
    }
    logged.runs.iter().map(|(first, count)| Ok((at(*first)?, at(*count)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::format::{HEAD, Moment, RING_AT, Tail, encode_record};
    use super::super::ring::Ring;
    use super::*;
    use crate::ChunkSize;
    use ondol_env::sync::Mutex;
    use std::io::{Error, ErrorKind, Result};

    #[derive(Debug)]
    struct Bytes(Mutex<Vec<u8>>);

    impl LogMedium for Bytes {
        fn name(&self) -> &str {
            "bytes"
        }

        fn size(&self) -> u64 {
            self.0.lock().len() as u64
        }

        fn unit(&self) -> u64 {
            4096
        }

        fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
            let bytes = self.0.lock();
            let part = bytes.get(offset as usize..).and_then(|rest| rest.get(..buf.len()));
            buf.copy_from_slice(part.ok_or_else(|| Error::from(ErrorKind::UnexpectedEof))?);
            Ok(())
        }

        fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
            self.0.lock()[offset as usize..][..bytes.len()].copy_from_slice(bytes);
            Ok(())
        }

        fn persist(&self) -> Result<()> {
            Ok(())
        }
    }

    fn header(tail: Tail) -> LogHeader {
        LogHeader {
            chunk: ChunkSize::MAX,
            unit: 4096,
            uuid: [1; 16],
            home: [2; 16],
            epoch: 3,
            generation: 4,
            ring: (8 << 20) - RING_AT,
            tail,
            seed: 5,
        }
    }

    /// A log with these chunks in its only record, all sums right.
    fn log(tail: Tail, chunks: u64) -> Arc<dyn LogMedium> {
        log_of(tail, 0..=chunks - 1)
    }

    fn log_of(tail: Tail, chunks: std::ops::RangeInclusive<u64>) -> Arc<dyn LogMedium> {
        let medium: Arc<dyn LogMedium> = Arc::new(Bytes(Mutex::new(vec![0; 8 << 20])));
        let header = header(tail);
        let mut ring = Ring::new(medium.clone(), header, tail.position);
        ring.write_header(header).unwrap();
        let format = ChunkFormat::new(header.seed, header.chunk);
        let mut chunk = vec![0; header.chunk.bytes()];
        chunk[0] = 1;
        let puts: Vec<_> = chunks.map(|n| (n, format.encode(n, &chunk).unwrap().map(Into::into))).collect();
        let at = Moment { position: tail.position, number: tail.number, shipped: u64::MAX, logged: 0, time: i64::MIN };
        ring.append(encode_record(ring.seal, at, &puts)).unwrap();
        medium
    }

    fn listed(medium: &Arc<dyn LogMedium>) -> std::result::Result<Vec<(u64, u64)>, HomeError> {
        let mut ranges = vec![];
        LogContents::list(medium, |batch| {
            ranges.extend(batch.writes);
            Ok(())
        })?;
        Ok(ranges)
    }

    #[test]
    fn what_is_listed_is_what_is_dumped() {
        let medium = log(Tail { position: 0, number: 1 }, 2000);
        let size = ChunkSize::MAX.bytes() as u64;
        let ranges = listed(&medium).unwrap();
        assert_eq!(ranges, (0..2000).map(|n| (n * size, size)).collect::<Vec<_>>());
        let mut at = ranges.iter();
        LogContents::dump(&medium, |batch| {
            assert!(batch.writes.iter().all(|(found, bytes)| at.next() == Some(&(*found, bytes.len() as u64))));
            Ok(())
        })
        .unwrap();
        assert_eq!(at.len(), 0);
        // Whoever is shown it may have enough.
        let e = LogContents::list(&medium, |_| Err(ErrorKind::BrokenPipe.into())).unwrap_err();
        assert!(matches!(e, HomeError::Log { .. }), "{e}");
    }

    #[test]
    fn a_chunk_beyond_all_volumes_is_damage() {
        let medium = log_of(Tail { position: 0, number: 1 }, u64::MAX..=u64::MAX);
        let e = listed(&medium).unwrap_err();
        assert!(matches!(e, HomeError::LogDamaged { .. }) && e.to_string().contains("beyond all volumes"), "{e}");
    }

    /// Numbers and positions as large as a header may have them, and words of a record that are larger.
    #[test]
    fn the_largest_numbers_are_an_answer() {
        let tail = Tail { position: 1 << 62, number: 1 << 62 };
        let medium = log(tail, 3);
        assert_eq!(listed(&medium).unwrap().len(), 3);
        let found = LogContents::of(&medium).unwrap().unwrap();
        assert_eq!((found.first, found.batches, found.lost), (1 << 62, 1, None));
        assert!(found.bytes > HEAD as u64 && found.shipped == u64::MAX);
    }
}
