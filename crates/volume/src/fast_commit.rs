//! Replaying fast commits: ordinary operations that do what each of them tells.
//!
//! A fast commit tells the state of inodes and names after an fsync, in an order in which each change can be done
//! again: what is there already stays. How the result becomes durable in one step is the caller's matter; what is done
//! here is not atomic as a whole.

use crate::alloc::Need;
use crate::dir::ops::{check_name, is_dots};
use crate::dir::{NewEntry, Search, find_in, init, insert_name, remove_name};
use crate::file::{self, Mapped};
use crate::node::{Node, NodeGuard};
use crate::op::{Cost, Op};
use crate::{Error, Ino, Result, Volume};
use ondol_env::sync::Arc;
use ondol_format::Inode;
use ondol_format::extent::Extent;
use ondol_format::inode::InodeFlags;
use ondol_format::jbd2::{FastCommit, Named};
use ondol_journal::Extent as Blocks;
use std::collections::BTreeSet;

/// Journal blocks that are enough for every single change.
const ENOUGH: u32 = 96;
/// Blocks for nodes of trees and of directories.
const NODES: u64 = 16;

fn unsupported(what: impl std::fmt::Display) -> Error {
    Error::Unsupported(format!("a fast commit with {what}: mount the image once with the kernel, or run e2fsck on it"))
}

fn corrupt(ino: Ino, what: impl Into<String>) -> Error {
    Error::corrupt(format!("fast commit of inode {ino}"), 0, what)
}

/// What one replay knows.
struct Replay<'v> {
    vol: &'v Volume,
    /// Blocks that were free and that commits will map: nothing else may take them.
    claimed: Vec<Blocks>,
    /// Inodes that lost names.
    unlinked: BTreeSet<Ino>,
}

impl Volume {
    /// Does what the fast commits of a journal tell, in order. To be called before anybody else uses the volume.
    ///
    /// # Errors
    /// `Unsupported` for what is not replayed here (clusters, block maps, attribute blocks); commits that contradict
    /// the volume.
    pub fn replay_fast_commits(&self, commits: &[FastCommit]) -> Result<()> {
        if !commits.is_empty() && self.shared.sb.cluster_ratio() > 1 {
            return Err(unsupported("clusters (bigalloc)"));
        }
        let mut replay = Replay { vol: self, claimed: Vec::new(), unlinked: BTreeSet::new() };
        replay.claim(commits)?;
        commits.iter().try_for_each(|commit| replay.one(commit))?;
        replay.bury()
    }
}

impl<'v> Replay<'v> {
    /// Keeps the blocks that will be mapped from being allocated before.
    fn claim(&mut self, commits: &[FastCommit]) -> Result<()> {
        let shared = &self.vol.shared;
        for commit in commits {
            let FastCommit::AddRange { ino, extent } = commit else { continue };
            if !shared.may_own(extent.start, u64::from(extent.len)) {
                return Err(corrupt(*ino, format!("its blocks from {} on cannot be a file's", extent.start)));
            }
            let blocks = Blocks { start: extent.start, len: extent.len };
            self.claimed.extend(shared.groups.claim_free(&shared.sb, &*self.vol.engine, blocks)?);
        }
        self.claimed.sort_unstable_by_key(|blocks| blocks.start);
        Ok(())
    }

    /// Whether all of a run was free when the replay began.
    fn was_free(&self, start: u64, len: u32) -> bool {
        let (mut at, end) = (start, start + u64::from(len));
        while at < end {
            let i = self.claimed.partition_point(|c| c.start + u64::from(c.len) <= at);
            match self.claimed.get(i).filter(|c| c.start <= at) {
                Some(c) => at = c.start + u64::from(c.len),
                None => return false,
            }
        }
        true
    }

    fn one(&mut self, commit: &FastCommit) -> Result<()> {
        match commit {
            FastCommit::Inode { ino, raw } => self.inode(*ino, raw),
            FastCommit::AddRange { ino, extent } => self.add_range(*ino, *extent),
            FastCommit::DelRange { ino, logical, len } => self.del_range(*ino, *logical, *len),
            FastCommit::Create(named) => self.name(named, true),
            FastCommit::Link(named) => self.name(named, false),
            FastCommit::Unlink(named) => self.unlink(named),
        }
    }

    fn node(&self, ino: Ino) -> Result<Arc<Node>> {
        self.vol.nodes.get_orphan(&self.vol.shared, &*self.vol.engine, ino)
    }

