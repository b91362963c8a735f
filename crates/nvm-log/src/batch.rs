//! Reading what is committed while the log is in use: for whoever writes it home.

use crate::error::{LogError, Result};
use crate::log::Log;
use std::ops::Range;

/// What one commit has committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Number of the commit.
    pub number: u64,
    /// Where it begins.
    pub from: u64,
    /// Position of the commit itself.
    pub commit: u64,
    /// Positions of the records, in their order.
    pub records: Vec<u64>,
}

impl Log {
    /// The first batch, if anything is committed and not released. `None` also as long as somebody whose record its
    /// commit has voided may still write there: soon.
    pub fn first_batch(&self) -> Option<Batch> {
        let tail = self.begins();
        self.batch(tail.position, tail.number + 1)
    }

    /// The batch after this one, which is not released, if it is durable; as [`Log::first_batch`].
    pub fn batch_after(&self, batch: &Batch) -> Option<Batch> {
        self.batch(batch.commit + 1, batch.number + 1)
    }

    fn batch(&self, from: u64, number: u64) -> Option<Batch> {
        let (records, commit) = self.ring.batch(from)?;
        Some(Batch { number, from, commit, records })
    }

    /// Puts a complete record that is not released behind what is in `into`, and says where its contents lie in there,
    /// with the zeros behind them if there are any.
    ///
    /// # Errors
    /// `NoRecord` when it is not there or not whole; the memory's failure; `into` is as it was then.
    pub fn read(&self, position: u64, into: &mut Vec<u8>) -> Result<Range<usize>> {
        let record = self.area.read_record(position, into)?;
        record.ok_or_else(|| LogError::NoRecord { pool: self.area.name().into(), position })
    }
}
