//! Requests about inodes, their extended attributes, and the volume as a whole.

use super::sender::Capability;
use super::{Answer, Op, Ops, Sender};
use crate::client::{INFO, SNAPSHOTS, STATS};
use ondol::inodes::Error;
use ondol::{Attr, FileType, FsxAttr, Ino, ROOT, SetAttr, SetXattr, StatFs};

/// Attributes that only CAP_SYS_ADMIN sees listed.
const TRUSTED: &[u8] = b"trusted.";

/// An extended attribute to be set.
pub(crate) struct SetAttribute<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) value: &'a [u8],
    /// `None`: it must be new and be there already, which fails in either case.
    pub(crate) how: Option<SetXattr>,
    /// A new access control list takes the setgid bit away.
    pub(crate) kill_sgid: bool,
}

/// Whether there are setuid and setgid bits that a change can take away.
pub(super) fn has_suid(a: &Attr) -> bool {
    const SUID_SGID: u16 = 0o6000;
    a.perm & SUID_SGID != 0 && a.file_type != FileType::Directory
}

/// The flags of chattr(1) that need a capability and that the sender may change, in ext4's bits.
fn guarded(sender: Sender) -> u32 {
    const DATA_JOURNALING: u32 = 0x4000;
    const IMMUTABLE: u32 = 0x10;
    const APPEND: u32 = 0x20;
    let may = |capability, flags| if sender.may(capability) { flags } else { 0 };
    may(Capability::LinuxImmutable, IMMUTABLE | APPEND) | may(Capability::SysResource, DATA_JOURNALING)
}

impl Ops {
    /// An inode's attributes, for a request for them or for one that needs them.
    pub(crate) fn getattr(&self, op: Op, ino: Ino) -> Answer<Attr> {
        self.ask(op, |i| i.getattr(ino))
    }

    /// The kernel forgets inodes: each with how often it was told of it by an answer that names it.
    pub(crate) fn forget(&self, inodes: impl Iterator<Item = (Ino, u64)>) {
        // Nobody is there to hear of what fails: the next mount deletes what this one cannot.
        let _: Answer<()> = self.vouch(Op::Forget, |i| {
            for (ino, times) in inodes {
                if let Err(e) = i.inode_ops().forget(ino, times) {
                    tracing::warn!("inode {ino} is left to be deleted by the next mount: {e}");
                }
            }
            Ok(())
        });
    }

    /// Changes attributes; setuid and setgid only go where what they are of is not a directory.
    pub(crate) fn setattr(&self, ino: Ino, mut set: SetAttr, sender: Sender) -> Answer<Attr> {
        self.change(Op::Setattr, sender, |i| {
            set.kill_suid = set.kill_suid && has_suid(&i.getattr(ino)?);
            i.inode_ops().setattr(ino, &set)
        })
    }

    /// The flags of chattr(1).
    pub(crate) fn flags(&self, ino: Ino) -> Answer<u32> {
        self.ask(Op::Ioctl, |i| i.inode_ops().flags(ino))
    }

    /// Sets them.
    pub(crate) fn set_flags(&self, ino: Ino, flags: u32, sender: Sender) -> Answer<()> {
        self.change(Op::Ioctl, sender, |i| i.inode_ops().set_flags(ino, flags, guarded(sender)))
    }

    /// The flags that all file systems share, and the project.
    pub(crate) fn fsxattr(&self, ino: Ino) -> Answer<FsxAttr> {
        self.ask(Op::Ioctl, |i| i.inode_ops().fsxattr(ino))
    }

    /// Sets them.
    pub(crate) fn set_fsxattr(&self, ino: Ino, set: &FsxAttr, sender: Sender) -> Answer<()> {
        self.change(Op::Ioctl, sender, |i| i.inode_ops().set_fsxattr(ino, set, guarded(sender)))
    }

    /// Gives free space back to the medium; how many bytes.
    pub(crate) fn trim(&self, start: u64, len: u64, minimum: u64, sender: Sender) -> Answer<u64> {
        if !sender.may(Capability::SysAdmin) {
            return Err(rustix::io::Errno::PERM.into());
        }
        self.change(Op::Ioctl, sender, |i| i.space().trim(start, len, minimum))
    }

    /// The volume's label.
    pub(crate) fn label(&self) -> Answer<String> {
        self.enter(Op::Ioctl, |volume| volume.info().map(|i| i.label).map_err(|e| Error::Unsupported(e.to_string())))
    }

    /// Where a symbolic link points.
    pub(crate) fn readlink(&self, ino: Ino) -> Answer<Vec<u8>> {
        self.ask(Op::Readlink, |i| i.names().readlink(ino))
    }

    /// An attribute's value. The root directory also has those through which `ondol info` and `ondol top` ask the
    /// server.
    pub(crate) fn getxattr(&self, ino: Ino, name: &[u8], sender: Sender) -> Answer<Vec<u8>> {
        if ino == ROOT && name == SNAPSHOTS.as_bytes() {
            return self.whole().snapshots(sender);
        }
        if ino == ROOT
            && let Some(made) = self.whole().make(name, sender)
        {
            return made;
        }
        self.enter(Op::Getxattr, |volume| match name {
            _ if ino != ROOT => volume.inodes().xattrs().getxattr(ino, name),
            _ if name == INFO.as_bytes() => self.info(volume),
            _ if name == STATS.as_bytes() => self.stats(volume),
            _ => volume.inodes().xattrs().getxattr(ino, name),
        })
    }

    /// The names of all attributes that the sender may know of.
    pub(crate) fn listxattr(&self, ino: Ino, sender: Sender) -> Answer<Vec<u8>> {
        self.ask(Op::Listxattr, |i| {
            let mut names = i.xattrs().listxattr(ino)?;
            if names.iter().any(|name| name.starts_with(TRUSTED)) && !sender.may(Capability::SysAdmin) {
                names.retain(|name| !name.starts_with(TRUSTED));
            }
            Ok(names.into_iter().flat_map(|name| [&name[..], &[0]].concat()).collect())
        })
    }

    /// Sets an attribute; with `kill_sgid` a new access control list takes the setgid bit away.
    pub(crate) fn setxattr(&self, ino: Ino, set: &SetAttribute<'_>, sender: Sender) -> Answer<()> {
        let SetAttribute { name, value, how, kill_sgid } = *set;
        if ino == ROOT
            && let Some(noted) = self.whole().say(name, value, sender)
        {
            return noted;
        }
        self.change(Op::Setxattr, sender, |i| match (how, kill_sgid) {
            (None, _) => i.xattrs().getxattr(ino, name).and(Err(Error::Exists)),
            (Some(how), true) => i.xattrs().setxattr_without_setgid(ino, name, value, how),
            (Some(how), false) => i.xattrs().setxattr(ino, name, value, how),
        })
    }

    /// Removes an attribute.
    pub(crate) fn removexattr(&self, ino: Ino, name: &[u8], sender: Sender) -> Answer<()> {
        self.change(Op::Removexattr, sender, |i| i.xattrs().removexattr(ino, name))
    }

    /// Space in all and free.
    pub(crate) fn statfs(&self) -> Answer<StatFs> {
        self.ask(Op::Statfs, |i| Ok(i.inode_ops().statfs_forgetting()))
    }
}
