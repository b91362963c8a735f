//! What a user of a volume has open: handles, and what is lent of files, which has to stay as it was whatever is done
//! to them.

use crate::op::sum_of;
use ondol_volume::{Error, Ino, Piece, Result, Volume};
use std::collections::{BTreeMap, VecDeque};

/// What a user of a volume has open.
#[derive(Default)]
pub(super) struct Opened {
    pub(super) handles: BTreeMap<u8, Ino>,
    pub(super) views: Views,
}

/// Views of files, each with the sum of what it showed when it was made.
#[derive(Default)]
pub(super) struct Views(VecDeque<(Vec<Piece>, u64)>);

/// So many are kept.
const VIEWS: usize = 3;

impl Views {
    /// Reads some bytes of a file, by a view that is kept in place of the oldest or not; their sum.
    pub(super) fn read(&mut self, volume: &Volume, ino: Ino, at: u64, len: u64, is_kept: bool) -> Result<u64> {
        if !is_kept {
            let mut bytes = vec![0; len as usize];
            let read = volume.files().read(ino, at, &mut bytes)?;
            return Ok(sum_of([&bytes[..read]]));
        }
        self.check()?;
        let view = volume.files().view(ino, at, len)?;
        self.0.truncate(VIEWS - 1);
        let sum = sum_of_pieces(&view);
        self.0.push_front((view, sum));
        Ok(sum)
    }

    /// Nothing that is kept has changed.
    pub(super) fn check(&self) -> Result<()> {
        let holds = self.0.iter().all(|(view, sum)| sum_of_pieces(view) == *sum);
        holds.then_some(()).ok_or(Error::Invalid("a view of a file shows something else by now"))
    }
}

fn sum_of_pieces(pieces: &[Piece]) -> u64 {
    let zeros = pieces.iter().filter(|piece| piece.bytes().is_none()).map(Piece::len).max().unwrap_or(0);
    let zeros = vec![0; zeros as usize];
    sum_of(pieces.iter().map(|piece| piece.bytes().unwrap_or_else(|| &zeros[..piece.len() as usize])))
}
