//! Where power is cut: what is durable by then, and what is not.

use crate::{DISCARD_PARTS, Event, Keep, LINE, Layer, UNIT, WORD};
use std::collections::BTreeMap;
use std::ops::Range;

/// How a medium loses what is not durable. See the crate documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Writes and flushes.
    Block,
    /// Stores, write-backs and fences; caches lose their contents.
    Nvm,
    /// Stores; caches survive.
    PersistentCaches,
}

/// One medium of a power domain, as it was when the recording began.
#[derive(Clone, Debug)]
pub struct Medium {
    /// What it held; all of it durable.
    pub base: Layer,
    /// How it loses.
    pub kind: Kind,
    /// A range of bytes that arrives as one; the unit it begins in decides.
    pub whole: Option<Range<u64>>,
}

/// Something that is on its way to a medium.
#[derive(Clone, Debug)]
pub enum Item<'e> {
    /// A write that no flush has covered.
    Write {
        /// Where to.
        medium: u32,
        /// First byte.
        offset: u64,
        /// What was written.
        bytes: &'e [u8],
    },
    /// A discard that no flush has covered.
    Discard {
        /// Where.
        medium: u32,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
    },
    /// A line with stores that no fence has covered.
    Line {
        /// Where to.
        medium: u32,
        /// Its number.
        line: u64,
        /// Its stores in order.
        stores: Vec<Store<'e>>,
        /// By thread: how many of the stores it has begun to write back.
        begun: BTreeMap<u32, usize>,
    },
}

/// What one store does to one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store<'e> {
    /// Offset in the line.
    pub at: usize,
    /// What was stored.
    pub bytes: &'e [u8],
    /// Who stored it.
    pub thread: u32,
}

/// The instant after some events of a run.
#[derive(Clone, Debug)]
pub struct Cut<'e> {
    media: &'e [Medium],
    durable: Vec<Layer>,
    items: Vec<Item<'e>>,
    events: usize,
}

impl<'e> Cut<'e> {
    /// Before the first event.
    pub fn new(media: &'e [Medium]) -> Self {
        Self { media, durable: media.iter().map(|m| m.base.clone()).collect(), items: Vec::new(), events: 0 }
    }

    /// After all of `events`.
    ///
    /// # Panics
    /// As [`Cut::advance`].
    pub fn after(media: &'e [Medium], events: &'e [Event]) -> Self {
        let mut cut = Self::new(media);
        for event in events {
            cut.advance(event);
        }
        cut
    }

    /// Number of events that happened.
    pub fn events(&self) -> usize {
        self.events
    }

    /// What is not durable, oldest first.
    pub fn items(&self) -> &[Item<'e>] {
        &self.items
    }

    /// Goes on by one event. Returns the items that it made or changed, by index; they are the newest.
    ///
    /// # Panics
    /// The event names a medium that the domain does not have, or bytes outside of it.
    pub fn advance(&mut self, event: &'e Event) -> Range<usize> {
        self.events += 1;
        match event {
            Event::Write { medium, offset, bytes } => {
                self.items.push(Item::Write { medium: *medium, offset: *offset, bytes });
            }
            Event::Discard { medium, offset, len } => {
                self.items.push(Item::Discard { medium: *medium, offset: *offset, len: *len });
            }
            Event::Flush { medium } => self.settle(*medium),
            Event::Store { medium, thread, offset, bytes } => return self.store(*medium, *thread, *offset, bytes),
            Event::WriteBack { medium, thread, offset, len } => self.begin(*medium, *thread, *offset, *len),
            Event::Fence { thread } => self.fence(*thread),
            Event::Mark(_) => {}
        }
        let new = usize::from(matches!(event, Event::Write { .. } | Event::Discard { .. }));
        self.items.len() - new..self.items.len()
    }

    /// All of a medium becomes durable.
    fn settle(&mut self, medium: u32) {
        let layer = &mut self.durable[medium as usize];
        for item in self.items.iter().filter(|item| item.medium() == medium) {
            item.apply(layer, &self.media[medium as usize], &Keep::All);
        }
        self.items.retain(|item| item.medium() != medium);
        // Copies then need not compute it again.
        let _fingerprint = layer.fingerprint();
    }

