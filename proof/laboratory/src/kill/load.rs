//! The load on the mount: threads, each in a directory of its own, that change it and sync until the server dies.

use super::judge::Log;
use super::room::is_full;
use super::tree::{Call, Tree};
use ondol_env::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use ondol_env::{Env, Fixed, Timestamp};
use ondol_testkit::op::Fill;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// No file grows beyond this; a write is one request.
const LARGEST: u64 = 128 << 10;
/// A write seldom has more bytes than this.
const USUAL: u64 = 12 << 10;

/// What the threads share.
#[derive(Debug)]
pub(super) struct Shared {
    /// The kill is on its way: calls may fail.
    pub(super) killed: AtomicBool,
    /// The load is over for another reason.
    pub(super) stop: AtomicBool,
    threads: Vec<Progress>,
}

/// How far one thread is.
#[derive(Debug, Default)]
struct Progress {
    /// Calls that returned.
    done: AtomicUsize,
    /// Calls among them that are durable: they had returned when some fsync began that returned.
    synced: AtomicUsize,
}

impl Shared {
    pub(super) fn new(threads: usize) -> Self {
        let threads = (0..threads).map(|_| Progress::default()).collect();
        Self { killed: AtomicBool::new(false), stop: AtomicBool::new(false), threads }
    }

    /// Makes an fsync. If it returns, all calls of all threads are durable that had returned before.
    fn sync(&self, fsync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let before: Vec<usize> = self.threads.iter().map(|thread| thread.done.load(SeqCst)).collect();
        fsync()?;
        for (thread, done) in self.threads.iter().zip(before) {
            thread.synced.fetch_max(done, SeqCst);
        }
        Ok(())
    }

    /// How many calls of a thread are known to be durable; to be asked when all threads have ended.
    pub(super) fn synced(&self, thread: usize) -> usize {
        self.threads.get(thread).map_or(0, |progress| progress.synced.load(SeqCst))
    }
}

/// What a thread comes back with.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) log: Log,
    /// Syncs that returned.
    pub(super) syncs: u64,
    /// A call failed although the server had not been killed.
    pub(super) failed: Option<Failed>,
}

/// A call that failed.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) what: String,
    /// Because the volume is full.
    pub(super) is_full: bool,
}

/// One thread.
#[derive(Debug)]
pub(super) struct Worker<'s> {
    pub(super) number: usize,
    /// Its directory.
    pub(super) dir: PathBuf,
    /// What is in there.
    pub(super) tree: Tree,
    pub(super) seed: u64,
    /// Number of the first write's bytes: no other thread or round has the same.
    pub(super) first_fill: u32,
    pub(super) shared: &'s Shared,
}

/// A sync.
#[derive(Clone, Debug)]
enum Sync {
    File(String),
    Data(String),
    Dir(String),
}

impl Sync {
    fn run(&self, dir: &Path) -> io::Result<()> {
        match self {
            Self::File(path) => File::options().write(true).open(dir.join(path))?.sync_all(),
            Self::Data(path) => File::options().write(true).open(dir.join(path))?.sync_data(),
            Self::Dir(path) => File::open(dir.join(path))?.sync_all(),
        }
    }
}

/// What a thread does next.
enum Next {
    Call(Call),
    Sync(Sync),
}

impl Worker<'_> {
    /// Changes and syncs until a call fails or the load is over.
    pub(super) fn run(self) -> Ended {
        let random = Random(Fixed::new(Timestamp::default(), self.seed));
        let (mut tree, mut calls, mut syncs, mut failed) = (self.tree.clone(), Vec::new(), 0, None);
        while !self.shared.stop.load(SeqCst) {
            let next = choose(&tree, &random, self.first_fill.wrapping_add(calls.len() as u32));
            let done = match &next {
                Next::Call(call) => {
                    // Noted before it is made: when the server dies in the middle it may have taken effect.
                    calls.push(call.clone());
                    tree.apply(call);
                    call.run(&self.dir).map_err(|e| (call.to_string(), e))
                }
                Next::Sync(sync) => {
                    let synced = self.shared.sync(|| sync.run(&self.dir));
                    syncs += u64::from(synced.is_ok());
                    synced.map_err(|e| (format!("fsync: {sync:?}"), e))
                }
            };
            match done {
                Ok(()) => self.note(calls.len()),
                Err(_) if self.shared.killed.load(SeqCst) => break,
                Err((what, e)) => {
                    failed = Some(Failed { is_full: is_full(&e, &self.dir), what: format!("{what}: {e}") });
                    break;
                }
            }
        }
        Ended { log: Log { base: self.tree, calls, synced: 0 }, syncs, failed }
    }

    fn note(&self, done: usize) {
        if let Some(progress) = self.shared.threads.get(self.number) {
            progress.done.store(done, SeqCst);
        }
    }
}

