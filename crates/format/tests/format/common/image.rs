//! An image read through this crate alone, and a walk that checks every structure it meets.

use ondol_format::bitmap;
use ondol_format::dirent::{self, DirBlock};
use ondol_format::extent::{self, Extent, Node};
use ondol_format::feature::{Incompat, RoCompat};
use ondol_format::group::{BLOCK_UNINIT, DescCsum, GroupDesc, INODE_UNINIT};
use ondol_format::htree::{self, DxBlock};
use ondol_format::inode::{self, InodeFlags};
use ondol_format::jbd2::JournalSuperblock;
use ondol_format::superblock::{self, Superblock};
use ondol_format::{Inode, Place, layout, orphan_file, xattr};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// What a walk met, so that a test can tell that it met enough.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) inodes: usize,
    pub(crate) extent_blocks: usize,
    pub(crate) unwritten: usize,
    pub(crate) dir_blocks: usize,
    pub(crate) dx_blocks: usize,
    pub(crate) xattr_blocks: usize,
    pub(crate) hashed_xattr_blocks: usize,
    pub(crate) inode_xattrs: usize,
    pub(crate) uninit_groups: usize,
    pub(crate) deepest: u16,
}

/// An image opened for reading.
pub(crate) struct Image {
    file: File,
    pub(crate) sb: Superblock,
    descs: Vec<GroupDesc>,
}

impl Image {
    /// Reads superblock and descriptors, verifying both and every copy.
    pub(crate) fn open(path: &Path) -> Image {
        let file = File::open(path).unwrap();
        let size = file.metadata().unwrap().len();
        let mut bytes = [0; superblock::SIZE];
        file.read_exact_at(&mut bytes, superblock::OFFSET).unwrap();
        let sb = Superblock::parse(&bytes, size).unwrap();
        let mut image = Image { file, sb, descs: Vec::new() };
        let csum = DescCsum::of(&image.sb);
        for g in 0..image.sb.groups() {
            let (block, offset) = image.sb.gdt().location(g);
            let block = image.block(block);
            let mut desc = block[offset..offset + usize::from(image.sb.gdt().desc_size())].to_vec();
            csum.verify(g, &desc).unwrap();
            let parsed = GroupDesc::parse(&desc).unwrap();
            parsed.check(&image.sb, g).unwrap();
            let before = desc.clone();
            parsed.write(&mut desc).unwrap();
            csum.seal(g, &mut desc);
            assert_eq!(desc, before, "descriptor {g} round trip");
            image.descs.push(parsed);
            if let Some(copy) = image.sb.base_meta(g).superblock.filter(|_| g > 0) {
                image.file.read_exact_at(&mut bytes, copy * u64::from(image.sb.block_size())).unwrap();
                let copy = Superblock::parse(&bytes, size).unwrap();
                assert_eq!(u32::from(copy.raw().s_block_group_nr.get()), g);
            }
        }
        image
    }

    pub(crate) fn block(&self, block: u64) -> Vec<u8> {
        let size = self.sb.block_size() as usize;
        let mut bytes = vec![0; size];
        self.file.read_exact_at(&mut bytes, block * size as u64).unwrap();
        bytes
    }

    /// Bytes of an inode, as they are.
    pub(crate) fn inode_bytes(&self, ino: u32) -> Vec<u8> {
        let (g, index) = self.sb.group_of_inode(ino).unwrap();
        let (block, offset) = self.sb.inode_location(self.descs[g as usize].inode_table, index);
        self.block(block)[offset..offset + usize::from(self.sb.inode_size())].to_vec()
    }

    /// An inode, verified, that survives a round trip.
    pub(crate) fn inode(&self, ino: u32) -> Inode {
        let format = self.sb.inode_format();
        let bytes = self.inode_bytes(ino);
        inode::verify(&bytes, ino, &format).unwrap();
        let parsed = Inode::parse(&bytes, ino, &format).unwrap();
        let mut wanted = bytes.clone();
        // Room that nothing has used is used from then on.
        let widened = wanted.get(128..130) == Some(&[0, 0]);
        if widened {
            wanted[128] = 32;
        }
        let mut again = bytes.clone();
        parsed.write(&mut again, &format).unwrap();
        assert_eq!(again, wanted, "inode {ino} round trip");
        inode::seal(&mut again, ino, &format);
        if !widened && bytes.iter().any(|byte| *byte != 0) {
            assert_eq!(again, bytes, "inode {ino} checksum");
        }
        parsed
    }

