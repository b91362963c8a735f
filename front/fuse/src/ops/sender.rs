//! Who sent a request, and what he may do.
//!
//! FUSE tells user, group and thread, and what the sender may do for some requests only. For the others, which are rare,
//! the sender's thread is asked for in `/proc`: it waits for the answer, so it is still the one that asked.

use ondol::Caller;
use std::fs;

/// Who sent a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sender {
    /// User id.
    pub(crate) uid: u32,
    /// Group id.
    pub(crate) gid: u32,
    /// Permission bits that new inodes do not get.
    pub(crate) umask: u16,
    /// The thread; 0 for the kernel itself, and for what cannot be seen from the mount's process namespace.
    pub(crate) thread: u32,
}

/// Capabilities (capabilities(7)) by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Capability {
    /// Permission bits do not count.
    DacOverride = 1,
    /// Setuid and setgid bits survive a change of the contents.
    Fsetid = 4,
    /// Immutable and append-only may be changed.
    LinuxImmutable = 9,
    /// Free space may be given back, and `trusted.` attributes be seen.
    SysAdmin = 21,
    /// Data journaling may be changed.
    SysResource = 24,
}

impl Sender {
    /// The same in the volume's words.
    pub(crate) fn caller(self) -> Caller {
        Caller { uid: self.uid, gid: self.gid, umask: self.umask }
    }

    /// Whether the sender has a capability. Where that cannot be known, user 0 has them all and others none.
    pub(crate) fn may(self, capability: Capability) -> bool {
        self.capabilities().map_or(self.uid == 0, |set| set & (1 << capability as u32) != 0)
    }

    /// The thread's effective capabilities as far as they count here: those of another user namespace do not.
    fn capabilities(self) -> Option<u64> {
        if self.thread == 0 {
            return None;
        }
        let namespace = |who: &str| fs::read_link(format!("/proc/{who}/ns/user")).ok();
        let (own, theirs) = (namespace("self"), namespace(&self.thread.to_string()));
        if theirs.is_some() && theirs != own {
            return Some(0);
        }
        let status = fs::read_to_string(format!("/proc/{}/status", self.thread)).ok()?;
        let set = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
        u64::from_str_radix(set.trim(), 16).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_can_ask_for_is_the_users_number() {
        let sender = |uid, thread| Sender { uid, gid: 0, umask: 0, thread };
        assert!(sender(0, 0).may(Capability::SysAdmin) && !sender(1, 0).may(Capability::SysAdmin));
        assert!(sender(0, u32::MAX).may(Capability::Fsetid) && !sender(1, u32::MAX).may(Capability::Fsetid));
    }

    #[test]
    fn a_thread_has_what_its_state_says_whatever_its_user() {
        let thread = rustix::thread::gettid().as_raw_pid().cast_unsigned();
        let own = rustix::thread::capabilities(None).unwrap().effective;
        for uid in [0, 1] {
            let sender = Sender { uid, gid: 0, umask: 0, thread };
            assert_eq!(sender.may(Capability::SysAdmin), own.contains(rustix::thread::CapabilitySet::SYS_ADMIN));
            assert_eq!(sender.may(Capability::Fsetid), own.contains(rustix::thread::CapabilitySet::FSETID));
        }
    }
}
