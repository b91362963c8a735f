//! Fewer blocks: what lies behind the new end is moved before it, then groups are cut off.
//!
//! A step copies contents to free clusters and writes a new mapping to others; the transaction then changes the inode
//! and the bitmaps. Blocks that it frees are not used again before it is durable, so whichever version of the inode
//! counts, what it names is whole.

use super::edit::Edit;
use super::scan::{Mapped, join};
use super::space::Space;
use super::{ResizeStep, shape, spread};
use crate::{Error, Ino, Replay, Result};
use ondol_format::extent::Extent;
use ondol_format::{Compat, Incompat, Inode, Superblock};
use ondol_journal::LogMap;
use std::collections::BTreeMap;

/// Bytes that are copied at once.
const COPY: u64 = 1 << 20;
/// Blocks of one inode that one step moves at most.
const STEP: u64 = 1 << 14;

/// See the module.
pub(super) struct Shrink {
    pub(super) edit: Edit,
    pub(super) space: Space,
    /// Where the volume is to end.
    pub(super) end: u64,
}

/// Clusters that change their place: first block before, first block afterwards, blocks.
type Moves = Vec<(u64, u64, u64)>;

impl Shrink {
    pub(super) fn new(edit: Edit, end: u64) -> Self {
        Self { space: Space::new(&edit, end), edit, end }
    }

    /// Ends the transaction.
    pub(super) fn commit(&mut self) -> Result<()> {
        self.edit.commit()?;
        self.space.durable(&self.edit);
        Ok(())
    }

    /// Ends the transaction if it has grown large.
    pub(super) fn commit_if_large(&mut self) -> Result<()> {
        if self.edit.len() > self.edit.room / 2 { self.commit() } else { Ok(()) }
    }

    /// Takes a block for a mapping.
    pub(super) fn take_node(&mut self) -> Result<u64> {
        Ok(self.space.take(&self.edit, 1)?.start)
    }

    /// Moves everything that files have behind the end.
    pub(super) fn move_blocks(&mut self, tell: &mut dyn FnMut(ResizeStep)) -> Result<()> {
        let (mut files, mut attributes, mut journal) = (Vec::new(), BTreeMap::<u64, Vec<Ino>>::new(), false);
        let (edit, end, log) = (&self.edit, self.end, self.edit.sb.journal_inum());
        edit.each_inode(&mut |ino, inode| {
            if ino == ondol_format::inode::RESIZE_INO {
                return Ok(());
            }
            if edit.mapped(ino, &inode)?.passes(end) {
                if Some(ino) == log {
                    journal = true;
                } else {
                    files.push(ino);
                }
            }
            if inode.file_acl >= end {
                attributes.entry(inode.file_acl).or_default().push(ino);
            }
            Ok(())
        })?;
        self.refuse_fixed()?;
        self.move_metadata()?;
        if journal {
            self.commit()?;
            if self.space.free(&self.edit)? < self.edit.map.blocks().div_ceil(self.edit.sb.cluster_ratio().into()) {
                // Where it is, it is in its own way.
                self.space = Space::behind(&self.edit, self.end)?;
                self.move_journal()?;
                self.space = Space::new(&self.edit, self.end);
            }
            self.move_journal()?;
        }
        let total = files.len() as u64;
        for (done, ino) in (1..).zip(files) {
            while self.move_file(ino)? {
                self.commit()?;
            }
            self.commit_if_large()?;
            tell(ResizeStep::Files { done, total });
        }
        for (block, inodes) in attributes {
            self.move_attributes(block, &inodes)?;
            self.commit_if_large()?;
        }
        self.commit()
    }

    /// What stays where it is must lie before the end.
    fn refuse_fixed(&self) -> Result<()> {
        if self.edit.last_fixed()? >= self.end {
            let what = "a volume without the block where multiple mount protection or the resize inode's map lies";
            return Err(Error::Unsupported(what.into()));
        }
        let bad = self.edit.inode(1)?;
        if (0..15).any(|word| bad.block_word(word) != 0) {
            return Err(Error::Unsupported("a smaller volume where bad blocks are listed".into()));
        }
        Ok(())
    }

