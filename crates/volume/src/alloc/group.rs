//! What is kept in memory of each block group, and of free space as a whole.

use super::free::Free;
use super::windows::Windows;
use crate::geometry::Chain;
use crate::{Error, Result};
use ondol_env::apart::Striped;
use ondol_env::sync::Mutex;
use ondol_env::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering::SeqCst};
use ondol_format::group::{BLOCK_UNINIT, GroupDesc, INODE_UNINIT, INODE_ZEROED};
use ondol_format::{Superblock, layout};

/// The busy bitmaps of a group, read when first needed.
#[derive(Debug, Default)]
pub(crate) struct Busy {
    pub(crate) blocks: Option<Vec<u8>>,
    /// Where files grow.
    pub(crate) windows: Windows,
    pub(crate) inodes: Option<Vec<u8>>,
    /// Bits of the inode bitmap below which none is free.
    pub(crate) inode_hint: u32,
}

/// One block group, in cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct GroupInfo {
    pub(crate) block_bitmap: u64,
    pub(crate) inode_bitmap: u64,
    pub(crate) inode_table: u64,
    flags: AtomicU16,
    block_csum: AtomicU32,
    inode_csum: AtomicU32,
    /// Clusters that could be allocated now.
    pub(crate) free_blocks: AtomicU32,
    pub(crate) free_inodes: AtomicU32,
    pub(crate) used_dirs: AtomicU32,
    pub(crate) busy: Mutex<Busy>,
}

impl GroupInfo {
    fn new(desc: &GroupDesc, uninit_known: bool) -> Self {
        let flags = if uninit_known { desc.flags } else { INODE_ZEROED };
        Self {
            block_bitmap: desc.block_bitmap,
            inode_bitmap: desc.inode_bitmap,
            inode_table: desc.inode_table,
            flags: AtomicU16::new(flags),
            block_csum: AtomicU32::new(desc.block_bitmap_csum),
            inode_csum: AtomicU32::new(desc.inode_bitmap_csum),
            free_blocks: AtomicU32::new(desc.free_blocks),
            free_inodes: AtomicU32::new(desc.free_inodes),
            used_dirs: AtomicU32::new(desc.used_dirs),
            busy: Mutex::default(),
        }
    }

    /// Where it has its bitmaps and its table.
    pub(crate) fn places(&self) -> GroupDesc {
        let Self { block_bitmap, inode_bitmap, inode_table, .. } = *self;
        GroupDesc { block_bitmap, inode_bitmap, inode_table, ..GroupDesc::default() }
    }

    /// The medium holds no block bitmap of this group.
    pub(crate) fn block_uninit(&self) -> bool {
        self.flags.load(SeqCst) & BLOCK_UNINIT != 0
    }

    /// The medium holds no inode bitmap of this group.
    pub(crate) fn inode_uninit(&self) -> bool {
        self.flags.load(SeqCst) & INODE_UNINIT != 0
    }

    /// The unused end of the inode table is zeros.
    pub(crate) fn inodes_zeroed(&self) -> bool {
        self.flags.load(SeqCst) & INODE_ZEROED != 0
    }

    /// The unused end of the inode table has been zeroed.
    pub(crate) fn set_inodes_zeroed(&self) {
        self.flags.fetch_or(INODE_ZEROED, SeqCst);
    }

    /// A sealed image of this descriptor went to the journal: these are its derived values.
    pub(crate) fn sealed(&self, desc: &GroupDesc) {
        self.flags.store((desc.flags & !INODE_ZEROED) | (self.flags.load(SeqCst) & INODE_ZEROED), SeqCst);
        self.block_csum.store(desc.block_bitmap_csum, SeqCst);
        self.inode_csum.store(desc.inode_bitmap_csum, SeqCst);
    }

    /// The checksums that the bitmaps at home must have: blocks, inodes.
    pub(crate) fn bitmap_csums(&self) -> (u32, u32) {
        (self.block_csum.load(SeqCst), self.inode_csum.load(SeqCst))
    }
}

/// Groups that follow each other.
#[derive(Debug)]
struct Part {
    first: u32,
    list: Vec<GroupInfo>,
    /// What no file can own, as `(first block, length)`, sorted: superblocks, descriptors, bitmaps and inode tables of
    /// all groups, and the journal.
    metadata: Vec<(u64, u64)>,
}

impl Part {
    /// The groups from `first` on.
    fn new(sb: &Superblock, first: u32, descs: &[GroupDesc], others: &[(u64, u64)]) -> Self {
        let uninit_known = sb.features().has_group_desc_csum();
        let list: Vec<GroupInfo> = descs.iter().map(|d| GroupInfo::new(d, uninit_known)).collect();
        let table = u64::from(sb.inode_table_blocks());
        let mut metadata: Vec<(u64, u64)> =
            list.iter().flat_map(|g| [(g.block_bitmap, 1), (g.inode_bitmap, 1), (g.inode_table, table)]).collect();
        let groups = first..first + descs.len() as u32;
        let bases = groups.map(|g| sb.base_meta(g).all).map(|all| (all.start, all.end - all.start));
        metadata.extend(bases.filter(|&(_, len)| len > 0));
        metadata.extend_from_slice(others);
        Self { first, list, metadata: disjoint(metadata) }
    }
}

/// All groups, the geometry, and the count of free space.
#[derive(Debug)]
pub(crate) struct Groups {
    /// The groups that there were when the volume was opened, then what was added.
    parts: Chain<Part>,
    /// Free clusters that nobody has been promised.
    free: Free,
    /// Clusters freed by transactions that are not durable yet.
    pub(crate) pending_free: AtomicU64,
    /// Clusters that somebody has as memory.
    pub(crate) in_memory: AtomicU64,
    /// Free inodes of all groups.
    pub(crate) free_inodes: Striped,
    /// Clusters kept for the privileged, and for deleting when the volume is full.
    reserved: AtomicU64,
    /// Blocks of a cluster.
    ratio: u64,
}

