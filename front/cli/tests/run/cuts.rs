//! Two processes that write (some of it through `O_SYNC` descriptors) and sync, names that they change, databases:
//! every acknowledged byte, name and transaction is there after a power cut.

use crate::power::{Cut, NOBODY, cut, in_rounds, unavailable, user_can};
use crate::{compiled, names};
use ondol_skips::skips;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::ops::Range;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// What a byte may be.
#[derive(Clone, Default)]
struct Byte {
    acked: Option<u8>,
    /// Of writes since, by process.
    later: Vec<(usize, u8)>,
    /// Who has written it last, and whether by a raw system call.
    last: Option<(usize, bool)>,
}

/// What is known of the files.
#[derive(Default)]
struct Model {
    files: [Vec<Byte>; 3],
    /// What each process has written to each file since it synced it.
    written: [[Vec<Range<usize>>; 3]; 2],
    /// A truncation is under way.
    open: [bool; 3],
}

impl Model {
    fn line(&mut self, line: &str) {
        let mut words = line.split(' ');
        let kind = words.next().unwrap();
        let mut number = || words.next().unwrap().parse::<usize>().unwrap();
        let (process, file, at, len, value) = (number(), number(), number(), number(), number() as u8);
        let bytes = &mut self.files[file];
        match kind {
            "W" | "R" => {
                bytes.resize(bytes.len().max(at + len), Byte::default());
                self.written[process][file].push(at..at + len);
                bytes[at..at + len].iter_mut().for_each(|byte| {
                    byte.later.push((process, value));
                    byte.last = Some((process, kind == "R"));
                });
            }
            "T" => {
                // Only its own process writes to the file.
                bytes.resize(at, Byte::default());
                self.open[file] = true;
            }
            "S" => {
                self.open[file] = false;
                let written = std::mem::take(&mut self.written[process][file]);
                written.into_iter().for_each(|range| self.acknowledged(process, file, range));
            }
            // Durable by itself: nothing is said of what was written before.
            "A" => self.acknowledged(process, file, at..at + len),
            other => panic!("{other}"),
        }
    }

    /// What a process has written there last is durable.
    fn acknowledged(&mut self, process: usize, file: usize, range: Range<usize>) {
        let bytes = &mut self.files[file];
        // What a truncation has cut off is gone.
        let end = range.end.min(bytes.len());
        for byte in &mut bytes[range.start.min(end)..end] {
            if let Some((_, value)) = byte.later.iter().rfind(|(by, _)| *by == process) {
                byte.acked = Some(*value);
                byte.later.retain(|(by, _)| *by != process);
            }
        }
    }

    fn check(&self, dir: &Path) -> Vec<String> {
        let mut wrong = Vec::new();
        for (n, bytes) in self.files.iter().enumerate().filter(|(n, _)| !self.open[*n]) {
            let found = fs::read(dir.join(format!("f{n}"))).unwrap_or_default();
            let bad = |at: usize, byte: &Byte| match found.get(at) {
                Some(found) => {
                    let later: BTreeSet<u8> = byte.later.iter().map(|(_, value)| *value).collect();
                    *found != byte.acked.unwrap_or(0) && !later.contains(found)
                }
                None => byte.acked.is_some(),
            };
            if let Some((at, byte)) = bytes.iter().enumerate().find(|(at, byte)| bad(*at, byte)) {
                let count = bytes.iter().enumerate().filter(|(at, byte)| bad(*at, byte)).count();
                wrong.push(format!(
                    "f{n}: {count} bytes, the first at {at}: {:?}, acknowledged {:?}, written last by (process, raw) \
                     {:?}",
                    found.get(at),
                    byte.acked,
                    byte.last
                ));
            }
        }
        wrong
    }
}

