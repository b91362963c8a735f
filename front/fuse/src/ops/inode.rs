//! Requests about inodes, their extended attributes, and the volume as a whole.

use super::{Answer, Op, Ops, Sender};
use crate::client::{INFO, SERVER};
use ondol::inodes::Error;
use ondol::{Attr, FileType, Ino, ROOT, SetAttr, SetXattr, StatFs, Volume};
use serde_json::{Map, Value};

/// Attributes that only root may see listed.
const TRUSTED: &[u8] = b"trusted.";

impl Ops {
    /// What stat(2) tells.
    pub(crate) fn getattr(&self, ino: Ino) -> Answer<Attr> {
        self.ask(Op::Getattr, |i| i.getattr(ino))
    }

    /// What statx(2) tells.
    pub(crate) fn statx(&self, ino: Ino) -> Answer<Attr> {
        self.ask(Op::Statx, |i| i.getattr(ino))
    }

    /// Attributes for ioctl(2).
    pub(crate) fn ioctl_attr(&self, ino: Ino) -> Answer<Attr> {
        self.ask(Op::Ioctl, |i| i.getattr(ino))
    }

    /// The kernel forgets inodes.
    pub(crate) fn forgotten(&self) {
        self.counters.count(Op::Forget);
    }

    /// Changes attributes. As the kernel does for its own file systems, a change of owner takes setuid and setgid from what is
    /// not a directory; for a change of size the kernel says whether it does.
    pub(crate) fn setattr(&self, ino: Ino, mut set: SetAttr) -> Answer<Attr> {
        self.change(Op::Setattr, |i| {
            if set.kill_suid || set.uid.is_some() || set.gid.is_some() {
                let now = i.getattr(ino)?;
                set.kill_suid = now.perm & super::contents::SUID_SGID != 0 && now.file_type != FileType::Directory;
            }
            i.setattr(ino, &set)
        })
    }

    /// Where a symbolic link points.
    pub(crate) fn readlink(&self, ino: Ino) -> Answer<Vec<u8>> {
        self.ask(Op::Readlink, |i| i.readlink(ino))
    }

    /// An attribute's value. The root directory also has those through which `ondol info` and `ondol umount` ask the server.
    pub(crate) fn getxattr(&self, ino: Ino, name: &[u8]) -> Answer<Vec<u8>> {
        self.enter(Op::Getxattr, |volume| match name {
            _ if ino != ROOT => volume.inodes().getxattr(ino, name),
            _ if name == INFO.as_bytes() => self.info(volume),
            _ if name == SERVER.as_bytes() => Ok(crate::client::this_process().into_bytes()),
            _ => volume.inodes().getxattr(ino, name),
        })
    }

    /// The names of all attributes that the sender may know of.
    pub(crate) fn listxattr(&self, ino: Ino, sender: Sender) -> Answer<Vec<u8>> {
        self.ask(Op::Listxattr, |i| {
            let mut list = Vec::new();
            for name in i.listxattr(ino)? {
                if sender.uid == 0 || !name.starts_with(TRUSTED) {
                    list.extend_from_slice(&name);
                    list.push(0);
                }
            }
            Ok(list)
        })
    }

    /// Sets an attribute; with `kill_sgid` a new access control list takes the setgid bit away.
    pub(crate) fn setxattr(&self, ino: Ino, name: &[u8], value: &[u8], how: SetXattr, kill_sgid: bool) -> Answer<()> {
        const SGID: u16 = 0o2000;
        self.change(Op::Setxattr, |i| {
            i.setxattr(ino, name, value, how)?;
            let perm = if kill_sgid { i.getattr(ino)?.perm } else { 0 };
            if perm & SGID != 0 {
                i.setattr(ino, &SetAttr { perm: Some(perm & !SGID), ..SetAttr::default() })?;
            }
            Ok(())
        })
    }

    /// Removes an attribute.
    pub(crate) fn removexattr(&self, ino: Ino, name: &[u8]) -> Answer<()> {
        self.change(Op::Removexattr, |i| i.removexattr(ino, name))
    }

    /// Space in all and free.
    pub(crate) fn statfs(&self) -> Answer<StatFs> {
        self.ask(Op::Statfs, |i| Ok(i.statfs()))
    }

    /// The volume's state with the requests counted here, as JSON.
    fn info(&self, volume: &Volume) -> Result<Vec<u8>, Error> {
        let wrong = |_| Error::Invalid("the volume's state has no JSON form");
        let state = volume.info().map_err(|e| Error::Unsupported(e.to_string()))?;
        let mut info = serde_json::to_value(state).map_err(wrong)?;
        let requests = self.counters.read();
        let total: u64 = requests.iter().map(|(_, n)| n).sum();
        if let Some(counters) = info.get_mut("counters").and_then(Value::as_object_mut) {
            counters.insert("fuse_requests".into(), total.into());
        }
        if let Some(fields) = info.as_object_mut() {
            let requests: Map<String, Value> = requests.into_iter().map(|(kind, n)| (kind.into(), n.into())).collect();
            fields.insert("requests".into(), requests.into());
        }
        serde_json::to_vec(&info).map_err(wrong)
    }
}
