//! From records to the images of a batch: what recovery and checkpoint have in common.

use super::record::{self, Entry, Fetch, InPage};
use crate::cache::Block;
use crate::contract::{Client, Derived, Images, Kind, Patches};
use crate::{Extent, JournalError, Ranges, Result};
use ondol_env::plant::{self, Defect};
use ondol_env::reach::{self, Place};
use std::collections::{BTreeMap, HashMap};

/// Where the changes of a block lie: the position of their record, and their place in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) position: u64,
    at: usize,
    len: usize,
    /// They are all that lies in this page.
    page: Option<InPage>,
}

/// What a batch has of one block.
#[derive(Clone, Debug)]
pub(super) struct Changed {
    pub(super) kind: Kind,
    /// It starts from zeros.
    pub(super) fresh: bool,
    /// Records that have changes of it.
    pub(super) records: u32,
    /// Its changes, in their order, without those before it last started from zeros.
    pub(super) parts: Vec<Part>,
}

impl Changed {
    /// The page that has all of the block, if that is what its records come to.
    pub(super) fn is_page(&self) -> Option<InPage> {
        match self.parts.as_slice() {
            [Part { page, .. }] => *page,
            _ => None,
        }
    }
}

/// The blocks of a batch, and its records.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    records: HashMap<u64, Vec<u8>>,
    pub(super) changed: BTreeMap<u64, Changed>,
    pub(super) freed: Vec<Extent>,
    /// Pages that its records name.
    pub(super) pages: Vec<u32>,
    /// Changes do not count any more, because their blocks were freed later.
    pub(super) dropped: bool,
}

impl Blocks {
    /// Adds a record, which comes after all that were added before. Blocks must lie below `end`.
    ///
    /// # Errors
    /// It is not to be understood.
    pub(super) fn add(&mut self, position: u64, bytes: Vec<u8>, end: u64) -> Result<()> {
        for entry in record::entries(&bytes) {
            match entry? {
                Entry::Freed(runs) => {
                    for extent in record::runs(runs) {
                        let blocks = extent.start..extent.start.saturating_add(extent.len.into());
                        let gone: Vec<u64> = self.changed.range(blocks).map(|(block, _)| *block).collect();
                        self.dropped |= !gone.is_empty();
                        if !plant::is(Defect::UnreadRevoke) {
                            gone.iter().for_each(|block| drop(self.changed.remove(block)));
                        }
                        self.freed.push(extent);
                    }
                }
                Entry::Changed { block, kind, fresh, at, changes } => {
                    if block >= end {
                        let what = format!("a record of the NVM log names block {block} of {end}");
                        return Err(JournalError::Unsupported(what));
                    }
                    let changed = self.changed.entry(block).or_insert(Changed {
                        kind,
                        fresh: false,
                        records: 0,
                        parts: Vec::new(),
                    });
                    changed.kind = kind;
                    changed.records += 1;
                    if fresh {
                        changed.fresh = true;
                        changed.parts.clear();
                    }
                    let page = record::page_of(changes);
                    self.pages.extend(page.map(|page| page.page));
                    changed.parts.push(Part { position, at, len: changes.len(), page });
                }
            }
        }
        self.records.insert(position, bytes);
        Ok(())
    }

    /// Adds the blocks that say something about those that changed, in values that a seal derives; those that changed themselves are there already. Returns
    /// which bytes are to be sealed of each.
    pub(super) fn add_derived(&mut self, client: &dyn Client) -> BTreeMap<u64, Ranges> {
        let mut bytes: BTreeMap<u64, Ranges> = BTreeMap::new();
        let kinds: Vec<Kind> = self.changed.values().map(|changed| changed.kind).collect();
        for derived in kinds.into_iter().filter_map(|kind| client.derived(kind)) {
            if plant::is(Defect::UnderivedValues) {
                continue;
            }
            let Derived { block, kind, bytes: range } = derived;
            reach::hit_if(!self.changed.contains_key(&block), Place::DerivedAlone);
            self.changed.entry(block).or_insert(Changed { kind, fresh: false, records: 0, parts: Vec::new() });
            bytes.entry(block).or_default().add(range);
        }
        bytes
    }

    /// Applies the changes of one of the blocks to `image`, and notes the bytes that they touch.
    ///
    /// # Errors
    /// They are not to be understood; those of `fetch`.
    pub(super) fn apply(
        &self,
        changed: &Changed,
        image: &mut [u8],
        dirty: &mut Ranges,
        fetch: Fetch<'_>,
    ) -> Result<()> {
        for part in &changed.parts {
            record::apply(&self.records[&part.position][part.at..part.at + part.len], image, dirty, fetch)?;
        }
        Ok(())
    }
}

/// A block on its way home.
#[derive(Debug)]
pub(super) struct Homing {
    pub(super) kind: Kind,
    pub(super) image: Block,
    /// Bytes that changed since the last seal.
    pub(super) dirty: Ranges,
    /// Home holds nothing of it yet.
    pub(super) built: bool,
    /// Home has it.
    pub(super) there: bool,
}

/// Blocks on their way home, by number.
pub(super) type Batch = BTreeMap<u64, Homing>;

impl Images for Batch {
    fn image(&self, block: u64) -> Option<&[u8]> {
        self.get(&block).map(|homing| &*homing.image)
    }
}

/// Computes the derived values of all of them, and has `take` put them where they belong.
pub(super) fn seal(batch: &mut Batch, client: &dyn Client, mut take: impl FnMut(u64, &mut Block, &Patches)) {
    let mut sealed: Vec<(u64, Patches)> = Vec::new();
    for (block, homing) in batch.iter().filter(|(_, homing)| homing.kind != Kind::DATA) {
        let mut patches = Patches::default();
        client.seal(*block, homing.kind, &homing.image, &homing.dirty, batch, &mut patches);
        if !patches.is_empty() {
            sealed.push((*block, patches));
        }
    }
    for (block, patches) in sealed {
        if let Some(homing) = batch.get_mut(&block) {
            take(block, &mut homing.image, &patches);
        }
    }
}

/// The images to be written, in two parts: what was built must be home before a descriptor says that it is there.
pub(super) fn in_order(batch: &Batch) -> [Vec<(u64, Block)>; 2] {
    [true, false].map(|built| {
        let here = batch.iter().filter(|(_, homing)| homing.built == built && !homing.there);
        here.map(|(block, homing)| (*block, homing.image.clone())).collect()
    })
}
