//! Changes of the volume as a whole, which are asked for at the root directory by two calls with the name of an
//! attribute.
//!
//! setxattr(2) says what, and is let through by the kernel on a mount for writing only, which no ioctl(2) needs. But it
//! keeps the directory locked as long as it lasts. So it says what only, and getxattr(2) of the same name by the same
//! thread does it, and has the outcome.

use super::timing::now;
use super::{Answer, Errno, Op, Ops, Sender};
use ondol::Volume;
use ondol::inodes::Error;
use rustix::io::Errno as Number;

/// Who has said what is to be done, and not yet done it, at most.
const MOST: usize = 16;

/// How long it counts, in nanoseconds.
const TIME: u64 = 5_000_000_000;

/// The most bytes that a value has.
const VALUE: usize = 255;

/// What can be done with the volume as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// It grows to so many bytes, in decimal digits, or without any to all that it lies on.
    Resize,
    /// A snapshot of this name is made.
    Snapshot,
    /// It is deleted.
    SnapshotDelete,
}

impl Change {
    fn named(name: &[u8]) -> Option<Self> {
        let all = [
            (crate::client::RESIZE, Self::Resize),
            (crate::client::SNAPSHOT_CREATE, Self::Snapshot),
            (crate::client::SNAPSHOT_DELETE, Self::SnapshotDelete),
        ];
        all.into_iter().find(|(known, _)| known.as_bytes() == name).map(|(_, change)| change)
    }
}

/// What somebody has said is to be done.
pub(super) struct Said {
    sender: Sender,
    at: u64,
    change: Change,
    value: String,
}

/// The operations on one mounted volume as a whole.
#[derive(Clone, Copy)]
pub(super) struct Whole<'a>(&'a Ops);

impl Ops {
    pub(super) fn whole(&self) -> Whole<'_> {
        Whole(self)
    }
}

impl Whole<'_> {
    /// Notes what the sender is about to do; `None` if the attribute is of no such change.
    pub(super) fn say(self, name: &[u8], value: &[u8], sender: Sender) -> Option<Answer<()>> {
        let change = Change::named(name)?;
        self.0.counters.count(Op::Setxattr);
        Some(self.note(change, value, sender).or_else(|e| self.0.refused(Op::Setxattr, e)))
    }

    fn note(self, change: Change, value: &[u8], sender: Sender) -> Answer<()> {
        Self::require_owner(sender)?;
        if value.len() > VALUE {
            return Err(Number::NAMETOOLONG.into());
        }
        let value = std::str::from_utf8(value).map_err(|_| Number::INVAL)?.to_owned();
        let (at, mut said) = (now(), self.0.said.lock());
        said.retain(|one| at < one.at + TIME && !one.sender.is(sender));
        if said.len() >= MOST {
            return Err(Number::BUSY.into());
        }
        said.push(Said { sender, at, change, value });
        Ok(())
    }

    /// Does what the sender has said before; `None` if the attribute is of no such change.
    pub(super) fn make(self, name: &[u8], sender: Sender) -> Option<Answer<Vec<u8>>> {
        let change = Change::named(name)?;
        let said = {
            let mut said = self.0.said.lock();
            let own = said.iter().position(|one| one.change == change && one.sender.is(sender));
            own.map(|n| said.swap_remove(n)).filter(|one| now() < one.at + TIME)
        };
        let Some(Said { value, .. }) = said else {
            self.0.counters.count(Op::Getxattr);
            return Some(self.0.refused(Op::Getxattr, Number::NODATA.into()));
        };
        let made = match change {
            Change::Resize => self.resize(&value),
            Change::Snapshot => self.ask(|volume| volume.snapshots().create(&value)).map(drop),
            Change::SnapshotDelete => self.ask(|volume| volume.snapshots().delete(&value)).map(drop),
        };
        if made.is_ok() {
            tracing::info!("{change:?} {value}: done");
        }
        Some(made.map(|()| Vec::new()))
    }

    /// Whether the sender may change the volume as a whole.
    fn require_owner(sender: Sender) -> Answer<()> {
        use super::sender::Capability::{SysAdmin, SysResource};
        // Who mounts as root is no single user: there, as ever, it takes a capability, ext4's own or the one to mount.
        let server = rustix::process::geteuid();
        let mounter = !server.is_root() && sender.user() == Some(server.as_raw()) && !sender.is_of_another_namespace();
        if mounter || sender.may(SysResource) || sender.may(SysAdmin) { Ok(()) } else { Err(Number::PERM.into()) }
    }

    fn resize(self, value: &str) -> Answer<()> {
        let bytes = match value {
            "" => None,
            digits => Some(digits.parse::<u64>().map_err(|_| Number::INVAL)?),
        };
        self.0.enter(Op::Getxattr, |volume| match volume.resize(bytes) {
            Ok(_) => Ok(()),
            Err(ondol::Error::Volume(e)) => {
                tracing::warn!("the volume does not grow: {e}");
                Err(e)
            }
            Err(e) => Err(Error::Unsupported(e.to_string())),
        })
    }

    /// The snapshots, as JSON.
    pub(super) fn snapshots(self, sender: Sender) -> Answer<Vec<u8>> {
        Self::require_owner(sender)?;
        let found = self.ask(|volume| volume.snapshots().list())?;
        serde_json::to_vec(&found).map_err(|_| Number::IO.into())
    }

    /// Serves a request whose errors have numbers of their own.
    fn ask<T>(self, f: impl FnOnce(&Volume) -> ondol::Result<T>) -> Answer<T> {
        let done = self.0.enter(Op::Getxattr, |volume| Ok(f(volume)))?;
        done.or_else(|e| {
            tracing::warn!("{e}");
            self.0.refused(Op::Getxattr, Errno(e.errno()))
        })
    }
}
