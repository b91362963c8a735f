//! Pages that no entry of the map names. The medium has no record of them: they are what the map leaves.

use crate::pins::Sight;
use std::collections::{BTreeMap, BTreeSet};

/// A set of free pages, and how many are in the hands of writers that give them to the map or back.
#[derive(Debug)]
pub(crate) struct Free {
    /// A bit for each page, set where it is free.
    bits: Vec<u64>,
    /// A bit for each word of those, set where it has a free page.
    words: Vec<u64>,
    pages: u64,
    count: u64,
    /// No word of `words` before this is more than 0. The lowest free page is taken: what was used lately is used
    /// again, so that a table that is written a lot does not walk through all of its memory, each page of which costs
    /// the processor a page fault the first time.
    next: usize,
    in_hands: u64,
    /// Pages that are lent, and whether an entry names them.
    lent: BTreeMap<u32, bool>,
    /// Those of them that no entry names.
    lent_alone: u64,
    /// Pages that would be free, and are pinned.
    held: BTreeSet<u32>,
    /// Which pages are pinned, where they can be.
    sight: Option<Sight>,
}

impl Free {
    /// All pages but those in `used`, which has a bit for each.
    pub(crate) fn all_but(pages: u64, used: &[u64]) -> Self {
        let (bits, words) = (vec![0; used.len()], vec![0; used.len().div_ceil(64)]);
        let mut free = Self {
            bits,
            words,
            pages,
            count: 0,
            next: 0,
            in_hands: 0,
            lent: BTreeMap::new(),
            lent_alone: 0,
            held: BTreeSet::new(),
            sight: None,
        };
        for (index, word) in used.iter().enumerate() {
            let valid = pages.saturating_sub(index as u64 * 64);
            let mask = if valid >= 64 { !0 } else { (1 << valid) - 1 };
            free.bits[index] = !word & mask;
            free.words[index / 64] |= u64::from(free.bits[index] != 0) << (index % 64);
            free.count += u64::from(free.bits[index].count_ones());
        }
        free
    }

    /// From now on pages that are pinned are not free.
    pub(crate) fn heed(&mut self, sight: Sight) {
        self.sight = Some(sight);
    }

