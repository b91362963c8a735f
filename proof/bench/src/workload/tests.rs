//! Every workload on a directory: it does what it says, the same each time.

use super::{ALL, Footprint, Params, Plan, find};
use crate::contents::{Class, Contents};
use crate::fs::Fs;
use crate::fs::std_fs::StdFs;
use crate::interrupt::Interrupt;
use crate::measure::{Limit, Sample, run};
use crate::units::{GIB, MIB};
use std::path::Path;
use std::sync::Arc;

/// Runs a workload in `dir`, small.
fn turn(dir: &Path, name: &str, set: &[&str], threads: u32, ops: u64) -> Sample {
    let definition = find(name).expect("workload");
    let set: Vec<String> = set.iter().map(|&text| text.to_owned()).collect();
    let params = Params::new(definition, None, &set).expect("params");
    let workload = (definition.build)(&params).expect("build");
    let fs = StdFs::new(dir).expect("directory");
    let seed = params.number("seed");
    let contents = Arc::new(Contents::new(Class::Random, seed, workload.longest()));
    let plan = Plan { threads, ops, seed, contents };
    let prepared = workload.prepare(&fs, &plan).expect("prepare");
    fs.sync().expect("sync");
    let interrupt = Interrupt::catch().expect("handlers");
    run(prepared.as_ref(), threads, Limit { ops, time: None }, &interrupt).expect("run")
}

/// Names and sizes of all files below `dir`.
fn files(dir: &Path) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).expect("read").flatten() {
        let metadata = entry.metadata().expect("metadata");
        if metadata.is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.push((entry.file_name().to_string_lossy().into_owned(), metadata.len()));
        }
    }
    found.sort();
    found
}

#[test]
fn create_makes_one_file_for_each_operation() {
    let dir = tempfile::tempdir().expect("a directory");
    let sample = turn(dir.path(), "create-fsync", &["size=5000", "files=10"], 2, 25);
    assert_eq!((sample.ops, sample.fsyncs, sample.user_bytes), (50, 50, 250_000));
    let files = files(dir.path());
    assert_eq!(files.len(), 50);
    assert!(files.iter().all(|(_, size)| *size == 5000));
    let full = dir.path().join("thread001/0000");
    assert_eq!(std::fs::read_dir(full).expect("directory").count(), 10, "directories are filled one by one");
}

#[test]
fn overwrite_stays_inside_its_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let sample = turn(dir.path(), "overwrite-fsync", &["file-size=100000", "sync=fdatasync"], 2, 40);
    assert_eq!((sample.ops, sample.fsyncs, sample.user_bytes), (80, 80, 80 * 4096));
    assert_eq!(files(dir.path()), [("file000".to_owned(), 100_000), ("file001".to_owned(), 100_000)]);
}

#[test]
fn append_grows_its_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let sample = turn(dir.path(), "append-fsync", &["size=100"], 2, 30);
    assert_eq!((sample.ops, sample.fsyncs, sample.user_bytes), (60, 60, 6000));
    assert_eq!(files(dir.path()), [("log000".to_owned(), 3000), ("log001".to_owned(), 3000)]);
}

#[test]
fn varmail_loops_over_thirteen_flow_operations() {
    let dir = tempfile::tempdir().expect("a directory");
    let sample = turn(dir.path(), "varmail", &["files=100"], 1, 13 * 20);
    assert_eq!((sample.ops, sample.fsyncs), (13 * 20, 2 * 20));
    let after = files(dir.path());
    assert!((60..=95).contains(&after.len()), "{} of 100 files are there", after.len());
    assert!(after.iter().all(|(name, _)| name.len() == 8));

    let again = tempfile::tempdir().expect("a directory");
    turn(again.path(), "varmail", &["files=100"], 1, 13 * 20);
    assert_eq!(files(again.path()), after, "one seed, one outcome");
    let other = tempfile::tempdir().expect("a directory");
    turn(other.path(), "varmail", &["files=100", "seed=2"], 1, 13 * 20);
    assert_ne!(files(other.path()), after, "another seed, another outcome");
}

#[test]
fn varmail_works_with_many_threads() {
    let dir = tempfile::tempdir().expect("a directory");
    let sample = turn(dir.path(), "varmail", &["files=200"], 8, 13 * 10);
    assert!(sample.ops >= 8 * 13 * 10, "a skipped delete is made up for by another loop");
    assert!(sample.fsyncs >= 8 * 20);
}

