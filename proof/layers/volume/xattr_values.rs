//! Extended attributes against a model, e2fsck, debugfs and the kernel.

use crate::rig::{Fs, ImageFile, USER, assert_clean, checked, mkfs, with_kernel};
use ondol_testkit::over_engines;
use ondol_volume::{Error, ROOT, SetXattr};
use rustix::fs::{XattrFlags, getxattr, listxattr, setxattr};
use std::collections::BTreeMap;
use std::path::Path;

over_engines! {
    as_a_model_says,
    rules_of_names_and_flags,
    the_clock_and_protected_inodes,
    acls_and_permissions_go_together,
    both_ways_with_the_kernel,
    shared_blocks_are_left_one_by_one,
}

const IMAGES: [&[&str]; 5] = [
    &["-b", "1024"],
    &["-b", "4096"],
    &["-b", "1024", "-I", "128", "-O", "^metadata_csum"],
    &["-b", "4096", "-O", "^metadata_csum,^64bit,^ext_attr"],
    &["-b", "2048", "-I", "512"],
];

/// Numbers that look random and are the same on every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

fn any(fs: &Fs, ino: u32, name: &str, value: &[u8]) -> Result<(), Error> {
    fs.volume.xattrs().setxattr(ino, name.as_bytes(), value, SetXattr::Any)
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn all(fs: &Fs, ino: u32) -> Model {
    let names = fs.volume.xattrs().listxattr(ino).expect("names");
    names.into_iter().map(|n| (n.clone(), fs.volume.xattrs().getxattr(ino, &n).expect("a value"))).collect()
}

fn as_a_model_says() {
    for (seed, options) in IMAGES.into_iter().enumerate() {
        let mut fs = Fs::mount(mkfs(16, options));
        let mut numbers = Numbers(seed as u64 + 1);
        let inos = [fs.create(ROOT, "f"), fs.mkdir(ROOT, "d"), fs.create(ROOT, "g")];
        let mut models = vec![Model::new(); 3];
        let (mut kept, mut full) = (0, 0);
        for round in 0..600 {
            let which = numbers.below(3) as usize;
            let (ino, model) = (inos[which], &mut models[which]);
            let prefix = ["user.", "trusted.", "security."][numbers.below(3) as usize];
            let name = format!("{prefix}{}", "name".repeat(numbers.below(4) as usize + 1));
            let name = name.as_bytes();
            let longest = [8, 60, 600, 3000][numbers.below(4) as usize];
            let value = vec![round as u8; numbers.below(longest) as usize];
            match numbers.below(5) {
                0 => match (fs.volume.xattrs().removexattr(ino, name), model.remove(name)) {
                    (Ok(()), Some(_)) | (Err(Error::NoAttribute), None) => {}
                    other => panic!("{other:?}"),
                },
                _ => match fs.volume.xattrs().setxattr(ino, name, &value, SetXattr::Any) {
                    Ok(()) => {
                        kept += 1;
                        model.insert(name.to_vec(), value);
                    }
                    Err(Error::NoSpace(_)) => full += 1,
                    Err(e) => panic!("{e}"),
                },
            }
            assert_eq!(&all(&fs, ino), model, "{options:?} round {round}");
            if round % 100 == 99 {
                let bytes = fs.unmounted();
                assert_clean(&bytes, &format!("{options:?} round {round}"));
                fs = Fs::mount(bytes);
            }
        }
        assert!(kept > 200 && full > 10, "{options:?}: {kept} set, {full} did not fit");
        assert_as_debugfs(&fs, &inos, &models);
        for name in ["f", "g"] {
            fs.volume.names().unlink(ROOT, name.as_bytes()).expect("unlink");
        }
        fs.volume.names().rmdir(ROOT, b"d").expect("rmdir");
        assert_clean(&fs.unmounted(), "attributes freed");
    }
}

/// debugfs reads the same values.
fn assert_as_debugfs(fs: &Fs, inos: &[u32], models: &[Model]) {
    let file = ImageFile::new(&fs.unmounted());
    let out = crate::rig::scratch();
    for (ino, model) in inos.iter().zip(models) {
        for (name, value) in model {
            let name = String::from_utf8_lossy(name);
            let to = out.path().join("value");
            file.ask(&format!("ea_get -f {} <{ino}> {name}", to.display()));
            assert_eq!(&std::fs::read(&to).expect("a value"), value, "{name}");
        }
    }
}

fn rules_of_names_and_flags() {
    let fs = Fs::mount(mkfs(16, &[]));
    let v = &fs.volume;
    let (file, dir) = (fs.create(ROOT, "f"), fs.mkdir(ROOT, "d"));
    let link = v.names().symlink(ROOT, b"l", b"f", USER).expect("a symlink").ino;
    assert!(matches!(v.xattrs().getxattr(file, b"user.a"), Err(Error::NoAttribute)));
    assert!(matches!(v.xattrs().removexattr(file, b"user.a"), Err(Error::NoAttribute)));
    assert!(matches!(v.xattrs().setxattr(file, b"user.a", b"1", SetXattr::Replace), Err(Error::NoAttribute)));
    v.xattrs().setxattr(file, b"user.a", b"1", SetXattr::Create).expect("created");
    assert!(matches!(v.xattrs().setxattr(file, b"user.a", b"2", SetXattr::Create), Err(Error::Exists)));
    v.xattrs().setxattr(file, b"user.a", b"", SetXattr::Replace).expect("replaced");
    assert_eq!(v.xattrs().getxattr(file, b"user.a").expect("a value"), b"");
    for name in ["nothing", "system.data", "lustre.x", "user", "other.x"] {
        assert!(matches!(any(&fs, file, name, b""), Err(Error::Unsupported(_))), "{name}");
    }
    assert!(matches!(any(&fs, file, "user.", b""), Err(Error::Invalid(_))));
    let long = format!("user.{}", "n".repeat(251));
    assert!(matches!(any(&fs, file, &long, b""), Err(Error::BufferTooSmall)));
    assert!(matches!(any(&fs, file, "", b""), Err(Error::BufferTooSmall)));
    any(&fs, file, &long[..255], b"").expect("the longest name");
    assert!(matches!(any(&fs, file, "user.b", &[0; 65_537]), Err(Error::ValueTooLong(65_537))));
    assert!(matches!(any(&fs, link, "user.a", b""), Err(Error::NotPermitted(_))));
    any(&fs, link, "security.selinux", b"label").expect("a label of a symlink");
    assert!(matches!(any(&fs, link, "system.posix_acl_access", &acl(&[])), Err(Error::Unsupported(_))));
    assert!(matches!(any(&fs, file, "system.posix_acl_default", &acl(&MINIMAL)), Err(Error::Denied(_))));
    assert!(matches!(any(&fs, dir, "user.big", &[0; 5000]), Err(Error::NoSpace(_))));
    assert!(all(&fs, dir).is_empty());
    assert_clean(&fs.unmounted(), "rules");
}

fn the_clock_and_protected_inodes() {
    let fs = Fs::mount(mkfs(16, &[]));
    let ino = fs.create(ROOT, "f");
    fs.env.advance(5_000_000_000);
    any(&fs, ino, "user.a", b"1").expect("set");
    assert_eq!(fs.volume.getattr(ino).expect("attributes").ctime.sec, crate::rig::NOW.sec + 5);
    for flag in ["0x80010", "0x80020"] {
        let file = ImageFile::new(&fs.unmounted());
        file.debugfs(&format!("sif <{ino}> flags {flag}\n"));
        let fs = Fs::mount(file.bytes());
        assert!(matches!(any(&fs, ino, "user.b", b"1"), Err(Error::NotPermitted(_))));
        assert!(matches!(fs.volume.xattrs().removexattr(ino, b"user.a"), Err(Error::NotPermitted(_))));
    }
}

const MINIMAL: [(u16, u16, u32); 3] = [(1, 6, !0), (4, 4, !0), (0x20, 0, !0)];
const NAMED: [(u16, u16, u32); 6] = [(1, 7, !0), (2, 6, 1000), (4, 4, !0), (8, 5, 77), (0x10, 5, !0), (0x20, 1, !0)];

/// A POSIX ACL as programs see it.
fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, perm, id) in entries {
        bytes.extend_from_slice(&tag.to_le_bytes());
        bytes.extend_from_slice(&perm.to_le_bytes());
        bytes.extend_from_slice(&id.to_le_bytes());
    }
    bytes
}

