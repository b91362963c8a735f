//! Pages of a medium at addresses that lie in a row, as they are now: one slice, whatever is stored to the medium
//! afterwards.
//!
//! The mapping is private. A page of it is the medium's, and pinned, until somebody needs that one: then the kernel
//! *parts* it, which gives the mapping a page of its own with the same contents. The slice shows the same bytes before
//! and after. Who stores to a page of the snapshot has it parted first. Argument: `docs/design/direct.md`.
#![expect(unsafe_code, reason = "lends mapped bytes")]

use crate::pin::Pinned;
use crate::stretch::Stretch;
use crate::windows::Mappings;
use crate::{Nvm, PAGE, Result};
use ondol_env::sync::{Arc, Mutex};
use std::collections::BTreeMap;
use std::ops::{Deref, Range};

/// Where some pages of a snapshot come from.
#[derive(Clone, Copy, Debug)]
pub enum Source<'b> {
    /// The medium, from this byte on, a multiple of 4096.
    Medium(u64),
    /// They are zeros, and take no memory.
    Zeros,
    /// These bytes, which are copied, then zeros to the end of the last page.
    Bytes(&'b [u8]),
}

/// See the module documentation. It holds the medium, and its lock. Its bytes can be changed, too: for whoever has it,
/// and nobody else.
#[derive(Debug)]
pub struct Snapshot {
    inner: Arc<Inner>,
    /// The mapping takes stores.
    is_writable: bool,
}

/// Has pages of a snapshot parted, and shows none of its bytes.
#[derive(Clone, Debug)]
pub struct Parter {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    stretch: Stretch,
    /// Of each page of the medium the pin, until it is parted. Of holes there is nothing, however long they are.
    pins: Mutex<BTreeMap<u64, Pinned>>,
    _mappings: Mappings,
}

