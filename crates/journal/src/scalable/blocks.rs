//! From records to what they change of each block: what recovery and checkpoint have in common.

use super::record::{self, Entry, Fetch, InPage};
use crate::client::{Client, Derived};
use crate::names::Kind;
use crate::{Extent, JournalError, Ranges, Result};
use std::collections::BTreeMap;
use std::ops::Range;

/// What one record has of one block: where its changes lie. A batch has hundreds of thousands of them, so they are
/// short.
#[derive(Clone, Copy, Debug)]
struct Part {
    block: u64,
    kind: Kind,
    /// The block starts from zeros.
    fresh: bool,
    /// A later record frees the block.
    dropped: bool,
    /// Its place among all parts, in the order of records.
    nth: u32,
    /// Which of the texts, and where in it.
    text: u32,
    at: u32,
    len: u32,
    /// The changes are all that lies in this page.
    page: Option<InPage>,
}

/// Some records that lie one behind the other, read.
#[derive(Debug, Default)]
pub(super) struct Piece {
    text: Vec<u8>,
    parts: Vec<Part>,
    /// What they free, and how many parts come before.
    freed: Vec<(Extent, usize)>,
}

impl Piece {
    /// Reads records: `read` puts one behind what there is, and says where its contents lie. Blocks must lie below
    /// `end`.
    ///
    /// # Errors
    /// A record is not to be understood; those of `read`.
    pub(super) fn read(
        positions: &[u64],
        end: u64,
        read: impl Fn(u64, &mut Vec<u8>) -> std::result::Result<Range<usize>, ondol_nvm_log::LogError>,
    ) -> Result<Self> {
        let mut piece = Self::default();
        for position in positions {
            let contents = read(*position, &mut piece.text)?;
            piece.add(contents, end)?;
        }
        Ok(piece)
    }

    fn add(&mut self, contents: Range<usize>, end: u64) -> Result<()> {
        for entry in record::entries(&self.text[contents.clone()]) {
            match entry? {
                Entry::Freed(runs) => {
                    let before = self.parts.len();
                    self.freed.extend(record::runs(runs).map(|extent| (extent, before)));
                }
                Entry::Changed { block, .. } if block >= end => {
                    let what = format!("a record of the NVM log names block {block} of {end}");
                    return Err(JournalError::Unsupported(what));
                }
                Entry::Changed { block, kind, fresh, at, changes } => {
                    let (at, len) = ((contents.start + at) as u32, changes.len() as u32);
                    let page = record::page_of(changes);
                    self.parts.push(Part { block, kind, fresh, dropped: false, nth: 0, text: 0, at, len, page });
                }
            }
        }
        Ok(())
    }
}

/// What a batch has of one block.
#[derive(Clone, Debug)]
pub(super) struct Changed {
    pub(super) block: u64,
    pub(super) kind: Kind,
    /// It starts from zeros.
    pub(super) fresh: bool,
    /// Records that have changes of it.
    pub(super) records: u32,
    /// Its changes among all parts, without those before it last started from zeros.
    parts: Range<usize>,
    /// The page that has all of the block, if that is what its records come to.
    pub(super) page: Option<InPage>,
}

impl Changed {
    /// A block of which a batch has this many parts, in their order; none that does not count any more.
    fn of(parts: &[Part], first: usize) -> Option<Self> {
        let (dropped, parts) = parts.split_at(parts.partition_point(|part| part.dropped));
        let last = parts.last()?;
        let since = parts.iter().rposition(|part| part.fresh);
        let first = first + dropped.len();
        let from = since.unwrap_or(0);
        let page = if from + 1 == parts.len() { last.page } else { None };
        let (records, range) = (parts.len() as u32, first + from..first + parts.len());
        Some(Self { block: last.block, kind: last.kind, fresh: since.is_some(), records, parts: range, page })
    }
}

/// The blocks of a batch, and its records.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    texts: Vec<Vec<u8>>,
    /// By block, then in the order of records.
    parts: Vec<Part>,
    /// By block.
    changed: Vec<Changed>,
    pub(super) freed: Vec<Extent>,
    /// Pages that its records name.
    pub(super) pages: Vec<u32>,
    /// Changes do not count any more, because their blocks were freed later.
    pub(super) dropped: bool,
}

