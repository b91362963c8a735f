//! Where power is cut: what is durable by then, and what is not.

use crate::{Event, Item, Keep, LINE, Layer, Queued, Store, Writes};
use std::collections::BTreeMap;
use std::ops::Range;

/// How a medium loses what is not durable. See the crate documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Writes and flushes.
    Block,
    /// Batches, and writes and flushes that become batches of their own.
    Batches,
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

    /// What is durable, one layer for each medium.
    pub fn durable(&self) -> &[Layer] {
        &self.durable
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
        if let Some((medium, change)) = self.queued(event) {
            return self.queue(medium, change);
        }
        match event {
            Event::Batch { .. } => {}
            Event::Settled { medium, number } => self.settle_batches(*medium, *number),
            Event::Write { medium, offset, bytes } => {
                self.items.push(Item::Write { medium: *medium, offset: *offset, bytes, stray: false });
            }
            Event::WriteFailed { medium, offset, bytes } => {
                self.items.push(Item::Write { medium: *medium, offset: *offset, bytes, stray: true });
            }
            Event::Discard { medium, offset, len } => {
                self.items.push(Item::Discard { medium: *medium, offset: *offset, len: *len, stray: false });
            }
            Event::Flush { medium } => self.settle(*medium),
            Event::FlushFailed { medium } => {
                self.items.iter_mut().filter(|item| item.medium() == *medium).for_each(Item::stray);
            }
            Event::Store { medium, thread, offset, bytes } => return self.store(*medium, *thread, *offset, bytes),
            Event::WriteBack { medium, thread, offset, len } => self.begin(*medium, *thread, *offset, *len),
            Event::Fence { thread } => self.fence(*thread),
            Event::Mark(_) => {}
        }
        let new = matches!(event, Event::Write { .. } | Event::WriteFailed { .. } | Event::Discard { .. });
        let new = usize::from(new);
        self.items.len() - new..self.items.len()
    }

    /// What waits in a medium's order of batches.
    fn queued(&self, event: &'e Event) -> Option<(u32, Queued<'e>)> {
        let in_order = |medium: u32| self.media[medium as usize].kind == Kind::Batches;
        match event {
            Event::Batch { medium, number, writes, discards } => Some((
                *medium,
                Queued { number: Some(*number), writes: Writes::Of(writes), discards: discards.to_vec() },
            )),
            Event::Write { medium, offset, bytes } if in_order(*medium) => {
                Some((*medium, Queued { number: None, writes: Writes::One(*offset, bytes), discards: Vec::new() }))
            }
            Event::Discard { medium, offset, len } if in_order(*medium) => {
                Some((*medium, Queued { number: None, writes: Writes::Of(&[]), discards: vec![(*offset, *len)] }))
            }
            _ => None,
        }
    }

    /// The order of a medium moves to the end: changed items are the newest.
    fn queue(&mut self, medium: u32, change: Queued<'e>) -> Range<usize> {
        let at = self.items.iter().position(|i| matches!(i, Item::Queue { medium: m, .. } if *m == medium));
        let mut changes = match at.map(|at| self.items.remove(at)) {
            Some(Item::Queue { changes, .. }) => changes,
            _ => Vec::new(),
        };
        changes.push(change);
        self.items.push(Item::Queue { medium, changes });
        self.items.len() - 1..self.items.len()
    }

    /// A batch becomes durable, and what is before it.
    fn settle_batches(&mut self, medium: u32, number: u64) {
        let layer = &mut self.durable[medium as usize];
        self.items.retain_mut(|item| {
            let Item::Queue { medium: m, changes } = item else { return true };
            if *m != medium {
                return true;
            }
            let settled = changes.iter().rposition(|change| change.number.is_some_and(|n| n <= number));
            changes.drain(..settled.map_or(0, |last| last + 1)).for_each(|change| change.apply(layer));
            !changes.is_empty()
        });
        let _fingerprint = layer.fingerprint();
    }

    /// All of a medium becomes durable, but for what has gone astray: of that remains what is not written over.
    fn settle(&mut self, medium: u32) {
        let layer = &mut self.durable[medium as usize];
        let mut left: Vec<Item<'e>> = Vec::new();
        for item in std::mem::take(&mut self.items) {
            if item.medium() != medium || item.is_stray() {
                left.push(item);
                continue;
            }
            item.apply(layer, &self.media[medium as usize], &Keep::All);
            if let Some(over) = item.bytes().filter(|_| left.iter().any(Item::is_stray)) {
                let parts = |older: Item<'e>| if older.medium() == medium { older.outside(&over) } else { vec![older] };
                left = left.into_iter().flat_map(parts).collect();
            }
        }
        self.items = left;
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
