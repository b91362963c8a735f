//! Names of all bytes in indexed directories, from Ondol to the kernel's ext4 and back: for each hash, whatever the
//! superblock says of characters.

use crate::rig::{Fs, ImageFile, NOW, assert_clean, checked, mkfs, with_kernel};
use ondol_block::RamStore;
use ondol_format::RawSuperblock;
use ondol_volume::{Image, Ino, ROOT, Replay};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// What `s_flags` says of characters.
const NOTHING: u32 = 0;
const SIGNED: u32 = 1;
const UNSIGNED: u32 = 2;

/// Two names for each byte that a name may have, of any length: so many that a directory of them has an index.
fn names() -> Vec<Vec<u8>> {
    let bytes = (1..=255u8).filter(|byte| *byte != b'/');
    let of = |byte: u8| {
        let n = usize::from(byte);
        let long = [format!("{byte:03}-").as_bytes(), &vec![byte; n]].concat();
        let mixed =
            [&[byte; 3][..], b"and", &[byte.wrapping_mul(7) | 0x40; 2], format!("{byte:x}").as_bytes()].concat();
        [long[..long.len().min(255)].to_vec(), mixed]
    };
    bytes.flat_map(of).collect()
}

/// An image whose superblock says this.
fn image(block_size: &str, version: &str, hint: u32) -> Vec<u8> {
    let image = ImageFile::new(&mkfs(16, &["-b", block_size]));
    image.debugfs(&format!("ssv def_hash_version {version}\nssv flags {hint}\n"));
    image.bytes()
}

fn superblock(bytes: &[u8]) -> RawSuperblock {
    let image = Image::open(Arc::new(RamStore::from_bytes(bytes.to_vec()))).expect("an image");
    image.superblock().raw().clone()
}

fn hint_of(bytes: &[u8]) -> u32 {
    superblock(bytes).s_flags.get() & (SIGNED | UNSIGNED)
}

/// Mounts it as for a user who writes.
fn mounted(bytes: Vec<u8>) -> Fs {
    let store = Arc::new(RamStore::from_bytes(bytes));
    let marked = Image::open(store.clone()).and_then(|image| image.mark_mounted(NOW, None, Replay::Anybody));
    marked.expect("a superblock");
    Fs::over(store)
}

fn make(fs: &Fs, dir: &str) -> Ino {
    let file = fs.create(ROOT, &format!("file of {dir}"));
    let dir = fs.mkdir(ROOT, dir);
    for name in names() {
        fs.volume.names().link(file, dir, &name).expect("a link");
    }
    dir
}

fn assert_found(fs: &Fs, dir: &str, what: &str) {
    let dir = fs.lookup(dir);
    for name in names() {
        fs.volume
            .names()
            .lookup(dir, &name)
            .unwrap_or_else(|e| panic!("{what}: {:?}: {e}", name.escape_ascii().to_string()));
    }
}

/// The kernel finds our names, and makes its own.
fn kernels_turn(at: &Path, what: &str) {
    for name in names() {
        let path = at.join("ours").join(OsStr::from_bytes(&name));
        path.symlink_metadata().unwrap_or_else(|e| panic!("{what}: {:?}: {e}", name.escape_ascii().to_string()));
    }
    let theirs = at.join("theirs");
    std::fs::create_dir(&theirs).expect("mkdir");
    for name in names() {
        std::fs::hard_link(at.join("file of ours"), theirs.join(OsStr::from_bytes(&name))).expect("a link");
    }
}

#[test]
fn names_of_all_bytes_are_found_on_both_sides() {
    for block_size in ["1024", "4096"] {
        for (number, version) in ["legacy", "half_md4", "tea"].into_iter().enumerate() {
            for hint in [NOTHING, SIGNED, UNSIGNED] {
                let what = format!("{block_size} bytes, hash {version}, hint {hint}");
                let fs = mounted(image(block_size, version, hint));
                let dir = make(&fs, "ours");
                assert!(fs.volume.inode_ops().flags(dir).expect("flags") & 0x1000 != 0, "{what}: no index");
                let bytes = fs.unmounted();
                assert_clean(&bytes, &what);
                assert_eq!(usize::from(superblock(&bytes).s_def_hash_version), number);
                let says = if hint == NOTHING { UNSIGNED } else { hint };
                assert_eq!(hint_of(&bytes), says, "{what}");
                let Some(bytes) = with_kernel(&bytes, |at| kernels_turn(at, &what)) else { return };
                assert_clean(&bytes, &what);
                let fs = mounted(bytes);
                assert_found(&fs, "theirs", &what);
                assert_found(&fs, "ours", &what);
            }
        }
    }
}

/// Where the kernel is the first to write, it writes down what we read without a hint, too.
#[test]
fn without_a_hint_the_kernel_and_we_take_the_same() {
    let make_theirs = |at: &Path| {
        std::fs::create_dir(at.join("ours")).expect("mkdir");
        std::fs::write(at.join("file of ours"), b"").expect("a file");
        for name in names() {
            std::fs::hard_link(at.join("file of ours"), at.join("ours").join(OsStr::from_bytes(&name)))
                .expect("a link");
        }
    };
    let Some(bytes) = with_kernel(&image("1024", "half_md4", NOTHING), make_theirs) else { return };
    let image = ImageFile::new(&bytes);
    image.debugfs(&format!("ssv flags {NOTHING}\n"));
    // Not even marked: as whoever only reads.
    assert_found(&Fs::open(image.bytes()), "ours", "read without a hint");
}

/// Names of before there was a hint: e2fsck takes characters as signed, and writes that down.
#[test]
fn a_check_takes_names_without_a_hint_as_e2fsck_does() {
    for (made_as, clean) in [(SIGNED, true), (UNSIGNED, false)] {
        let fs = mounted(image("1024", "half_md4", made_as));
        make(&fs, "ours");
        let image = ImageFile::new(&fs.unmounted());
        image.debugfs(&format!("ssv flags {NOTHING}\n"));
        let (code, words) = image.e2fsck("-fn");
        let report = checked(&image.bytes());
        assert_eq!((code == 0, report.is_clean()), (clean, clean), "made as {made_as}: {words}{:?}", report.problems);
        if clean {
            let store = Arc::new(RamStore::from_bytes(image.bytes()));
            Image::open(store.clone()).and_then(|image| image.mark_checked(NOW)).expect("a superblock");
            assert_eq!(hint_of(&store.to_bytes()), SIGNED);
            assert_found(&mounted(store.to_bytes()), "ours", "after a check");
        }
    }
}
