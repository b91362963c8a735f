//! How much journal and space a change of the tree may need at most.

use crate::Volume;
use crate::op::Op;
use ondol_format::extent::capacity;
use std::ops::AddAssign;

/// Journal blocks that every step keeps for its end: the inode, the orphan list, and a little for the caller.
pub(in crate::file) const SPARE: u32 = 1 + crate::orphan::COST + 3;

/// Journal blocks for freeing a node that has been in the operation before: its bitmap and that one's descriptor.
pub(in crate::file) const FREED_NODE: u32 = 2;

/// What adding entries to a tree may need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::file) struct Growth {
    /// Nodes that change, old and new.
    pub(in crate::file) nodes: u32,
    /// New nodes.
    pub(in crate::file) new: u32,
}

impl AddAssign for Growth {
    fn add_assign(&mut self, more: Self) {
        self.nodes += more.nodes;
        self.new += more.new;
    }
}

/// Adding `added` entries within `leaves` neighbouring leaves of a tree with `depth` levels above its leaves, any of
/// whose nodes may be full.
pub(in crate::file) fn growth(block_size: u32, depth: u32, leaves: u32, added: u32) -> Growth {
    // A split leaves at least this much room on both sides.
    let half = u32::from(capacity(block_size as usize)) / 2 - 1;
    let mut total = Growth::default();
    // Nodes of one level that entries come into, and how many.
    let (mut touched, mut incoming) = (leaves, added);
    for _ in 0..depth {
        let new = incoming.min(touched + incoming / half);
        total = Growth { nodes: total.nodes + touched + new, new: total.new + new };
        (touched, incoming) = (touched.min(touched / half + 2), new);
    }
    // The root takes the rest, or becomes a node of a new level, as often as needed.
    while incoming > 0 {
        let new = 1 + incoming / half;
        total = Growth { nodes: total.nodes + new, new: total.new + new };
        incoming = if new > 3 { new } else { 0 };
    }
    total
}

/// Journal blocks for allocating `blocks` blocks, each of which may come from another group: bitmaps and descriptors.
pub(in crate::file) fn alloc_cost(vol: &Volume, blocks: u64) -> u32 {
    let sb = &vol.shared.sb;
    let bitmaps = blocks.min(u64::from(sb.groups())) as u32;
    bitmaps + bitmaps.min(sb.groups().div_ceil(sb.gdt().desc_per_block()))
}

/// Journal blocks for one change of a leaf in a tree of `depth` levels above its leaves: the way down, a split or a
/// freed node on every level, and their bitmaps and descriptors.
fn splice_cost(depth: usize) -> u32 {
    let levels = depth as u32 + 1;
    levels * 2 + levels * 2
}

/// Whether the operation has journal space for one more change of a leaf with a newly allocated run, and for its end.
pub(in crate::file) fn has_splice_room(op: &Op<'_>, depth: u32) -> bool {
    let need = splice_cost(depth as usize) + 4 + SPARE;
    op.room() >= need
}

/// Journal blocks with which a step of stepwise work gets on: several runs in a tree of any usual depth.
pub(in crate::file) fn step_cost(vol: &Volume) -> u32 {
    (64 + SPARE).min(vol.engine.max_blocks())
}

/// Journal blocks for freeing one run of `blocks` blocks, changing the tree, and ending the operation.
pub(in crate::file) fn removal_cost(vol: &Volume, depth: usize, blocks: u32) -> u32 {
    let groups = blocks / vol.shared.sb.blocks_per_group() + 2;
    groups * 2 + splice_cost(depth) + SPARE
}
