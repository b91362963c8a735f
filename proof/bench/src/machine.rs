//! The machine and the build that figures belong to.

use serde::Serialize;
use std::fs;

/// What a figure needs beside it to be worth comparing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Machine {
    /// Model of the processor.
    pub(crate) cpu: String,
    /// Processors that this process may use.
    pub(crate) cores: u64,
    /// Release of the kernel.
    pub(crate) kernel: String,
    /// Bytes of memory.
    pub(crate) memory_bytes: u64,
}

impl Machine {
    /// The machine that this runs on; what cannot be found out is "unknown" or 0.
    pub(crate) fn here() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
        Self {
            cpu: field(&cpuinfo, "model name").or_else(|| field(&cpuinfo, "Model")).unwrap_or("unknown").to_owned(),
            cores: std::thread::available_parallelism().map_or(0, |cores| cores.get() as u64),
            kernel,
            memory_bytes: field(&meminfo, "MemTotal").and_then(kib).unwrap_or(0),
        }
    }
}

/// The commit that this was built from.
pub(crate) fn commit() -> &'static str {
    option_env!("ONDOL_COMMIT").unwrap_or("unknown")
}

/// The value after `name :`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then_some(value.trim())
    })
}

/// Bytes of `24000000 kB`.
fn kib(text: &str) -> Option<u64> {
    text.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_is_understood() {
        let text = "processor\t: 0\nmodel name\t: Fast CPU\nMemTotal:   2048 kB\n";
        assert_eq!(field(text, "model name"), Some("Fast CPU"));
        assert_eq!(field(text, "MemTotal").and_then(kib), Some(2 << 20));
        assert_eq!(field(text, "nothing"), None);
    }

    #[test]
    fn this_machine_is_known() {
        let machine = Machine::here();
        assert!(machine.cores > 0 && machine.memory_bytes > 0 && !machine.kernel.is_empty(), "{machine:?}");
    }
}
