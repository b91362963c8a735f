//! Permissions, owners, times and sizes: set here, read here, by debugfs and by the kernel.

use crate::rig::{Fs, ImageFile, NOW, assert_clean, mkfs, with_kernel};
use ondol_env::Timestamp;
use ondol_testkit::over_engines;
use ondol_volume::{Error, ROOT, SetAttr, SetTime};
use std::os::unix::fs::MetadataExt;

over_engines! {
    everything_at_once,
    times_that_an_inode_cannot_hold,
    setuid_goes_with_a_write,
    protected_inodes,
    sizes_of_what_is_no_file,
}

const NONE: SetAttr =
    SetAttr { perm: None, uid: None, gid: None, size: None, atime: None, mtime: None, kill_suid: false };

fn at(sec: i64, nsec: u32) -> Option<SetTime> {
    Some(SetTime::To(Timestamp { sec, nsec }))
}

fn everything_at_once() {
    for options in [&["-I", "256"][..], &["-I", "128", "-O", "^metadata_csum"]] {
        let fs = Fs::mount(mkfs(16, options));
        let ino = fs.create(ROOT, "f");
        fs.volume.files().write(ino, 0, &[1; 9000]).expect("a write");
        fs.env.advance(3_000_000_000);
        let set = SetAttr {
            perm: Some(0o4751),
            uid: Some(70_000),
            gid: Some(80_001),
            size: Some(5000),
            atime: at(1_000_000, 5),
            mtime: at(-77, 999_999_999),
            kill_suid: false,
        };
        let attr = fs.volume.inode_ops().setattr(ino, &set).expect("attributes");
        let large = options[1] == "256";
        let nsec = |n| if large { n } else { 0 };
        assert_eq!((attr.perm, attr.uid, attr.gid, attr.size), (0o4751, 70_000, 80_001, 5000));
        assert_eq!(attr.atime, Timestamp { sec: 1_000_000, nsec: nsec(5) });
        assert_eq!(attr.mtime, Timestamp { sec: -77, nsec: nsec(999_999_999) });
        assert_eq!(attr.ctime, Timestamp { sec: NOW.sec + 3, nsec: nsec(NOW.nsec) });
        assert_eq!(fs.volume.getattr(ino).expect("attributes"), attr);
        let bytes = fs.unmounted();
        assert_clean(&bytes, "set");
        assert_eq!(Fs::mount(bytes.clone()).volume.getattr(ino).expect("attributes"), attr, "{options:?}");
        with_kernel(&bytes, |path| {
            let m = std::fs::metadata(path.join("f")).expect("metadata");
            assert_eq!((m.mode() & 0o7777, m.uid(), m.gid(), m.size()), (0o4751, 70_000, 80_001, 5000));
            assert_eq!((m.mtime(), m.mtime_nsec()), (-77, i64::from(nsec(999_999_999))));
            assert_eq!((m.ctime(), m.ctime_nsec()), (NOW.sec + 3, i64::from(nsec(NOW.nsec))));
        });
    }
}

fn times_that_an_inode_cannot_hold() {
    const LAST: i64 = i32::MAX as i64 + (3 << 32);
    for (size, last) in [("256", LAST), ("128", i32::MAX.into())] {
        let fs = Fs::mount(mkfs(16, &["-I", size]));
        let ino = fs.create(ROOT, "f");
        for (sec, held) in [(i64::MAX, last), (i64::MIN, i32::MIN.into()), (last, last), (0, 0)] {
            let set = SetAttr { mtime: at(sec, 0), atime: Some(SetTime::Now), ..NONE };
            let attr = fs.volume.inode_ops().setattr(ino, &set).expect("a time");
            assert_eq!((attr.mtime.sec, attr.atime.sec), (held, NOW.sec));
            assert_eq!(Fs::mount(fs.unmounted()).volume.getattr(ino).expect("attributes"), attr);
        }
        let set = SetAttr { mtime: at(0, 1_000_000_000), ..NONE };
        assert!(matches!(fs.volume.inode_ops().setattr(ino, &set), Err(Error::Invalid(_))));
    }
}

fn setuid_goes_with_a_write() {
    let fs = Fs::mount(mkfs(16, &[]));
    let v = &fs.volume;
    let (file, dir) = (fs.create(ROOT, "f"), fs.mkdir(ROOT, "d"));
    let kill = SetAttr { kill_suid: true, ..NONE };
    for (before, after) in [(0o6775, 0o775), (0o6765, 0o2765), (0o4755, 0o755), (0o1644, 0o1644)] {
        v.inode_ops().setattr(file, &SetAttr { perm: Some(before), ..NONE }).expect("chmod");
        assert_eq!(v.inode_ops().setattr(file, &kill).expect("kill").perm, after);
    }
    v.inode_ops().setattr(dir, &SetAttr { perm: Some(0o6775), ..NONE }).expect("chmod");
    assert_eq!(v.inode_ops().setattr(dir, &kill).expect("kill").perm, 0o6775, "directories keep theirs");
    for set in [kill, SetAttr { uid: Some(5), ..NONE }, SetAttr { gid: Some(6), ..NONE }] {
        v.xattrs().setxattr(file, b"security.capability", &[1; 20], Default::default()).expect("capabilities");
        v.inode_ops().setattr(file, &set).expect("attributes");
        assert!(matches!(v.xattrs().getxattr(file, b"security.capability"), Err(Error::NoAttribute)));
    }
    assert_clean(&fs.unmounted(), "setuid");
}

fn protected_inodes() {
    let fs = Fs::mount(mkfs(16, &[]));
    let ino = fs.create(ROOT, "f");
    let bytes = fs.unmounted();
    let sets = [
        SetAttr { perm: Some(0), ..NONE },
        SetAttr { uid: Some(1), ..NONE },
        SetAttr { size: Some(1), ..NONE },
        SetAttr { mtime: at(1, 1), ..NONE },
        SetAttr { atime: Some(SetTime::Now), mtime: Some(SetTime::Now), ..NONE },
        SetAttr { mtime: Some(SetTime::Now), ..NONE },
    ];
    for (flag, forbidden) in [("0x80010", 5), ("0x80020", 4)] {
        let file = ImageFile::new(&bytes);
        file.debugfs(&format!("sif <{ino}> flags {flag}\n"));
        let fs = Fs::mount(file.bytes());
        for (i, set) in sets.iter().enumerate() {
            let refused = matches!(fs.volume.inode_ops().setattr(ino, set), Err(Error::NotPermitted(_)));
            assert_eq!(refused, i != 4 || forbidden == 5, "{flag}: {set:?}");
        }
        assert!(fs.volume.stopped().is_none());
    }
}

fn sizes_of_what_is_no_file() {
    let fs = Fs::mount(mkfs(16, &[]));
    let dir = fs.mkdir(ROOT, "d");
    let link = fs.volume.names().symlink(ROOT, b"l", b"d", crate::rig::USER).expect("a symlink").ino;
    let set = SetAttr { size: Some(10), perm: Some(0o700), ..NONE };
    assert!(matches!(fs.volume.inode_ops().setattr(dir, &set), Err(Error::IsDirectory(_))));
    assert!(fs.volume.inode_ops().setattr(link, &set).is_err());
    assert_eq!(fs.volume.getattr(dir).expect("attributes").perm, 0o755, "nothing has changed");
    assert_clean(&fs.unmounted(), "sizes");
}
