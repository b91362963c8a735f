//! ea_inode: values of attributes in inodes of their own, in both directions with the kernel, shared, replaced,
//! removed, and deleted with their owners; crashed by the kernel and by us.

use ondol::{Options, Volume};
use ondol_block::{BlockStore, RamStore};
use ondol_env::sync::Arc;
use ondol_skips::skips;
use ondol_testkit::image::{self, KernelMount, Spec, scratch_dir, write_sparse};
use ondol_tests::{no_kernel_mount, still};
use ondol_volume::{ROOT, SetAttr, SetXattr};
use rustix::fs::XattrFlags;
use std::fs::File;
use std::path::Path;

fn value(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| ((i * 31 + seed * 17 + i / 251) % 251) as u8).collect()
}

fn specs() -> Vec<Spec> {
    vec![
        Spec::new(32 << 20, 4096).with("-O ea_inode"),
        Spec::new(32 << 20, 1024).with("-O ea_inode,^metadata_csum"),
        Spec::new(32 << 20, 2048).with("-O ea_inode,metadata_csum_seed,orphan_file -I 128"),
    ]
}

fn open(store: &Arc<RamStore>) -> Volume {
    Volume::open_stepped(store.clone(), &Options::default(), image::clock(3)).expect("open")
}

fn must_be_clean(bytes: &[u8]) {
    let verdict = image::check(bytes).expect("e2fsck");
    assert!(verdict.is_clean(), "{}", verdict.output);
    let store: Arc<dyn BlockStore> = Arc::new(RamStore::from_bytes(bytes.to_vec()));
    let report = ondol::check_media(&store).expect("check");
    assert!(report.is_clean(), "{report:?}");
}

fn free_inodes(volume: &Volume) -> (u64, u64) {
    let stat = volume.statfs();
    (stat.files_free, stat.free)
}

#[test]
fn values_come_and_go_whole() {
    for spec in specs() {
        let store = Arc::new(RamStore::from_bytes(spec.make().expect("mke2fs")));
        let volume = open(&store);
        let at_first = free_inodes(&volume);
        let file = volume.inodes().names().create(ROOT, b"f", 0o644, ondol::Caller::default()).expect("create").ino;
        let with_file = free_inodes(&volume);
        let vol = volume.inodes();
        let set = |name: &[u8], v: &[u8]| vol.xattrs().setxattr(file, name, v, SetXattr::Any);
        set(b"user.small", b"here").expect("small");
        for (i, len) in [60_000, 65_536, 5000, 1].into_iter().enumerate() {
            set(b"user.large", &value(i, len)).expect("large");
            assert_eq!(vol.xattrs().getxattr(file, b"user.large").expect("large"), value(i, len));
        }
        set(b"user.large", &value(9, 65_536)).expect("large");
        set(b"user.more", &value(8, 30_000)).expect("more");
        set(b"user.huge", &value(1, 65_537)).expect_err("longer than values can be");
        let mut names = vol.xattrs().listxattr(file).expect("list");
        names.sort();
        assert_eq!(names, [b"user.large".to_vec(), b"user.more".to_vec(), b"user.small".to_vec()]);
        vol.inode_ops().setattr(file, &SetAttr { perm: Some(0o600), ..SetAttr::default() }).expect("chmod");
        volume.close().expect("close");
        must_be_clean(&store.to_bytes());

        let volume = open(&store);
        let vol = volume.inodes();
        assert_eq!(vol.xattrs().getxattr(file, b"user.large").expect("large"), value(9, 65_536));
        vol.xattrs().removexattr(file, b"user.more").expect("remove");
        vol.xattrs().removexattr(file, b"user.large").expect("remove");
        vol.xattrs().removexattr(file, b"user.small").expect("remove");
        volume.sync().expect("sync");
        assert_eq!(free_inodes(&volume), with_file, "values are freed");
        vol.xattrs().setxattr(file, b"user.large", &value(2, 20_000), SetXattr::Create).expect("large");
        vol.xattrs().setxattr(file, b"user.other", &value(3, 20_000), SetXattr::Create).expect("large");
        vol.inode_ops().open(file).expect("open");
        volume.remove_file("/f").expect("unlink");
        assert_eq!(vol.xattrs().getxattr(file, b"user.other").expect("still open"), value(3, 20_000));
        vol.inode_ops().release(file).expect("release");
        volume.sync().expect("sync");
        assert_eq!(free_inodes(&volume), at_first, "they go with their owner");
        volume.close().expect("close");
        must_be_clean(&store.to_bytes());
    }
}

fn kernel_set(dir: &Path, name: &str, attribute: &str, v: &[u8]) {
    rustix::fs::setxattr(dir.join(name), attribute, v, XattrFlags::empty()).expect("setxattr by the kernel");
}

fn kernel_get(dir: &Path, name: &str, attribute: &str) -> Vec<u8> {
    let mut buf = vec![0; 65_536];
    let n = rustix::fs::getxattr(dir.join(name), attribute, &mut buf[..]).expect("getxattr by the kernel");
    buf.truncate(n);
    buf
}

