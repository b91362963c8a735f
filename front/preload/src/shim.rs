//! What the library knows in this process: the log, the directories, and which descriptor is which file.

use crate::{raw, seconds};
use libc::c_int;
use ondol_medium::{Access, Nvm, NvmOptions, SharedWord, Whose};
use ondol_run_log::{Client, FileKind, Log, LogOptions, Look, SlotKey};
use std::cell::Cell;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::time::Duration;

/// The log and the directories; none where the program was started without, or they cannot be had.
static SHIM: OnceLock<Shim> = OnceLock::new();
/// How many slots were given, of that log.
static GIVEN: OnceLock<SharedWord<'static>> = OnceLock::new();

/// Nobody enters any more: the pool is let go of.
static LEAVING: AtomicBool = AtomicBool::new(false);
/// The pool is mapped here no more.
static LEFT: AtomicBool = AtomicBool::new(false);
/// Threads that are inside.
static THREADS: AtomicU32 = AtomicU32::new(0);

/// How often others are looked for that are inside while the pool is let go of, and what time is between.
const TRIES: u32 = 3000;
const TRY_AGAIN: Duration = Duration::from_millis(1);

/// What is known of the first descriptors. A closing that is not seen (libc's own) leaves what it was: a slot is
/// verified before anything is logged to it.
static HINTS: [AtomicU64; 1024] = [const { AtomicU64::new(UNKNOWN) }; 1024];
const UNKNOWN: u64 = 0;
/// No file on a file system of the directories.
const OTHER: u64 = 1;
/// A file without a slot, with the number of slots that were given by then in the upper half.
const LATER: u64 = 2;
/// A slot's number plus this, with the incarnation in the upper half.
const FIRST: u64 = 3;

thread_local! {
    /// This thread is inside the library: what it calls, or a signal handler, goes to the kernel.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    /// A signal handler of this thread has changed names while it was inside.
    static SEEN: Cell<bool> = const { Cell::new(false) };
}

/// What the library works with.
pub(crate) struct Shim {
    pub(crate) client: Client,
    pub(crate) dirs: Vec<PathBuf>,
    pub(crate) devices: Vec<u64>,
    /// Of directories in which names are logged.
    named: Vec<u64>,
}

/// This thread is inside until it is dropped, and is not cancelled: a thread that goes would take the locks with it
/// that it has.
pub(crate) struct Inside {
    /// Whether it could be cancelled before.
    cancel: c_int,
}

unsafe extern "C" {
    /// pthread_setcancelstate(3), which is a system call nowhere.
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

/// No cancellation; the same number in all libcs.
const PTHREAD_CANCEL_DISABLE: c_int = 1;

fn cancellation(state: c_int) -> c_int {
    let mut before = 0;
    // SAFETY: the word is this function's own; a wrong state is refused.
    unsafe { pthread_setcancelstate(state, &raw mut before) };
    before
}

impl Inside {
    /// The caller has found that this thread was outside. None if the pool is let go of.
    fn new() -> Option<Self> {
        THREADS.fetch_add(1, SeqCst);
        if LEAVING.load(SeqCst) {
            THREADS.fetch_sub(1, SeqCst);
            INSIDE.set(false);
            return None;
        }
        Some(Self { cancel: cancellation(PTHREAD_CANCEL_DISABLE) })
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(false);
        THREADS.fetch_sub(1, SeqCst);
        cancellation(self.cancel);
    }
}

/// The library's work, unless this thread is inside of it or there is none.
pub(crate) fn enter() -> Option<(&'static Shim, Inside)> {
    let shim = SHIM.get()?;
    if INSIDE.replace(true) {
        return None;
    }
    // Made only where this thread was outside: dropping it ends that.
    Some((shim, Inside::new()?))
}

/// As [`enter`], to change names.
pub(crate) fn enter_for_names() -> Option<(&'static Shim, Inside)> {
    let entered = enter();
    // Whoever is inside already is told.
    SEEN.set(entered.is_none());
    entered
}

/// How often directories became trusted.
pub(crate) fn named() -> u64 {
    SHIM.get().map_or(0, |shim| shim.client.named())
}

/// A signal handler has changed names, or tried to, since this thread has last entered for names.
pub(crate) fn seen_inside() -> bool {
    SEEN.get()
}

/// What a signal handler needs that came while this thread was inside, and may neither wait for a lock nor allocate:
/// the log, and the slot of its file.
pub(crate) fn interrupted(fd: c_int) -> Option<(&'static Shim, SlotKey)> {
    let shim = interrupted_at_all()?;
    Some((shim, shim.client.find(&Look::at(raw::borrow(fd)?).ok()?).ok()??))
}

/// The pool is mapped at this address: whoever calls something on it is this library.
pub(crate) fn is_pool(at: usize) -> bool {
    SHIM.get().is_some_and(|shim| shim.client.log().nvm().covers(at))
}

/// As [`interrupted`], of no file.
pub(crate) fn interrupted_at_all() -> Option<&'static Shim> {
    SHIM.get().filter(|_| INSIDE.get())
}