    /// Checks every group, and every inode in use with all that hangs on it.
    pub(crate) fn check(&self) -> Seen {
        let mut seen = Seen::default();
        for g in 0..self.sb.groups() {
            self.check_block_bitmap(g, &mut seen);
            let map = self.inode_bitmap(g, &mut seen);
            for index in 0..self.sb.inodes_per_group() {
                let ino = g * self.sb.inodes_per_group() + index + 1;
                if bitmap::test(&map, index as usize) {
                    self.check_inode(ino, &mut seen);
                }
            }
        }
        seen
    }

    fn check_block_bitmap(&self, g: u32, seen: &mut Seen) {
        let desc = &self.descs[g as usize];
        let blocks = self.sb.block_range_of_group(g);
        let bits = (blocks.end - blocks.start) as usize;
        let lazy = self.sb.features().has_group_desc_csum();
        let mut map = self.block(desc.block_bitmap);
        if lazy && desc.flags & BLOCK_UNINIT != 0 {
            layout::init_block_bitmap(&self.sb, g, desc, &mut map);
            seen.uninit_groups += 1;
        } else if let Some(seed) = self.sb.csum_seed() {
            let csum = bitmap::checksum(seed, &map, self.sb.clusters_per_group());
            assert!(
                GroupDesc::bitmap_csum_matches(desc.block_bitmap_csum, csum, self.sb.gdt().desc_size()),
                "group {g}"
            );
        }
        assert_eq!(bitmap::count_zeros(&map, bits), desc.free_blocks as usize, "free blocks of group {g}");
        assert!(bitmap::is_padded(&map, bits), "block bitmap {g}");
    }

    fn inode_bitmap(&self, g: u32, seen: &mut Seen) -> Vec<u8> {
        let desc = &self.descs[g as usize];
        let bits = self.sb.inodes_per_group() as usize;
        let mut map = self.block(desc.inode_bitmap);
        if self.sb.features().has_group_desc_csum() && desc.flags & INODE_UNINIT != 0 {
            layout::init_inode_bitmap(&self.sb, &mut map);
            seen.uninit_groups += 1;
        } else if let Some(seed) = self.sb.csum_seed() {
            let csum = bitmap::checksum(seed, &map, self.sb.inodes_per_group());
            assert!(
                GroupDesc::bitmap_csum_matches(desc.inode_bitmap_csum, csum, self.sb.gdt().desc_size()),
                "group {g}"
            );
        }
        assert_eq!(bitmap::count_zeros(&map, bits), desc.free_inodes as usize, "free inodes of group {g}");
        map
    }

    fn check_inode(&self, ino: u32, seen: &mut Seen) {
        let inode = self.inode(ino);
        seen.inodes += 1;
        self.check_xattrs(ino, &inode, seen);
        if inode.links == 0 || inode.file_type().is_none() || ino == inode::RESIZE_INO {
            return;
        }
        let blocks = self.file_blocks(ino, &inode, seen);
        if inode.is_dir() {
            self.check_directory(ino, &inode, &blocks, seen);
        }
        if Some(ino) == self.sb.orphan_file_inum() {
            for block in blocks.values() {
                let seed = self.sb.inode_seed(ino, inode.generation);
                orphan_file::verify(&self.block(*block), seed, Place::inode(ino).in_block(*block)).unwrap();
                assert!(orphan_file::entries(&self.block(*block)).all(|entry| entry == 0));
            }
        }
        if Some(ino) == self.sb.journal_inum() {
            let first = self.block(blocks[&0]);
            let journal = JournalSuperblock::parse(&first, self.sb.block_size(), blocks.len() as u64).unwrap();
            assert_eq!(journal.encode(), first[..superblock::SIZE]);
        }
    }

    /// The attributes of an inode, wherever they lie.
    pub(crate) fn xattrs(&self, ino: u32) -> Vec<xattr::Xattr> {
        let inode = self.inode(ino);
        let mut list = xattr::parse_inode(&inode.tail, Place::inode(ino)).unwrap();
        if inode.file_acl != 0 {
            list.extend(xattr::parse_block(&self.block(inode.file_acl), Place::inode(ino)).unwrap());
        }
        list
    }

