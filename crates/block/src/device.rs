//! The class of device below a store, and what a flush and a byte cost there: everything that engines decide by cost
//! follows from it.

use std::fmt;
use std::fs::File;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::str::FromStr;

/// A class of devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceClass {
    /// Memory, or NVM: no request leaves the processor.
    Memory,
    /// Flash behind a bus; also whatever nobody can tell.
    #[default]
    Ssd,
    /// A disk with an arm.
    Disk,
}

/// No class of devices has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no class of devices: choose memory, ssd or disk")]
pub struct UnknownDevice(
    /// The name.
    pub String,
);

impl DeviceClass {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Memory, Self::Ssd, Self::Disk];

    /// Its name as in `device=`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Ssd => "ssd",
            Self::Disk => "disk",
        }
    }

    /// Nanoseconds that a flush takes, about.
    pub const fn flush_ns(self) -> u64 {
        match self {
            Self::Memory => 3_000,
            Self::Ssd => 1_000_000,
            Self::Disk => 8_000_000,
        }
    }

    /// Picoseconds that a byte takes which is written, about.
    pub const fn byte_ps(self) -> u64 {
        match self {
            Self::Memory => 300,
            Self::Ssd => 2_000,
            Self::Disk => 8_000,
        }
    }

    /// The class of the device that `file` is or lies on.
    pub(crate) fn of(file: &File) -> Self {
        let Ok(meta) = file.metadata() else { return Self::default() };
        let number = if meta.file_type().is_block_device() { meta.rdev() } else { meta.dev() };
        let device = format!("/sys/dev/block/{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
        // A partition is a folder in that of its disk.
        let queues = [format!("{device}/queue"), format!("{device}/../queue")];
        let says = |name: &str| queues.iter().find_map(|queue| std::fs::read_to_string(format!("{queue}/{name}")).ok());
        let is = |name| says(name).is_some_and(|text| text.trim() == "1");
        if is("dax") {
            Self::Memory
        } else if is("rotational") {
            Self::Disk
        } else {
            Self::Ssd
        }
    }
}

impl fmt::Display for DeviceClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DeviceClass {
    type Err = UnknownDevice;

    fn from_str(name: &str) -> Result<Self, UnknownDevice> {
        Self::ALL.into_iter().find(|class| class.name() == name).ok_or_else(|| UnknownDevice(name.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_and_slower_classes_cost_more() {
        for pair in DeviceClass::ALL.windows(2) {
            assert!(
                pair[0] < pair[1] && pair[0].flush_ns() < pair[1].flush_ns() && pair[0].byte_ps() < pair[1].byte_ps()
            );
        }
        assert!(DeviceClass::ALL.iter().all(|class| class.to_string().parse() == Ok(*class)));
        assert!("tape".parse::<DeviceClass>().unwrap_err().to_string().contains("memory, ssd or disk"));
    }
}