    /// Takes a page out of the set; whether it was there.
    fn clear(&mut self, page: u32) -> bool {
        let index = page as usize / 64;
        let (word, bit) = (&mut self.bits[index], 1 << (page % 64));
        let was = *word & bit != 0;
        *word &= !bit;
        if *word == 0 {
            self.words[index / 64] &= !(1 << (index % 64));
        }
        was
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn in_hands(&self) -> u64 {
        self.in_hands
    }

    /// Takes `n` pages into somebody's hands: all of them or none.
    pub(crate) fn take(&mut self, n: u64) -> Option<Vec<u32>> {
        if self.count < n {
            return None;
        }
        let mut taken = Vec::with_capacity(n as usize);
        while (taken.len() as u64) < n {
            match self.words[self.next].trailing_zeros() as usize {
                64 => self.next += 1,
                nth => {
                    let index = self.next * 64 + nth;
                    let page = (index * 64) as u32 + self.bits[index].trailing_zeros();
                    self.clear(page);
                    taken.push(page);
                }
            }
        }
        self.count -= n;
        self.in_hands += n;
        Some(taken)
    }

    /// Takes this page for good; whether it was free.
    pub(crate) fn take_this(&mut self, page: u32) -> bool {
        let was = u64::from(page) < self.pages && self.clear(page);
        self.count -= u64::from(was);
        was
    }

    /// What was in somebody's hands is in the map now, or given back.
    pub(crate) fn let_go(&mut self, n: u64) {
        self.in_hands -= n;
    }

    /// Pages that are lent.
    pub(crate) fn lent(&self) -> u64 {
        self.lent.len() as u64
    }

    /// Those of them that no entry names.
    pub(crate) fn lent_alone(&self) -> u64 {
        self.lent_alone
    }

    pub(crate) fn is_lent(&self, page: u32) -> bool {
        self.lent.contains_key(&page)
    }

    /// Whether the page is lent and no entry names it.
    pub(crate) fn is_for_an_entry(&self, page: u32) -> bool {
        self.lent.get(&page) == Some(&false)
    }

    /// Lends `n` pages, if no more than `most` are lent then: all of them or none.
    pub(crate) fn lend(&mut self, n: u64, most: u64) -> Option<Vec<u32>> {
        if self.lent() + n > most {
            return None;
        }
        let pages = self.take(n)?;
        self.let_go(n);
        self.lent.extend(pages.iter().map(|page| (*page, false)));
        self.lent_alone += n;
        Some(pages)
    }

    /// Lends this page, which is free, or which an entry names.
    pub(crate) fn claim(&mut self, page: u32) {
        if u64::from(page) >= self.pages || self.is_lent(page) {
            return;
        }
        let is_free = self.clear(page);
        self.count -= u64::from(is_free);
        self.lent.insert(page, !is_free);
        self.lent_alone += u64::from(is_free);
    }

    /// An entry names this page, if it is lent.
    pub(crate) fn is_named(&mut self, page: u32) {
        if let Some(named) = self.lent.get_mut(&page) {
            self.lent_alone -= u64::from(!*named);
            *named = true;
        }
    }

    /// The page is lent no more.
    pub(crate) fn end_loan(&mut self, page: u32) {
        if self.lent.remove(&page) == Some(false) {
            self.lent_alone -= 1;
            self.give(page);
        }
    }

    /// No entry names this page any more.
    pub(crate) fn give(&mut self, page: u32) {
        if let Some(named) = self.lent.get_mut(&page) {
            self.lent_alone += u64::from(*named);
            *named = false;
            return;
        }
        debug_assert!(u64::from(page) < self.pages, "{page}");
        if self.sight.as_ref().is_some_and(|sight| sight.holds(page)) {
            self.held.insert(page);
            return;
        }
        self.add(page);
    }

    /// A pin of this page went: if it is held, and that was the last, it is free. Whether it has become so.
    pub(crate) fn end_hold(&mut self, page: u32) -> bool {
        let Some(sight) = self.sight.as_ref().filter(|sight| self.held.contains(&page) && !sight.is_pinned(page))
        else {
            return false;
        };
        sight.held_no_more();
        self.held.remove(&page);
        self.add(page);
        true
    }

    /// Pages that nothing but pins keeps.
    pub(crate) fn held(&self) -> &BTreeSet<u32> {
        &self.held
    }

    fn add(&mut self, page: u32) {
        let index = page as usize / 64;
        let (word, bit) = (&mut self.bits[index], 1 << (page % 64));
        debug_assert!(*word & bit == 0, "page {page} is free already");
        self.count += u64::from(*word & bit == 0);
        *word |= bit;
        self.words[index / 64] |= 1 << (index % 64);
        self.next = self.next.min(index / 64);
    }
}

/// Marks a page in a set of pages; whether it was there already.
pub(crate) fn mark(used: &mut [u64], page: u32) -> bool {
    let (word, bit) = (&mut used[page as usize / 64], 1 << (page % 64));
    let was = *word & bit != 0;
    *word |= bit;
    was
}

/// An empty set of pages.
pub(crate) fn none(pages: u64) -> Vec<u64> {
    vec![0; pages.div_ceil(64) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_taken_once_and_given_back() {
        let mut used = none(70);
        assert!(!mark(&mut used, 3) && mark(&mut used, 3));
        let mut free = Free::all_but(70, &used);
        assert_eq!(free.count(), 69);
        let first = free.take(3).unwrap();
        assert_eq!((first, free.in_hands()), (vec![0, 1, 2], 3));
        let rest = free.take(66).unwrap();
        assert!(rest[0] == 4 && rest[65] == 69 && free.take(1).is_none());
        free.give(5);
        free.let_go(69);
        assert_eq!((free.take(2), free.take(1), free.in_hands()), (None, Some(vec![5]), 1));
    }

    #[test]
    fn the_lowest_free_page_is_taken() {
        let mut free = Free::all_but(300, &none(300));
        assert_eq!(free.take(200).unwrap().last(), Some(&199));
        [150, 7, 64].into_iter().for_each(|page| free.give(page));
        assert_eq!(free.take(4), Some(vec![7, 64, 150, 200]));
        assert!(free.lend(1, 9).unwrap() == [201]);
        free.end_loan(201);
        assert!(free.take_this(201) && !free.take_this(7));
        assert_eq!(free.take(98).map(|pages| (pages[0], pages[97])), Some((202, 299)));
        assert_eq!(free.take(1), None);
    }

    #[test]
    fn among_many_words_the_lowest_is_found() {
        let pages = 3 * 64 * 64 + 5;
        let mut free = Free::all_but(pages, &none(pages));
        assert_eq!(free.take(pages).map(|all| all == (0..pages as u32).collect::<Vec<_>>()), Some(true));
        let back = [pages as u32 - 1, 2 * 4096, 4095, 64];
        back.into_iter().for_each(|page| free.give(page));
        assert_eq!(free.take(2), Some(vec![64, 4095]));
        free.give(63);
        assert_eq!((free.take(3), free.take(1)), (Some(vec![63, 2 * 4096, pages as u32 - 1]), None));
    }

    #[test]
    fn a_lent_page_is_free_when_it_is_given_back_and_nothing_names_it() {
        let mut free = Free::all_but(70, &none(70));
        assert_eq!((free.lend(3, 2), free.lend(2, 2), free.lend(1, 2)), (None, Some(vec![0, 1]), None));
        assert!(free.is_for_an_entry(0) && !free.is_for_an_entry(2) && free.lent_alone() == 2);
        free.is_named(0);
        free.is_named(0);
        assert_eq!(free.lent_alone(), 1);
        assert!(!free.is_for_an_entry(0));
        free.end_loan(0);
        free.end_loan(1);
        assert_eq!((free.count(), free.lent(), free.in_hands()), (69, 0, 0), "page 0 has an entry");
        free.claim(0);
        free.claim(5);
        free.claim(5);
        free.claim(70);
        assert_eq!((free.count(), free.lent(), free.lent_alone()), (68, 2, 1));
        free.give(0);
        assert_eq!((free.count(), free.lent_alone()), (68, 2), "its entry has gone, and it is lent");
        [0, 5, 5].into_iter().for_each(|page| free.end_loan(page));
        assert_eq!((free.count(), free.lent()), (70, 0));
    }
}
