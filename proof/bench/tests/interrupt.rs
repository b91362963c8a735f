//! SIGTERM in the middle of a run, also of one with clients: exit code 130, and nothing is left of an image, a mount, a directory or a process. A
//! client that dies is an error that names it.
//!
//! Its own program without a harness: it runs itself as the bench that is to be interrupted.
#![allow(clippy::disallowed_methods, reason = "a test of a process, by the real clock")]

use clap::Parser;
use ondol_bench::BenchArgs;
use rustix::process::{Pid, Signal, kill_process};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// As the program itself is called, since the bench starts itself for clients and servers.
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
    interrupt("tmpfs", &[]);
    interrupt("tmpfs", &["--clients", "3"]);
    a_client_that_dies_is_named();
    clients_end_with_their_bench();
    keeps_whole_rounds();
    let exists = |path: &str| Path::new(path).exists();
    if can_mount() && exists("/usr/sbin/mke2fs") && exists("/dev/loop-control") {
        interrupt("kernel:ext4", &["--clients", "2"]);
    } else {
        ondol_skips::skip("kernel:ext4 needs the right to mount, mke2fs and loop devices");
    }
    if can_mount() && exists("/usr/sbin/mke2fs") && exists("/usr/bin/fuse2fs") && exists("/dev/fuse") {
        interrupt("fuse2fs", &[]);
    } else {
        ondol_skips::skip("fuse2fs needs the right to mount, mke2fs, fuse2fs and /dev/fuse");
    }
    if can_mount() && exists("/dev/fuse") {
        interrupt("null", &["--clients", "2"]);
        interrupt("passthrough", &[]);
    } else {
        ondol_skips::skip("null and passthrough need the right to mount and /dev/fuse");
    }
    ExitCode::SUCCESS
}

/// Processes of this user that are clients of the bench `pid`.
fn clients_of(pid: u32) -> Vec<Pid> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let is_client = |child: &&str| {
        let line = std::fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).nth(2) == Some(b"client")
    };
    let numbers = children.split_whitespace().filter(is_client).filter_map(|child| child.parse().ok());
    numbers.filter_map(Pid::from_raw).collect()
}

/// Kills one of three clients while they work: the bench says which, and nothing is left.
fn a_client_that_dies_is_named() {
    let dir = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["bench", "run", "overwrite-fsync", "--param", "file-size=1M", "--rounds", "1", "--seconds", "600"])
        .args(["--clients", "3", "--on"])
        .arg(format!("dir:{}", dir.path().display()))
        .env(CHILD, "1")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start");
    let since = Instant::now();
    let mut clients = Vec::new();
    while since.elapsed() < Duration::from_secs(120) && clients.len() < 3 {
        std::thread::sleep(Duration::from_millis(20));
        clients = clients_of(child.id());
    }
    if let Some(second) = clients.get(1) {
        kill_process(*second, Signal::KILL).expect("kill");
    } else {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("pid");
        kill_process(pid, Signal::TERM).expect("signal");
    }
    let mut said = String::new();
    child.stderr.take().expect("stderr").read_to_string(&mut said).expect("read");
    let status = child.wait().expect("wait");
    assert_eq!(clients.len(), 3, "the clients do not come: {said}");
    assert_eq!(status.code(), Some(1), "{said}");
    let number = clients[1].as_raw_pid();
    for part in ["overwrite-fsync on dir:", "client 2 of 3", &format!("process {number} "), "SIGKILL"] {
        assert!(said.contains(part), "{part} is not in: {said}");
    }
    assert_eq!(said.lines().count(), 1, "one line: {said}");
    for client in clients {
        assert!(!Path::new(&format!("/proc/{}", client.as_raw_pid())).exists(), "a client lives on");
    }
    assert_eq!(std::fs::read_dir(dir.path()).expect("read").count(), 0, "a directory is left");
    println!("a client died: {said}");
}

/// Kills the bench itself: nobody is left to end its clients, so they do.
fn clients_end_with_their_bench() {
    let dir = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["bench", "run", "overwrite-fsync", "--param", "file-size=1M", "--rounds", "1", "--seconds", "600"])
        .args(["--clients", "2", "--on"])
        .arg(format!("dir:{}", dir.path().display()))
        .env(CHILD, "1")
        .stdout(Stdio::null())
        .spawn()
        .expect("start");
    let pid = child.id();
    let since = Instant::now();
    let patient = || since.elapsed() < Duration::from_secs(120);
    let prefix = dir.path().join(format!("ondol-bench-{pid}-0"));
    // Both work by then: the second one's file is made while it prepares.
    while patient() && !prefix.join("client001/file000").exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let clients = clients_of(pid);
    child.kill().expect("kill");
    child.wait().expect("wait");
    assert_eq!(clients.len(), 2, "the clients do not come");
    let lives = |client: &Pid| {
        // A process that has ended and that nobody waits for is gone, too.
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", client.as_raw_pid())).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z ")
    };
    while patient() && clients.iter().any(lives) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(!clients.iter().any(lives), "a client lives on without its bench");
    println!("clients have ended with their bench");
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
fn interrupt(target: &str, more: &[&str]) {
    let dir = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let temp = dir.path().join("temp");
    let images = dir.path().join("images");
    std::fs::create_dir(&temp).expect("directory");
    std::fs::create_dir(&images).expect("directory");
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["bench", "run", "overwrite-fsync", "--param", "file-size=1M", "--rounds", "1", "--seconds", "600"])
        .args(more)
        .args(["--on", target, "--dir"])
        .arg(&images)
        .env(CHILD, "1")
        .env("TMPDIR", &temp)
        .stdout(Stdio::null())
        .spawn()
        .expect("start");
    let pid = i32::try_from(child.id()).expect("pid");
    let mut clients = Vec::new();
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
    clients.extend(clients_of(child.id()));
    kill_process(Pid::from_raw(pid).expect("pid"), Signal::TERM).expect("signal");
    let status = child.wait().expect("wait");
    for client in clients {
        assert!(!Path::new(&format!("/proc/{}", client.as_raw_pid())).exists(), "{target}: a client lives on");
    }
    assert_eq!(status.code(), Some(130), "{target}: {status}");
    assert_eq!(std::fs::read_dir(&images).expect("read").count(), 0, "{target}: an image is left");
    assert_eq!(std::fs::read_dir(&temp).expect("read").count(), 0, "{target}: a mount point is left");
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    assert!(!mounts.contains(&format!("ondol-bench-{pid}-")), "{target}: a mount is left");
    assert!(!worked_on(&format!("ondol-bench-{pid}-")), "{target}: a directory is left");
    println!("{target} {}: interrupted, nothing is left", more.join(" "));
}

/// True if a working directory of a bench that names its things `prefix…` holds a file: in /dev/shm or on a mount.
fn worked_on(prefix: &str) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(4)).filter(|point| point.contains(prefix));
    let roots = points.chain(std::iter::once("/dev/shm"));
    let dirs = roots.filter_map(|root| std::fs::read_dir(root).ok()).flat_map(|entries| entries.flatten());
    dirs.filter(|dir| dir.file_name().to_string_lossy().starts_with(prefix))
        .any(|dir| ["file000", "client000/file000"].iter().any(|file| dir.path().join(file).exists()))
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
