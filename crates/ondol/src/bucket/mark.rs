//! What other processes of this machine see of a volume in object storage that is open: a locked file without a place,
//! of a name that says which volume it is. A mount's source is only what somebody has called it; with an image it is
//! the lock on the image that says who serves it, and when that has ended.

#[cfg(feature = "object")]
pub(super) use made::Mark;

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const FIRST: &[u8] = b"ondol:";

/// The most bytes of a target that the kernel takes for a name.
const MOST: usize = 240;

/// What is written when all that was done is in the bucket and the lease is given back.
const CLOSED: &[u8] = b"closed";

/// What the file of `target` is called.
fn name(target: &Path) -> Vec<u8> {
    let target = target.as_os_str().as_bytes();
    [FIRST, &target[..target.len().min(MOST)]].concat()
}

/// How `/proc/PID/fd` shows that a process has the volume `target` in object storage open: that file is locked, too,
/// exclusively by who writes.
pub fn mark_of(target: &Path) -> PathBuf {
    let link = [b"/memfd:", &name(target)[..], b" (deleted)"].concat();
    PathBuf::from(OsStr::from_bytes(&link))
}

/// Whether such a file says that whoever had the volume open has closed it, and could write everything.
pub fn says_closed(file: &File) -> bool {
    let mut said = [0; CLOSED.len()];
    file.read_exact_at(&mut said, 0).is_ok() && said == CLOSED
}

#[cfg(feature = "object")]
mod made {
    use super::{CLOSED, name};
    use ondol_block::Access;
    use rustix::fs::{FlockOperation, MemfdFlags, flock, memfd_create};
    use std::fs::File;
    use std::io::Write;
    use std::path::Path;

    /// Such a file of a process that has the volume open.
    pub(in super::super) struct Mark(pub(super) Option<File>);

    impl Mark {
        /// Makes it. A system that has no such files shows nothing.
        pub(in super::super) fn new(target: &Path, access: Access) -> Self {
            let lock = match access {
                Access::Write => FlockOperation::NonBlockingLockExclusive,
                Access::Read => FlockOperation::NonBlockingLockShared,
            };
            let made =
                memfd_create(name(target), MemfdFlags::CLOEXEC).and_then(|file| flock(&file, lock).map(|()| file));
            Self(made.inspect_err(|e| tracing::debug!("nobody sees who has it open: {e}")).ok().map(File::from))
        }

        /// The volume was closed.
        pub(in super::super) fn close(&self) {
            let Some(mut file) = self.0.as_ref() else { return };
            let said = file.write_all(CLOSED).and_then(|()| Ok(flock(file, FlockOperation::Unlock)?));
            if let Err(e) = said {
                tracing::debug!("nobody sees that it is closed: {e}");
            }
        }
    }
}

#[cfg(all(test, feature = "object"))]
mod tests {
    use super::*;
    use ondol_block::Access;
    use rustix::fs::{FlockOperation, flock};
    use std::os::fd::AsRawFd;

    #[test]
    fn a_mark_is_seen_by_its_name_and_says_when_it_is_closed() {
        let target = Path::new("s3://bucket/a prefix");
        let mark = Mark::new(target, Access::Write);
        let path = format!("/proc/self/fd/{}", mark.0.as_ref().unwrap().as_raw_fd());
        assert_eq!(std::fs::read_link(&path).unwrap(), mark_of(target));
        let seen = File::open(&path).unwrap();
        let locked = || flock(&seen, FlockOperation::NonBlockingLockShared).is_err();
        assert!(locked() && !says_closed(&seen));
        mark.close();
        assert!(!locked() && says_closed(&seen));
        assert!(mark_of(Path::new(&"x".repeat(5000))).as_os_str().len() < 300);
    }
}
