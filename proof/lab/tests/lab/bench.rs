//! `ondol bench` with what takes more than one process: mounts, and file systems without a volume on both transports.

use crate::lab;
use crate::place::{eventually, output, succeeds};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;

/// Small runs of all workloads that the table of a mount has, with what each is to sync at least, of all operations.
const WORKLOADS: [(&str, &str, &[&str], bool); 6] = [
    ("create-fsync", "60", &["size=4k"], true),
    ("varmail", "78", &["files=40"], true),
    ("fileserver", "66", &["files=40", "size=8k"], false),
    ("webproxy", "76", &["files=40"], false),
    ("postmark", "90", &["files=40", "subdirs=20"], false),
    ("tokubench", "90", &["fanout=4"], false),
];

/// `ondol bench run WORKLOAD …` of one round, as JSON; `Err` with what it said.
fn run(workload: &str, ops: &str, params: &[&str], more: &[&str]) -> Result<Value, String> {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut command = lab();
    command.args(["bench", "run", workload, "--rounds", "1", "--ops", ops, "--json", "-"]).args(more);
    command.args(params.iter().flat_map(|&param| ["--param", param])).arg("--dir").arg(dir.path());
    let out = output(&mut command);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "{workload}: something is left");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if out.status.success() {
        Ok(serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&out.stdout))))
    } else {
        Err(text(&out.stderr))
    }
}

fn can_serve() -> bool {
    let can = rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists();
    if !can {
        ondol_skips::skip("mounts of the bench need root and /dev/fuse");
    }
    can
}

/// Every workload on a target: it does all that it is to do, and its counters are told.
fn every_workload_on(target: &str, guarantee: &str, floor: bool) {
    for (workload, ops, params, syncs) in WORKLOADS {
        let json = match run(workload, ops, params, &["--on", target, "--threads", "2"]) {
            Ok(json) => json,
            Err(said) if said.contains("transport=uring: the kernel's FUSE does not offer it") => {
                return ondol_skips::skip(said);
            }
            Err(said) => panic!("{workload} on {target}: {said}"),
        };
        let result = &json["targets"][0];
        let said = result["guarantee"].as_str().unwrap();
        assert!(said.starts_with(guarantee), "{target}: {said}");
        assert_eq!(result["floor"], floor, "{target}");
        let counters = &result["counters"];
        let count = |pointer: &str| counters.pointer(pointer).and_then(Value::as_u64);
        assert!(count("/ops") >= ops.parse().ok(), "{workload} on {target}: {counters}");
        assert_eq!(count("/fsyncs") > Some(0), syncs, "{workload} on {target}");
        if target.starts_with("lib:") {
            assert_eq!(count("/client/calls"), Some(0));
            continue;
        }
        // An operation that changes something is a call and a request at least; some of Filebench's count twice or not
        // at all.
        assert!(count("/client/calls") > count("/ops").map(|ops| ops / 2), "{workload} on {target}: {counters}");
        assert!(count("/fuse_requests") > count("/ops").map(|ops| ops / 2), "{workload} on {target}: {counters}");
        assert!(count("/client/voluntary") > Some(0) && count("/server/voluntary") > Some(0), "{target}: {counters}");
        if !target.contains("uring") {
            assert!(count("/server/reads_and_writes") > count("/fuse_requests"), "{target}: {counters}");
        }
    }
}

#[test]
fn every_workload_runs_in_the_library() {
    every_workload_on("lib:new.img,data=ordered,journal=classic", "ordered: ", false);
}

#[test]
fn every_workload_runs_on_mounts() {
    if can_serve() {
        every_workload_on("fuse:new.img,data=ordered,journal=classic,transport=dev", "ordered: ", false);
        every_workload_on("fuse:new.img,data=journal,journal=compressed,transport=uring", "journal: ", false);
    }
}

#[test]
fn every_workload_runs_on_a_server_of_nothing() {
    if can_serve() {
        every_workload_on("null,transport=dev", "floor, no peer: names and sizes", true);
        every_workload_on("null,transport=uring", "floor, no peer: names and sizes", true);
    }
}

#[test]
fn every_workload_runs_on_a_directory_that_is_handed_on() {
    if can_serve() {
        let promise = "floor, no peer: no journal of its own, all is handed on to tmpfs: none: memory only";
        every_workload_on("passthrough,transport=dev", promise, true);
        every_workload_on("passthrough:/dev/shm,transport=uring", promise, true);
    }
}

#[test]
fn workloads_and_targets_are_listed() {
    let list = succeeds(lab().args(["bench", "list"]));
    for word in ["tokubench", "postmark", "null[,OPTIONS]", "passthrough[:DIR]"] {
        assert!(list.contains(word), "{word}");
    }
    let help = succeeds(lab().args(["bench", "--help"]));
    assert!(!help.contains("serve "), "what the bench starts itself is not offered: {help}");
}

/// Whether the kernel's ext4 can be made and mounted here, beside ours.
fn can_make() -> bool {
    let tools = ["mke2fs", "losetup"];
    can_serve() && !ondol_skips::skips(ondol_skips::missing(&tools)) && Path::new("/dev/loop-control").exists()
}

/// Interrupted once the first panel is in the file: it stays there, and nothing else does.
#[test]
fn a_list_keeps_what_was_measured() {
    if !can_make() {
        return;
    }
    let (dir, images) = (tempfile::tempdir().unwrap(), tempfile::tempdir_in("/dev/shm").unwrap());
    let json = dir.path().join("mount.json");
    let mut mount = lab();
    mount.args(["bench", "mount", "--quick", "--dir"]).arg(images.path()).arg("--json").arg(&json);
    let mut child = mount.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut is_due = || json.exists() || child.try_wait().unwrap().is_some();
    // A panel takes a while where the processors are busy.
    assert!((0..5).any(|_| eventually(&mut is_due)), "no panel is done");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let result: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!((&result["name"], &result["partial"]), (&"mount".into(), &true.into()));
    let panels = result["panels"].as_array().unwrap();
    let targets = panels[0]["result"]["targets"].as_array().unwrap();
    let floors: Vec<_> = targets.iter().map(|target| target["floor"].as_bool().unwrap()).collect();
    assert!(floors == [false, false, false, true, true] || floors.len() == 9, "{floors:?}");
    assert_eq!(std::fs::read_dir(images.path()).unwrap().count(), 0, "an image is left");
}

#[test]
fn a_figure_is_drawn_with_all_systems() {
    if !can_serve() {
        return;
    }
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut command = lab();
    command.args(["bench", "paper", "4", "--figure", "7", "--quick", "--json", "-", "--dir"]).arg(dir.path());
    let out = output(&mut command);
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(out.status.success(), "{}", said(&out.stderr));
    let json: Value = serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {}", said(&out.stdout)));
    let rows: Vec<_> =
        json["figures"][0]["rows"].as_array().unwrap().iter().map(|row| row["name"].to_string()).collect();
    // Peers may be missing, and are named then.
    let missing = json["missing"].to_string();
    for system in ["tmpfs", "kernel ext4", "fuse2fs", "ondol, mounted", "ondol, in process"] {
        assert!(
            rows.iter().any(|row| row.contains(system)) || missing.contains(system),
            "{system}: {rows:?}, {missing}"
        );
    }
    assert!(!missing.contains("ondol"), "{missing}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}
