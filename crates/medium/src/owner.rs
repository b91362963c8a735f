//! Whose a pool is: told by the opened descriptor, never by a path that is asked again, and never by the pool's bytes.

use crate::mountinfo;
use crate::users::User;
use crate::{NvmError, Result};
use rustix::fs::StatVfsMountFlags;
use std::fs::File;
use std::os::unix::fs::MetadataExt;

/// Whose pool may be opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Whose {
    /// Anybody's: what is in it gives nobody anything.
    #[default]
    Anybodys,
    /// One user's, who is known, and is this process's unless that is root's. Nobody else may store to it.
    OneUsers,
    /// This process's user's, and no others may even read it: it will hold what private files hold.
    Mine,
}

const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;
const RAMFS_MAGIC: rustix::fs::FsWord = 0x8584_58f6u32 as rustix::fs::FsWord;

/// The file lies in the kernel's own memory.
pub(crate) fn is_in_memory(file: &File) -> rustix::io::Result<bool> {
    let magic = rustix::fs::fstatfs(file)?.f_type;
    Ok(magic == TMPFS_MAGIC || magic == RAMFS_MAGIC)
}

impl Whose {
    /// The number of the user that an opened file belongs to, if it may be opened for that; none if nobody has asked.
    pub(crate) fn check(self, file: &File, name: &str) -> Result<Option<u32>> {
        if self == Self::Anybodys {
            return Ok(None);
        }
        let meta = file.metadata().map_err(|source| NvmError::Open { what: "open", name: name.into(), source })?;
        let (uid, mode, me) = (meta.uid(), meta.mode(), rustix::process::geteuid());
        let what = match self {
            _ if mode & 0o022 != 0 => "others than its owner may write to it: use another one".into(),
            _ if uid != me.as_raw() && (self == Self::Mine || !me.is_root()) => {
                format!("it belongs to the user with number {uid}: use one of your own")
            }
            Self::Mine if mode & 0o077 != 0 => {
                format!("others may read in it what this user's private files hold: chmod 600 {name}")
            }
            _ => match is_believed(file, uid) {
                Ok(true) => return Ok(Some(uid)),
                Ok(false) => format!(
                    "whose it is tells a file system that is mounted with nosuid: use one elsewhere, or mount it \
                     without nosuid if nobody but root could have made what lies there; it says user {uid}"
                ),
                Err(source) => {
                    return Err(NvmError::Open { what: "tell the owner of", name: name.into(), source: source.into() });
                }
            },
        };
        Err(NvmError::Foreign { name: name.into(), what })
    }
}

/// A file system's word for the owner counts where the kernel would believe it a setuid bit; where the kernel itself
/// remembers the owner; and where that owner's home is, whose files that user's shell runs anyway.
fn is_believed(file: &File, uid: u32) -> rustix::io::Result<bool> {
    if !rustix::fs::fstatvfs(file)?.f_flag.contains(StatVfsMountFlags::NOSUID) || is_in_memory(file)? {
        return Ok(true);
    }
    let mount = mountinfo::mount_of(file)?;
    let (Some(user), Ok(table)) = (User::of(uid), mountinfo::read()) else { return Ok(false) };
    Ok(mountinfo::covering(&table, &user.home).is_some_and(|entry| entry.id == mount))
}
