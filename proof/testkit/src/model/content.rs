//! The contents of a file: a size and the pages that are not all zeros.

use crate::op::Fill;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes in a page of [`Content`].
const PAGE: u64 = 4096;

type Page = [u8; PAGE as usize];

/// The bytes of a file. Holes and zeros are the same; equal bytes make equal values; a copy shares its pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    len: u64,
    /// Never a page of zeros, and zeros behind `len`.
    pages: BTreeMap<u64, Arc<Page>>,
}

impl Content {
    /// From bytes.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut content = Self::default();
        content.write(0, bytes);
        content
    }

    /// Size in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// No bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The byte at `at`; 0 behind the end.
    pub fn byte(&self, at: u64) -> u8 {
        self.pages.get(&(at / PAGE)).map_or(0, |page| page[(at % PAGE) as usize])
    }

    /// The bytes of a range, as far as it lies inside the file.
    pub fn bytes(&self, at: u64, len: u64) -> Vec<u8> {
        let end = at.saturating_add(len).min(self.len).max(at);
        let mut bytes = vec![0; (end - at) as usize];
        if at == end {
            return bytes;
        }
        for (n, page) in self.pages.range(at / PAGE..end.div_ceil(PAGE)) {
            let (from, to) = ((n * PAGE).max(at), ((n + 1) * PAGE).min(end));
            let part = &page[(from - n * PAGE) as usize..(to - n * PAGE) as usize];
            bytes[(from - at) as usize..(to - at) as usize].copy_from_slice(part);
        }
        bytes
    }

    /// Writes `bytes` at `at`, growing the file as needed.
    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let offset = at + done as u64;
            let from = (offset % PAGE) as usize;
            let n = (PAGE as usize - from).min(bytes.len() - done);
            self.edit(offset / PAGE, |page| page[from..from + n].copy_from_slice(&bytes[done..done + n]));
            done += n;
        }
        if !bytes.is_empty() {
            self.len = self.len.max(at + bytes.len() as u64);
        }
    }

    /// Writes `len` bytes of `fill` at `at`.
    pub fn fill(&mut self, at: u64, len: u64, fill: Fill) {
        let mut done = 0;
        while done < len {
            let n = (len - done).min(1 << 20);
            self.write(at + done, &fill.bytes(at + done, n));
            done += n;
        }
    }

    /// Sets the size; what comes back after shrinking and growing is zeros.
    pub fn set_len(&mut self, len: u64) {
        if len < self.len {
            self.zero(len, self.len - len);
        }
        self.len = len;
    }

    /// Makes the part of the range that lies inside the file zeros.
    pub fn zero(&mut self, at: u64, len: u64) {
        let end = at.saturating_add(len).min(self.len);
        if at >= end {
            return;
        }
        let touched: Vec<u64> = self.pages.range(at / PAGE..=(end - 1) / PAGE).map(|(n, _)| *n).collect();
        for n in touched {
            let from = at.saturating_sub(n * PAGE).min(PAGE) as usize;
            let to = (end - n * PAGE).min(PAGE) as usize;
            self.edit(n, |page| page[from..to].fill(0));
        }
    }

    /// Takes out a range that ends before the last byte; what follows moves up.
    pub fn collapse(&mut self, at: u64, len: u64) {
        let before = self.clone();
        let rest = before.len - at - len;
        self.set_len(at);
        self.copy(&before, at + len, at, rest);
    }

    /// Makes room for zeros before the end; what was there moves down.
    pub fn insert(&mut self, at: u64, len: u64) {
        let before = self.clone();
        self.set_len(at);
        self.copy(&before, at, at + len, before.len - at);
    }

    /// Copies a range that lies inside `from`, growing the file as needed.
    pub fn copy(&mut self, from: &Self, at: u64, to: u64, len: u64) {
        self.set_len(self.len.max(to + len));
        self.zero(to, len);
        for (n, page) in from.pages.range(at / PAGE..(at + len).div_ceil(PAGE)) {
            let first = (n * PAGE).max(at);
            let part = &page[(first - n * PAGE) as usize..((at + len).min((n + 1) * PAGE) - n * PAGE) as usize];
            self.write(to + (first - at), part);
        }
    }

    fn edit(&mut self, n: u64, change: impl FnOnce(&mut Page)) {
        let page = self.pages.entry(n).or_insert_with(|| Arc::new([0; PAGE as usize]));
        change(Arc::make_mut(page));
        if page.iter().all(|b| *b == 0) {
            self.pages.remove(&n);
        }
    }

    /// The ranges in which the two differ, at a granularity of `unit` bytes (a divisor of 4096), up to the longer size.
    pub fn differences(&self, other: &Self, unit: u64) -> Vec<std::ops::Range<u64>> {
        let zeros = [0; PAGE as usize];
        let len = self.len.max(other.len);
        let mut found: Vec<std::ops::Range<u64>> = Vec::new();
        let numbers: std::collections::BTreeSet<u64> = self.pages.keys().chain(other.pages.keys()).copied().collect();
        for n in numbers {
            let a = self.pages.get(&n).map_or(&zeros, |p| &**p);
            let b = other.pages.get(&n).map_or(&zeros, |p| &**p);
            for (i, (x, y)) in a.chunks(unit as usize).zip(b.chunks(unit as usize)).enumerate() {
                let at = n * PAGE + i as u64 * unit;
                if x == y {
                    continue;
                }
                match found.last_mut() {
                    Some(last) if last.end == at => last.end = at + unit,
                    _ => found.push(at..at + unit),
                }
            }
        }
        found.iter_mut().for_each(|r| r.end = r.end.min(len));
        found
    }

    /// The 8-byte word that holds byte `at`.
    pub fn word(&self, at: u64) -> [u8; 8] {
        std::array::from_fn(|i| self.byte(at / 8 * 8 + i as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_and_zeros_are_equal_and_cut_bytes_do_not_come_back() {
        let mut a = Content::default();
        a.write(5000, &[1, 2, 3]);
        assert_eq!((a.len(), a.byte(5001), a.byte(0)), (5003, 2, 0));
        a.set_len(5001);
        a.set_len(9000);
        let mut b = Content::default();
        b.fill(0, 9000, Fill::ZEROS);
        assert_eq!(a.differences(&b, 512), std::iter::once(4608..5120).collect::<Vec<_>>());
        a.zero(4999, 2);
        assert_eq!(a, b);
    }

    #[test]
    fn ranges_move_as_they_do_in_a_vector() {
        let mut plain: Vec<u8> = (0..20_000u32).map(|i| (i / 7) as u8).collect();
        plain[5000..14_000].fill(0);
        let mut content = Content::from_bytes(&plain);
        content.collapse(1000, 3500);
        plain.drain(1000..4500);
        assert_eq!(content, Content::from_bytes(&plain));
        content.insert(600, 9000);
        plain.splice(600..600, vec![0; 9000]);
        assert_eq!(content, Content::from_bytes(&plain));
        content.copy(&content.clone(), 100, 20_000, 9000);
        plain.resize(29_000, 0);
        plain.copy_within(100..9100, 20_000);
        assert_eq!(content, Content::from_bytes(&plain));
        for (at, len) in [(0, 29_000), (4000, 200), (4096, 4096), (28_000, 9000), (29_000, 5), (90_000, 5), (5, 0)] {
            let end = (at + len).min(plain.len());
            assert_eq!(content.bytes(at as u64, len as u64), plain.get(at.min(end)..end).unwrap_or_default());
        }
    }

    #[test]
    fn a_write_of_nothing_does_not_grow() {
        let mut a = Content::default();
        a.write(100, &[]);
        assert!(a.is_empty());
    }
}
