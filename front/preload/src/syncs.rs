//! `fsync` and `fdatasync`; and truncations, before which everything goes home.

use crate::call::FdCall;
use crate::raw::{self, system};
use crate::shim;
use libc::{c_int, c_long, off_t};

fn sync(fd: c_int, real: c_long) -> c_int {
    let Some((shim, _inside)) = shim::enter() else { return system!(real, fd) as c_int };
    let Some(slot) = shim.resolve(fd) else { return system!(real, fd) as c_int };
    if raw::flags(fd) & libc::O_DIRECT != 0 {
        // If the memory fails nothing is trusted anyway.
        let _ = shim.client.map(slot);
    }
    match shim.client.sync(slot, &FdCall::sync(fd)) {
        Ok(_) => 0,
        Err(error) => raw::fail(error),
    }
}

/// fsync(2)
#[unsafe(no_mangle)]
extern "C" fn fsync(fd: c_int) -> c_int {
    sync(fd, libc::SYS_fsync)
}

/// fdatasync(2)
#[unsafe(no_mangle)]
extern "C" fn fdatasync(fd: c_int) -> c_int {
    sync(fd, libc::SYS_fdatasync)
}

/// A change of an open file that is not logged and that no live record may outlive.
pub(crate) fn unlogged(fd: c_int, real: impl Fn() -> c_int) -> c_int {
    let Some((shim, _inside)) = shim::enter() else {
        shim::unseen_write(fd);
        return real();
    };
    let Some(slot) = shim.resolve(fd) else { return real() };
    match shim.client.unlogged(slot, &FdCall::sync(fd), real) {
        Ok(answer) => answer,
        Err(error) => raw::fail(error),
    }
}

/// ftruncate(2)
#[unsafe(no_mangle)]
extern "C" fn ftruncate64(fd: c_int, len: off_t) -> c_int {
    unlogged(fd, || system!(libc::SYS_ftruncate, fd, len) as c_int)
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
