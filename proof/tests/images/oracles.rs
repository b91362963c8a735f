//! Images of many kinds, in both directions, clean and dirty: what we write is read by e2fsck, debugfs and the kernel,
//! what mke2fs and the kernel write is read by us, and everybody replays everybody's journal.

use ondol::{FormatOptions, Volume};
use ondol_block::{BlockStore, RamStore};
use ondol_env::sync::Arc;
use ondol_skips::skips;
use ondol_testkit::Fail;
use ondol_testkit::dump::{self, Snapshot, Strictness};
use ondol_testkit::image::{self, KernelMount, Spec, debugfs, scratch_dir, write_sparse};
use ondol_testkit::model::{Mapping, Model};
use ondol_testkit::op::{Op, Path, text};
use ondol_testkit::target::{Directory, Library, Lockstep};
use ondol_tests::{no_kernel_mount, still};
use ondol_volume::{DataMode, FileType, Image};

/// The images: block size, MiB, and what mke2fs is told.
const KINDS: &[(&str, u32, u64, &str)] = &[
    ("defaults", 4096, 64, ""),
    ("upstream", 4096, 64, "-O orphan_file,metadata_csum_seed"),
    ("small blocks", 1024, 32, ""),
    ("small blocks, orphan file", 1024, 32, "-O orphan_file"),
    ("two KiB", 2048, 32, "-O metadata_csum_seed"),
    ("no checksums", 4096, 64, "-O ^metadata_csum"),
    ("no checksums, small blocks", 1024, 32, "-O ^metadata_csum,^64bit"),
    ("group checksums", 4096, 64, "-O ^metadata_csum,uninit_bg"),
    ("32 bit", 2048, 32, "-O ^64bit"),
    ("groups apart", 1024, 48, "-O ^flex_bg"),
    ("meta groups", 1024, 48, "-O meta_bg,^resize_inode"),
    ("linear directories", 1024, 32, "-O ^dir_index"),
    ("old sizes", 4096, 64, "-O ^huge_file,^dir_nlink,^extra_isize"),
    ("many superblocks", 1024, 32, "-O ^sparse_super,^resize_inode"),
    ("large inodes", 4096, 64, "-I 512"),
    ("ext3", 1024, 32, "-O ^extent,^metadata_csum,^64bit,^flex_bg,^huge_file,^dir_nlink,^extra_isize"),
    ("block maps, checksums", 4096, 64, "-O ^extent,^64bit,orphan_file"),
    ("inline data", 4096, 64, "-O inline_data"),
    ("inline data, linear directories", 1024, 32, "-I 512 -O inline_data,^dir_index,^metadata_csum"),
    ("clusters", 4096, 64, "-O bigalloc"),
    ("small clusters, groups apart", 1024, 48, "-O bigalloc,^flex_bg -C 4096 -g 8192"),
    ("large clusters, no checksums", 1024, 64, "-O bigalloc,^metadata_csum,uninit_bg,inline_data -C 65536"),
    ("lazy tables", 1024, 48, "-E lazy_itable_init=1,lazy_journal_init=1"),
];

