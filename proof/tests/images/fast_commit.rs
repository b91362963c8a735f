//! Images whose journal has a fast-commit area in use: left dirty by the kernel, recovered by us. What was fsynced is
//! there, as the kernel's own replay has it, and e2fsck finds nothing to mend; also when our replay is interrupted
//! anywhere.
#![allow(clippy::disallowed_methods, reason = "real programs run in real time")]

use ondol::{Options, Volume};
use ondol_block::{BlockStore, RamStore};
use ondol_env::sync::Arc;
use ondol_format::jbd2::FastCommit;
use ondol_journal::{LogMap, jbd2};
use ondol_skips::skips;
use ondol_stores::{FaultPlan, Faulty};
use ondol_testkit::dump::{self, Snapshot, Strictness};
use ondol_testkit::image::{self, KernelMount, Spec, scratch_dir, write_sparse};
use ondol_tests::{no_kernel_mount, still};
use ondol_volume::Image;
use rustix::fs::FallocateFlags;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Things that an fsync can commit fast.
fn act(dir: &Path, step: usize) -> std::io::Result<()> {
    let path = |name: &str| dir.join(name);
    let append = |name: &str, len: usize| -> std::io::Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(path(name))?;
        file.write_all(&vec![step as u8 + 1; len])?;
        file.sync_all()
    };
    match step {
        0..=3 => append(&format!("f{step}"), 5000),
        4 => append("f0", 100_000),
        5 => std::fs::hard_link(path("f1"), path("hard")).and_then(|()| append("f1", 10)),
        6 => std::fs::rename(path("f2"), path("renamed")).and_then(|()| append("renamed", 300)),
        7 => std::fs::remove_file(path("hard")).and_then(|()| append("f1", 1)),
        8 => {
            let file = OpenOptions::new().write(true).open(path("f0"))?;
            file.set_len(3000)?;
            file.sync_all()
        }
        9 => {
            let file = OpenOptions::new().write(true).open(path("f3"))?;
            rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 200_000)?;
            file.write_all_at(&[9; 5000], 100_000)?;
            file.sync_all()
        }
        10 => {
            let file = OpenOptions::new().write(true).open(path("f3"))?;
            rustix::fs::fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 8192, 50_000)?;
            file.sync_all()
        }
        11 => std::fs::create_dir(path("d")).and_then(|()| append("d/in", 4000)),
        12 => std::fs::remove_file(path("f1")).and_then(|()| append("d/in", 10)),
        13 => {
            let file = File::create(path("sparse"))?;
            (0..40).try_for_each(|i| file.write_all_at(&[i; 4096], u64::from(i) * 300_000))?;
            file.sync_all()
        }
        14 => std::fs::rename(path("d/in"), path("renamed")).and_then(|()| append("renamed", 7)),
        15 => std::fs::write(path("f1"), b"again").and_then(|()| append("f1", 20)),
        _ => append("last", step * 100),
    }
}

/// The fast commits that a journal holds.
fn pending(bytes: &[u8]) -> Vec<FastCommit> {
    let store = Arc::new(RamStore::from_bytes(bytes.to_vec()));
    let image = Image::open(store.clone()).expect("an image");
    let map = LogMap::new(image.superblock().block_size(), image.journal_map().expect("a journal"));
    jbd2::fast_commits(&*store, &map).expect("an area").unwrap_or_default()
}

/// Whether the fast commits fill their area to its last block.
fn is_full(bytes: &[u8]) -> bool {
    area(bytes).last().is_some_and(|block| block.iter().any(|&byte| byte != 0))
}

/// The blocks of the area for fast commits: the end of the journal, as long as its superblock says.
fn area(bytes: &[u8]) -> Vec<&[u8]> {
    area_at(bytes).into_iter().map(|at| &bytes[at.start..at.end]).collect()
}

/// Where those blocks lie on the image.
fn area_at(bytes: &[u8]) -> Vec<Range<usize>> {
    let image = Image::open(Arc::new(RamStore::from_bytes(bytes.to_vec()))).expect("an image");
    let size = image.superblock().block_size() as usize;
    let runs = image.journal_map().expect("a journal").into_iter();
    let blocks: Vec<_> =
        runs.flat_map(|(start, len)| start..start + len).map(|b| b as usize * size..(b as usize + 1) * size).collect();
    let superblock = &bytes[blocks[0].clone()];
    let said = superblock[0x54..0x58].try_into().map(u32::from_be_bytes).expect("a number") as usize;
    // The first of them is the log's last.
    let len = if said == 0 { 256 } else { said } - 1;
    blocks[blocks.len() - len..].to_vec()
}

