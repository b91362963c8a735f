//! `ondol resize`: volumes of every shape grow and shrink, keep what they hold, and are what e2fsck, debugfs and the
//! kernel take; beside resize2fs they have the same size and nearly the same free space.
#![allow(clippy::disallowed_methods, reason = "real programs run in real time")]

use ondol::{NewSize, Options, Volume, check_media, resize_media};
use ondol_block::{BlockStore, RamStore};
use ondol_env::sync::Arc;
use ondol_format::group::GroupDesc;
use ondol_testkit::dump::{self, Snapshot, Strictness};
use ondol_testkit::image::{self, Spec, scratch_dir, write_sparse};
use ondol_volume::{Image, Resized};

const MIB: u64 = 1 << 20;

/// A volume with things of every kind in it: its bytes and what it shows.
fn filled(spec: &Spec) -> (Vec<u8>, Snapshot) {
    let store = Arc::new(RamStore::from_bytes(spec.make().expect("mke2fs")));
    let volume = Volume::open_stepped(store.clone(), &Options::default(), image::clock(1)).expect("open");
    for d in 0..6 {
        volume.create_dir(format!("/d{d}")).expect("mkdir");
        volume.create_dir(format!("/d{d}/sub")).expect("mkdir");
        for n in 0..12usize {
            volume.write(format!("/d{d}/f{n}"), vec![n as u8 + 1; 1 + n * 7_777]).expect("write");
        }
        for n in (0..12).step_by(3) {
            volume.remove_file(format!("/d{d}/f{n}")).expect("remove");
        }
    }
    let any = ondol::SetXattr::Any;
    for d in 0..6 {
        volume.attributes().set(format!("/d{d}/f1"), "user.small", b"little", any).expect("an attribute");
        volume.attributes().set(format!("/d{d}/f2"), "user.block", [b'v'; 700], any).expect("an attribute");
    }
    if spec.args.iter().any(|arg| arg.contains("ea_inode")) {
        volume.attributes().set("/d3/sub", "user.value", [7; 5000], any).expect("a value");
        volume.attributes().set("/d5/f1", "user.value", [9; 6000], any).expect("a value");
    }
    let file = volume.create("/d4/holes").expect("create");
    file.write_at(&[1; 3000], 900_000).expect("write");
    // What maps blocks one by one has none that are allocated ahead.
    let _ = file.fallocate(ondol::Fallocate::Allocate, 100_000, 300_000);
    drop(file);
    for n in 0..200 {
        volume.write(format!("/d5/many-names-in-one-directory-{n:040}"), b"x").expect("write");
    }
    volume.symlink("d1/f1", "/s").expect("symlink");
    volume.symlink("x".repeat(300), "/long").expect("symlink");
    volume.hard_link("/d1/f1", "/d2/sub/linked").expect("link");
    volume.write("/large", (0..5 * MIB).map(|n| (n * 7 / 1000) as u8).collect::<Vec<u8>>()).expect("write");
    let seen = dump::of_volume(volume.inodes()).expect("a dump");
    volume.close().expect("close");
    (store.to_bytes(), seen)
}

/// The same bytes on a longer or shorter medium.
pub(crate) fn on(bytes: &[u8], size: u64) -> Arc<RamStore> {
    let mut bytes = bytes.to_vec();
    bytes.resize(size as usize, 0xa5);
    Arc::new(RamStore::from_bytes(bytes))
}

pub(crate) fn resized(store: &Arc<RamStore>, to: NewSize) -> ondol::Result<Resized> {
    let store: Arc<dyn BlockStore> = store.clone();
    resize_media(&store.into(), to, image::clock(2), &mut |_| ())
}

/// In what the volume is not what is wanted, in lines.
pub(crate) fn differences(store: &Arc<RamStore>, want: &Snapshot) -> Vec<String> {
    let reading = Options::default().with_read_only(true);
    let volume = Volume::open_stepped(store.clone(), &reading, image::clock(1)).expect("open");
    want.differences(&dump::of_volume(volume.inodes()).expect("a dump"), Strictness::Whole)
}

pub(crate) fn must_show(store: &Arc<RamStore>, want: &Snapshot, what: &str) {
    let lines = differences(store, want);
    assert!(lines.is_empty(), "{what}:\n{}", lines.join("\n"));
}

