//! The scheduling policy of single threads, for which there is no safe call.

#![allow(unsafe_code, reason = "a system call with a pointer to its parameters")]

use std::io;

/// Gives a thread of this process the policy `SCHED_IDLE`, or the ordinary one (sched(7)). Leaving `SCHED_IDLE` takes
/// `CAP_SYS_NICE`, or an `RLIMIT_NICE` that allows the thread's nice value.
///
/// # Errors
/// There is no such thread, or this process may not.
pub fn set_idle(thread: u32, idle: bool) -> io::Result<()> {
    let policy = if idle { libc::SCHED_IDLE } else { libc::SCHED_OTHER };
    let id = libc::pid_t::try_from(thread).map_err(io::Error::other)?;
    // All that the kernel's sched_param holds, which these policies want to be 0.
    let priority: libc::c_int = 0;
    // musl's function of this name refuses, since POSIX would have it act on the whole process.
    // SAFETY: the pointer is to a value that lives until the call returns, which only reads it.
    match unsafe { libc::syscall(libc::SYS_sched_setscheduler, id, policy, &raw const priority) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_does_not_exist_has_no_policy() {
        assert!(set_idle(u32::MAX, true).is_err());
        assert!(set_idle(i32::MAX as u32, true).is_err());
    }
}
