//! Pages that are lent as slices of the stored bytes (papers/4, §2.2): which page a block has, how many views may pin,
//! and when a pinned page is free.
//!
//! That nobody stores to a pinned page is the medium's business ([`ondol_medium::Nvm::pin`]). Here a page that nothing
//! names any more is *held* as long as it has pins, and is free behind the last. Design: `docs/design/direct.md`.

use crate::error::Result;
use crate::free::Free;
use crate::snapshot::Maps;
use crate::table::PageTable;
use ondol_block::{PageUse, Pin, Pinned};
use ondol_env::apart::{Apart, STRIPES, stripe};
use ondol_env::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, SeqCst},
};
use ondol_env::sync::{Arc, Mutex};
use ondol_medium::{Nvm, NvmError, PAGE};
use std::ops::Range;

/// So great a part of what can be lent is set aside for views.
const PART: u64 = 3;

/// What pins of a table share; they may outlive it.
#[derive(Debug)]
pub(crate) struct Pins {
    sight: Sight,
    free: Arc<Mutex<Free>>,
    /// Pages that views have pinned, in parts that threads do not meet in.
    parts: [Apart<AtomicU64>; STRIPES],
    /// The most that they come to.
    most: u64,
    /// So many are set aside.
    is_open: AtomicBool,
    pub(crate) maps: Maps,
    /// Pages that are somebody's memory.
    pub(crate) memory: AtomicU64,
}

/// Whether pages are pinned, and how many are held because of it.
#[derive(Clone, Debug)]
pub(crate) struct Sight {
    nvm: Arc<Nvm>,
    /// First byte of the data area.
    data: u64,
    held: Arc<AtomicU64>,
}

/// Pages side by side that a view has pinned.
struct Lease {
    pins: Arc<Pins>,
    /// Taken when it goes.
    bytes: Option<ondol_medium::Pinned>,
    pages: Range<u32>,
    /// What it has of them, in bytes.
    part: Range<usize>,
    share: Share,
}

/// Pins that count: in which parts, and how many in each.
type Share = Vec<(usize, u64)>;

impl Sight {
    pub(crate) fn new(nvm: Arc<Nvm>, data: u64) -> Self {
        Self { nvm, data, held: Arc::default() }
    }

    pub(crate) fn is_pinned(&self, page: u32) -> bool {
        self.nvm.is_pinned(self.at(page), PAGE)
    }

    fn at(&self, page: u32) -> u64 {
        self.data + u64::from(page) * PAGE
    }

    /// Whether a page that is about to be free is pinned. If so it counts as held, and the last pin that goes sees
    /// that.
    pub(crate) fn holds(&self, page: u32) -> bool {
        if !self.is_pinned(page) {
            return false;
        }
        // Counted first, looked again then, both in the one order of all such operations; who drops a pin does it the
        // other way around. One of the two sees the other.
        self.held.fetch_add(1, SeqCst);
        let is_pinned = self.is_pinned(page);
        if !is_pinned {
            self.held.fetch_sub(1, SeqCst);
        }
        is_pinned
    }

    pub(crate) fn held_no_more(&self) {
        self.held.fetch_sub(1, SeqCst);
    }
}

impl Pins {
    /// Of a table that can lend `lendable` pages.
    pub(crate) fn new(sight: Sight, free: Arc<Mutex<Free>>, lendable: u64) -> Self {
        let (parts, most) = (Default::default(), lendable / PART);
        let (is_open, maps, memory) = (AtomicBool::new(false), Maps::default(), AtomicU64::new(0));
        Self { sight, free, parts, most, is_open, maps, memory }
    }

    /// Pages that are set aside for views.
    pub(crate) fn set_aside(&self) -> u64 {
        if self.is_open.load(Relaxed) { self.most } else { 0 }
    }

    /// As it is now, in a table of so many pages.
    pub(crate) fn stats(&self, pages: u64) -> PageUse {
        let pinned = self.parts.iter().map(|part| part.load(Relaxed)).sum();
        let (held, memory) = (self.sight.held.load(Relaxed), self.memory.load(Relaxed));
        let lent = self.free.lock().lent_alone();
        PageUse { pinned, pinnable: self.most, held, parted: self.maps.parted(), memory, lent, all: pages }
    }

    /// Pages that nothing but pins keeps, as it is now.
    pub(crate) fn held_pages(&self) -> Vec<u32> {
        self.free.lock().held().iter().copied().collect()
    }

    /// The page at byte `place` of the medium.
    pub(crate) fn page_of(&self, place: u64) -> Option<u32> {
        place.checked_sub(self.sight.data).and_then(|bytes| u32::try_from(bytes / PAGE).ok())
    }

    /// Sets the share of views aside, if not so much of it is lent.
    fn open(&self, lendable: u64) -> bool {
        if !self.is_open.load(Acquire) {
            let free = self.free.lock();
            if free.lent() + self.most > lendable {
                return false;
            }
            self.is_open.store(true, SeqCst);
        }
        true
    }

