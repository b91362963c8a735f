//! Who sent a request, and what he may do.
//!
//! FUSE tells user, group and thread, and what the sender may do for some requests only. For the others, which are
//! rare, the sender's thread is asked for in `/proc`: it waits for the answer, so it is still the one that asked. Where
//! mounts may map users, FUSE tells no user but with what makes an inode, and then the one whose it becomes: who sent
//! it, the thread is asked for, too.

use ondol::Caller;
use ondol::inodes::Inodes;
use std::fs;

/// In the place of a user or group that FUSE does not tell.
pub(crate) const UNTOLD: u32 = u32::MAX;

/// Who sent a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sender {
    /// User id: the sender's, or with `mapped` whose the inodes become that it makes.
    pub(crate) uid: u32,
    /// Group id, likewise.
    pub(crate) gid: u32,
    /// Permission bits that new inodes do not get.
    pub(crate) umask: u16,
    /// The thread; 0 for the kernel itself, and for what cannot be seen from the mount's process namespace.
    pub(crate) thread: u32,
    /// User and group do not say who the sender is.
    pub(crate) mapped: bool,
}

/// Capabilities (capabilities(7)) by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Capability {
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

    /// The user that sent it, if that can be known.
    pub(crate) fn user(self) -> Option<u32> {
        if self.mapped { user_of(self.thread).map(|user| user.uid) } else { Some(self.uid) }
    }

    /// Does `work` for the sender, who may or may not take what is kept back.
    pub(crate) fn act<T>(self, inodes: &Inodes, work: impl FnOnce() -> T) -> T {
        if self.mapped {
            inodes.on_behalf_of_thread(self.thread, user_of, work)
        } else {
            inodes.on_behalf_of(self.caller(), work)
        }
    }

    /// Whether the sender has a capability. Where that cannot be known, user 0 has them all and others none.
    pub(crate) fn may(self, capability: Capability) -> bool {
        self.capabilities().map_or(!self.mapped && self.uid == 0, |set| set & (1 << capability as u32) != 0)
    }

    /// Whether it is the same thread of the same user.
    pub(crate) fn is(self, other: Self) -> bool {
        (self.uid, self.thread) == (other.uid, other.thread)
    }

    /// Whether the thread is seen to belong to another user namespace than the server.
    pub(crate) fn is_of_another_namespace(self) -> bool {
        let namespace = |who: &str| fs::read_link(format!("/proc/{who}/ns/user")).ok();
        let theirs = if self.thread == 0 { None } else { namespace(&self.thread.to_string()) };
        theirs.is_some() && theirs != namespace("self")
    }

    /// The thread's effective capabilities as far as they count here: those of another user namespace do not.
    fn capabilities(self) -> Option<u64> {
        if self.thread == 0 {
            return None;
        }
        if self.is_of_another_namespace() {
            return Some(0);
        }
        u64::from_str_radix(status(self.thread, "CapEff:")?.trim(), 16).ok()
    }
}

/// What the state of a thread has under a heading.
fn status(thread: u32, heading: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix(heading)).map(str::to_owned)
}

/// User and group of a thread, by which the kernel judges its calls to file systems.
fn user_of(thread: u32) -> Option<Caller> {
    // Real, effective, saved, and that of file systems.
    let id = |heading| status(thread, heading)?.split_whitespace().nth(3)?.parse().ok();
    Some(Caller::new(id("Uid:")?, id("Gid:")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_can_ask_for_is_the_users_number() {
        let sender = |uid, thread| Sender { uid, gid: 0, umask: 0, thread, mapped: false };
        assert!(sender(0, 0).may(Capability::SysAdmin) && !sender(1, 0).may(Capability::SysAdmin));
        assert!(sender(0, u32::MAX).may(Capability::Fsetid) && !sender(1, u32::MAX).may(Capability::Fsetid));
    }

    #[test]
    fn a_thread_has_what_its_state_says_whatever_its_user() {
        let thread = rustix::thread::gettid().as_raw_pid().cast_unsigned();
        let own = rustix::thread::capabilities(None).unwrap().effective;
        for uid in [0, 1] {
            let sender = Sender { uid, gid: 0, umask: 0, thread, mapped: false };
            assert_eq!(sender.may(Capability::SysAdmin), own.contains(rustix::thread::CapabilitySet::SYS_ADMIN));
            assert_eq!(sender.may(Capability::Fsetid), own.contains(rustix::thread::CapabilitySet::FSETID));
        }
    }

    #[test]
    fn a_mapped_sender_is_who_its_thread_is() {
        let thread = rustix::thread::gettid().as_raw_pid().cast_unsigned();
        let sender = |thread| Sender { uid: 0, gid: 0, umask: 0, thread, mapped: true };
        let own = rustix::process::geteuid().as_raw();
        assert_eq!((sender(thread).user(), sender(0).user()), (Some(own), None));
        assert_eq!(user_of(thread), Some(Caller::new(own, rustix::process::getegid().as_raw())));
        assert!(!sender(0).may(Capability::SysAdmin), "whose an inode becomes gives no rights");
    }
}
