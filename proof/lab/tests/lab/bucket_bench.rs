//! `ondol bench` on volumes in object storage: what it counts and promises, what it leaves, what it refuses.

use crate::place::{fails, output};
use crate::{lab, scratch};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// A directory with a store, which is another directory or what `ONDOL_TEST_BUCKET` names.
struct Store(tempfile::TempDir);

impl Store {
    fn empty() -> Option<Self> {
        if ondol_skips::skips(ondol_laboratory::kill::no_fuse()) {
            return None;
        }
        Some(Self(scratch()))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn target(&self) -> String {
        let dir = self.0.path();
        match std::env::var("ONDOL_TEST_BUCKET") {
            // The name of the directory is nobody else's.
            Ok(bucket) => {
                let own = dir.file_name().unwrap().to_string_lossy();
                format!("{bucket}/{}/store", own.trim_start_matches('.'))
            }
            Err(_) => format!("file://{}/store", dir.display()),
        }
    }
}

/// One run of a few synced files, as JSON.
fn run(targets: &[String], more: &[&str]) -> Value {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut command = lab();
    command.args(["bench", "run", "create-fsync", "--threads", "1", "--ops", "6", "--param", "size=4k", "--json", "-"]);
    command.args(targets.iter().flat_map(|target| ["--on", target])).args(more).arg("--dir").arg(dir.path());
    let out = output(&mut command);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "something is left");
    serde_json::from_slice(&out.stdout).unwrap()
}

/// A place below which a bench makes its volumes, which has nothing of them any more.
fn is_empty(store: &Store) -> bool {
    fs::read_dir(store.file("store")).map_or(true, |mut left| left.next().is_none())
}

#[test]
fn a_bench_makes_a_volume_for_each_turn_and_counts_what_it_asks() {
    let Some(store) = Store::empty() else { return };
    fs::create_dir(store.file("store")).unwrap();
    let place = store.target();
    let json = run(&[format!("lib:{place}"), format!("fuse:{place}")], &["--rounds", "2"]);
    for target in json["targets"].as_array().unwrap() {
        let said = target["guarantee"].as_str().unwrap();
        assert!(
            said.starts_with("journal: exactly a prefix") && said.contains("returned means in the bucket"),
            "{said}"
        );
        let counters = &target["counters"];
        let count = |name: &str| counters["store"][name].as_u64().unwrap();
        assert_eq!(counters["fsyncs"], 12, "{counters}");
        // One thread: no fsync shares its put with another one.
        assert!(count("puts") >= 12 && count("up") > 12 * 4096, "{counters}");
        assert!(count("up") < 64 << 20 && count("failed") == 0, "{counters}");
    }
    assert!(is_empty(&store));
    // Both tables name it, by its own columns.
    let out = output(
        lab().args(["bench", "run", "create-fsync", "--ops", "3", "--rounds", "1", "--on"]).arg(format!("lib:{place}")),
    );
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success() && said.contains("puts/fsync") && said.contains("up B/user B"), "{said}");
}

#[test]
fn a_bench_with_a_log_on_this_machine_says_what_that_means() {
    let Some(store) = Store::empty() else { return };
    fs::create_dir(store.file("store")).unwrap();
    let (place, log) = (store.target(), store.file("log"));
    let in_file = format!("fuse:{place},durable=local,redo={},redo_size=8M", log.display());
    let in_pool = format!("lib:{place},durable=local,pool=24M");
    let json = run(&[in_file.clone(), in_pool], &["--rounds", "2"]);
    for target in json["targets"].as_array().unwrap() {
        let said = target["guarantee"].as_str().unwrap();
        assert!(said.contains("returned means in a log on this machine") && said.contains("at most 30 s"), "{said}");
    }
    assert!(is_empty(&store) && !log.exists());
    // Somebody's file is not taken for a log of its own, and stays.
    fs::write(&log, "mine").unwrap();
    let mut command = lab();
    command.args(["bench", "run", "create-fsync", "--ops", "3", "--rounds", "1", "--on", &in_file]);
    let said = fails(&mut command, 1);
    assert!(said.contains("it exists"), "{said}");
    assert!(fs::read(&log).unwrap() == b"mine" && is_empty(&store));
}

#[test]
fn a_bench_that_fails_leaves_nothing_either() {
    let Some(store) = Store::empty() else { return };
    fs::create_dir(store.file("store")).unwrap();
    let place = store.target();
    let bench = |target: &str, code: i32| {
        let mut command = lab();
        fails(command.args(["bench", "run", "create-fsync", "--ops", "3", "--rounds", "1", "--on", target]), code)
    };
    // Made, and then not opened, by this process or another one.
    for front_end in ["lib", "fuse"] {
        let said = bench(&format!("{front_end}:{place},journal_size=64M"), 1);
        assert!(said.contains("journal_size="), "{said}");
        assert!(is_empty(&store), "{front_end}");
    }
    // Opened, and then full.
    let mut full = lab();
    full.args([
        "bench",
        "run",
        "create-fsync",
        "--threads",
        "1",
        "--ops",
        "700",
        "--param",
        "size=32k",
        "--rounds",
        "1",
    ]);
    let said = fails(full.args(["--on", &format!("lib:{place},size=16M")]), 1);
    assert!(said.contains("space"), "{said}");
    assert!(is_empty(&store));
    for (target, what) in [
        ("lib:file://here", "must be absolute"),
        ("fuse:s3://bucket", "names no prefix"),
        ("lib:s3://user:warmth@bucket/x", "password"),
        ("fuse:gs://bucket/x,on=hdd", "on= is for images"),
    ] {
        let said = bench(target, 2);
        assert!(said.contains(what) && !said.contains("warmth"), "{target}: {said}");
    }
    let said = bench("lib:file:///nowhere/at/all", 1);
    assert!(said.contains("there is no such directory") && !Path::new("/nowhere").exists(), "{said}");
}
