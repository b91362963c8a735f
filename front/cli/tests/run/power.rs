//! Power cuts made real: an ext4 image on a loop device, a program that writes and syncs on it, and a moment at which
//! image and pool are copied as they are. The image has what the kernel had handed to the device by then; what was in
//! the page cache alone is lost with the cut. The kernel replays its journal, `ondol recover` runs, and all that was
//! acknowledged is there.

use crate::{ondol, succeeds};
use ondol_skips::missing;
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
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
#[derive(Default)]
pub(crate) struct Cut<'a> {
    /// Bytes of the image.
    pub(crate) image: u64,
    /// Of the pool, as `ondol run` is told.
    pub(crate) pool: &'a str,
    /// The program; it is told its directory, and `word`.
    pub(crate) program: &'a [&'a OsStr],
    pub(crate) word: &'a str,
    /// As an ordinary user, who recovers, too.
    pub(crate) by_user: bool,
    /// When, from what it says first.
    pub(crate) after: Duration,
    /// The pool is a file of the image, and not one in memory.
    pub(crate) on_disk: bool,
    pub(crate) slow: Option<Slow<'a>>,
}

/// What makes msync(2) wait first.
pub(crate) struct Slow<'a> {
    /// Before libc.
    pub(crate) library: &'a Path,
    /// For so many microseconds at most.
    pub(crate) us: u32,
    /// Only of these first bytes of the pool.
    pub(crate) below: u64,
    /// Only in `ondol run` itself.
    pub(crate) drain_only: bool,
}

/// The user with the fewest rights.
pub(crate) const NOBODY: u32 = 65534;

/// An ordinary user can run what was built here.
pub(crate) fn user_can() -> bool {
    let mut command = ondol();
    let out = command.arg("--version").uid(NOBODY).gid(NOBODY).stdout(Stdio::null()).stderr(Stdio::null()).status();
    out.is_ok_and(|status| status.success())
}

/// `ondol run` and its program, in a group of their own.
fn started(cut: &Cut<'_>, mut ondol: Command, pool: &Path, dir: &Path) -> Child {
    if let Some(Slow { library, us, below, drain_only }) = &cut.slow {
        ondol.env("LD_PRELOAD", library).env("SLOW_US", us.to_string()).env("SLOW_BELOW", below.to_string());
        ondol.envs(drain_only.then_some(("SLOW_IN", "ondol")));
    }
    ondol.args(["run", "-q", "--size", cut.pool, "--buffer"]).arg(pool).arg("--dir").arg(dir).arg("--");
    ondol.args(cut.program).arg(dir).arg(cut.word).stdout(Stdio::piped()).process_group(0).spawn().unwrap()
}

/// Cuts the power of a program. `judge` is shown what the program has said (whole lines) and the directory: without
/// recovery first, whose faults it answers; then after recovery. Answers both lots.
pub(crate) fn cut(cut: &Cut<'_>, judge: impl Fn(&str, &Path) -> Vec<String>) -> (Vec<String>, Vec<String>) {
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
    // In a directory that nobody else looks at.
    let pool = if cut.on_disk { dir.join("lost+found/pool") } else { pool };
    let mut group = Group(started(cut, ondol(), &pool, &dir));
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
    // On the disk it is what the image has of it.
    let saved = if cut.on_disk { pool } else { fs::copy(&pool, &saved).map(|_| saved).unwrap() };
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

/// How often a test cuts at most, beside its rounds, until something is lost without recovery: right behind a sync of
/// the kernel's all is on the disk anyway.
const MORE: u64 = 8;

/// Cuts `default` times, or as often as `ONDOL_RUN_CUTS` says, or 24 times in a hunt. `cut` is told which round it is,
/// and answers as [`cut`] does.
///
/// # Panics
/// When something is wrong after recovery; or when nothing was ever lost without, which would show nothing.
pub(crate) fn in_rounds(default: u64, cut: impl Fn(u64) -> (Vec<String>, Vec<String>)) {
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
