//! Where the bitmaps and inode tables of all groups lie, by place: with flex_bg those of any group may lie in any
//! other.

use super::edit::Edit;
use ondol_format::group::GroupDesc;
use ondol_format::{Superblock, layout};
use std::collections::BTreeSet;
use std::ops::Range;

/// See the module.
pub(super) struct Placed {
    /// First block and the block behind the last.
    ranges: BTreeSet<(u64, u64)>,
    /// Blocks of a table, which is the longest.
    longest: u64,
}

impl Placed {
    pub(super) fn new(sb: &Superblock, descs: &[GroupDesc]) -> Self {
        let all = descs.iter().flat_map(|desc| layout::own_meta(sb, desc));
        Self { ranges: all.map(|r| (r.start, r.end)).collect(), longest: sb.inode_table_blocks().into() }
    }

    /// All that touches `blocks`, in order.
    pub(super) fn within(&self, blocks: &Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let first = blocks.start;
        let from = first.saturating_sub(self.longest);
        let near = self.ranges.range((from, 0)..(blocks.end.max(from), 0));
        near.filter(move |&&(_, end)| end > first).map(|&(start, end)| start..end)
    }

    fn add(&mut self, range: Range<u64>) {
        self.ranges.insert((range.start, range.end));
    }

    fn remove(&mut self, range: &Range<u64>) {
        self.ranges.remove(&(range.start, range.end));
    }
}

impl Edit {
    /// What is placed now; collected when it is first asked for.
    pub(super) fn placed(&self) -> &Placed {
        self.placed.get_or_init(|| Placed::new(&self.sb, &self.descs))
    }

    /// The bitmap of a group in which nothing but metadata lies; that of any group may.
    pub(super) fn unwritten_bitmap(&self, g: u32) -> Vec<u8> {
        let mut map = vec![0; self.block_size()];
        layout::init_clusters(&self.sb, g, self.placed().within(&self.sb.block_range_of_group(g)), &mut map);
        map
    }

    /// Whether metadata of any group lies in `blocks`, which are one cluster.
    pub(super) fn holds_metadata(&self, blocks: &Range<u64>) -> bool {
        let base = self.sb.group_of_block(blocks.start).map(|g| self.sb.base_meta(g).all);
        self.placed().within(blocks).next().is_some()
            || base.is_some_and(|base| base.start < blocks.end && blocks.start < base.end)
    }

    /// Gives bitmap or table number `which` of a group, as [`layout::own_meta`] has them, another place.
    pub(super) fn place(&mut self, g: u32, which: usize, to: u64) -> crate::Result<()> {
        let desc = self.desc(g)?;
        let slot = [&mut desc.block_bitmap, &mut desc.inode_bitmap, &mut desc.inode_table];
        let from = std::mem::replace(slot[which], to);
        let len = if which == 2 { u64::from(self.sb.inode_table_blocks()) } else { 1 };
        if let Some(placed) = self.placed.get_mut() {
            placed.remove(&(from..from + len));
            placed.add(to..to + len);
        }
        Ok(())
    }

    /// Adds the descriptor of a new group.
    pub(super) fn push_desc(&mut self, desc: GroupDesc) {
        self.note_desc(self.descs.len() as u32);
        if let Some(placed) = self.placed.get_mut() {
            layout::own_meta(&self.sb, &desc).into_iter().for_each(|range| placed.add(range));
        }
        self.descs.push(desc);
    }

    /// Forgets the descriptors from `groups` on.
    pub(super) fn cut_descs(&mut self, groups: u32) {
        for g in (groups..self.descs.len() as u32).rev() {
            // What changes is not counted.
            self.note_desc(g);
            self.forget_note(g);
            let Some(desc) = self.descs.pop() else { return };
            if let Some(placed) = self.placed.get_mut() {
                layout::own_meta(&self.sb, &desc).iter().for_each(|range| placed.remove(range));
            }
        }
    }
}
