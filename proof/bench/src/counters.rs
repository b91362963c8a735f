//! What a target did on its medium: counters that do not depend on how noisy the machine is.

mod store;

pub(crate) use store::Store;

use crate::BenchError;
use crate::error::Context;
use crate::measure::Asked;
use crate::processes::Server;
use ondol::{NvmCounts, Volume};
use ondol_block::BlockStore;
use ondol_fuse::client;
use serde::Serialize;
use serde_json::{Value, json};
use std::io;
use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The extended attribute of a mount's root that holds its `info` as JSON.
const INFO_XATTR: &str = "ondol.info";
/// Bytes in the units in which the kernel counts a disk's writes.
const SECTOR: u64 = 512;
/// Bytes of a line.
const LINE: u64 = 64;

/// Totals over all measured rounds of a target. `None` (null in JSON): the target does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Counters {
    /// Operations of the workload.
    pub(crate) ops: u64,
    /// Bytes that the workload wrote.
    pub(crate) user_bytes: u64,
    /// fsyncs and fdatasyncs of the workload.
    pub(crate) fsyncs: u64,
    /// What the workload's threads asked of the kernel.
    pub(crate) client: Asked,
    /// What happened below.
    #[serde(flatten)]
    pub(crate) device: Device,
}

/// Counters that `info` has by the same names. One that is not there is 0, as of an engine that does not have it.
macro_rules! counts {
    ($(#[$about:meta])* $name:ident { $($(#[$what:meta])* $field:ident,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
        pub(crate) struct $name {
            $($(#[$what])* pub(crate) $field: u64,)*
        }

        impl $name {
            pub(crate) fn of(counters: &Value) -> Self {
                Self { $($field: counters.get(stringify!($field)).and_then(Value::as_u64).unwrap_or(0),)* }
            }

            pub(crate) fn with(self, other: Self, how: fn(u64, u64) -> u64) -> Self {
                Self { $($field: how(self.$field, other.$field),)* }
            }
        }
    };
}
pub(crate) use counts;

counts! {
    /// What a journal engine of ours did.
    Engine {
        /// Transactions committed.
        commits,
        /// Blocks written to the journal.
        journal_blocks,
        /// Blocks written home.
        checkpoint_blocks,
        /// Blocks that came home from the journal without a copy.
        swapped_blocks,
        /// Commits that an operation had to do for journal space.
        foreground_commits,
        /// Checkpoints that an operation had to wait for.
        foreground_checkpoints,
        /// Blocks of new data written home before their transaction counted.
        staged_blocks,
        /// Those of them that were home before the commit began.
        staged_early_blocks,
        /// Blocks of new data that nobody had written when their commit began.
        kept_blocks,
        /// Blocks that were freed before their commit, and never written.
        dead_blocks,
        /// Bytes of new data written home past cache and journal.
        passed_bytes,
        /// Writes of new data.
        data_runs,
        /// Commits that somebody waited for.
        commits_asked,
        /// Of old transactions.
        commits_age,
        /// Of transactions with much to write.
        commits_dirty,
        /// Of transactions with much in memory.
        commits_kept,
        /// For journal space.
        commits_promises,
        /// Bytes that may wait, in the end.
        dirty_bound,
        /// Nanoseconds that operations waited for journal space.
        stall_ns,
        /// Nanoseconds that commits spent on compressing.
        compress_ns,
        /// Bytes that were to be compressed.
        compress_bytes_in,
        /// What they became.
        compress_bytes_out,
    }
}

impl Engine {
    /// With what `now` has that is no total.
    fn with_now(self, now: Self) -> Self {
        Self { dirty_bound: now.dirty_bound, ..self }
    }

    /// The same with what is a total added, and the larger of what is not.
    fn plus(self, more: Self) -> Self {
        self.with(more, u64::saturating_add).with_now(self.with(more, u64::max))
    }
}

/// What happened on the media of a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Device {
    /// Bytes stored to NVM.
    pub(crate) nvm_bytes: Option<u64>,
    /// Those of them that were copied past the caches.
    pub(crate) nvm_copied_bytes: Option<u64>,
    /// Lines of 64 bytes written back to NVM; what was copied is not among them.
    pub(crate) nvm_lines: Option<u64>,
    /// Fences.
    pub(crate) nvm_fences: Option<u64>,
    /// Bytes read from NVM.
    pub(crate) nvm_bytes_read: Option<u64>,
    /// Bytes written to the block device.
    pub(crate) device_bytes: Option<u64>,
    /// Flushes of the block device.
    pub(crate) device_flushes: Option<u64>,
    /// Bytes that the arm of a modelled hard disk has moved over.
    pub(crate) arm_bytes: Option<u64>,
    /// Requests that the FUSE server received.
    pub(crate) fuse_requests: Option<u64>,
    /// What the server's process did.
    pub(crate) server: Option<Server>,
    /// What our journal engine did.
    pub(crate) engine: Option<Engine>,
    /// What was asked of object storage.
    pub(crate) store: Option<Store>,
}

impl Device {
    /// What was counted after `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        let since = self.with(before, u64::saturating_sub);
        let of_now = |(since, now): (Engine, Engine)| since.with_now(now);
        Self { engine: since.engine.zip(self.engine).map(of_now), ..since }
    }

    /// With what NVM has counted in the end, when its volume was closed, since `before`.
    pub(crate) fn with_nvm(self, counts: NvmCounts, before: NvmCounts) -> Self {
        let since = |get: fn(&NvmCounts) -> u64| Some(get(&counts).saturating_sub(get(&before)));
        Self {
            nvm_bytes: since(|counts| counts.bytes),
            nvm_copied_bytes: since(|counts| counts.copied_bytes),
            nvm_lines: since(|counts| counts.lines),
            nvm_fences: since(|counts| counts.fences),
            nvm_bytes_read: since(|counts| counts.bytes_read),
            ..self
        }
    }

    /// Bytes that have reached NVM. `None` where caches survive: nobody writes back there.
    pub(crate) fn nvm_reached(&self) -> Option<u64> {
        let reached = self.nvm_lines?.saturating_mul(LINE).saturating_add(self.nvm_copied_bytes?);
        Some(reached).filter(|reached| *reached > 0 || self.nvm_bytes == Some(0))
    }

    fn with(self, other: Self, how: fn(u64, u64) -> u64) -> Self {
        let both = |a: Option<u64>, b: Option<u64>| Some(how(a?, b?));
        Self {
            nvm_bytes: both(self.nvm_bytes, other.nvm_bytes),
            nvm_copied_bytes: both(self.nvm_copied_bytes, other.nvm_copied_bytes),
            nvm_lines: both(self.nvm_lines, other.nvm_lines),
            nvm_fences: both(self.nvm_fences, other.nvm_fences),
            nvm_bytes_read: both(self.nvm_bytes_read, other.nvm_bytes_read),
            device_bytes: both(self.device_bytes, other.device_bytes),
            device_flushes: both(self.device_flushes, other.device_flushes),
            arm_bytes: both(self.arm_bytes, other.arm_bytes),
            fuse_requests: both(self.fuse_requests, other.fuse_requests),
            server: self.server.zip(other.server).map(|(a, b)| a.with(b, how)),
            engine: self.engine.zip(other.engine).map(|(a, b)| a.with(b, how)),
            store: self.store.zip(other.store).map(|(a, b)| a.with(b, how)),
        }
    }

    /// The part of `info` that the bench shows. Media that the volume does not have count 0.
    fn of_info(info: &Value) -> Self {
        let counters = info.get("counters");
        let get = |name: &str| counters.and_then(|counters| counters.get(name)).and_then(Value::as_u64);
        Self {
            nvm_bytes: Some(get("nvm_bytes").unwrap_or(0)),
            nvm_copied_bytes: Some(get("nvm_copied_bytes").unwrap_or(0)),
            nvm_lines: Some(get("nvm_lines").unwrap_or(0)),
            nvm_fences: Some(get("nvm_fences").unwrap_or(0)),
            nvm_bytes_read: Some(get("nvm_bytes_read").unwrap_or(0)),
            device_bytes: get("device_bytes_written"),
            device_flushes: get("device_flushes"),
            arm_bytes: None,
            fuse_requests: Some(get("fuse_requests").unwrap_or(0)),
            server: None,
            engine: counters.map(Engine::of),
            store: Store::of_info(info),
        }
    }

    /// The part of `/sys/block/DEVICE/stat` that the bench shows (Documentation/block/stat.rst: the 7th field is
    /// sectors written, the 16th flushes).
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
        let engine = self.engine.zip(other.engine).map(|(a, b)| a.plus(b));
        *self = Self { engine, ..self.with(other, u64::saturating_add) };
    }
}