    /// Which clusters of an inode are to move, and whether there are more than a step takes.
    fn plan(&mut self, mapped: &Mapped) -> Result<(Moves, bool)> {
        let ratio = u64::from(self.edit.sb.cluster_ratio());
        let mut runs: Vec<(u64, u64)> = Vec::new();
        let (mut left, mut more) = (STEP, false);
        let behind = mapped.extents.iter().filter(|e| e.start + u64::from(e.len) > self.end);
        for extent in behind {
            if left == 0 {
                more = true;
                break;
            }
            let from = extent.start.max(self.end);
            let to = extent.start + u64::from(extent.len);
            let (from, to) = (from - from % ratio, to.next_multiple_of(ratio));
            let from = runs.last().map_or(from, |&(start, len)| match start + len {
                // Two extents may share a cluster.
                known if start <= from && from < known => known,
                _ => from,
            });
            let len = to.saturating_sub(from).min(left.next_multiple_of(ratio));
            more |= len < to.saturating_sub(from);
            left = left.saturating_sub(len);
            if len > 0 {
                runs.push((from, len));
            }
        }
        let mut moves = Vec::new();
        for (mut from, mut len) in runs {
            while len > 0 {
                let to = self.space.take(&self.edit, len / ratio)?;
                let taken = to.end - to.start;
                moves.push((from, to.start, taken));
                (from, len) = (from + taken, len - taken);
            }
        }
        moves.sort_unstable();
        Ok((moves, more))
    }

    /// Moves what an inode has behind the end, or as much of it as a step takes; says whether there is more.
    fn move_file(&mut self, ino: Ino) -> Result<bool> {
        let mut inode = self.edit.inode(ino)?;
        let mapped = self.edit.mapped(ino, &inode)?;
        let (moves, more) = self.plan(&mapped)?;
        let own_number = self.edit.sb.orphan_file_inum() == Some(ino);
        let seed = own_number.then(|| self.edit.sb.inode_seed(ino, inode.generation)).flatten();
        let extents = spread::moved(&mapped.extents, &moves);
        for (before, after) in extents.iter().filter(|(before, after)| before.start != after.start) {
            if !before.unwritten {
                self.copy(before.start, after.start, before.len.into(), seed)?;
            }
        }
        let mut list = Vec::new();
        extents.into_iter().for_each(|(_, after)| join(&mut list, after, u32::MAX));
        self.remap(ino, &mut inode, &mapped, &list)?;
        for (from, to, len) in moves {
            self.edit.mark(from..from + len, false)?;
            self.edit.mark(to..to + len, true)?;
        }
        Ok(more)
    }

    /// Gives an inode a new mapping.
    fn remap(&mut self, ino: Ino, inode: &mut Inode, old: &Mapped, extents: &[Extent]) -> Result<()> {
        let ratio = u64::from(self.edit.sb.cluster_ratio());
        let nodes = self.build(ino, inode, extents)?;
        let sectors = ratio * self.edit.block_size() as u64 / 512;
        inode.blocks = (inode.blocks + nodes.len() as u64 * sectors).saturating_sub(old.nodes.len() as u64 * sectors);
        for &node in &old.nodes {
            self.edit.mark(node..node + 1, false)?;
            self.space.free_later(node);
        }
        for node in nodes {
            self.edit.mark(node..node + 1, true)?;
        }
        self.edit.put_inode(ino, inode)
    }

    /// Copies blocks; those of an orphan file, whose checksums begin with `orphans`, say where they lie.
    fn copy(&self, mut from: u64, mut to: u64, mut len: u64, orphans: Option<u32>) -> Result<()> {
        let size = self.edit.block_size();
        while len > 0 {
            let n = len.min(COPY / size as u64);
            let mut bytes = self.edit.stored(from, n)?;
            if let Some(seed) = orphans {
                let blocks = bytes.chunks_exact_mut(size).zip(to..);
                blocks.for_each(|(block, number)| ondol_format::orphan_file::seal(block, seed, number));
            }
            self.edit.write_around(to, &bytes)?;
            (from, to, len) = (from + n, to + n, len - n);
        }
        Ok(())
    }

    /// Moves a block of attributes, which several inodes may share.
    fn move_attributes(&mut self, block: u64, inodes: &[Ino]) -> Result<()> {
        let to = self.space.take(&self.edit, 1)?.start;
        let mut bytes = self.edit.stored(block, 1)?;
        if let Some(seed) = self.edit.sb.csum_seed() {
            ondol_format::xattr::seal_block(&mut bytes, seed, to);
        }
        self.edit.write_around(to, &bytes)?;
        for &ino in inodes {
            let mut inode = self.edit.inode(ino)?;
            inode.file_acl = to;
            self.edit.put_inode(ino, &inode)?;
        }
        self.edit.mark(block..block + 1, false)?;
        self.edit.mark(to..to + 1, true)
    }

