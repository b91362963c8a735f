//! `fsync`, `fdatasync` and what else syncs; and truncations, before which everything goes home.

use crate::call::FdCall;
use crate::raw::{self, Behind, system};
use crate::shim::{self, Hint, Shim};
use crate::times::utimensat;
use libc::{c_char, c_int, c_long, c_uint, c_void, off_t, size_t, timespec};

fn sync_file(fd: c_int, real: c_long) -> c_int {
    let Some((shim, _inside)) = shim::enter() else {
        if raw::flags(fd) & libc::O_PATH != 0 {
            return system!(real, fd) as c_int;
        }
        return match shim::interrupted(fd).map(|(shim, slot)| shim.client.sync_at_once(slot, &FdCall::sync(fd))) {
            Some(Ok(())) => 0,
            Some(Err(error)) => raw::fail(error),
            None => system!(real, fd) as c_int,
        };
    };
    let flags = raw::flags(fd);
    if flags & libc::O_PATH != 0 {
        return system!(real, fd) as c_int;
    }
    let direct = flags & libc::O_DIRECT != 0;
    let call = FdCall::sync(fd);
    // A trusted file is told by what is expected of it, so the descriptor needs no look of its own to say which file it
    // is.
    if let (false, Hint::Slot(slot)) = (direct, shim::hint(fd))
        && shim.client.sync_logged(slot, &call)
    {
        return 0;
    }
    let Some(slot) = shim.resolve(fd) else { return system!(real, fd) as c_int };
    if direct {
        // If the memory fails nothing is trusted anyway.
        let _ = shim.client.map(slot);
    }
    match shim.client.sync(slot, &call) {
        Ok(logged) => {
            if !logged {
                crate::names::begin(shim, fd);
            }
            0
        }
        Err(error) => raw::fail(error),
    }
}

/// fsync(2)
#[unsafe(no_mangle)]
extern "C" fn fsync(fd: c_int) -> c_int {
    sync_file(fd, libc::SYS_fsync)
}

/// fdatasync(2)
#[unsafe(no_mangle)]
extern "C" fn fdatasync(fd: c_int) -> c_int {
    sync_file(fd, libc::SYS_fdatasync)
}

/// What the log does not see synced will be on the disk. An older record that alone is durable must not come after it.
fn persist() {
    let entered = shim::enter();
    let shim = entered.as_ref().map(|(shim, _)| *shim).or_else(shim::interrupted_at_all);
    // Where the memory fails there are no records to find either.
    let _ = shim.map(|shim| shim.client.persist());
}

/// The program's own system calls, which are the kernel's but for those that sync: what is written by libc's functions
/// and synced by them must not come back older. A word more than the program has given is looked at by nobody.
#[unsafe(no_mangle)]
extern "C" fn syscall(number: c_long, a: c_long, b: c_long, c: c_long, d: c_long, e: c_long, f: c_long) -> c_long {
    match number {
        libc::SYS_fsync | libc::SYS_fdatasync => sync_file(a as c_int, number).into(),
        libc::SYS_utimensat => {
            let path = std::ptr::with_exposed_provenance::<c_char>(b as usize);
            let times = std::ptr::with_exposed_provenance::<timespec>(c as usize);
            utimensat(a as c_int, path, times, d as c_int).into()
        }
        libc::SYS_msync if shim::is_pool(a as usize) => system!(number, a, b, c),
        libc::SYS_sync | libc::SYS_syncfs | libc::SYS_msync | libc::SYS_sync_file_range => {
            persist();
            system!(number, a, b, c, d, e, f)
        }
        _ => crate::rights::by_number(number, [a, b, c, d, e, f]),
    }
}

type AioFsync = unsafe extern "C" fn(c_int, *mut libc::aiocb) -> c_int;

static AIO_FSYNC: Behind = Behind::new(&[c"aio_fsync"]);

/// aio_fsync(3): libc syncs in a thread of its own.
#[unsafe(no_mangle)]
extern "C" fn aio_fsync(operation: c_int, block: *mut libc::aiocb) -> c_int {
    persist();
    match AIO_FSYNC.address() {
        0 => raw::fail(libc::ENOSYS),
        // SAFETY: libc's function of this name, with the program's arguments for it.
        at => unsafe { std::mem::transmute::<usize, AioFsync>(at)(operation, block) },
    }
}

/// aio_fsync(3); the same on 64 bits.
#[unsafe(no_mangle)]
extern "C" fn aio_fsync64(operation: c_int, block: *mut libc::aiocb) -> c_int {
    aio_fsync(operation, block)
}

/// The library is loaded.
pub(crate) fn begin() {
    AIO_FSYNC.address();
}

