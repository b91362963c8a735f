//! Attributes whose names were hashed by signed characters, as kernels before 6.2 did it on most processors: read as
//! they are.

use crate::rig::{Fs, ImageFile, assert_clean, checked, mkfs, with_kernel};
use ondol_format::csum::crc32c;
use ondol_volume::{Error, Image, ROOT, SetXattr};

/// A name behind `user.` that the two ways of hashing tell apart.
const NAME: &[u8] = b"s\xc3\xb5na\xff";
/// Bytes before an entry's name; the last four are its hash.
const ENTRY: usize = 16;

fn full(name: &[u8]) -> Vec<u8> {
    [b"user.", name].concat()
}

/// The hash of an entry, whose value is `words`, by signed characters.
fn signed_hash(name: &[u8], words: &[u8]) -> u32 {
    let hash = name.iter().fold(0u32, |hash, byte| hash.rotate_left(5) ^ i32::from(*byte as i8) as u32);
    words.chunks(4).fold(hash, |hash, word| hash.rotate_left(16) ^ u32::from_le_bytes(word.try_into().expect("a word")))
}

/// An image with one attribute, in whose entry the hash is made another; and the place of that hash.
fn image(value: &[u8], hash: impl Fn(&Image) -> u32) -> Vec<u8> {
    let fs = Fs::mount(mkfs(16, &["-b", "1024", "-O", "ea_inode,^metadata_csum"]));
    let file = fs.create(ROOT, "f");
    fs.volume.xattrs().setxattr(file, &full(NAME), value, SetXattr::Any).expect("an attribute");
    let hash = hash(&Image::open(fs.store.clone()).expect("an image"));
    let mut bytes = fs.unmounted();
    let journal = ImageFile::new(&bytes).ask("bmap <8> 0").trim().parse::<usize>().expect("a block") * 1024;
    // The log may hold older copies.
    let places: Vec<usize> = (ENTRY..bytes.len() - NAME.len())
        .filter(|at| &bytes[*at..at + NAME.len()] == NAME && bytes[at - ENTRY] == NAME.len() as u8)
        .filter(|at| !(journal..journal + (1 << 20)).contains(at))
        .collect();
    assert!(!places.is_empty());
    for at in places {
        assert_ne!(bytes[at - 4..at], hash.to_le_bytes(), "the same hash both ways");
        bytes[at - 4..at].copy_from_slice(&hash.to_le_bytes());
    }
    bytes
}

fn assert_read(bytes: &[u8], value: &[u8], what: &str) {
    assert_clean(bytes, what);
    let name = full(NAME);
    let fs = Fs::mount(bytes.to_vec());
    let file = fs.lookup("f");
    assert_eq!(fs.volume.xattrs().getxattr(file, &name).expect("a value"), value, "{what}");
    // It stays readable with others beside it, and is written anew.
    fs.volume.xattrs().setxattr(file, b"user.other", &[1; 100], SetXattr::Any).expect("an attribute");
    assert_eq!(fs.volume.xattrs().getxattr(file, &name).expect("a value"), value, "{what}");
    let bytes = fs.unmounted();
    assert_clean(&bytes, what);
    with_kernel(&bytes, |at| {
        use std::os::unix::ffi::OsStrExt;
        let mut found = vec![0; value.len()];
        rustix::fs::getxattr(at.join("f"), std::ffi::OsStr::from_bytes(&name), &mut found).expect("a value");
        assert_eq!(found, value, "{what}");
    });
    fs.volume.xattrs().setxattr(file, &name, &[5; 3000], SetXattr::Replace).expect("an attribute");
    assert_clean(&fs.unmounted(), what);
}

#[test]
fn a_value_in_an_inode_is_read_by_either_hash() {
    let value = vec![3; 5000];
    let word = |image: &Image| crc32c(image.superblock().value_seed(), &value).to_le_bytes();
    assert_read(&image(&value, |image| signed_hash(NAME, &word(image))), &value, "a value in an inode");
    // Any other hash is still none.
    let bytes = image(&value, |image| signed_hash(NAME, &word(image)) ^ 1);
    assert!(!checked(&bytes).is_clean());
    let fs = Fs::mount(bytes);
    let read = fs.volume.xattrs().getxattr(fs.lookup("f"), &full(NAME));
    assert!(matches!(read, Err(Error::Corrupt(_))), "{read:?}");
}

#[test]
fn a_value_in_a_block_is_checked_by_either_hash() {
    let value = vec![9; 400];
    assert_read(&image(&value, |_| signed_hash(NAME, &value)), &value, "a value in a block");
    assert!(!checked(&image(&value, |_| signed_hash(NAME, &value) ^ 1)).is_clean());
}