/// Clusters that only operations which free space may still take.
const LAST_RESERVE: u64 = 8;

impl Groups {
    /// From all descriptors, which have been checked, and the runs of the journal.
    pub(crate) fn new(sb: &Superblock, descs: &[GroupDesc], journal: &[(u64, u64)]) -> Self {
        let free = descs.iter().map(|d| u64::from(d.free_blocks)).sum();
        let free_inodes = descs.iter().map(|d| i64::from(d.free_inodes)).sum();
        Self {
            parts: Chain::new(Part::new(sb, 0, descs, journal)),
            free: Free::new(free),
            pending_free: AtomicU64::new(0),
            in_memory: AtomicU64::new(0),
            free_inodes: Striped::new(free_inodes),
            reserved: AtomicU64::new(sb.r_blocks_count() / u64::from(sb.cluster_ratio())),
            ratio: sb.cluster_ratio().into(),
        }
    }

    /// Group `g`.
    pub(crate) fn get(&self, g: u32) -> Result<&GroupInfo> {
        let part = self.parts.iter().take_while(|part| part.first <= g).last();
        let info = part.and_then(|part| part.list.get((g - part.first) as usize));
        info.ok_or_else(|| Error::corrupt(format!("group number {g}"), 0, "no such group"))
    }

    /// Number of groups.
    pub(crate) fn count(&self) -> u32 {
        self.parts.iter().last().map_or(0, |part| part.first + part.list.len() as u32)
    }

    /// Adds groups behind those that there are; nothing of their space is given away yet.
    pub(crate) fn add(&self, sb: &Superblock, descs: &[GroupDesc]) {
        self.parts.push(Part::new(sb, self.count(), descs, &[]));
    }

    /// Gives away what was added.
    pub(crate) fn give_added(&self, sb: &Superblock, clusters: u64, inodes: u64) {
        self.reserved.store(sb.r_blocks_count() / self.ratio, SeqCst);
        self.free_inodes.add(inodes as i64);
        self.free.give(clusters);
    }

    /// Whether any of the run `start..start + len` is a bitmap or inode table.
    pub(crate) fn touches_metadata(&self, start: u64, len: u64) -> bool {
        let end = start.saturating_add(len);
        self.parts.iter().any(|part| {
            let at = part.metadata.partition_point(|&(s, n)| s + n <= start);
            part.metadata.get(at).is_some_and(|&(s, _)| s < end)
        })
    }

    /// Marks in `map` what lies in group `g` before anything is allocated there: superblock, descriptors, bitmaps,
    /// tables, and the padding behind the last block.
    pub(crate) fn initial_block_bitmap(&self, sb: &Superblock, g: u32, map: &mut [u8]) {
        let range = sb.block_range_of_group(g);
        let inside = self.parts.iter().flat_map(|Part { metadata, .. }| {
            let first = metadata.partition_point(|&(s, n)| s + n <= range.start);
            metadata[first..].iter().take_while(|&&(s, _)| s < range.end).map(|&(s, n)| s..s + n)
        });
        layout::init_clusters(sb, g, inside, map);
    }

    /// Takes `blocks` clusters out of the free count; false when they are not there. The unprivileged leave the
    /// reserve.
    pub(crate) fn promise(&self, blocks: u64, who: Need) -> bool {
        if blocks == 0 {
            return true;
        }
        self.free.take(blocks, self.kept_from(who))
    }

    /// Clusters that stay, whatever is taken.
    fn kept_from(&self, who: Need) -> u64 {
        match who {
            Need::Ordinary => self.reserved.load(SeqCst).max(LAST_RESERVE),
            Need::Privileged => LAST_RESERVE,
            Need::ToFree => 0,
        }
    }

    /// How many clusters there are too few to promise so many.
    pub(crate) fn lacks(&self, clusters: u64, who: Need) -> u64 {
        clusters.saturating_add(self.kept_from(who)).saturating_sub(self.free.sum())
    }

    /// Gives promised or released clusters back to the free count.
    pub(crate) fn give_back(&self, blocks: u64) {
        self.free.give(blocks);
    }

    /// Free blocks as a user sees them: also those whose freeing is not durable yet.
    pub(crate) fn visible_free(&self) -> u64 {
        let pending = self.pending_free.load(SeqCst);
        (self.free.sum() + pending) * self.ratio
    }

    /// Free blocks as the image has them, memory among them.
    pub(crate) fn stored_free(&self) -> u64 {
        self.visible_free() + self.in_memory.load(SeqCst) * self.ratio
    }

    /// Blocks kept back from the unprivileged.
    pub(crate) fn reserved(&self) -> u64 {
        self.reserved.load(SeqCst).max(LAST_RESERVE) * self.ratio
    }
}

/// Sorted and disjoint, whatever a hostile image made overlap.
fn disjoint(mut runs: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    runs.sort_unstable();
    let mut merged: Vec<(u64, u64)> = Vec::with_capacity(runs.len());
    for (start, len) in runs {
        match merged.last_mut() {
            Some((s, n)) if start <= s.saturating_add(*n) => *n = (*n).max(start.saturating_add(len) - *s),
            _ => merged.push((start, len)),
        }
    }
    merged
}

/// Who needs space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Any user.
    Ordinary,
    /// Root or the reserved user.
    Privileged,
    /// An operation that frees more than it takes.
    ToFree,
}