/// Clean to e2fsck and to our check.
pub(crate) fn must_be_clean(store: &Arc<RamStore>, what: &str) {
    let verdict = image::check(&store.to_bytes()).expect("e2fsck");
    assert!(verdict.is_clean(), "{what}: {}", verdict.output);
    let shared: Arc<dyn BlockStore> = store.clone();
    let found = check_media(&shared).expect("a check");
    assert!(found.is_clean(), "{what}: {:?} {:?}", found.problems, found.notes);
    assert!(found.notes.is_empty(), "{what}: {:?}", found.notes);
}

/// Blocks, free blocks, inodes and free inodes.
fn counts(bytes: &[u8]) -> [u64; 4] {
    let image = Image::open(Arc::new(RamStore::from_bytes(bytes.to_vec()))).expect("an image");
    let sb = image.superblock();
    let (free, inodes) = image.free_counts().expect("descriptors");
    assert_eq!((sb.free_blocks_count(), u64::from(sb.free_inodes_count())), (free, inodes));
    [sb.blocks_count(), free, sb.inodes_count().into(), inodes]
}

/// What resize2fs makes of the same image.
fn by_resize2fs(bytes: &[u8], size: u64) -> Option<[u64; 4]> {
    let dir = scratch_dir().expect("scratch");
    let path = dir.path().join("image");
    write_sparse(&path, bytes).expect("write");
    image::run("e2fsck", ["-fy".as_ref(), path.as_os_str()]).expect("e2fsck");
    let file = std::fs::File::options().write(true).open(&path).expect("open");
    file.set_len(size.max(bytes.len() as u64)).expect("room");
    let kib = format!("{}K", size / 1024);
    let done = image::run("resize2fs", [path.as_os_str(), kib.as_ref()]).expect("resize2fs");
    done.status.success().then(|| counts(&std::fs::read(&path).expect("read")))
}

/// The same size as resize2fs gives the same image, and as much free space but for what new maps take or spare. It does
/// not resize all that we do.
fn beside(before: &[u8], store: &Arc<RamStore>, size: u64, what: &str) {
    let ours = counts(&store.to_bytes());
    let Some(theirs) = by_resize2fs(before, size).filter(|theirs| theirs[0] == ours[0]) else { return };
    assert_eq!((ours[2], ours[3]), (theirs[2], theirs[3]), "{what}: inodes");
    assert!(ours[1] + 16 >= theirs[1], "{what}: {ours:?} by us, {theirs:?} by resize2fs");
}

/// The shapes: what mke2fs is told, the sizes before and afterwards in MiB.
const GROWN: [(&str, u32, u64, u64); 22] = [
    ("", 1024, 20, 100),
    ("", 1024, 20, 23),
    ("", 4096, 40, 200),
    ("-O ^resize_inode", 1024, 20, 300),
    ("-O ^resize_inode,^64bit", 1024, 20, 300),
    ("-E resize=524288", 1024, 20, 300),
    ("-E resize=204800", 1024, 40, 300),
    ("-O meta_bg,^resize_inode", 1024, 20, 200),
    ("-O meta_bg,^resize_inode,^flex_bg,^64bit", 1024, 20, 300),
    ("-O sparse_super2,^resize_inode", 1024, 30, 150),
    ("-O ^sparse_super,^resize_inode", 1024, 30, 150),
    ("-O bigalloc,^resize_inode -C 16384", 1024, 64, 200),
    ("-O bigalloc", 4096, 128, 300),
    ("-O bigalloc -C 8192", 1024, 64, 200),
    ("-O bigalloc,meta_bg,^resize_inode -C 2048", 1024, 40, 100),
    ("-O ^metadata_csum,uninit_bg", 1024, 20, 100),
    ("-O ^metadata_csum,^uninit_bg,^flex_bg", 1024, 20, 100),
    ("-G 1", 1024, 20, 150),
    ("-O ^flex_bg,^64bit", 1024, 20, 150),
    ("-O ^extent,^64bit,^metadata_csum", 1024, 20, 100),
    ("-O orphan_file,inline_data,ea_inode -I 512", 1024, 40, 100),
    ("-E lazy_itable_init=1", 1024, 20, 150),
];

#[test]
fn volumes_grow_and_keep_what_they_hold() {
    for (args, block_size, from, to) in GROWN {
        let what = format!("{args} -b {block_size}, {from} to {to} MiB");
        let (bytes, seen) = filled(&Spec::new(from * MIB, block_size).journal(4).with(args));
        let store = on(&bytes, to * MIB);
        let done = resized(&store, NewSize::Whole).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert!(done.blocks > done.before, "{what}: {done:?}");
        must_be_clean(&store, &what);
        must_show(&store, &seen, &what);
        beside(&bytes, &store, to * MIB, &what);
    }
}

