//! `bench run` from the command line to the JSON, on what every machine has, and on the kernel's file systems for root.

use clap::Parser;
use ondol::{FormatOptions, Volume};
use ondol_bench::{BenchArgs, BenchError};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    bench: BenchArgs,
}

/// `ondol bench ARGS`
fn bench(args: &[&str]) -> Result<(), BenchError> {
    let cli = Cli::try_parse_from(std::iter::once("bench").chain(args.iter().copied())).expect("arguments");
    ondol_bench::main(cli.bench).map(|_| ())
}

/// Runs `args` with the JSON in `dir` and gives it back.
fn run(dir: &Path, args: &[&str]) -> Value {
    let file = dir.join("out.json");
    let file_arg = file.to_str().expect("path");
    let images = dir.to_str().expect("path");
    bench(&[&["run"], args, &["--json", file_arg, "--dir", images]].concat()).expect("bench run");
    let json = std::fs::read(&file).expect("json");
    std::fs::remove_file(&file).expect("remove");
    serde_json::from_slice(&json).expect("json")
}

fn number(json: &Value, pointer: &str) -> f64 {
    json.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("{pointer} in {json:#}"))
}

/// No file and no directory is left in `dir`.
fn assert_empty(dir: &Path) {
    let left: Vec<_> = std::fs::read_dir(dir).expect("read").flatten().map(|entry| entry.path()).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

#[test]
fn every_workload_compares_two_targets() {
    let dir = tempfile::tempdir().expect("a directory");
    let on = format!("dir:{}", dir.path().display());
    for (workload, ops, extra) in [
        ("create-fsync", 40, ["--param", "size=1k"]),
        ("overwrite", 40, ["--param", "file-size=1M"]),
        ("append", 40, ["--param", "size=100"]),
        ("varmail", 104, ["--param", "files=100"]),
    ] {
        let count = ops.to_string();
        let args = [workload, "--on", &on, "--on", "tmpfs", "--rounds", "3", "--threads", "2", "--ops", &count];
        let json = run(dir.path(), &[&args[..], &extra].concat());
        assert_eq!(json["workload"], workload);
        assert_eq!(json["rounds"], 3);
        assert_eq!(json["params"]["threads"], 2);
        assert_eq!(json["targets"].as_array().map(Vec::len), Some(2));
        assert_eq!(json["targets"][0]["target"], on.as_str());
        assert_eq!(json["targets"][0]["ratio"]["median"], 1.0);
        assert_eq!(json["targets"][1]["guarantee"], "none: memory only, fsync does nothing");
        for target in ["/targets/0", "/targets/1"] {
            assert!(number(&json, &format!("{target}/counters/ops")) >= 3.0 * f64::from(ops), "{workload}");
            assert!(number(&json, &format!("{target}/ops_per_s/low")) > 0.0);
            assert!(number(&json, &format!("{target}/ratio/low")) <= number(&json, &format!("{target}/ratio/high")));
            let latency = |what: &str| number(&json, &format!("{target}/latency_us/{what}"));
            assert!(latency("p50") > 0.0 && latency("p50") <= latency("p99") && latency("p999") <= latency("max"));
        }
        assert_empty(dir.path());
    }
}

#[test]
fn seconds_limit_a_turn() {
    let dir = tempfile::tempdir().expect("a directory");
    let json = run(dir.path(), &["append", "--on", "tmpfs", "--rounds", "1", "--seconds", "0.05"]);
    assert_eq!(json["params"]["seconds"], 0.05);
    assert_eq!(json["params"].get("ops"), None);
    assert!(number(&json, "/targets/0/counters/ops") >= 1.0);
}

#[test]
fn results_are_compared() {
    let dir = tempfile::tempdir().expect("a directory");
    let json = dir.path().join("result.json");
    let json = json.to_str().expect("path");
    bench(&["run", "create-fsync", "--on", "tmpfs", "--rounds", "1", "--ops", "5", "--json", json]).expect("run");
    bench(&["compare", json, json]).expect("compared");
    let text = dir.path().join("text");
    std::fs::write(&text, "{}").expect("written");
    let refusal = bench(&["compare", json, text.to_str().expect("path")]).expect_err("no result").to_string();
    assert!(refusal.contains("no figure in it"), "{refusal}");
}

#[test]
fn what_is_unknown_is_refused_by_name() {
    for (args, part) in [
        (&["run", "copy", "--on", "tmpfs"][..], "workload copy: unknown"),
        (&["run", "varmail", "--on", "nfs:x"], "target nfs:x: unknown"),
        (&["run", "varmail", "--on", "tmpfs", "--param", "colour=red"], "no parameter colour"),
        (&["run", "varmail", "--on", "tmpfs", "--dir", "/does/not/exist"], "--dir /does/not/exist"),
        (&["run", "varmail", "--on", "tmpfs", "--json", "/does/not/exist"], "--json /does/not/exist"),
        (&["run", "varmail", "--on", "tmpfs", "--seconds", "0"], "--seconds 0"),
        (&["paper", "3", "--figure", "2"], "figures 1, 4, 5, 6 and 7"),
    ] {
        let error = bench(args).expect_err("a refusal");
        assert!(error.is_usage() && error.to_string().contains(part), "{args:?}: {error}");
    }
    bench(&["run", "varmail", "--on", "dir:/does/not/exist"]).expect_err("no such directory");
    bench(&["list"]).expect("list");
}

#[cfg(not(feature = "peers"))]
#[test]
fn other_crates_say_how_they_come_into_the_program() {
    let error =
        bench(&["run", "varmail", "--on", "crate:rust-fs-ext4", "--rounds", "1"]).expect_err("a refusal").to_string();
    assert!(error.contains("target crate:rust-fs-ext4") && error.contains("--features peers"), "{error}");
}

#[cfg(feature = "peers")]
#[test]
fn other_crates_leave_whole_images() {
    if !Path::new("/usr/sbin/mke2fs").exists() {
        return ondol_skips::skip("other crates need mke2fs");
    }
    let dir = tempfile::tempdir_in("/dev/shm").expect("a directory");
    for (workload, ops, param) in
        [("varmail", "400", "files=50"), ("create-fsync", "100", "size=10k"), ("tokubench", "400", "fanout=20")]
    {
        let targets = ["--on", "crate:rust-fs-ext4", "--on", "crate:rust-fs-ext4,on=ssd"];
        let args = [workload, "--rounds", "1", "--threads", "2", "--ops", ops, "--param", param];
        let json = run(dir.path(), &[&args[..], &targets].concat());
        assert_empty(dir.path());
        for target in 0..2 {
            let guarantee = json["targets"][target]["guarantee"].as_str().expect("guarantee");
            assert!(!guarantee.contains("DAMAGED"), "{workload}: {guarantee}");
            assert!(
                number(&json, &format!("/targets/{target}/counters/device_flushes")) > 0.0,
                "{workload} on {target}"
            );
        }
    }
}

/// Runs a kernel or fuse2fs target small, unless this machine cannot.
fn small(target: &str, tools: &[&str], devices: &[&str]) -> Option<Value> {
    let installed =
        |tool: &&str| ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].iter().any(|d| Path::new(d).join(tool).exists());
    let present = |device: &&str| Path::new(device).exists();
    if !can_mount() || !tools.iter().all(installed) || !devices.iter().all(present) {
        let needs = [tools, devices].concat().join(", ");
        ondol_skips::skip(format!("{target} needs the right to mount, and {needs}"));
        return None;
    }
    let dir = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let json = run(dir.path(), &["create-fsync", "--on", target, "--rounds", "2", "--ops", "50", "--threads", "2"]);
    assert_empty(dir.path());
    assert_eq!(number(&json, "/targets/0/counters/fsyncs"), 100.0);
    Some(json)
}

