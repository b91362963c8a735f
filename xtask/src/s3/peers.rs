//! `cargo xtask s3 --peers`: workloads on a mount of ours and on those of other programs, on the same server, by turns.
//! What the server was asked is counted in its own log.

use super::figures::{middle, printed};
use super::{BUCKET, KEY, Server};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

/// Workloads, and what they are told.
const WORKLOADS: [(&str, &[&str]); 3] = [
    ("varmail", &["--threads", "16", "--param", "files=200"]),
    ("fileserver", &["--threads", "16", "--param", "files=200"]),
    ("untar", &[]),
];

/// For so many seconds each workload runs.
const SECONDS: &str = "8";
/// A turn that takes longer is given up: its set has to be made before.
const TOO_LONG: Duration = Duration::from_secs(180);

/// What a file system is called, whether it is here, how it is mounted, and what its fsync means.
struct Peer {
    name: &'static str,
    program: &'static str,
    mount: fn(&Bench<'_>) -> Command,
    fsync: &'static str,
}

const PEERS: [Peer; 4] = [
    Peer {
        name: "ondol",
        program: "",
        mount: |bench| {
            let mut command = Command::new(&bench.program);
            command.arg("mount").arg(format!("s3://{BUCKET}/peers"));
            command
        },
        fsync: "in the store",
    },
    Peer {
        name: "s3fs",
        program: "s3fs",
        mount: |bench| {
            let mut command = Command::new("s3fs");
            command.args(["s3fs", "-o", "use_path_request_style", "-o"]);
            command.arg(format!("url=http://{}", bench.server.address));
            command
        },
        fsync: "the whole file is put",
    },
    Peer {
        name: "geesefs",
        program: "geesefs",
        mount: |bench| {
            let mut command = Command::new("geesefs");
            command.args(["--endpoint", &format!("http://{}", bench.server.address), "geesefs"]);
            command
        },
        fsync: "the file is put, or its changed parts",
    },
    Peer {
        name: "rclone",
        program: "rclone",
        mount: |bench| {
            let mut command = Command::new("rclone");
            command.args(["mount", "bench:rclone", "--daemon", "--vfs-cache-mode", "writes", "--vfs-write-back", "0s"]);
            // The one before may not have ended yet.
            let turn = bench.turns.fetch_add(1, Relaxed);
            command.arg("--cache-dir").arg(bench.dir.join(format!("rclone-{turn}")));
            command
        },
        fsync: "nothing: a file is put after it was closed",
    },
];

struct Bench<'s> {
    server: &'s Server,
    program: PathBuf,
    dir: PathBuf,
    log: PathBuf,
    turns: AtomicU32,
}

/// What a workload did on one of them, by round.
#[derive(Default)]
struct Done {
    rates: Vec<f64>,
    fsyncs: Vec<f64>,
    requests: Vec<f64>,
    /// Of all rounds, by what was asked.
    kinds: BTreeMap<String, u64>,
    ops: f64,
    failed: Option<String>,
}

/// Where the server writes down what it is asked.
pub(super) fn log() -> Result<PathBuf, String> {
    Ok(crate::metadata()?.target_directory.into_std_path_buf().join("s3-access.log"))
}

