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
    // SAFETY: all that sched_param holds are numbers, of which these policies want 0.
    let param: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a value that lives until the call returns, which only reads it.
    match unsafe { libc::sched_setscheduler(id, policy, &raw const param) } {
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
