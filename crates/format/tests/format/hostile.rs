//! Bytes that nobody should trust: every parser answers with a value or an error, never with a panic.

use ondol_format::dirent::{self, DirBlock, DirBlockMut, Dots};
use ondol_format::extent::{self, Node, NodeMut};
use ondol_format::group::{DescCsum, GroupDesc};
use ondol_format::htree::{self, DxBlock};
use ondol_format::inode::{self, InodeFormat};
use ondol_format::jbd2::{Commit, Descriptor, Header, JournalSuperblock, LogCsum, LogFormat, Revoke};
use ondol_format::mkfs::{Chunk, Plan};
use ondol_format::superblock::{self, RawSuperblock, Superblock};
use ondol_format::{FormatError, Inode, Place, layout, orphan_file, xattr};
use proptest::prelude::*;
use zerocopy::{FromBytes, IntoBytes};

/// Every reader of a block, on any bytes.
fn read_all(bytes: &[u8], csum: bool) {
    let place = Place::block(7);
    for depth in [None, Some(0), Some(3)] {
        if let Ok(node) = Node::parse(bytes, depth, place) {
            let _ = (node.extents().count(), node.indexes().count(), node.search(5), node.search(u32::MAX));
        }
    }
    let _ = extent::verify(bytes, 1, place);
    if let Ok(dir) = DirBlock::new(bytes, csum, place) {
        assert!(dir.entries().count() <= bytes.len());
        let _ = (dir.find(b"x"), dir.is_empty(), dir.check(|ino| ino < 100));
    }
    let _ = dirent::verify(bytes, 1, place);
    for view in [DxBlock::root(bytes, csum, 2, place).map(|(_, view)| view), DxBlock::node(bytes, csum, place)] {
        let Ok(view) = view else { continue };
        let _ = (view.search(0), view.search(u32::MAX), view.check(10, place), view.entries().count());
    }
    let _ = htree::verify(bytes, 1, place);
    let _ = (xattr::parse_inode(bytes, place), xattr::parse_block(bytes, place), xattr::refcount(bytes, place));
    let _ = xattr::verify_block(bytes, 1, 2, place);
    let _ = (xattr::acl_to_disk(bytes), xattr::acl_from_disk(bytes));
    let _ = orphan_file::verify(bytes, Some(3), place);
    assert!(orphan_file::entries(bytes).count() <= bytes.len());
    let _ = GroupDesc::parse(bytes);
    let _ = DescCsum::Crc32c(1).verify(1, bytes);
    let _ = JournalSuperblock::parse(bytes, 1024, 5000);
    let _ = Header::parse(bytes);
    for log in [LogCsum::None, LogCsum::V2, LogCsum::V3] {
        for bit64 in [false, true] {
            let format = LogFormat { block_size: bytes.len() as u32, bit64, csum: log, has_old_csum: false, seed: 1 };
            let unchecked = LogFormat { csum: LogCsum::None, ..format };
            for format in [format, unchecked] {
                if let Ok(tags) = Descriptor::new(bytes, format, place) {
                    assert!(tags.count() <= bytes.len());
                }
                if let Ok(revoked) = Revoke::new(bytes, format, place) {
                    assert!(revoked.count() <= bytes.len());
                }
                let _ = Commit::parse(bytes, &format, place);
            }
        }
    }
}

/// Every writer that changes a block in place, on any bytes that the readers take.
fn change_all(bytes: &mut [u8], csum: bool, at: usize) {
    let place = Place::block(7);
    let before = bytes.to_vec();
    if let Ok(dir) = DirBlock::new(&before, csum, place) {
        let edits = [dir.insertion(at, b"name", 5, 1), dir.removal(Some(at / 2), at), dir.redirection(at, 9, 2)];
        edits.into_iter().flatten().for_each(|edit| edit.apply(bytes));
        let _ = dir.find(b"name");
    }
    if let Ok(mut dir) = DirBlockMut::new(bytes, csum, place) {
        let _ = dir.insert(b"name", 5, 1);
    }
    dirent::seal(bytes, 1);
    if let Ok(mut node) = NodeMut::open(bytes, place) {
        let extent = extent::Extent { logical: 1, start: 2, len: 3, unwritten: false };
        let _ = (node.insert_extent(at % 9, extent), node.remove(at % 5, 2), node.set_extent(at % 400, extent));
    }
    extent::seal(bytes, 1);
    if let Ok(mut dx) = htree::DxBlockMut::root(bytes, csum, 1, place) {
        let _ = dx.insert(at % 300, htree::DxEntry { hash: 1, block: 2 });
    }
    htree::seal(bytes, 1);
    xattr::seal_block(bytes, 1, 2);
    orphan_file::seal(bytes, 1, 2);
}

