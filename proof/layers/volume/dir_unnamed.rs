//! Files without a name, whiteouts in large directories, and blocks that are kept back.

use crate::rig::{Fs, ImageFile, USER, assert_clean, mkfs};
use ondol_testkit::over_engines;
use ondol_volume::{Caller, Device, Error, Ino, ROOT, Rename, SetAttr};

over_engines! {
    a_file_without_a_name_gets_one_or_goes,
    an_unnamed_file_cannot_come_from_everywhere,
    whiteouts_stay_while_a_directory_is_split,
    blocks_that_are_kept_back,
    an_acl_of_a_stranger_takes_setgid,
}

const LIST: &[&str] = &["-b", "1024"];
const FILE: &[&str] = &["-b", "1024", "-O", "orphan_file"];

fn names(fs: &Fs, dir: Ino) -> usize {
    let mut count = 0;
    fs.volume
        .names()
        .readdir(dir, 0, &mut |_| {
            count += 1;
            true
        })
        .expect("a listing");
    count - 2
}

fn a_file_without_a_name_gets_one_or_goes() {
    for options in [LIST, FILE] {
        let fs = Fs::mount(mkfs(16, options));
        let v = &fs.volume;
        let free = v.statfs().files_free;
        let dir = fs.mkdir(ROOT, "d");
        let before = v.getattr(dir).expect("attributes");
        fs.env.advance(1_000_000_000);
        let kept = v.names().tmpfile(dir, 0o640, Caller::new(5, 6)).expect("a file");
        assert_eq!((kept.nlink, kept.perm, kept.uid, kept.gid), (0, 0o640, 5, 6));
        let gone = v.names().tmpfile(dir, 0o600, USER).expect("a file");
        assert_eq!(v.getattr(dir).expect("attributes"), before, "the directory has not changed");
        for (ino, byte) in [(kept.ino, 1), (gone.ino, 2)] {
            v.files().write(ino, 0, &[byte; 20_000]).expect("a write");
        }
        // Recovery finds two orphans, and nothing of them afterwards.
        let crashed = Fs::open(fs.bytes());
        assert_eq!(crashed.volume.inode_ops().process_orphans().expect("orphans").deleted, 2);
        assert_eq!(crashed.volume.statfs().files_free, free - 1);
        assert_clean(&crashed.unmounted(), "recovered");
        let linked = v.names().link(kept.ino, dir, b"name").expect("a link");
        assert_eq!((linked.nlink, linked.size), (1, 20_000));
        v.names().link(kept.ino, ROOT, b"other").expect("a link");
        v.inode_ops().release(gone.ino).expect("release");
        assert!(matches!(v.getattr(gone.ino), Err(Error::NotFound)));
        assert!(matches!(v.names().link(gone.ino, ROOT, b"late"), Err(Error::NotFound)));
        v.names().unlink(dir, b"name").expect("unlink");
        v.names().unlink(ROOT, b"other").expect("unlink");
        // It has had names: now it is as any file that has lost them.
        assert!(matches!(v.names().link(kept.ino, dir, b"again"), Err(Error::NotFound)));
        v.inode_ops().release(kept.ino).expect("release");
        assert_eq!((v.statfs().files_free, names(&fs, dir)), (free - 1, 0));
        assert_clean(&fs.unmounted(), "the end");
    }
}

fn an_unnamed_file_cannot_come_from_everywhere() {
    let fs = Fs::mount(mkfs(16, LIST));
    let v = &fs.volume;
    let (file, dir) = (fs.create(ROOT, "f"), fs.mkdir(ROOT, "d"));
    assert!(matches!(v.names().tmpfile(file, 0o600, USER), Err(Error::NotDirectory(_))));
    let flags = v.inode_ops().flags(dir).expect("flags");
    v.inode_ops().set_flags(dir, flags | 0x10, u32::MAX).expect("chattr +i");
    assert!(matches!(v.names().tmpfile(dir, 0o600, USER), Err(Error::NotPermitted(_))));
    v.inode_ops().set_flags(dir, flags, u32::MAX).expect("chattr -i");
    let ino = v.names().tmpfile(dir, 0o600, USER).expect("a file").ino;
    assert!(matches!(v.names().link(ino, dir, &[b'n'; 256]), Err(Error::NameTooLong)));
    assert!(matches!(v.names().link(ino, ROOT, b"f"), Err(Error::Exists)));
    v.names().link(ino, dir, b"n").expect("a link");
    v.inode_ops().release(ino).expect("release");
    assert_clean(&fs.unmounted(), "the end");
}

