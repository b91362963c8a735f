//! Opening and truncating by name.

use crate::descriptors::opened;
use crate::raw::{self, Behind, system};
use crate::shim;
use libc::{
    AT_FDCWD, FILE, O_ACCMODE, O_CREAT, O_EXCL, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY, c_char, c_int, mode_t, off_t,
};
use ondol_run_log::{FileKind, Look};
use std::ffi::CStr;
use std::os::fd::BorrowedFd;

fn kernel_open(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    system!(libc::SYS_openat, dir, path, flags, mode) as c_int
}

/// A path that the program has handed in.
pub(crate) fn text<'a>(path: *const c_char) -> Option<&'a CStr> {
    // SAFETY: the program hands it to a function that reads a string there.
    (!path.is_null()).then(|| unsafe { CStr::from_ptr(path) })
}

pub(crate) fn directory<'a>(dir: c_int) -> Option<BorrowedFd<'a>> {
    if dir == AT_FDCWD { Some(rustix::fs::CWD) } else { raw::borrow(dir) }
}

/// There is a file at the path that has live records, or is trusted.
fn is_logged(dir: c_int, path: *const c_char) -> bool {
    let Some((shim, _inside)) = shim::enter().filter(|(shim, _)| shim.client.given() != 0) else { return false };
    let look = directory(dir).zip(text(path)).and_then(|(dir, path)| Look::path(dir, path).ok());
    let look = look.filter(|look| look.kind == FileKind::File && shim.is_on(look));
    look.is_some_and(|look| shim.client.is_logged(&look).unwrap_or(true))
}

fn open_at(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    let _past = match crate::names::create(dir, path, flags, mode) {
        Ok(made) => return opened(made, flags),
        Err(past) => past,
    };
    let truncates =
        flags & O_TRUNC != 0 && flags & O_ACCMODE != O_RDONLY && flags & (O_CREAT | O_EXCL) != O_CREAT | O_EXCL;
    if !truncates || !is_logged(dir, path) {
        return opened(kernel_open(dir, path, flags, mode), flags);
    }
    // Open first: then there is a descriptor to sync what is to be truncated.
    let fd = opened(kernel_open(dir, path, flags & !O_TRUNC, mode), flags);
    if fd >= 0 && crate::syncs::cut(fd, 0, || system!(libc::SYS_ftruncate, fd, 0i64) as c_int) < 0 {
        let error = raw::errno();
        shim::forget(fd);
        system!(libc::SYS_close, fd);
        return raw::fail(error);
    }
    fd
}

/// open(2). The mode is looked at by the kernel only where the program has given one.
#[unsafe(no_mangle)]
extern "C" fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    open_at(AT_FDCWD, path, flags, mode)
}

/// open(2)
#[unsafe(no_mangle)]
extern "C" fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    open_at(AT_FDCWD, path, flags, mode)
}

/// openat(2)
#[unsafe(no_mangle)]
extern "C" fn openat64(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    open_at(dir, path, flags, mode)
}

/// openat(2)
#[unsafe(no_mangle)]
extern "C" fn openat(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    open_at(dir, path, flags, mode)
}

/// creat(2)
#[unsafe(no_mangle)]
extern "C" fn creat64(path: *const c_char, mode: mode_t) -> c_int {
    open_at(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode)
}

/// creat(2)
#[unsafe(no_mangle)]
extern "C" fn creat(path: *const c_char, mode: mode_t) -> c_int {
    creat64(path, mode)
}

/// open(2), as `_FORTIFY_SOURCE` calls it where no mode is given.
#[unsafe(no_mangle)]
extern "C" fn __open_2(path: *const c_char, flags: c_int) -> c_int {
    open_at(AT_FDCWD, path, flags, 0)
}

/// As [`__open_2`].
#[unsafe(no_mangle)]
extern "C" fn __open64_2(path: *const c_char, flags: c_int) -> c_int {
    open_at(AT_FDCWD, path, flags, 0)
}

/// As [`__open_2`].
#[unsafe(no_mangle)]
extern "C" fn __openat_2(dir: c_int, path: *const c_char, flags: c_int) -> c_int {
    open_at(dir, path, flags, 0)
}

/// As [`__open_2`].
#[unsafe(no_mangle)]
extern "C" fn __openat64_2(dir: c_int, path: *const c_char, flags: c_int) -> c_int {
    open_at(dir, path, flags, 0)
}

/// truncate(2)
#[unsafe(no_mangle)]
extern "C" fn truncate64(path: *const c_char, len: off_t) -> c_int {
    let real = || system!(libc::SYS_truncate, path, len) as c_int;
    if !is_logged(AT_FDCWD, path) {
        return real();
    }
    // SAFETY: the path is the program's.
    if unsafe { libc::faccessat(AT_FDCWD, path, libc::W_OK, libc::AT_EACCESS) } != 0 {
        return real();
    }
    // Closing one that is open for more would drop the record locks that the program has on the file.
    match kernel_open(AT_FDCWD, path, libc::O_PATH | libc::O_CLOEXEC, 0) {
        fd if fd >= 0 => {
            let answer = crate::syncs::cut(fd, len, real);
            let error = raw::errno();
            shim::forget(fd);
            system!(libc::SYS_close, fd);
            raw::fail(error);
            answer
        }
        _ => real(),
    }
}

/// truncate(2)
#[unsafe(no_mangle)]
extern "C" fn truncate(path: *const c_char, len: off_t) -> c_int {
    truncate64(path, len)
}

type Fopen = unsafe extern "C" fn(*const c_char, *const c_char) -> *mut FILE;

/// libc's own: streams are libc's. musl has one name only.
static FOPEN: Behind = Behind::new(&[c"fopen64", c"fopen"]);

/// The library is loaded.
pub(crate) fn begin() {
    FOPEN.address();
}

fn libcs_fopen() -> Option<Fopen> {
    // SAFETY: libc's function of this name has this type; 0 is none.
    unsafe { std::mem::transmute::<usize, Option<Fopen>>(FOPEN.address()) }
}

/// fopen(3)
#[unsafe(no_mangle)]
extern "C" fn fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE {
    let words = text(mode).map(CStr::to_bytes).unwrap_or_default();
    let truncates = words.first() == Some(&b'w') && !words.contains(&b'x');
    if truncates && is_logged(AT_FDCWD, path) {
        let access = if words.contains(&b'+') { O_RDWR } else { O_WRONLY };
        let exec = if words.contains(&b'e') { libc::O_CLOEXEC } else { 0 };
        let fd = open_at(AT_FDCWD, path, access | exec | O_CREAT | O_TRUNC, 0o666);
        // SAFETY: the mode is the program's, the descriptor a new one.
        return if fd < 0 { std::ptr::null_mut() } else { unsafe { libc::fdopen(fd, mode) } };
    }
    match libcs_fopen() {
        // SAFETY: the arguments are the program's for this very function.
        Some(fopen) => unsafe { fopen(path, mode) },
        None => {
            raw::fail(libc::ENOSYS);
            std::ptr::null_mut()
        }
    }
}

/// fopen(3)
#[unsafe(no_mangle)]
extern "C" fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE {
    fopen64(path, mode)
}
