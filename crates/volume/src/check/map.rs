//! Where the blocks of an inode lie: extent trees and block maps.

use super::Checker;
use super::report::Where;
use crate::inline::is_inline;
use crate::{Ino, Result};
use ondol_format::extent::{self, Extent, Node};
use ondol_format::{Inode, Place, RoCompat};

/// Broken pointers of one inode that are told one by one.
const TOLD: u32 = 12;
/// Broken pointers of one inode after which the rest of its map is not looked at.
const GIVE_UP: u32 = 200;

/// A run of blocks of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) logical: u64,
    pub(super) start: u64,
    pub(super) len: u32,
    pub(super) unwritten: bool,
}

/// What reading the map of an inode is to do, and what came of it.
pub(super) struct Walk {
    ino: Ino,
    generation: u32,
    /// Keep the runs that nothing else has claimed.
    collect: bool,
    /// The runs, in logical order, neighbours joined.
    pub(super) runs: Vec<Run>,
    /// Blocks of the contents.
    pub(super) data: u64,
    /// Clusters of the contents and of the map.
    clusters: u64,
    /// The cluster that the contents met so far end in, logical and on the medium.
    last_cluster: Option<(u64, u64)>,
    /// The last logical block that is mapped and the last that is stored.
    pub(super) last: Option<u64>,
    pub(super) last_written: Option<u64>,
    /// Broken rules.
    pub(super) bad: u32,
}

impl Walk {
    pub(super) fn new(ino: Ino, inode: &Inode, collect: bool) -> Self {
        Self {
            ino,
            generation: inode.generation,
            collect,
            runs: Vec::new(),
            data: 0,
            clusters: 0,
            last_cluster: None,
            last: None,
            last_written: None,
            bad: 0,
        }
    }

    /// Counts a run; `claimed` says that the inode alone claims it, so that it may be followed.
    fn add(&mut self, run: Run, claimed: bool) {
        let end = run.logical + u64::from(run.len);
        self.data += u64::from(run.len);
        self.last = self.last.max(end.checked_sub(1));
        if !run.unwritten {
            self.last_written = self.last_written.max(end.checked_sub(1));
        }
        if !self.collect || !claimed {
            return;
        }
        if let Some(before) = self.runs.last_mut()
            && before.unwritten == run.unwritten
            && before.logical + u64::from(before.len) == run.logical
            && before.start + u64::from(before.len) == run.start
            && let Some(len) = before.len.checked_add(run.len)
        {
            before.len = len;
            return;
        }
        self.runs.push(run);
    }

    /// Bytes that the runs and each other part of the inode take, in units of 512.
    pub(super) fn sectors(&self, cluster_size: u64) -> u64 {
        self.clusters.saturating_mul(cluster_size / 512)
    }

    /// Reads the whole map of an inode that has one.
    pub(super) fn read_map(&mut self, checker: &mut Checker<'_>, inode: &Inode) -> Result<()> {
        if is_inline(inode) {
            self.bad_map(checker, None, "its contents lie in the inode".into());
            return Ok(());
        }
        if inode.has_extents() {
            return self.extent_node(checker, &inode.i_block, None, None, u64::from(extent::MAX_LOGICAL));
        }
        let entries = checker.block_size() as u64 / 4;
        for i in 0..12 {
            self.pointer(checker, inode.block_word(i), i as u64, 0)?;
        }
        let mut logical = 12;
        for level in 1..=3u32 {
            self.pointer(checker, inode.block_word(11 + level as usize), logical, level)?;
            logical += entries.pow(level);
        }
        Ok(())
    }

    pub(super) fn bad_map(&mut self, checker: &mut Checker<'_>, block: Option<u64>, text: String) {
        self.bad += 1;
        if self.bad <= TOLD {
            checker.problem("block map", Where { block, inode: Some(self.ino) }, text);
        } else if self.bad == TOLD + 1 {
            checker.problem("block map", Where::inode(self.ino), "more pointers are wrong");
        }
    }

    /// Claims blocks for an inode; false if one of them had been claimed, or cannot be.
    fn take(&mut self, checker: &mut Checker<'_>, start: u64, len: u32, what: &str) -> bool {
        if !checker.on_volume(start, len.into()) {
            let end = start.saturating_add(len.into());
            self.bad_map(checker, None, format!("{what} {start}..{end} does not lie on the volume"));
            return false;
        }
        let Some((block, count)) = checker.space.claim(start, len.into()) else { return true };
        let own = checker.space.is_metadata(block);
        if !own && checker.shares_blocks() {
            return false;
        }
        let whose = if own { "the file system itself" } else { "another file, or twice here" };
        self.bad_map(checker, Some(block), format!("{count} blocks from here on are in use by {whose}"));
        false
    }

