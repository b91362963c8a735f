//! Names and attributes, side by side with the kernel's ext4: modes, ACLs, flags, times, error numbers.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the kernel's clock is the real one")]

mod names;

use names::{Sides, kernel, told};
use ondol::{Caller, Device, FileType, FsxAttr, SetAttr};
use ondol_testkit::image::Spec;
use ondol_testkit::op::Acl;
use rustix::fs::{self, AtFlags, CWD, IFlags, Mode, OFlags};
use rustix::io::Errno;
use std::process::Command;

const ACLS: [&str; 6] = [
    "u::rwx,g::rwx,o::rwx",
    "u::rw-,g::r--,o::---",
    "u::rwx,g::r-x,m::rwx,o::r-x",
    "u::rwx,u:7:rwx,g::r-x,m::rwx,o::---",
    "u::r-x,u:7:rw-,u:8:---,g::-wx,g:9:r--,m::r--,o::rwx",
    "u::---,g::---,g:100000:rwx,m::---,o::---",
];

#[test]
fn new_inodes_get_modes_and_acls_from_their_directory() {
    let Some(sides) = Sides::new(&Spec::new(32 << 20, 1024), "") else { return };
    let mut n = 0;
    for (d, acl) in (0..).zip([None].into_iter().chain(ACLS.iter().map(Some))) {
        let dir = format!("d{d}");
        sides.make(&format!("mkdir /{dir} 0777"));
        if let Some(acl) = acl {
            let value = acl.parse::<Acl>().unwrap().value();
            assert_eq!(sides.set_xattr(&dir, "system.posix_acl_default", &value), (Ok(()), Ok(())), "{acl}");
        }
        for mode in [0o666, 0o777, 0o640, 0o4711, 0] {
            for umask in [0, 0o022, 0o077, 0o177] {
                for kind in ["create", "mkdir", "mkfifo", "tmpfile"] {
                    n += 1;
                    let name = format!("{dir}/{n}");
                    make_as(&sides, &name, kind, mode, umask);
                    let why = format!("{kind} with mode {mode:o}, umask {umask:o}, default ACL {acl:?}");
                    sides.same_mode(&name, &why);
                    for acl in ["system.posix_acl_access", "system.posix_acl_default"] {
                        sides.same_xattr(&name, acl, &why);
                    }
                }
            }
        }
    }
}

/// Makes something by somebody with a umask.
fn make_as(sides: &Sides, path: &str, kind: &str, mode: u16, umask: u16) {
    let (dir, name) = path.split_once('/').unwrap();
    let (ours, parent) = (sides.ours(), sides.ino(dir));
    let caller = Caller { umask, ..Caller::default() };
    let at = sides.path(dir).join(name);
    let bits = Mode::from_raw_mode(mode.into());
    rustix::process::umask(Mode::from_raw_mode(umask.into()));
    match kind {
        "create" => {
            fs::open(&at, OFlags::CREATE | OFlags::WRONLY, bits).unwrap();
            ours.names().create(parent, name.as_bytes(), mode, caller).unwrap();
        }
        "mkdir" => {
            fs::mkdir(&at, bits).unwrap();
            ours.names().mkdir(parent, name.as_bytes(), mode, caller).unwrap();
        }
        "mkfifo" => {
            fs::mknodat(CWD, &at, fs::FileType::Fifo, bits, 0).unwrap();
            ours.names()
                .mknod(parent, name.as_bytes(), FileType::Fifo.mode_bits() | mode, Device::default(), caller)
                .unwrap();
        }
        _ => {
            use std::os::fd::AsRawFd;
            let file = fs::open(sides.path(dir), OFlags::TMPFILE | OFlags::RDWR, bits).unwrap();
            let held = format!("/proc/self/fd/{}", file.as_raw_fd());
            fs::linkat(CWD, held, CWD, &at, AtFlags::SYMLINK_FOLLOW).unwrap();
            let attr = ours.names().tmpfile(parent, mode, caller).unwrap();
            assert_eq!(attr.nlink, 0);
            ours.names().link(attr.ino, parent, name.as_bytes()).unwrap();
            ours.inode_ops().release(attr.ino).unwrap();
        }
    }
    rustix::process::umask(Mode::empty());
}

#[test]
fn setgid_directories_and_new_owners() {
    ["", "grpid"].into_iter().for_each(setgid_directories);
}

