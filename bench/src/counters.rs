//! What a target did on its medium: counters that do not depend on how noisy the machine is.

use crate::BenchError;
use crate::error::Context;
use serde::Serialize;
use std::ops::AddAssign;
use std::path::{Path, PathBuf};

/// Bytes in the units in which the kernel counts a disk's writes.
const SECTOR: u64 = 512;

/// Totals over all measured rounds of a target. `None` (null in JSON): the target does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Counters {
    /// Operations of the workload.
    pub(crate) ops: u64,
    /// Bytes that the workload wrote.
    pub(crate) user_bytes: u64,
    /// fsyncs and fdatasyncs of the workload.
    pub(crate) fsyncs: u64,
    /// What happened below.
    #[serde(flatten)]
    pub(crate) device: Device,
}

/// What happened on the media of a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Device {
    /// Bytes stored to NVM.
    pub(crate) nvm_bytes: Option<u64>,
    /// Lines written back to NVM.
    pub(crate) nvm_lines: Option<u64>,
    /// Fences.
    pub(crate) nvm_fences: Option<u64>,
    /// Bytes written to the block device.
    pub(crate) device_bytes: Option<u64>,
    /// Flushes of the block device.
    pub(crate) device_flushes: Option<u64>,
    /// Requests that the FUSE server received.
    pub(crate) fuse_requests: Option<u64>,
}

impl Device {
    /// What was counted after `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        self.with(before, u64::saturating_sub)
    }

    fn with(self, other: Self, how: fn(u64, u64) -> u64) -> Self {
        let both = |a: Option<u64>, b: Option<u64>| Some(how(a?, b?));
        Self {
            nvm_bytes: both(self.nvm_bytes, other.nvm_bytes),
            nvm_lines: both(self.nvm_lines, other.nvm_lines),
            nvm_fences: both(self.nvm_fences, other.nvm_fences),
            device_bytes: both(self.device_bytes, other.device_bytes),
            device_flushes: both(self.device_flushes, other.device_flushes),
            fuse_requests: both(self.fuse_requests, other.fuse_requests),
        }
    }

    /// The part of `/sys/block/DEVICE/stat` that the bench shows (Documentation/block/stat.rst: the 7th field is sectors
    /// written, the 16th flushes).
    fn of_block_stat(text: &str) -> Self {
        let field = |n: usize| text.split_ascii_whitespace().nth(n - 1).and_then(|field| field.parse::<u64>().ok());
        Self {
            device_bytes: field(7).map(|sectors| sectors.saturating_mul(SECTOR)),
            device_flushes: field(16),
            ..Self::default()
        }
    }
}

impl AddAssign for Device {
    fn add_assign(&mut self, other: Self) {
        *self = self.with(other, u64::saturating_add);
    }
}

/// Where a target's counters are read.
pub(crate) enum Probe {
    /// Nowhere.
    None,
    /// The kernel's statistics of a block device.
    BlockStat(PathBuf),
}

impl Probe {
    /// The statistics of a block device such as `/dev/loop0`, if the kernel keeps some.
    pub(crate) fn of_device(device: &Path) -> Self {
        let stat = device.file_name().map(|name| Path::new("/sys/block").join(name).join("stat"));
        stat.filter(|stat| stat.exists()).map_or(Self::None, Self::BlockStat)
    }

    /// The counters now.
    pub(crate) fn read(&self) -> Result<Device, BenchError> {
        match self {
            Self::None => Ok(Device::default()),
            Self::BlockStat(path) => {
                let text = std::fs::read_to_string(path).context(|| path.display().to_string())?;
                Ok(Device::of_block_stat(&text))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_statistics_are_mapped() {
        let text = "  1 2 3 4 5 6 70 8 9 10 11 12 13 14 15 16 17\n";
        let device = Device::of_block_stat(text);
        assert_eq!((device.device_bytes, device.device_flushes), (Some(70 * 512), Some(16)));
        assert_eq!(device.nvm_bytes, None);
    }

    #[test]
    fn rounds_add_up_and_the_unknown_stays_unknown() {
        let device = |bytes| Device { device_bytes: Some(bytes), ..Device::default() };
        let mut sum = device(10).since(device(4));
        sum += device(5);
        assert_eq!(sum.device_bytes, Some(11));
        assert_eq!(sum.device_flushes, None);
    }
}
