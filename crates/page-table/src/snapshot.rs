//! Maps: what blocks hold now, at addresses that lie in a row (papers/4, §2.2). Their pages are pinned until the table
//! needs them, or somebody stores to the map, and then parted from it.

use crate::error::Result;
use crate::pins::Pins;
use crate::table::PageTable;
use ondol_block::{MapPart, Mapped};
use ondol_env::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use ondol_env::sync::{Arc, Mutex};
use ondol_medium::{NvmError, PAGE, Parter, Snapshot, Source};
use std::collections::BTreeMap;
use std::sync::Weak;

/// The maps of a table.
#[derive(Debug, Default)]
pub(crate) struct Maps {
    all: Mutex<Vec<Weak<Map>>>,
    parted: AtomicU64,
    /// Maps whose pins have not all gone, also of those that nobody holds any more.
    existing: AtomicU64,
    /// Threads that part pages.
    parting: AtomicU64,
}

/// One of them.
#[derive(Debug)]
struct Map {
    /// Taken when it goes.
    parter: Option<Parter>,
    /// Pages of the table, and where they are in the snapshot.
    pages: BTreeMap<u32, u64>,
    pins: Arc<Pins>,
}

/// Who holds a map: the bytes go before the map does, which tells that their pages are not pinned any more.
struct Holder {
    snapshot: Snapshot,
    /// Bytes that it has.
    len: usize,
    map: Arc<Map>,
}

impl Mapped for Holder {
    fn bytes(&self) -> &[u8] {
        self.snapshot.get(..self.len).unwrap_or_default()
    }

    fn enter(&self, at: usize, len: usize) -> bool {
        self.snapshot.enter(at, len)
    }

    fn bytes_mut(&mut self, at: usize, len: usize) -> Option<&mut [u8]> {
        let end = at.checked_add(len).filter(|end| *end <= self.len)?;
        let pins = &self.map.pins;
        // Whoever needs a page meanwhile waits for one step, and not for the whole copy.
        let long = if len > STEP { at..end } else { end..end };
        for from in long.step_by(STEP) {
            pins.maps.parting.fetch_add(1, SeqCst);
            pins.are_parted(self.snapshot.part_bytes(from..end.min(from + STEP)));
        }
        pins.maps.parting.fetch_add(1, SeqCst);
        let (bytes, parted) = self.snapshot.bytes_mut(at..end);
        pins.are_parted(parted);
        bytes
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        self.parter = None;
        self.pins.are_unpinned(self.pages.keys().copied());
        self.pins.maps.existing.fetch_sub(1, SeqCst);
    }
}

/// Bytes whose pages are parted at a time.
const STEP: usize = 1 << 20;

impl Pins {
    /// Pages at these places are not pinned by a map any more: what [`Maps::parting`] was counted up for.
    fn are_parted(&self, places: Vec<u64>) {
        self.maps.parted.fetch_add(places.len() as u64, Relaxed);
        self.are_unpinned(places.into_iter().filter_map(|place| self.page_of(place)));
        self.maps.parting.fetch_sub(1, SeqCst);
    }
}

impl Maps {
    /// Pages that were parted.
    pub(crate) fn parted(&self) -> u64 {
        self.parted.load(Relaxed)
    }

    fn add(&self, map: &Arc<Map>) {
        let mut all = self.all.lock();
        all.retain(|map| map.strong_count() > 0);
        all.push(Arc::downgrade(map));
    }

    /// Whether pages are about to become free: a map is on its way out, or a thread has parted pages and not told yet.
    pub(crate) fn give_soon(&self) -> bool {
        let existing = self.existing.load(SeqCst);
        self.parting.load(SeqCst) > 0 || existing > self.alive().len() as u64
    }

    /// Those that there are now.
    fn alive(&self) -> Vec<Arc<Map>> {
        self.all.lock().iter().filter_map(Weak::upgrade).collect()
    }
}

impl Pins {
    /// Has maps give back pages that nothing else needs: `wanted` of them, or what there is.
    pub(crate) fn part_held(&self, wanted: u64) {
        let maps = self.maps.alive();
        if maps.is_empty() {
            return;
        }
        self.maps.parting.fetch_add(1, SeqCst);
        let mut left = wanted;
        for page in self.held_pages() {
            if left == 0 {
                break;
            }
            let of_maps = maps.iter().filter_map(|map| Some((map.parter.as_ref()?, *map.pages.get(&page)?)));
            let parted = of_maps.filter(|(parter, at)| parter.part(*at)).count() as u64;
            if parted > 0 {
                self.maps.parted.fetch_add(parted, Relaxed);
                // A view may keep it still.
                left -= self.are_unpinned(std::iter::once(page));
            }
        }
        self.maps.parting.fetch_sub(1, SeqCst);
    }
}

impl PageTable {
    /// Maps parts, as [`ondol_block::PageLender::map`].
    pub(crate) fn map_parts(&self, parts: &[MapPart<'_>]) -> Result<Option<Box<dyn Mapped>>> {
        let (mut sources, mut pages, mut at, mut len) = (Vec::<(Source<'_>, u64)>::new(), BTreeMap::new(), 0, 0);
        for part in parts {
            let (source, bytes) = match part {
                MapPart::Place(place, bytes) => (Source::Medium(*place), *bytes),
                MapPart::Zeros(bytes) => (Source::Zeros, *bytes),
                MapPart::Bytes(bytes) => (Source::Bytes(bytes), bytes.len() as u64),
            };
            let count = bytes.div_ceil(PAGE);
            if let Source::Medium(place) = source {
                let Some(first) = self.config.page_of(place) else { return Ok(None) };
                pages.extend((first..).zip(at..at + count));
            }
            // Only the last is no whole page.
            if len % PAGE != 0 {
                return Ok(None);
            }
            match (sources.last_mut(), source) {
                (Some((Source::Medium(before), pages)), Source::Medium(place)) if *before + *pages * PAGE == place => {
                    *pages += count;
                }
                _ => sources.push((source, count)),
            }
            (at, len) = (at + count, len + bytes);
        }
        let snapshot = match Snapshot::new(&self.nvm, &sources) {
            Ok(Some(snapshot)) => snapshot,
            // Whoever copies instead may not want what is lost.
            Ok(None) | Err(NvmError::Poisoned { .. }) => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        let (parter, pins) = (Some(snapshot.parter()), self.pins.clone());
        self.pins.maps.existing.fetch_add(1, SeqCst);
        let map = Arc::new(Map { parter, pages, pins });
        self.pins.maps.add(&map);
        Ok(Some(Box::new(Holder { snapshot, len: len as usize, map })))
    }
}
