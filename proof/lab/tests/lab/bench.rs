//! `ondol bench` with what takes more than one process: clients, mounts, and file systems without a volume on both transports.

use crate::lab;
use crate::place::{eventually, fails, output, succeeds};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;

/// Small runs of all workloads that the table of a mount has, with what each is to sync at least, of all operations.
const WORKLOADS: [(&str, &str, &[&str], bool); 7] = [
    ("fs-mark", "60", &["size=4k", "subdirs=3"], true),
    ("varmail", "78", &["files=40"], true),
    ("fileserver", "66", &["files=40", "size=8k"], false),
    ("webproxy", "76", &["files=40"], false),
    ("postmark", "90", &["files=40", "subdirs=20"], false),
    ("dbench", "600", &["files=20"], true),
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
        // An operation that changes something is a call and a request at least; some of Filebench's count twice or not at all.
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
fn clients_are_put_together() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let on = format!("dir:{}", dir.path().display());
    for (workload, ops, params, _) in WORKLOADS {
        let json = run(workload, ops, params, &["--on", &on, "--clients", "3", "--threads", "2"]).unwrap();
        assert_eq!((&json["params"]["clients"], &json["params"]["threads"]), (&3.into(), &2.into()));
        let result = &json["targets"][0];
        let done = result["counters"]["ops"].as_u64().unwrap();
        assert!(done >= ops.parse().unwrap(), "{workload}: {done} operations");
        assert!(result["latency_us"]["p50"].as_f64().unwrap() > 0.0);
        assert!(result["counters"]["client"]["calls"].as_u64().unwrap() >= done / 2, "{workload}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "{workload}: something is left");
    }
    // One process and two threads are as many operations as two processes.
    let json = run("fs-mark", "40", &[], &["--on", &on, "--clients", "4"]).unwrap();
    let counters = &json["targets"][0]["counters"];
    assert_eq!(
        (&counters["ops"], &counters["fsyncs"], &counters["user_bytes"]),
        (&40.into(), &40.into(), &(40 * 4096).into())
    );
    // Open, write, fsync, close, and nothing else.
    assert_eq!(counters["client"]["calls"], 160);
    let timed = run("append-fsync", "1", &[], &["--on", &on, "--clients", "2"]).unwrap();
    assert_eq!(timed["targets"][0]["counters"]["ops"], 2, "each client does one at least");
}

#[test]
fn clients_work_on_a_mount() {
    if can_serve() {
        for target in ["fuse:new.img,transport=dev", "null", "passthrough"] {
            let json = run("fs-mark", "40", &[], &["--on", target, "--clients", "4"]).unwrap();
            assert_eq!(json["targets"][0]["counters"]["fsyncs"], 40, "{target}");
        }
    }
}

#[test]
fn what_clients_cannot_do_is_said() {
    let said = fails(lab().args(["bench", "run", "fs-mark", "--clients", "2", "--on", "lib:new.img"]), 2);
    assert!(said.contains("--clients: lib:new.img lives in one process; use --threads for it"), "{said}");
    // A failure in a client is told with its number: its directory is too small for the set.
    let said =
        fails(lab().args(["bench", "run", "varmail", "--clients", "2", "--on", "tmpfs", "--param", "files=10"]), 1);
    assert!(said.contains("varmail on tmpfs: client ") && said.contains("are too few for 16 threads"), "{said}");
    let said = fails(lab().args(["bench", "run", "postmark", "--on", "tmpfs", "--setting", "paper4"]), 2);
    assert!(said.contains("--setting paper4: unknown; postmark has paper3, paper3-fsync"), "{said}");
}

#[test]
fn settings_are_listed_and_taken() {
    let list = succeeds(lab().args(["bench", "list"]));
    for word in ["fs-mark", "tokubench", "dbench", "--setting paper3-fsync", "null[,OPTIONS]", "passthrough[:DIR]"] {
        assert!(list.contains(word), "{word}");
    }
    let json =
        run("postmark", "30", &["files=20", "subdirs=10"], &["--setting", "paper3-fsync", "--on", "tmpfs"]).unwrap();
    let params = &json["params"];
    assert_eq!(
        (&params["fsync"], &params["unit"], &params["setting"]),
        (&"create".into(), &(1 << 20).into(), &"paper3-fsync".into())
    );
    assert_eq!((&params["files"], &params["subdirs"]), (&20.into(), &10.into()), "--param goes before");
    let help = succeeds(lab().args(["bench", "--help"]));
    assert!(
        !help.contains("client") && !help.contains("serve "),
        "what the bench starts itself is not offered: {help}"
    );
}

/// Whether the kernel's ext4 can be made and mounted here, beside ours.
fn can_make() -> bool {
    let tools = ["mke2fs", "losetup"];
    can_serve() && !ondol_skips::skips(ondol_skips::missing(&tools)) && Path::new("/dev/loop-control").exists()
}

#[test]
fn the_suite_of_a_mount_is_one_command() {
    if !can_make() {
        return;
    }
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let json = dir.path().join("out.json");
    let mut suite = lab();
    suite.args(["bench", "suite", "mount", "--quick", "--ops", "60", "--only", "fs-mark 4", "--only", "tokubench 4"]);
    let out = succeeds(suite.arg("--dir").arg(dir.path()).arg("--json").arg(&json).arg("--resume"));
    for part in ["Ratio to kernel ext4", "Ratio to the pass-through server", "For each operation", "null, dev"] {
        assert!(out.contains(part), "{part} is not in: {out}");
    }
    let result: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!((&result["suite"], &result["partial"]), (&"mount".into(), &false.into()));
    let rows = result["rows"].as_array().unwrap();
    assert_eq!(rows.iter().map(|row| row["row"].as_str().unwrap()).collect::<Vec<_>>(), ["fs-mark 4", "tokubench 4"]);
    let targets = rows[0]["result"]["targets"].as_array().unwrap();
    let floors: Vec<_> = targets.iter().map(|target| target["floor"].as_bool().unwrap()).collect();
    assert!(floors == [false, false, false, true, true] || floors.len() == 9, "{floors:?}");
    assert!(targets.iter().all(|target| target["counters"]["ops"] == 60 && target["counters"]["fsyncs"] == 60));
    std::fs::remove_file(&json).unwrap();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "something is left");
    let said = fails(lab().args(["bench", "suite", "mount", "--only", "fs-mark"]), 2);
    assert!(said.contains("--only fs-mark: unknown; there are fs-mark 1, "), "{said}");
}

/// Interrupted once the first part of the first paper is in the file: it stays there, and nothing else does.
#[test]
fn all_papers_keep_what_was_measured() {
    if !can_make() {
        return;
    }
    let (dir, images) = (tempfile::tempdir().unwrap(), tempfile::tempdir_in("/dev/shm").unwrap());
    let json = dir.path().join("all.json");
    let mut all = lab();
    all.args(["bench", "all", "--quick", "--dir"]).arg(images.path()).arg("--json").arg(&json);
    let mut child = all.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut is_due = || json.exists() || child.try_wait().unwrap().is_some();
    // A part takes a while where the processors are busy.
    assert!((0..5).any(|_| eventually(&mut is_due)), "no part is done");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let all: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let (chapters, first) = (all["chapters"].as_array().unwrap(), &all["chapters"][0]);
    assert_eq!((chapters.len(), &first["chapter"], &all["missing"]), (1, &"paper 1".into(), &serde_json::json!([])));
    assert_eq!((&all["partial"], &first["result"]["partial"]), (&true.into(), &true.into()));
    let panels = first["result"]["panels"].as_array().unwrap();
    assert!((1..12).contains(&panels.len()) && panels[0]["result"]["targets"].as_array().unwrap().len() == 6);
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
