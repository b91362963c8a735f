//! Who pins pages, who stores to them, and who has one for himself: never two of these.
//!
//! Each page that can be pinned has a word in DRAM: its pins, and how many threads store to it at this moment. Both
//! come by this word with read-modify-writes, so one of the two sees the other.
//!
//! - *store*: add a storer (acquire); if the word has pins, undo and refuse; store; take the storer away (release).
//! - *pin*: add a pin if the word has no storer (one compare-and-swap, acquire); the slice; take the pin away
//!   (release).
//!
//! A pin's compare-and-swap reads the value of a storer's last operation or a later one, and a chain of
//! read-modify-writes continues a release: all earlier stores happened before the slice was made. Stores past the
//! caches are complete by then, since the processor finishes them before a locked instruction. By the same chain a
//! store behind the last pin happens after all reads of the slice. The set of these pages is fixed while nobody else
//! can have the medium: otherwise a thread could be in the midst of a store that is in no word.

// Not by their own names: a model checker looks at this file with others.
use super::PAGE;
use super::meeting::{
    AtomicU32,
    Ordering::{Acquire, Release, SeqCst},
};
use std::ops::Range;

/// In a page's word: one thread that stores to it. Pins are counted below.
const STORER: u32 = 1 << 16;
/// The most that either count comes to.
const MOST: u32 = STORER / 2;
/// In the place of pins: somebody has the page for himself, and stores to it in his own ways. It is pinned to all
/// others, and takes no pin.
const OWNED: u32 = MOST + 1;

/// Pages of a medium that can be pinned.
#[derive(Debug)]
pub(crate) struct Pinnable {
    /// By number in the medium.
    pages: Range<u64>,
    words: Box<[AtomicU32]>,
}

/// Somebody stores to some pages, none of which is pinned.
#[must_use = "it must be there until the store is over"]
pub(crate) struct Storing<'p>(&'p [AtomicU32]);

impl Pinnable {
    /// Whole pages in `bytes`. Nobody else has the medium: whoever stores from now on comes by here.
    pub(crate) fn new(bytes: &Range<u64>) -> Self {
        let pages = bytes.start.div_ceil(PAGE)..bytes.end / PAGE;
        let words = pages.clone().map(|_| AtomicU32::new(0)).collect();
        Self { pages, words }
    }

    /// The words of those pages that have some of `bytes` and can be pinned; and the number of the first.
    fn words(&self, bytes: &Range<u64>) -> (&[AtomicU32], u64) {
        let Range { start, end } = self.pages;
        let first = (bytes.start / PAGE).clamp(start, end);
        let behind = bytes.end.div_ceil(PAGE).clamp(first, end);
        (&self.words[(first - start) as usize..(behind - start) as usize], first)
    }

    /// Begins to store to `bytes`.
    ///
    /// # Errors
    /// The number of a page that is pinned.
    pub(crate) fn store(&self, bytes: &Range<u64>) -> std::result::Result<Storing<'_>, u64> {
        let (words, first) = self.words(bytes);
        for (n, word) in words.iter().enumerate() {
            // What readers have seen through pins that are gone comes before the store.
            let before = word.fetch_add(STORER, Acquire);
            if before % STORER > 0 || before / STORER >= MOST {
                // Those up to here, this one included.
                drop(Storing(&words[..=n]));
                return Err(first + n as u64);
            }
        }
        Ok(Storing(words))
    }

    /// Pins the pages of `bytes`, all of them or none.
    pub(crate) fn pin(&self, bytes: &Range<u64>) -> bool {
        let (words, first) = self.words(bytes);
        let (all, is_first) = ((bytes.end - bytes.start).div_ceil(PAGE), first == bytes.start / PAGE);
        if words.len() as u64 != all || !is_first {
            return false;
        }
        // All that was stored before comes before what is read through the pin.
        let one_more = |word: u32| (word < MOST).then_some(word + 1);
        let pinned = words.iter().take_while(|word| word.fetch_update(SeqCst, SeqCst, one_more).is_ok()).count();
        if pinned < words.len() {
            words[..pinned].iter().for_each(unpin);
        }
        pinned == words.len()
    }

    /// Gives the pages of `bytes` to one who has them for himself: all of them, or none if somebody pins or stores to
    /// one, or it cannot be pinned.
    pub(crate) fn own(&self, bytes: &Range<u64>) -> bool {
        let (words, first) = self.words(bytes);
        let (all, is_first) = ((bytes.end - bytes.start).div_ceil(PAGE), first == bytes.start / PAGE);
        if words.len() as u64 != all || !is_first {
            return false;
        }
        let take = |word: &&AtomicU32| word.compare_exchange(0, OWNED, SeqCst, SeqCst).is_ok();
        let owned = words.iter().take_while(take).count();
        if owned < words.len() {
            words[..owned].iter().for_each(disown);
        }
        owned == words.len()
    }

    pub(crate) fn disown(&self, bytes: &Range<u64>) {
        self.words(bytes).0.iter().for_each(disown);
    }

    pub(crate) fn unpin(&self, bytes: &Range<u64>) {
        self.words(bytes).0.iter().for_each(unpin);
    }

    /// Whether some page of `bytes` is pinned.
    pub(crate) fn has_pinned(&self, bytes: &Range<u64>) -> bool {
        self.words(bytes).0.iter().any(|word| word.load(SeqCst) % STORER > 0)
    }
}

/// A release, for who stores next; and in one order with others, for who looks whether pages are free.
fn unpin(word: &AtomicU32) {
    word.fetch_sub(1, SeqCst);
}

/// As `unpin`.
fn disown(word: &AtomicU32) {
    word.fetch_sub(OWNED, SeqCst);
}

impl Drop for Storing<'_> {
    fn drop(&mut self) {
        // For who pins next. What went past the caches is complete before a locked instruction.
        for word in self.0 {
            word.fetch_sub(STORER, Release);
        }
    }
}