#[test]
fn fileserver_keeps_its_set_in_a_tree() {
    let dir = tempfile::tempdir().expect("a directory");
    let set = &["files=450", "size=8k", "append=2k", "iosize=4k"];
    let sample = turn(dir.path(), "fileserver", set, 2, 11 * 20);
    assert_eq!((sample.ops, sample.fsyncs), (2 * 11 * 20, 0));
    assert!(sample.user_bytes > 40 * 4096, "{}", sample.user_bytes);
    let after = files(dir.path());
    assert!((330..=400).contains(&after.len()), "{} of 450 files are there", after.len());
    let tree = dir.path().join("bigfileset");
    assert_eq!(std::fs::read_dir(&tree).expect("tree").count(), 2, "23 leaves of 20 files below two directories");
    assert_eq!(std::fs::read_dir(tree.join("00000")).expect("tree").count(), 20);
}

#[test]
fn webproxy_reads_more_than_it_writes() {
    let dir = tempfile::tempdir().expect("a directory");
    let sample = turn(dir.path(), "webproxy", &["files=100", "append=1k"], 4, 19 * 5);
    assert!(sample.ops >= 4 * 19 * 5 && sample.fsyncs == 0);
    assert!((60..=95).contains(&files(dir.path()).len()));
    assert_eq!(files(dir.path()).iter().filter(|(name, _)| name.len() == 8).count(), files(dir.path()).len());
}

#[test]
fn postmark_keeps_its_pool() {
    let set = &["files=50", "subdirs=30", "fsync=create"];
    let dir = tempfile::tempdir().expect("a directory");
    let sample = turn(dir.path(), "postmark", set, 2, 25 + 200);
    assert_eq!(sample.ops, 450);
    let made = sample.fsyncs;
    assert!((150..350).contains(&made), "{made} files were made");
    let left = files(dir.path());
    let deleted = 450 - 50 - (made - 50);
    assert_eq!(left.len() as u64, made - deleted, "a transaction makes a file or removes one");
    assert!(left.iter().all(|(_, size)| (500..=10_000).contains(size)));
    let again = tempfile::tempdir().expect("a directory");
    turn(again.path(), "postmark", set, 2, 25 + 200);
    assert_eq!(files(again.path()), left, "one seed, one outcome");
    let without = tempfile::tempdir().expect("a directory");
    assert_eq!(turn(without.path(), "postmark", &["files=50", "subdirs=30"], 1, 60).fsyncs, 0);
}

#[test]
fn fs_mark_fills_its_directories_in_turn_and_syncs_as_it_is_told() {
    for (sync, fsyncs) in [
        ("none", 0),
        ("fsync", 50),
        // Two threads, three loops of ten, ten and five files, three directories.
        ("sync-one", 2 * 3 * 3),
        ("post-reverse", 50),
        ("sync-post-reverse", 50),
        ("post", 50),
        ("sync-post", 50),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let sync = format!("sync={sync}");
        let set = &["size=5000", "write=2k", "loop=10", "subdirs=3", "each=2", &sync];
        let sample = turn(dir.path(), "fs-mark", set, 2, 25);
        assert_eq!((sample.ops, sample.fsyncs, sample.user_bytes), (50, fsyncs, 250_000), "{sync}");
        assert_eq!(sample.sync.len(), fsyncs);
        let files = files(dir.path());
        assert!(files.iter().all(|(name, size)| name.len() == 40 && *size == 5000));
        let of = |below: &str| std::fs::read_dir(dir.path().join(below)).expect("directory").count();
        assert_eq!(["thread000/00", "thread000/01", "thread001/02"].map(of), [9, 8, 8]);
    }
    let dir = tempfile::tempdir().expect("a directory");
    turn(dir.path(), "fs-mark", &["dirs=shared", "size=0"], 2, 10);
    assert_eq!(std::fs::read_dir(dir.path()).expect("directory").count(), 20, "no directory of a thread");
}