/// fork(2) has made this process.
pub(crate) fn forked() {
    THREADS.store(INSIDE.get().into(), SeqCst);
    let Some(shim) = SHIM.get() else { return };
    shim.client.forked(std::process::id());
    // Whoever brings home what is in the log is another thread, of the parent.
    if LEAVING.load(SeqCst) && !LEFT.load(SeqCst) {
        gone(shim, false);
    }
}

/// This process uses the pool, and may let go of it.
pub(crate) fn has_pool() -> bool {
    SHIM.get().is_some() && !LEFT.load(SeqCst) && !seconds::has_others_memory()
}

/// The pool is let go of.
pub(crate) fn is_left() -> bool {
    LEAVING.load(SeqCst)
}

/// A program is started without the library.
pub(crate) fn unfit() {
    if let Some(shim) = SHIM.get() {
        shim.client.unfit();
    }
}

/// Lets go of the pool, after `home` has brought home what is in the log; that is left to others where a signal handler
/// has come while its thread was inside. The caller handles no signals.
pub(crate) fn leave(home: impl FnOnce(&Shim)) {
    let Some(shim) = SHIM.get() else { return };
    let within = INSIDE.replace(true);
    let first = !LEAVING.swap(true, SeqCst);
    let others = |most: u32| seconds::is_owner() && THREADS.load(SeqCst) > most;
    let alone = first && wait_until(|| !others(within.into()));
    if first && !within {
        home(shim);
    }
    if first {
        gone(shim, alone && !within);
    } else {
        wait_until(|| LEFT.load(SeqCst));
    }
    INSIDE.set(within);
}

fn gone(shim: &Shim, alone: bool) {
    if shim.client.leave(alone).is_err() {
        // With other rights nobody may go on with it.
        std::process::abort();
    }
    LEFT.store(true, SeqCst);
}

fn wait_until(holds: impl Fn() -> bool) -> bool {
    (0..TRIES).any(|_| {
        holds() || {
            std::thread::sleep(TRY_AGAIN);
            false
        }
    })
}

/// Opens the log that `ondol run` names in the environment.
pub(crate) fn begin() {
    INSIDE.set(true);
    let inside = Inside::new();
    if let Some(shim) = open() {
        // The loader calls this once.
        let _ = SHIM.set(shim);
        if let Some(given) = SHIM.get().and_then(|shim| shim.client.given_word().ok()) {
            let _ = GIVEN.set(given);
        }
    }
    drop(inside);
}

fn open() -> Option<Shim> {
    let pool = std::env::var_os("ONDOL_RUN_POOL")?;
    let dirs: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("ONDOL_RUN_DIRS")?).collect();
    let devices = |dirs: &[PathBuf]| -> Vec<u64> {
        dirs.iter().filter_map(|dir| rustix::fs::stat(dir).ok()).map(|stat| stat.st_dev).collect()
    };
    let named: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("ONDOL_RUN_NAMES")?).collect();
    let options = NvmOptions { access: Access::Joint, whose: Whose::Mine, ..NvmOptions::default() };
    let nvm = Nvm::open(Path::new(&pool), &options).ok()?;
    let log = Log::join(nvm).ok()?;
    // Elsewhere process numbers mean something else, and locks would be taken from the living.
    (log.machine() == LogOptions::here()).then_some(())?;
    Some(Shim { client: Client::new(log).ok()?, devices: devices(&dirs), named: devices(&named), dirs })
}

/// What is known of a descriptor. It may have become another file since, unseen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hint {
    Unknown,
    /// No file on a file system of the directories.
    Other,
    /// No file with a slot, when so many had been given.
    Later(u32),
    Slot(SlotKey),
}

pub(crate) fn hint(fd: c_int) -> Hint {
    let hint = usize::try_from(fd).ok().and_then(|fd| HINTS.get(fd)).map_or(UNKNOWN, |hint| hint.load(Relaxed));
    match hint & 0xFFFF_FFFF {
        UNKNOWN => Hint::Unknown,
        OTHER => Hint::Other,
        LATER => Hint::Later((hint >> 32) as u32),
        slot => Hint::Slot(SlotKey { index: (slot - FIRST) as u32, incarnation: hint >> 32 }),
    }
}

/// Notes what a descriptor is. A child of vfork(2) has this memory, and descriptors of its own: what it finds is not
/// noted. That no file has a slot it may.
fn note(fd: c_int, hint: u64) {
    if hint != UNKNOWN && hint != LATER && !seconds::is_owner() {
        return;
    }
    if let Some(place) = usize::try_from(fd).ok().and_then(|fd| HINTS.get(fd)) {
        place.store(hint, Relaxed);
    }
}

/// A write that need not be counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Uncounted {
    /// It goes to no file on a file system of the directories.
    Other,
    /// It goes to a file that had no slot when so many were given; if that is another number behind it, see
    /// [`appeared`].
    Later(u32),
}

