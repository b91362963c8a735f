//! Every row of the table in docs/ext4.md: images are made as the row says, and what it says of them is tried against
//! the kernel and e2fsck, in both directions, clean and crashed.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "real programs run in real time")]

use ondol::{Options, Volume};
use ondol_block::{BlockStore, RamStore};
use ondol_env::sync::Arc;
use ondol_format::Superblock;
use ondol_format::mmp::{self, RawMmp};
use ondol_skips::skips;
use ondol_testkit::dump::{self, Snapshot, Strictness};
use ondol_testkit::image::{self, KernelMount, Spec, read_sparse, run, scratch_dir, write_sparse};
use ondol_tests::{hunting, no_kernel_mount, still};
use ondol_volume::SetXattr;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// A row of the table.
#[derive(Debug)]
struct Row<'t> {
    feature: &'t str,
    images: Vec<&'t str>,
    mounted: &'t str,
    recovered: &'t str,
    checked: &'t str,
}

fn rows(text: &str) -> Vec<Row<'_>> {
    let cells = |line| -> Vec<&str> { str::trim_matches(line, '|').split('|').map(str::trim).collect() };
    let (_, features) = text.split_once("\n## Features\n").expect("the section of features");
    let lines = features.lines().filter(|l| l.starts_with('|')).skip(2).map(cells);
    lines
        .map(|cells| {
            let [feature, made, mounted, recovered, checked] = cells[..] else {
                panic!("a row of five cells: {cells:?}")
            };
            // What lies between backticks; an image without arguments is an empty pair.
            let images = made.split('`').skip(1).step_by(2).collect();
            Row { feature, images, mounted, recovered, checked }
        })
        .collect()
}

/// Makes the image that `how` describes: arguments of mke2fs, then commands on it, separated by semicolons.
fn make(path: &Path, how: &str) {
    let mut parts = how.split(';').map(str::trim);
    Spec::new(64 << 20, 4096)
        .with(parts.next().unwrap_or_default())
        .make_file(path)
        .unwrap_or_else(|e| panic!("{how}: {e}"));
    for command in parts {
        let words: Vec<&str> = command.split_whitespace().collect();
        let out = match words[..] {
            ["resize2fs", size] => run("resize2fs", ["-f".as_ref(), path.as_os_str(), size.as_ref()]),
            [program, ref args @ ..] => run(program, args.iter().map(AsRef::as_ref).chain([path.as_os_str()])),
            [] => panic!("{how}: an empty command"),
        };
        let out = out.expect(command);
        // What e2fsck mends is as good as new.
        let done = out.status.success() || (command.starts_with("e2fsck") && out.status.code() == Some(1));
        assert!(done, "{how}: {out:?}");
    }
}

/// Whoever reads a crashed image with multiple mount protection waits for its holder; that is tried elsewhere.
fn forget_holder(image: &mut [u8]) {
    let len = image.len() as u64;
    let bytes = image[1024..2048].try_into().expect("a superblock");
    let sb = Superblock::parse(bytes, len).expect("a superblock");
    let Some(block) = sb.mmp_block() else { return };
    let at = block as usize * sb.block_size() as usize;
    let place = &mut image[at..at + mmp::SIZE];
    let mut held = RawMmp::parse(&sb, (&*place).try_into().expect("an MMP block")).expect("an MMP block");
    held.mmp_seq.set(mmp::SEQ_CLEAN);
    place.copy_from_slice(&held.encode(&sb));
}

fn ours(store: &Arc<RamStore>, how: &str) -> Volume {
    let opened = Volume::open_stepped(store.clone(), &Options::default(), image::clock(5));
    opened.unwrap_or_else(|e| panic!("{how}: {e}"))
}

fn must_be_clean(bytes: &[u8], how: &str) {
    let verdict = image::check(bytes).expect("e2fsck");
    assert!(verdict.is_clean(), "{how}: {}", verdict.output);
    let store: Arc<dyn BlockStore> = Arc::new(RamStore::from_bytes(bytes.to_vec()));
    let report = ondol::check_media(&store).unwrap_or_else(|e| panic!("{how}: {e}"));
    assert!(report.is_clean(), "{how}: {report:?}");
}

fn must_equal(want: &Snapshot, found: &Snapshot, who: &str, how: &str) {
    let lines = want.differences(found, Strictness::Whole);
    assert!(lines.is_empty(), "{how}: {who}:\n{}", lines.join("\n"));
}

