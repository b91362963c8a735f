//! What the kernel counts of threads and processes, from `/proc`.

use serde::Serialize;
use std::fs;
use std::path::Path;

/// How often threads lost the processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Switches {
    /// Because they waited for something.
    pub(crate) voluntary: u64,
    /// Because another had a right to it.
    pub(crate) involuntary: u64,
}

impl Switches {
    /// Of the calling thread so far.
    pub(crate) fn of_this_thread() -> Self {
        Self::of_task(Path::new("/proc/thread-self"))
    }

    /// Of a thread by its directory in `/proc`; none once it has ended.
    fn of_task(task: &Path) -> Self {
        let text = fs::read_to_string(task.join("status")).unwrap_or_default();
        Self {
            voluntary: field(&text, "voluntary_ctxt_switches:"),
            involuntary: field(&text, "nonvoluntary_ctxt_switches:"),
        }
    }

    /// Both, each put together with the other's by `how`.
    pub(crate) fn with(self, other: Self, how: fn(u64, u64) -> u64) -> Self {
        Self { voluntary: how(self.voluntary, other.voluntary), involuntary: how(self.involuntary, other.involuntary) }
    }
}

/// What a server's process did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Server {
    /// Switches of the threads that it has.
    #[serde(flatten)]
    pub(crate) switches: Switches,
    /// System calls that read or write, on `/dev/fuse` or on files. Rings are not among them.
    pub(crate) reads_and_writes: u64,
}

impl Server {
    /// Process `pid` so far. Threads that have ended count no more.
    pub(crate) fn of(pid: u32) -> Self {
        let process = Path::new("/proc").join(pid.to_string());
        let tasks = fs::read_dir(process.join("task")).into_iter().flatten().flatten();
        let switches = tasks.map(|task| Switches::of_task(&task.path()));
        let io = fs::read_to_string(process.join("io")).unwrap_or_default();
        Self {
            switches: switches.fold(Switches::default(), |sum, one| sum.with(one, u64::saturating_add)),
            reads_and_writes: field(&io, "syscr:").saturating_add(field(&io, "syscw:")),
        }
    }

    /// Both, each put together with the other's by `how`.
    pub(crate) fn with(self, other: Self, how: fn(u64, u64) -> u64) -> Self {
        Self {
            switches: self.switches.with(other.switches, how),
            reads_and_writes: how(self.reads_and_writes, other.reads_and_writes),
        }
    }
}

/// The number after `name` at the beginning of a line; 0 without it.
fn field(text: &str, name: &str) -> u64 {
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn waiting_is_a_switch_and_reading_is_a_read() {
        let before = Switches::of_this_thread();
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(Switches::of_this_thread().voluntary > before.voluntary);
        let before = Server::of(std::process::id());
        let mut byte = [0];
        fs::File::open("/proc/self/stat").and_then(|mut file| file.read_exact(&mut byte)).expect("read");
        assert!(Server::of(std::process::id()).reads_and_writes > before.reads_and_writes);
        assert_eq!(Server::of(u32::MAX), Server::default());
    }
}