/// The shapes of [`GROWN`] that also shrink, with what they are filled with in more groups: what mke2fs is told, sizes
/// in MiB.
const SHRUNK: [(&str, u32, u64, u64); 15] = [
    ("", 1024, 100, 30),
    ("", 4096, 300, 100),
    ("-O ^resize_inode", 1024, 180, 40),
    ("-O ^resize_inode,^64bit,^flex_bg", 1024, 160, 37),
    ("-E resize=409600", 1024, 300, 30),
    ("-O meta_bg,^resize_inode", 1024, 200, 40),
    ("-O meta_bg,^resize_inode,^flex_bg,^64bit", 1024, 300, 33),
    ("-O sparse_super2,^resize_inode", 1024, 120, 40),
    ("-O ^sparse_super,^resize_inode", 1024, 150, 30),
    ("-O bigalloc,^resize_inode -C 16384", 1024, 300, 150),
    ("-O ^metadata_csum,uninit_bg", 1024, 100, 30),
    ("-O ^metadata_csum,^uninit_bg,^flex_bg", 1024, 100, 27),
    ("-O ^extent,^64bit,^metadata_csum", 1024, 100, 30),
    ("-O orphan_file,inline_data,ea_inode -I 512", 1024, 100, 40),
    ("-O orphan_file,metadata_csum_seed", 2048, 200, 60),
];

#[test]
fn volumes_shrink_and_keep_what_they_hold() {
    for (args, block_size, from, to) in SHRUNK {
        let what = format!("{args} -b {block_size}, {from} to {to} MiB");
        let (bytes, seen) = filled(&Spec::new(from * MIB, block_size).journal(4).with(args));
        let store = on(&bytes, from * MIB);
        let done = resized(&store, NewSize::Bytes(to * MIB)).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert!(done.blocks < done.before, "{what}: {done:?}");
        let kept = done.blocks * u64::from(done.block_size);
        let store = on(&store.to_bytes()[..kept as usize], kept);
        must_be_clean(&store, &what);
        must_show(&store, &seen, &what);
        beside(&bytes, &store, to * MIB, &what);
        // The least, and back.
        let least = resized(&store, NewSize::Least).unwrap_or_else(|e| panic!("{what}, least: {e}"));
        assert!(least.blocks < done.blocks, "{what}: {least:?}");
        must_be_clean(&store, &format!("{what}, least"));
        must_show(&store, &seen, &format!("{what}, least"));
        let again = resized(&store, NewSize::Least).unwrap_or_else(|e| panic!("{what}, least again: {e}"));
        assert!(least.blocks - again.blocks <= least.blocks / 100, "{what}: {least:?}, and then {again:?}");
        resized(&store, NewSize::Whole).unwrap_or_else(|e| panic!("{what}, and back: {e}"));
        must_be_clean(&store, &format!("{what}, and back"));
        must_show(&store, &seen, &format!("{what}, and back"));
    }
}

/// The smallest size is reached at once, and is hardly more than what resize2fs comes to, also where the journal has to
/// make room for itself first.
#[test]
fn the_least_is_the_least() {
    for (args, block_size, journal) in [("", 4096, 64), ("", 1024, 16), ("-O ^flex_bg", 1024, 32)] {
        let what = format!("{args} -b {block_size}, a journal of {journal} MiB");
        let (bytes, seen) = filled(&Spec::new(400 * MIB, block_size).journal(journal).with(args));
        let store = on(&bytes, 400 * MIB);
        let least = resized(&store, NewSize::Least).unwrap_or_else(|e| panic!("{what}: {e}"));
        let again = resized(&store, NewSize::Least).unwrap_or_else(|e| panic!("{what}, again: {e}"));
        assert!(least.blocks - again.blocks <= least.blocks / 100, "{what}: {least:?}, and then {again:?}");
        let size = least.blocks * u64::from(block_size);
        let store = on(&store.to_bytes()[..size as usize], size);
        must_be_clean(&store, &what);
        must_show(&store, &seen, &what);
        let theirs = image::on_copy(&bytes, |path| {
            image::run("e2fsck", ["-fy".as_ref(), path.as_os_str()])?;
            let done = image::run("resize2fs", ["-M".as_ref(), path.as_os_str()])?;
            assert!(done.status.success(), "{what}: {done:?}");
            Ok(counts(&std::fs::read(path)?)[0])
        });
        let theirs = theirs.expect("resize2fs");
        assert!(least.blocks <= theirs + theirs / 20, "{what}: {} blocks, resize2fs {theirs}", least.blocks);
    }
}