/// A valid block of some kind, to be damaged.
fn seeds() -> Vec<Vec<u8>> {
    let mut blocks = Vec::new();
    let mut bytes = vec![0; 1024];
    let dots = Dots { ino: 2, parent: 2, filetype: true };
    let mut dir = DirBlockMut::init_dot_dotdot(&mut bytes, dots, true, Place::NONE);
    for i in 0..20 {
        assert!(dir.insert(format!("file{i}").as_bytes(), 20 + i, 1).unwrap());
    }
    blocks.push(bytes.clone());
    let mut node = NodeMut::init(&mut bytes, 0);
    for i in 0..50 {
        node.insert_extent(i, extent::Extent { logical: i as u32 * 10, start: 500, len: 5, unwritten: false });
    }
    blocks.push(bytes.clone());
    let info = htree::RootInfo { hash_version: ondol_format::hash::HashVersion::Tea, indirect_levels: 1 };
    let mut dx = htree::DxBlockMut::init_root(&mut bytes, dots, info, 1, true);
    for i in 1..60 {
        dx.insert(i, htree::DxEntry { hash: i as u32 * 100, block: i as u32 + 1 });
    }
    blocks.push(bytes.clone());
    let list: Vec<_> = (0..8).map(|i| xattr::Xattr::new(1, format!("a{i}"), vec![i; 30])).collect();
    xattr::write_block(&list, 1, &mut bytes).unwrap();
    blocks.push(bytes.clone());
    xattr::write_inode(&list, &mut bytes).unwrap();
    blocks.push(bytes);
    blocks.push(JournalSuperblock::new(1024, 4096, [3; 16]).encode().to_vec());
    blocks
}

/// The geometry of a superblock, all of it, also for numbers past the end.
fn use_superblock(sb: &Superblock) {
    let groups = sb.groups();
    for g in [0, 1, groups / 2, groups - 1] {
        let range = sb.block_range_of_group(g);
        assert!(range.start < range.end && range.end <= sb.blocks_count());
        assert!(sb.gdt().location(g).0 < sb.blocks_count());
        assert_eq!(sb.group_of_block(range.start), Some(g));
        let mut map = vec![0; sb.block_size() as usize];
        layout::init_block_bitmap(sb, g, &GroupDesc { inode_table: u64::MAX, ..GroupDesc::default() }, &mut map);
        let _ = (GroupDesc::default().check(sb, g), sb.base_meta(g));
    }
    let _ = (sb.group_of_block(u64::MAX), sb.group_of_inode(u32::MAX), sb.group_of_inode(0), sb.has_super(u32::MAX));
    let _ = (sb.gdt().location(u32::MAX), sb.base_meta(u32::MAX), sb.block_range_of_group(u32::MAX));
    let _ = (sb.raw().jnl_blocks(), sb.raw().mkfs_time(), sb.raw().volume_name(), sb.raw().mount_opts());
    let _ = (sb.dx_hash(), sb.r_blocks_count(), sb.want_extra_isize(), sb.groups_per_flex());
    let _ = sb.inode_location(u64::MAX, u32::MAX);
}