/// A bit of everything.
fn workload() -> Vec<Op> {
    let mut lines = String::from(
        "mkdir /d 0755\nmkdir /d/deep 0700\nmkdir /d/deep/er 0755\nmkdir /big 0755\ncreate /a 0644\n\
         write /a 0 100000 #1\nwrite /a 50001 3333 #2\npunch /a 20000 30000\nzero /a 70000 5000\ncreate /sparse 0600\n\
         write /sparse 5G 5000 #3\nwrite /sparse 1M 700 jbd2#4\ntruncate /sparse 6G\ncreate /reserved 0644\n\
         fallocate /reserved 0 300000\nwrite /reserved 100001 5000 #5\nfallocate-keep /reserved 1M 100K\n\
         symlink /short target\nlink /a /d/hard\nmkfifo /d/pipe 0600\nsetxattr /a user.small 10 #6\n\
         setxattr /a user.large 700 #7\nsetxattr /d user.dir 30 #8\nsetxattr /d/pipe trusted.p 5 #9\nchmod /d 1777\n\
         chown /a 1000 100000\nutimens /a 4000000000.5 -5.000000007\ncreate /d/gone 0644\nwrite /d/gone 0 50000 #10\n\
         unlink /d/gone\nrename-exchange /d/deep /reserved\ncreate /d/x 0644\nrename /d/x /d/y\ncreate /t 0644\n\
         append /t 12345 #11\nrename /t /d/y\n",
    )
    .replace("4000000000.5 ", "4000000000.500000000 ");
    lines += &format!("symlink /long {}\n", "way/".repeat(200));
    // Enough names for an index, long enough for a second level with small blocks.
    (0..400).for_each(|i| lines += &format!("create /big/{i:0>60} 0644\n"));
    (0..400).step_by(3).for_each(|i| lines += &format!("unlink /big/{i:0>60}\n"));
    // Extents that do not merge.
    lines += "create /frag 0644\n";
    (0..120).for_each(|i| lines += &format!("write /frag {} 1000 #{}\n", i * 20_000, 20 + i));
    lines += "truncate /frag 1500000\nsync\n";
    text::parse(&lines).unwrap()
}

/// What the second in turn does to what the first left.
fn second_workload() -> Vec<Op> {
    let mut lines = String::from(
        "write /a 99000 5000 #500\nunlink /d/hard\nrename /big /d/small\nremovexattr /a user.large\n\
         rmdir /reserved/er\ntruncate /frag 300001\nappend /frag 20000 #501\nunlink /sparse\ncreate /sparse 0644\n\
         unlink /long\nopen @1 /d/y\nunlink /d/y\nwrite @1 0 30000 #502\n",
    );
    (0..400).filter(|i| i % 3 != 0 && i % 5 == 0).for_each(|i| lines += &format!("unlink /d/small/{i:0>60}\n"));
    (0..50).for_each(|i| lines += &format!("create /d/small/new{i} 0600\n"));
    lines += "sync\n";
    text::parse(&lines).unwrap()
}

fn library(store: Arc<dyn BlockStore>, data: DataMode) -> Lockstep<Library> {
    Lockstep::new(Library::open(store, &image::options(data), 1).unwrap()).unwrap()
}

fn do_all<T: ondol_testkit::target::Target>(lockstep: &mut Lockstep<T>, ops: &[Op]) {
    for op in ops {
        match lockstep.step(op).unwrap_or_else(|e| panic!("{e}")) {
            Ok(_) => {}
            // The model says so, too: without extents, nothing is allocated ahead.
            Err(Fail::Unsupported) if matches!(op, Op::Fallocate { .. }) => {}
            Err(e) => panic!("`{op}` failed: {e:?}"),
        }
    }
    lockstep.compare().unwrap_or_else(|e| panic!("{e}"));
}

/// A directory of a kernel mount of this image, without remounts.
fn kernel(mount: &KernelMount, image: &std::path::Path) -> Lockstep<Directory> {
    let never = Box::new(|| Err(std::io::ErrorKind::Unsupported.into()));
    let directory = Directory::new(mount.dir().to_owned(), never);
    let stats = debugfs(image, "stats -h").unwrap();
    let number = |name: &str| stats.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    let cluster = number("Cluster size:").zip(number("Block size:")).map_or(1, |(cluster, block)| cluster / block);
    let extents = stats.lines().any(|line| line.contains("features:") && line.contains(" extent"));
    Lockstep::new(directory.with_mapping(Mapping { extents, cluster, ..Mapping::default() })).unwrap()
}

fn must_equal(want: &Snapshot, found: &Snapshot, who: &str) {
    let lines = want.differences(found, Strictness::Whole);
    assert!(lines.is_empty(), "{who}:\n{}", lines.join("\n"));
}

/// The model after power has gone: nothing is open.
fn at_rest(model: &Model) -> Snapshot {
    let mut model = model.clone();
    model.drop_handles();
    model.snapshot()
}

fn read_by_us(bytes: Vec<u8>) -> Snapshot {
    let store: Arc<dyn BlockStore> = Arc::new(RamStore::from_bytes(bytes));
    let volume = Volume::open_stepped(store, &image::options(DataMode::Ordered), image::clock(2)).unwrap();
    let found = dump::of_volume(volume.inodes()).unwrap();
    volume.close().unwrap();
    found
}

