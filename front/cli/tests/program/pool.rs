//! `ondol pool`: made, shown, dumped, measured, refused.

use crate::place::{fails, ondol, output, succeeds};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

struct Pool {
    dir: tempfile::TempDir,
}

impl Pool {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("pool")
    }

    fn command(&self, words: &[&str]) -> std::process::Command {
        let mut command = ondol();
        command.arg("pool").args(words).arg(self.path());
        command
    }

    fn info(&self) -> serde_json::Value {
        serde_json::from_str(&succeeds(&mut self.command(&["info", "--json"]))).unwrap()
    }

    fn break_header(&self, copy: u64) {
        let file = fs::OpenOptions::new().write(true).open(self.path()).unwrap();
        file.write_all_at(&[0xee], copy * 4096 + 100).unwrap();
    }
}

#[test]
fn a_pool_is_made_and_shown() {
    let pool = Pool::new();
    let said = succeeds(&mut pool.command(&["create", "--size", "1M"]));
    assert!(said.contains("1048576 bytes") && said.contains("survives"), "{said}");
    let info = pool.info();
    assert_eq!((&info["size"], &info["epoch"], &info["version"]), (&1_048_576.into(), &0.into(), &1.into()));
    assert_eq!((&info["free"], &info["volume"]), (&(1_048_576 - 8192).into(), &serde_json::Value::Null));
    assert_eq!(info["headers"][1]["state"], "intact");
    assert_eq!(info["uuid"].as_str().unwrap().len(), 36);
    let text = succeeds(&mut pool.command(&["info"]));
    assert!(text.contains("survives") && text.contains("header: offset 4096, state intact"), "{text}");
    let dump = succeeds(&mut pool.command(&["dump"]));
    assert!(dump.contains("header: intact at byte 0") && dump.contains("|ONDOLPL."), "{dump}");
    let said = fails(&mut pool.command(&["create", "--size", "1M"]), 1);
    assert!(said.contains("pool is not empty") && said.contains("-F"), "{said}");
    let before = info["uuid"].clone();
    succeeds(&mut pool.command(&["create", "-F", "--domain", "volatile"]));
    let info = pool.info();
    assert_ne!(info["uuid"], before);
    assert_eq!((&info["domain"], &info["size"]), (&"volatile".into(), &1_048_576.into()));
}

#[test]
fn what_persisting_costs_is_measured() {
    let pool = Pool::new();
    succeeds(&mut pool.command(&["create", "--size", "1M", "--domain", "volatile"]));
    let before = fs::read(pool.path()).unwrap();
    let costs = succeeds(&mut pool.command(&["measure", "--json", "--nvm-model", "write=2us"]));
    let costs: serde_json::Value = serde_json::from_str(&costs).unwrap();
    assert_eq!((&costs["domain"], &costs["model"]), (&"volatile".into(), &"write=2000ns".into()));
    let rows = costs["costs"].as_array().unwrap();
    let counts = |row: &serde_json::Value| ["lines", "fences", "copied_bytes"].map(|name| row[name].as_u64().unwrap());
    assert_eq!(rows.iter().map(counts).collect::<Vec<_>>()[2..5], [[64, 1, 0], [0, 1, 4096], [1, 1, 0]]);
    assert_eq!(rows[0]["operation"], "store 64 B, write back, fence");
    // The model never waits less than it says.
    assert!(rows[0]["median_ns"].as_u64().unwrap() >= 2000, "{rows:?}");
    let text = succeeds(&mut pool.command(&["measure"]));
    assert!(text.contains("but neither a kernel crash nor a power cut") && text.contains("model off"), "{text}");
    assert!(text.contains("publish a word") && text.contains("p99 ns"), "{text}");
    assert_eq!(fs::read(pool.path()).unwrap(), before, "measuring changes nothing");
    assert!(fails(&mut pool.command(&["measure", "--nvm-model", "speed=3ns"]), 2).contains("speed=3ns"));
    assert!(fails(&mut pool.command(&["measure", "--domain", "optane"]), 2).contains("optane"));
    assert_eq!(fs::read(pool.path()).unwrap(), before);
}

#[test]
fn damage_is_said_by_name() {
    let pool = Pool::new();
    succeeds(&mut pool.command(&["create", "--size", "64K"]));
    pool.break_header(1);
    let state = pool.info()["headers"][1]["state"].clone();
    assert!(state.as_str().unwrap().contains("the next use mends it from the other"), "{state}");
    pool.break_header(0);
    let said = fails(&mut pool.command(&["info"]), 1);
    assert!(said.contains("pool is damaged: header at byte 0: checksum"), "{said}");
    let out = output(&mut pool.command(&["dump"]));
    assert_eq!(out.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&out.stdout).contains("|ONDOLPL."), "the bytes are shown all the same");
    succeeds(&mut pool.command(&["create", "-F"]));
    fs::OpenOptions::new().write(true).open(pool.path()).unwrap().set_len(32768).unwrap();
    let said = fails(&mut pool.command(&["info"]), 1);
    assert!(said.contains("truncated: the pool has 65536 bytes, the medium 32768"), "{said}");
}

#[test]
fn what_is_no_pool_is_left_alone() {
    let pool = Pool::new();
    let said = fails(&mut pool.command(&["create"]), 2);
    assert!(said.contains("--size SIZE"), "{said}");
    let said = fails(&mut pool.command(&["create", "--size", "4K"]), 1);
    assert!(said.contains("at least 12288") && !pool.path().exists(), "{said}");
    assert!(fails(&mut pool.command(&["info"]), 1).contains("cannot open"));
    assert!(fails(&mut pool.command(&["create", "--size", "1M", "--domain", "optane"]), 2).contains("optane"));
    let image: Vec<u8> = [vec![0; 1080], vec![0x53, 0xef], vec![0; 70000]].concat();
    fs::write(pool.path(), &image).unwrap();
    for words in [&["create"][..], &["info"], &["dump"], &["measure"]] {
        let said = fails(&mut pool.command(words), 1);
        assert!(said.contains("is not empty") || said.contains("is no pool"), "{said}");
    }
    assert_eq!(fs::read(pool.path()).unwrap(), image);
}

#[test]
fn a_pool_in_use_is_refused_by_name() {
    let pool = Pool::new();
    succeeds(&mut pool.command(&["create", "--size", "64K"]));
    let file = fs::OpenOptions::new().read(true).write(true).open(pool.path()).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
    for words in [&["create", "-F"][..], &["info"], &["dump"], &["measure"]] {
        let said = fails(&mut pool.command(words), 1);
        assert!(said.contains("pool is in use"), "{said}");
    }
}