    /// Room for up to `wanted` pins, of this thread's part, then of others'.
    fn take(&self, wanted: u64) -> Share {
        let (from, mut left, mut taken) = (stripe(), wanted, Share::new());
        for part in (0..STRIPES).map(|n| (from + n) % STRIPES) {
            let most = self.most / STRIPES as u64 + u64::from((part as u64) < self.most % STRIPES as u64);
            let mut got = 0;
            let more = |now: u64| {
                got = left.min(most.saturating_sub(now));
                (got > 0).then_some(now + got)
            };
            if self.parts[part].fetch_update(AcqRel, Relaxed, more).is_ok() {
                taken.push((part, got));
                left -= got;
            }
            if left == 0 {
                break;
            }
        }
        taken
    }

    fn give_back(&self, share: &Share) {
        for (part, pages) in share {
            self.parts[*part].fetch_sub(*pages, AcqRel);
        }
    }

    /// So many free pages, to be memory; where there are not so many, what is held may be given back first.
    pub(crate) fn take_to_own(&self, count: u64) -> Option<Vec<u32>> {
        let take = || {
            let mut free = self.free.lock();
            let pages = free.take(count)?;
            free.let_go(count);
            Some(pages)
        };
        take().or_else(|| {
            self.part_held(count);
            take()
        })
    }

    /// Pages that were free, and are again.
    pub(crate) fn give_free(&self, pages: &[u32]) {
        let mut free = self.free.lock();
        pages.iter().for_each(|page| free.give(*page));
    }

    /// Pins went: those of these pages that nothing else keeps are free. How many have become so.
    pub(crate) fn are_unpinned(&self, pages: impl Iterator<Item = u32>) -> u64 {
        // Unpinned before, looked now.
        if self.sight.held.load(SeqCst) == 0 {
            return 0;
        }
        let mut free = self.free.lock();
        pages.filter(|page| free.end_hold(*page)).count() as u64
    }
}

impl AsRef<[u8]> for Lease {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_deref().and_then(|bytes| bytes.get(self.part.clone())).unwrap_or_default()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.bytes = None;
        self.pins.are_unpinned(self.pages.clone());
        // Behind that: what is held counts.
        self.pins.give_back(&self.share);
    }
}

impl PageTable {
    /// Lends `part` (bytes) of pages side by side, or of the first of them. The caller has seen that somebody has them,
    /// and keeps it so until this returns.
    fn lease(&self, first: u32, pages: u64, part: Range<usize>, bounded: bool) -> Result<Option<Pinned>> {
        let share = if bounded && self.pins.open(self.lendable()) { self.pins.take(pages) } else { Share::new() };
        let pages = if bounded { share.iter().map(|(_, pages)| pages).sum() } else { pages };
        let bytes = self.nvm.pin(self.config.page_at(first), pages * PAGE);
        let Ok(Some(bytes)) = bytes else {
            self.pins.give_back(&share);
            return match bytes {
                // Whoever copies instead may not want what is lost.
                Ok(_) | Err(NvmError::Poisoned { .. }) => Ok(None),
                Err(e) => Err(e.into()),
            };
        };
        let (place, end) = (bytes.place() + part.start as u64, part.end.min((pages * PAGE) as usize));
        let (part, pages) = (part.start..end, first..first + pages as u32);
        Ok(Some(Pinned::new(Lease { pins: self.pins.clone(), bytes: Some(bytes), pages, part, share }, place)))
    }

    /// Lends stored bytes of the image, as [`ondol_block::BlockStore::pin`].
    pub(crate) fn pin_at(&self, offset: u64, len: u64, bounded: bool) -> Result<Option<Pin>> {
        let (block, within) = (offset / PAGE, offset % PAGE);
        // As long as it is held no entry changes, and no page that has one becomes free.
        let state = self.state.read();
        let entries = &state.map[block as usize..(offset + len).div_ceil(PAGE) as usize];
        let first = entries.first().copied().unwrap_or_default();
        let Some(page) = first.checked_sub(1) else {
            let blocks = entries.iter().take_while(|entry| **entry == 0).count() as u64;
            return Ok(Some(Pin::Zeros((blocks * PAGE - within).min(len))));
        };
        let pages = (first..).zip(entries).take_while(|(next, entry)| next == *entry).count() as u64;
        if self.patched.range(page..page + pages as u32).next().is_some() {
            return Ok(None);
        }
        let part = within as usize..((within + len).min(pages * PAGE)) as usize;
        Ok(self.lease(page, pages, part, bounded)?.map(Pin::Bytes))
    }

    /// Lends a page that is lent, or that has an entry, as [`ondol_block::PageLender::pin_page`].
    pub(crate) fn lease_page(&self, page: u32, bounded: bool) -> Result<Option<Pinned>> {
        if u64::from(page) >= self.config.pages || self.patched.contains_key(&page) {
            return Ok(None);
        }
        self.lease(page, 1, 0..PAGE as usize, bounded)
    }

    /// Whether somebody reads the page in place.
    pub(crate) fn is_pinned(&self, page: u32) -> bool {
        self.nvm.is_pinned(self.config.page_at(page), PAGE)
    }
}