    fn check_xattrs(&self, ino: u32, inode: &Inode, seen: &mut Seen) {
        let place = Place::inode(ino);
        let list = xattr::parse_inode(&inode.tail, place).unwrap();
        if !list.is_empty() {
            seen.inode_xattrs += 1;
            let mut again = vec![0; inode.tail.len()];
            xattr::write_inode(&list, &mut again).unwrap();
            let reread = xattr::parse_inode(&again, place).unwrap();
            let plain = |list: &[xattr::Xattr]| -> Vec<_> {
                list.iter().map(|x| (x.name_index, x.name.clone(), x.value.clone())).collect()
            };
            assert_eq!(plain(&reread), plain(&list));
        }
        if inode.file_acl == 0 {
            return;
        }
        seen.xattr_blocks += 1;
        let block = self.block(inode.file_acl);
        let list = xattr::parse_block(&block, place).unwrap();
        let refcount = xattr::refcount(&block, place).unwrap();
        let mut again = vec![0; block.len()];
        xattr::write_block(&list, refcount, &mut again).unwrap();
        if let Some(seed) = self.sb.csum_seed() {
            xattr::verify_block(&block, seed, inode.file_acl, place).unwrap();
            xattr::seal_block(&mut again, seed, inode.file_acl);
        }
        // Values may lie in another order, but entries and every hash must be the same.
        assert_eq!(xattr::parse_block(&again, place).unwrap(), list, "attributes of inode {ino}");
        // libext2fs leaves h_hash 0.
        if block[12..16] != [0; 4] {
            assert_eq!(again[12..16], block[12..16], "h_hash of inode {ino}");
            seen.hashed_xattr_blocks += 1;
        }
    }

    /// Logical and physical blocks of a file.
    pub(crate) fn file_blocks(&self, ino: u32, inode: &Inode, seen: &mut Seen) -> BTreeMap<u64, u64> {
        let mut blocks = BTreeMap::new();
        if inode.has_extents() {
            for extent in self.extents(ino, inode, seen) {
                seen.unwritten += usize::from(extent.unwritten);
                for i in 0..u64::from(extent.len) {
                    blocks.insert(u64::from(extent.logical) + i, extent.start + i);
                }
            }
        } else if (inode.is_regular() || inode.is_dir()) && !inode.flags.contains(InodeFlags::INLINE_DATA) {
            let mut at = 0;
            for i in 0..15 {
                let depth = (i as u32).saturating_sub(11);
                self.map_blocks(inode.block_word(i), depth, &mut at, &mut blocks);
            }
        }
        blocks
    }

    fn map_blocks(&self, block: u32, depth: u32, at: &mut u64, blocks: &mut BTreeMap<u64, u64>) {
        let per_block = u64::from(self.sb.block_size() / 4);
        if block == 0 {
            *at += per_block.pow(depth);
        } else if depth == 0 {
            blocks.insert(*at, u64::from(block));
            *at += 1;
        } else {
            for word in self.block(u64::from(block)).chunks_exact(4) {
                self.map_blocks(u32::from_le_bytes(word.try_into().unwrap()), depth - 1, at, blocks);
            }
        }
    }

    /// All extents of a file in order, every node of the tree checked.
    pub(crate) fn extents(&self, ino: u32, inode: &Inode, seen: &mut Seen) -> Vec<Extent> {
        let place = Place::inode(ino);
        let root = Node::parse(&inode.i_block, None, place).unwrap();
        seen.deepest = seen.deepest.max(root.depth());
        let mut all = Vec::new();
        self.collect(&root, place, self.sb.inode_seed(ino, inode.generation), seen, &mut all);
        assert!(all.windows(2).all(|pair| pair[0].end() <= u64::from(pair[1].logical)));
        all
    }

    fn collect(&self, node: &Node<'_>, place: Place, seed: Option<u32>, seen: &mut Seen, all: &mut Vec<Extent>) {
        node.check_blocks(&self.sb, place).unwrap();
        all.extend(node.extents());
        for index in node.indexes() {
            seen.extent_blocks += 1;
            let place = place.in_block(index.leaf);
            let bytes = self.block(index.leaf);
            if let Some(seed) = seed {
                extent::verify(&bytes, seed, place).unwrap();
                let mut again = bytes.clone();
                extent::seal(&mut again, seed);
                assert_eq!(again, bytes);
            }
            let below = Node::parse(&bytes, Some(node.depth() - 1), place).unwrap();
            assert_eq!(below.logical(0), Some(index.logical));
            self.collect(&below, place, seed, seen, all);
        }
    }

