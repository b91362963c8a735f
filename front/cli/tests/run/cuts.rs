//! Power cuts made real: an ext4 image on a loop device, two processes that write (some of it through `O_SYNC` descriptors) and sync on it, and a moment at which image and pool are copied as they are. The
//! image has what the kernel had handed to the device by then; what was in the page cache alone is lost with the cut. The kernel replays its
//! journal, `ondol recover` runs, and every acknowledged byte is there.
//!
//! A few rounds; 24 of each kind in `cargo xtask hunt`, or as many as `ONDOL_RUN_CUTS` says.

use crate::{compiled, names, ondol, succeeds};
use ondol_skips::{missing, skips};
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A file system on a loop device, mounted until it is dropped.
pub(crate) struct Mounted {
    device: String,
    dir: PathBuf,
    mounted: bool,
}

impl Mounted {
    pub(crate) fn new(image: &Path, dir: &Path) -> Self {
        let device = succeeds(Command::new("losetup").args(["--find", "--show"]).arg(image)).trim().to_owned();
        let mut mounted = Self { device, dir: dir.into(), mounted: false };
        succeeds(Command::new("mount").args(["-t", "ext4", &mounted.device]).arg(dir));
        mounted.mounted = true;
        mounted
    }

    /// Unmounts; the device stays, so that another one gets another number.
    pub(crate) fn unmount(&mut self) {
        while !Command::new("umount").arg(&self.dir).stderr(Stdio::null()).status().unwrap().success() {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.mounted = false;
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.mounted {
            let _ = Command::new("umount").arg("-l").arg(&self.dir).status();
        }
        let _ = Command::new("losetup").args(["-d", &self.device]).status();
    }
}

/// A group of processes; killed when dropped.
struct Group(Child);

impl Group {
    fn signal(&self, signal: Signal) {
        let _ = kill_process_group(Pid::from_child(&self.0), signal);
    }

    /// Whether all of it are stopped.
    fn is_stopped(&self) -> bool {
        let group = self.0.id().to_string();
        let stats = fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
        let rest = stats.filter_map(|stat| stat.rsplit_once(") ").map(|(_, rest)| rest.to_owned()));
        // State, parent, group.
        rest.filter(|rest| rest.split(' ').nth(2) == Some(&group)).all(|rest| rest.starts_with(['T', 'Z']))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.0.wait();
    }
}

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
                    "f{n}: {count} bytes, the first at {at}: {:?}, acknowledged {:?}, written last by (process, raw) {:?}",
                    found.get(at),
                    byte.acked,
                    byte.last
                ));
            }
        }
        wrong
    }
}

/// The image while nobody writes to it: a copy during a write is no state of the device.
fn still(image: &Path) -> Vec<u8> {
    let mut before = fs::read(image).unwrap();
    loop {
        let now = fs::read(image).unwrap();
        if now == before {
            return now;
        }
        before = now;
    }
}

/// What is cut.
struct Cut<'a> {
    /// Bytes of the image.
    image: u64,
    /// Of the pool, as `ondol run` is told.
    pool: &'a str,
    /// The program; it is told its directory, and `word`.
    program: &'a [&'a OsStr],
    word: &'a str,
    /// As an ordinary user, who recovers, too.
    by_user: bool,
    /// When, from what it says first.
    after: Duration,
}

/// The user with the fewest rights.
pub(crate) const NOBODY: u32 = 65534;

/// An ordinary user can run what was built here.
pub(crate) fn user_can() -> bool {
    let mut command = ondol();
    let out = command.arg("--version").uid(NOBODY).gid(NOBODY).stdout(Stdio::null()).stderr(Stdio::null()).status();
    out.is_ok_and(|status| status.success())
}

