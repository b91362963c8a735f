//! What is on its way to a medium, and in how many ways it can be there.

use crate::{DISCARD_PARTS, Keep, LINE, Layer, Medium, UNIT, WORD};
use ondol_env::sync::Arc;
use std::collections::BTreeMap;
use std::ops::Range;

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
        /// The write, or a flush of it, has failed: no flush makes it durable any more.
        stray: bool,
    },
    /// A discard that no flush has covered.
    Discard {
        /// Where.
        medium: u32,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
        /// As of a write.
        stray: bool,
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
    /// The batches of a medium that are not settled: the first of them are there, each of these whole.
    Queue {
        /// Where to.
        medium: u32,
        /// In their order.
        changes: Vec<Queued<'e>>,
    },
}

/// One change in a medium's order of batches.
#[derive(Clone, Debug)]
pub struct Queued<'e> {
    /// The number of the batch; `None` of a write or discard beside batches.
    pub number: Option<u64>,
    /// What is written.
    pub writes: Writes<'e>,
    /// What is declared unused, as first byte and length.
    pub discards: Vec<(u64, u64)>,
}

/// What one [`Queued`] change writes.
#[derive(Clone, Copy, Debug)]
pub enum Writes<'e> {
    /// These bytes there.
    One(u64, &'e [u8]),
    /// What a batch writes.
    Of(&'e [(u64, Arc<[u8]>)]),
}

impl Queued<'_> {
    pub(crate) fn apply(&self, layer: &mut Layer) {
        match self.writes {
            Writes::One(offset, bytes) => layer.write(offset as usize, bytes),
            Writes::Of(writes) => writes.iter().for_each(|(offset, bytes)| layer.write(*offset as usize, bytes)),
        }
        self.discards.iter().for_each(|(offset, len)| layer.zero(*offset as usize, *len as usize));
    }
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

impl<'e> Item<'e> {
    pub(crate) fn is_stray(&self) -> bool {
        matches!(self, Self::Write { stray: true, .. } | Self::Discard { stray: true, .. })
    }

    /// No flush makes it durable any more.
    pub(crate) fn stray(&mut self) {
        if let Self::Write { stray, .. } | Self::Discard { stray, .. } = self {
            *stray = true;
        }
    }

    /// The bytes of a block medium that it changes.
    pub(crate) fn bytes(&self) -> Option<Range<u64>> {
        match self {
            Self::Write { offset, bytes, .. } => Some(*offset..*offset + bytes.len() as u64),
            Self::Discard { offset, len, .. } => Some(*offset..*offset + len),
            Self::Line { .. } | Self::Queue { .. } => None,
        }
    }

    /// What of it lies outside of `over`.
    pub(crate) fn outside(self, over: &Range<u64>) -> Vec<Self> {
        let Some(own) = self.bytes().filter(|own| own.start < over.end && over.start < own.end) else {
            return vec![self];
        };
        let parts = [own.start..over.start.max(own.start), over.end.min(own.end)..own.end];
        let part = |part: Range<u64>| match &self {
            Self::Write { medium, bytes, stray, .. } => {
                let bytes: &'e [u8] = bytes;
                let inside = (part.start - own.start) as usize..(part.end - own.start) as usize;
                Self::Write { medium: *medium, offset: part.start, bytes: &bytes[inside], stray: *stray }
            }
            Self::Discard { medium, stray, .. } => {
                Self::Discard { medium: *medium, offset: part.start, len: part.end - part.start, stray: *stray }
            }
            whole @ (Self::Line { .. } | Self::Queue { .. }) => whole.clone(),
        };
        parts.into_iter().filter(|range| !range.is_empty()).map(part).collect()
    }
}

impl Item<'_> {
    /// Where it is going.
    pub fn medium(&self) -> u32 {
        match self {
            Self::Write { medium, .. }
            | Self::Discard { medium, .. }
            | Self::Line { medium, .. }
            | Self::Queue { medium, .. } => *medium,
        }
    }

    /// Whether it changes some of these bytes of its medium.
    pub fn meets(&self, bytes: &Range<u64>) -> bool {
        let is_in = |offset: u64, len: u64| offset < bytes.end && bytes.start < offset + len;
        let of_change = |change: &Queued<'_>| {
            let is_written = match change.writes {
                Writes::One(offset, bytes) => is_in(offset, bytes.len() as u64),
                Writes::Of(writes) => writes.iter().any(|(offset, bytes)| is_in(*offset, bytes.len() as u64)),
            };
            is_written || change.discards.iter().any(|(offset, len)| is_in(*offset, *len))
        };
        match self {
            Self::Write { .. } | Self::Discard { .. } => {
                self.bytes().is_some_and(|own| is_in(own.start, own.end - own.start))
            }
            Self::Line { line, .. } => is_in(line * LINE as u64, LINE as u64),
            Self::Queue { changes, .. } => changes.iter().any(of_change),
        }
    }

    /// In how many ways it can be there, torn ones left out: [`Item::choice`].
    pub fn choices(&self) -> usize {
        match self {
            Self::Write { .. } | Self::Discard { .. } => 2,
            Self::Line { stores, .. } => stores.len() + 1,
            Self::Queue { changes, .. } => changes.len() + 1,
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
            Self::Queue { .. } => 1,
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
            n if matches!(self, Self::Queue { .. }) => return self.choice(n),
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
            Self::Queue { changes, .. } => vec![(0..=changes.len()).collect()],
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
    pub fn torn(&self, mut part: impl FnMut(usize) -> usize) -> Keep {
        match self {
            Self::Queue { .. } => self.choice(part(0)),
            Self::Write { .. } | Self::Discard { .. } => {
                Keep::Units((0..self.parts()).map(part).map(|n| n > 0).collect())
            }
            Self::Line { .. } => {
                let words: Vec<u32> = (0..LINE / WORD).map(part).map(|n| n as u32).collect();
                Keep::Words(words.try_into().unwrap_or_default())
            }
        }
    }

    pub(crate) fn apply(&self, layer: &mut Layer, medium: &Medium, keep: &Keep) {
        match self {
            Self::Queue { changes, .. } => {
                let there = match keep {
                    Keep::All => changes.len(),
                    Keep::Stores(n) => *n as usize,
                    Keep::None | Keep::Units(_) | Keep::Words(_) => 0,
                };
                changes.iter().take(there).for_each(|change| change.apply(layer));
            }
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
