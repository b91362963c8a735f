//! Locks as words in the pool: taken by compare-and-swap, with the owner's name in them, so that whoever is gone can be
//! relieved.
//!
//! An owner is a process number (upper half) and a token that no two programs of a run share, not even two that one
//! process ran one after the other.

use ondol_env::sync;
use ondol_medium::Nvm;
use rustix::process::Pid;
use std::time::Duration;

/// What is done until somebody looks whether the owner lives: spins, then turns given up.
const SPINS: u32 = 200;
const YIELDS: u32 = 200;
/// Naps after that, and how long each takes: two seconds together.
const NAPS: u32 = 20_000;
const NAP: Duration = Duration::from_micros(100);

/// A lock that is held; dropping it lets go.
#[derive(Debug)]
pub(crate) struct Held<'n> {
    nvm: &'n Nvm,
    at: u64,
    me: u64,
    /// Its owner before was gone: what it guards may be half done.
    pub(crate) relieved: bool,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // If the word is somebody else's, we were taken for dead.
        let _ = self.nvm.shared().cas_u64(self.at, self.me, 0);
    }
}

/// Takes the lock at `at` for `me`; none if that takes more than about two seconds, or the memory fails.
pub(crate) fn lock(nvm: &Nvm, at: u64, me: u64) -> Option<Held<'_>> {
    for round in 0..SPINS + YIELDS + NAPS {
        if let Some(held) = take(nvm, at, me, round >= SPINS + YIELDS && round.is_multiple_of(64)) {
            return Some(held);
        }
        match round {
            0..SPINS if sync::task().is_none() => std::hint::spin_loop(),
            round if round < SPINS + YIELDS => sync::thread::yield_now(),
            _ => sync::thread::sleep(NAP),
        }
    }
    None
}

/// Takes the lock if it is free, or its owner gone.
pub(crate) fn try_lock(nvm: &Nvm, at: u64, me: u64) -> Option<Held<'_>> {
    take(nvm, at, me, true)
}

fn take(nvm: &Nvm, at: u64, me: u64, relieve: bool) -> Option<Held<'_>> {
    match nvm.shared().cas_u64(at, 0, me) {
        Ok(Ok(())) => Some(Held { nvm, at, me, relieved: false }),
        Ok(Err(owner)) if relieve && is_gone(owner, me) => {
            let took = nvm.shared().cas_u64(at, owner, me).ok()?.is_ok();
            took.then_some(Held { nvm, at, me, relieved: true })
        }
        _ => None,
    }
}

/// Whether the owner in a word can never let go. A process that is dead and not yet reaped by its parent is gone, too.
pub(crate) fn is_gone(owner: u64, me: u64) -> bool {
    let process = |word: u64| (word >> 32) as i32;
    if process(owner) == process(me) {
        // Another program ran in this process before exec(2).
        return owner != me;
    }
    let Some(pid) = Pid::from_raw(process(owner)) else { return true };
    if rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH) {
        return true;
    }
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process(owner))).unwrap_or_default();
    let mut words = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace();
    let state = words.next().filter(|_| stat.contains(')'));
    // Field 20: the first thread may have ended alone.
    let threads = words.nth(16).and_then(|threads| threads.parse::<u32>().ok());
    matches!(state, Some("Z" | "X")) && threads.is_none_or(|threads| threads <= 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn me(token: u64) -> u64 {
        u64::from(std::process::id()) << 32 | token
    }

    #[test]
    fn one_at_a_time() {
        let nvm = Nvm::volatile(4096).unwrap();
        let held = lock(&nvm, 64, me(1)).unwrap();
        assert!(!held.relieved && try_lock(&nvm, 64, me(1)).is_none());
        drop(held);
        assert!(!try_lock(&nvm, 64, me(1)).unwrap().relieved);
    }

    #[test]
    fn whoever_is_gone_is_relieved() {
        let nvm = Nvm::volatile(4096).unwrap();
        // What ran in this process before exec.
        nvm.shared().store_u64(0, me(1)).unwrap();
        assert!(lock(&nvm, 0, me(2)).unwrap().relieved);
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let theirs = u64::from(child.id()) << 32 | 1;
        // Dead, whether reaped or not.
        while !is_gone(theirs, me(2)) {
            std::thread::sleep(NAP);
        }
        child.wait().unwrap();
        nvm.shared().store_u64(0, theirs).unwrap();
        assert!(try_lock(&nvm, 0, me(2)).unwrap().relieved);
        // A process that lives keeps it.
        nvm.shared().store_u64(0, 1 << 32 | 1).unwrap();
        assert!(try_lock(&nvm, 0, me(2)).is_none());
    }
}