/// Words: `--rounds N`, and names of workloads, or of file systems.
pub(super) fn run(server: &Server, words: &[String]) -> Result<(), String> {
    let (rounds, only) = super::rounds(words, 3)?;
    let only: Vec<&str> = only.iter().map(String::as_str).collect();
    let bench = Bench {
        server,
        program: super::bench::program()?,
        dir: server.dir.join("peers"),
        log: log()?,
        turns: AtomicU32::new(0),
    };
    fs::create_dir_all(bench.dir.join("mnt")).map_err(|e| format!("{}: {e}", bench.dir.display()))?;
    let chosen = |name: &str, all: &[&str]| !only.iter().any(|word| all.contains(word)) || only.contains(&name);
    let names: Vec<&str> = PEERS.iter().map(|peer| peer.name).collect();
    let workloads: Vec<&str> = WORKLOADS.iter().map(|(name, _)| *name).collect();
    if let Some(unknown) = only.iter().find(|word| !names.contains(word) && !workloads.contains(word)) {
        return Err(format!("{unknown} is none of {} or {}", workloads.join(", "), names.join(", ")));
    }
    let here: Vec<&Peer> = PEERS.iter().filter(|peer| chosen(peer.name, &names) && bench.is_here(peer)).collect();
    for peer in &here {
        eprintln!("xtask: what {} can", peer.name);
        let cannot = bench.mounted(peer, |mount| Ok(cannot(mount)));
        let said = cannot.map_or_else(|why| why, |all| if all.is_empty() { "nothing".into() } else { all.join(", ") });
        println!("- {} cannot: {said}. Its fsync: {}.", peer.name, peer.fsync);
    }
    println!();
    println!(
        "| workload | file system | operations a second | to the first | fsync p50 ms | requests for each operation |"
    );
    println!("|---|---|--:|--:|--:|---|");
    for (workload, params) in WORKLOADS.iter().filter(|(name, _)| chosen(name, &workloads)) {
        let mut done: Vec<Done> = here.iter().map(|_| Done::default()).collect();
        for round in 1..=rounds {
            for (peer, done) in here.iter().zip(&mut done) {
                eprintln!("xtask: {workload} on {}, round {round} of {rounds}", peer.name);
                // What one cannot do is said, and the others go on.
                if let Err(why) = bench.mounted(peer, |mount| bench.work(workload, params, mount, done)) {
                    eprintln!("xtask: {why}");
                    done.failed = Some(why);
                }
            }
        }
        print(workload, &here, &done);
    }
    Ok(())
}

fn print(workload: &str, peers: &[&Peer], turns: &[Done]) {
    for (peer, done) in peers.iter().zip(turns) {
        let (low, high) = done.rates.iter().fold((f64::MAX, 0f64), |(low, high), n| (low.min(*n), high.max(*n)));
        if let Some(why) = &done.failed {
            println!("| {workload} | {} | failed: {why} | | | |", peer.name);
            continue;
        }
        let all: u64 = done.kinds.values().sum();
        let ratios = done.rates.iter().zip(&turns[0].rates).map(|(one, first)| one / first).collect();
        let kinds: Vec<String> = done
            .kinds
            .iter()
            .filter(|(_, n)| **n * 50 >= all)
            .map(|(kind, n)| format!("{kind} {:.3}", *n as f64 / done.ops))
            .collect();
        println!(
            "| {workload} | {} | {:.0} ({low:.0} to {high:.0}) | {:.2} | {:.2} | {:.3}: {} |",
            peer.name,
            middle(done.rates.clone()),
            middle(ratios),
            middle(done.fsyncs.clone()),
            middle(done.requests.clone()),
            kinds.join(", "),
        );
    }
}

/// What a program may expect of a file system, and this one refuses.
fn cannot(mount: &Path) -> Vec<String> {
    let at = |name: &str| mount.join(name);
    let tries: [(&str, &dyn Fn() -> std::io::Result<()>); 6] = [
        ("write a file", &|| fs::write(at("file"), vec![7; 100_000])),
        ("write into the middle", &|| OpenOptions::new().write(true).open(at("file"))?.write_all_at(b"x", 50_000)),
        ("append", &|| OpenOptions::new().append(true).open(at("file"))?.write_all(b"x")),
        ("hard link", &|| fs::hard_link(at("file"), at("link"))),
        ("symbolic link", &|| std::os::unix::fs::symlink("file", at("symlink"))),
        ("rename a directory with a file in it", &|| {
            fs::create_dir(at("old"))?;
            fs::write(at("old/inside"), b"x")?;
            fs::rename(at("old"), at("new"))
        }),
    ];
    let refused = tries.iter().filter_map(|(name, work)| Some(format!("{name} ({})", work().err()?.kind())));
    refused.collect()
}

