//! Extents whose clusters have changed their places.

use ondol_format::extent::Extent;

/// Each extent in pieces that move alike, before and afterwards. `moves` is sorted: first block before, first block
/// afterwards, blocks.
pub(super) fn moved(extents: &[Extent], moves: &[(u64, u64, u64)]) -> Vec<(Extent, Extent)> {
    let mut out = Vec::new();
    for extent in extents {
        let mut rest = *extent;
        while rest.len > 0 {
            let at = moves.partition_point(|&(from, _, len)| from + len <= rest.start);
            let (len, to) = match moves.get(at) {
                Some(&(from, to, len)) if from <= rest.start => (from + len - rest.start, to + (rest.start - from)),
                Some(&(from, ..)) => (from - rest.start, rest.start),
                None => (u64::MAX, rest.start),
            };
            let len = len.min(u64::from(rest.len)) as u32;
            let before = Extent { len, ..rest };
            out.push((before, Extent { start: to, ..before }));
            rest = Extent {
                logical: rest.logical.wrapping_add(len),
                start: rest.start + u64::from(len),
                len: rest.len - len,
                ..rest
            };
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_follow_their_clusters() {
        let extent = Extent { logical: 10, start: 100, len: 20, unwritten: true };
        let moves = [(104, 4, 3), (107, 50, 1), (118, 60, 8)];
        let pieces: Vec<(u32, u64, u64, u32)> =
            moved(&[extent], &moves).iter().map(|(b, a)| (a.logical, b.start, a.start, a.len)).collect();
        assert_eq!(
            pieces,
            [(10, 100, 100, 4), (14, 104, 4, 3), (17, 107, 50, 1), (18, 108, 108, 10), (28, 118, 60, 2)]
        );
    }
}