    /// Moves the journal as a whole. Its transaction stands in both logs before anything of it is home: see
    /// `journal_swap`.
    fn move_journal(&mut self) -> Result<()> {
        self.commit()?;
        let ino = self.edit.sb.journal_inum().ok_or(Error::Invalid("no journal"))?;
        let mut inode = self.edit.inode(ino)?;
        let old = self.edit.mapped(ino, &inode)?;
        let ratio = u64::from(self.edit.sb.cluster_ratio());
        let (mut extents, mut logical) = (Vec::new(), 0);
        let mut left = self.edit.map.blocks().div_ceil(ratio);
        while left > 0 {
            let run = self.space.take(&self.edit, left)?;
            let len = run.end - run.start;
            left -= len / ratio;
            self.edit.zero(run.start, len)?;
            self.edit.mark(run.clone(), true)?;
            extents.push(Extent { logical, start: run.start, len: len as u32, unwritten: false });
            logical += len as u32;
        }
        // What it had behind its end is not mapped any more.
        let clusters = u64::from(logical) / ratio + old.nodes.len() as u64 + u64::from(inode.file_acl != 0);
        inode.blocks = clusters * ratio * self.edit.block_size() as u64 / 512;
        self.remap(ino, &mut inode, &old, &extents)?;
        for extent in &old.extents {
            self.edit.mark(extent.start..extent.start + u64::from(extent.len), false)?;
            let blocks = extent.start..extent.start + u64::from(extent.len);
            blocks.step_by(ratio as usize).for_each(|block| self.space.free_later(block));
        }
        // The last cluster may be more than the journal has.
        let blocks = self.edit.map.blocks();
        let runs = extents.iter().map(|e| (e.start, u64::from(e.len).min(blocks - u64::from(e.logical))));
        let map = LogMap::new(self.edit.sb.block_size(), runs);
        self.guard(Replay::Ondol)?;
        self.edit.raw.set_jnl_blocks(&inode);
        self.edit.copies = true;
        self.edit.commit_to(map)?;
        self.guard(Replay::Anybody)?;
        self.space.durable(&self.edit);
        Ok(())
    }

    /// Says in the superblock who can recover the volume.
    fn guard(&mut self, who: Replay) -> Result<()> {
        crate::Image::open(self.edit.store.clone())?.mark_changing(who)?;
        let mut features = self.edit.raw.features();
        features.incompat.set(Incompat::ONDOL_JOURNAL, who == Replay::Ondol);
        self.edit.raw.set_features(features);
        self.edit.reread()
    }

    /// Moves bitmaps and tables of groups that stay, where they lie behind the end.
    fn move_metadata(&mut self) -> Result<()> {
        let groups = shape::groups(&self.edit.sb, self.end) as u32;
        let table = u64::from(self.edit.sb.inode_table_blocks());
        for g in 0..groups {
            let Some(desc) = self.edit.descs.get(g as usize).copied() else { break };
            let ends = [(desc.block_bitmap, 1), (desc.inode_bitmap, 1), (desc.inode_table, table)];
            if ends.iter().all(|&(at, len)| at + len <= self.end) {
                continue;
            }
            if self.edit.sb.cluster_ratio() > 1 {
                return Err(Error::Unsupported(format!("a smaller volume, where metadata of group {g} lies")));
            }
            for (i, (at, len)) in ends.into_iter().enumerate() {
                if at + len <= self.end {
                    continue;
                }
                let to = self.take_near(g, len)?;
                if i != 0 {
                    self.copy(at, to, len, None)?;
                } else {
                    let map = self.edit.read_block_bitmap(g)?;
                    self.edit.put(to, map);
                }
                self.edit.place(g, i, to)?;
                self.edit.mark(at..at + len, false)?;
                (at..at + len).for_each(|block| self.space.free_later(block));
                self.edit.mark(to..to + len, true)?;
            }
            self.edit.copies = true;
            self.commit()?;
        }
        Ok(())
    }

    /// Consecutive blocks for metadata of a group: in it, or with flex_bg in any.
    fn take_near(&mut self, g: u32, len: u64) -> Result<u64> {
        let groups = shape::groups(&self.edit.sb, self.end) as usize;
        let flex = self.edit.sb.has_incompat(Incompat::FLEX_BG);
        let others = if flex { 0..groups } else { 0..0 };
        for g in std::iter::once(g as usize).chain(others) {
            if let Some(found) = self.space.take_in(&self.edit, g, len)? {
                return Ok(found.start);
            }
        }
        Err(Error::NoSpace("blocks in a row for metadata"))
    }
}

/// What stands in the way of a size, beside what [`Shrink::refuse_fixed`] looks at.
pub(super) fn refuse(sb: &Superblock, end: u64) -> Result<()> {
    let last = shape::groups(sb, end) * u64::from(sb.inodes_per_group());
    // Whoever recovers a volume finds its journal by this number.
    if sb.journal_inum().is_some_and(|ino| u64::from(ino) > last) {
        return Err(Error::Unsupported("a volume without the inode that its journal is".into()));
    }
    if sb.raw().s_reserved_gdt_blocks.get() > 0 && !sb.has_compat(Compat::RESIZE_INODE) {
        return Err(Error::Unsupported("reserved descriptor blocks without a resize inode: run e2fsck".into()));
    }
    Ok(())
}