fn seen_by_kernel(bytes: &[u8]) -> Snapshot {
    let dir = scratch_dir().expect("scratch");
    let path = dir.path().join("image");
    write_sparse(&path, bytes).expect("write");
    let mount = KernelMount::new(&path, "").expect("kernel mount");
    let seen = dump::of_directory(mount.dir()).expect("a dump");
    mount.close().expect("umount");
    seen
}

fn must_equal(want: &Snapshot, found: &Snapshot, who: &str) {
    // Fast commits do not tell the times of directories, and the kernel's replay of a mkdir counts its links wrong;
    // that ours are right e2fsck says.
    let mut lines = want.differences(found, Strictness::Whole);
    lines.retain(|line| !line.contains("mtime") && !line.contains("link count"));
    assert!(lines.is_empty(), "{who}:\n{}", lines.join("\n"));
}

fn must_be_clean(bytes: &[u8], what: &str) {
    let verdict = image::check(bytes).expect("e2fsck");
    assert!(verdict.is_clean(), "{what}: {}", verdict.output);
}

/// Opened by us, closed, and looked at.
fn recovered(bytes: &[u8], live: &Snapshot, what: &str) {
    let store = Arc::new(RamStore::from_bytes(bytes.to_vec()));
    let reading = Options::default().with_read_only(true);
    let volume =
        Volume::open_stepped(store.clone(), &reading, image::clock(1)).unwrap_or_else(|e| panic!("{what}: {e}"));
    must_equal(live, &dump::of_volume(volume.inodes()).expect("a dump"), &format!("{what}, read only"));
    drop(volume);
    assert!(store.to_bytes() == bytes, "{what}: a read-only mount wrote");
    let volume = Volume::open_stepped(store.clone(), &Options::default(), image::clock(1)).expect("open");
    must_equal(live, &dump::of_volume(volume.inodes()).expect("a dump"), what);
    volume.close().expect("close");
    must_be_clean(&store.to_bytes(), what);
    must_equal(live, &seen_by_kernel(&store.to_bytes()), &format!("{what}, the kernel reads ours"));
}

/// Our replay fails at each of its writes, for good; the next one finishes.
fn interrupted(bytes: &[u8], live: &Snapshot, what: &str) {
    for writes in (0..).step_by(3) {
        let faulty = Arc::new(Faulty::new(RamStore::from_bytes(bytes.to_vec())));
        faulty.arm(FaultPlan { writes: Some(writes), ..FaultPlan::default() });
        let store: Arc<dyn BlockStore> = faulty.clone();
        let done = ondol::recover_media(&store).is_ok();
        let left = Arc::new(RamStore::from_bytes(faulty.inner().to_bytes()));
        let volume = Volume::open_stepped(left.clone(), &Options::default(), image::clock(1))
            .unwrap_or_else(|e| panic!("{what}, {writes} writes: {e}"));
        must_equal(live, &dump::of_volume(volume.inodes()).expect("a dump"), &format!("{what}, {writes} writes"));
        volume.close().expect("close");
        must_be_clean(&left.to_bytes(), what);
        if done {
            assert!(writes > 3, "{what}: nothing was interrupted");
            return;
        }
    }
}

const IMAGES: [(u32, &str); 2] = [(4096, "-O fast_commit"), (1024, "-O fast_commit,^metadata_csum")];

/// No commit comes by the clock. (That one comes by somebody's sync(2), of all that is mounted, nobody can rule out.)
const UNTIMED: &str = "commit=10000";