/// A bit of everything by the kernel, all of it synced.
fn populate(dir: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::{FileExt, symlink};
    std::fs::create_dir(dir.join("many"))?;
    for i in 0..300 {
        std::fs::write(dir.join(format!("many/{i:0>40}")), [i as u8; 30])?;
    }
    for i in (0..300).step_by(3) {
        std::fs::remove_file(dir.join(format!("many/{i:0>40}")))?;
    }
    std::fs::create_dir_all(dir.join("deep/er/still"))?;
    let large: Vec<u8> = (0..700_000u32).map(|i| (i / 7) as u8).collect();
    std::fs::write(dir.join("large"), &large)?;
    let sparse = File::create(dir.join("sparse"))?;
    sparse.write_all_at(b"far away", 300_000_000)?;
    sparse.write_all_at(b"near", 5_000)?;
    std::fs::write(dir.join("small"), b"a few bytes")?;
    std::fs::hard_link(dir.join("small"), dir.join("deep/hard"))?;
    symlink("short", dir.join("link"))?;
    symlink("way/".repeat(100), dir.join("long"))?;
    rustix::fs::setxattr(dir.join("small"), "user.small", b"value", rustix::fs::XattrFlags::empty())?;
    rustix::fs::setxattr(dir.join("large"), "user.large", &[7; 500], rustix::fs::XattrFlags::empty())?;
    File::open(dir)?.sync_all()?;
    sparse.sync_all()?;
    rustix::fs::syncfs(File::open(dir)?)?;
    Ok(())
}

/// A bit of everything by us.
fn change(volume: &Volume) {
    for i in (1..300).step_by(3) {
        volume.remove_file(format!("/many/{i:0>40}")).expect("unlink");
    }
    for i in 0..60 {
        volume.write(format!("/many/new{i}"), vec![i as u8; 100 * i]).expect("write");
    }
    volume.rename("/deep/er", "/moved").expect("rename");
    volume.create_dir("/deep/new").expect("mkdir");
    volume.remove_file("/sparse").expect("unlink");
    volume.write("/large", vec![9; 50_000]).expect("write");
    volume.symlink("where/".repeat(60), "/longer").expect("symlink");
    let ino = volume.metadata("/small").expect("stat").ino();
    volume.inodes().xattrs().setxattr(ino, b"user.ours", &[5; 300], SetXattr::Any).expect("setxattr");
    volume.inodes().xattrs().removexattr(ino, b"user.small").expect("removexattr");
}

/// The kernel fills an image: what it holds then, how it lies after a crash and after the unmount.
fn filled(path: &Path, how: &str) -> Option<(Snapshot, Vec<u8>, Vec<u8>)> {
    let mount = match KernelMount::new(path, "") {
        Ok(mount) => mount,
        Err(e) => {
            ondol_skips::skip(format!("{how}: the kernel cannot mount it: {e}"));
            return None;
        }
    };
    if std::fs::create_dir(mount.dir().join("try")).is_err() {
        ondol_skips::skip(format!("{how}: the kernel cannot write it"));
        return None;
    }
    std::fs::remove_dir(mount.dir().join("try")).expect("rmdir");
    populate(mount.dir()).unwrap_or_else(|e| panic!("{how}: {e}"));
    let held = dump::of_directory(mount.dir()).expect("a dump");
    File::open(mount.dir()).and_then(|dir| Ok(rustix::fs::syncfs(dir)?)).expect("sync");
    let mut crashed = still(path);
    mount.close().expect("umount");
    forget_holder(&mut crashed);
    Some((held, crashed, read_sparse(path).expect("read")))
}

/// We read what the kernel left, and change it; the kernel reads that, clean and crashed.
fn read_and_written(path: &Path, how: &str, recovered: bool) {
    let Some((held, crashed, clean)) = filled(path, how) else { return written_by_us(path, how) };
    for (state, bytes) in [("crashed", crashed), ("clean", clean)] {
        if state == "clean" {
            must_be_clean(&bytes, how);
        }
        let store = Arc::new(RamStore::from_bytes(bytes));
        let volume = ours(&store, how);
        assert!(!volume.is_read_only(), "{how}: read-only");
        assert!(state == "clean" || !recovered || volume.recovered().transactions > 0, "{how}: nothing to replay");
        must_equal(
            &held,
            &dump::of_volume(volume.inodes()).expect("a dump"),
            &format!("we read the kernel's {state}"),
            how,
        );
        change(&volume);
        let changed = dump::of_volume(volume.inodes()).expect("a dump");
        volume.sync().expect("sync");
        let mut after_crash = store.to_bytes();
        forget_holder(&mut after_crash);
        volume.close().unwrap_or_else(|e| panic!("{how}: {e}"));
        must_be_clean(&store.to_bytes(), how);
        let by_kernel = |bytes: &[u8], who: &str| {
            write_sparse(path, bytes).expect("write");
            let mount = KernelMount::new(path, "").unwrap_or_else(|e| panic!("{how}: {who}: {e}"));
            must_equal(&changed, &dump::of_directory(mount.dir()).expect("a dump"), who, how);
            std::fs::remove_dir_all(mount.dir().join("many")).expect("rm -r by the kernel");
            mount.close().expect("umount");
            must_be_clean(&read_sparse(path).expect("read"), how);
        };
        by_kernel(&store.to_bytes(), "the kernel reads ours");
        if state == "clean" {
            // e2fsck waits for itself, and says so, when it has replayed an image with multiple mount protection.
            if !how.contains("mmp") {
                let judged = image::judge_replay(&after_crash).expect("e2fsck");
                assert!(judged.is_ok(), "{how}: {}", judged.err().unwrap_or_default());
            }
            by_kernel(&after_crash, "the kernel recovers ours");
        }
    }
}

