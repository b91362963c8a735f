//! Extended attributes and flags, by path.

use crate::path::{Follow, at, resolve};
use crate::{Result, SetXattr, Volume};
use ondol_volume::Ino;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// The extended attributes and flags of the files of a volume.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'v>(&'v Volume);

impl Volume {
    /// The extended attributes and flags of its files.
    pub fn attributes(&self) -> Attributes<'_> {
        Attributes(self)
    }
}

impl Attributes<'_> {
    fn named(self, path: &Path) -> Result<Ino> {
        resolve(self.0.usable()?, path, Follow::Yes).map(|attr| attr.ino)
    }

    /// The value of an extended attribute, such as `user.origin`. POSIX ACLs are attributes too
    /// (`system.posix_acl_access` and `…_default`).
    ///
    /// # Errors
    /// As getxattr(2).
    pub fn get(self, path: impl AsRef<Path>, name: impl AsRef<OsStr>) -> Result<Vec<u8>> {
        let path = path.as_ref();
        at(path, self.0.usable()?.xattrs().getxattr(self.named(path)?, name.as_ref().as_bytes()))
    }

    /// The names of all extended attributes.
    ///
    /// # Errors
    /// As listxattr(2).
    pub fn names(self, path: impl AsRef<Path>) -> Result<Vec<OsString>> {
        let path = path.as_ref();
        let names = at(path, self.0.usable()?.xattrs().listxattr(self.named(path)?))?;
        Ok(names.into_iter().map(OsString::from_vec).collect())
    }

    /// Sets an extended attribute, atomically.
    ///
    /// # Errors
    /// As setxattr(2).
    pub fn set(
        self,
        path: impl AsRef<Path>,
        name: impl AsRef<OsStr>,
        value: impl AsRef<[u8]>,
        how: SetXattr,
    ) -> Result<()> {
        let (path, name) = (path.as_ref(), name.as_ref().as_bytes());
        let ino = self.named(path)?;
        at(path, self.0.act(|inodes| inodes.xattrs().setxattr(ino, name, value.as_ref(), how)))
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// As removexattr(2).
    pub fn remove(self, path: impl AsRef<Path>, name: impl AsRef<OsStr>) -> Result<()> {
        let (path, name) = (path.as_ref(), name.as_ref().as_bytes());
        let ino = self.named(path)?;
        at(path, self.0.act(|inodes| inodes.xattrs().removexattr(ino, name)))
    }

    /// The flags of chattr(1), in ext4's bits (`FS_IOC_GETFLAGS`).
    ///
    /// # Errors
    /// As stat(2).
    pub fn flags(self, path: impl AsRef<Path>) -> Result<u32> {
        let path = path.as_ref();
        at(path, self.0.usable()?.inode_ops().flags(self.named(path)?))
    }

    /// Makes these the flags of chattr(1); bits that nobody can change are left as they are.
    ///
    /// # Errors
    /// As the ioctl `FS_IOC_SETFLAGS`: EOPNOTSUPP for flags that ext4 does not have or not for this type of file, EPERM
    /// for another change of what stays immutable.
    pub fn set_flags(self, path: impl AsRef<Path>, flags: u32) -> Result<()> {
        let path = path.as_ref();
        at(path, self.0.usable()?.inode_ops().set_flags(self.named(path)?, flags, u32::MAX))
    }
}
