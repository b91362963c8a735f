//! The images of a batch: sealed, and in the order in which they go home.

use crate::area::{Writers, write_many};
use crate::client::{Client, Images, Patches};
use crate::names::Kind;
use crate::{Block, Ranges, Result};
use ondol_block::BlockStore;
use ondol_env::sync::Arc;
use std::collections::BTreeMap;

/// A block on its way home.
#[derive(Clone, Debug)]
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

/// Those that have derived values.
pub(super) fn to_seal(batch: &Batch) -> Vec<u64> {
    batch.iter().filter(|(_, homing)| homing.kind != Kind::DATA).map(|(block, _)| *block).collect()
}

/// The derived values of one of them.
pub(super) fn sealed(batch: &Batch, block: u64, client: &dyn Client) -> Patches {
    let seal = |homing: &Homing| client.seal(block, homing.kind, &homing.image, &homing.dirty, batch);
    batch.get(&block).map(seal).unwrap_or_default()
}

/// Has `take` put derived values where they belong: in the order of blocks, and those of each once.
pub(super) fn put_in(
    batch: &mut Batch,
    values: impl Iterator<Item = (u64, Patches)>,
    mut take: impl FnMut(u64, &mut Block, &Patches),
) {
    for (block, patches) in values.filter(|(_, patches)| !patches.is_empty()) {
        if let Some(homing) = batch.get_mut(&block) {
            take(block, &mut homing.image, &patches);
        }
    }
}

/// Images that are written home together, by block number.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// Each whole.
    whole: Vec<(u64, Block)>,
    /// Those that the records repeat after a crash, so that what differs can be stored in place.
    in_place: Vec<(u64, Block)>,
}

impl Part {
    pub(super) fn len(&self) -> usize {
        self.whole.len() + self.in_place.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Durable with the next flush.
    pub(super) fn write(&self, store: &Arc<dyn BlockStore>, writers: Writers, block_size: usize) -> Result<()> {
        write_many(store, writers, block_size, &self.whole)?;
        let places: Vec<(u64, &[u8])> =
            self.in_place.iter().map(|(block, image)| (*block * block_size as u64, &**image)).collect();
        if places.is_empty() { Ok(()) } else { Ok(store.write_in_place(&places)?) }
    }
}

/// The images to be written, in two parts: what was built must be home before a descriptor says that it is there. A
/// home that lends its pages takes in place what may tear.
pub(super) fn in_order(batch: &Batch, client: &dyn Client, lends: bool) -> [Part; 2] {
    let mut parts = [Part::default(), Part::default()];
    for (block, homing) in batch.iter().filter(|(_, homing)| !homing.there) {
        let part = &mut parts[usize::from(!homing.built)];
        let may_tear = lends && client.may_tear(homing.kind);
        let images = if may_tear { &mut part.in_place } else { &mut part.whole };
        images.push((*block, homing.image.clone()));
    }
    parts
}

/// Which of the parts need a flush of their own, with so many entries of the home's map.
pub(super) fn needed<'p>(parts: &'p [Part; 2], entries: &[(u64, u32)]) -> impl Iterator<Item = &'p Part> {
    let only_entries = parts[0].is_empty() && !entries.is_empty();
    parts.iter().enumerate().filter(move |(n, part)| !part.is_empty() || *n == 1 && only_entries).map(|(_, part)| part)
}