    fn check_directory(&self, ino: u32, inode: &Inode, blocks: &BTreeMap<u64, u64>, seen: &mut Seen) {
        let seed = self.sb.inode_seed(ino, inode.generation);
        let indexed = inode.flags.contains(InodeFlags::INDEX);
        for (logical, block) in blocks {
            let place = Place::inode(ino).in_block(*block);
            let bytes = self.block(*block);
            let mut again = bytes.clone();
            if indexed && htree::entries_offset(&bytes).is_some() {
                seen.dx_blocks += 1;
                self.check_dx(&bytes, *logical, blocks.len() as u32, place);
                if let Some(seed) = seed {
                    htree::verify(&bytes, seed, place).unwrap();
                    htree::seal(&mut again, seed);
                }
            } else {
                seen.dir_blocks += 1;
                let dir = DirBlock::new(&bytes, seed.is_some(), place).unwrap();
                dir.check(|ino| self.sb.group_of_inode(ino).is_some()).unwrap();
                if let Some(seed) = seed {
                    dirent::verify(&bytes, seed, place).unwrap();
                    dirent::seal(&mut again, seed);
                }
            }
            assert_eq!(again, bytes);
        }
    }

    fn check_dx(&self, bytes: &[u8], logical: u64, blocks: u32, place: Place) {
        let csum = self.sb.features().has_metadata_csum();
        let levels = htree::max_levels(self.sb.has_incompat(Incompat::LARGEDIR));
        let view = if logical == 0 {
            DxBlock::root(bytes, csum, levels, place).unwrap().1
        } else {
            DxBlock::node(bytes, csum, place).unwrap()
        };
        view.check(blocks, place).unwrap();
    }

    /// Entries of a directory but "." and "..": name, inode, file type.
    pub(crate) fn list(&self, ino: u32) -> BTreeMap<Vec<u8>, (u32, u8)> {
        let inode = self.inode(ino);
        let csum = self.sb.features().has_metadata_csum();
        let mut names = BTreeMap::new();
        for (logical, block) in self.file_blocks(ino, &inode, &mut Seen::default()) {
            let bytes = self.block(block);
            if inode.flags.contains(InodeFlags::INDEX) && (logical == 0 || htree::entries_offset(&bytes).is_some()) {
                continue;
            }
            for entry in DirBlock::new(&bytes, csum, Place::inode(ino)).unwrap().used() {
                let entry = entry.unwrap();
                if entry.name != b"." && entry.name != b".." {
                    names.insert(entry.name.to_vec(), (entry.ino, entry.file_type));
                }
            }
        }
        names
    }

    /// Looks a name up through the htree of directory `ino`; None also if the directory has none.
    pub(crate) fn lookup_indexed(&self, ino: u32, name: &[u8]) -> Option<u32> {
        let inode = self.inode(ino);
        let csum = self.sb.features().has_metadata_csum();
        let blocks = self.file_blocks(ino, &inode, &mut Seen::default());
        let place = Place::inode(ino);
        let root = self.block(blocks[&0]);
        let (info, view) = DxBlock::root(&root, csum, 2, place).ok()?;
        let hash = self.sb.dx_hash_of(info.hash_version).hash(name).major;
        let mut at = view.search(hash);
        let mut next = view.entry(at)?.block;
        let mut more = view.entry(at + 1).map(|entry| entry.hash);
        for _ in 0..info.indirect_levels {
            let bytes = self.block(blocks[&u64::from(next)]);
            let view = DxBlock::node(&bytes, csum, place).ok()?;
            at = view.search(hash);
            next = view.entry(at)?.block;
            more = view.entry(at + 1).map(|entry| entry.hash).or(more);
        }
        assert!(more.is_none_or(|more| more > hash));
        let leaf = self.block(blocks[&u64::from(next)]);
        DirBlock::new(&leaf, csum, place).unwrap().find(name).unwrap().map(|entry| entry.ino)
    }

    /// Whether the volume checksums its metadata.
    pub(crate) fn has_csum(&self) -> bool {
        self.sb.has_ro_compat(RoCompat::METADATA_CSUM)
    }
}