/// Numbers from a seed.
pub(super) struct Random(pub(super) Fixed);

impl Random {
    /// A number below `bound`, or 0.
    pub(super) fn below(&self, bound: u64) -> u64 {
        u64::from(self.0.random_u32()).checked_rem(bound).unwrap_or(0)
    }

    fn of<'p>(&self, paths: &[&'p str]) -> Option<&'p str> {
        paths.get(self.below(paths.len() as u64) as usize).copied()
    }
}

fn choose(tree: &Tree, random: &Random, fill: u32) -> Next {
    let (files, dirs) = (tree.paths(true), tree.paths(false));
    let file = random.of(&files).map(str::to_owned);
    let dir = random.of(&dirs).map(str::to_owned);
    let roll = random.below(100);
    match (roll, file, dir) {
        (0..5, Some(file), _) => Next::Sync(Sync::File(file)),
        (5..10, Some(file), _) => Next::Sync(Sync::Data(file)),
        (10..14, _, dir) => Next::Sync(Sync::Dir(dir.unwrap_or_else(|| ".".into()))),
        (14..18, _, Some(dir)) if tree.is_empty_dir(&dir) => Next::Call(Call::Rmdir(dir)),
        (18..22, _, Some(dir)) => Next::Call(name_dir(tree, random, Some(dir))),
        (22..28, _, _) => Next::Call(name_dir(tree, random, None)),
        (28..34, Some(file), _) => Next::Call(Call::Unlink(file)),
        (34..44, Some(file), _) => {
            let to = name(&dirs, random);
            Next::Call(if to == file { Call::Unlink(file) } else { Call::Rename(file, to) })
        }
        (44..52, Some(file), _) => Next::Call(Call::Truncate(file, random.below(LARGEST))),
        (52..62, Some(file), _) => Next::Call(append(tree, random, file, fill)),
        (62..84, Some(file), _) => {
            let offset = random.below(LARGEST);
            let most = if random.below(4) == 0 { LARGEST } else { USUAL };
            let len = 1 + random.below((LARGEST - offset).min(most));
            Next::Call(Call::Write(file, offset, bytes(fill, offset, len)))
        }
        _ => {
            let new = name(&dirs, random);
            Next::Call(if tree.nodes.contains_key(&new) { append(tree, random, new, fill) } else { Call::Create(new) })
        }
    }
}

/// A name for a file, taken or not.
fn name(dirs: &[&str], random: &Random) -> String {
    let file = format!("f{}", random.below(8));
    match random.of(dirs) {
        Some(dir) if random.below(3) > 0 => format!("{dir}/{file}"),
        _ => file,
    }
}

/// Makes a directory, or gives `old` a new name; removes what had the name if that is empty.
fn name_dir(tree: &Tree, random: &Random, old: Option<String>) -> Call {
    let new = format!("d{}", random.below(6));
    match old {
        _ if tree.nodes.contains_key(&new) && tree.is_empty_dir(&new) => Call::Rmdir(new),
        _ if tree.nodes.contains_key(&new) => {
            let name = name(&[&new], random);
            if tree.nodes.contains_key(&name) { Call::Unlink(name) } else { Call::Create(name) }
        }
        Some(old) => Call::Rename(old, new),
        None => Call::Mkdir(new),
    }
}

/// Appends, or cuts a file that is large enough.
fn append(tree: &Tree, random: &Random, file: String, fill: u32) -> Call {
    let at = tree.file(&file).map_or(0, |file| file.bytes.len() as u64);
    let len = 1 + random.below(8 << 10);
    if at + len > LARGEST { Call::Truncate(file, at / 2) } else { Call::Append(file, at, bytes(fill, at, len)) }
}

/// Bytes that no other write has.
fn bytes(fill: u32, offset: u64, len: u64) -> Arc<[u8]> {
    Fill::unique(fill + 1).bytes(offset, len).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_that_is_chosen_succeeds() {
        let dir = tempfile::tempdir().unwrap();
        let random = Random(Fixed::new(Timestamp::default(), 5));
        let mut tree = Tree::default();
        let mut synced = 0;
        for n in 0..3000 {
            match choose(&tree, &random, n) {
                Next::Call(call) => {
                    call.run(dir.path()).unwrap_or_else(|e| panic!("{call}: {e}"));
                    tree.apply(&call);
                }
                Next::Sync(sync) => {
                    sync.run(dir.path()).unwrap_or_else(|e| panic!("{sync:?}: {e}"));
                    synced += 1;
                }
            }
        }
        assert!(synced > 200 && tree.nodes.len() > 5, "{synced} syncs, {} names", tree.nodes.len());
        assert_eq!(tree.differences(&Tree::read(dir.path()).unwrap()), [""; 0]);
    }
}