/// Cuts the power of a program. `judge` is shown what the program has said (whole lines) and the directory: without recovery first, whose faults it answers; then after recovery. Answers both lots.
fn cut(cut: &Cut<'_>, judge: impl Fn(&str, &Path) -> Vec<String>) -> (Vec<String>, Vec<String>) {
    let place = tempfile::tempdir_in("/dev/shm").unwrap();
    let [image, copy, pool, saved, dir] =
        ["image", "copy", "own/pool", "own/saved", "mnt"].map(|name| place.path().join(name));
    let own = place.path().join("own");
    for dir in [&own, &dir] {
        fs::create_dir(dir).unwrap();
    }
    fs::File::create(&image).unwrap().set_len(cut.image).unwrap();
    succeeds(Command::new("mke2fs").args(["-q", "-t", "ext4"]).arg(&image));
    let mut mounted = Mounted::new(&image, &dir);
    let ondol = || {
        let mut command = ondol();
        if cut.by_user {
            command.uid(NOBODY).gid(NOBODY).env("XDG_CACHE_HOME", own.join("cache"));
        }
        command
    };
    if cut.by_user {
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o711)).unwrap();
        for dir in [&own, &dir] {
            std::os::unix::fs::chown(dir, Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }
    let mut command = ondol();
    command.args(["run", "-q", "--size", cut.pool, "--buffer"]).arg(&pool).arg("--dir").arg(&dir).arg("--");
    command.args(cut.program).arg(&dir).arg(cut.word).stdout(Stdio::piped()).process_group(0);
    let mut group = Group(command.spawn().unwrap());
    let mut from = group.0.stdout.take().unwrap();
    let (begun, begins) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut first = [0; 1];
        from.read_exact(&mut first)?;
        let mut text = String::from_utf8_lossy(&first).into_owned();
        // Nobody waits any more where it took too long.
        let _ = begun.send(());
        from.read_to_string(&mut text).map(|_| text)
    });
    begins.recv_timeout(Duration::from_secs(100)).expect("the program has said nothing");
    std::thread::sleep(cut.after);
    group.signal(Signal::STOP);
    while !group.is_stopped() {
        std::thread::sleep(Duration::from_millis(1));
    }
    fs::write(&copy, still(&image)).unwrap();
    fs::copy(&pool, &saved).unwrap();
    if cut.by_user {
        std::os::unix::fs::chown(&saved, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    drop(group);
    let said = reader.join().unwrap().unwrap();
    mounted.unmount();
    // What follows a line that was not finished was not done, either.
    let said = said.rfind('\n').map_or("", |end| &said[..end]);
    // Once as the cut left it, for what recovery is needed for.
    let untouched = place.path().join("untouched");
    fs::copy(&copy, &untouched).unwrap();
    let mut again = Mounted::new(&untouched, &dir);
    let lost = judge(said, &dir);
    again.unmount();
    let again = Mounted::new(&copy, &dir);
    let told = succeeds(ondol().arg("recover").arg(&saved));
    // It may be repeated.
    succeeds(ondol().arg("recover").arg(&saved));
    let mut wrong = judge(said, &dir);
    wrong.extend(told.contains("somebody else").then_some(told));
    drop(again);
    drop(mounted);
    (lost, wrong)
}

/// Why nothing can be cut here.
pub(crate) fn unavailable(programs: &[&str]) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("needs root".into());
    }
    let tools = ["mke2fs", "losetup", "mount", "umount"];
    if !Path::new("/dev/loop-control").exists() || !Path::new("/dev/shm").is_dir() {
        return Some("there are no loop devices, or no /dev/shm".into());
    }
    let place = tempfile::tempdir().unwrap();
    let old = ondol::run::why_not(place.path()).filter(|why| why.contains("timestamps"));
    old.or_else(|| missing(&[&tools, programs].concat()))
}

/// How often a test cuts at most, beside its rounds, until something is lost without recovery: right behind a sync of the kernel's all is on the disk anyway.
const MORE: u64 = 8;

/// Cuts `default` times, or as often as it is told, or 24 times in a hunt. `cut` is told which round it is, and answers as [`cut`] does.
///
/// # Panics
/// When something is wrong after recovery; or when nothing was ever lost without, which would show nothing.
fn in_rounds(default: u64, cut: impl Fn(u64) -> (Vec<String>, Vec<String>)) {
    let told = std::env::var("ONDOL_RUN_CUTS").ok().and_then(|n| n.parse().ok());
    let rounds = told.unwrap_or(if std::env::var_os("ONDOL_HUNT").is_some() { 24 } else { default });
    let (mut round, mut needed, mut wrong) = (0, 0, Vec::new());
    while round < rounds || needed == 0 && round < rounds + MORE {
        let (lost, bad) = cut(round);
        needed += u64::from(!lost.is_empty());
        wrong.extend(bad);
        round += 1;
    }
    println!("{round} cuts, something was lost without recovery in {needed}");
    assert_eq!(wrong, [""; 0]);
    assert!(needed > 0, "nothing was lost without recovery in {round} cuts");
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
        let what = Cut { image: 48 << 20, pool: "3M", program: &program, word: &seed, by_user: false, after };
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
        let what = Cut { image: 48 << 20, pool: "3M", program: &program, word: &seed, by_user, after };
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
        let what = Cut { image: 48 << 20, pool: "24M", program: &program, word: mode, by_user: false, after };
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
    made = [bin + "/initdb", "-D", dir, "-A", "trust", "-U", "me", "--wal-segsize=1", "--no-sync", "--no-locale", "-E", "UTF8"]
    subprocess.check_call(made, stdout=null, stderr=null)
    subprocess.check_call(["sync", "-f", dir])
    server = [bin + "/postgres", "--single", "-D", dir, "-c", "checkpoint_timeout=30", "-c", "max_wal_size=2MB", "-c", "dynamic_shared_memory_type=mmap", "postgres"]
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
        let what = Cut { image: 200 << 20, pool: "24M", program: &program, word: "", by_user: true, after };
        cut(&what, |said, dir| {
            let committed: u64 = said.lines().last().map_or(0, |line| line.parse().unwrap());
            // After a real cut there is no process of this number, nor its shared memory, whose own number is the last one here.
            let lock = fs::read_to_string(dir.join("pg/postmaster.pid")).unwrap_or_default();
            if let Some(memory) = lock.split_whitespace().last() {
                let _ = Command::new("ipcrm").args(["-m", memory]).stderr(Stdio::null()).status();
            }
            let _ = fs::remove_file(dir.join("pg/postmaster.pid"));
            let mut server = Command::new(bin.join("postgres"));
            let shared = ["-c", "dynamic_shared_memory_type=mmap", "postgres"];
            server.args(["--single", "-D"]).arg(dir.join("pg")).args(shared).uid(NOBODY).gid(NOBODY);
            let ask = "select 'rows ' || count(*) || ' ' || coalesce(max(a), 0) from t where b = repeat(a::text, a * 37 % 3000)";
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