/// Whether a write to a descriptor need not be counted, by what the last one has found. Most writes are such: this
/// takes no call and no lock, and a signal handler may come at any time.
#[inline]
pub(crate) fn uncounted(fd: c_int) -> Option<Uncounted> {
    let hint = HINTS.get(usize::try_from(fd).ok()?)?.load(Relaxed);
    if hint == OTHER {
        return Some(Uncounted::Other);
    }
    let given = GIVEN.get()?.get();
    (hint == given << 32 | LATER).then_some(Uncounted::Later(given as u32))
}

/// How many slots were given by now.
#[inline]
pub(crate) fn given() -> u32 {
    GIVEN.get().map_or(0, |given| given.get() as u32)
}

/// The slot of a descriptor's file that had none when it was last looked at, if it has one by now.
#[cold]
pub(crate) fn appeared(fd: c_int) -> Option<(&'static Shim, SlotKey)> {
    let (shim, error) = (SHIM.get()?, raw::errno());
    forget(fd);
    let look = raw::borrow(fd).and_then(|fd| Look::at(fd).ok()).filter(|look| shim.is_on(look));
    let slot = look.and_then(|look| shim.client.find(&look).ok().flatten());
    raw::fail(error);
    slot.map(|slot| (shim, slot))
}

/// The descriptor will be another file.
pub(crate) fn forget(fd: c_int) {
    note(fd, UNKNOWN);
}

/// All descriptors from here on.
pub(crate) fn forget_from(first: u32) {
    HINTS.iter().skip(first as usize).for_each(|hint| hint.store(UNKNOWN, Relaxed));
}

impl Shim {
    /// The slot of an open file, if it is a file of the directories and there is a slot for it.
    pub(crate) fn slot(&self, fd: c_int) -> Option<SlotKey> {
        match hint(fd) {
            Hint::Slot(slot) => Some(slot),
            Hint::Other => None,
            Hint::Unknown | Hint::Later(_) => self.resolve(fd),
        }
    }

    /// As [`Shim::slot`], for a write that is durable when it returns.
    pub(crate) fn durable_slot(&self, fd: c_int) -> Option<SlotKey> {
        match hint(fd) {
            Hint::Slot(slot) => Some(slot),
            _ => self.resolve(fd),
        }
    }

    /// Whether the descriptor's file has no slot, `given` being how many were given before this is asked: what is
    /// written to it need not be counted.
    pub(crate) fn is_later(&self, fd: c_int, given: u32) -> bool {
        match hint(fd) {
            Hint::Slot(_) | Hint::Other => return false,
            Hint::Later(then) if then == given => return true,
            Hint::Later(_) | Hint::Unknown => {}
        }
        // Where no file has a slot this one has none.
        if given != 0 {
            let Some(look) = raw::borrow(fd).and_then(|fd| Look::at(fd).ok()) else { return false };
            if look.kind != FileKind::File || !self.is_on(&look) {
                note(fd, OTHER);
                return false;
            }
            if !self.client.find(&look).is_ok_and(|found| found.is_none()) {
                return false;
            }
        }
        note(fd, u64::from(given) << 32 | LATER);
        true
    }

    /// As [`Shim::slot`], by a look at the file.
    pub(crate) fn resolve(&self, fd: c_int) -> Option<SlotKey> {
        let look = Look::at(raw::borrow(fd)?).ok()?;
        if !self.may_be_fit(&look) {
            note(fd, OTHER);
            return None;
        }
        let key = self.slot_of(fd, &look)?;
        note(fd, key.incarnation << 32 | (u64::from(key.index) + FIRST));
        Some(key)
    }

    /// As [`Shim::resolve`], of a descriptor that the program does not know.
    pub(crate) fn unnoted(&self, fd: c_int) -> Option<SlotKey> {
        let look = Look::at(raw::borrow(fd)?).ok()?;
        if self.may_be_fit(&look) { self.slot_of(fd, &look) } else { None }
    }

    /// The slot of an open file. One that has a slot has live records, perhaps, wherever its path is by now; it is
    /// given one only if it is in the directories.
    fn slot_of(&self, fd: c_int, look: &Look) -> Option<SlotKey> {
        if let Some(found) = self.client.find(look).ok()? {
            return Some(found);
        }
        let is_below = self.path(fd).is_some_and(|path| self.is_below(&path));
        if is_below { self.client.slot(look).ok().flatten() } else { None }
    }

    /// It may be a file or directory of the directories.
    fn may_be_fit(&self, look: &Look) -> bool {
        match look.kind {
            FileKind::File => self.is_on(look),
            FileKind::Directory => self.named.contains(&look.dev),
            FileKind::Other => false,
        }
    }

    /// It is a file on a file system where names are logged.
    pub(crate) fn logs_names_of(&self, look: &Look) -> bool {
        look.kind == FileKind::File && self.named.contains(&look.dev)
    }

    /// It is on a file system of the directories.
    pub(crate) fn is_on(&self, look: &Look) -> bool {
        self.devices.contains(&look.dev)
    }

    /// Where an open file lies.
    pub(crate) fn path(&self, fd: c_int) -> Option<PathBuf> {
        std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()
    }

    fn is_below(&self, path: &Path) -> bool {
        path.as_os_str().as_bytes().starts_with(b"/") && self.dirs.iter().any(|dir| path.starts_with(dir))
    }
}