/// Where a target's counters are read.
pub(crate) enum Probe {
    /// Nowhere.
    None,
    /// The kernel's statistics of a block device.
    BlockStat(PathBuf),
    /// A store that this process has opened: a file, or a modelled device.
    Store(Arc<dyn BlockStore>),
    /// The root of one of our mounts.
    Mount(PathBuf),
    /// The same of a volume in object storage.
    FarMount(PathBuf),
    /// One of our volumes.
    Volume(Arc<Volume>),
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
            Self::Store(store) => {
                let stats = store.stats();
                let (bytes, flushes) = (Some(stats.written_bytes), Some(stats.flushes));
                Ok(Device { device_bytes: bytes, device_flushes: flushes, ..Device::default() })
            }
            Self::Mount(_) | Self::FarMount(_) | Self::Volume(_) => Ok(Device::of_info(&self.info()?)),
        }
    }

    /// `ondol info` of one of our volumes; null for others. Of one in object storage, what can be told without a request to the store: those are counted.
    pub(crate) fn info(&self) -> Result<Value, BenchError> {
        match self {
            Self::None | Self::BlockStat(_) | Self::Store(_) => Ok(Value::Null),
            Self::Mount(root) => asked(root, INFO_XATTR),
            Self::FarMount(root) => asked(root, client::STATS),
            Self::Volume(volume) if volume.bucket_info().is_some() => Ok(json!({
                "mount": volume.mount_info(), "bucket": volume.bucket_info(), "counters": volume.counters()
            })),
            Self::Volume(volume) => {
                let info = volume.info().map_err(io::Error::from).context(|| "the volume's info")?;
                serde_json::to_value(info).map_err(io::Error::from).context(|| "the volume's info")
            }
        }
    }
}

