//! From ranges of bytes to whole chunks.

use bytes::Bytes;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

/// A chunk as the bucket is to have it: its number and its value, or none for one that is not there.
pub(super) type Put = (u64, Option<Bytes>);

/// Chunks that were written or discarded and are in no batch yet.
#[derive(Default)]
pub(super) struct Loose {
    chunks: BTreeMap<u64, Option<Vec<u8>>>,
    bytes: usize,
}

/// What counts for a chunk that holds nothing.
const KEY: usize = 32;

impl Loose {
    /// What waits for chunk `number`, if anything does.
    pub(super) fn get(&self, number: u64) -> Option<Option<&[u8]>> {
        self.chunks.get(&number).map(|chunk| chunk.as_deref())
    }

    pub(super) fn put(&mut self, number: u64, chunk: Option<Vec<u8>>) {
        let size = |chunk: &Option<Vec<u8>>| KEY + chunk.as_ref().map_or(0, Vec::len);
        self.bytes += size(&chunk);
        if let Some(before) = self.chunks.insert(number, chunk) {
            self.bytes -= size(&before);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The chunks of a range that wait.
    pub(super) fn within(&self, range: Range<u64>) -> BTreeMap<u64, Option<Vec<u8>>> {
        self.chunks.range(range).map(|(number, chunk)| (*number, chunk.clone())).collect()
    }

    pub(super) fn clone_chunks(&self) -> Vec<(u64, Option<Vec<u8>>)> {
        self.chunks.iter().map(|(number, chunk)| (*number, chunk.clone())).collect()
    }
}

/// What is written into a chunk: where in it, and what.
pub(super) type Pieces<'a> = Vec<(usize, &'a [u8])>;

/// By the numbers of chunks.
type Numbered<T> = Vec<(u64, T)>;

/// Writes, by chunk. No byte is in two of them.
pub(super) struct Draft<'a> {
    size: usize,
    chunks: BTreeMap<u64, Pieces<'a>>,
}

impl<'a> Draft<'a> {
    /// For chunks of `size`.
    pub(super) fn new(size: usize) -> Self {
        Self { size, chunks: BTreeMap::new() }
    }

    pub(super) fn write(&mut self, mut offset: u64, mut bytes: &'a [u8]) {
        while !bytes.is_empty() {
            let (number, at) = (offset / self.size as u64, (offset % self.size as u64) as usize);
            let (now, rest) = bytes.split_at(bytes.len().min(self.size - at));
            self.chunks.entry(number).or_default().push((at, now));
            (offset, bytes) = (offset + now.len() as u64, rest);
        }
    }

    /// Chunks that are written as a whole, and those of which a part stays.
    pub(super) fn split(self) -> (Numbered<Cow<'a, [u8]>>, Numbered<Pieces<'a>>) {
        let (mut whole, mut parts) = (Vec::new(), Vec::new());
        for (number, pieces) in self.chunks {
            let written: usize = pieces.iter().map(|(_, bytes)| bytes.len()).sum();
            match pieces[..] {
                [(_, bytes)] if written == self.size => whole.push((number, Cow::Borrowed(bytes))),
                _ if written == self.size => {
                    let mut chunk = vec![0; self.size];
                    patch(&mut chunk, &pieces);
                    whole.push((number, Cow::Owned(chunk)));
                }
                _ => parts.push((number, pieces)),
            }
        }
        (whole, parts)
    }
}

/// Writes pieces into a chunk.
pub(super) fn patch(chunk: &mut [u8], pieces: &[(usize, &[u8])]) {
    pieces.iter().for_each(|(at, bytes)| chunk[*at..][..bytes.len()].copy_from_slice(bytes));
}

/// The chunks of `size` that lie in these ranges `(offset, len)` as a whole. Ranges that touch are one.
pub(super) fn whole_chunks(size: usize, ranges: &[(u64, u64)]) -> Vec<Range<u64>> {
    let mut sorted: Vec<Range<u64>> = ranges.iter().map(|(offset, len)| *offset..offset + len).collect();
    sorted.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in sorted {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    let size = size as u64;
    let chunks = joined.into_iter().map(|range| range.start.div_ceil(size)..range.end / size);
    chunks.filter(|chunks| !chunks.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_become_whole_chunks_and_parts() {
        let bytes: Vec<u8> = (0..40).collect();
        let mut draft = Draft::new(16);
        draft.write(8, &bytes);
        draft.write(0, &[90; 8]);
        let (whole, parts) = draft.split();
        let one: Vec<u8> = [90; 8].into_iter().chain(0..8).collect();
        assert_eq!(whole, [(0, Cow::Owned(one)), (1, Cow::Borrowed(&bytes[8..24])), (2, Cow::Borrowed(&bytes[24..]))]);
        assert!(parts.is_empty() && matches!(whole[1].1, Cow::Borrowed(_)));
        let mut draft = Draft::new(16);
        draft.write(20, &bytes[..3]);
        draft.write(30, &bytes[3..6]);
        let (whole, parts) = draft.split();
        assert!(whole.is_empty());
        assert_eq!(parts, [(1, vec![(4, &bytes[..3]), (14, &bytes[3..5])]), (2, vec![(0, &bytes[5..6])])]);
        let mut chunk = [9; 16];
        patch(&mut chunk, &parts[0].1);
        assert_eq!(chunk, [9, 9, 9, 9, 0, 1, 2, 9, 9, 9, 9, 9, 9, 9, 3, 4]);
    }

    #[test]
    fn only_whole_chunks_are_discarded_and_ranges_that_touch_are_one() {
        let whole = |ranges: &[(u64, u64)]| -> Vec<(u64, u64)> {
            whole_chunks(16, ranges).into_iter().map(|range| (range.start, range.end)).collect()
        };
        assert_eq!(whole(&[(0, 16), (32, 16)]), [(0, 1), (2, 3)]);
        assert_eq!(whole(&[(40, 8), (32, 8), (1, 30)]), [(2, 3)]);
        assert_eq!(whole(&[(8, 40), (48, 16)]), [(1, 4)]);
        assert_eq!(whole(&[(1, 15), (16, 15)]), []);
    }

    #[test]
    fn loose_chunks_are_counted_once() {
        let mut loose = Loose::default();
        loose.put(3, Some(vec![1; 100]));
        loose.put(3, Some(vec![2; 50]));
        loose.put(4, None);
        assert_eq!(loose.bytes(), 50 + 2 * KEY);
        assert_eq!((loose.get(3), loose.get(4), loose.get(5)), (Some(Some(&[2; 50][..])), Some(None), None));
        assert_eq!(loose.within(4..9).len(), 1);
    }
}