impl Bench<'_> {
    fn is_here(&self, peer: &Peer) -> bool {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let is_here =
            peer.program.is_empty() || std::env::split_paths(&path).any(|dir| dir.join(peer.program).is_file());
        if !is_here {
            eprintln!("xtask: {} is left out: it is not in the path", peer.name);
        }
        is_here
    }

    /// A fresh bucket or volume, mounted, worked on, unmounted.
    fn mounted<T>(&self, peer: &Peer, work: impl FnOnce(&Path) -> Result<T, String>) -> Result<T, String> {
        let mount = self.dir.join("mnt");
        let bucket = self.server.dir.join("root").join(peer.name);
        if peer.program.is_empty() {
            let target = format!("s3://{BUCKET}/peers");
            printed(self.told(Command::new(&self.program).args(["mkfs", "-F", "--size", "8G", &target])))?;
        } else {
            let _ = fs::remove_dir_all(&bucket);
            fs::create_dir_all(&bucket).map_err(|e| format!("{}: {e}", bucket.display()))?;
        }
        self.mount(peer, &mount)?;
        let worked = work(&mount);
        let unmounted = match peer.program {
            "" => printed(Command::new(&self.program).arg("umount").arg(&mount)),
            _ => printed(Command::new("umount").arg(&mount)),
        };
        if unmounted.is_err() {
            // Whoever removes the directory must find no mount in it, and the next one mounts there.
            let _ = printed(Command::new("umount").arg("-l").arg(&mount));
        }
        worked.and_then(|done| unmounted.map(|_| done))
    }

    fn mount(&self, peer: &Peer, mount: &Path) -> Result<(), String> {
        let mut command = (peer.mount)(self);
        self.told(command.arg(mount)).stdout(Stdio::null()).stderr(Stdio::null());
        let status = command.status().map_err(|e| format!("{command:?}: {e}"))?;
        let is_mounted = || printed(Command::new("mountpoint").arg("-q").arg(mount)).is_ok();
        if status.success() && (0..100).any(|_| is_mounted() || super::pause()) {
            return Ok(());
        }
        Err(format!("{} does not mount: {status}", peer.name))
    }

    fn work(&self, workload: &str, params: &[&str], mount: &Path, done: &mut Done) -> Result<(), String> {
        let before = self.asked()?;
        let limit = TOO_LONG.as_secs().to_string();
        let mut command = Command::new("timeout");
        command.arg(&limit).arg(&self.program).args(["bench", "run", workload, "--rounds", "1", "--seconds", SECONDS]);
        command.args(["--settle", "--json", "-", "--on"]).arg(format!("dir:{}", mount.display())).args(params);
        let said = printed(&mut command)?;
        let json: Value = serde_json::from_str(&said).map_err(|e| e.to_string())?;
        let number = |path: &str| json.pointer(path).and_then(Value::as_f64);
        let rate = number("/targets/0/rates/0").ok_or("the bench has no rate")?;
        let ops = number("/targets/0/counters/ops").ok_or("the bench has no operations")?;
        done.rates.push(rate);
        done.fsyncs.extend(number("/targets/0/fsync_us/p50").map(|us| us / 1000.0));
        let mut all = 0;
        for (kind, count) in self.asked()? {
            let more = count - before.get(&kind).copied().unwrap_or(0);
            all += more;
            *done.kinds.entry(kind).or_default() += more;
        }
        done.requests.push(all as f64 / ops);
        done.ops += ops;
        Ok(())
    }

    /// What the server was asked since it began, by kind.
    fn asked(&self) -> Result<BTreeMap<String, u64>, String> {
        let log = fs::read_to_string(&self.log).map_err(|e| format!("{}: {e}", self.log.display()))?;
        let mut kinds = BTreeMap::new();
        for line in log.lines() {
            if let Some(kind) = line.split_whitespace().find_map(|word| word.strip_prefix("s3_")) {
                *kinds.entry(kind.to_owned()).or_insert(0) += 1;
            }
        }
        Ok(kinds)
    }

    /// A program that finds the server.
    fn told<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        // The server speaks without encryption, and not every client takes a bundle of certificates beside that.
        command.env_remove("AWS_CA_BUNDLE");
        command.env("AWSACCESSKEYID", KEY).env("AWSSECRETACCESSKEY", KEY);
        let rclone = [
            ("TYPE", "s3"),
            ("PROVIDER", "Other"),
            ("ACCESS_KEY_ID", KEY),
            ("SECRET_ACCESS_KEY", KEY),
            ("FORCE_PATH_STYLE", "true"),
        ];
        command.envs(rclone.map(|(name, value)| (format!("RCLONE_CONFIG_BENCH_{name}"), value)));
        command.env("RCLONE_CONFIG_BENCH_ENDPOINT", format!("http://{}", self.server.address));
        self.server.named_to(command)
    }
}
