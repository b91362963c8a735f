//! A listing loses no name.

use ondol::{FormatOptions, OpenOptions, Volume};
use std::collections::BTreeSet;

/// A size that no other inode has.
const SIZE: u64 = 0x01_2345_6789;

#[test]
fn a_name_is_listed_though_its_inode_is_damaged() {
    let dir = tempfile::tempdir().expect("a directory");
    let image = dir.path().join("image");
    Volume::format(&image, &FormatOptions::new().size(16 << 20)).expect("format");
    let volume = Volume::open(&image).expect("open");
    for name in ["/a", "/damaged", "/z"] {
        volume.write(name, b"text").expect("write");
    }
    OpenOptions::new().write(true).open(&volume, "/damaged").and_then(|file| file.set_len(SIZE)).expect("a size");
    volume.close().expect("close");
    let mut bytes = std::fs::read(&image).expect("read");
    let size = (SIZE as u32).to_le_bytes();
    let at: Vec<usize> = bytes.windows(4).enumerate().filter(|(_, w)| *w == size).map(|(at, _)| at).collect();
    assert!(!at.is_empty(), "the inode is not found");
    for at in at {
        bytes[at + 8] ^= 1;
    }
    std::fs::write(&image, bytes).expect("write back");
    let volume = Volume::open(&image).expect("open");
    let names: BTreeSet<_> =
        volume.read_dir("/").expect("a listing").map(|entry| entry.expect("an entry").file_name()).collect();
    assert!(["a", "damaged", "z"].iter().all(|name| names.contains(std::ffi::OsStr::new(name))), "{names:?}");
    assert!(volume.metadata("/damaged").is_err());
    assert_eq!(volume.read("/z").expect("read"), b"text");
}