    /// A store is a store to each line it touches. They move to the end: changed items are the newest.
    fn store(&mut self, medium: u32, thread: u32, offset: u64, bytes: &'e [u8]) -> Range<usize> {
        self.visible(thread);
        let end = offset + bytes.len() as u64;
        let lines = if bytes.is_empty() { 0..0 } else { offset / LINE as u64..end.div_ceil(LINE as u64) };
        let count = (lines.end - lines.start) as usize;
        for line in lines {
            let start = (line * LINE as u64).max(offset);
            let part =
                &bytes[(start - offset) as usize..((line + 1) * LINE as u64).min(end) as usize - offset as usize];
            let of_line =
                |i: &Item<'_>| matches!(i, Item::Line { medium: m, line: l, .. } if (*m, *l) == (medium, line));
            let mut item = match self.items.iter().position(of_line) {
                Some(at) => self.items.remove(at),
                None => Item::Line { medium, line, stores: Vec::new(), begun: BTreeMap::new() },
            };
            if let Item::Line { stores, .. } = &mut item {
                stores.push(Store { at: (start % LINE as u64) as usize, bytes: part, thread });
            }
            self.items.push(item);
        }
        self.items.len() - count..self.items.len()
    }

    fn begin(&mut self, medium: u32, thread: u32, offset: u64, len: u64) {
        let lines = offset / LINE as u64..(offset + len).div_ceil(LINE as u64);
        for item in &mut self.items {
            if let Item::Line { medium: m, line, stores, begun } = item
                && *m == medium
                && lines.contains(line)
            {
                begun.insert(thread, stores.len());
            }
        }
    }

    fn fence(&mut self, thread: u32) {
        self.settle_lines(|_, _, begun| begun.remove(&thread));
        self.visible(thread);
        for layer in &mut self.durable {
            let _fingerprint = layer.fingerprint();
        }
    }

    /// Where caches survive, what a thread has stored through them is durable before its next store, or fence.
    fn visible(&mut self, thread: u32) {
        let media = self.media;
        self.settle_lines(|medium, stores, begun| {
            let last = stores.iter().rposition(|store| store.thread == thread)? + 1;
            let past_the_caches = begun.get(&thread).is_some_and(|n| *n >= last);
            (media[medium as usize].kind == Kind::PersistentCaches && !past_the_caches).then_some(last)
        });
    }

    /// Makes the first stores of lines durable, as many as `count` says.
    fn settle_lines(&mut self, count: impl Fn(u32, &[Store<'e>], &mut BTreeMap<u32, usize>) -> Option<usize>) {
        let durable = &mut self.durable;
        self.items.retain_mut(|item| {
            let Item::Line { medium, line, stores, begun } = item else { return true };
            let Some(n) = count(*medium, stores, begun) else { return true };
            for store in stores.drain(..n) {
                durable[*medium as usize].write(*line as usize * LINE + store.at, store.bytes);
            }
            begun.values_mut().for_each(|of_others| *of_others = of_others.saturating_sub(n));
            begun.retain(|_, of_others| *of_others > 0);
            !stores.is_empty()
        });
    }

    /// What the media hold if `keep` survived, one entry for each item; items without one are lost.
    pub fn build(&self, keep: &[Keep]) -> Vec<Layer> {
        let mut layers = self.durable.clone();
        for (item, keep) in self.items.iter().zip(keep) {
            let medium = item.medium() as usize;
            item.apply(&mut layers[medium], &self.media[medium], keep);
        }
        layers
    }

    /// What the media hold if everything survived.
    pub fn everything(&self) -> Vec<Layer> {
        self.build(&vec![Keep::All; self.items.len()])
    }

    /// In how many ways the items can be there, torn ones left out; `None` if that is no number of a `usize`.
    pub fn combinations(&self) -> Option<usize> {
        self.items.iter().try_fold(1usize, |n, item| n.checked_mul(item.choices()))
    }

    /// The `n`-th of them, from nothing to everything.
    pub fn combination(&self, mut n: usize) -> Vec<Keep> {
        let choice = |item: &Item<'_>| {
            let choice = item.choice(n % item.choices());
            n /= item.choices();
            choice
        };
        self.items.iter().map(choice).collect()
    }

    /// As [`Cut::combinations`], torn ones included.
    pub fn all_combinations(&self) -> Option<usize> {
        self.items.iter().try_fold(1usize, |n, item| n.checked_mul(item.all_choices()?))
    }

    /// The `n`-th of those.
    pub fn any_combination(&self, mut n: usize) -> Vec<Keep> {
        let choice = |item: &Item<'_>| {
            let count = item.all_choices().unwrap_or(1);
            let choice = item.any_choice(n % count);
            n /= count;
            choice
        };
        self.items.iter().map(choice).collect()
    }
}