#[test]
fn the_kernels_values_are_ours_and_ours_the_kernels() {
    if skips(no_kernel_mount()) {
        return;
    }
    for spec in specs() {
        let dir = scratch_dir().expect("scratch");
        let path = dir.path().join("image");
        spec.make_file(&path).expect("mke2fs");
        let mount = KernelMount::new(&path, "").expect("kernel mount");
        for name in ["a", "b", "c", "d"] {
            std::fs::write(mount.dir().join(name), name).expect("write");
            // The kernel shares equal values, and equal blocks of attributes.
            kernel_set(mount.dir(), name, "user.same", &value(1, 50_000));
            kernel_set(mount.dir(), name, "user.also", &value(2, 10_000));
        }
        kernel_set(mount.dir(), "d", "user.own", &value(3, 9_000));
        File::open(mount.dir().join("d")).expect("open").sync_all().expect("fsync");
        let dirty = still(&path);
        mount.close().expect("umount");
        for bytes in [dirty, std::fs::read(&path).expect("read")] {
            let store = Arc::new(RamStore::from_bytes(bytes));
            ours(&store);
            write_sparse(&path, &store.to_bytes()).expect("write");
            let mount = KernelMount::new(&path, "").expect("kernel mount");
            assert_eq!(kernel_get(mount.dir(), "b", "user.same"), value(1, 50_000));
            assert_eq!(kernel_get(mount.dir(), "b", "user.also"), value(7, 60_000));
            assert_eq!(kernel_get(mount.dir(), "d", "user.own"), value(3, 9_000));
            assert_eq!(kernel_get(mount.dir(), "new", "user.ours"), value(5, 33_333));
            std::fs::remove_file(mount.dir().join("new")).expect("unlink by the kernel");
            kernel_set(mount.dir(), "b", "user.also", b"short");
            mount.close().expect("umount");
            must_be_clean(&std::fs::read(&path).expect("read"));
        }
    }
}

/// Reads what the kernel wrote, and changes it: a shared value is replaced, one owner deleted, one changed, one made.
fn ours(store: &Arc<RamStore>) {
    let volume = open(store);
    let vol = volume.inodes();
    let ino = |name: &str| volume.metadata(format!("/{name}")).expect(name).ino();
    for name in ["a", "b", "c", "d"] {
        assert_eq!(vol.xattrs().getxattr(ino(name), b"user.same").expect("same"), value(1, 50_000));
        assert_eq!(vol.xattrs().getxattr(ino(name), b"user.also").expect("also"), value(2, 10_000));
    }
    volume.remove_file("/a").expect("unlink");
    vol.xattrs().setxattr(ino("b"), b"user.also", &value(7, 60_000), SetXattr::Replace).expect("replace");
    vol.xattrs().setxattr(ino("c"), b"user.same", b"", SetXattr::Replace).expect("replace");
    vol.xattrs().removexattr(ino("d"), b"user.same").expect("remove");
    volume.write("/new", b"new").expect("write");
    vol.xattrs().setxattr(ino("new"), b"user.ours", &value(5, 33_333), SetXattr::Create).expect("create");
    volume.close().expect("close");
    must_be_clean(&store.to_bytes());
}

#[test]
fn a_crash_after_any_synced_step_leaves_nothing_to_mend() {
    for spec in specs() {
        let store = Arc::new(RamStore::from_bytes(spec.make().expect("mke2fs")));
        let volume = open(&store);
        let vol = volume.inodes();
        volume.write("/f", b"x").expect("write");
        let file = volume.metadata("/f").expect("stat").ino();
        for step in 0..5 {
            match step {
                0 | 1 => vol.xattrs().setxattr(file, b"user.v", &value(step, 40_000), SetXattr::Any).expect("set"),
                2 => vol.xattrs().setxattr(file, b"user.w", &value(step, 9_000), SetXattr::Any).expect("set"),
                3 => vol.xattrs().removexattr(file, b"user.v").expect("remove"),
                _ => volume.remove_file("/f").expect("unlink"),
            }
            volume.sync().expect("sync");
            let crashed = store.to_bytes();
            let judged = image::judge_replay(&crashed).expect("e2fsck");
            assert!(judged.is_ok(), "step {step}: {}", judged.err().unwrap_or_default());
            let again = Arc::new(RamStore::from_bytes(crashed));
            open(&again).close().expect("close");
            must_be_clean(&again.to_bytes());
        }
    }
}

#[test]
fn damage_to_values_is_named() {
    let store = Arc::new(RamStore::from_bytes(specs()[0].make().expect("mke2fs")));
    let volume = open(&store);
    let file = volume.inodes().names().create(ROOT, b"f", 0o644, ondol::Caller::default()).expect("create").ino;
    volume.inodes().xattrs().setxattr(file, b"user.v", &value(0, 40_000), SetXattr::Any).expect("set");
    volume.close().expect("close");
    let mut bytes = store.to_bytes();
    let wanted = value(0, 4096);
    let at = bytes.chunks(4096).position(|block| block == wanted).expect("the value's first block") * 4096;
    bytes[at + 77] ^= 1;
    let store = Arc::new(RamStore::from_bytes(bytes));
    let report = ondol::check_media(&(store.clone() as Arc<dyn BlockStore>)).expect("check");
    assert!(report.problems.iter().any(|p| p.contains("value of an attribute")), "{report:?}");
    let volume = open(&store);
    let e = volume.inodes().xattrs().getxattr(file, b"user.v").expect_err("a damaged value");
    assert!(e.to_string().contains("hash"), "{e}");
}
