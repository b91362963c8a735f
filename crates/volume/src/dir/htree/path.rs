//! The way from an index's root to a leaf.

use crate::dir::{Dir, bad};
use crate::op::Reader;
use crate::{Error, Result, Volume};
use ondol_format::Incompat;
use ondol_format::hash::{DxHash, HashVersion};
use ondol_format::htree::{DxBlock, DxEntry, max_levels};
use ondol_journal::{Block, Kind};

/// One index block on the way to a leaf, and which of its entries the way takes.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) block: u64,
    pub(super) kind: Kind,
    pub(super) at: usize,
    pub(super) count: usize,
    pub(super) limit: usize,
    /// The block when the way was found.
    pub(super) bytes: Block,
}

/// The way from the root to a leaf.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    /// The hash of this index.
    pub(in crate::dir) version: HashVersion,
    /// Root first; never empty.
    pub(super) frames: Vec<Frame>,
    /// The leaf's physical block.
    pub(in crate::dir) leaf: u64,
    /// Levels that the volume allows below the root.
    pub(super) allowed: u8,
}

/// The hashes that belong into a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::dir) struct Range {
    /// The least, with the collision bit of the index entry.
    pub(in crate::dir) first: u32,
    /// The next leaf's first, with its collision bit; None for the last leaf.
    pub(in crate::dir) next: Option<u32>,
}

impl Range {
    /// Whether a name of this major hash may lie in the leaf.
    pub(in crate::dir) fn contains(&self, major: u32) -> bool {
        let below = self.next.is_none_or(|next| major < next & !1 || self.shared() == Some(major));
        major >= self.first & !1 && below
    }

    /// The hash whose names go on in the next leaf, if there is one.
    pub(in crate::dir) fn shared(&self) -> Option<u32> {
        self.next.filter(|next| next & 1 == 1).map(|next| next & !1)
    }
}

impl Frame {
    /// Reads a node and takes its entry for `major`.
    fn read_node(reader: &mut dyn Reader, dir: &Dir, block: u64, major: u32) -> Result<Self> {
        let bytes = reader.block(block, dir.node_kind())?;
        let view = DxBlock::node(&bytes, dir.csum, dir.place(block)).map_err(|e| bad(block, &e))?;
        let (at, count, limit) = (view.search(major), view.count(), view.limit());
        Ok(Self { block, kind: dir.node_kind(), at, count, limit, bytes })
    }

    fn view(&self, dir: &Dir, allowed: u8) -> Result<DxBlock<'_>> {
        let place = dir.place(self.block);
        let view = if self.kind == dir.root_kind() {
            DxBlock::root(&self.bytes, dir.csum, allowed, place).map(|(_, view)| view)
        } else {
            DxBlock::node(&self.bytes, dir.csum, place)
        };
        view.map_err(|e| bad(self.block, &e))
    }

    pub(super) fn is_full(&self) -> bool {
        self.count >= self.limit
    }
}

impl Path {
    /// The root, and from it the way to the leaf for the hash that `major` computes.
    pub(in crate::dir) fn find(reader: &mut dyn Reader, dir: &Dir, major: impl FnOnce(DxHash) -> u32) -> Result<Self> {
        let allowed = levels_allowed(reader.volume());
        let block = dir.physical(reader, 0)?;
        let bytes = reader.block(block, dir.root_kind())?;
        let root = DxBlock::root(&bytes, dir.csum, allowed, dir.place(block));
        let (info, view) = root.map_err(|e| bad(block, &e))?;
        let major = major(dir.hasher(reader.volume(), Some(info.hash_version)));
        let (at, count, limit) = (view.search(major), view.count(), view.limit());
        let root = Frame { block, kind: dir.root_kind(), at, count, limit, bytes: bytes.clone() };
        let mut path = Self { version: info.hash_version, frames: vec![root], leaf: 0, allowed };
        path.descend(reader, dir, usize::from(info.indirect_levels) + 1, major)?;
        Ok(path)
    }

    /// Goes on to the leaf of an index of `depth` levels.
    fn descend(&mut self, reader: &mut dyn Reader, dir: &Dir, depth: usize, major: u32) -> Result<()> {
        while self.frames.len() < depth {
            let block = dir.physical(reader, self.entry(dir)?.block)?;
            self.frames.push(Frame::read_node(reader, dir, block, major)?);
        }
        self.leaf = dir.physical(reader, self.entry(dir)?.block)?;
        Ok(())
    }

    fn last(&self) -> &Frame {
        &self.frames[self.frames.len() - 1]
    }

    /// The entry that the last frame takes, checked.
    fn entry(&self, dir: &Dir) -> Result<DxEntry> {
        let frame = self.last();
        let entry = frame.view(dir, self.allowed)?.entry(frame.at);
        entry.filter(|e| e.block > 0 && e.block < dir.blocks).ok_or_else(|| {
            let to = entry.map_or(0, |e| e.block);
            dir.corrupt(frame.block, format!("index entry {} points to block {to} of {}", frame.at, dir.blocks))
        })
    }

    /// Which hashes the leaf holds.
    pub(in crate::dir) fn range(&self, dir: &Dir) -> Result<Range> {
        let mut range = Range { first: 0, next: None };
        for frame in &self.frames {
            let view = frame.view(dir, self.allowed)?;
            if frame.at > 0 {
                range.first = view.entry(frame.at).map_or(range.first, |e| e.hash);
            }
            range.next = view.entry(frame.at + 1).map(|e| e.hash).or(range.next);
        }
        if range.next.is_some_and(|next| next < range.first) {
            return Err(dir.corrupt(self.last().block, "index hashes are out of order"));
        }
        Ok(range)
    }

    /// Moves on to the next leaf; false if there is none.
    pub(super) fn advance(&mut self, reader: &mut dyn Reader, dir: &Dir) -> Result<bool> {
        let depth = self.frames.len();
        for level in (0..depth).rev() {
            let frame = &mut self.frames[level];
            if frame.at + 1 < frame.count {
                frame.at += 1;
                self.frames.truncate(level + 1);
                self.descend(reader, dir, depth, 0)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Checks all entries of the way's index blocks, which are about to be changed.
    pub(super) fn check(&self, dir: &Dir) -> Result<()> {
        for frame in &self.frames {
            let view = frame.view(dir, self.allowed)?;
            view.check(dir.blocks, dir.place(frame.block)).map_err(|e| bad(frame.block, &e))?;
        }
        Ok(())
    }

    /// Index blocks on the way.
    pub(in crate::dir) fn levels(&self) -> u32 {
        self.frames.len() as u32
    }

    /// Index blocks to be added before the last one can take another entry: one for each full one from the leaf up. A
    /// full root moves into a node, which is larger.
    pub(in crate::dir) fn new_nodes(&self) -> u32 {
        self.frames.iter().rev().take_while(|f| f.is_full()).count() as u32
    }

    /// Whether the index cannot take another leaf here.
    pub(super) fn is_full(&self) -> bool {
        self.new_nodes() == self.levels() && self.frames.len() > usize::from(self.allowed)
    }

    /// More leaves than the directory has blocks.
    pub(super) fn endless(&self, dir: &Dir) -> Error {
        dir.corrupt(self.frames[0].block, "the index names more leaves than the directory has blocks")
    }
}

/// The levels of nodes that a volume's indexes may have.
fn levels_allowed(vol: &Volume) -> u8 {
    max_levels(vol.shared.sb.has_incompat(Incompat::LARGEDIR))
}
