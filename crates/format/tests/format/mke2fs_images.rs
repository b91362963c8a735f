//! Images of mke2fs, filled by debugfs: everything on them parses, every checksum is right, and what is written back
//! is what was read.

use crate::common::image::Image;
use crate::common::{assert_clean, have, must};
use ondol_format::inode::{Device, FileType};
use ondol_format::xattr;
use std::fmt::Write;
use std::path::Path;

const MIB: u64 = 1 << 20;

/// Option sets of mke2fs.
const SETS: [&[&str]; 15] = [
    &["-b", "1024"],
    &["-b", "2048"],
    &["-b", "4096"],
    &["-b", "4096", "-I", "128"],
    &["-b", "1024", "-I", "128", "-O", "^metadata_csum"],
    &["-b", "4096", "-I", "1024"],
    &["-O", "^metadata_csum"],
    &["-O", "^metadata_csum,uninit_bg"],
    &["-O", "^metadata_csum,uninit_bg,^64bit"],
    &["-O", "orphan_file,metadata_csum_seed"],
    &["-O", "^64bit"],
    &["-O", "^resize_inode,meta_bg"],
    &["-O", "sparse_super2"],
    &["-O", "^flex_bg,^extent,^64bit"],
    &["-b", "1024", "-O", "^huge_file,^sparse_super,^resize_inode", "-g", "1024"],
];

const NAMES: usize = 300;

fn name(i: usize) -> String {
    format!("{i:04}-{}", "n".repeat(i % 90))
}

/// Files of every type, a directory of several blocks, attributes in inodes and in blocks.
fn fill(dir: &Path, image: &Path) {
    let data = dir.join("data");
    std::fs::write(&data, vec![b'x'; 300_000]).unwrap();
    let value = dir.join("value");
    std::fs::write(&value, vec![b'v'; 700]).unwrap();
    let mut commands = String::new();
    writeln!(commands, "write {} file", data.display()).unwrap();
    writeln!(commands, "mkdir many\nsymlink short target\nsymlink long {}", "/t".repeat(100)).unwrap();
    writeln!(commands, "mknod pipe p\nmknod char c 1 3\nmknod block b 300 7000").unwrap();
    writeln!(commands, "ea_set file user.small tiny\nea_set file user.other another").unwrap();
    writeln!(commands, "ea_set -f {} file user.large\nea_set file security.capability cap", value.display()).unwrap();
    writeln!(commands, "ea_set many trusted.t t\ncd many").unwrap();
    for i in 0..NAMES {
        writeln!(commands, "mknod {} p", name(i)).unwrap();
    }
    // Free entries in the middle and at the beginning of blocks.
    for i in (0..NAMES).step_by(7) {
        writeln!(commands, "rm {}", name(i)).unwrap();
    }
    let script = dir.join("commands");
    std::fs::write(&script, commands).unwrap();
    must("debugfs", &["-w", "-f", script.to_str().unwrap(), image.to_str().unwrap()]);
    assert_clean(image, "after debugfs");
}

fn check(image: &Path, what: &str) {
    let image = Image::open(image);
    let seen = image.check();
    assert!(seen.inodes > NAMES / 2 && seen.dir_blocks >= 10, "{what}: {seen:?}");
    assert!(seen.xattr_blocks >= 1 || seen.inode_xattrs >= 1, "{what}: {seen:?}");
    let root = image.list(2);
    for (name, kind) in [
        ("lost+found", FileType::Directory),
        ("file", FileType::Regular),
        ("many", FileType::Directory),
        ("short", FileType::Symlink),
        ("long", FileType::Symlink),
        ("pipe", FileType::Fifo),
        ("char", FileType::CharDevice),
        ("block", FileType::BlockDevice),
    ] {
        let (ino, code) = root[name.as_bytes()];
        assert_eq!(FileType::from_dirent(code), Some(kind), "{what}: {name}");
        assert_eq!(image.inode(ino).file_type(), Some(kind), "{what}: {name}");
    }
    assert_eq!(root.len(), 8);
    let inode = |name: &str| image.inode(root[name.as_bytes()].0);
    assert_eq!(inode("short").fast_symlink(), Some(&b"target"[..]));
    assert_eq!(inode("long").fast_symlink(), None);
    assert_eq!(inode("char").device(), Device { major: 1, minor: 3 });
    assert_eq!(inode("block").device(), Device { major: 300, minor: 7000 });
    assert_eq!(inode("file").size, 300_000);
    let many = image.list(root[&b"many"[..]].0);
    let expected: Vec<Vec<u8>> = (0..NAMES).filter(|i| i % 7 != 0).map(|i| name(i).into_bytes()).collect();
    assert_eq!(many.into_keys().collect::<Vec<_>>(), expected, "{what}");
    let mut attributes: Vec<(String, usize)> = image
        .xattrs(root[&b"file"[..]].0)
        .into_iter()
        .map(|x| (String::from_utf8(xattr::join_name(x.name_index, &x.name).unwrap()).unwrap(), x.value.len()))
        .collect();
    attributes.sort();
    let expected = [("security.capability", 3), ("user.large", 700), ("user.other", 7), ("user.small", 4)];
    assert_eq!(attributes, expected.map(|(name, len)| (name.to_owned(), len)), "{what}");
}

#[test]
fn every_option_set_is_read() {
    if !have("mke2fs") || !have("debugfs") {
        return;
    }
    for set in SETS {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        crate::common::sparse(&path, 40 * MIB);
        let mut args = vec!["-F", "-q", "-t", "ext4"];
        args.extend(set);
        args.push(path.to_str().unwrap());
        must("mke2fs", &args);
        fill(dir.path(), &path);
        check(&path, &format!("{set:?}"));
    }
}

#[test]
fn our_own_images_are_read_after_debugfs_filled_them() {
    if !have("debugfs") {
        return;
    }
    for block_size in [1024, 2048, 4096] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        let mut options = crate::common::options();
        options.block_size = Some(block_size);
        crate::common::make(&path, 40 * MIB, &options);
        fill(dir.path(), &path);
        check(&path, &format!("block size {block_size}"));
        assert!(Image::open(&path).has_csum());
    }
}
