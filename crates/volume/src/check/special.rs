//! The file system's own inodes: bad blocks, resize inode, journal, orphan file.

use super::Checker;
use super::inodes::Entry;
use super::map::Walk;
use super::report::Where;
use crate::{Ino, Result};
use ondol_format::inode::{FileType, RESIZE_INO};
use ondol_format::{Compat, Inode};
use ondol_journal::{LogMap, jbd2};
use std::collections::HashSet;

/// The inode whose blocks are the bad ones.
const BAD_INO: Ino = 1;

/// Most bytes that a file with a block map can have, as far as its pointers go.
pub(super) fn most_mapped(block_size: u64) -> u64 {
    let entries = block_size / 4;
    (12 + entries + entries.pow(2) + entries.pow(3)).saturating_mul(block_size)
}

impl Checker<'_> {
    /// Checks a reserved inode, the journal or the orphan file.
    pub(super) fn check_special(&mut self, ino: Ino, inode: &Inode) -> Result<()> {
        if Some(ino) == self.sb.orphan_file_inum() {
            // Read before all others, because it says which inodes are orphans.
            return Ok(());
        }
        match ino {
            RESIZE_INO => self.check_resize_inode(inode),
            _ if inode.mode == 0 && ino != BAD_INO => Ok(()),
            _ if Some(ino) == self.sb.journal_inum() => self.check_journal(ino, inode),
            _ => self.check_reserved(ino, inode).map(|_| ()),
        }
    }

    /// Claims what a reserved inode has, and checks its count of blocks.
    pub(super) fn check_reserved(&mut self, ino: Ino, inode: &Inode) -> Result<Walk> {
        let mut walk = Walk::new(ino, inode, true);
        let nobodys = [u32::from(inode.mode), inode.uid, inode.gid, u32::from(inode.links)] == [0; 4];
        if ino == BAD_INO && (!nobodys || inode.file_acl != 0) {
            self.problem("inode", Where::inode(ino), "the inode of bad blocks has more than those");
        }
        if !inode.is_regular() && ino != BAD_INO {
            self.problem("inode", Where::inode(ino), format!("mode {:#o} of a reserved inode", inode.mode));
            return Ok(walk);
        }
        walk.read_map(self, inode)?;
        let mut sectors = walk.sectors(self.cluster_size());
        sectors += self.check_xattrs(ino, inode)?;
        if sectors != inode.blocks && walk.bad == 0 {
            let text = format!("i_blocks is {}, but {sectors} units of 512 bytes are in use", inode.blocks);
            self.problem("inode", Where::inode(ino), text);
        }
        Ok(walk)
    }

    /// Where the superblock says the journal is, there is a file.
    pub(super) fn check_has_journal(&mut self) {
        let Some(ino) = self.sb.journal_inum() else { return };
        if self.found.get(ino).and_then(|found| found.file_type) != Some(FileType::Regular) {
            self.problem("journal", Where::inode(ino), "its inode is not a regular file");
        }
    }

    fn check_journal(&mut self, ino: Ino, inode: &Inode) -> Result<()> {
        let walk = self.check_reserved(ino, inode)?;
        let blocks = inode.size / self.block_size() as u64;
        // Old makers have mapped a block behind the end, as the kernel and e2fsck let them.
        let mut runs = Vec::new();
        let mut mapped = 0;
        for run in walk.runs.iter().take_while(|run| !run.unwritten) {
            let len = u64::from(run.len).min(blocks.saturating_sub(mapped));
            if run.logical != mapped || len == 0 {
                break;
            }
            runs.push((run.start, len));
            mapped += len;
        }
        if walk.bad > 0 || mapped < blocks || blocks == 0 || walk.last.is_some_and(|last| last > blocks) {
            let text = format!("{blocks} blocks, but {} are mapped, the first {mapped} without a hole", walk.data);
            self.problem("journal", Where::inode(ino), text);
            return Ok(());
        }
        let map = LogMap::new(self.sb.block_size(), runs);
        let checked = jbd2::info(self.store, &map).map_err(crate::Error::from);
        match checked {
            Ok(info) if info.dirty => {
                self.problem("journal", Where::inode(ino), "it holds transactions");
            }
            Ok(info) if info.users > 1 => {
                let text = format!("it is that of {} file systems, and lies in one", info.users);
                self.problem("journal", Where::inode(ino), text);
            }
            Ok(_) => {}
            Err(e) => {
                if let Some(e) = super::unless_store(Err(e))? {
                    self.problem("journal", Where::inode(ino), e.to_string());
                }
            }
        }
        Ok(())
    }

    /// The resize inode owns the reserved descriptor blocks: its double-indirect block points to those of the first
    /// group, and each of these, read as an indirect block, to its copies in the groups with a superblock copy.
    fn check_resize_inode(&mut self, inode: &Inode) -> Result<()> {
        let place = Where::inode(RESIZE_INO);
        let sb = self.sb;
        let dind = u64::from(inode.block_word(13));
        if !sb.has_compat(Compat::RESIZE_INODE) || (dind == 0 && inode.blocks == 0) {
            if dind != 0 || inode.blocks != 0 {
                self.problem("resize inode", place, "it has blocks, but the volume has no resize_inode");
            }
            return Ok(());
        }
        let others = (0..15).any(|i| i != 13 && inode.block_word(i) != 0);
        if others || !inode.is_regular() || inode.links == 0 || !self.on_volume(dind, 1) {
            self.problem("resize inode", place, "not one double-indirect block and nothing else");
            return Ok(());
        }
        if self.space.claim(dind, 1).is_some() || self.space.mark_clusters(dind, 1).is_some() {
            self.problem("resize inode", place.in_block(dind), "its double-indirect block is in use by something else");
        }
        let pointers = self.read(dind)?;
        let word = |bytes: &[u8], i: usize| {
            bytes.get(i * 4..).and_then(|b| b.first_chunk()).map_or(0, |b| u32::from_le_bytes(*b))
        };
        let reserved = sb.base_meta(0).reserved;
        let entries = self.block_size() / 4;
        let spare = sb.gdt().blocks() as usize..sb.gdt().blocks() as usize + (reserved.end - reserved.start) as usize;
        // Where there are more descriptor blocks than pointers, their index wraps.
        let named: HashSet<usize> = spare.clone().map(|i| i % entries).collect();
        let stray = (0..entries).any(|i| word(&pointers, i) != 0 && !named.contains(&i));
        if stray {
            self.problem("resize inode", place.in_block(dind), "a pointer to what is no reserved descriptor block");
        }
        let copies: Vec<u32> = sb.backups().map(|(g, _)| g).collect();
        for (i, block) in spare.zip(reserved.clone()) {
            let mut right = u64::from(word(&pointers, i % entries)) == block;
            if right {
                let bytes = self.read(block)?;
                let copy = |g: u32| block + u64::from(g) * u64::from(sb.blocks_per_group());
                right = (0..entries).all(|n| u64::from(word(&bytes, n)) == copies.get(n).map_or(0, |&g| copy(g)));
            }
            if !right {
                self.problem(
                    "resize inode",
                    place.in_block(block),
                    "the reserved descriptor block is not linked rightly",
                );
                return Ok(());
            }
        }
        let blocks = 1 + (reserved.end - reserved.start) * (1 + copies.len() as u64);
        // Each counts as the cluster that it lies in.
        if inode.blocks != blocks * (self.cluster_size() / 512) {
            let text = format!("i_blocks is {}, but {blocks} blocks are in use", inode.blocks);
            self.problem("resize inode", place, text);
        }
        Ok(())
    }

    /// Notes an inode that is in use whatever it says.
    pub(super) fn note_special(&mut self, ino: Ino, inode: &Inode) {
        let entry = Entry { used: true, indexed: false, file_type: inode.file_type(), links: inode.links, names: 0 };
        self.found.set(ino, entry);
    }
}