fn acls_and_permissions_go_together() {
    const ACCESS: &str = "system.posix_acl_access";
    let fs = Fs::mount(mkfs(16, &[]));
    let v = &fs.volume;
    let (file, dir) = (fs.create(ROOT, "f"), fs.mkdir(ROOT, "d"));
    let perm = |ino| v.getattr(ino).expect("attributes").perm;
    any(&fs, file, ACCESS, &acl(&NAMED)).expect("an ACL");
    assert_eq!((perm(file), v.xattrs().getxattr(file, ACCESS.as_bytes()).expect("it")), (0o751, acl(&NAMED)));
    let set = ondol_volume::SetAttr { perm: Some(0o620), ..Default::default() };
    v.inode_ops().setattr(file, &set).expect("chmod");
    let mut changed = NAMED;
    (changed[0].1, changed[4].1, changed[5].1) = (6, 2, 0);
    assert_eq!(v.xattrs().getxattr(file, ACCESS.as_bytes()).expect("it"), acl(&changed));
    any(&fs, dir, "system.posix_acl_default", &acl(&NAMED)).expect("a default ACL");
    assert_eq!(perm(dir), 0o755);
    with_kernel(&fs.unmounted(), |at| {
        assert_eq!(kernel_get(&at.join("f"), ACCESS), acl(&changed));
        assert_eq!(kernel_get(&at.join("d"), "system.posix_acl_default"), acl(&NAMED));
    });
    any(&fs, file, ACCESS, &acl(&MINIMAL)).expect("an ACL that is no more than bits");
    assert_eq!((perm(file), v.xattrs().listxattr(file).expect("names").len()), (0o640, 0));
    let unsorted = [NAMED[0], NAMED[2], NAMED[1], NAMED[3], NAMED[4], NAMED[5]];
    for bad in [&NAMED[..5], &NAMED[1..], &unsorted, &[NAMED[0], NAMED[1], NAMED[2], NAMED[5]]] {
        assert!(matches!(any(&fs, file, ACCESS, &acl(bad)), Err(Error::Invalid(_))), "{bad:?}");
    }
    assert!(matches!(any(&fs, file, ACCESS, b"nonsense"), Err(Error::Unsupported(_))));
    assert!(matches!(any(&fs, file, ACCESS, &[2, 0, 0, 0, 1]), Err(Error::Invalid(_))));
    any(&fs, dir, "system.posix_acl_default", &acl(&[])).expect("an empty ACL removes it");
    assert!(v.xattrs().listxattr(dir).expect("names").is_empty());
    assert_clean(&fs.unmounted(), "ACLs");
}