    /// The inode, locked; None if it is not in use.
    fn locked(&self, ino: Ino) -> Result<Option<NodeGuard>> {
        let shared = &self.vol.shared;
        if !shared.sb.may_be_named(ino) || shared.is_journal(ino) {
            return Err(corrupt(ino, "the inode is the file system's own"));
        }
        if !shared.groups.inode_is_used(&shared.sb, &*self.vol.engine, ino)? {
            return Ok(None);
        }
        self.node(ino)?.write().map(Some)
    }

    fn begin(&self, guards: Vec<NodeGuard>, blocks: u64) -> Result<Op<'v>> {
        let journal = ENOUGH.min(self.vol.engine.max_blocks());
        Op::begin(self.vol, guards, Cost { journal, blocks, need: Need::ToFree })
    }

    /// Makes an inode what the commit says, but for its mapping.
    fn inode(&mut self, ino: Ino, raw: &[u8]) -> Result<()> {
        let format = &self.vol.shared.inode_format;
        let mut bytes = vec![0; usize::from(format.inode_size)];
        let told = raw.len().min(bytes.len());
        bytes[..told].copy_from_slice(&raw[..told]);
        let told = Inode::parse(&bytes, ino, format).map_err(|e| corrupt(ino, e.to_string()))?;
        if told.flags.contains(InodeFlags::INLINE_DATA) {
            return Err(unsupported("inline data"));
        }
        let mut old = self.locked(ino)?;
        if let Some(guard) = old.take_if(|guard| guard.state.inode.generation != told.generation) {
            // The number was used again: whoever had it before is gone.
            self.delete(guard)?;
        }
        let Some(guard) = old else { return self.new_inode(ino, told) };
        let kept = &guard.state.inode;
        if kept.file_acl != told.file_acl
            || kept.flags.contains(InodeFlags::EXTENTS) != told.flags.contains(InodeFlags::EXTENTS)
        {
            return Err(unsupported("attributes or another mapping"));
        }
        let size = if told.is_dir() { kept.size } else { told.size };
        let i_block = if told.has_extents() { kept.i_block } else { told.i_block };
        let merged = Inode { i_block, size, blocks: kept.blocks, tail: kept.tail.clone(), dtime: 0, ..told };
        let mut op = self.begin(vec![guard], 0)?;
        *op.inode_mut(ino)? = merged;
        op.close().map(|_| ())
    }

    fn new_inode(&self, ino: Ino, told: Inode) -> Result<()> {
        if told.file_acl != 0 || ((told.is_regular() || told.is_dir()) && !told.has_extents()) {
            return Err(unsupported("a block of attributes or a block map"));
        }
        let tail = vec![0; told.tail.len()].into();
        // A directory gets its first block with its name.
        let size = if told.is_dir() { 0 } else { told.size };
        let mut inode = Inode { blocks: 0, dtime: 0, size, tail, ..told };
        if inode.has_extents() {
            file::init_mapping(self.vol, &mut inode);
        }
        let mut op = self.begin(Vec::new(), 0)?;
        op.take_inode(ino, inode)?;
        op.close().map(|_| ())
    }

    fn add_range(&self, ino: Ino, extent: Extent) -> Result<()> {
        let Some(mut guard) = self.locked(ino)? else { return Ok(()) };
        if !guard.state.inode.has_extents() {
            return Err(unsupported("a block map"));
        }
        let end = extent.logical + extent.len;
        let mut at = extent.logical;
        while at < end {
            let run = file::map(&mut &*self.vol, ino, &guard.state.inode, at)?;
            let len = run.len.min(end - at);
            let start = extent.start + u64::from(at - extent.logical);
            let (same, unwritten) = match run.what {
                Mapped::Written(block) => (block == start, false),
                Mapped::Unwritten(block) => (block == start, true),
                Mapped::Hole => (false, false),
            };
            let mut op = self.begin(vec![guard], u64::from(len) + NODES)?;
            if !same && run.what != Mapped::Hole {
                // Another block was there before: it goes, and the hole is looked at again.
                file::unmap(&mut op, ino, at, at + len)?;
            } else {
                let new = Extent { logical: at, start, len, unwritten: extent.unwritten };
                match same {
                    true if unwritten == extent.unwritten => {}
                    true => file::convert_run(&mut op, ino, at, at + len, extent.unwritten)?,
                    false if self.was_free(start, len) => file::map_run(&mut op, ino, new)?,
                    false => return Err(corrupt(ino, format!("block {start} is in use by something else"))),
                }
                at += len;
            }
            guard = op.close_holding(ino)?;
        }
        Ok(())
    }

    fn del_range(&self, ino: Ino, logical: u32, len: u32) -> Result<()> {
        let Some(mut guard) = self.locked(ino)? else { return Ok(()) };
        if !guard.state.inode.has_extents() {
            return Err(unsupported("a block map"));
        }
        let (mut at, end) = (logical, logical.saturating_add(len));
        while at < end {
            let mut op = self.begin(vec![guard], NODES)?;
            let next = file::unmap(&mut op, ino, at, end)?;
            guard = op.close_holding(ino)?;
            if next <= at {
                return Err(corrupt(ino, "its blocks cannot be freed"));
            }
            at = next;
        }
        Ok(())
    }

    /// Gives an inode a name that it may have already.
    fn name(&mut self, named: &Named, create: bool) -> Result<()> {
        let Named { parent, ino, name } = named;
        let (parent, ino) = (*parent, *ino);
        if check_name(name).is_err() || is_dots(name) {
            return Err(corrupt(parent, format!("'{}' is no name", ondol_format::printable(name))));
        }
        let Some(mut dir) = self.locked(parent)? else { return Ok(()) };
        let slot = loop {
            match find_in(&mut &*self.vol, parent, &dir.state.inode, name)? {
                Search::Found(entry) if entry.ino == ino => return Ok(()),
                Search::Found(entry) => {
                    // Whoever had the name has lost it.
                    drop(dir);
                    self.unlink(&Named { parent, ino: entry.ino, name: name.clone() })?;
                    let Some(again) = self.locked(parent)? else { return Ok(()) };
                    dir = again;
                }
                Search::Absent(_) if parent == ino => return Err(corrupt(ino, "it would lie in itself")),
                Search::Absent(slot) => break slot,
            }
        };
        let Some(target) = self.locked(ino)? else { return Ok(()) };
        let needs = slot.needs(&dir.state.inode)?;
        let (is_dir, links) = (target.state.inode.is_dir(), target.state.inode.links);
        let mut op = self.begin(vec![dir, target], needs.blocks + NODES)?;
        if is_dir && op.inode(ino)?.size == 0 {
            init::init_dir(&mut op, ino, parent)?;
            op.inode_mut(ino)?.links = links;
            crate::dir::ops::add_subdir(op.inode_mut(parent)?);
        }
        let file_type = init::code_of(&op, ino)?;
        insert_name(&mut op, parent, slot, NewEntry { name, ino, file_type })?;
        if !create {
            op.inode_mut(ino)?.links = links.saturating_add(1);
        }
        op.close().map(|_| ())
    }

    /// Takes a name from an inode, if it has it.
    fn unlink(&mut self, named: &Named) -> Result<()> {
        let Named { parent, ino, name } = named;
        let Some(dir) = self.locked(*parent)? else { return Ok(()) };
        let entry = match find_in(&mut &*self.vol, *parent, &dir.state.inode, name)? {
            Search::Found(entry) if entry.ino == *ino && ino != parent => entry,
            _ => return Ok(()),
        };
        let guards = [Some(dir), self.locked(*ino)?].into_iter().flatten().collect();
        let mut op = self.begin(guards, NODES)?;
        remove_name(&mut op, *parent, &entry)?;
        if op.holds(*ino) {
            let inode = op.inode_mut(*ino)?;
            let is_dir = inode.is_dir();
            inode.links = if is_dir { 0 } else { inode.links.saturating_sub(1) };
            if is_dir {
                crate::dir::ops::drop_subdir(op.inode_mut(*parent)?);
            }
            self.unlinked.insert(*ino);
        }
        op.close().map(|_| ())
    }

    /// Deletes what has no names any more.
    fn bury(&self) -> Result<()> {
        for &ino in &self.unlinked {
            match self.locked(ino)? {
                Some(guard) if guard.state.inode.links == 0 => self.delete(guard)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn delete(&self, mut guard: NodeGuard) -> Result<()> {
        if guard.state.inode.links > 0 {
            let ino = guard.node.ino;
            let mut op = self.begin(vec![guard], 0)?;
            op.inode_mut(ino)?.links = 0;
            guard = op.close_holding(ino)?;
        }
        self.vol.inode_ops().delete_locked(guard)
    }
}