fn setgid_directories(options: &str) {
    let Some(sides) = Sides::new(&Spec::new(16 << 20, 4096), options) else { return };
    sides.make("mkdir /d 0755\nmkdir /p 0755");
    let set = |path: &str, set: SetAttr| sides.ours().inode_ops().setattr(sides.ino(path), &set).unwrap();
    std::os::unix::fs::chown(sides.path("d"), Some(3), Some(77)).unwrap();
    set("d", SetAttr { uid: Some(3), gid: Some(77), ..SetAttr::default() });
    fs::chmod(sides.path("d"), Mode::from_raw_mode(0o2775)).unwrap();
    set("d", SetAttr { perm: Some(0o2775), ..SetAttr::default() });
    sides.make(
        "create /d/f 0644\nmkdir /d/g 0755\nmkfifo /d/h 0600\nsymlink /d/i x\ncreate /d/j 02755\nmkdir /d/g/k 0700",
    );
    for path in ["d", "d/f", "d/g", "d/h", "d/i", "d/j", "d/g/k"] {
        sides.same_mode(path, &format!("in a setgid directory {options}"));
    }
    for (n, mode) in [0o4755, 0o2755, 0o6755, 0o6745, 0o2644, 0o4600, 0o1777].into_iter().enumerate() {
        for kind in ["create", "mkdir", "mkfifo"] {
            let path = format!("p/{kind}{n}");
            sides.make(&format!("{kind} /{path} 0600"));
            fs::chmod(sides.path(&path), Mode::from_raw_mode(mode)).unwrap();
            set(&path, SetAttr { perm: Some(mode as u16), ..SetAttr::default() });
            std::os::unix::fs::chown(sides.path(&path), Some(5), None).unwrap();
            set(&path, SetAttr { uid: Some(5), ..SetAttr::default() });
            sides.same_mode(&path, &format!("mode {mode:o}, then chown"));
        }
    }
}

#[test]
fn acls_are_judged_alike() {
    let Some(sides) = Sides::new(&Spec::new(16 << 20, 4096), "") else { return };
    sides.make("mkdir /d 0750\ncreate /f 0640\nmkfifo /p 0640\nsymlink /s x");
    let entry =
        |tag: u16, perm: u16, id: u32| [&tag.to_le_bytes()[..], &perm.to_le_bytes(), &id.to_le_bytes()].concat();
    let value = |entries: &[(u16, u16, u32)]| {
        let head = 2u32.to_le_bytes().to_vec();
        entries.iter().fold(head, |v, (t, p, i)| [v, entry(*t, *p, *i)].concat())
    };
    let none = u32::MAX;
    let (u, g, m, o) = ((1, 6, none), (4, 4, none), (16, 5, none), (32, 0, none));
    let mut values = vec![Vec::new(), vec![2], vec![1, 0, 0, 0], vec![2, 0, 0, 0], vec![2, 0, 0, 0, 1]];
    values.extend([
        value(&[u, g, o]),
        value(&[u, g, m, o]),
        value(&[u, (2, 7, 5), g, m, o]),
        value(&[u, (2, 7, 9), (2, 1, 5), g, m, o]),
        value(&[u, (2, 7, 5), (2, 1, 5), g, m, o]),
        value(&[u, (2, 7, 5), g, o]),
        value(&[u, g, (8, 7, 5), o]),
        value(&[g, u, o]),
        value(&[u, o]),
        value(&[u, g, g, o]),
        value(&[u, (2, 7, none), g, m, o]),
        value(&[u, g, (8, 7, none), m, o]),
        value(&[u, (4, 9, none), o]),
        value(&[u, (3, 4, none), g, o]),
        value(&[u, g, o, m]),
        value(&[(1, 7, 12), (4, 5, 13), (32, 5, 14)]),
    ]);
    for path in ["f", "d", "p", "s"] {
        for name in ["system.posix_acl_access", "system.posix_acl_default"] {
            for value in &values {
                let (kernel, ours) = sides.set_xattr(path, name, value);
                assert_eq!(ours, kernel, "{name} of {path}: {value:?}");
                sides.same_xattr(path, name, "just set");
                if path != "s" {
                    sides.same_mode(path, &format!("{name} {value:?}"));
                }
            }
            for _ in 0..2 {
                let removed = kernel(fs::lremovexattr(sides.path(path), name));
                assert_eq!(
                    told(sides.ours().xattrs().removexattr(sides.ino(path), name.as_bytes())),
                    removed,
                    "{name} of {path}"
                );
            }
        }
    }
}

#[test]
fn names_and_sizes_of_attributes_are_judged_alike() {
    let Some(sides) = Sides::new(&Spec::new(16 << 20, 4096), "") else { return };
    sides.make("mkdir /d 0750\ncreate /f 0640\nmkfifo /p 0640\nsymlink /s x");
    let long = |n: usize| format!("user.{}", "n".repeat(n));
    let names =
        ["user.a", "user.", "user", "trusted.a", "security.a", "security.", "system.a", "system.data", "nonsense.a"];
    let names = names.map(str::to_owned).into_iter().chain([long(250), long(251), String::new()]);
    for name in names {
        for path in ["f", "d", "p", "s"] {
            for len in [0, 1, 100, 3000, 4096, 65_536, 65_537] {
                let value = vec![7; len];
                let (kernel, ours) = sides.set_xattr(path, &name, &value);
                // The kernel looks at the size before it looks at the name.
                let first = len > 65_536 && ours.is_err();
                assert!(ours == kernel || first, "{name} of {path}, {len} bytes: {ours:?}, the kernel {kernel:?}");
                sides.same_xattr(path, &name, "just set");
            }
            for _ in 0..2 {
                let removed = kernel(fs::lremovexattr(sides.path(path), name.as_str()));
                let ours = told(sides.ours().xattrs().removexattr(sides.ino(path), name.as_bytes()));
                assert_eq!(ours, removed, "{name} of {path}");
            }
        }
    }
}

