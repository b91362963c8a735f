//! What a target did on its medium: counters that do not depend on how noisy the machine is.

mod store;

pub(crate) use store::Store;

use crate::BenchError;
use crate::error::Context;
use crate::measure::Asked;
use crate::processes::Server;
use ondol::{BlockStats, Counts, EngineStats, NvmStats, Volume};
use ondol_block::BlockStore;
use ondol_fuse::client;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use std::io;
use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The extended attribute of a mount's root that holds its `info` as JSON.
const INFO_XATTR: &str = "ondol.info";
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
    /// What the workload's threads asked of the kernel.
    pub(crate) client: Asked,
    /// What happened below.
    #[serde(flatten)]
    pub(crate) device: Device,
}

/// What happened on the media of a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Device {
    /// What was done to NVM.
    #[serde(flatten, serialize_with = "rows")]
    pub(crate) nvm: Option<NvmStats>,
    /// What was done to the block device.
    #[serde(flatten, serialize_with = "rows")]
    pub(crate) device: Option<BlockStats>,
    /// Bytes that the arm of a modelled hard disk has moved over.
    pub(crate) arm_bytes: Option<u64>,
    /// Requests that the FUSE server received.
    pub(crate) fuse_requests: Option<u64>,
    /// What the server's process did.
    pub(crate) server: Option<Server>,
    /// What our journal engine did.
    #[serde(serialize_with = "rows_if_told")]
    pub(crate) engine: Option<EngineStats>,
    /// What was asked of object storage.
    #[serde(serialize_with = "rows_if_told")]
    pub(crate) store: Option<Store>,
}

/// The rows of a part of the table by their names; null where the target does not tell.
fn rows<C: Counts, S: Serializer>(counts: &Option<C>, serializer: S) -> Result<S::Ok, S::Error> {
    let number = |at| counts.as_ref().and_then(|counts| counts.numbers().nth(at));
    serializer.collect_map(C::TABLE.iter().enumerate().map(|(at, row)| (row.name, number(at))))
}

/// The same; null for all of them together.
fn rows_if_told<C: Counts, S: Serializer>(counts: &Option<C>, serializer: S) -> Result<S::Ok, S::Error> {
    if counts.is_some() { rows(counts, serializer) } else { serializer.serialize_none() }
}

/// How two readings become one.
#[derive(Clone, Copy)]
enum How {
    /// What was counted after the other.
    Since,
    /// Both together.
    Plus,
}

impl How {
    fn of_numbers(self) -> fn(u64, u64) -> u64 {
        match self {
            Self::Since => u64::saturating_sub,
            Self::Plus => u64::saturating_add,
        }
    }

    fn of_counts<C: Counts>(self, one: Option<C>, other: Option<C>) -> Option<C> {
        one.zip(other).map(|(one, other)| match self {
            Self::Since => one.since(&other),
            Self::Plus => one.plus(&other),
        })
    }
}

