//! The changes that a handle stages for one block, and how they are applied.

use crate::{Block, Ranges};
use std::ops::Range;

/// Changes of one block that need no memory of their own.
const FEW: usize = 6;

/// What the changes of a block begin with.
#[derive(Debug)]
pub(crate) enum Base<'d> {
    /// What it holds.
    Live,
    /// Zeros, whatever it held.
    Zeros,
    /// These bytes, whatever it held.
    Whole(Block),
    /// As `Whole`, where whoever called has them.
    Lent(&'d [u8]),
}

impl Base<'_> {
    /// All bytes of the block, where they are said.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Live | Self::Zeros => None,
            Self::Whole(bytes) => Some(bytes),
            Self::Lent(bytes) => Some(bytes),
        }
    }
}

/// The changes staged for one block, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    few: [Change; FEW],
    len: usize,
    /// All of them, once they are more than few.
    many: Vec<Change>,
}

impl Changes {
    pub(crate) fn push(&mut self, change: Change) {
        match self.few.get_mut(self.len) {
            Some(slot) if self.many.is_empty() => (*slot, self.len) = (change, self.len + 1),
            _ => {
                if self.many.is_empty() {
                    self.many.extend_from_slice(&self.few);
                }
                self.many.push(change);
            }
        }
    }

    pub(crate) fn as_slice(&self) -> &[Change] {
        if self.many.is_empty() { self.few.get(..self.len).unwrap_or_default() } else { &self.many }
    }

    /// Whether bytes of `range` are among them; bits and numbers are not looked at.
    pub(crate) fn overlap(&self, range: Range<u32>) -> bool {
        self.as_slice().iter().any(|change| match *change {
            Change::Bytes { offset, len, .. } => offset < range.end && range.start < offset + len,
            _ => false,
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
        self.many.clear();
    }
}

/// One staged change. Byte contents lie in the write set's arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// `len` bytes at `offset`, found at `at` in the arena.
    Bytes { offset: u32, at: u32, len: u32 },
    /// Bits `first..first + count` become one.
    Set { first: u32, count: u32 },
    /// Bits `first..first + count` become zero.
    Clear { first: u32, count: u32 },
    /// A little-endian number of `width` bytes at `offset` grows by `delta`.
    Add { offset: u32, width: u8, delta: i32 },
}

impl Default for Change {
    /// Changes nothing.
    fn default() -> Self {
        Self::Bytes { offset: 0, at: 0, len: 0 }
    }
}

impl Change {
    /// Applies the change to `block` and notes the bytes it touched.
    pub(crate) fn apply(&self, arena: &[u8], block: &mut [u8], dirty: &mut Ranges) {
        match *self {
            Self::Bytes { offset, at, len } => {
                let (o, a, n) = (offset as usize, at as usize, len as usize);
                block[o..o + n].copy_from_slice(&arena[a..a + n]);
                dirty.add(offset..offset + len);
            }
            Self::Set { first, count } => mask(block, first, count, true, dirty),
            Self::Clear { first, count } => mask(block, first, count, false, dirty),
            Self::Add { offset, width, delta } => {
                let (o, w) = (offset as usize, usize::from(width));
                let mut le = [0; 4];
                le[..w].copy_from_slice(&block[o..o + w]);
                let sum = u32::from_le_bytes(le).wrapping_add_signed(delta);
                block[o..o + w].copy_from_slice(&sum.to_le_bytes()[..w]);
                dirty.add(offset..offset + u32::from(width));
            }
        }
    }
}

fn mask(block: &mut [u8], first: u32, count: u32, value: bool, dirty: &mut Ranges) {
    let end = first + count;
    let mut bit = first;
    while bit < end {
        let byte = (bit / 8) as usize;
        if bit.is_multiple_of(8) && end - bit >= 8 {
            block[byte] = if value { 0xFF } else { 0 };
            bit += 8;
        } else {
            let m = 1 << (bit % 8);
            block[byte] = if value { block[byte] | m } else { block[byte] & !m };
            bit += 1;
        }
    }
    dirty.add(first / 8..end.div_ceil(8));
}

/// What a change costs beside its bytes in an NVM log.
const NEAR: usize = 8;

/// Runs that lie no further apart than a change of its own costs, as one.
pub(crate) fn joined(runs: Vec<(usize, usize)>) -> Vec<(usize, usize)> {
    let mut all: Vec<(usize, usize)> = Vec::with_capacity(runs.len());
    for (start, len) in runs {
        match all.last_mut() {
            Some((first, of_first)) if start - (*first + *of_first) <= NEAR => *of_first = start + len - *first,
            _ => all.push((start, len)),
        }
    }
    all
}

/// The maximal runs of 8-byte words in which two equally long blocks differ, as `(offset, len)`.
pub(crate) fn differences(before: &[u8], after: &[u8]) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (i, (x, y)) in before.chunks(64).zip(after.chunks(64)).enumerate() {
        if x == y {
            continue;
        }
        for (j, (a, b)) in x.chunks(8).zip(y.chunks(8)).enumerate() {
            if a == b {
                continue;
            }
            let offset = i * 64 + j * 8;
            match runs.last_mut() {
                Some((start, len)) if *start + *len == offset => *len += a.len(),
                _ => runs.push((offset, a.len())),
            }
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_changes_keep_their_order() {
        let mut changes = Changes::default();
        for n in 0..3 * FEW as u32 {
            assert_eq!(changes.is_empty(), n == 0);
            changes.push(Change::Set { first: n, count: 1 });
            let all: Vec<_> = (0..=n).map(|first| Change::Set { first, count: 1 }).collect();
            assert_eq!(changes.as_slice(), all);
        }
        changes.clear();
        assert!(changes.is_empty() && changes.as_slice().is_empty());
        changes.push(Change::Clear { first: 1, count: 1 });
        assert_eq!(changes.as_slice(), [Change::Clear { first: 1, count: 1 }]);
    }

    #[test]
    fn masks_and_sums_touch_only_their_bits() {
        let mut block = [0u8; 16];
        let mut dirty = Ranges::default();
        Change::Set { first: 3, count: 18 }.apply(&[], &mut block, &mut dirty);
        assert_eq!(block[..4], [0xF8, 0xFF, 0x1F, 0]);
        Change::Clear { first: 4, count: 1 }.apply(&[], &mut block, &mut dirty);
        assert_eq!(block[0], 0xE8);
        block[8] = 0xFF;
        Change::Add { offset: 8, width: 2, delta: 1 }.apply(&[], &mut block, &mut dirty);
        assert_eq!(block[8..11], [0, 1, 0]);
        assert_eq!(dirty.iter().collect::<Vec<_>>(), vec![0..3, 8..10]);
    }
}