fn kernel_get(path: &Path, name: &str) -> Vec<u8> {
    let mut value = vec![0; 4096];
    let len = getxattr(path, name, value.as_mut_slice()).unwrap_or_else(|e| panic!("{name}: {e}"));
    value.truncate(len);
    value
}

/// The kernel's attributes read here, ours read there; blocks that it shares are copied before we change them.
fn both_ways_with_the_kernel() {
    for options in IMAGES {
        let large: Vec<u8> = (0..700).map(|i| i as u8 | 1).collect();
        let filled = with_kernel(&mkfs(16, options), |at| {
            for name in ["a", "b", "c"] {
                let path = at.join(name);
                std::fs::write(&path, name).expect("a file");
                setxattr(&path, "user.large", &large, XattrFlags::empty()).expect("an attribute");
                setxattr(&path, "system.posix_acl_access", &acl(&NAMED), XattrFlags::empty()).expect("an ACL");
            }
        });
        let Some(filled) = filled else { return };
        let fs = Fs::mount(filled);
        let inos = ["a", "b", "c"].map(|name| fs.lookup(name));
        for ino in inos {
            assert_eq!(fs.volume.xattrs().getxattr(ino, b"user.large").expect("a value"), large);
            assert_eq!(fs.volume.xattrs().getxattr(ino, b"system.posix_acl_access").expect("an ACL"), acl(&NAMED));
        }
        any(&fs, inos[0], "user.large", &large[..650]).expect("a copy of a shared block");
        let set = ondol_volume::SetAttr { perm: Some(0o600), ..Default::default() };
        fs.volume.inode_ops().setattr(inos[2], &set).expect("chmod");
        fs.volume.names().unlink(ROOT, b"b").expect("unlink");
        let bytes = fs.unmounted();
        assert_clean(&bytes, &format!("{options:?}"));
        let read = with_kernel(&bytes, |at| {
            assert_eq!(kernel_get(&at.join("a"), "user.large"), &large[..650]);
            assert_eq!(kernel_get(&at.join("c"), "user.large"), large);
            let mut names = vec![0; 500];
            let len = listxattr(at.join("a"), names.as_mut_slice()).expect("names");
            assert_eq!(names[..len].split(|&b| b == 0).filter(|n| !n.is_empty()).count(), 2);
        });
        assert_clean(&read.expect("a mount that was possible before"), "after the kernel");
    }
}

/// Many inodes leave one shared block at once: the last frees it.
fn shared_blocks_are_left_one_by_one() {
    let value = [5u8; 800];
    let filled = with_kernel(&mkfs(16, &["-b", "1024"]), |at| {
        for i in 0..40 {
            let path = at.join(format!("f{i}"));
            std::fs::write(&path, "x").expect("a file");
            setxattr(&path, "user.same", &value, XattrFlags::empty()).expect("an attribute");
        }
    });
    let Some(filled) = filled else { return };
    let file = ImageFile::new(&filled);
    let block =
        |name: &str| file.ask(&format!("stat {name}")).split("File ACL: ").nth(1).map(|rest| rest[..5].to_owned());
    assert!(block("f0").is_some() && block("f0") == block("f39"), "the kernel has shared the block");
    let fs = Fs::mount(filled);
    std::thread::scope(|scope| {
        for t in 0..4 {
            let fs = &fs;
            scope.spawn(move || {
                for i in (t..40).step_by(4) {
                    let name = format!("f{i}");
                    match i % 3 {
                        0 => fs.volume.names().unlink(ROOT, name.as_bytes()).expect("unlink"),
                        1 => fs.volume.xattrs().removexattr(fs.lookup(&name), b"user.same").expect("removal"),
                        _ => any(fs, fs.lookup(&name), "user.same", &[6; 790]).expect("a change"),
                    }
                }
            });
        }
    });
    let bytes = fs.unmounted();
    assert_clean(&bytes, "all have left");
    assert_eq!(checked(&bytes).orphans, 0);
}
