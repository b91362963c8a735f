//! The images of a batch: sealed, and in the order in which they go home.

use crate::contract::{Client, Images, Kind, Patches};
use crate::{Block, Ranges};
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
    let mut patches = Patches::default();
    if let Some(homing) = batch.get(&block) {
        client.seal(block, homing.kind, &homing.image, &homing.dirty, batch, &mut patches);
    }
    patches
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

/// The images to be written, in two parts: what was built must be home before a descriptor says that it is there.
pub(super) fn in_order(batch: &Batch) -> [Vec<(u64, Block)>; 2] {
    [true, false].map(|built| {
        let here = batch.iter().filter(|(_, homing)| homing.built == built && !homing.there);
        here.map(|(block, homing)| (*block, homing.image.clone())).collect()
    })
}
