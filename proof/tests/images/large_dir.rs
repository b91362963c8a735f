//! large_dir: directories whose index has three levels, made by us and by the kernel.

use ondol::{Options, Volume};
use ondol_block::{BlockStore, RamStore};
use ondol_env::sync::Arc;
use ondol_skips::skips;
use ondol_testkit::image::{self, KernelMount, Spec, debugfs, read_sparse, scratch_dir, write_sparse};
use ondol_tests::{no_kernel_mount, parameter};
use ondol_volume::ROOT;

/// Long names fill blocks of 1 KiB with three entries: two levels of index are full at about 40,000.
fn name(i: usize) -> String {
    format!("{i:0>8}{}", "n".repeat(240))
}

/// Enough for a third level. All names are of two files, so that few inodes are needed.
fn names() -> usize {
    parameter("ONDOL_NAMES", 52_000) as usize
}

fn spec() -> Spec {
    Spec::new(96 << 20, 1024).with("-O large_dir -N 512")
}

fn must_be_clean(bytes: &[u8]) {
    let verdict = image::check(bytes).expect("e2fsck");
    assert!(verdict.is_clean(), "{}", verdict.output);
    let store: Arc<dyn BlockStore> = Arc::new(RamStore::from_bytes(bytes.to_vec()));
    let report = ondol::check_media(&store).expect("check");
    assert!(report.is_clean(), "{report:?}");
}

fn must_have_three_levels(path: &std::path::Path) {
    let root = debugfs(path, "htree_dump /d").expect("debugfs");
    assert!(root.contains("Indirect levels: 2"), "{}", root.lines().take(12).collect::<Vec<_>>().join("\n"));
}

#[test]
fn three_levels_of_index_both_ways() {
    if skips(no_kernel_mount()) {
        return;
    }
    let store = Arc::new(RamStore::from_bytes(spec().make().expect("mke2fs")));
    let volume = Volume::open_stepped(store.clone(), &Options::default(), image::clock(1)).expect("open");
    let vol = volume.inodes();
    let dir = vol.names().mkdir(ROOT, b"d", 0o755, ondol::Caller::default()).expect("mkdir").ino;
    let files: Vec<u32> = [b"a", b"b"]
        .into_iter()
        .map(|name| vol.names().create(ROOT, name, 0o644, ondol::Caller::default()).expect("create").ino)
        .collect();
    for i in 0..names() {
        vol.names().link(files[i % 2], dir, name(i).as_bytes()).expect("link");
    }
    assert!(vol.names().link(files[0], dir, name(7).as_bytes()).is_err(), "the name exists");
    volume.close().expect("close");
    must_be_clean(&store.to_bytes());

    let scratch = scratch_dir().expect("scratch");
    let path = scratch.path().join("image");
    write_sparse(&path, &store.to_bytes()).expect("write");
    must_have_three_levels(&path);
    let mount = KernelMount::new(&path, "").expect("kernel mount");
    let d = mount.dir().join("d");
    assert_eq!(std::fs::read_dir(&d).expect("list").count(), names());
    for i in (0..names()).step_by(3) {
        std::fs::remove_file(d.join(name(i))).expect("unlink by the kernel");
    }
    for i in 0..names() / 3 {
        std::fs::hard_link(mount.dir().join("a"), d.join(name(names() + i))).expect("link by the kernel");
    }
    mount.close().expect("umount");
    must_have_three_levels(&path);

    let bytes = read_sparse(&path).expect("read");
    must_be_clean(&bytes);
    let store = Arc::new(RamStore::from_bytes(bytes));
    let volume = Volume::open_stepped(store.clone(), &Options::default(), image::clock(2)).expect("open");
    let vol = volume.inodes();
    for i in 0..names() + names() / 3 {
        let there = vol.names().lookup(dir, name(i).as_bytes()).is_ok();
        assert_eq!(there, i % 3 != 0 || i >= names(), "name {i}");
        if there && i % 2 == 0 {
            vol.names().unlink(dir, name(i).as_bytes()).expect("unlink");
        }
    }
    volume.close().expect("close");
    must_be_clean(&store.to_bytes());
}

/// Without the feature the index is full then: an error, and nothing is damaged.
#[test]
fn without_the_feature_the_index_is_full() {
    let image = Spec::new(96 << 20, 1024).with("-O ^large_dir -N 512").make().expect("mke2fs");
    let store = Arc::new(RamStore::from_bytes(image));
    let volume = Volume::open_stepped(store.clone(), &Options::default(), image::clock(1)).expect("open");
    let vol = volume.inodes();
    let dir = vol.names().mkdir(ROOT, b"d", 0o755, ondol::Caller::default()).expect("mkdir").ino;
    let file = vol.names().create(ROOT, b"a", 0o644, ondol::Caller::default()).expect("create").ino;
    let other = vol.names().create(ROOT, b"b", 0o644, ondol::Caller::default()).expect("create").ino;
    let full = (0..names()).find_map(|i| vol.names().link([file, other][i % 2], dir, name(i).as_bytes()).err());
    assert!(full.is_some_and(|e| e.to_string().contains("index is full")));
    volume.close().expect("close");
    must_be_clean(&store.to_bytes());
}