impl Item<'_> {
    /// Where it is going.
    pub fn medium(&self) -> u32 {
        match self {
            Self::Write { medium, .. } | Self::Discard { medium, .. } | Self::Line { medium, .. } => *medium,
        }
    }

    /// In how many ways it can be there, torn ones left out: [`Item::choice`].
    pub fn choices(&self) -> usize {
        match self {
            Self::Write { .. } | Self::Discard { .. } => 2,
            Self::Line { stores, .. } => stores.len() + 1,
        }
    }

    /// The `n`-th way, from nothing to all.
    pub fn choice(&self, n: usize) -> Keep {
        match n {
            0 => Keep::None,
            n if n + 1 >= self.choices() => Keep::All,
            n => Keep::Stores(n as u32),
        }
    }

    /// Into how many parts it can be torn: units of a write, parts of a discard, words of a line.
    pub fn parts(&self) -> usize {
        match self {
            Self::Write { offset, bytes, .. } => units(*offset, bytes.len()),
            Self::Discard { offset, len, .. } => discarded(*offset, *len).count(),
            Self::Line { stores, .. } => {
                let word = stores.first().map(|store| store.at / WORD);
                let inside = |store: &Store<'_>| {
                    Some(store.at / WORD) == word && Some((store.at + store.bytes.len() - 1) / WORD) == word
                };
                if stores.iter().all(inside) { 1 } else { LINE / WORD }
            }
        }
    }

    /// In how many ways it can be there, torn ones included; `None` for more than can be counted.
    pub fn all_choices(&self) -> Option<usize> {
        self.part_choices().iter().try_fold(1usize, |ways, part| ways.checked_mul(part.len()))
    }

    /// The `n`-th way, torn ones included, from nothing to all: [`Item::all_choices`].
    pub fn any_choice(&self, mut n: usize) -> Keep {
        match n {
            0 => return Keep::None,
            n if Some(n + 1) >= self.all_choices() => return Keep::All,
            _ => {}
        }
        let parts = self.part_choices();
        self.torn(|part| {
            let choices = &parts[part];
            let choice = choices[n % choices.len()];
            n /= choices.len();
            choice
        })
    }

    /// What each part can be, for [`Item::torn`]: a word of a line only differs with the stores that touch it.
    fn part_choices(&self) -> Vec<Vec<usize>> {
        match self {
            Self::Write { .. } | Self::Discard { .. } => vec![vec![0, 1]; self.parts()],
            Self::Line { stores, .. } => {
                let touches = |store: &Store<'_>, word: usize| {
                    !store.bytes.is_empty()
                        && (store.at / WORD..=(store.at + store.bytes.len() - 1) / WORD).contains(&word)
                };
                let choices = |word| {
                    let numbers = (1..).zip(stores).filter(|(_, store)| touches(store, word)).map(|(n, _)| n);
                    [0].into_iter().chain(numbers).collect()
                };
                (0..LINE / WORD).map(choices).collect()
            }
        }
    }

    /// Whether something of the newest that was done to it is there.
    pub fn has_newest(&self, keep: &Keep) -> bool {
        let newest = self.choices() - 1;
        match keep {
            Keep::None => false,
            Keep::All => true,
            Keep::Units(units) => units.contains(&true),
            Keep::Stores(n) => *n as usize >= newest,
            Keep::Words(words) => words.iter().any(|n| *n as usize >= newest),
        }
    }

    /// Torn: `part(i)` says how much of its `i`-th part is there, from 0 to [`Item::choices`] - 1.
    pub fn torn(&self, part: impl FnMut(usize) -> usize) -> Keep {
        match self {
            Self::Write { .. } | Self::Discard { .. } => {
                Keep::Units((0..self.parts()).map(part).map(|n| n > 0).collect())
            }
            Self::Line { .. } => {
                let words: Vec<u32> = (0..LINE / WORD).map(part).map(|n| n as u32).collect();
                Keep::Words(words.try_into().unwrap_or_default())
            }
        }
    }

    fn apply(&self, layer: &mut Layer, medium: &Medium, keep: &Keep) {
        match self {
            Self::Write { offset, bytes, .. } => match keep {
                Keep::None => {}
                Keep::Units(kept) => apply_units(layer, medium, *offset as usize, bytes, kept),
                _ => layer.write(*offset as usize, bytes),
            },
            Self::Discard { offset, len, .. } => {
                for (i, part) in discarded(*offset, *len).enumerate() {
                    let kept = match keep {
                        Keep::None => false,
                        Keep::Units(kept) => kept.get(i) == Some(&true),
                        _ => true,
                    };
                    if kept {
                        layer.zero(part.start, part.len());
                    }
                }
            }
            Self::Line { line, stores, .. } => {
                let at = *line as usize * LINE;
                match keep {
                    Keep::None | Keep::Units(_) => {}
                    Keep::All => stores.iter().for_each(|store| layer.write(at + store.at, store.bytes)),
                    Keep::Stores(n) => {
                        stores.iter().take(*n as usize).for_each(|store| layer.write(at + store.at, store.bytes));
                    }
                    Keep::Words(words) => stores.iter().enumerate().for_each(|(i, store)| {
                        for part in pieces(store.at, store.bytes.len(), WORD) {
                            if words[(store.at + part.start) / WORD] as usize > i {
                                layer.write(at + store.at + part.start, &store.bytes[part]);
                            }
                        }
                    }),
                }
            }
        }
    }
}