impl Device {
    /// What was counted after `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        self.with(before, How::Since)
    }

    /// Bytes that have reached NVM. `None` where caches survive: nobody writes back there.
    pub(crate) fn nvm_reached(&self) -> Option<u64> {
        let reached = |nvm: &NvmStats| nvm.reached_bytes() > 0 || nvm.all_bytes() == 0;
        self.nvm.filter(reached).map(|nvm| nvm.reached_bytes())
    }

    fn with(self, other: Self, how: How) -> Self {
        let numbers = how.of_numbers();
        let both = |a: Option<u64>, b: Option<u64>| Some(numbers(a?, b?));
        Self {
            nvm: how.of_counts(self.nvm, other.nvm),
            device: how.of_counts(self.device, other.device),
            arm_bytes: both(self.arm_bytes, other.arm_bytes),
            fuse_requests: both(self.fuse_requests, other.fuse_requests),
            server: self.server.zip(other.server).map(|(a, b)| a.with(b, numbers)),
            engine: how.of_counts(self.engine, other.engine),
            store: how.of_counts(self.store, other.store),
        }
    }

    /// The part of `info` that the bench shows. Media that the volume does not have count 0.
    fn of_info(info: &Value) -> Self {
        let counters = info.get("counters");
        let get = |name: &str| counters.and_then(|counters| counters.get(name)).and_then(Value::as_u64).unwrap_or(0);
        Self {
            nvm: Some(Counts::from_rows(|row| get(row.name))),
            device: counters.map(|_| Counts::from_rows(|row| get(row.name))),
            arm_bytes: None,
            fuse_requests: Some(get("fuse_requests")),
            server: None,
            engine: counters.map(|_| Counts::from_rows(|row| get(row.name))),
            store: Store::of_info(info),
        }
    }

    /// `/sys/block/DEVICE/stat` (Documentation/block/stat.rst).
    fn of_block_stat(text: &str) -> Self {
        let field = |n: usize| text.split_ascii_whitespace().nth(n - 1).and_then(|field| field.parse::<u64>().ok());
        let bytes = |n| field(n).map(|sectors| sectors.saturating_mul(SECTOR));
        let counts = || {
            Some(BlockStats {
                reads: field(1)?,
                read_bytes: bytes(3)?,
                writes: field(5)?,
                written_bytes: bytes(7)?,
                discards: field(12)?,
                discarded_bytes: bytes(14)?,
                flushes: field(16)?,
            })
        };
        Self { device: counts(), ..Self::default() }
    }
}

impl AddAssign for Device {
    fn add_assign(&mut self, other: Self) {
        *self = self.with(other, How::Plus);
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
            Self::Store(store) => Ok(Device { device: Some(store.stats()), ..Device::default() }),
            Self::Mount(_) | Self::FarMount(_) | Self::Volume(_) => Ok(Device::of_info(&self.info()?)),
        }
    }

    /// `ondol info` of one of our volumes; null for others. Of one in object storage, what can be told without a
    /// request to the store: those are counted.
    pub(crate) fn info(&self) -> Result<Value, BenchError> {
        match self {
            Self::None | Self::BlockStat(_) | Self::Store(_) => Ok(Value::Null),
            Self::Mount(root) => asked(root, INFO_XATTR),
            Self::FarMount(root) => asked(root, client::STATS),
            Self::Volume(volume) if volume.state().bucket().is_some() => {
                let state = volume.state();
                Ok(json!({ "mount": state.mount(), "bucket": state.bucket(), "counters": state.counters() }))
            }
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
        let counters = json!({"device_written_bytes": 8192, "device_flushes": 2, "fuse_requests": 7, "commits": 1});
        let info = json!({"counters": counters});
        let device = Device::of_info(&info);
        assert_eq!(device.device, Some(BlockStats { written_bytes: 8192, flushes: 2, ..BlockStats::default() }));
        assert_eq!((device.nvm, device.fuse_requests), (Some(NvmStats::default()), Some(7)));
        assert_eq!(device.engine, Some(EngineStats { commits: 1, ..EngineStats::default() }));
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
        let known = device.device.unwrap();
        assert_eq!((known.reads, known.read_bytes, known.writes, known.written_bytes), (1, 3 * 512, 5, 70 * 512));
        assert_eq!((known.discards, known.discarded_bytes, known.flushes), (12, 14 * 512, 16));
        assert_eq!(device.nvm, None);
    }

    #[test]
    fn rounds_add_up_and_the_unknown_stays_unknown() {
        let device = |bytes| Device {
            device: Some(BlockStats { written_bytes: bytes, ..Default::default() }),
            ..Device::default()
        };
        let mut sum = device(10).since(device(4));
        sum += device(5);
        assert_eq!(sum.device.map(|device| device.written_bytes), Some(11));
        assert_eq!(sum.nvm, None);
        let json = serde_json::to_value(sum).unwrap();
        assert_eq!(
            (&json["device_written_bytes"], &json["nvm_lines"], &json["engine"]),
            (&json!(11), &json!(null), &json!(null))
        );
    }
}
