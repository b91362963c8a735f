//! Setting the times of files: recovery knows a file by them.

use crate::call::FdCall;
use crate::files::{directory, text};
use crate::raw::{self, system};
use crate::shim::{self, Shim};
use crate::syncs::unseen;
use libc::{AT_EMPTY_PATH, AT_FDCWD, AT_SYMLINK_NOFOLLOW, c_char, c_int, timespec, timeval, utimbuf};
use ondol_run_log::{FileKind, Look, SlotKey, Times};

/// The slot of a file, if it has one.
fn known(shim: &Shim, look: Option<Look>) -> Option<SlotKey> {
    let look = look.filter(|look| look.kind == FileKind::File && shim.is_on(look))?;
    shim.client.find(&look).ok().flatten()
}

/// Sets the times of an open file by `real`: into the log, too, if the file is trusted.
fn of_open(fd: c_int, real: &dyn Fn() -> c_int) -> c_int {
    let Some((shim, _inside)) = shim::enter() else {
        unseen(fd);
        return real();
    };
    if shim.client.given() == 0 {
        return real();
    }
    match known(shim, raw::borrow(fd).and_then(|fd| Look::at(fd).ok())) {
        Some(slot) => logged(shim, fd, slot, real),
        None => real(),
    }
}

/// Sets the times of a file with a slot, which a descriptor is of.
fn logged(shim: &Shim, fd: c_int, slot: SlotKey, real: &dyn Fn() -> c_int) -> c_int {
    let change = || if real() < 0 { Err(raw::errno()) } else { Ok(()) };
    let times = || raw::borrow(fd).and_then(|fd| Times::of(fd).ok());
    match shim.client.set_times(slot, &FdCall::sync(fd), change, times) {
        Ok(()) => 0,
        Err(error) => raw::fail(error),
    }
}

/// Sets the times of what a path leads to.
fn of_path(dir: c_int, path: *const c_char, flags: c_int, real: &dyn Fn() -> c_int) -> c_int {
    let follows = flags & AT_SYMLINK_NOFOLLOW == 0;
    match text(path) {
        // futimens(3), as the kernel has it.
        None => return if dir == AT_FDCWD { real() } else { of_open(dir, real) },
        Some(path) if path.is_empty() && flags & AT_EMPTY_PATH != 0 => return of_open(dir, real),
        Some(_) => {}
    }
    let Some((shim, _inside)) = shim::enter().filter(|(shim, _)| shim.client.given() != 0) else { return real() };
    let look = directory(dir).zip(text(path)).and_then(|(dir, path)| {
        let look = if follows { Look::path(dir, path) } else { Look::name(dir, path) };
        look.ok()
    });
    let Some(slot) = known(shim, look) else { return real() };
    // For its name only: closing one that is open for more would drop the record locks that the program has on the
    // file.
    let only = libc::O_PATH | libc::O_CLOEXEC | if follows { 0 } else { libc::O_NOFOLLOW };
    let fd = system!(libc::SYS_openat, dir, path, only, 0) as c_int;
    if fd < 0 {
        return real();
    }
    let answer = logged(shim, fd, slot, real);
    let error = raw::errno();
    shim::forget(fd);
    system!(libc::SYS_close, fd);
    raw::fail(error);
    answer
}

/// utimensat(2)
#[unsafe(no_mangle)]
pub(crate) extern "C" fn utimensat(dir: c_int, path: *const c_char, times: *const timespec, flags: c_int) -> c_int {
    of_path(dir, path, flags, &|| system!(libc::SYS_utimensat, dir, path, times, flags) as c_int)
}

/// futimens(3)
#[unsafe(no_mangle)]
extern "C" fn futimens(fd: c_int, times: *const timespec) -> c_int {
    of_open(fd, &|| system!(libc::SYS_utimensat, fd, std::ptr::null::<c_char>(), times, 0) as c_int)
}

/// Times in microseconds as the kernel takes them; none for now. None of that if they make no sense.
fn finer(times: *const timeval) -> Option<Option<[timespec; 2]>> {
    if times.is_null() {
        return Some(None);
    }
    // SAFETY: the program hands two structures to a function that reads as many.
    let times = unsafe { std::slice::from_raw_parts(times, 2) };
    let is_sound = times.iter().all(|time| (0..1_000_000).contains(&time.tv_usec));
    let fine = |time: &timeval| timespec { tv_sec: time.tv_sec, tv_nsec: time.tv_usec * 1_000 };
    let [atime, mtime] = times else { return None };
    is_sound.then_some(Some([fine(atime), fine(mtime)]))
}

/// Sets times in microseconds.
fn coarse(dir: c_int, path: *const c_char, times: *const timeval, flags: c_int) -> c_int {
    match finer(times) {
        None => raw::fail(libc::EINVAL),
        Some(None) => utimensat(dir, path, std::ptr::null(), flags),
        Some(Some(times)) => utimensat(dir, path, times.as_ptr(), flags),
    }
}

/// utimes(2)
#[unsafe(no_mangle)]
extern "C" fn utimes(path: *const c_char, times: *const timeval) -> c_int {
    if path.is_null() { raw::fail(libc::EFAULT) } else { coarse(AT_FDCWD, path, times, 0) }
}

/// lutimes(3)
#[unsafe(no_mangle)]
extern "C" fn lutimes(path: *const c_char, times: *const timeval) -> c_int {
    if path.is_null() { raw::fail(libc::EFAULT) } else { coarse(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW) }
}

/// futimes(3)
#[unsafe(no_mangle)]
extern "C" fn futimes(fd: c_int, times: *const timeval) -> c_int {
    coarse(fd, std::ptr::null(), times, 0)
}

/// futimesat(2)
#[unsafe(no_mangle)]
extern "C" fn futimesat(dir: c_int, path: *const c_char, times: *const timeval) -> c_int {
    coarse(dir, path, times, 0)
}

/// utime(2)
#[unsafe(no_mangle)]
extern "C" fn utime(path: *const c_char, times: *const utimbuf) -> c_int {
    if path.is_null() {
        return raw::fail(libc::EFAULT);
    }
    if times.is_null() {
        return utimensat(AT_FDCWD, path, std::ptr::null(), 0);
    }
    // SAFETY: the program hands a structure to a function that reads it.
    let utimbuf { actime, modtime } = unsafe { *times };
    let times = [actime, modtime].map(|tv_sec| timespec { tv_sec, tv_nsec: 0 });
    utimensat(AT_FDCWD, path, times.as_ptr(), 0)
}