/// Flags that the kernel is not asked to change: data journaling takes a capability that not every root has; between
/// extents and block maps it converts small files.
const NOT_COMPARED: u32 = 0x4000 | 0x8_0000;

/// A file that cannot be converted has all other flags set nevertheless: a program that takes all flags away takes away
/// `chattr +i`.
#[test]
fn what_cannot_be_converted_gets_its_other_flags() {
    let Some(sides) = Sides::new(&Spec::new(16 << 20, 4096), "") else { return };
    sides.make("create /f 0644");
    std::fs::write(sides.path("f"), [1; 200_000]).unwrap();
    let (file, ino) = (std::fs::File::open(sides.path("f")).unwrap(), sides.ino("f"));
    file.sync_all().unwrap();
    let unsupported = Err(Errno::OPNOTSUPP.raw_os_error());
    for (flags, done) in
        [(0x50, unsupported), (0x40, unsupported), (0x8_0050, Ok(())), (0, unsupported), (0x8_0000, Ok(()))]
    {
        assert_eq!(kernel(fs::ioctl_setflags(&file, IFlags::from_bits_retain(flags))), done, "{flags:#x}, the kernel");
        assert_eq!(told(sides.ours().inode_ops().set_flags(ino, flags, u32::MAX)), done, "{flags:#x}");
        let now = fs::ioctl_getflags(&file).unwrap().bits();
        assert_eq!(sides.ours().inode_ops().flags(ino).unwrap(), now, "after {flags:#x}");
    }
}

#[test]
fn every_flag_is_taken_or_refused_alike() {
    let Some(sides) = Sides::new(&Spec::new(16 << 20, 4096), "") else { return };
    sides.make("mkdir /d 0755\ncreate /f 0644");
    let fsx = |path: &str| {
        let done = Command::new("xfs_io").args(["-r", "-c", "stat"]).arg(sides.path(path)).output().ok()?;
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        let line = text.lines().find_map(|line| line.strip_prefix("fsxattr.xflags = 0x"))?;
        u32::from_str_radix(line.split_whitespace().next()?, 16).ok()
    };
    for path in ["d", "f"] {
        let (file, ino) = (std::fs::File::open(sides.path(path)).unwrap(), sides.ino(path));
        let now = || fs::ioctl_getflags(&file).unwrap().bits();
        let begin = now();
        assert_eq!(sides.ours().inode_ops().flags(ino).unwrap(), begin, "{path}");
        let bits = (0..32).map(|bit| 1u32 << bit).filter(|bit| bit & NOT_COMPARED == 0);
        // Each flag alone, then added to an immutable inode, then taken back.
        let pairs = bits.clone().flat_map(|bit| [bit, bit | 0x10, 0x10, 0, bit | 0x20, 0]);
        for flags in pairs.map(|flags| flags | begin) {
            let set = kernel(fs::ioctl_setflags(&file, IFlags::from_bits_retain(flags)));
            assert_eq!(told(sides.ours().inode_ops().set_flags(ino, flags, u32::MAX)), set, "{flags:#x} of {path}");
            assert_eq!(sides.ours().inode_ops().flags(ino).unwrap(), now(), "{path} after {flags:#x}");
            if let Some(xflags) = fsx(path) {
                assert_eq!(sides.ours().inode_ops().fsxattr(ino).unwrap().xflags, xflags, "{path} after {flags:#x}");
            }
        }
        let refused = Err(Errno::PERM.raw_os_error());
        assert_eq!(told(sides.ours().inode_ops().set_flags(ino, begin | 0x10, 0)), refused);
        let set = FsxAttr { xflags: 0x80 | 0x40, ..FsxAttr::default() };
        sides.ours().inode_ops().set_fsxattr(ino, &set, 0).unwrap();
        assert_eq!(sides.ours().inode_ops().flags(ino).unwrap(), begin | 0x40 | 0x80);
        let project = FsxAttr { projid: 5, ..set };
        assert_eq!(
            told(sides.ours().inode_ops().set_fsxattr(ino, &project, u32::MAX)),
            Err(Errno::OPNOTSUPP.raw_os_error())
        );
    }
}