/// Where the kernel that runs does not mount what it could: we alone, and e2fsck.
fn written_by_us(path: &Path, how: &str) {
    let store = Arc::new(RamStore::from_bytes(read_sparse(path).expect("read")));
    let volume = ours(&store, how);
    volume.create_dir("/many").expect("mkdir");
    for i in 0..200 {
        volume.write(format!("/many/{i:0>40}"), vec![i as u8; 50 * i]).expect("write");
    }
    let held = dump::of_volume(volume.inodes()).expect("a dump");
    volume.sync().expect("sync");
    let crashed = store.to_bytes();
    volume.close().expect("close");
    must_be_clean(&store.to_bytes(), how);
    let judged = image::judge_replay(&crashed).expect("e2fsck");
    assert!(judged.is_ok(), "{how}: {}", judged.err().unwrap_or_default());
    for bytes in [crashed, store.to_bytes()] {
        let volume = ours(&Arc::new(RamStore::from_bytes(bytes)), how);
        must_equal(&held, &dump::of_volume(volume.inodes()).expect("a dump"), "we read ours", how);
        volume.close().expect("close");
    }
}

fn only_read(path: &Path, how: &str) {
    let filled = filled(path, how);
    let states = match filled {
        Some((held, crashed, clean)) => vec![(Some(held.clone()), crashed), (Some(held), clean)],
        None => vec![(None, read_sparse(path).expect("read"))],
    };
    for (held, bytes) in states {
        let store = Arc::new(RamStore::from_bytes(bytes.clone()));
        let volume = ours(&store, how);
        assert!(volume.is_read_only(), "{how}: written");
        volume.write("/x", b"x").expect_err("a change");
        if let Some(held) = held.filter(|_| !how.contains("^has_journal")) {
            must_equal(&held, &dump::of_volume(volume.inodes()).expect("a dump"), "we read the kernel's", how);
        }
        volume.close().expect("close");
        assert!(store.to_bytes() == bytes, "{how}: a read-only mount wrote");
    }
}

/// Whether what is refused is named: by one of the words of the row.
fn names(e: &str, row: &Row<'_>) -> bool {
    row.feature.split([',', '(', ')', ' ']).filter(|word| word.len() > 2).any(|word| e.contains(word))
}

fn walk(row: &Row<'_>, how: &str) {
    let dir = scratch_dir().expect("scratch");
    let path = dir.path().join("image");
    make(&path, how);
    let fresh = read_sparse(&path).expect("read");
    match row.mounted {
        "rw" => read_and_written(&path, how, row.recovered == "yes"),
        "ro" => only_read(&path, how),
        "no" => {
            for options in ["", "ro"] {
                let store = Arc::new(RamStore::from_bytes(fresh.clone()));
                let opened = Volume::open_stepped(store, &Options::parse(options).expect("options"), image::clock(5));
                let e = opened.err().unwrap_or_else(|| panic!("{how}: mounted")).to_string();
                assert!(names(&e, row), "{how}: {e}");
            }
        }
        other => panic!("{}: mounted: {other}", row.feature),
    }
    let store: Arc<dyn BlockStore> = Arc::new(RamStore::from_bytes(fresh));
    match (row.checked, ondol::check_media(&store)) {
        ("yes", Ok(report)) => assert!(report.is_clean(), "{how}: {report:?}"),
        ("no", Err(e)) => assert!(names(&e.to_string(), row), "{how}: {e}"),
        (said, found) => panic!("{how}: checked: {said}, but {found:?}"),
    }
}

#[test]
fn the_table_says_what_happens() {
    if skips(no_kernel_mount()) {
        return;
    }
    let text = include_str!("../../../docs/ext4.md");
    let wanted = std::env::var("ONDOL_ROW").unwrap_or_default();
    let rows = rows(text);
    assert!(rows.len() > 20, "the table has {} rows", rows.len());
    let wanted = rows.iter().filter(|row| row.feature.contains(&wanted));
    // In a hunt all images of a row, otherwise one.
    let most = if hunting() { usize::MAX } else { 1 };
    let images: Vec<(&Row<'_>, &str)> =
        wanted.flat_map(|row| row.images.iter().take(most).map(move |how| (row, *how))).collect();
    // All rows, whatever some of them come to.
    let (next, wrong) = (AtomicUsize::new(0), std::sync::Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while let Some((row, how)) = images.get(next.fetch_add(1, SeqCst)) {
                    if std::panic::catch_unwind(|| walk(row, how)).is_err() {
                        wrong.lock().expect("a list").push(format!("{}: `{how}`", row.feature));
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().expect("a list");
    assert!(wrong.is_empty(), "rows that do not say what happens:\n{}", wrong.join("\n"));
}