#[test]
fn every_acknowledged_byte_is_there_after_a_power_cut() {
    if skips(unavailable(&["cc"])) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let program = compiled(place.path(), "cutter.c", &[]);
    in_rounds(6, |round| {
        let seed = (u64::from(std::process::id()) + round).to_string();
        let after = Duration::from_millis(150 + (round * 397) % 1300);
        let program = [program.as_os_str()];
        let what = Cut {
            image: 48 << 20,
            pool: "3M",
            program: &program,
            word: &seed,
            by_user: false,
            after,
            ..Cut::default()
        };
        let (lost, bad) = cut(&what, |said, dir| {
            let mut model = Model::default();
            said.lines().for_each(|line| model.line(line));
            model.check(dir)
        });
        (lost, bad.into_iter().map(|what| format!("seed {seed}: {what}")).collect())
    });
}

#[test]
fn every_acknowledged_name_is_there_after_a_power_cut() {
    if skips(unavailable(&["cc"])) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let program = compiled(place.path(), "namer.c", &[]);
    let user = user_can();
    if !user {
        println!("by root alone: the program may not be run by others here");
    }
    in_rounds(6, |round| {
        let seed = (u64::from(std::process::id()) + round).to_string();
        let after = Duration::from_millis(150 + (round * 397) % 1300);
        let (program, by_user) = ([program.as_os_str()], user && round % 4 > 1);
        let what =
            Cut { image: 48 << 20, pool: "3M", program: &program, word: &seed, by_user, after, ..Cut::default() };
        let (lost, bad) = cut(&what, names::check);
        (lost, bad.into_iter().map(|what| format!("seed {seed}: {what}")).collect())
    });
}

