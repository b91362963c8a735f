//! What descriptors stand for, and mappings.

use crate::raw::{self, Behind, system};
use crate::{seconds, shim};
use libc::{FILE, c_int, c_long, c_uint, c_void, off_t, size_t};

/// close(2)
#[unsafe(no_mangle)]
extern "C" fn close(fd: c_int) -> c_int {
    seconds::close(fd);
    shim::forget(fd);
    system!(libc::SYS_close, fd) as c_int
}

/// close_range(2)
#[unsafe(no_mangle)]
extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    // What the kernel refuses closes nothing, nor does what is to be closed at exec.
    if first <= last && flags as c_uint & !libc::CLOSE_RANGE_UNSHARE == 0 {
        seconds::close_range(first, last);
        shim::forget_from(first);
    }
    system!(libc::SYS_close_range, first, last, flags) as c_int
}

/// closefrom(3)
#[unsafe(no_mangle)]
extern "C" fn closefrom(first: c_int) {
    close_range(first.max(0) as c_uint, c_uint::MAX, 0);
}

/// dup(2)
#[unsafe(no_mangle)]
extern "C" fn dup(fd: c_int) -> c_int {
    new(system!(libc::SYS_dup, fd) as c_int)
}

/// A descriptor that is new, by whatever way: what was known of its number was of one that was closed unseen.
fn new(fd: c_int) -> c_int {
    if fd >= 0 {
        shim::forget(fd);
        seconds::forget(fd);
    }
    fd
}

type Fcntl = unsafe extern "C" fn(c_int, c_int, ...) -> c_int;
type Fclose = unsafe extern "C" fn(*mut FILE) -> c_int;

static FCNTL: Behind = Behind::new(&[c"fcntl64", c"fcntl"]);
static FCLOSE: Behind = Behind::new(&[c"fclose"]);

/// The library is loaded.
pub(crate) fn begin() {
    FCNTL.address();
    FCLOSE.address();
}

/// fcntl(2). What the program has not handed in is looked at by nobody.
#[unsafe(no_mangle)]
extern "C" fn fcntl64(fd: c_int, command: c_int, word: c_long) -> c_int {
    if matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) {
        return new(system!(libc::SYS_fcntl, fd, command, word) as c_int);
    }
    match FCNTL.address() {
        0 => system!(libc::SYS_fcntl, fd, command, word) as c_int,
        // SAFETY: libc's function of this name, which takes a third word of this size or none.
        at => unsafe { std::mem::transmute::<usize, Fcntl>(at)(fd, command, word) },
    }
}

/// fcntl(2)
#[unsafe(no_mangle)]
extern "C" fn fcntl(fd: c_int, command: c_int, word: c_long) -> c_int {
    fcntl64(fd, command, word)
}

/// fclose(3). Its descriptor is closed by libc itself.
#[unsafe(no_mangle)]
extern "C" fn fclose(stream: *mut FILE) -> c_int {
    // SAFETY: the program hands a stream to a function that closes it.
    let fd = if stream.is_null() { -1 } else { unsafe { libc::fileno(stream) } };
    let mut error = None;
    if fd >= 0 {
        // The program's record locks go with a second description: what libc has kept is written before.
        // SAFETY: as above.
        if seconds::has(fd) && unsafe { libc::fflush(stream) } != 0 {
            error = Some(raw::errno());
        }
        seconds::close(fd);
        shim::forget(fd);
    }
    let closed = match FCLOSE.address() {
        0 => return raw::fail(libc::ENOSYS),
        // SAFETY: libc's function of this name; the stream is the program's.
        at => unsafe { std::mem::transmute::<usize, Fclose>(at)(stream) },
    };
    error.map_or(closed, raw::fail)
}

/// dup2(2)
#[unsafe(no_mangle)]
extern "C" fn dup2(old: c_int, new: c_int) -> c_int {
    if old == new {
        // dup3(2) refuses what dup2(2) takes.
        return if system!(libc::SYS_fcntl, old, libc::F_GETFD) < 0 { -1 } else { new };
    }
    dup3(old, new, 0)
}

/// dup3(2)
#[unsafe(no_mangle)]
extern "C" fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int {
    // Where it is refused nothing is closed.
    let closes = old != new && flags & !libc::O_CLOEXEC == 0 && system!(libc::SYS_fcntl, old, libc::F_GETFD) >= 0;
    if closes {
        seconds::close(new);
        shim::forget(new);
    }
    let answer = system!(libc::SYS_dup3, old, new, flags) as c_int;
    if closes {
        // Another thread may have written to the old one meanwhile.
        shim::forget(new);
        seconds::forget(new);
    }
    answer
}

/// mmap(2)
#[unsafe(no_mangle)]
extern "C" fn mmap64(at: *mut c_void, len: size_t, prot: c_int, flags: c_int, fd: c_int, offset: off_t) -> *mut c_void {
    // MAP_SHARED_VALIDATE has this bit, too.
    let shared = flags & libc::MAP_SHARED != 0 && flags & libc::MAP_ANONYMOUS == 0;
    if shared
        && prot & libc::PROT_WRITE != 0
        && let Some((shim, _inside)) = shim::enter()
        && let Some(slot) = shim.resolve(fd)
    {
        // If the memory fails nothing is trusted anyway.
        let _ = shim.client.map(slot);
    }
    let answer = system!(libc::SYS_mmap, at, len, prot, flags, fd, offset);
    std::ptr::with_exposed_provenance_mut(answer as usize)
}

/// mmap(2)
#[unsafe(no_mangle)]
extern "C" fn mmap(at: *mut c_void, len: size_t, prot: c_int, flags: c_int, fd: c_int, offset: off_t) -> *mut c_void {
    mmap64(at, len, prot, flags, fd, offset)
}

/// A descriptor that is opened for direct writes: its file is not trusted again.
pub(crate) fn opened(fd: c_int, flags: c_int) -> c_int {
    shim::forget(fd);
    seconds::opened(fd, flags);
    let direct = flags & libc::O_DIRECT != 0 && flags & libc::O_ACCMODE != libc::O_RDONLY && fd >= 0;
    if direct
        && let Some((shim, _inside)) = shim::enter()
        && let Some(slot) = shim.resolve(fd)
    {
        let error = raw::errno();
        // If the memory fails nothing is trusted anyway.
        let _ = shim.client.map(slot);
        raw::fail(error);
    }
    fd
}
