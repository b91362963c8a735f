//! Bytes at any offset of memory that is only reached as atomic words.
//!
//! Accesses are of words, or of lines by instructions that take each of their words whole ([`persist::load_lines`]): a
//! data race between words and bytes cannot arise. Bytes of a word that are not named keep what other threads put
//! there.

use crate::persist;
use crate::stats::LINE;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

const WORD: usize = size_of::<u64>();
/// Words of a line.
const WORDS: usize = LINE as usize / WORD;

/// Reads `buf.len()` bytes at `offset`, which lie inside.
pub(crate) fn read(words: &[AtomicU64], offset: usize, buf: &mut [u8]) {
    let (head, body) = buf.split_at_mut(head_len(offset, buf.len()));
    // No word is loaded that has no byte of it: it may lie in a line that is lost.
    if let Some((word, at)) = words.get(offset / WORD).zip(Some(offset % WORD)).filter(|_| !head.is_empty()) {
        head.copy_from_slice(&word.load(Relaxed).to_ne_bytes()[at..at + head.len()]);
    }
    let (chunks, tail) = body.as_chunks_mut::<WORD>();
    let rest = words.get(offset.div_ceil(WORD)..).unwrap_or_default();
    let (whole, after) = rest.split_at(chunks.len().min(rest.len()));
    let (before, lines) = whole.split_at(whole.as_ptr().align_offset(LINE as usize).min(whole.len()));
    let (first, chunks) = chunks.split_at_mut(before.len());
    load(before, first);
    let (lines, last) = lines.split_at(lines.len() / WORDS * WORDS);
    let (of_lines, chunks) = chunks.split_at_mut(lines.len());
    persist::load_lines(lines, of_lines.as_flattened_mut());
    load(last, chunks);
    if let (Some(word), false) = (after.first(), tail.is_empty()) {
        tail.copy_from_slice(&word.load(Relaxed).to_ne_bytes()[..tail.len()]);
    }
}

/// Loads `words`, one by one.
pub(crate) fn load(words: &[AtomicU64], into: &mut [[u8; WORD]]) {
    for (chunk, word) in into.iter_mut().zip(words) {
        *chunk = word.load(Relaxed).to_ne_bytes();
    }
}

/// Stores `bytes` at `offset`; they lie inside.
pub(crate) fn store(words: &[AtomicU64], offset: usize, bytes: &[u8]) {
    let (head, body) = bytes.split_at(head_len(offset, bytes.len()));
    if let Some(word) = words.get(offset / WORD) {
        merge(word, offset % WORD, head);
    }
    let (chunks, tail) = body.as_chunks::<WORD>();
    let mut rest = words.get(offset.div_ceil(WORD)..).unwrap_or_default().iter();
    for (chunk, word) in chunks.iter().zip(&mut rest) {
        word.store(u64::from_ne_bytes(*chunk), Relaxed);
    }
    if let Some(word) = rest.next() {
        merge(word, 0, tail);
    }
}

/// How many of `len` bytes at `offset` lie before the first whole word.
fn head_len(offset: usize, len: usize) -> usize {
    (offset.wrapping_neg() % WORD).min(len)
}

fn merge(word: &AtomicU64, at: usize, part: &[u8]) {
    if part.is_empty() {
        return;
    }
    let merged = |old: u64| {
        let mut bytes = old.to_ne_bytes();
        bytes[at..at + part.len()].copy_from_slice(part);
        Some(u64::from_ne_bytes(bytes))
    };
    // The closure always has a value, so this cannot fail.
    let _always = word.fetch_update(Relaxed, Relaxed, merged);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(n: usize) -> Vec<AtomicU64> {
        (0..n).map(|_| AtomicU64::new(0)).collect()
    }

    proptest! {
        #[test]
        fn as_with_a_vector(stores in proptest::collection::vec((0usize..200, proptest::collection::vec(any::<u8>(),
                0..60)), 1..20)) {
            let memory = words(32);
            let mut model = vec![0u8; 256];
            for (offset, bytes) in stores {
                let bytes = &bytes[..bytes.len().min(256 - offset)];
                store(&memory, offset, bytes);
                model[offset..offset + bytes.len()].copy_from_slice(bytes);
                let mut found = vec![0; bytes.len() + 3];
                let from = offset.saturating_sub(3);
                let end = (from + found.len()).min(256);
                read(&memory, from, &mut found[..end - from]);
                prop_assert_eq!(&found[..end - from], &model[from..end]);
            }
            let mut all = vec![0; 256];
            read(&memory, 0, &mut all);
            prop_assert_eq!(all, model);
        }
    }

    #[test]
    fn any_range_of_lines_is_read() {
        let memory = words(80);
        let model: Vec<u8> = (0..640usize).map(|n| (n * 7 % 251) as u8).collect();
        store(&memory, 0, &model);
        for from in 0..130 {
            for len in (0..640 - from).step_by(5) {
                let mut found = vec![0xee; len + 2];
                read(&memory, from, &mut found[1..=len]);
                assert_eq!((found[0], found[len + 1]), (0xee, 0xee), "{from} {len}");
                assert_eq!(&found[1..=len], &model[from..from + len], "{from} {len}");
            }
        }
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a test")]
    fn a_reader_sees_each_word_old_or_new() {
        let memory = words(512);
        std::thread::scope(|s| {
            let memory = &memory;
            s.spawn(move || {
                for n in 0..2000u64 {
                    memory.iter().for_each(|word| word.store(n | n << 32, Relaxed));
                }
            });
            for _ in 0..2000 {
                let mut found = [0; 4096];
                read(memory, 0, &mut found);
                for word in found.as_chunks::<WORD>().0 {
                    let word = u64::from_ne_bytes(*word);
                    assert_eq!(word >> 32, word & 0xffff_ffff, "torn");
                }
            }
        });
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a test")]
    fn neighbours_in_a_word_keep_their_bytes() {
        let memory = words(1);
        std::thread::scope(|s| {
            for lane in 0..4usize {
                let memory = &memory;
                s.spawn(move || (0..=200u8).for_each(|n| store(memory, lane * 2, &[n, n])));
            }
        });
        let mut found = [0; 8];
        read(&memory, 0, &mut found);
        assert_eq!(found, [200; 8]);
    }
}