/// Commits, and says so.
const COMMITS: &str = r#"
import sqlite3, sys, os
db = sqlite3.connect(sys.argv[1] + "/x.db", isolation_level=None)
db.execute("pragma journal_mode=" + sys.argv[2])
db.execute("pragma synchronous=extra")
db.execute("pragma wal_autocheckpoint=50")
db.execute("create table if not exists t(a integer primary key, b blob)")
n = 0
while True:
    n += 1
    db.execute("insert into t values(?, randomblob(?))", (n, n * 37 % 3000))
    if n % 7 == 0: db.execute("update t set b = randomblob(500) where a = ?", (n // 2,))
    os.write(1, b"%d\n" % n)
"#;

#[test]
fn committed_transactions_are_there_after_a_power_cut() {
    if skips(unavailable(&["python3", "sqlite3"])) {
        return;
    }
    let modes = ["wal", "delete", "persist", "truncate"];
    in_rounds(4, |round| {
        let mode = modes[round as usize % modes.len()];
        let after = Duration::from_millis(700 + (round * 397) % 1300);
        let program = ["python3", "-c", COMMITS].map(OsStr::new);
        let what = Cut {
            image: 48 << 20,
            pool: "24M",
            program: &program,
            word: mode,
            by_user: false,
            after,
            ..Cut::default()
        };
        cut(&what, |said, dir| {
            let committed: u64 = said.lines().last().map_or(0, |line| line.parse().unwrap());
            let ask = "pragma integrity_check; select count(*) from t; select max(a) from t";
            // Where nothing is left of it, there is no table.
            let mut sqlite = Command::new("sqlite3");
            let out = crate::output(sqlite.arg(dir.join("x.db")).arg(ask));
            let text = String::from_utf8_lossy(&out.stdout).into_owned();
            let lines: Vec<&str> = text.lines().collect();
            let whole = match lines[..] {
                // Of an empty table there is no greatest number.
                ["ok", "0", ""] => committed == 0,
                ["ok", count, max] => count == max && max.parse::<u64>().unwrap_or(0) >= committed,
                _ => committed == 0,
            };
            if whole { Vec::new() } else { vec![format!("{mode}: {committed} committed, {text}")] }
        })
    });
}

/// Commits in a cluster of PostgreSQL that one process works on, and says so.
const CLUSTER: &str = r#"
import subprocess, sys, os
bin, dir = sys.argv[1], sys.argv[2] + "/pg"
with open(os.devnull, "w") as null:
    made = [bin + "/initdb", "-D", dir, "-A", "trust", "-U", "me", "--wal-segsize=1", "--no-sync",
            "--no-locale", "-E", "UTF8"]
    subprocess.check_call(made, stdout=null, stderr=null)
    subprocess.check_call(["sync", "-f", dir])
    server = [bin + "/postgres", "--single", "-D", dir, "-c", "checkpoint_timeout=30", "-c", "max_wal_size=2MB",
              "-c", "dynamic_shared_memory_type=mmap", "postgres"]
    db = subprocess.Popen(server, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=null, bufsize=0)
def ask(sql):
    db.stdin.write(sql.encode() + b"\n")
    seen = b""
    while not seen.endswith(b"backend> "):
        more = db.stdout.read(1)
        if not more: sys.exit(1)
        seen += more
seen = b""
while not seen.endswith(b"backend> "): seen += db.stdout.read(1)
ask("create table t(a integer primary key, b text)")
n = 0
while True:
    n += 1
    ask("insert into t values(%d, repeat('%d', %d))" % (n, n, n * 37 % 3000))
    if n % 50 == 0: ask("checkpoint")
    os.write(1, b"%d\n" % n)
"#;

/// Where PostgreSQL's programs are.
fn cluster_programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    versions.map(|version| version.path().join("bin")).find(|bin| bin.join("initdb").exists())
}

#[test]
fn a_cluster_has_what_it_has_committed_after_a_power_cut() {
    let bin = cluster_programs();
    let missing = bin.is_none().then(|| "PostgreSQL is not in /usr/lib/postgresql".to_owned());
    let unfit = || (!user_can()).then(|| "an ordinary user may not run what was built here".to_owned());
    if skips(unavailable(&["python3", "sync"]).or(missing).or_else(unfit)) {
        return;
    }
    let bin = bin.unwrap();
    in_rounds(1, |round| {
        let after = Duration::from_millis(300 + (round * 397) % 3000);
        let program = [OsStr::new("python3"), OsStr::new("-c"), OsStr::new(CLUSTER), bin.as_os_str()];
        let what =
            Cut { image: 200 << 20, pool: "24M", program: &program, word: "", by_user: true, after, ..Cut::default() };
        cut(&what, |said, dir| {
            let committed: u64 = said.lines().last().map_or(0, |line| line.parse().unwrap());
            // After a real cut there is no process of this number, nor its shared memory, whose own number is the last
            // one here.
            let lock = fs::read_to_string(dir.join("pg/postmaster.pid")).unwrap_or_default();
            if let Some(memory) = lock.split_whitespace().last() {
                let _ = Command::new("ipcrm").args(["-m", memory]).stderr(Stdio::null()).status();
            }
            let _ = fs::remove_file(dir.join("pg/postmaster.pid"));
            let mut server = Command::new(bin.join("postgres"));
            let shared = ["-c", "dynamic_shared_memory_type=mmap", "postgres"];
            server.args(["--single", "-D"]).arg(dir.join("pg")).args(shared).uid(NOBODY).gid(NOBODY);
            let ask = "select 'rows ' || count(*) || ' ' || coalesce(max(a), 0) from t where b = repeat(a::text, a * \
                       37 % 3000)";
            let mut child = server.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            std::io::Write::write_all(&mut child.stdin.take().unwrap(), format!("{ask}\n").as_bytes()).unwrap();
            let out = child.wait_with_output().unwrap();
            let text = String::from_utf8_lossy(&out.stdout).into_owned();
            let row = text.split("\"rows ").nth(1).and_then(|rest| rest.split('"').next());
            let numbers: Vec<u64> =
                row.into_iter().flat_map(|row| row.split(' ').map(|n| n.parse().unwrap())).collect();
            let whole = numbers.len() == 2 && numbers[0] == numbers[1] && numbers[1] >= committed;
            if whole || committed == 0 {
                Vec::new()
            } else {
                vec![format!("{committed} committed, {text}{}", String::from_utf8_lossy(&out.stderr))]
            }
        })
    });
}
