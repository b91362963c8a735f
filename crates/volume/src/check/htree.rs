//! Indexed directories: that every block is reached once, and every name is where it is looked for.

use super::dir::{Bounds, DirectoryPass, Leaf, Names};
use super::report::Where;
use crate::Result;
use ondol_format::dirent::DirBlock;
use ondol_format::htree::{self, DxBlock, DxEntry};
use ondol_format::{Compat, Incompat, Place};

/// The walk over one tree.
struct Tree {
    /// Which directory, by its place in the list.
    dir: usize,
    /// Blocks that the index has named.
    seen: Vec<bool>,
    names: Names,
    /// Where a name of its last leaf may go on in the next: the hash with its low bit set.
    bad: bool,
}

impl DirectoryPass<'_, '_> {
    pub(super) fn check_htree(&mut self, at: usize) -> Result<()> {
        let place = Where::inode(self.checker.dirs[at].ino);
        if !self.checker.sb.has_compat(Compat::DIR_INDEX) {
            self.checker.problem("htree", place, "an indexed directory on a volume without dir_index");
        }
        let Some(block) = self.dir_block(at, 0) else {
            self.checker.problem("htree", place, "it has no root");
            return Ok(());
        };
        let bytes = self.checker.read(block)?;
        let place = place.in_block(block);
        self.verify_dx(at, place, &bytes);
        self.check_dots(at, place, &bytes);
        let levels = htree::max_levels(self.checker.sb.has_incompat(Incompat::LARGEDIR));
        let (info, root) = match DxBlock::root(&bytes, self.checker.has_csum(), levels, Place::NONE) {
            Ok(root) => root,
            Err(e) => {
                self.checker.broken(place, &e);
                return Ok(());
            }
        };
        let blocks = self.checker.dirs[at].blocks as usize;
        let mut hash = self.checker.sb.dx_hash_of(info.hash_version);
        // Whoever has made names since Linux writes the hint has written it; names of before are of signed characters.
        hash.unsigned &= self.checker.sb.raw().has_hash_hint();
        // Bounded by the blocks that the directory really has, whatever its size says.
        let mapped: usize = self.checker.dirs[at].runs.iter().map(|run| run.len as usize).sum();
        let mut tree = Tree { dir: at, seen: vec![false; blocks.min(mapped)], names: Names::new(), bad: false };
        if let Some(root_seen) = tree.seen.first_mut() {
            *root_seen = true;
        }
        self.check_level(&mut tree, root, info.indirect_levels, place, Bounds { hash, from: 0, to: None })?;
        let missed = tree.seen.iter().position(|seen| !seen);
        if let (Some(missed), false) = (missed, tree.bad) {
            self.checker.problem("htree", place, format!("the index does not name block {missed} of the directory"));
        }
        Ok(())
    }

    /// The entries of an index block, and everything below. `bounds` are of what the block may cover.
    fn check_level(
        &mut self,
        tree: &mut Tree,
        dx: DxBlock<'_>,
        levels: u8,
        place: Where,
        bounds: Bounds,
    ) -> Result<()> {
        if let Err(e) = dx.check(tree.seen.len() as u32, Place::NONE) {
            tree.bad = true;
            self.checker.broken(place, &e);
            return Ok(());
        }
        for i in 0..dx.count() {
            let Some(entry) = dx.entry(i) else { break };
            let from = if i == 0 { bounds.from } else { entry.hash };
            let to = dx.entry(i + 1).map(|next| next.hash).or(bounds.to);
            if from & !1 < bounds.from & !1 || bounds.to.is_some_and(|end| from & !1 > end & !1) {
                self.checker.problem(
                    "htree",
                    place,
                    format!("entry {i} with hash {from:#x} does not belong into this block"),
                );
            }
            self.check_child(tree, entry, levels, place, Bounds { from, to, ..bounds })?;
        }
        Ok(())
    }

    fn check_child(&mut self, tree: &mut Tree, entry: DxEntry, levels: u8, place: Where, bounds: Bounds) -> Result<()> {
        let logical = entry.block;
        match tree.seen.get_mut(logical as usize) {
            Some(seen) if !*seen => *seen = true,
            _ => {
                tree.bad = true;
                self.checker.problem("htree", place, format!("block {logical} of the directory is named twice"));
                return Ok(());
            }
        }
        let Some(block) = self.dir_block(tree.dir, logical) else { return Ok(()) };
        let bytes = self.checker.read(block)?;
        let place = place.in_block(block);
        if levels == 0 {
            // Only names of one hash that spans two leaves can meet across them.
            if bounds.from & 1 == 0 {
                tree.names.clear();
            }
            self.check_leaf(tree.dir, block, &bytes, Leaf::Hashed(bounds), &mut tree.names);
            return Ok(());
        }
        self.verify_dx(tree.dir, place, &bytes);
        match DxBlock::node(&bytes, self.checker.has_csum(), Place::NONE) {
            Ok(node) => self.check_level(tree, node, levels - 1, place, bounds),
            Err(e) => {
                tree.bad = true;
                self.checker.broken(place, &e);
                Ok(())
            }
        }
    }

    fn verify_dx(&mut self, at: usize, place: Where, bytes: &[u8]) {
        let dir = &self.checker.dirs[at];
        if let Some(seed) = self.checker.sb.inode_seed(dir.ino, dir.generation)
            && let Err(e) = htree::verify(bytes, seed, Place::NONE)
        {
            self.checker.broken(place, &e);
        }
    }

    /// "." and ".." of a root, which looks like a block with two entries.
    fn check_dots(&mut self, at: usize, place: Where, bytes: &[u8]) {
        let Ok(view) = DirBlock::new(bytes, false, Place::NONE) else { return };
        for (offset, dot) in [(0, true), (12, false)] {
            match view.entry_at(offset) {
                Ok(entry) => self.check_dot(at, place, &entry, dot, &view),
                Err(e) => self.checker.broken(place, &e),
            }
        }
    }

    /// Where block `logical` of a directory lies.
    fn dir_block(&self, at: usize, logical: u32) -> Option<u64> {
        let runs = &self.checker.dirs[at].runs;
        let i = runs.partition_point(|run| run.logical + u64::from(run.len) <= u64::from(logical));
        let run = runs.get(i)?;
        u64::from(logical).checked_sub(run.logical).map(|from| run.start + from)
    }
}
