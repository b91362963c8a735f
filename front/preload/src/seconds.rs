//! Second descriptions of files that a program has open with `O_SYNC` or `O_DSYNC`: through them it can be written to
//! the page cache alone.
//!
//! Each belongs to one descriptor of the program. It is closed when the program closes that one, and never before:
//! closing any descriptor of a file drops the record locks (fcntl(2)) that the process has on it, which the program's
//! own closing does, too. None survives exec(2): the next program would have a descriptor that nobody has given it.
//!
//! - It is opened by `/proc/thread-self/fd/N` when first needed, so the kernel checks again whether the process may
//!   write.
//! - It is write-only and `O_NONBLOCK`, by which it is told from a program's own. A program may close numbers that it
//!   does not know: before each use the library looks which file it is, before closing also at the flags.
//! - Its own offset is not used. Each write says where it goes, or that it appends; the program's offset is moved
//!   behind it in one step that returns the new one. If that is not where the write ended, the write does not count as
//!   logged. Signals are off from reading the offset to its move.
//! - None while one of 0, 1 and 2 is free, none in the upper half of the numbers.

use crate::raw::{self, system};
use libc::c_int;
use ondol_run_log::Look;
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering::Relaxed};

/// By descriptor of the program.
static SECONDS: [AtomicU32; 1024] = [const { AtomicU32::new(UNKNOWN) }; 1024];
const UNKNOWN: u32 = 0;
/// There is none to be had.
const NONE: u32 = 1;
/// A descriptor's number plus this.
const FIRST: u32 = 2;

/// Whether the kernel syncs each write to a descriptor, as far as is known. What is wrong here costs time only: before
/// anything is promised the kernel is asked.
static SYNCED: [AtomicU8; 1024] = [const { AtomicU8::new(0) }; 1024];
const NO: u8 = 1;
const YES: u8 = 2;

/// The process whose descriptors these are. A child of vfork(2) has the same memory and descriptors of its own.
static OWNER: AtomicU32 = AtomicU32::new(0);
/// A word that the kernel makes zero in a child that has memory of its own, whoever makes it; 0 if there is none.
static SHARED: AtomicUsize = AtomicUsize::new(0);
/// How many were opened and not closed.
static OPEN: AtomicU32 = AtomicU32::new(0);
/// A thread opens one.
static OPENING: AtomicBool = AtomicBool::new(false);

/// How many there are at most, and of how many descriptors of the process one may be a second.
const MOST: u64 = 64;
const SHARE: u64 = 16;

/// What tells a second description from one that the program has put in its place.
const FLAGS: c_int = libc::O_WRONLY | libc::O_NONBLOCK;
const TELLING: c_int =
    libc::O_ACCMODE | libc::O_NONBLOCK | libc::O_SYNC | libc::O_DSYNC | libc::O_DIRECT | libc::O_APPEND;

/// Whether a descriptor is of the file that looks like this, whoever has opened it.
fn is_of(first: &Look, second: c_int) -> bool {
    look(second).is_some_and(|second| first.same(&second))
}

/// Whether a descriptor is a second description of the file that looks like this, and none of the program's own.
fn is_ours(first: &Look, second: c_int) -> bool {
    raw::flags(second) & TELLING == FLAGS && is_of(first, second)
}

/// This process is the one that has this memory, and no child of vfork(2).
pub(crate) fn is_owner() -> bool {
    OWNER.load(Relaxed) == std::process::id()
}

/// This process has the memory of another one, or it is not known: a child of vfork(2).
pub(crate) fn has_others_memory() -> bool {
    !is_owner() && shared().is_none_or(|word| word.load(Relaxed) != 0)
}

fn shared() -> Option<&'static AtomicU32> {
    let at = std::ptr::with_exposed_provenance::<AtomicU32>(SHARED.load(Relaxed));
    // SAFETY: none, or a page that is never unmapped.
    unsafe { at.as_ref() }
}

/// Makes the word that children with memory of their own find as zero.
fn share() {
    let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    let none = std::ptr::null_mut::<libc::c_void>();
    let at = system!(libc::SYS_mmap, none, 4096usize, prot, flags, -1, 0i64);
    if at > 0 && system!(libc::SYS_madvise, at, 4096usize, libc::MADV_WIPEONFORK) == 0 {
        SHARED.store(at as usize, Relaxed);
    }
}

/// The process begins, or fork(2) has made it: it has what its parent had.
pub(crate) fn begin() {
    extern "C" fn child() {
        OWNER.store(std::process::id(), Relaxed);
        if let Some(word) = shared() {
            word.store(1, Relaxed);
        }
        OPENING.store(false, Relaxed);
        crate::shim::forked();
    }
    share();
    // SAFETY: the handler lives as long as the process, and does nothing that a child of a program with threads may
    // not.
    let registered = unsafe { libc::pthread_atfork(None, None, Some(child)) };
    if registered == 0 {
        child();
    }
}

fn place(fd: c_int, process: u32) -> Option<&'static AtomicU32> {
    let place = usize::try_from(fd).ok().and_then(|fd| SECONDS.get(fd))?;
    (OWNER.load(Relaxed) == process).then_some(place)
}