/// Where there are more descriptor blocks than a block has words, the resize inode names a reserved one by what is left
/// of its index.
#[test]
fn the_map_of_a_resize_inode_may_wrap() {
    let dir = scratch_dir().expect("scratch");
    let path = dir.path().join("image");
    Spec::new(4300 * MIB, 1024).journal(4).with("-g 1024 -N 40000").make_file(&path).expect("mke2fs");
    for size in [4300, 4250, 4100, 4200] {
        ondol::resize(&path, NewSize::Bytes(size * MIB)).unwrap_or_else(|e| panic!("{size} MiB: {e}"));
        let found = ondol::check(&path).expect("a check");
        assert!(found.is_clean(), "{size} MiB: {:?}", found.problems);
        let verdict = image::run("e2fsck", ["-fn".as_ref(), path.as_os_str()]).expect("e2fsck");
        assert!(verdict.status.success(), "{size} MiB: {verdict:?}");
    }
}

/// Bytes of the longest run on the medium that a file has.
fn longest_run(file: &ondol::File) -> u64 {
    file.extents(0, u64::MAX).expect("extents").iter().map(|extent| extent.len).max().unwrap_or(0)
}

/// What is longer than an extent can be stays whole: a file in one run, and one of blocks that are allocated and not
/// written.
#[test]
fn runs_longer_than_an_extent_are_kept() {
    let spec = Spec::new(256 * MIB, 1024).journal(4).with("-O sparse_super2,^resize_inode -G 16 -N 512");
    for written in [true, false] {
        let store = Arc::new(RamStore::from_bytes(spec.make().expect("mke2fs")));
        let volume = Volume::open_stepped(store.clone(), &Options::default(), image::clock(1)).expect("open");
        volume.write("/before", vec![1; 40 << 20]).expect("write");
        let file = volume.create("/long").expect("create");
        if written {
            let bytes: Vec<u8> = (0..70 * MIB).map(|n| (n / 1000) as u8).collect();
            assert_eq!(file.write_at(&bytes, 0).expect("write"), bytes.len());
        } else {
            file.fallocate(ondol::Fallocate::Allocate, 0, 70 * MIB).expect("fallocate");
        }
        file.sync_all().expect("sync");
        assert!(longest_run(&file) > MIB * 32, "no run is longer than an extent can be");
        drop(file);
        volume.remove_file("/before").expect("remove");
        let seen = dump::of_volume(volume.inodes()).expect("a dump");
        volume.close().expect("close");
        resized(&store, NewSize::Bytes(85 * MIB)).expect("a smaller volume");
        let what = if written { "written" } else { "allocated" };
        let store = on(&store.to_bytes()[..(85 * MIB) as usize], 85 * MIB);
        must_be_clean(&store, what);
        must_show(&store, &seen, what);
    }
}

/// With flex_bg, inode tables of groups that are cut off lie in groups that stay, and some lie over the new end and
/// over the end of its group.
#[test]
fn tables_over_the_new_end_are_cut_off() {
    let spec = Spec::new(128 * MIB, 1024).journal(1).with("-i 1024");
    let store = Arc::new(RamStore::from_bytes(spec.make().expect("mke2fs")));
    let (bytes, sb) = (store.to_bytes(), Image::open(store.clone()).expect("an image").superblock().clone());
    let (table, behind, end) = (u64::from(sb.inode_table_blocks()), sb.group_first_block(4), 32_500);
    let lies_over = |g: u32| {
        let (block, offset) = sb.gdt().location(g);
        let at = block as usize * 1024 + offset;
        let desc = GroupDesc::parse(&bytes[at..at + usize::from(sb.gdt().desc_size())]).expect("a descriptor");
        desc.inode_table < end && desc.inode_table + table > behind
    };
    assert!((4..sb.groups()).any(lies_over), "no table lies so");
    let volume = Volume::open_stepped(store.clone(), &Options::default(), image::clock(1)).expect("open");
    volume.write("/kept", vec![7; 50_000]).expect("write");
    let seen = dump::of_volume(volume.inodes()).expect("a dump");
    volume.close().expect("close");
    let done = resized(&store, NewSize::Bytes(end * 1024)).expect("a smaller volume");
    assert_eq!(done.blocks, end);
    let store = on(&store.to_bytes()[..(end * 1024) as usize], end * 1024);
    must_be_clean(&store, "a table over the end");
    must_show(&store, &seen, "a table over the end");
}