/// True if this process may mount: root in a container often may not.
fn can_mount() -> bool {
    let dir = tempfile::tempdir().expect("a directory");
    let mount = |program: &str, args: &[&str]| {
        let status = Command::new(program).args(args).arg(dir.path()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    mount("mount", &["-t", "tmpfs", "ondol-bench-probe"]) && mount("umount", &[])
}

#[test]
fn kernel_file_systems() {
    for (target, tool, guarantee) in [
        ("kernel:ext4", "mke2fs", "ordered: "),
        ("kernel:ext4,data=journal,size=600M", "mke2fs", "journal: "),
        ("kernel:ext4,feature=^has_journal", "mke2fs", "none: no journal"),
        ("kernel:xfs", "mkfs.xfs", "metadata: "),
        ("kernel:btrfs", "mkfs.btrfs", "copy on write"),
    ] {
        if let Some(json) = small(target, &[tool], &["/dev/loop-control"]) {
            let said = json["targets"][0]["guarantee"].as_str().expect("guarantee").to_owned();
            assert!(said.starts_with(guarantee), "{target}: {said}");
            let written = number(&json, "/targets/0/counters/device_written_bytes");
            assert!(written >= 100.0 * 4096.0, "{target}: {written} bytes for 100 durable files");
            assert!(number(&json, "/targets/0/counters/device_flushes") > 0.0, "{target}");
        }
    }
}

#[test]
fn an_fsync_on_a_modelled_disk_costs_its_flushes() {
    for target in ["kernel:ext4,on=ssd", "kernel:ext4,on=hdd,data=journal"] {
        if let Some(json) = small(target, &["mke2fs", "losetup"], &["/dev/loop-control", "/dev/fuse"]) {
            let flushes = number(&json, "/targets/0/counters/device_flushes");
            // One before the commit block and one after it; two threads may share a commit.
            assert!((100.0..=400.0).contains(&flushes), "{target}: {flushes} flushes for 100 fsyncs");
            assert!(number(&json, "/targets/0/counters/device_written_bytes") >= 100.0 * 4096.0, "{target}");
        }
    }
    let dir = tempfile::tempdir_in("/dev/shm").expect("a directory");
    for target in ["lib:new.img,on=ssd,data=ordered", "lib:new.img,on=ssd,data=journal"] {
        let json = run(dir.path(), &["create-fsync", "--on", target, "--rounds", "1", "--ops", "20"]);
        assert_empty(dir.path());
        let flushes = number(&json, "/targets/0/counters/device_flushes");
        assert!((20.0..60.0).contains(&flushes), "{target}: {flushes} flushes for 20 fsyncs");
    }
}

#[test]
fn a_bad_mount_option_leaves_nothing() {
    if !can_mount() || !Path::new("/dev/loop-control").exists() {
        return ondol_skips::skip("kernel targets need the right to mount, and loop devices");
    }
    let dir = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let images = dir.path().to_str().expect("path");
    let error =
        bench(&["run", "create-fsync", "--on", "kernel:ext4,no-such-option", "--dir", images]).expect_err("mount");
    assert!(error.to_string().starts_with("mount "), "{error}");
    assert_empty(dir.path());
}

#[test]
fn fuse2fs() {
    if let Some(json) = small("fuse2fs", &["mke2fs", "fuse2fs"], &["/dev/fuse"]) {
        assert!(json["targets"][0]["guarantee"].as_str().expect("guarantee").starts_with("none: fuse2fs"));
    }
}

#[test]
fn our_library_on_a_new_image() {
    let dir = tempfile::tempdir_in("/dev/shm").expect("a directory");
    for (workload, extra) in
        [("create-fsync", "size=4k"), ("overwrite", "file-size=1M"), ("append", "size=4k"), ("varmail", "files=100")]
    {
        for (target, guarantee) in
            [("lib:new.img,data=ordered", "ordered: "), ("lib:new.img,data=journal", "journal: ")]
        {
            let args = [workload, "--on", target, "--rounds", "2", "--ops", "104", "--threads", "2", "--param", extra];
            let json = run(dir.path(), &args);
            assert_empty(dir.path());
            let said = json["targets"][0]["guarantee"].as_str().expect("guarantee").to_owned();
            assert!(said.starts_with(guarantee), "{target}: {said}");
            let counter = |name: &str| number(&json, &format!("/targets/0/counters/{name}"));
            assert!(counter("device_written_bytes") > 0.0 && counter("device_flushes") > 0.0, "{workload}: {json:#}");
            for none in ["nvm_stored_bytes", "nvm_copied_bytes", "nvm_fences", "fuse_requests"] {
                assert_eq!(counter(none), 0.0, "{none}");
            }
        }
    }
}

#[test]
fn servers_on_a_new_image_until_everything_is_home() {
    let dir = tempfile::tempdir_in("/dev/shm").expect("a directory");
    for (workload, params) in [
        ("fileserver", &["files=60", "size=8k"][..]),
        ("webproxy", &["files=60"]),
        ("postmark", &["files=20", "subdirs=30", "fsync=create"]),
    ] {
        let params: Vec<&str> = params.iter().flat_map(|&param| ["--param", param]).collect();
        for target in ["lib:new.img,data=ordered", "lib:new.img,data=journal", "lib:new.img,on=ssd,data=journal"] {
            let args = [workload, "--on", target, "--rounds", "1", "--ops", "110", "--threads", "2"];
            let settled = ["--settle", "close", "--ratio", "2.2"];
            let json = run(dir.path(), &[&args[..], &settled, &params].concat());
            assert_empty(dir.path());
            assert_eq!((&json["params"]["settle"], &json["contents"]["ratio"]), (&"close".into(), &2.2.into()));
            let counter = |name: &str| number(&json, &format!("/targets/0/counters/{name}"));
            assert!(counter("ops") >= 110.0, "{workload} on {target}");
            if target.contains("on=ssd") {
                assert!(counter("device_written_bytes") > counter("user_bytes") / 8.0, "{workload}: {json:#}");
                assert!(counter("device_flushes") > 0.0, "{workload}");
            }
            let synced = json.pointer("/targets/0/fsync_us/p50").is_some();
            assert_eq!(synced, workload == "postmark", "{workload}");
        }
    }
}

#[test]
fn nvm_is_counted_below_an_image_and_in_front_of_one() {
    let dir = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let home = format!("lib:nvm:{}", dir.path().join("pool").display());
    let (ops, user) = (64.0, 64.0 * 4096.0);
    let counted = |target: &str, settle: &[&str]| {
        let args = ["overwrite", "--on", target, "--rounds", "1", "--ops", "64", "--param", "file-size=1M"];
        let json = run(dir.path(), &[&args, settle].concat());
        let counter = |name: &str| number(&json, &format!("/targets/0/counters/{name}"));
        let reached = counter("nvm_copied_bytes") + 64.0 * counter("nvm_lines");
        assert!(counter("nvm_stored_bytes") > 0.0, "{target}: {json:#}");
        (reached, counter("nvm_fences"), counter("nvm_read_bytes"))
    };
    for (target, fences) in [
        // A record with its page, and its commit.
        (format!("{home},journal=remap,size=64M"), 2.0..3.0),
        ("lib:new.img,pool=64M,journal=scalable,data=journal".to_owned(), 2.0..3.0),
        // The transaction's blocks and its commit block.
        (format!("{home},journal=classic,data=journal,size=64M"), 2.0..40.0),
    ] {
        let (reached, fenced, _) = counted(&target, &[]);
        assert!(fences.contains(&(fenced / ops)), "{target}: {fenced} fences for {ops} fsyncs");
        assert!((user..40.0 * user).contains(&reached), "{target}: {reached} bytes for {user} of the user");
        let (with_close, _, read) = counted(&target, &["--settle", "close"]);
        assert!(with_close > reached && read > 0.0, "{target}: {with_close} bytes with those of closing, {reached}");
    }
    assert_empty(dir.path());
}

#[test]
fn an_image_that_was_there_stays_as_it_was() {
    let dir = tempfile::tempdir().expect("a directory");
    let image = dir.path().join("mine.img");
    Volume::format(&image, &FormatOptions::new().size(64 << 20)).expect("format");
    let volume = Volume::open(&image).expect("open");
    volume.write("/precious", b"mine").expect("write");
    volume.close().expect("close");
    let images = tempfile::tempdir().expect("a directory");
    let target = format!("lib:{}", image.display());
    run(images.path(), &["create-fsync", "--on", &target, "--rounds", "2", "--ops", "20"]);
    let volume = Volume::open(&image).expect("open again");
    assert_eq!(volume.read("/precious").expect("read"), b"mine");
    let names: Vec<_> = volume.read_dir("/").expect("list").map(|entry| entry.expect("an entry").file_name()).collect();
    assert!(!names.iter().any(|name| name.to_string_lossy().starts_with("ondol-bench")), "left behind: {names:?}");
    volume.close().expect("close");
}

#[test]
fn bad_options_of_our_targets_are_refused_before_anything_is_made() {
    let dir = tempfile::tempdir().expect("a directory");
    let images = dir.path().to_str().expect("path");
    let error =
        bench(&["run", "create-fsync", "--on", "lib:new.img,sparkle", "--dir", images]).expect_err("unknown option");
    assert!(error.is_usage() && error.to_string().contains("sparkle"), "{error}");
    assert_empty(dir.path());
}