#[test]
fn tokubench_builds_a_balanced_tree() {
    fn deepest(dir: &Path, fanout: usize) -> Vec<usize> {
        let entries: Vec<_> = std::fs::read_dir(dir).expect("directory").flatten().map(|e| e.path()).collect();
        assert!(entries.len() <= fanout, "{} has {} entries", dir.display(), entries.len());
        let below = |path: &std::path::PathBuf| if path.is_dir() { deepest(path, fanout) } else { vec![0] };
        entries.iter().flat_map(below).map(|depth| depth + 1).collect()
    }
    let dir = tempfile::tempdir().expect("a directory");
    let sample = turn(dir.path(), "tokubench", &["fanout=4"], 2, 50);
    assert_eq!((sample.ops, sample.fsyncs, sample.user_bytes), (100, 0, 20_000));
    let depths = deepest(&dir.path().join("thread001"), 4);
    assert_eq!((depths.len(), depths.iter().min(), depths.iter().max()), (50, Some(&3), Some(&3)));
    assert!(files(dir.path()).iter().all(|(_, size)| *size == 200));
}

#[test]
fn dbench_calls_in_its_proportions() {
    let dir = tempfile::tempdir().expect("a directory");
    let ops = 20_000;
    let sample = turn(dir.path(), "dbench", &[], 2, ops);
    assert_eq!(sample.ops, 2 * ops);
    let share = |count: u64| count as f64 / sample.ops as f64;
    // One call in 82 flushes, one in twelve writes 25,700 bytes in the mean.
    assert!((0.010..0.0145).contains(&share(sample.fsyncs)), "{}", sample.fsyncs);
    assert!((1_700.0..2_800.0).contains(&share(sample.user_bytes)), "{} bytes a call", share(sample.user_bytes));
    let left = files(dir.path());
    assert!((2 * 36..2 * 400).contains(&left.len()), "{} files are left of 292", left.len());
    assert!(left.iter().all(|(_, size)| *size <= 1 << 20));
    let again = tempfile::tempdir().expect("a directory");
    turn(again.path(), "dbench", &[], 2, ops);
    assert_eq!(files(again.path()), left, "one seed, one outcome");
}

#[test]
fn names_and_parameters_are_checked() {
    assert!(find("copy").err().expect("unknown").to_string().contains("create-fsync"));
    let definition = find("overwrite-fsync").expect("workload");
    let params = Params::new(definition, None, &["file-size=1k".to_owned()]).expect("params");
    assert!((definition.build)(&params).is_err(), "a write has to fit into the file");
}

#[test]
fn images_fit_what_is_written() {
    assert_eq!(Footprint::default().image_size(), GIB);
    let contents = Arc::new(Contents::new(Class::Zero, 1, 0));
    let plan = Plan { threads: 4, ops: 50_000, seed: 1, contents };
    for definition in ALL {
        let params = Params::new(definition, None, &[]).expect("params");
        let footprint = (definition.build)(&params).expect("build").footprint(&plan);
        let size = footprint.image_size();
        assert!(size >= GIB && size >= footprint.bytes + 128 * MIB, "{}", definition.name);
        assert!(size / 16384 > footprint.files, "{}: an inode for each file", definition.name);
    }
}

#[test]
fn work_on_names_leaves_what_it_says() {
    for (name, set, left) in [
        ("create", &[][..], 30),
        ("untar", &[][..], 30),
        ("unlink", &[][..], 0),
        ("rename", &["files=7"][..], 14),
        ("stat", &["files=7"][..], 14),
        ("readdir", &["files=7"][..], 14),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let sample = turn(dir.path(), name, set, 2, 15);
        assert_eq!((sample.ops, sample.fsyncs), (30, 0), "{name}");
        let files = files(dir.path());
        assert_eq!(files.len(), left, "{name}");
        let renamed = files.iter().filter(|(file, _)| file.starts_with("renamed")).count();
        // Fifteen operations on seven files: there, back, and one there again.
        assert_eq!(renamed, if name == "rename" { 2 } else { 0 }, "{name}");
    }
}

#[test]
fn work_on_bytes_stays_inside_its_file() {
    let set = &["file-size=100000", "size=4k"];
    for (name, bytes, size) in [
        ("stream-write", 80 * 4096, 24 * 4096),
        ("stream-read", 0, 24 * 4096),
        ("random-write", 80 * 4096, 24 * 4096),
        ("random-read", 0, 24 * 4096),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let sample = turn(dir.path(), name, set, 2, 40);
        assert_eq!((sample.ops, sample.user_bytes), (80, bytes), "{name}");
        assert_eq!(files(dir.path()), [("file000".to_owned(), size), ("file001".to_owned(), size)], "{name}");
    }
}