impl Snapshot {
    /// Maps `parts` one behind the other, each so many pages. `None` where that cannot be: the medium cannot be mapped
    /// again, or not privately, a page of it cannot be pinned, the process or the kernel has no more mappings, or the
    /// kernel parts no pages (before Linux 5.14).
    ///
    /// # Errors
    /// As [`Nvm::pin`].
    pub fn new(nvm: &Arc<Nvm>, parts: &[(Source<'_>, u64)]) -> Result<Option<Self>> {
        let pages = parts.iter().map(|(_, pages)| pages).sum::<u64>();
        let Some(file) = nvm.file().filter(|_| pages > 0 && Stretch::can_part()) else { return Ok(None) };
        let bytes = pages.checked_mul(PAGE).and_then(|bytes| usize::try_from(bytes).ok());
        let (Some(bytes), Some(mappings)) = (bytes, Mappings::take(2 * parts.len() as u64)) else { return Ok(None) };
        let congruent = parts.iter().find_map(|part| match part.0 {
            Source::Medium(offset) => Some(offset),
            _ => None,
        });
        let Ok(mut stretch) = Stretch::reserve(bytes, congruent.unwrap_or_default()) else { return Ok(None) };
        let (mut pins, mut at) = (BTreeMap::new(), 0);
        for (source, pages) in parts {
            let len = (pages * PAGE) as usize;
            let mapped = match source {
                Source::Medium(offset) => {
                    let first = at as u64 / PAGE;
                    for page in 0..*pages {
                        let Some(pin) = nvm.pin(offset + page * PAGE, PAGE)? else { return Ok(None) };
                        pins.insert(first + page, pin);
                    }
                    stretch.map_private(at, len, file, *offset)
                }
                Source::Zeros => Ok(()),
                Source::Bytes(bytes) => stretch.put(at, len, bytes),
            };
            if mapped.is_err() {
                return Ok(None);
            }
            at += len;
        }
        let inner = Arc::new(Inner { stretch, pins: Mutex::new(pins), _mappings: mappings });
        Ok(Some(Self { inner, is_writable: false }))
    }

    /// For who may have pages parted. The medium stays held as long as one of both is there.
    pub fn parter(&self) -> Parter {
        Parter { inner: self.inner.clone() }
    }

    /// Enters pages of so many bytes from byte `at` on in the processor's table, in one call, so that reading them
    /// takes no page fault. False: they lie outside, or the kernel does not.
    pub fn enter(&self, at: usize, len: usize) -> bool {
        let first = at / PAGE as usize * PAGE as usize;
        let end = at.saturating_add(len).min(self.len()).next_multiple_of(PAGE as usize);
        first < end && self.inner.stretch.enter(first, end - first).is_ok()
    }

    /// Gives a page, by its number in the snapshot, memory of its own, and the medium its page back. False: it has that
    /// already, or the kernel has no memory.
    pub fn part(&self, page: u64) -> bool {
        self.inner.part(page)
    }

    /// Has the pages that these bytes lie in parted, as far as the kernel has memory: where in the medium (bytes) they
    /// were.
    pub fn part_bytes(&self, range: Range<usize>) -> Vec<u64> {
        let end = range.end.min(self.len());
        self.inner.part_all(range.start as u64 / PAGE..(end as u64).div_ceil(PAGE)).0
    }

    /// Bytes of `range`, to be changed, and the places in the medium (bytes) of the pages that have been parted from it
    /// now. `None`: the range goes beyond the end, or the kernel has no memory; no byte has changed then.
    pub fn bytes_mut(&mut self, range: Range<usize>) -> (Option<&mut [u8]>, Vec<u64>) {
        if range.start > range.end || range.end > self.len() {
            return (None, Vec::new());
        }
        self.is_writable = self.is_writable || self.inner.stretch.allow_stores(0, self.len()).is_ok();
        if !self.is_writable {
            return (None, Vec::new());
        }
        let (parted, are_all) = self.inner.part_all(range.start as u64 / PAGE..(range.end as u64).div_ceil(PAGE));
        // SAFETY: the bytes are those of `self`, which is borrowed as `&mut` as long as the slice lives; a `Parter`
        // reaches none, and parting changes none. They can be stored to, and their pages are the mapping's own: none is
        // pinned any more, so the medium's are not mapped there.
        let bytes = are_all.then(|| unsafe { self.inner.stretch.bytes_mut(range) });
        (bytes, parted)
    }
}

impl Parter {
    /// As [`Snapshot::part`].
    pub fn part(&self, page: u64) -> bool {
        self.inner.part(page)
    }
}

impl Inner {
    fn part(&self, page: u64) -> bool {
        let mut pins = self.pins.lock();
        let is_parted = pins.contains_key(&page) && self.stretch.part((page * PAGE) as usize, PAGE as usize).is_ok();
        if is_parted {
            pins.remove(&page);
        }
        is_parted
    }

    /// Parts those of the pages that are not, neighbours in one call: where in the medium they were, and whether these
    /// are all, as the kernel may have no memory for some.
    fn part_all(&self, pages: Range<u64>) -> (Vec<u64>, bool) {
        let mut pins = self.pins.lock();
        let mut runs: Vec<Range<u64>> = Vec::new();
        for page in pins.range(pages).map(|(page, _)| *page) {
            match runs.last_mut() {
                Some(run) if run.end == page => run.end += 1,
                _ => runs.push(page..page + 1),
            }
        }
        let mut places = Vec::new();
        for run in runs {
            if self.stretch.part((run.start * PAGE) as usize, ((run.end - run.start) * PAGE) as usize).is_err() {
                return (places, false);
            }
            places.extend(run.filter_map(|page| pins.remove(&page)).map(|pin| pin.place()));
        }
        (places, true)
    }
}

impl Deref for Snapshot {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: what is mapped does not change as long as `self` is borrowed: mappings only change in `new`, and
        // bytes in `bytes_mut`, both through `&mut`; each page of the medium in it is pinned, so nobody stores to it,
        // until the mapping has a page of its own with the same bytes.
        unsafe { self.inner.stretch.bytes() }
    }
}

impl AsRef<[u8]> for Snapshot {
    fn as_ref(&self) -> &[u8] {
        self
    }
}
