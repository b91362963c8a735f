//! The first files of a volume: root, lost+found, resize inode, journal and orphan file.

use super::space::Space;
use super::{Options, inodes, refuse};
use crate::dirent::{self, DirBlockMut, Dots};
use crate::error::{Place, Result};
use crate::feature::{Compat, Incompat};
use crate::group::GroupDesc;
use crate::inode::{FileType, Inode, JOURNAL_INO, RESIZE_INO, ROOT_INO};
use crate::jbd2::JournalSuperblock;
use crate::orphan_file;
use crate::superblock::Superblock;
use std::ops::Range;

/// The first inode that is not reserved.
const LOST_FOUND_INO: u32 = 11;
/// The orphan file of a new volume.
pub(super) const ORPHAN_FILE_INO: u32 = 12;
/// Bytes that lost+found has from the beginning, so that e2fsck need not allocate, in at most 12 blocks.
const LOST_FOUND_SIZE: u64 = 16384;
/// Word of i_block that points to the double indirect block.
const DIND: usize = 13;

/// What was made.
#[derive(Debug, Default)]
pub(super) struct Made {
    pub(super) blocks: Vec<(u64, Vec<u8>)>,
    pub(super) zero_blocks: Vec<Range<u64>>,
    pub(super) jnl_blocks: Option<[u32; 17]>,
    pub(super) used_inodes: u32,
}

/// Makes the files one after the other, each taking its blocks from `space`.
struct Maker<'a> {
    sb: &'a Superblock,
    options: &'a Options,
    space: &'a mut Space,
    inodes: Vec<(u32, Inode)>,
    made: Made,
}

pub(super) fn make(
    sb: &Superblock,
    options: &Options,
    journal_blocks: u32,
    descs: &[GroupDesc],
    space: &mut Space,
) -> Result<Made> {
    let mut maker = Maker { sb, options, space, inodes: Vec::new(), made: Made::default() };
    maker.made.used_inodes = LOST_FOUND_INO;
    maker.directories()?;
    if sb.has_compat(Compat::RESIZE_INODE) {
        maker.resize_inode()?;
    }
    if journal_blocks > 0 {
        maker.journal(journal_blocks)?;
    }
    if sb.has_compat(Compat::ORPHAN_FILE) {
        maker.orphan_file()?;
        maker.made.used_inodes = ORPHAN_FILE_INO;
    }
    maker.inode_table(descs)?;
    Ok(maker.made)
}

