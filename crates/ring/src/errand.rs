//! A request that a server makes to itself, so that a queue moves on.

#![allow(unsafe_code, reason = "a process that has none of this one's rings")]

use std::ffi::{CStr, CString, c_int, c_long};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// One bit for each processor that can be named.
type Processors = [u64; 16];

/// Asks the server of `path` for attributes, from processor `processor`. When this returns, the request has been
/// answered.
///
/// A process of its own asks, without descriptors, and without the rings, which are left out when memory is copied. A
/// thread that waits for an answer cannot be killed: it would keep the memory of a server that is, so the rings, and so
/// the connection, which would never end.
///
/// # Errors
/// The kernel's refusal, or the server's.
pub fn ask(path: &Path, processor: usize) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut one = Processors::default();
    let word = one.get_mut(processor / 64).ok_or(io::ErrorKind::InvalidInput)?;
    *word = 1 << (processor % 64);
    // SAFETY: fork(2) without a signal at the child's end. The child has one thread and a copy of the memory, in which
    // locks may be taken for good: it makes system calls, and nothing else until it ends.
    let child = unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) };
    match child {
        0 => {
            let error = go(&path, &one).err().unwrap_or_default();
            // SAFETY: it takes a number, and runs nothing of this process.
            unsafe { libc::_exit(error) }
        }
        _ => end_of(checked(child).map_err(io::Error::from_raw_os_error)?),
    }
}

/// What the child does. The error is an errno.
fn go(path: &CStr, processors: &Processors) -> Result<(), c_int> {
    const SYNC: c_int = 0x2000;
    // `struct statx`, of which nobody reads anything.
    let mut answer = [0u64; 32];
    let flags = SYNC | libc::AT_NO_AUTOMOUNT;
    // SAFETY: numbers, and pointers to values that live until the calls return and are as large as the calls take
    // them to be. Attributes that the kernel knows would not be asked for without SYNC. A child that outlives its
    // server would keep what is mapped, and so the locks of its files.
    unsafe {
        checked(libc::syscall(libc::SYS_prctl, libc::PR_SET_PDEATHSIG, c_long::from(libc::SIGKILL)))?;
        checked(libc::syscall(libc::SYS_close_range, 0, libc::c_uint::MAX, 0))?;
        checked(libc::syscall(libc::SYS_sched_setaffinity, 0, size_of::<Processors>(), processors.as_ptr()))?;
        checked(libc::syscall(libc::SYS_statx, libc::AT_FDCWD, path.as_ptr(), flags, 1, answer.as_mut_ptr()))?;
    }
    Ok(())
}

/// What a system call returned, or its errno. It allocates nothing.
fn checked(returned: c_long) -> Result<c_long, c_int> {
    // SAFETY: the number of this thread's last error.
    if returned == -1 { Err(unsafe { *libc::__errno_location() }) } else { Ok(returned) }
}

/// Waits for the end of a child: the error that it ended with, if any.
fn end_of(child: c_long) -> io::Result<()> {
    let child = libc::pid_t::try_from(child).map_err(io::Error::other)?;
    let mut status = 0;
    // SAFETY: numbers, and a pointer to one.
    while unsafe { libc::waitpid(child, &raw mut status, libc::__WALL) } == -1 {
        let e = io::Error::last_os_error();
        if e.kind() != io::ErrorKind::Interrupted {
            return Err(e);
        }
    }
    match libc::WEXITSTATUS(status) {
        _ if !libc::WIFEXITED(status) => Err(io::ErrorKind::Interrupted.into()),
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_asks_and_is_gone() {
        let allowed = rustix::thread::sched_getaffinity(None).unwrap();
        let first = (0..rustix::thread::CpuSet::MAX_CPU).find(|processor| allowed.is_set(*processor)).unwrap();
        ask(Path::new("/"), first).unwrap();
        let e = ask(Path::new("/nothing of this name"), first).unwrap_err();
        assert_eq!(e.kind(), io::ErrorKind::NotFound);
        assert_eq!(ask(Path::new("/"), 1024).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        // SAFETY: numbers, and no place for a status.
        let left = unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG | libc::__WALL) };
        assert_eq!((left, io::Error::last_os_error().raw_os_error()), (-1, Some(libc::ECHILD)));
    }
}