impl Blocks {
    /// Of all records of a batch, in their order.
    pub(super) fn of(pieces: Vec<Piece>) -> Self {
        let count = pieces.iter().map(|piece| piece.parts.len()).sum();
        let (mut all, mut freed) = (Self { parts: Vec::with_capacity(count), ..Self::default() }, Vec::new());
        for (text, piece) in (0..).zip(pieces) {
            let before = all.parts.len();
            freed.extend(piece.freed.into_iter().map(|(extent, parts)| (extent, before + parts)));
            all.parts.extend((before as u32..).zip(piece.parts).map(|(nth, part)| Part { nth, text, ..part }));
            all.texts.push(piece.text);
        }
        all.pages.extend(all.parts.iter().filter_map(|part| part.page).map(|page| page.page));
        all.parts.sort_unstable_by_key(|part| (part.block, part.nth));
        all.drop_freed(&freed);
        all.freed = freed.into_iter().map(|(extent, _)| extent).collect();
        let mut first = 0;
        for parts in all.parts.chunk_by(|a, b| a.block == b.block) {
            all.changed.extend(Changed::of(parts, first));
            first += parts.len();
        }
        all
    }

    /// Of each run that is freed: those of so many parts that lie in it do not count. What the last of several runs has
    /// dropped of a block needs no other.
    fn drop_freed(&mut self, freed: &[(Extent, usize)]) {
        if freed.is_empty() {
            return;
        }
        let is_first = |at: &usize| *at == 0 || self.parts[*at - 1].block != self.parts[*at].block;
        let groups: Vec<usize> = (0..self.parts.len()).filter(is_first).collect();
        // For each group the next one that no run has been seen for.
        let mut next: Vec<usize> = (0..=groups.len()).collect();
        for (extent, before) in freed.iter().rev() {
            let end = extent.start.saturating_add(extent.len.into());
            let first = groups.partition_point(|at| self.parts[*at].block < extent.start);
            let mut group = unseen(&mut next, first);
            while let Some(at) = groups.get(group).filter(|at| self.parts[**at].block < end) {
                let behind = groups.get(group + 1).map_or(self.parts.len(), |at| *at);
                for part in self.parts[*at..behind].iter_mut().take_while(|part| (part.nth as usize) < *before) {
                    self.dropped = true;
                    part.dropped = true;
                }
                next[group] = group + 1;
                group = unseen(&mut next, group + 1);
            }
        }
    }

    /// Adds the blocks that say something about those that changed, in values that a seal derives; those that changed
    /// themselves are there already. Returns which bytes are to be sealed of each.
    pub(super) fn add_derived(&mut self, client: &dyn Client) -> BTreeMap<u64, Ranges> {
        let (mut bytes, mut kinds) = (BTreeMap::<u64, Ranges>::new(), BTreeMap::new());
        for derived in self.changed.iter().filter_map(|changed| client.derived(changed.kind)) {
            let Derived { block, kind, bytes: range } = derived;
            kinds.entry(block).or_insert(kind);
            bytes.entry(block).or_default().add(range);
        }
        kinds.retain(|block, _| self.changed.binary_search_by_key(block, |changed| changed.block).is_err());
        if !kinds.is_empty() {
            let alone = |(block, kind)| Changed { block, kind, fresh: false, records: 0, parts: 0..0, page: None };
            self.changed.extend(kinds.into_iter().map(alone));
            self.changed.sort_by_key(|changed| changed.block);
        }
        bytes
    }

    /// The blocks that have changed, by their numbers.
    pub(super) fn changed(&self) -> &[Changed] {
        &self.changed
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
        for part in &self.parts[changed.parts.clone()] {
            let changes = &self.texts[part.text as usize][part.at as usize..][..part.len as usize];
            record::apply(changes, image, dirty, fetch)?;
        }
        Ok(())
    }
}

/// The first group from `group` on that was not seen. Each look halves the way of the next one.
fn unseen(next: &mut [usize], mut group: usize) -> usize {
    while next[group] != group {
        next[group] = next[next[group]];
        group = next[group];
    }
    group
}