#[test]
fn fast_commits_of_the_kernel_are_replayed() {
    if skips(no_kernel_mount()) {
        return;
    }
    for (block_size, features) in IMAGES {
        let dir = scratch_dir().expect("scratch");
        let path = dir.path().join("fc.img");
        Spec::new(32 << 20, block_size).with(features).make_file(&path).expect("mke2fs");
        let mount = KernelMount::new(&path, UNTIMED).expect("kernel mount");
        let mut kinds = std::collections::BTreeSet::new();
        for step in 0..20 {
            act(mount.dir(), step).unwrap_or_else(|e| panic!("step {step}: {e}"));
            if step % 10 == 9 {
                // A whole commit: the area begins anew over what it has, before it is full.
                rustix::fs::syncfs(File::open(mount.dir()).expect("the root")).expect("syncfs");
            }
            let bytes = still(&path);
            assert!(!is_full(&bytes), "step {step}: only the live volume could be the measure");
            // What is on the way home may be seen early: the live volume is the measure once all is on the medium.
            let live = seen_by_kernel(&bytes);
            let found = pending(&bytes);
            kinds
                .extend(found.iter().map(|c| format!("{c:?}").split([' ', '(']).next().unwrap_or_default().to_owned()));
            let what = format!("{features}, step {step}, {} changes", found.len());
            recovered(&bytes, &live, &what);
            if !found.is_empty() && step % 4 == 1 {
                interrupted(&bytes, &live, &what);
            }
        }
        mount.close().expect("umount");
        for kind in ["AddRange", "Create", "Inode", "Unlink"] {
            assert!(kinds.contains(kind), "the kernel committed no {kind} fast: {kinds:?}");
        }
    }
}

/// An area that is full to its last block, as it is until the next commit. Recovery of jbd2 and of e2fsck reads one
/// block beyond the journal then and calls it corrupt, so what the live volume has is the measure.
#[test]
fn a_full_area_is_replayed() {
    if skips(no_kernel_mount()) {
        return;
    }
    for (block_size, features) in IMAGES {
        let dir = scratch_dir().expect("scratch");
        let path = dir.path().join("fc.img");
        Spec::new(16 << 20, block_size).with(features).make_file(&path).expect("mke2fs");
        let mount = KernelMount::new(&path, UNTIMED).expect("kernel mount");
        let area = area(&still(&path)).len();
        let mut bytes = Vec::new();
        for i in 0.. {
            assert!(i < 20 * area, "{features}: {i} commits do not fill {area} blocks");
            let mut file = File::create(mount.dir().join(format!("f{i}"))).expect("a file");
            file.write_all(&vec![i as u8 + 1; 5000]).and_then(|()| file.sync_all()).expect("fsync");
            bytes = still(&path);
            if is_full(&bytes) {
                break;
            }
        }
        let live = dump::of_directory(mount.dir()).expect("a dump");
        // What comes then is committed whole, and the old area is stale.
        act(mount.dir(), 16).expect("a step");
        let after = still(&path);
        mount.close().expect("umount");
        assert!(pending(&bytes).len() >= area, "{features}: {:?}", pending(&bytes));
        recovered(&bytes, &live, features);
        interrupted(&bytes, &live, features);
        recovered(&after, &seen_by_kernel(&after), &format!("{features}, after it"));
    }
}

/// Parts of inode tables that may be garbage.
fn unwritten(bytes: &[u8]) -> Vec<Range<u64>> {
    let image = Image::open(Arc::new(RamStore::from_bytes(bytes.to_vec()))).expect("an image");
    image.unwritten_tables().expect("descriptors")
}

/// Fast commits that take the first inodes of groups whose tables are garbage as yet, each larger than the log: that
/// they are zeroed needs no room in it.
#[test]
fn tables_larger_than_the_log_are_zeroed() {
    if skips(no_kernel_mount()) {
        return;
    }
    let dir = scratch_dir().expect("scratch");
    let path = dir.path().join("fc.img");
    let spec = Spec::new(64 << 20, 1024)
        .journal(2)
        .with("-O fast_commit -N 65536 -E lazy_itable_init=1,nodiscard,hash_seed=6f6e646f-6c00-4000-8000-000000000002");
    let mut bytes = spec.make().expect("mke2fs");
    let tables = unwritten(&bytes);
    assert!(tables.len() == 8 && tables[1..].iter().all(|table| table.end - table.start > 1900), "{tables:?}");
    for table in &tables {
        bytes[table.start as usize * 1024..table.end as usize * 1024].fill(0xa5);
    }
    write_sparse(&path, &bytes).expect("an image");
    let mount = KernelMount::new(&path, &format!("{UNTIMED},noinit_itable")).expect("kernel mount");
    // The tables lie in the order of their groups.
    let takes_first = |commits: &[FastCommit], dirty: &[u8]| {
        let left = unwritten(dirty);
        commits.iter().any(|commit| match commit {
            FastCommit::Create(named) => left.contains(&tables[(named.ino as usize - 1) / 8192]),
            _ => false,
        })
    };
    let mut dirty = Vec::new();
    for i in 0.. {
        assert!(i < 100, "no fast commit takes the first inode of a table");
        let dir = mount.dir().join(format!("d{i}"));
        let make = || {
            std::fs::create_dir(&dir)?;
            let mut file = File::create(dir.join("f"))?;
            file.write_all(&[i; 3000])?;
            file.sync_all()
        };
        make().expect("a file in a directory");
        dirty = still(&path);
        if takes_first(&pending(&dirty), &dirty) {
            break;
        }
    }
    mount.close().expect("umount");
    let live = seen_by_kernel(&dirty);
    recovered(&dirty, &live, "large tables");
}