/// The parts of `len` bytes at `offset` that lie in one aligned `unit` each.
fn pieces(offset: usize, len: usize, unit: usize) -> impl Iterator<Item = Range<usize>> {
    let first = offset / unit;
    let count = if len == 0 { 0 } else { (offset + len - 1) / unit - first + 1 };
    (first..first + count).map(move |n| {
        let start = n * unit;
        start.max(offset) - offset..(start + unit).min(offset + len) - offset
    })
}

/// The parts of a discard, in bytes of the medium: whole units, as many in each.
fn discarded(offset: u64, len: u64) -> impl Iterator<Item = Range<usize>> {
    let part = (len as usize).div_ceil(DISCARD_PARTS).next_multiple_of(UNIT).max(UNIT);
    let (start, end) = (offset as usize, (offset + len) as usize);
    (start..end).step_by(part).map(move |at| at..(at + part).min(end))
}

/// Number of units that a write touches.
fn units(offset: u64, len: usize) -> usize {
    pieces(offset as usize, len, UNIT).count()
}

fn apply_units(layer: &mut Layer, medium: &Medium, offset: usize, bytes: &[u8], kept: &[bool]) {
    let first = offset / UNIT;
    let glued = |i: usize| medium.whole.as_ref().is_some_and(|w| w.contains(&(((first + i) * UNIT) as u64)));
    let decides = (0..kept.len()).find(|i| glued(*i));
    for (i, part) in pieces(offset, bytes.len(), UNIT).enumerate() {
        let by = if glued(i) { decides.unwrap_or(i) } else { i };
        if kept.get(by) == Some(&true) {
            layer.write(offset + part.start, &bytes[part]);
        }
    }
}
