//! Volumes made by this crate, judged by e2fsck and compared with mke2fs's.

use crate::common::{assert_clean, have, make, must, options, write_plan};
use ondol_format::{Features, FormatError, mkfs::Plan};
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::Path;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Lines of `dumpe2fs -h` that must be those of mke2fs.
const KEYS: [&str; 17] = [
    "Filesystem features",
    "Filesystem flags",
    "Default mount options",
    "Inode count",
    "Block count",
    "Reserved block count",
    "Free blocks",
    "Free inodes",
    "Overhead clusters",
    "First block",
    "Block size",
    "Reserved GDT blocks",
    "Blocks per group",
    "Inodes per group",
    "Flex block group size",
    "Group descriptor size",
    "Total journal blocks",
];

fn header(path: &Path) -> BTreeMap<String, String> {
    let text = must("dumpe2fs", &["-h", path.to_str().unwrap()]);
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .filter(|(key, _)| KEYS.contains(&key.trim()))
        .map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()))
        .collect()
}

/// Makes the same volume with both programs: ours must be clean and say the same of itself.
fn compare(size: u64, block_size: Option<u32>, list: &str, more: &[&str], inodes: Option<u32>) {
    let dir = crate::common::directory();
    let (ours, theirs) = (dir.path().join("ours"), dir.path().join("theirs"));
    let what = format!("{size} bytes, block size {block_size:?}, -O {list}");
    let mut options = options();
    options.block_size = block_size;
    options.features = Features::UPSTREAM.apply(list).unwrap();
    options.inodes = inodes;
    make(&ours, size, &options);
    assert_clean(&ours, &what);
    crate::common::sparse(&theirs, size);
    let list = format!("orphan_file,metadata_csum_seed,{list}");
    let block = block_size.map(|b| b.to_string());
    let mut args = vec!["-F", "-q", "-t", "ext4", "-O", &list];
    if let Some(block) = &block {
        args.extend(["-b", block]);
    }
    args.extend(more);
    args.push(theirs.to_str().unwrap());
    must("mke2fs", &args);
    assert_eq!(header(&ours), header(&theirs), "{what}");
}

#[test]
fn sizes_match_mke2fs() {
    if !have("mke2fs") {
        return;
    }
    for size in [2 * MIB, 3 * MIB, 8 * MIB + 8192, 9000 * 1024, 100 * MIB, 135 * MIB, 511 * MIB, 512 * MIB, 600 * MIB] {
        compare(size, None, "", &[], None);
    }
    for size in [GIB, 4 * GIB + 77 * MIB, 50 * GIB, 1024 * GIB] {
        compare(size, None, "", &[], None);
    }
}

#[test]
fn huge_volumes_match_mke2fs() {
    if !have("mke2fs") {
        return;
    }
    // The last with so many groups that meta_bg is the only way.
    std::thread::scope(|scope| {
        for (size, block_size) in [(8192, None), (3072, Some(2048)), (1024, Some(1024))] {
            scope.spawn(move || compare(size * GIB, block_size, "", &[], None));
        }
    });
}

#[test]
fn block_sizes_match_mke2fs() {
    if !have("mke2fs") {
        return;
    }
    for block_size in [1024, 2048, 4096] {
        for size in [8 * MIB, 64 * MIB + 12288, 700 * MIB, 20 * GIB] {
            compare(size, Some(block_size), "", &[], None);
        }
    }
}

#[test]
fn feature_sets_match_mke2fs() {
    if !have("mke2fs") {
        return;
    }
    for list in [
        "^metadata_csum_seed,^orphan_file",
        "^64bit",
        "^flex_bg",
        "^metadata_csum,^metadata_csum_seed",
        "^metadata_csum,^metadata_csum_seed,uninit_bg",
        "^metadata_csum,^metadata_csum_seed,^64bit,^flex_bg",
        "^resize_inode",
        "^resize_inode,meta_bg",
        "^resize_inode,meta_bg,^flex_bg,^64bit",
        "^resize_inode,^sparse_super",
        "sparse_super2",
        "sparse_super2,^resize_inode,^sparse_super",
        "^has_journal,^orphan_file",
        "^dir_index,^ext_attr,^huge_file,^dir_nlink,^extra_isize",
        "large_dir",
    ] {
        compare(300 * MIB, None, list, &[], None);
        compare(3 * GIB + 5 * MIB, None, list, &[], None);
    }
}

#[test]
fn inode_counts_match_mke2fs() {
    if !have("mke2fs") {
        return;
    }
    for inodes in [500u32, 1000, 100_000] {
        compare(200 * MIB, None, "", &["-N", &inodes.to_string()], Some(inodes));
    }
    // So many inodes that groups must shrink; the journal's place, and with it the free count, is then our own.
    let dir = crate::common::directory();
    let path = dir.path().join("image");
    let mut options = options();
    options.block_size = Some(1024);
    options.inodes = Some(200_000);
    make(&path, 64 * MIB, &options);
    assert_clean(&path, "200000 inodes");
    let header = header(&path);
    assert_eq!((header["Inode count"].as_str(), header["Blocks per group"].as_str()), ("200000", "2640"));
}