fn good_superblock(features: &str) -> RawSuperblock {
    let mut options = crate::common::options();
    options.features = options.features.apply(features).unwrap();
    Plan::new(&options, 200 << 20).unwrap().superblock().raw().clone()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_blocks(bytes in prop::collection::vec(any::<u8>(), 0..300), csum: bool, at in 0usize..300) {
        read_all(&bytes, csum);
        change_all(&mut bytes.clone(), csum, at);
    }

    #[test]
    fn damaged_blocks(
        which in 0usize..6,
        damage in prop::collection::vec((0usize..1024, any::<u8>()), 1..6),
        csum: bool,
        at in 0usize..1024,
    ) {
        let mut bytes = seeds().swap_remove(which);
        for (at, byte) in damage {
            bytes[at] = byte;
        }
        read_all(&bytes, csum);
        change_all(&mut bytes, csum, at);
    }

    #[test]
    fn damaged_superblocks(
        damage in prop::collection::vec((0usize..0x180, any::<u8>()), 1..5),
        list in prop::sample::select(vec!["64bit", "^resize_inode,meta_bg", "^64bit,^flex_bg", "sparse_super2"]),
        size in prop::sample::select(vec![200u64 << 20, 1 << 20, u64::MAX]),
    ) {
        let mut raw = good_superblock(list);
        for (at, byte) in damage {
            raw.as_mut_bytes()[at] = byte;
        }
        raw.seal();
        match Superblock::from_raw(raw, size) {
            Ok(sb) => use_superblock(&sb),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn random_geometry(words in prop::collection::vec((0usize..16, any::<u32>(), 0u32..32), 1..4)) {
        // The first words hold the geometry: numbers of every magnitude in them.
        let mut raw = good_superblock("64bit");
        for (at, word, shift) in words {
            raw.as_mut_bytes()[at * 4..at * 4 + 4].copy_from_slice(&(word >> shift).to_le_bytes());
        }
        raw.s_magic.set(superblock::MAGIC);
        raw.seal();
        if let Ok(sb) = Superblock::from_raw(raw, u64::MAX) {
            use_superblock(&sb);
        }
    }

    #[test]
    fn random_inodes(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        inode_size in prop::sample::select(vec![128u16, 256, 1024]),
        huge_file: bool,
        bit64: bool,
    ) {
        let csum_seed = Some(1);
        let format = InodeFormat { inode_size, block_size: 4096, huge_file, bit64, large_dir: false, csum_seed };
        let _ = inode::verify(&bytes, 12, &format);
        inode::seal(&mut bytes.clone(), 12, &format);
        if let Ok(inode) = Inode::parse(&bytes, 12, &format) {
            let _ = (inode.file_type(), inode.fast_symlink(), inode.device(), inode.is_fast_symlink());
            let _ = inode.write(&mut bytes.clone(), &format);
            let _ = inode.write(&mut [0; 100], &format);
        }
    }
}

#[test]
fn errors_say_where_and_what() {
    let raw = RawSuperblock::read_from_bytes(&[0; 1024]).unwrap();
    let error = Superblock::from_raw(raw, 0).unwrap_err().to_string();
    assert_eq!(error, "no ext4 superblock: magic number 0x0, not 0xef53");
    let mut raw = good_superblock("64bit");
    raw.s_wtime.set(1);
    let error = Superblock::from_raw(raw.clone(), u64::MAX).unwrap_err();
    assert!(matches!(error, FormatError::Checksum { structure: "superblock", .. }), "{error}");
    raw.s_log_block_size.set(9);
    raw.seal();
    let error = Superblock::from_raw(raw, u64::MAX).unwrap_err().to_string();
    assert_eq!(error, "superblock: block size of 1024 << 9 bytes is not 1, 2 or 4 KiB");
    let mut raw = good_superblock("64bit");
    raw.set_blocks_count(1 << 47);
    raw.seal();
    let error = Superblock::from_raw(raw, 1 << 30).unwrap_err().to_string();
    assert_eq!(error, "superblock: 140737488355328 blocks, but the image has room for 1048576");
}

/// A flipped bit in any checksummed structure is noticed.
#[test]
fn flipped_bits_are_noticed() {
    let mut options = crate::common::options();
    options.block_size = Some(1024);
    let plan = Plan::new(&options, 16 << 20).unwrap();
    let sb = plan.superblock().clone();
    let mut image = vec![0u8; 16 << 20];
    let put = |chunk: Chunk<'_>| -> Result<(), ()> {
        if let Chunk::Bytes { offset, bytes } = chunk {
            image[offset as usize..offset as usize + bytes.len()].copy_from_slice(bytes);
        }
        Ok(())
    };
    plan.emit(put).unwrap();
    let flip = |range: std::ops::Range<usize>, verify: &dyn Fn(&[u8]) -> bool| {
        assert!(verify(&image[range.clone()]));
        for bit in (0..range.len() * 8).step_by(7) {
            let mut bytes = image[range.clone()].to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(!verify(&bytes), "bit {bit} of {range:?}");
        }
    };
    flip(1024..2048, &|bytes| Superblock::parse(bytes.first_chunk().unwrap(), 16 << 20).is_ok());
    let (block, offset) = sb.gdt().location(1);
    let at = block as usize * 1024 + offset;
    flip(at..at + 64, &|bytes| DescCsum::of(&sb).verify(1, bytes).is_ok());
    let desc = GroupDesc::parse(&image[2048..2112]).unwrap();
    let (block, offset) = sb.inode_location(desc.inode_table, 1);
    let at = block as usize * 1024 + offset;
    let format = sb.inode_format();
    flip(at..at + 256, &|bytes| inode::verify(bytes, 2, &format).is_ok());
    let root = Inode::parse(&image[at..at + 256], 2, &format).unwrap();
    let block = Node::parse(&root.i_block, None, Place::inode(2)).unwrap().extent(0).unwrap().start;
    let at = block as usize * 1024;
    let seed = sb.inode_seed(2, 0).unwrap();
    flip(at..at + 1024, &|bytes| dirent::verify(bytes, seed, Place::NONE).is_ok());
}