/// An attribute of a mount's root, which is JSON.
fn asked(root: &Path, attribute: &str) -> Result<Value, BenchError> {
    let what = || format!("{}: attribute {attribute}", root.display());
    let mut json = vec![0; 64 << 10];
    let len = rustix::fs::getxattr(root, attribute, &mut json).context(what)?;
    serde_json::from_slice(json.get(..len).unwrap_or_default()).map_err(io::Error::from).context(what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_is_mapped() {
        let counters = json!({"device_bytes_written": 8192, "device_flushes": 2, "fuse_requests": 7, "commits": 1});
        let info = json!({"counters": counters});
        let device = Device::of_info(&info);
        assert_eq!((device.device_bytes, device.device_flushes), (Some(8192), Some(2)));
        assert_eq!((device.nvm_bytes, device.fuse_requests), (Some(0), Some(7)));
        assert_eq!(device.engine, Some(Engine { commits: 1, ..Engine::default() }));
        let bound = |bytes| Device::of_info(&json!({"counters": {"commits": 7, "dirty_bound": bytes}}));
        let since = bound(5).since(bound(9)).engine.unwrap();
        assert_eq!((since.commits, since.dirty_bound), (0, 5), "it is what it is now");
        let mut twice = device;
        twice += device;
        assert_eq!(twice.engine.map(|engine| engine.commits), Some(2));
    }

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