/// sync(2)
#[unsafe(no_mangle)]
extern "C" fn sync() {
    persist();
    system!(libc::SYS_sync);
}

/// syncfs(2)
#[unsafe(no_mangle)]
extern "C" fn syncfs(fd: c_int) -> c_int {
    persist();
    system!(libc::SYS_syncfs, fd) as c_int
}

/// msync(2). The kernel does it: what was stored through a mapping nobody sees.
#[unsafe(no_mangle)]
extern "C" fn msync(at: *mut c_void, len: size_t, flags: c_int) -> c_int {
    // What makes the log durable comes here, too.
    if flags & libc::MS_SYNC != 0 && !shim::is_pool(at.addr()) {
        persist();
    }
    system!(libc::SYS_msync, at, len, flags) as c_int
}

/// sync_file_range(2). One that waits for the end is over when the log is durable, if all of the file is there; one
/// that only sets out is the kernel's.
#[unsafe(no_mangle)]
extern "C" fn sync_file_range(fd: c_int, offset: off_t, len: off_t, flags: c_uint) -> c_int {
    let usual = flags & !7 == 0 && offset >= 0 && len >= 0 && offset.checked_add(len).is_some();
    if usual
        && flags & libc::SYNC_FILE_RANGE_WAIT_AFTER != 0
        && let Some((shim, _inside)) = shim::enter()
        && let Some(slot) = shim.resolve(fd)
        && shim.client.sync_logged(slot, &FdCall::sync(fd))
    {
        return 0;
    }
    persist();
    system!(libc::SYS_sync_file_range, fd, offset, len, flags) as c_int
}

/// A change by a signal handler that came while its thread was inside: the file is not trusted any more.
pub(crate) fn unseen(fd: c_int) {
    if let Some((shim, slot)) = shim::interrupted(fd) {
        // If the memory fails nothing is trusted anyway.
        let _ = shim.client.map(slot);
    }
}

/// Does a change of an open file without a slot, `given` being how many were given before one was looked for. If it
/// has one by now, no older record comes after the change.
fn past(shim: &Shim, fd: c_int, given: u32, real: impl Fn() -> c_int) -> c_int {
    let answer = real();
    if shim::given() != given
        && let Some((_, slot)) = shim::appeared(fd)
        && let Err(error) = shim.client.sync(slot, &FdCall::sync(fd))
    {
        return raw::fail(error);
    }
    answer
}

/// A change of an open file that is not logged and that no live record may outlive.
pub(crate) fn unlogged(fd: c_int, real: impl Fn() -> c_int) -> c_int {
    let given = shim::given();
    let Some((shim, _inside)) = shim::enter() else {
        unseen(fd);
        return real();
    };
    let Some(slot) = shim.resolve(fd) else { return past(shim, fd, given, real) };
    match shim.client.unlogged(slot, &FdCall::sync(fd), real) {
        Ok(answer) => answer,
        Err(error) => raw::fail(error),
    }
}

/// Cuts an open file to `len` bytes, or extends it.
pub(crate) fn cut(fd: c_int, len: off_t, real: impl Fn() -> c_int) -> c_int {
    let given = shim::given();
    let Some((shim, _inside)) = shim::enter() else {
        unseen(fd);
        return real();
    };
    let Some((slot, bytes)) = shim.resolve(fd).zip(u64::try_from(len).ok()) else {
        return past(shim, fd, given, real);
    };
    let change = || if real() < 0 { Err(raw::errno()) } else { Ok(()) };
    match shim.client.truncate(slot, &FdCall::sync(fd), bytes, change) {
        Ok(()) => 0,
        Err(error) => raw::fail(error),
    }
}

/// ftruncate(2)
#[unsafe(no_mangle)]
extern "C" fn ftruncate64(fd: c_int, len: off_t) -> c_int {
    cut(fd, len, || system!(libc::SYS_ftruncate, fd, len) as c_int)
}

/// ftruncate(2)
#[unsafe(no_mangle)]
extern "C" fn ftruncate(fd: c_int, len: off_t) -> c_int {
    ftruncate64(fd, len)
}

/// fallocate(2)
#[unsafe(no_mangle)]
extern "C" fn fallocate64(fd: c_int, mode: c_int, offset: off_t, len: off_t) -> c_int {
    unlogged(fd, || system!(libc::SYS_fallocate, fd, mode, offset, len) as c_int)
}

/// fallocate(2)
#[unsafe(no_mangle)]
extern "C" fn fallocate(fd: c_int, mode: c_int, offset: off_t, len: off_t) -> c_int {
    fallocate64(fd, mode, offset, len)
}