    /// Claims the clusters of a run of contents that begins with block `logical`; neighbours may share one.
    fn take_clusters(&mut self, checker: &mut Checker<'_>, logical: u64, start: u64, len: u64) {
        let ratio = u64::from(checker.sb.cluster_ratio());
        if ratio == 1 {
            self.clusters += len;
            return;
        }
        if logical % ratio != start % ratio {
            let text = format!("logical block {logical} does not lie in its place in a cluster");
            return self.bad_map(checker, Some(start), text);
        }
        let (first, last) = (start / ratio, (start + (len - 1)) / ratio);
        let shared = self.last_cluster == Some((logical / ratio, first));
        let own = first + u64::from(shared);
        self.last_cluster = Some(((logical + (len - 1)) / ratio, last));
        if own > last {
            return;
        }
        self.clusters += last + 1 - own;
        if let Some(block) = checker.space.mark_clusters(own * ratio, (last + 1 - own) * ratio)
            && !checker.shares_blocks()
        {
            self.bad_map(checker, Some(block), "its cluster is in use by something else, or twice here".into());
        }
    }

    /// Claims the cluster of a block of the map itself.
    fn take_map_cluster(&mut self, checker: &mut Checker<'_>, block: u64) {
        self.clusters += 1;
        if let Some(block) = checker.space.mark_clusters(block, 1) {
            self.bad_map(checker, Some(block), "its cluster is in use by something else".into());
        }
    }

    /// One node of an extent tree. The index above it demands where its entries begin, and they may reach to `end`.
    fn extent_node(
        &mut self,
        checker: &mut Checker<'_>,
        bytes: &[u8],
        depth: Option<u16>,
        above: Option<&extent::Index>,
        end: u64,
    ) -> Result<()> {
        let block = above.map(|index| index.leaf);
        let node = match Node::parse(bytes, depth, Place::NONE) {
            Ok(node) => node,
            Err(e) => {
                self.bad_map(checker, block, super::report::words(&e).1);
                return Ok(());
            }
        };
        match (above.map(|index| index.logical), node.logical(0)) {
            (Some(_), None) => self.bad_map(checker, block, "a node below the root without entries".into()),
            (Some(want), Some(first)) if want != first => {
                self.bad_map(checker, block, format!("a node begins at logical block {first}, its index at {want}"));
            }
            _ => {}
        }
        if node.is_leaf() {
            node.extents().for_each(|extent| self.extent(checker, &extent, end, block));
            return Ok(());
        }
        for i in 0..node.len() {
            let Some(index) = node.index(i) else { break };
            if u64::from(index.logical) >= end {
                self.bad_map(checker, block, format!("index {i} begins behind the end of its node"));
            }
            let end = node.logical(i + 1).map_or(end, u64::from);
            self.extent_child(checker, index, node.depth(), end)?;
        }
        Ok(())
    }

    fn extent_child(&mut self, checker: &mut Checker<'_>, index: extent::Index, depth: u16, end: u64) -> Result<()> {
        if self.bad > GIVE_UP || !self.take(checker, index.leaf, 1, "extent node") {
            return Ok(());
        }
        self.take_map_cluster(checker, index.leaf);
        let bytes = checker.read(index.leaf)?;
        if let Some(seed) = checker.sb.inode_seed(self.ino, self.generation)
            && let Err(e) = extent::verify(&bytes, seed, Place::NONE)
        {
            checker.broken(Where::inode(self.ino).in_block(index.leaf), &e);
        }
        self.extent_node(checker, &bytes, depth.checked_sub(1), Some(&index), end)
    }

    fn extent(&mut self, checker: &mut Checker<'_>, extent: &Extent, end: u64, block: Option<u64>) {
        if self.bad > GIVE_UP {
            return;
        }
        if extent.end() > end {
            let text = format!("the extent at logical block {} passes the end of its node", extent.logical);
            self.bad_map(checker, block, text);
        }
        let claimed = self.take(checker, extent.start, extent.len, "extent");
        if checker.on_volume(extent.start, extent.len.into()) {
            let run = Run {
                logical: extent.logical.into(),
                start: extent.start,
                len: extent.len,
                unwritten: extent.unwritten,
            };
            self.add(run, claimed);
            self.take_clusters(checker, extent.logical.into(), extent.start, extent.len.into());
        }
    }

    /// A pointer of a block map: to contents (level 0), or to a block of pointers.
    fn pointer(&mut self, checker: &mut Checker<'_>, block: u32, logical: u64, level: u32) -> Result<()> {
        if block == 0 || self.bad > GIVE_UP {
            return Ok(());
        }
        let start = u64::from(block);
        if level == 0 {
            let claimed = self.take(checker, start, 1, "block");
            if checker.on_volume(start, 1) {
                self.add(Run { logical, start, len: 1, unwritten: false }, claimed);
                self.take_clusters(checker, logical, start, 1);
            }
            return Ok(());
        }
        if !self.take(checker, start, 1, "indirect block") {
            return Ok(());
        }
        self.take_map_cluster(checker, start);
        let bytes = checker.read(start)?;
        let step = (checker.block_size() as u64 / 4).pow(level - 1);
        for (i, entry) in (0..).zip(bytes.chunks_exact(4)) {
            let entry = u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
            self.pointer(checker, entry, logical + i * step, level - 1)?;
        }
        Ok(())
    }
}

impl Checker<'_> {
    /// Whether files may have blocks in common: on volumes that are never written to.
    fn shares_blocks(&self) -> bool {
        self.sb.has_ro_compat(RoCompat::SHARED_BLOCKS)
    }
}
