//! Names that lead to inodes of the file system's own: shown as the kernel's ext4 shows them, and for nobody to change.

use crate::rig::{Fs, ImageFile, USER, assert_clean, mkfs, run, with_kernel};
use ondol_volume::{CopyRange, Error, Fallocate, Image, Ino, ROOT, Rename, SetAttr, SetXattr};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const NAME: &[u8] = b".journal";

/// A volume to which tune2fs has given a journal while it was mounted, which makes it a file; `None`, noted as skipped,
/// without loop devices.
fn with_visible_journal() -> Option<Vec<u8>> {
    let image = mkfs(32, &["-b", "1024", "-O", "^has_journal"]);
    with_kernel(&image, |at| {
        let device = run("findmnt", &["-n", "-o", "SOURCE", at.to_str().expect("a path")]);
        let device = String::from_utf8_lossy(&device.stdout).trim().to_owned();
        let tuned = run("tune2fs", &["-j", "-J", "size=4", &device]);
        assert!(tuned.status.success(), "{}", String::from_utf8_lossy(&tuned.stderr));
        assert!(at.join(".journal").exists());
    })
}

/// What stat(2) tells of it.
fn seen_by_kernel(at: &Path) -> (u64, u32, u64, (u32, u32), u64, u64) {
    let m = at.join(".journal").symlink_metadata().expect("metadata");
    (m.ino(), m.mode(), m.nlink(), (m.uid(), m.gid()), m.size(), m.blocks())
}

fn seen(fs: &Fs) -> (u64, u32, u64, (u32, u32), u64, u64) {
    let a = fs.volume.names().lookup(ROOT, NAME).expect("the journal");
    let mode = u32::from(a.file_type.mode_bits() | a.perm);
    (a.ino.into(), mode, a.nlink.into(), (a.uid, a.gid), a.size, a.blocks)
}

fn names(fs: &Fs) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let listed = fs.volume.names().readdir(ROOT, 0, &mut |e| {
        all.push(e.name.to_vec());
        true
    });
    listed.expect("a listing");
    all
}

/// Nothing that changes an inode, its names or its contents is let through.
fn assert_protected(fs: &Fs, ino: Ino) {
    let (v, other) = (&fs.volume, fs.create(ROOT, "other"));
    v.files().write(other, 0, &[7; 4096]).expect("a write");
    let denied = |what: &str, done: Result<(), Error>| {
        assert!(matches!(done, Err(Error::NotPermitted(_))), "{what}: {done:?}");
    };
    denied("open", v.inode_ops().check_open(ino, true, true, false));
    denied("write", v.files().write(ino, 0, b"x").map(drop));
    denied("append", v.files().append(ino, b"x").map(drop));
    denied("copy", v.ranges().copy_range(other, ino, CopyRange { from: 0, to: 0, len: 10 }, false).map(drop));
    denied("exchange", v.ranges().exchange(ino, 0, other, 0, &Default::default()));
    for how in Fallocate::ALL {
        denied("fallocate", v.files().fallocate(ino, how, 0, 4096));
    }
    for set in [
        SetAttr { size: Some(0), ..SetAttr::default() },
        SetAttr { perm: Some(0o666), ..SetAttr::default() },
        SetAttr { uid: Some(1), ..SetAttr::default() },
    ] {
        denied("setattr", v.inode_ops().setattr(ino, &set).map(drop));
    }
    denied("setxattr", v.xattrs().setxattr(ino, b"user.a", b"b", SetXattr::Any));
    denied("chattr -i", v.inode_ops().set_flags(ino, 0, u32::MAX));
    denied("link", v.names().link(ino, ROOT, b"second").map(drop));
    denied("unlink", v.names().unlink(ROOT, NAME));
    denied("rename", v.names().rename(ROOT, NAME, ROOT, b"elsewhere", Rename::Replace));
    denied("rename over it", v.names().rename(ROOT, b"other", ROOT, NAME, Rename::Replace));
    denied("exchange of names", v.names().rename(ROOT, b"other", ROOT, NAME, Rename::Exchange));
    v.names().unlink(ROOT, b"other").expect("unlink");
}

#[test]
fn a_journal_with_a_name_is_shown_and_protected() {
    let Some(bytes) = with_visible_journal() else { return };
    let mut theirs = None;
    let Some(bytes) = with_kernel(&bytes, |at| theirs = Some(seen_by_kernel(at))) else { return };
    let fs = Fs::mount(bytes);
    assert!(names(&fs).iter().any(|name| name == NAME), "it is not listed");
    assert_eq!(Some(seen(&fs)), theirs);
    let ino = fs.lookup(".journal");
    assert_eq!(fs.volume.inode_ops().flags(ino).expect("flags") & 0x10, 0x10, "not immutable");
    let mut first = [0; 4];
    fs.volume.files().read(ino, 0, &mut first).expect("its first bytes");
    assert_eq!(first, [0xc0, 0x3b, 0x39, 0x98]);
    assert_protected(&fs, ino);
    let bytes = fs.unmounted();
    assert_clean(&bytes, "with a visible journal");
    with_kernel(&bytes, |at| assert_eq!(Some(seen_by_kernel(at)), theirs));
    // Only its extents: what the image says of its flags makes no difference.
    let image = ImageFile::new(&bytes);
    image.debugfs("sif /.journal flags 0x80000\n");
    let fs = Fs::mount(image.bytes());
    assert_protected(&fs, fs.lookup(".journal"));
    fs.volume.names().create(ROOT, b"after", 0o644, USER).expect("a file");
    assert_clean(&fs.unmounted(), "without its flags");
}

/// Names of quotas, the orphan file and reserved inodes are listed, and lead nowhere.
#[test]
fn other_inodes_of_the_system_are_listed_and_not_found() {
    let fs = Fs::mount(mkfs(16, &["-b", "1024", "-O", "orphan_file"]));
    let quotas = ["usr", "grp", "prj"].map(|name| (name, fs.create(ROOT, name)));
    let orphans =
        Image::open(fs.store.clone()).expect("an image").superblock().orphan_file_inum().expect("an orphan file");
    let image = ImageFile::new(&fs.unmounted());
    let told = quotas.map(|(name, ino)| format!("ssv {name}_quota_inum {ino}\n")).concat();
    let own = [1, 3, 4, 7, 8, orphans].map(|ino| format!("own-{ino}"));
    let links = own.each_ref().map(|name| format!("ln <{}> {name}\n", &name[4..])).concat();
    image.debugfs(&(told + &links));
    let bytes = image.bytes();
    let all: Vec<String> = own.into_iter().chain(quotas.map(|(name, _)| name.to_owned())).collect();
    with_kernel(&bytes, |at| {
        let listed = std::fs::read_dir(at).expect("a listing").map(|e| e.expect("an entry").file_name());
        let listed: Vec<_> = listed.collect();
        for name in &all {
            assert!(listed.iter().any(|n| n == name.as_str()), "{name}: {listed:?}");
            let found = at.join(name).symlink_metadata();
            assert_eq!(found.map_err(|e| e.raw_os_error()).err(), Some(Some(117)), "{name}");
        }
    });
    let fs = Fs::mount(bytes);
    let listed = names(&fs);
    for name in &all {
        assert!(listed.iter().any(|n| n == name.as_bytes()), "{name} is not listed");
        let found = fs.volume.names().lookup(ROOT, name.as_bytes());
        assert!(matches!(found, Err(Error::Corrupt(_))), "{name}: {found:?}");
    }
}
