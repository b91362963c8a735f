//! Who holds a lease: enough to tell a person, and to see on the same machine whether the process is still there.

use std::fmt;

/// A process of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) machine: String,
    /// Another one after each start of the machine.
    pub(super) boot: String,
    /// The space of process numbers: containers have their own.
    pub(super) space: String,
    pub(super) process: u32,
    /// When it started, in ticks of the machine: process numbers are used again.
    pub(super) start: u64,
    pub(super) user: u32,
    /// Where the volume is mounted, or what it is used for.
    pub(super) purpose: String,
}

impl Holder {
    /// This process.
    pub(super) fn this(purpose: &str) -> Self {
        let process = rustix::process::getpid().as_raw_nonzero().get().unsigned_abs();
        let (boot, space) = here();
        Self {
            machine: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            boot,
            space,
            process,
            start: start_of(process).unwrap_or_default(),
            user: rustix::process::getuid().as_raw(),
            purpose: purpose.to_owned(),
        }
    }

    /// Whether this was a process of this machine that is gone. False if that cannot be seen from here.
    pub(super) fn is_gone(&self) -> bool {
        let is_here =
            !self.boot.is_empty() && !self.space.is_empty() && here() == (self.boot.clone(), self.space.clone());
        // Without a process of one's own in sight, nothing is known about others.
        is_here && start_of(std::process::id()).is_some() && start_of(self.process) != Some(self.start)
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} of user {} on {}", self.process, self.user, self.machine)?;
        if self.purpose.is_empty() { Ok(()) } else { write!(f, " ({})", self.purpose) }
    }
}

/// This start of the machine, and the space of process numbers.
fn here() -> (String, String) {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let space = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    (boot.trim().to_owned(), space.to_string_lossy().into_owned())
}

/// When a process started: field 22 of its `stat`, the 20th behind the name in parentheses.
fn start_of(process: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::Holder;

    #[test]
    fn only_a_process_of_this_machine_can_be_seen_to_be_gone() {
        let this = Holder::this("a test");
        assert!(!this.is_gone() && this.start > 0, "{this:?}");
        assert!(this.to_string().ends_with("(a test)"), "{this}");
        // The number belongs to another process now.
        assert!(Holder { start: this.start - 1, ..this.clone() }.is_gone());
        for elsewhere in [
            Holder { start: 1, boot: "other".into(), ..this.clone() },
            Holder { start: 1, space: "other".into(), ..this.clone() },
            Holder { start: 1, boot: String::new(), ..this },
        ] {
            assert!(!elsewhere.is_gone(), "{elsewhere:?}");
        }
    }
}
