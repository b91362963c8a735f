//! `kill -9` of a mount's server under load, round after round: what was synced is there afterwards.
//!
//! With engine `scalable` there is an NVM pool, in memory that outlives the server: what it had stored there is there.
//! With `swap` and `remap` the image lies in the pool itself; then e2fsck judges what an export recovers from a copy of
//! it.
//!
//! Threads change directories of their own on a mount that a server process serves, and sync now and then; at a random
//! moment the server is killed. The image is then what a crash leaves: e2fsck must be able to take it from there, and
//! the next mount must show each thread's directory as `docs/crash-contract.md` says of the data mode, at the state of
//! the last sync or after it. An fsync that returned covers every call of every thread that had returned before.
//!
//! The seed decides about calls and moments; how the threads and the server interleave is the machine's.

pub(crate) mod command;
mod judge;
mod load;
mod mount;
mod room;
mod tree;

use crate::data_word;
use load::{Ended, Random, Shared, Worker};
use ondol::pool::CreateOptions;
use ondol::{DataMode, FormatOptions, JournalEngine, Volume};
use ondol_env::sync::atomic::Ordering::SeqCst;
use ondol_env::{Env, Fixed, System, Timestamp};
use ondol_faults::Defect;
use ondol_testkit::image;
use room::Wrong;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
// What signals set is no business of a scheduler.
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tree::Tree;

pub use mount::{FuseMount, no_fuse};

/// What is killed, and how often.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The program whose `mount` command serves.
    pub program: PathBuf,
    /// Where the image lies, in a directory that is removed afterwards.
    pub dir: PathBuf,
    /// How the image is made; its size is among it.
    pub format: FormatOptions,
    /// Data mode.
    pub data: DataMode,
    /// Journal engine.
    pub engine: JournalEngine,
    /// How often the server is killed.
    pub rounds: u64,
    /// Threads of the load.
    pub threads: usize,
    /// Decides about calls and moments.
    pub seed: u64,
    /// The rule that servers break.
    pub plant: Option<Defect>,
}

/// What came out.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Rounds begun.
    pub rounds: u64,
    /// Kills; one a round.
    pub kills: u64,
    /// Calls that changed something.
    pub calls: u64,
    /// Syncs that returned.
    pub syncs: u64,
    /// Files found with the bytes that were synced, over all rounds.
    pub synced_files: u64,
    /// Images that e2fsck replayed and judged, or refused where only Ondol can replay them; of an image in a pool, its
    /// export.
    pub replayed_by_e2fsck: u64,
    /// What breaks the contract.
    pub violations: Vec<String>,
    /// What could not be tried or judged, because there was no room for it.
    pub lacks: Vec<String>,
}

/// Why rounds could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KillError {
    /// Nothing can be mounted.
    #[error("FUSE is not available here, so there is nothing to kill: {0}")]
    NoFuse(String),
    /// The image or the mount cannot be made.
    #[error("{0}")]
    Failed(String),
}

/// The latest moment of a kill after the load began, in milliseconds; the first one, a mount later.
const LATEST: u64 = 400;

/// Bytes of the NVM pool in front of an image, where the engine has one: so few that its log comes to its end in every
/// round.
const POOL: u64 = 8 << 20;

