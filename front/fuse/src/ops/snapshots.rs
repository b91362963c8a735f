//! Snapshots of a volume in object storage, asked for through its mount.

use super::{Answer, Errno, Op, Ops, Sender};
use ondol::Volume;
use ondol_ring::SnapshotAsked;
use rustix::io::Errno as Number;

impl Ops {
    /// Makes a snapshot of the volume, or deletes one.
    pub(crate) fn snapshot(&self, asked: &SnapshotAsked, sender: Sender) -> Answer<()> {
        self.require_owner(sender)?;
        let name = asked.name().ok_or(Number::INVAL)?;
        let made = match asked.what {
            1 => true,
            2 => false,
            _ => return Err(Number::INVAL.into()),
        };
        self.whole(|volume| if made { volume.snapshot(name) } else { volume.snapshot_delete(name) })?;
        tracing::info!("snapshot {name} {}", if made { "made" } else { "deleted" });
        Ok(())
    }

    /// The snapshots, as JSON.
    pub(super) fn snapshots(&self, sender: Sender) -> Answer<Vec<u8>> {
        self.require_owner(sender)?;
        let found = self.whole(Volume::snapshots)?;
        serde_json::to_vec(&found).map_err(|_| Number::IO.into())
    }

    /// Serves a request whose errors have numbers of their own.
    fn whole<T>(&self, f: impl FnOnce(&Volume) -> ondol::Result<T>) -> Answer<T> {
        let done = self.enter(Op::Ioctl, |volume| Ok(f(volume)))?;
        done.or_else(|e| {
            tracing::warn!("{e}");
            self.refused(Op::Ioctl, Errno(e.errno()))
        })
    }
}