fn look(fd: c_int) -> Option<Look> {
    Look::at(raw::borrow(fd)?).ok()
}

/// The second description for a descriptor of the program (`process`), which looks like this; it is opened if there is
/// none. It may be one that the program has put in its place, of the same file: what is written there has to say by
/// flags of its own (`RWF_*`) where it goes.
pub(crate) fn of(fd: c_int, process: u32, first: &Look) -> Option<c_int> {
    let place = place(fd, process)?;
    match place.load(Relaxed) {
        NONE => return None,
        UNKNOWN => {}
        // Somebody may have closed it who closes everything, and then it may be anything.
        number => {
            let second = (number - FIRST) as c_int;
            if is_of(first, second) {
                return Some(second);
            }
        }
    }
    if OPENING.swap(true, Relaxed) {
        return None;
    }
    let second = open(fd, first);
    place.store(second.map_or(NONE, |second| second as u32 + FIRST), Relaxed);
    OPENING.store(false, Relaxed);
    second
}

fn open(fd: c_int, first: &Look) -> Option<c_int> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is this function's own.
    let told = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0;
    if !told || u64::from(OPEN.load(Relaxed)) >= MOST.min(limit.rlim_cur / SHARE) {
        return None;
    }
    // What number it would get. The standard streams' are not to be taken while the program has them closed, and the
    // last ones are for the program.
    let tried = system!(libc::SYS_eventfd2, 0, libc::O_CLOEXEC);
    if tried >= 0 {
        system!(libc::SYS_close, tried);
    }
    if tried <= 2 || tried as u64 > limit.rlim_cur / 2 {
        return None;
    }
    let flags = FLAGS | libc::O_NOCTTY | libc::O_CLOEXEC;
    let path = CString::new(format!("/proc/thread-self/fd/{fd}")).ok()?;
    // The kernel asks anew whether the process may write to the file.
    let second = system!(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags, 0);
    if second < 0 {
        return None;
    }
    OPEN.fetch_add(1, Relaxed);
    // Otherwise the program has closed `fd` meanwhile; what was opened stays open, whatever it is.
    is_ours(first, second as c_int).then_some(second as c_int)
}

/// Whether the kernel is believed to sync each write to a descriptor of the program; none if nothing is kept of it.
pub(crate) fn is_synced(fd: c_int) -> Option<bool> {
    let known = usize::try_from(fd).ok().and_then(|fd| SYNCED.get(fd))?;
    if known.load(Relaxed) == 0 {
        note_synced(known, raw::flags(fd));
    }
    Some(known.load(Relaxed) == YES)
}

fn note_synced(known: &AtomicU8, flags: c_int) {
    known.store(if flags & libc::O_DSYNC != 0 { YES } else { NO }, Relaxed);
}

/// The descriptor will be another one.
fn forget_synced(fd: c_int) {
    if let Some(known) = usize::try_from(fd).ok().and_then(|fd| SYNCED.get(fd)) {
        known.store(0, Relaxed);
    }
}

/// There may be a second description.
pub(crate) fn has(fd: c_int) -> bool {
    let known = usize::try_from(fd).ok().and_then(|fd| SECONDS.get(fd));
    known.is_some_and(|place| place.load(Relaxed) != UNKNOWN)
}

/// A descriptor is a new one, opened with these flags.
pub(crate) fn opened(fd: c_int, flags: c_int) {
    forget(fd);
    if let Some(known) = usize::try_from(fd).ok().and_then(|fd| SYNCED.get(fd)) {
        note_synced(known, flags);
    }
}

/// A descriptor is a new one. If nobody has seen the old one closed, its second description stays open: the program may
/// have locks on that file again.
pub(crate) fn forget(fd: c_int) {
    forget_synced(fd);
    // Most have none, and whose process this is takes a call.
    if let Some(place) = has(fd).then(|| place(fd, std::process::id())).flatten() {
        place.store(UNKNOWN, Relaxed);
    }
}

/// The program is about to close a descriptor: its second description goes with it.
pub(crate) fn close(fd: c_int) {
    forget_synced(fd);
    // Most have none.
    let known = usize::try_from(fd).ok().and_then(|fd| SECONDS.get(fd)).map_or(UNKNOWN, |place| place.load(Relaxed));
    if known == UNKNOWN {
        return;
    }
    let Some(place) = place(fd, std::process::id()) else { return };
    let (error, number) = (raw::errno(), place.swap(UNKNOWN, Relaxed));
    if number >= FIRST && look(fd).is_some_and(|first| is_ours(&first, (number - FIRST) as c_int)) {
        system!(libc::SYS_close, number - FIRST);
        OPEN.fetch_sub(1, Relaxed);
    }
    raw::fail(error);
}

/// As [`close`], for a range of descriptors.
pub(crate) fn close_range(first: u32, last: u32) {
    for (fd, place) in SECONDS.iter().enumerate().skip(first as usize).take_while(|(fd, _)| *fd <= last as usize) {
        match place.load(Relaxed) {
            UNKNOWN | NONE => forget_synced(fd as c_int),
            _ => close(fd as c_int),
        }
    }
}