fn must_be_clean(bytes: &[u8]) {
    let verdict = image::check(bytes).unwrap();
    assert!(verdict.is_clean(), "e2fsck -fn: {}", verdict.output);
    let store: Arc<dyn BlockStore> = Arc::new(RamStore::from_bytes(bytes.to_vec()));
    let report = ondol::check_media(&store).unwrap();
    assert!(report.is_clean(), "our check: {report:?}");
}

fn must_be_dirty(bytes: &[u8]) {
    let store: Arc<dyn BlockStore> = Arc::new(RamStore::from_bytes(bytes.to_vec()));
    let report = ondol::check_media(&store).unwrap();
    // The last of it may have gone home just before.
    assert!(report.needs_recovery || report.unclean, "nothing to recover");
    let (verdict, _) = image::repair(bytes).unwrap();
    let said = ["recovering journal", "FEATURE_I30"].iter().any(|what| verdict.output.contains(what));
    assert!(said, "nothing to recover for e2fsck: {}", verdict.output);
}

/// We write and close; e2fsck, debugfs and the kernel read; the kernel writes; we read.
fn clean_in_turns(image: Vec<u8>, data: DataMode) {
    let ram = Arc::new(RamStore::from_bytes(image));
    let mut ours = library(ram.clone(), data);
    do_all(&mut ours, &workload());
    let written = at_rest(ours.model());
    ours.into_target().close().unwrap();
    must_be_clean(&ram.to_bytes());

    let dir = scratch_dir().unwrap();
    let path = dir.path().join("image");
    write_sparse(&path, &ram.to_bytes()).unwrap();
    debugfs_agrees(&path, &written);
    if no_kernel_mount().is_some() {
        return;
    }
    let mount = KernelMount::new(&path, "").unwrap();
    must_equal(&written, &dump::of_directory(mount.dir()).unwrap(), "the kernel reads ours");
    let mut theirs = kernel(&mount, &path);
    do_all(&mut theirs, &second_workload());
    let changed = at_rest(theirs.model());
    drop(theirs);
    mount.close().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    must_be_clean(&bytes);
    must_equal(&changed, &read_by_us(bytes), "we read the kernel's");
}

/// debugfs finds the same sizes and the same bytes.
fn debugfs_agrees(path: &std::path::Path, written: &Snapshot) {
    let said = debugfs(path, "stat /a").unwrap();
    let size = written.get(&Path::new("/a").unwrap()).unwrap().content.len();
    assert!(said.contains(&format!("Size: {size}")), "{said}");
    for (name, entry) in written.entries().filter(|(_, e)| e.kind == FileType::Regular && e.content.len() < 1 << 20) {
        if name.components().count() > 1 {
            continue;
        }
        let to = path.with_extension("dumped");
        debugfs(path, &format!("dump {} {}", name.as_str(), to.display())).unwrap();
        let bytes = ondol_testkit::model::Content::from_bytes(&std::fs::read(&to).unwrap());
        assert_eq!(bytes.differences(&entry.content, 8), [], "debugfs dumps other bytes of {name}");
    }
}

/// We write and lose power; we, e2fsck and the kernel recover.
fn our_dirty_image(image: Vec<u8>, data: DataMode) {
    let ram = Arc::new(RamStore::from_bytes(image));
    let mut ours = library(ram.clone(), data);
    do_all(&mut ours, &workload());
    do_all(&mut ours, &second_workload());
    let (bytes, left) = (ram.to_bytes(), at_rest(ours.model()));
    drop(ours);
    must_be_dirty(&bytes);
    must_equal(&left, &read_by_us(bytes.clone()), "we recover ours");
    // A compressed journal is for us alone: others must refuse it.
    let mended = image::judge_left(&bytes).unwrap().unwrap_or_else(|what| panic!("{what}"));
    if let Some([mended]) = mended.as_deref() {
        must_be_clean(mended);
        must_equal(&left, &read_by_us(mended.clone()), "e2fsck recovers ours");
    }
    if no_kernel_mount().is_some() {
        return;
    }
    let dir = scratch_dir().unwrap();
    let path = dir.path().join("image");
    write_sparse(&path, &bytes).unwrap();
    if mended.is_none() {
        assert!(KernelMount::new(&path, "").is_err(), "the kernel takes what it cannot know");
        return;
    }
    let mount = KernelMount::new(&path, "").unwrap();
    must_equal(&left, &dump::of_directory(mount.dir()).unwrap(), "the kernel recovers ours");
    mount.close().unwrap();
    must_be_clean(&std::fs::read(&path).unwrap());
}

