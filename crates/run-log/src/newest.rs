//! The newest bytes of a file, of records that overlap.

use std::collections::BTreeMap;
use std::ops::Range;

/// A part of one record that no later one covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Which record.
    pub record: usize,
    /// The part of its payload.
    pub part: Range<usize>,
    /// Where it lies in the file.
    pub offset: u64,
}

/// What is to be seen of records that were written one after the other, each an offset and a length; by offset. A
/// length of 0 is a truncation: nothing that was written before it lies behind its offset.
pub fn newest(records: &[(u64, usize)]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    // Disjoint ranges that later records cover: start to end.
    let mut covered: BTreeMap<u64, u64> = BTreeMap::new();
    let mut cut = u64::MAX;
    for (record, (offset, len)) in records.iter().enumerate().rev() {
        let end = cut.min(offset + *len as u64);
        if *len == 0 {
            cut = cut.min(*offset);
        }
        if *offset >= end {
            continue;
        }
        let mut at = *offset;
        let before = covered.range(..=at).next_back().map(|(_, end)| *end).unwrap_or(0);
        at = at.max(before.min(end));
        let mut gaps = Vec::new();
        for (start, stop) in covered.range(at..end) {
            gaps.push(at..*start);
            at = (*stop).min(end);
        }
        gaps.push(at..end);
        for gap in gaps.into_iter().filter(|gap| gap.start < gap.end) {
            let part = (gap.start - offset) as usize..(gap.end - offset) as usize;
            covered.insert(gap.start, gap.end);
            pieces.push(Piece { record, part, offset: gap.start });
        }
    }
    pieces.sort_unstable_by_key(|piece| piece.offset);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Any records: the pieces make what writing and cutting one after the other makes, and no byte twice.
    #[test]
    fn as_if_written_one_after_the_other() {
        let mut state = 7u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..500 {
            let records: Vec<(u64, usize)> = (0..random(9)).map(|_| (random(40), random(20) as usize)).collect();
            let (mut expected, mut found) = ([None; 64], [None; 64]);
            for (n, (offset, len)) in records.iter().enumerate() {
                (0..*len).for_each(|at| expected[*offset as usize + at] = Some((n, at)));
                if *len == 0 {
                    expected[*offset as usize..].fill(None);
                }
            }
            for piece in newest(&records) {
                for (place, at) in (piece.offset as usize..).zip(piece.part) {
                    assert_eq!(found[place].replace((piece.record, at)), None, "{records:?}");
                }
            }
            assert_eq!(found, expected, "{records:?}");
        }
    }
}