/// Kills rounds enough; a violation that leaves no volume ends them, and `interrupt`.
///
/// # Errors
/// FUSE is not available, or the image or the first mount cannot be made. What was made is removed.
pub fn run(setting: &Setting, interrupt: &AtomicBool, progress: &mut dyn FnMut(u64)) -> Result<Report, KillError> {
    if let Some(what) = no_fuse() {
        return Err(KillError::NoFuse(what));
    }
    let failed = |e: &dyn std::fmt::Display| KillError::Failed(format!("{}: {e}", setting.dir.display()));
    // A mount under it is gone before it is: locals are dropped in reverse order.
    let scratch = tempfile::Builder::new().prefix("ondol-kill-").tempdir_in(&setting.dir).map_err(|e| failed(&e))?;
    let home = Home::of(setting.engine, scratch.path());
    Volume::format(&home.target, &setting.format).map_err(|e| failed(&e))?;
    let point = scratch.path().join("mounted");
    fs::create_dir(&point).map_err(|e| failed(&e))?;
    // So little may wait that operations write new data home themselves, where an engine has them do that.
    let mut options = format!("data={},journal={},dirty=64K", data_word(setting.data), setting.engine.name());
    let pool = (setting.engine == JournalEngine::Scalable).then(|| scratch.path().join("pool"));
    if let Some(pool) = &pool {
        ondol::pool::create(pool, &CreateOptions::new().size(POOL)).map_err(|e| failed(&e))?;
        options += &format!(",nvm={}", pool.display());
    }
    let mount = FuseMount::planted(&setting.program, &home.target, &point, &options, setting.plant);
    let mount = mount.map_err(|e| failed(&e))?;
    let random = Random(Fixed::new(Timestamp::default(), setting.seed));
    let trees = vec![Tree::default(); setting.threads];
    let mut loop_ = Loop { setting, interrupt, home, pool, mount, random, trees, report: Report::default() };
    loop_.prepare().map_err(|e| failed(&e))?;
    for round in 0..setting.rounds {
        let lasts = loop_.round(round)?;
        progress(round + 1);
        if !lasts {
            return Ok(loop_.report);
        }
    }
    loop_.finish();
    Ok(loop_.report)
}

/// Where the image of a round lies.
struct Home {
    /// What is mounted.
    target: PathBuf,
    /// The file that holds it: the image, or the pool in which it lies.
    file: PathBuf,
    in_pool: bool,
}

impl Home {
    fn of(engine: JournalEngine, dir: &Path) -> Self {
        match engine {
            JournalEngine::Swap | JournalEngine::Remap => Self::in_pool(dir.join("home")),
            _ => Self { target: dir.join("image"), file: dir.join("image"), in_pool: false },
        }
    }

    fn in_pool(file: PathBuf) -> Self {
        let mut target = OsString::from("nvm:");
        target.push(&file);
        Self { target: target.into(), file, in_pool: true }
    }

    /// An export of it beside it: what is not home is brought there on the way, and the pool stays as it is.
    fn export(&self) -> Result<Vec<u8>, Wrong> {
        let to = self.file.with_extension("exported");
        let dir = to.parent().unwrap_or(&to);
        let exported = ondol::export(&self.target, &to, true).map_err(|e| Wrong::of_export(&e, dir));
        let image = exported.and_then(|_| fs::read(&to).map_err(|e| Wrong::of_io(&to, &e)));
        // It may be there in part.
        let _ = fs::remove_file(&to);
        image
    }
}

/// The volume between rounds.
struct Loop<'s> {
    setting: &'s Setting,
    interrupt: &'s AtomicBool,
    home: Home,
    /// The NVM pool in front of it.
    pool: Option<PathBuf>,
    mount: FuseMount,
    random: Random,
    /// What is in each thread's directory.
    trees: Vec<Tree>,
    report: Report,
}

