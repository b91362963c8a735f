//! SIGTERM in the middle of a run: exit code 130, and nothing is left of an image, a mount or a directory.
//!
//! Its own program without a harness: it runs itself as the bench that is to be interrupted.
#![allow(clippy::disallowed_methods, reason = "a test of a process, by the real clock")]

use clap::Parser;
use ondol_bench::BenchArgs;
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// As the program itself is called, since the bench starts itself for servers.
#[derive(Parser)]
enum Cli {
    Bench(BenchArgs),
}

/// Set in the process that is the bench.
const CHILD: &str = "ONDOL_BENCH_CHILD";

fn main() -> ExitCode {
    if std::env::var_os(CHILD).is_some() {
        let Cli::Bench(args) = Cli::parse();
        return ondol_bench::main(args).unwrap_or_else(|e| {
            eprintln!("{e}");
            ExitCode::FAILURE
        });
    }
    interrupt("tmpfs");
    keeps_whole_rounds();
    let exists = |path: &str| Path::new(path).exists();
    if can_mount() && exists("/usr/sbin/mke2fs") && exists("/dev/loop-control") {
        interrupt("kernel:ext4");
    } else {
        ondol_skips::skip("kernel:ext4 needs the right to mount, mke2fs and loop devices");
    }
    if can_mount() && exists("/usr/sbin/mke2fs") && exists("/usr/bin/fuse2fs") && exists("/dev/fuse") {
        interrupt("fuse2fs");
    } else {
        ondol_skips::skip("fuse2fs needs the right to mount, mke2fs, fuse2fs and /dev/fuse");
    }
    if can_mount() && exists("/dev/fuse") {
        interrupt("null");
        interrupt("passthrough");
    } else {
        ondol_skips::skip("null and passthrough need the right to mount and /dev/fuse");
    }
    ExitCode::SUCCESS
}

/// Interrupts a run of many rounds, later and later until one was done: it is reported, as a part.
fn keeps_whole_rounds() {
    let dir = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let json = dir.path().join("report.json");
    let kept = (0..8).map(|n| Duration::from_millis(500 << n)).any(|patience| {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["bench", "run", "create-fsync", "--on", "tmpfs", "--rounds", "1000", "--ops", "20000", "--json"])
            .arg(&json)
            .env(CHILD, "1")
            .stdout(Stdio::null())
            .spawn()
            .expect("start");
        std::thread::sleep(patience);
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("pid");
        kill_process(pid, Signal::TERM).expect("signal");
        let status = child.wait().expect("wait");
        // It may not listen yet.
        assert!(status.code() == Some(130) || status.signal() == Some(Signal::TERM.as_raw()), "{status}");
        json.exists()
    });
    assert!(kept, "no round was kept");
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).expect("report")).expect("JSON");
    assert_eq!(report["partial"], true);
    assert!((1..1000).contains(&report["rounds"].as_u64().expect("rounds")), "{report}");
    assert_eq!(report["targets"][0]["counters"]["ops"].as_u64(), report["rounds"].as_u64().map(|n| n * 20_000));
}

/// Interrupts an endless run on `target` once it works.
fn interrupt(target: &str) {
    let dir = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let temp = dir.path().join("temp");
    let images = dir.path().join("images");
    std::fs::create_dir(&temp).expect("directory");
    std::fs::create_dir(&images).expect("directory");
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["bench", "run", "overwrite", "--param", "file-size=1M", "--rounds", "1", "--seconds", "600"])
        .args(["--on", target, "--dir"])
        .arg(&images)
        .env(CHILD, "1")
        .env("TMPDIR", &temp)
        .stdout(Stdio::null())
        .spawn()
        .expect("start");
    let pid = i32::try_from(child.id()).expect("pid");
    let works = || worked_on(&format!("ondol-bench-{pid}-"));
    let since = Instant::now();
    while !works() {
        assert!(child.try_wait().expect("wait").is_none(), "{target}: the bench has ended");
        if since.elapsed() > Duration::from_secs(120) {
            kill_process(Pid::from_raw(pid).expect("pid"), Signal::TERM).expect("signal");
            let status = child.wait().expect("wait");
            panic!("{target}: the bench does not come to work; it ended with {status}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    kill_process(Pid::from_raw(pid).expect("pid"), Signal::TERM).expect("signal");
    let status = child.wait().expect("wait");
    assert_eq!(status.code(), Some(130), "{target}: {status}");
    assert_eq!(std::fs::read_dir(&images).expect("read").count(), 0, "{target}: an image is left");
    assert_eq!(std::fs::read_dir(&temp).expect("read").count(), 0, "{target}: a mount point is left");
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    assert!(!mounts.contains(&format!("ondol-bench-{pid}-")), "{target}: a mount is left");
    assert!(!worked_on(&format!("ondol-bench-{pid}-")), "{target}: a directory is left");
    println!("{target}: interrupted, nothing is left");
}

/// True if a working directory of a bench that names its things `prefix…` holds a file: in /dev/shm or on a mount.
fn worked_on(prefix: &str) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(4)).filter(|point| point.contains(prefix));
    let roots = points.chain(std::iter::once("/dev/shm"));
    let dirs = roots.filter_map(|root| std::fs::read_dir(root).ok()).flat_map(|entries| entries.flatten());
    dirs.filter(|dir| dir.file_name().to_string_lossy().starts_with(prefix))
        .any(|dir| dir.path().join("file000").exists())
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