fn whiteouts_stay_while_a_directory_is_split() {
    let fs = Fs::mount(mkfs(32, LIST));
    let v = &fs.volume;
    let dir = fs.mkdir(ROOT, "d");
    let how = Rename::Whiteout { owner: Caller::new(7, 8), replace: true };
    for i in 0..600 {
        let (from, to) = (format!("a name of some length {i}"), format!("another name of some length {i}"));
        fs.create(dir, &from);
        v.names().rename(dir, from.as_bytes(), dir, to.as_bytes(), how).expect("a rename");
        let left = v.names().lookup(dir, from.as_bytes()).expect("a whiteout");
        assert_eq!((left.rdev, left.perm, left.uid, left.gid, left.nlink), (Device::default(), 0, 7, 8, 1));
        assert_eq!(v.names().lookup(dir, to.as_bytes()).expect("the file").nlink, 1);
    }
    assert_eq!(names(&fs, dir), 1200);
    // Over another whiteout, and a directory out of its parent.
    v.names().rename(dir, b"another name of some length 1", dir, b"a name of some length 2", how).expect("a rename");
    let sub = fs.mkdir(dir, "sub");
    v.names().rename(dir, b"sub", ROOT, b"sub", how).expect("a rename");
    assert_eq!((v.getattr(dir).expect("d").nlink, v.getattr(sub).expect("sub").nlink), (2, 2));
    let again = Rename::Whiteout { owner: USER, replace: false };
    let refused = v.names().rename(ROOT, b"sub", dir, b"sub", again);
    assert!(matches!(refused, Err(Error::Exists)));
    assert_clean(&fs.unmounted(), "whiteouts");
}

/// Writes until nothing is free for `caller`; bytes written.
fn fill(fs: &Fs, ino: Ino, caller: Caller) -> u64 {
    let v = &fs.volume;
    let begin = v.getattr(ino).expect("attributes").size;
    v.on_behalf_of(caller, || {
        loop {
            match v.files().append(ino, &[9; 1024]) {
                Ok(_) => {}
                Err(Error::NoSpace(_)) => break,
                Err(e) => panic!("{e}"),
            }
        }
    });
    v.getattr(ino).expect("attributes").size - begin
}

fn blocks_that_are_kept_back() {
    let image = ImageFile::new(&mkfs(8, &["-b", "1024", "-m", "20", "-J", "size=1"]));
    image.debugfs("ssv def_resuid 77\nssv def_resgid 78\n");
    let fs = Fs::mount(image.bytes());
    let v = &fs.volume;
    let kept = v.statfs().free - v.statfs().available;
    assert!(kept > 1000, "{kept} blocks are kept back");
    let (file, dir) = (fs.create(ROOT, "f"), fs.mkdir(ROOT, "d"));
    assert!(fill(&fs, file, Caller::new(1000, 1000)) > 0);
    let left = v.statfs();
    assert!(left.available == 0 && left.free >= kept, "{left:?}");
    let grow = |caller: Caller| v.on_behalf_of(caller, || v.files().write(file, 1 << 30, &[1; 3000]).map(drop));
    assert!(matches!(grow(Caller::new(1000, 1000)), Err(Error::NoSpace(_))));
    assert!(matches!(v.files().write(file, 1 << 30, &[1; 3000]), Err(Error::NoSpace(_))), "nobody in particular");
    assert!(matches!(v.names().mkdir(dir, b"other", 0o755, Caller::new(1000, 1000)), Err(Error::NoSpace(_))));
    for (i, caller) in [Caller::new(77, 5), Caller::new(5, 78), Caller::new(0, 0)].into_iter().enumerate() {
        v.on_behalf_of(caller, || v.files().write(file, (1 << 30) + i as u64 * 4096, &[1; 3000])).expect("a write");
        v.names().mkdir(dir, format!("d{i}").as_bytes(), 0o755, caller).expect("mkdir");
    }
    let large =
        v.on_behalf_of(USER, || v.files().fallocate(file, ondol_volume::Fallocate::KeepSize, 1 << 31, 500 << 10));
    large.expect("blocks for root");
    assert!(fill(&fs, file, USER) > 0);
    assert!(v.statfs().free < kept / 4);
    assert_clean(&fs.unmounted(), "full");
}

fn an_acl_of_a_stranger_takes_setgid() {
    let fs = Fs::mount(mkfs(16, LIST));
    let v = &fs.volume;
    let ino = fs.create(ROOT, "f");
    let acl: Vec<u8> =
        [[2u32, 0x0006_0001, !0, 0x0005_0004, !0, 0x0004_0020, !0].map(u32::to_le_bytes)].concat().concat();
    let name = b"system.posix_acl_access";
    v.inode_ops().setattr(ino, &SetAttr { perm: Some(0o2755), ..SetAttr::default() }).expect("chmod");
    v.xattrs().setxattr(ino, name, &acl, Default::default()).expect("an ACL");
    assert_eq!(v.getattr(ino).expect("attributes").perm, 0o2654);
    v.xattrs().setxattr_without_setgid(ino, name, &acl, Default::default()).expect("an ACL");
    assert_eq!(v.getattr(ino).expect("attributes").perm, 0o654);
    assert_clean(&fs.unmounted(), "ACLs");
}
