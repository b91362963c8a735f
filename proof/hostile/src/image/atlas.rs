//! Where the structures of a volume lie, so that inputs can name them and their checksums can be made right again.

use ondol_format::extent::Node;
use ondol_format::group::GroupDesc;
use ondol_format::htree;
use ondol_format::inode::{FileType, InodeFlags};
use ondol_format::{Inode, Place, Superblock, superblock};

/// What bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Superblock,
    /// A group's descriptor, by its number.
    Desc(u32),
    BlockBitmap(u32),
    InodeBitmap(u32),
    /// An inode; its number is the owner.
    Inode,
    ExtentNode,
    /// A block of an indirect map.
    Indirect,
    DirLeaf,
    DxNode,
    Xattr,
    Symlink,
    OrphanFile,
    /// Contents of a regular file.
    Data,
    JournalSuper,
    /// A block of the log, by its number in the journal.
    Journal(u32),
    /// Nothing of ours.
    Free,
}

/// One structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Structure {
    pub(crate) what: What,
    /// First byte.
    pub(crate) offset: u64,
    /// Bytes.
    pub(crate) len: u64,
    /// The block it lies in.
    pub(crate) block: u64,
    /// The inode it belongs to; 0 for the volume's own.
    pub(crate) ino: u32,
}

impl Structure {
    /// All of an image of which nothing is known.
    pub(crate) fn bare(size: u64) -> Self {
        Self { what: What::Superblock, offset: superblock::OFFSET, len: size - superblock::OFFSET, block: 1, ino: 0 }
    }
}

/// Everything that was found.
pub(crate) struct Atlas {
    pub(crate) structures: Vec<Structure>,
    pub(crate) inos: Vec<u32>,
    pub(crate) block_size: u32,
    pub(crate) blocks: u64,
    pub(crate) inodes: u32,
}

struct Draw<'a> {
    bytes: &'a [u8],
    sb: Superblock,
    structures: Vec<Structure>,
}

/// Blocks of each file, and of free space, that are taken up.
const SAMPLE: usize = 6;
/// Blocks at the beginning of the log that are taken up in any case.
const LOG: u32 = 24;

/// Finds the structures of a sound volume.
pub(crate) fn draw(bytes: &[u8]) -> Atlas {
    let head = bytes[superblock::OFFSET as usize..].first_chunk().expect("an image has a superblock");
    let sb = Superblock::parse(head, bytes.len() as u64).expect("a seed is sound");
    let mut draw = Draw { bytes, sb, structures: Vec::new() };
    let offset = superblock::OFFSET;
    let block = offset / u64::from(draw.sb.block_size());
    draw.structures.push(Structure { what: What::Superblock, offset, len: 1024, block, ino: 0 });
    let mut inos = Vec::new();
    for g in 0..draw.sb.groups() {
        draw.group(g, &mut inos);
    }
    draw.free();
    let (block_size, blocks, inodes) = (draw.sb.block_size(), draw.sb.blocks_count(), draw.sb.inodes_count());
    Atlas { structures: draw.structures, inos, block_size, blocks, inodes }
}

impl<'a> Draw<'a> {
    fn size(&self) -> u64 {
        u64::from(self.sb.block_size())
    }