impl Loop<'_> {
    fn prepare(&self) -> std::io::Result<()> {
        (0..self.setting.threads).try_for_each(|thread| fs::create_dir(self.dir(thread)))?;
        File::open(self.mount.dir())?.sync_all()
    }

    fn dir(&self, thread: usize) -> PathBuf {
        self.mount.dir().join(format!("thread-{thread}"))
    }

    /// One kill. Answers whether the volume can be used for another.
    fn round(&mut self, round: u64) -> Result<bool, KillError> {
        self.report.rounds += 1;
        let (ended, killed) = self.load(round);
        if self.interrupt.load(SeqCst) {
            self.report.rounds -= 1;
            return Ok(false);
        }
        if let Err(what) = killed {
            self.violation(round, &what, None);
        } else {
            self.report.kills += 1;
        }
        let before = self.report.violations.len();
        let left = self.left()?;
        self.second_opinion(round, &left);
        if let Err(what) = self.mount.mount_again() {
            self.violation(round, &format!("it cannot be mounted again: {what}"), Some(&left));
            return Ok(false);
        }
        let mut lasts = true;
        for (thread, ended) in ended.into_iter().enumerate() {
            lasts &= self.judge(round, thread, ended);
        }
        if self.report.violations.len() > before {
            self.keep(round, &left);
        }
        Ok(lasts)
    }

    /// What the kill left.
    fn left(&self) -> Result<Left, KillError> {
        let read = |path: &PathBuf| fs::read(path).map_err(|e| KillError::Failed(format!("{}: {e}", path.display())));
        Ok(Left { image: read(&self.home.file)?, pool: self.pool.as_ref().map(read).transpose()? })
    }

    /// Runs the load until the moment of the kill.
    fn load(&mut self, round: u64) -> (Vec<Ended>, Result<(), String>) {
        let threads = self.setting.threads;
        let shared = Shared::new(threads);
        let moment = System.monotonic_ns() + (1 + self.random.below(LATEST * 1000)) * 1000;
        let workers: Vec<Worker<'_>> = (0..threads)
            .map(|number| Worker {
                number,
                dir: self.dir(number),
                tree: self.trees.get(number).cloned().unwrap_or_default(),
                seed: (self.random.below(1 << 32) << 32) | self.random.below(1 << 32),
                first_fill: ((round as u32).wrapping_mul(threads as u32).wrapping_add(number as u32)) << 18,
                shared: &shared,
            })
            .collect();
        std::thread::scope(|scope| {
            let running: Vec<_> = workers.into_iter().map(|worker| scope.spawn(move || worker.run())).collect();
            while System.monotonic_ns() < moment && !self.interrupt.load(SeqCst) {
                let left = moment.saturating_sub(System.monotonic_ns()).min(20_000_000);
                std::thread::sleep(Duration::from_nanos(left));
            }
            shared.killed.store(true, SeqCst);
            let killed = self.mount.kill();
            shared.stop.store(true, SeqCst);
            let ended = running.into_iter().enumerate().map(|(number, thread)| {
                let mut ended = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                ended.log.synced = shared.synced(number);
                ended
            });
            (ended.collect(), killed)
        })
    }

    /// e2fsck's opinion of a copy of what the kill left.
    fn second_opinion(&mut self, round: u64, left: &Left) {
        if image::missing(&["e2fsck"]).is_some() {
            return;
        }
        let judged = if self.home.in_pool { self.judge_exported(&left.image) } else { judge_left(&left.image) };
        match judged {
            Ok(()) => self.report.replayed_by_e2fsck += 1,
            Err(wrong) => self.wrong(round, "", wrong),
        }
    }

    /// Of a pool: what its export recovers, in which nothing may be left to mend. The pool that is mounted next is not
    /// touched.
    fn judge_exported(&self, pool: &[u8]) -> Result<(), Wrong> {
        let copy = Home::in_pool(self.home.file.with_extension("copy"));
        let copied = image::write_sparse(&copy.file, pool).map_err(|e| Wrong::of_io(&copy.file, &e));
        let image = copied.and_then(|()| copy.export());
        // It may be there in part.
        let _ = fs::remove_file(&copy.file);
        judge_left(&image?)
    }

    /// Says what is wrong, or that nobody knows.
    fn wrong(&mut self, round: u64, when: &str, wrong: Wrong) {
        match wrong {
            Wrong::Violation(what) => self.violation(round, &format!("{when}{what}"), None),
            Wrong::NoRoom(what) => self.report.lacks.push(format!(
                "round {round}: {when}not judged by e2fsck, since there is no room for a copy ({what}): --dir names \
                 another place"
            )),
        }
    }

    /// What a thread finds again. Whether the volume has room for another round.
    fn judge(&mut self, round: u64, thread: usize, ended: Ended) -> bool {
        self.report.calls += ended.log.calls.len() as u64;
        self.report.syncs += ended.syncs;
        let is_full = ended.failed.as_ref().is_some_and(|failed| failed.is_full);
        match &ended.failed {
            Some(failed) if is_full => self.report.lacks.push(format!(
                "round {round}: thread {thread} found the volume full ({}), which ends this: --image-size gives it \
                 more room, --processors fewer threads",
                failed.what
            )),
            Some(failed) => {
                self.violation(round, &format!("thread {thread}, before the kill: {}", failed.what), None);
            }
            None => {}
        }
        let found = match Tree::read(&self.dir(thread)) {
            Ok(found) => found,
            Err(e) => {
                self.violation(round, &format!("thread {thread}: its directory cannot be read: {e}"), None);
                return !is_full;
            }
        };
        match ended.log.judge(self.setting.data, &found) {
            Ok(files) => self.report.synced_files += files,
            Err(what) => self.violation(round, &format!("thread {thread}: {what}"), None),
        }
        if let Some(tree) = self.trees.get_mut(thread) {
            *tree = found;
        }
        !is_full
    }

    /// The end: the volume is closed and everything is right; else it is kept as it is then.
    fn finish(&mut self) {
        let (rounds, before) = (self.setting.rounds, self.report.violations.len());
        self.close(rounds);
        if self.report.violations.len() > before {
            match self.left() {
                Ok(left) => self.keep(rounds, &left),
                // What was found must be told all the same.
                Err(e) => self.violation(rounds, &format!("what was left cannot be kept: {e}"), None),
            }
        }
    }

    fn close(&mut self, rounds: u64) {
        if let Err(what) = self.mount.unmount() {
            return self.violation(rounds, &format!("after the last round: {what}"), None);
        }
        match ondol::check(&self.home.target) {
            Ok(report) if report.is_clean() => {}
            Ok(report) => self.violation(rounds, &format!("after the last round: {:?}", report.problems), None),
            Err(e) => self.violation(rounds, &format!("after the last round: {e}"), None),
        }
        if image::missing(&["e2fsck"]).is_some() {
            return;
        }
        let file = &self.home.file;
        let image =
            if self.home.in_pool { self.home.export() } else { fs::read(file).map_err(|e| Wrong::of_io(file, &e)) };
        match image.and_then(|bytes| image::check(&bytes[..]).map_err(|e| Wrong::of_tool(&e))) {
            Ok(verdict) if verdict.is_clean() => {}
            Ok(verdict) => {
                self.violation(rounds, &format!("after the last round, e2fsck -fn: {}", verdict.output), None)
            }
            Err(wrong) => self.wrong(rounds, "after the last round: ", wrong),
        }
    }

    fn violation(&mut self, round: u64, what: &str, left: Option<&Left>) {
        self.report.violations.push(format!("round {round}: {what}"));
        if let Some(left) = left {
            self.keep(round, left);
        }
    }

    /// Keeps what a kill or the end left, to look at: a pool beside its image, or the pool in which that lies.
    fn keep(&mut self, round: u64, left: &Left) {
        let what = if self.home.in_pool { "home" } else { "img" };
        let Setting { engine, data, seed, .. } = self.setting;
        let name = format!("ondol-kill-{}-{}-seed{seed}-round{round}.{what}", engine.name(), data_word(*data));
        let path = self.setting.dir.join(name);
        let pool = left.pool.as_ref().map_or(Ok(()), |pool| write_new(&path.with_extension("pool"), pool));
        let said = match pool.and_then(|()| write_new(&path, &left.image)) {
            Ok(()) => format!("round {round}: what was left is kept in {}", path.display()),
            Err(e) => format!("round {round}: what was left cannot be kept in {}: {e}", path.display()),
        };
        if let Some(last) = self.report.violations.last_mut() {
            last.push_str(&format!(" ({said})"));
        }
    }
}

/// What a kill left, as bytes: the image or the pool in which it lies, and the pool in front of it.
struct Left {
    image: Vec<u8>,
    pool: Option<Vec<u8>>,
}

fn judge_left(image: &[u8]) -> Result<(), Wrong> {
    image::judge_left(image).map_err(|e| Wrong::of_tool(&e))?.map(drop).map_err(Wrong::Violation)
}

fn write_new(path: &Path, image: &[u8]) -> std::io::Result<()> {
    File::create_new(path)?;
    image::write_sparse(path, image)
}