#[test]
fn garbage_below_does_not_matter() {
    if !have("e2fsck") {
        return;
    }
    let dir = crate::common::directory();
    let path = dir.path().join("image");
    for (size, block_size) in [(40 * MIB, 1024), (64 * MIB, 4096)] {
        let file = crate::common::sparse(&path, size);
        let garbage: Vec<u8> = (0..1 << 20).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 13) as u8 | 1).collect();
        for at in (0..size).step_by(garbage.len()) {
            file.write_all_at(&garbage, at).unwrap();
        }
        let mut options = options();
        options.zeroed = false;
        options.block_size = Some(block_size);
        write_plan(&file, size, &options);
        assert_clean(&path, "over garbage");
        options.features = Features::UPSTREAM.apply("^metadata_csum,^metadata_csum_seed").unwrap();
        write_plan(&file, size, &options);
        assert_clean(&path, "over garbage, without checksums");
    }
}

#[test]
fn label_owner_and_journal_are_as_asked() {
    if !have("debugfs") {
        return;
    }
    let dir = crate::common::directory();
    let path = dir.path().join("image");
    let mut options = options();
    options.label = b"sixteen letters!".to_vec();
    options.root_owner = (1000, 100_000);
    options.journal_blocks = Some(2000);
    options.reserved_share = 0;
    let plan = make(&path, 64 * MIB, &options);
    assert_eq!(plan.journal_blocks(), 2000);
    assert_clean(&path, "with options");
    let text = must("dumpe2fs", &["-h", path.to_str().unwrap()]);
    assert!(text.contains("sixteen letters!") && text.contains("Total journal blocks:     2000"), "{text}");
    assert!(text.contains("Reserved block count:     0"), "{text}");
    let text = must("debugfs", &["-R", "stat <2>", path.to_str().unwrap()]);
    assert!(text.contains("User:  1000   Group: 100000"), "{text}");
}

#[test]
fn what_cannot_be_made_is_refused_with_a_reason() {
    let refused = |change: &dyn Fn(&mut ondol_format::mkfs::Options), size: u64| {
        let mut options = options();
        change(&mut options);
        match Plan::new(&options, size) {
            Err(error @ (FormatError::Parameter(_) | FormatError::Unsupported { .. })) => error.to_string(),
            other => panic!("{size}: {other:?}"),
        }
    };
    let none = |_: &mut ondol_format::mkfs::Options| {};
    for size in [0, 1, 1023, 65536, MIB] {
        let said = refused(&none, size);
        assert!(said.contains("too few") || said.contains("too small"), "{size}: {said}");
    }
    assert!(refused(&|o| o.block_size = Some(4096), 2 * MIB).contains("journal"));
    assert!(refused(&|o| o.block_size = Some(8192), GIB).contains("8192"));
    assert!(refused(&|o| o.block_size = Some(0), GIB).contains("block size 0"));
    assert!(refused(&|o| o.label = vec![b'x'; 17], GIB).contains("label"));
    assert!(refused(&|o| o.inodes = Some(u32::MAX), 64 * MIB).contains("inodes"));
    assert!(refused(&|o| o.journal_blocks = Some(1 << 20), GIB).contains("journal"));
    assert!(refused(&|o| o.journal_blocks = Some(100), GIB).contains("journal"));
    assert!(refused(&none, u64::MAX).contains("too many"));
    let with =
        |list: &'static str| move |o: &mut ondol_format::mkfs::Options| o.features = o.features.apply(list).unwrap();
    for (list, word) in [
        ("bigalloc,inline_data,quota", "bigalloc"),
        ("^extent", "extent"),
        ("meta_bg", "exclude"),
        ("^sparse_super", "sparse_super"),
        ("^has_journal", "orphan_file"),
        ("^metadata_csum", "metadata_csum_seed"),
        ("fast_commit", "fast_commit"),
    ] {
        assert!(refused(&with(list), GIB).contains(word), "{list}");
    }
    assert!(refused(&with("^64bit"), 1 << 45).contains("64bit"));
}

#[test]
fn every_size_is_made_or_refused() {
    let mut options = options();
    let journal = options.features;
    let plain = journal.apply("^has_journal,^orphan_file").unwrap();
    for size in (0..400).map(|i| i * 37 * 4096).chain((0..64).map(|shift| 1u64 << shift)) {
        for (block_size, features) in [(None, journal), (Some(1024), plain), (Some(4096), plain), (Some(4096), journal)]
        {
            options.block_size = block_size;
            options.features = features;
            // Beyond that a plan takes seconds, and nothing new begins.
            if size >> 40 > 8 {
                continue;
            }
            match Plan::new(&options, size) {
                Ok(plan) => {
                    let sb = plan.superblock();
                    assert!(sb.blocks_count() * u64::from(sb.block_size()) <= size);
                }
                Err(FormatError::Parameter(_)) => {}
                Err(error) => panic!("{size}, {block_size:?}: {error}"),
            }
        }
    }
}