    fn block(&self, block: u64) -> &'a [u8] {
        &self.bytes[(block * self.size()) as usize..][..self.size() as usize]
    }

    fn push(&mut self, what: What, block: u64, ino: u32) {
        self.structures.push(Structure { what, offset: block * self.size(), len: self.size(), block, ino });
    }

    fn group(&mut self, g: u32, inos: &mut Vec<u32>) {
        let (block, at) = self.sb.gdt().location(g);
        let len = usize::from(self.sb.gdt().desc_size());
        let offset = block * self.size() + at as u64;
        self.structures.push(Structure { what: What::Desc(g), offset, len: len as u64, block, ino: 0 });
        let desc = GroupDesc::parse(&self.block(block)[at..at + len]).expect("a descriptor");
        self.push(What::BlockBitmap(g), desc.block_bitmap, 0);
        self.push(What::InodeBitmap(g), desc.inode_bitmap, 0);
        if desc.flags & ondol_format::group::INODE_UNINIT != 0 {
            return;
        }
        for index in 0..self.sb.inodes_per_group() - desc.itable_unused {
            let (block, at) = self.sb.inode_location(desc.inode_table, index);
            let bytes = &self.block(block)[at..at + usize::from(self.sb.inode_size())];
            let ino = g * self.sb.inodes_per_group() + index + 1;
            let Ok(inode) = Inode::parse(bytes, ino, &self.sb.inode_format()) else { continue };
            if inode.mode == 0 {
                continue;
            }
            let offset = block * self.size() + at as u64;
            self.structures.push(Structure { what: What::Inode, offset, len: bytes.len() as u64, block, ino });
            if ino == ondol_format::inode::ROOT_INO || ino >= self.sb.first_ino() {
                inos.push(ino);
            }
            self.inode(ino, &inode);
        }
    }

    fn inode(&mut self, ino: u32, inode: &Inode) {
        if inode.file_acl != 0 {
            self.push(What::Xattr, inode.file_acl, ino);
        }
        let is_link = inode.file_type() == Some(FileType::Symlink);
        if is_link && inode.size <= ondol_format::inode::FAST_SYMLINK_MAX as u64 {
            return;
        }
        if !matches!(inode.file_type(), Some(FileType::Regular | FileType::Directory | FileType::Symlink)) {
            return;
        }
        let mut blocks = Vec::new();
        if inode.has_extents() {
            self.extents(ino, &inode.i_block, &mut blocks);
        } else if !inode.flags.contains(InodeFlags::INLINE_DATA) && ino != ondol_format::inode::RESIZE_INO {
            self.indirect(ino, &inode.i_block, &mut blocks);
        }
        let own = blocks.len();
        for (logical, block) in blocks {
            let what = self.content(ino, inode, logical, block);
            // Of contents a few blocks say as much as all, and of an empty log its beginning.
            let spare = match what {
                What::Data => own > SAMPLE && logical as usize > SAMPLE,
                What::Journal(n) => n > LOG && self.block(block).iter().all(|b| *b == 0),
                _ => false,
            };
            if spare {
                continue;
            }
            self.push(what, block, ino);
        }
    }

    /// What a block of an inode holds.
    fn content(&self, ino: u32, inode: &Inode, logical: u32, block: u64) -> What {
        if Some(ino) == self.sb.journal_inum() {
            return if logical == 0 { What::JournalSuper } else { What::Journal(logical) };
        }
        if Some(ino) == self.sb.orphan_file_inum() {
            return What::OrphanFile;
        }
        match inode.file_type() {
            Some(FileType::Symlink) => What::Symlink,
            Some(FileType::Directory) => {
                let root = inode.flags.contains(InodeFlags::INDEX) && logical == 0;
                let node = htree::entries_offset(self.block(block)).is_some();
                if root || (node && logical != 0) { What::DxNode } else { What::DirLeaf }
            }
            _ => What::Data,
        }
    }

    fn extents(&mut self, ino: u32, node: &[u8], blocks: &mut Vec<(u32, u64)>) {
        let Ok(node) = Node::parse(node, None, Place::NONE) else { return };
        for extent in node.extents() {
            blocks.extend((0..extent.len).map(|i| (extent.logical + i, extent.start + u64::from(i))));
        }
        for index in node.indexes() {
            self.push(What::ExtentNode, index.leaf, ino);
            self.extents(ino, &self.block(index.leaf)[..self.size() as usize], blocks);
        }
    }

    fn indirect(&mut self, ino: u32, roots: &[u8], blocks: &mut Vec<(u32, u64)>) {
        let mut logical = 0;
        for (i, block) in words(roots).enumerate() {
            self.mapped(ino, block, (i as u32).saturating_sub(11), &mut logical, blocks);
        }
    }

    /// What lies below one word of an indirect map.
    fn mapped(&mut self, ino: u32, block: u64, depth: u32, logical: &mut u64, blocks: &mut Vec<(u32, u64)>) {
        if block == 0 {
            *logical += (self.size() / 4).pow(depth);
        } else if depth == 0 {
            blocks.push((*logical as u32, block));
            *logical += 1;
        } else {
            self.push(What::Indirect, block, ino);
            words(self.block(block)).for_each(|below| self.mapped(ino, below, depth - 1, logical, blocks));
        }
    }

    /// A few blocks that nothing uses.
    fn free(&mut self) {
        let used: std::collections::BTreeSet<u64> = self.structures.iter().map(|s| s.block).collect();
        let blank = |block: &u64| !used.contains(block) && self.block(*block).iter().all(|b| *b == 0);
        let last = self.sb.blocks_count();
        let free: Vec<u64> = (last / 2..last).filter(blank).take(SAMPLE).collect();
        free.into_iter().for_each(|block| self.push(What::Free, block, 0));
    }
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.chunks_exact(4).map(|w| u64::from(u32::from_le_bytes([w[0], w[1], w[2], w[3]])))
}
