//! Every workload on a directory: it does what it says, the same each time.

use super::{ALL, Footprint, Params, Plan, find};
use crate::contents::Contents;
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
    let params = Params::new(definition, &set).expect("params");
    let workload = (definition.build)(&params).expect("build");
    let fs = StdFs::new(dir).expect("directory");
    let seed = params.number("seed");
    let contents = Arc::new(Contents::new(1.0, seed, workload.longest()));
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
    let sample = turn(dir.path(), "overwrite", &["file-size=100000", "sync=fdatasync"], 2, 40);
    assert_eq!((sample.ops, sample.fsyncs, sample.user_bytes), (80, 80, 80 * 4096));
    assert_eq!(files(dir.path()), [("file000".to_owned(), 100_000), ("file001".to_owned(), 100_000)]);
}

#[test]
fn append_grows_its_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let sample = turn(dir.path(), "append", &["size=100"], 2, 30);
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
fn names_and_parameters_are_checked() {
    assert!(find("copy").err().expect("unknown").to_string().contains("create-fsync"));
    let definition = find("overwrite").expect("workload");
    let params = Params::new(definition, &["file-size=1k".to_owned()]).expect("params");
    assert!((definition.build)(&params).is_err(), "a write has to fit into the file");
}

#[test]
fn images_fit_what_is_written() {
    assert_eq!(Footprint::default().image_size(), GIB);
    let contents = Arc::new(Contents::new(1.0, 1, 0));
    let plan = Plan { threads: 4, ops: 50_000, seed: 1, contents };
    for definition in ALL {
        let params = Params::new(definition, &[]).expect("params");
        let footprint = (definition.build)(&params).expect("build").footprint(&plan);
        let size = footprint.image_size();
        assert!(size >= GIB && size >= footprint.bytes + 128 * MIB, "{}", definition.name);
        assert!(size / 16384 > footprint.files, "{}: an inode for each file", definition.name);
    }
}

#[test]
fn untar_makes_a_directory_for_twenty_files() {
    let dir = tempfile::tempdir().expect("a directory");
    let sample = turn(dir.path(), "untar", &[], 2, 25);
    assert_eq!((sample.ops, sample.fsyncs, files(dir.path()).len()), (50, 0, 50));
    assert_eq!(std::fs::read_dir(dir.path().join("thread001")).expect("directory").count(), 2);
}