/// The kernel writes; its medium is copied while it is mounted; we recover.
fn their_dirty_image(image: Vec<u8>, data: DataMode) {
    let dir = scratch_dir().unwrap();
    let path = dir.path().join("image");
    write_sparse(&path, &image).unwrap();
    let options = format!("data={}", format!("{data:?}").to_lowercase());
    let mount = KernelMount::new(&path, &options).unwrap();
    let mut theirs = kernel(&mount, &path);
    do_all(&mut theirs, &workload());
    do_all(&mut theirs, &second_workload());
    let (bytes, left) = (still(&path), at_rest(theirs.model()));
    drop(theirs);
    mount.close().unwrap();
    must_be_dirty(&bytes);
    must_equal(&left, &read_by_us(bytes), "we recover the kernel's");
}

fn modes() -> impl Iterator<Item = DataMode> {
    [DataMode::Ordered, DataMode::Journal, DataMode::Writeback].into_iter().cycle()
}

fn each_kind(test: fn(Vec<u8>, DataMode)) {
    for ((name, block_size, mib, args), data) in KINDS.iter().zip(modes()) {
        println!("{name}, {data:?}");
        test(Spec::new(mib << 20, *block_size).with(args).make().unwrap(), data);
    }
}

/// Images by our own mkfs.
fn each_of_our_own(test: fn(Vec<u8>, DataMode)) {
    let kinds = [
        (1024, 32, ""),
        (2048, 48, "orphan_file"),
        (4096, 64, ""),
        (4096, 64, "^metadata_csum,^metadata_csum_seed,^64bit"),
    ];
    for ((block_size, mib, features), data) in kinds.into_iter().zip(modes()) {
        println!("our own, blocks of {block_size}, {features:?}, {data:?}");
        let dir = scratch_dir().unwrap();
        let path = dir.path().join("image");
        let options = FormatOptions::new().size(mib << 20).block_size(block_size).features(features);
        ondol::Volume::format(&path, &options).unwrap();
        let image = std::fs::read(&path).unwrap();
        must_be_clean(&image);
        test(image, data);
    }
}

#[test]
fn in_turns_with_the_kernel() {
    each_kind(clean_in_turns);
}

#[test]
fn everybody_recovers_ours() {
    each_kind(our_dirty_image);
}

#[test]
fn we_recover_the_kernels() {
    if !skips(no_kernel_mount()) {
        each_kind(their_dirty_image);
    }
}

#[test]
fn ours_made_by_our_own_mkfs() {
    each_of_our_own(clean_in_turns);
    each_of_our_own(our_dirty_image);
}

#[test]
fn theirs_made_by_our_own_mkfs() {
    if !skips(no_kernel_mount()) {
        each_of_our_own(their_dirty_image);
    }
}

#[test]
fn features_that_are_not_known_are_refused_by_name() {
    for (args, name) in [("-O encrypt", "encrypt"), ("-O casefold", "casefold"), ("-O quota", "quota")] {
        let image = Spec::new(64 << 20, 4096).with(args).make().unwrap();
        let store: Arc<dyn BlockStore> = Arc::new(RamStore::from_bytes(image));
        // What may be read for all that is opened for reading only.
        let why = match Volume::open_stepped(store.clone(), &image::options(DataMode::Ordered), image::clock(1)) {
            Err(e) => e.to_string(),
            Ok(volume) if !volume.is_read_only() => panic!("an image with {name} was mounted for writing"),
            Ok(_) => Image::open(store).unwrap().require_writable().unwrap_err().to_string(),
        };
        assert!(why.contains(name), "{name}: {why}");
    }
}