/// A flipped bit in a fast commit ends the area before it: never anything but a state that was committed.
#[test]
fn a_torn_fast_commit_does_not_count() {
    if skips(no_kernel_mount()) {
        return;
    }
    let dir = scratch_dir().expect("scratch");
    let path = dir.path().join("fc.img");
    Spec::new(64 << 20, 4096).with("-O fast_commit").make_file(&path).expect("mke2fs");
    let mount = KernelMount::new(&path, UNTIMED).expect("kernel mount");
    (0..5).for_each(|step| act(mount.dir(), step).expect("a step"));
    let bytes = still(&path);
    mount.close().expect("umount");
    let all = pending(&bytes);
    assert!(!all.is_empty(), "the kernel made no fast commit");
    let used: Vec<usize> = area_at(&bytes).into_iter().flatten().filter(|&at| bytes[at] != 0).step_by(13).collect();
    assert!(used.len() > 3);
    for at in used {
        let mut torn = bytes.clone();
        torn[at] ^= 0x10;
        let left = pending(&torn);
        assert!(all.starts_with(&left), "byte {at}: other changes");
        let store = Arc::new(RamStore::from_bytes(torn));
        Volume::open_stepped(store.clone(), &Options::default(), image::clock(1))
            .expect("open")
            .close()
            .expect("close");
        must_be_clean(&store.to_bytes(), &format!("byte {at}"));
    }
}

/// Recovery by force does not give up fast commits, which it cannot replay into a damaged image: it is refused, and
/// nothing changes.
#[test]
fn fast_commits_are_not_lost_by_force() {
    if skips(no_kernel_mount()) {
        return;
    }
    let dir = scratch_dir().expect("scratch");
    let path = dir.path().join("fc.img");
    Spec::new(32 << 20, 1024).with("-O fast_commit -g 256").make_file(&path).expect("mke2fs");
    let mount = KernelMount::new(&path, UNTIMED).expect("kernel mount");
    (0..5).for_each(|step| act(mount.dir(), step).expect("a step"));
    let bytes = still(&path);
    mount.close().expect("umount");
    assert!(!pending(&bytes).is_empty(), "the kernel made no fast commit");
    let image = Image::open(Arc::new(RamStore::from_bytes(bytes.clone()))).expect("an image");
    // The checksum of a group's descriptor, in a block that the log does not bring.
    let damaged = |group| {
        let (block, offset) = image.superblock().gdt().location(group);
        let mut bytes = bytes.clone();
        bytes[block as usize * 1024 + offset + 0x1e] ^= 0x10;
        let store: Arc<dyn BlockStore> = Arc::new(RamStore::from_bytes(bytes.clone()));
        ondol::recover_media(&store).is_err().then_some(bytes)
    };
    let bytes = (0..image.superblock().groups()).rev().find_map(damaged).expect("a descriptor that stays damaged");
    let store: Arc<dyn BlockStore> = Arc::new(RamStore::from_bytes(bytes.clone()));
    let why = ondol::recover_media(&store).expect_err("damage").to_string();
    assert!(why.contains("group descriptor"), "{why}");
    let why = ondol::recover_store_by_force(&store, image::clock(1)).expect_err("fast commits").to_string();
    assert!(why.contains("e2fsck replays its fast commits"), "{why}");
    let mut left = vec![0; bytes.len()];
    store.read(0, &mut left).expect("the image");
    assert!(left == bytes, "what was refused was changed");
}