impl Maker<'_> {
    fn block_size(&self) -> usize {
        self.sb.block_size() as usize
    }

    /// Takes `count` blocks from `goal` on.
    fn allocate(&mut self, goal: u64, count: u64) -> Result<Vec<Range<u64>>> {
        let all = u64::from(self.sb.first_data_block())..self.sb.blocks_count();
        match self.space.allocate(&all, goal, count) {
            Some(runs) => Ok(runs),
            None => refuse(format!("the volume is too small: {count} more blocks do not fit")),
        }
    }

    /// Gives `inode` these blocks and keeps it for the table.
    fn keep(&mut self, ino: u32, mut inode: Inode, runs: &[Range<u64>]) -> Result<()> {
        let leaf = inodes::set_blocks(self.sb, &mut inode, ino, runs, self.space)?;
        self.made.blocks.extend(leaf);
        self.inodes.push((ino, inode));
        Ok(())
    }

    fn directories(&mut self) -> Result<()> {
        let size = self.block_size();
        let csum = self.sb.features().has_metadata_csum();
        let filetype = self.sb.has_incompat(Incompat::FILETYPE);
        let mode = FileType::Directory.mode_bits();
        let count = (LOST_FOUND_SIZE / size as u64).clamp(1, 12);
        let root = self.allocate(0, 1)?;
        let lost = self.allocate(0, count)?;
        let directory = |bytes: &mut Vec<u8>, ino: u32| {
            if let Some(seed) = self.sb.inode_seed(ino, 0) {
                dirent::seal(bytes, seed);
            }
        };
        let dots = |ino| Dots { ino, parent: ROOT_INO, filetype };
        let mut bytes = vec![0; size];
        let mut block = DirBlockMut::init_dot_dotdot(&mut bytes, dots(ROOT_INO), csum, Place::NONE);
        block.insert(b"lost+found", LOST_FOUND_INO, FileType::Directory.dirent_code())?;
        directory(&mut bytes, ROOT_INO);
        let mut blocks = vec![bytes];
        for i in 0..count {
            let mut bytes = vec![0; size];
            if i == 0 {
                DirBlockMut::init_dot_dotdot(&mut bytes, dots(LOST_FOUND_INO), csum, Place::NONE);
            } else {
                DirBlockMut::init_empty(&mut bytes, csum, Place::NONE);
            }
            directory(&mut bytes, LOST_FOUND_INO);
            blocks.push(bytes);
        }
        let places = root.iter().chain(&lost).cloned().flatten();
        self.made.blocks.extend(places.zip(blocks));
        let mut inode = inodes::new_inode(self.sb, self.options, mode | 0o755, 3);
        (inode.uid, inode.gid) = self.options.root_owner;
        self.keep(ROOT_INO, inode, &root)?;
        let inode = inodes::new_inode(self.sb, self.options, mode | 0o700, 2);
        self.keep(LOST_FOUND_INO, inode, &lost)
    }

    /// The resize inode: a block map whose double indirect block lists the reserved descriptor blocks of group 0, each
    /// of which lists the same block of every copy.
    fn resize_inode(&mut self) -> Result<()> {
        let dind_block = self.allocate(0, 1)?[0].start;
        let per_block = self.block_size() / 4;
        let reserved = self.sb.base_meta(0).reserved;
        let copies: Vec<u32> = self.sb.backups().map(|(g, _)| g).collect();
        let group_size = u64::from(self.sb.blocks_per_group());
        let mut dind = vec![0; self.block_size()];
        for (i, block) in reserved.clone().enumerate() {
            put_word(&mut dind, (self.sb.gdt().blocks() as usize + i) % per_block, block);
            let mut list = vec![0; self.block_size()];
            for (slot, g) in copies.iter().enumerate() {
                put_word(&mut list, slot, block + u64::from(*g) * group_size);
            }
            self.made.blocks.push((block, list));
        }
        self.made.blocks.push((dind_block, dind));
        let mut inode = inodes::new_inode(self.sb, self.options, FileType::Regular.mode_bits() | 0o600, 1);
        let count = 1 + (reserved.end - reserved.start) * (1 + copies.len() as u64);
        inode.blocks = count * (self.block_size() as u64 / 512);
        inode.size = (per_block * per_block + per_block + 12) as u64 * self.block_size() as u64;
        inode.set_block_word(DIND, dind_block as u32);
        self.inodes.push((RESIZE_INO, inode));
        Ok(())
    }

    /// The journal, in the middle of the volume: an empty log.
    fn journal(&mut self, count: u32) -> Result<()> {
        let per_flex = self.sb.groups_per_flex();
        let middle = self.sb.groups() / 2;
        let middle = if self.sb.groups() > per_flex { middle / per_flex * per_flex } else { middle.saturating_sub(1) };
        let runs = self.allocate(self.sb.group_first_block(middle), u64::from(count))?;
        let first = runs[0].start;
        let mut superblock = JournalSuperblock::new(self.sb.block_size(), count, self.options.uuid);
        superblock.set_extension(&self.options.journal_extension);
        let mut bytes = vec![0; self.block_size()];
        bytes[..crate::jbd2::SUPERBLOCK_SIZE].copy_from_slice(&superblock.encode());
        self.made.blocks.push((first, bytes));
        self.made.zero_blocks.extend(runs.iter().cloned());
        let inode = inodes::new_inode(self.sb, self.options, FileType::Regular.mode_bits() | 0o600, 1);
        self.keep(JOURNAL_INO, inode, &runs)?;
        let Some((_, inode)) = self.inodes.last() else { return Ok(()) };
        let mut words = [0; 17];
        for (i, word) in words.iter_mut().enumerate().take(15) {
            *word = inode.block_word(i);
        }
        words[15] = (inode.size >> 32) as u32;
        words[16] = inode.size as u32;
        self.made.jnl_blocks = Some(words);
        Ok(())
    }

    fn orphan_file(&mut self) -> Result<()> {
        let count = (self.sb.blocks_count() / 4096).clamp(32, 512);
        let runs = self.allocate(0, count)?;
        for block in runs.iter().cloned().flatten() {
            let mut bytes = vec![0; self.block_size()];
            orphan_file::init(&mut bytes);
            if let Some(seed) = self.sb.inode_seed(ORPHAN_FILE_INO, 0) {
                orphan_file::seal(&mut bytes, seed, block);
            }
            self.made.blocks.push((block, bytes));
        }
        let inode = inodes::new_inode(self.sb, self.options, FileType::Regular.mode_bits() | 0o600, 1);
        self.keep(ORPHAN_FILE_INO, inode, &runs)
    }

    /// The blocks of group 0's inode table that hold inodes in use; reserved inodes get a checksum too.
    fn inode_table(&mut self, descs: &[GroupDesc]) -> Result<()> {
        let used = self.made.used_inodes as usize * usize::from(self.sb.inode_size());
        let size = self.block_size();
        let mut table = vec![0; used.next_multiple_of(size)];
        for ino in 1..=self.made.used_inodes {
            let inode = self.inodes.iter().find(|(number, _)| *number == ino).map(|(_, inode)| inode);
            inodes::store(self.sb, &mut table, ino, inode)?;
        }
        let start = descs.first().map_or(0, |desc| desc.inode_table);
        let blocks = table.chunks(size).map(<[u8]>::to_vec);
        self.made.blocks.extend((start..).zip(blocks));
        Ok(())
    }
}

/// Writes word `i` of a block of a block map.
fn put_word(bytes: &mut [u8], i: usize, block: u64) {
    if let Some(slot) = bytes.get_mut(i * 4..i * 4 + 4) {
        slot.copy_from_slice(&(block as u32).to_le_bytes());
    }
}
