//! Bytes at any offset of memory that is only reached as atomic words.
//!
//! One size of access throughout: a data race between words and bytes cannot arise. Bytes of a word that are not named keep
//! what other threads put there.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

const WORD: usize = size_of::<u64>();

/// Reads `buf.len()` bytes at `offset`, which lie inside.
pub(crate) fn read(words: &[AtomicU64], offset: usize, buf: &mut [u8]) {
    let (head, body) = buf.split_at_mut(head_len(offset, buf.len()));
    // No word is loaded that has no byte of it: it may lie in a line that is lost.
    if let Some((word, at)) = words.get(offset / WORD).zip(Some(offset % WORD)).filter(|_| !head.is_empty()) {
        head.copy_from_slice(&word.load(Relaxed).to_ne_bytes()[at..at + head.len()]);
    }
    let (chunks, tail) = body.as_chunks_mut::<WORD>();
    let mut rest = words.get(offset.div_ceil(WORD)..).unwrap_or_default().iter();
    for (chunk, word) in chunks.iter_mut().zip(&mut rest) {
        *chunk = word.load(Relaxed).to_ne_bytes();
    }
    if let (Some(word), false) = (rest.next(), tail.is_empty()) {
        tail.copy_from_slice(&word.load(Relaxed).to_ne_bytes()[..tail.len()]);
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
        fn as_with_a_vector(stores in proptest::collection::vec((0usize..200, proptest::collection::vec(any::<u8>(), 0..60)), 1..20)) {
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
