//! A request that a server makes to itself, so that a queue moves on.

#![allow(unsafe_code, reason = "a system call that closes descriptors")]

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::io;
use std::path::Path;

/// Asks the server of `path` for attributes, from processor `processor`. When this returns, the request has been answered.
///
/// The calling thread gives up all of its descriptors first; the rest of the process keeps them. Otherwise a server that is killed would wait
/// for this thread, this thread for an answer, and the connection would never end.
///
/// # Errors
/// The kernel's refusal, or the server's. Nothing is asked while the thread may still have descriptors.
pub fn ask(path: &Path, processor: usize) -> io::Result<()> {
    own_no_descriptors()?;
    if processor >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut one = CpuSet::new();
    one.set(processor);
    sched_setaffinity(None, &one)?;
    // Attributes that the kernel knows would not be asked for.
    // AT_STATX_FORCE_SYNC, which rustix does not name with musl.
    statx(CWD, path, AtFlags::from_bits_retain(0x2000) | AtFlags::NO_AUTOMOUNT, StatxFlags::TYPE)?;
    Ok(())
}

fn own_no_descriptors() -> io::Result<()> {
    const UNSHARE: libc::c_uint = 1 << 1;
    // SAFETY: three numbers. The table in which descriptors are closed is the calling thread's alone from here on.
    match unsafe { libc::syscall(libc::SYS_close_range, 0, libc::c_uint::MAX, UNSHARE) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "real threads")]

    use super::*;

    #[test]
    fn descriptors_of_others_stay() {
        use std::os::fd::AsRawFd;
        let file = std::fs::File::open("/dev/null").unwrap();
        let descriptor = file.as_raw_fd();
        let there = move || std::fs::metadata(format!("/proc/thread-self/fd/{descriptor}")).is_ok();
        let allowed = rustix::thread::sched_getaffinity(None).unwrap();
        let first = (0..CpuSet::MAX_CPU).find(|processor| allowed.is_set(*processor)).unwrap();
        let asked = std::thread::spawn(move || ask(Path::new("/"), first).map(|()| there())).join().unwrap();
        assert!(there() && !asked.unwrap());
        for (path, processor) in [("/nothing of this name", first), ("/", CpuSet::MAX_CPU)] {
            let refused = std::thread::spawn(move || ask(Path::new(path), processor)).join().unwrap();
            assert!(refused.is_err() && there());
        }
    }
}
