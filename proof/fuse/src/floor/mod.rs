//! Two file systems without a volume, for measuring: what FUSE itself takes on this machine, over the transports that
//! volumes are served on.
//!
//! - `null` keeps names and sizes in memory and no contents: reads give zeros.
//! - `through` hands everything on to a directory of another file system.
//!
//! Both are asked as a volume's mount is asked with its default options: files are opened without a request, and what
//! the kernel was told holds for an hour. So nobody else may change the directory meanwhile. What a caller may do is
//! not looked at.

mod files;
mod held;
mod null;
mod table;
mod through;

use crate::MountError;
use crate::coming::Serve;
use crate::flags;
use crate::kernel::KernelMount;
use crate::ops::Counters;
use crate::options::MountOptions;
use crate::proto::numbers::Init;
use crate::serve::{Point, READ_AHEAD_KIB, Wanted, connect, join};
use files::{Files, Serving};
use null::Null;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use through::Through;

/// Bytes of memory for messages: as many as a volume's mount has with its default options.
const ROOM: usize = 32 << 20;

/// What a mount asks the kernel for, without what leaves the server something to do. But for setuid: without that flag
/// the kernel asks for `security.capability` before every write instead of the first.
fn wanted(rings: bool) -> Init {
    const LEFT_TO_THE_KERNEL: Init = Init::EXPORT_SUPPORT.union(Init::DONT_MASK).union(Init::SETXATTR_EXT);
    flags::of_mount(false, false, rings) - LEFT_TO_THE_KERNEL
}

/// What is served.
#[derive(Clone, Copy, Debug)]
pub enum FloorKind<'a> {
    /// Names and sizes, in memory.
    Null,
    /// What is in this directory.
    Through(&'a Path),
}

/// A file system without a volume, being served.
pub struct Floor {
    kernel: KernelMount,
    session: JoinHandle<io::Result<()>>,
    counters: Arc<Counters>,
}

impl Floor {
    /// Mounts it on `dir` and serves it. `ended` is called from a serving thread once the kernel side is gone, whoever
    /// unmounted it. What is made below another directory is subject to this process's umask.
    ///
    /// # Errors
    /// The directory to hand on to cannot be opened, or the mount could not be made; nothing is left of it then.
    pub fn mount(
        kind: FloorKind<'_>,
        dir: &Path,
        options: &MountOptions,
        ended: impl FnOnce() + Send + 'static,
    ) -> Result<Self, MountError> {
        let counters = Arc::new(Counters::default());
        let (files, source): (Box<dyn Files>, _) = match kind {
            FloorKind::Null => (Box::new(Null::new()), "null".to_owned()),
            FloorKind::Through(below) => {
                let point = |source: io::Error| MountError::Point { dir: below.to_owned(), source, hint: "" };
                (Box::new(Through::new(below).map_err(point)?), crate::fusermount::shown(below.as_os_str()))
            }
        };
        let wanted = wanted(options.transport.wants_rings());
        let serving = Serving { files, counters: Arc::clone(&counters) };
        let server = |_agreed| Box::new(serving) as Box<dyn Serve>;
        let (kernel, session) =
            connect(Point { dir, source: &source }, options, Wanted { room: ROOM, flags: wanted }, server, ended)?;
        kernel.read_ahead(READ_AHEAD_KIB);
        Ok(Self { kernel, session, counters })
    }

    /// Requests served so far, by name.
    pub fn requests(&self) -> Vec<(&'static str, u64)> {
        self.counters.read()
    }

    /// Unmounts unless that has happened, and waits until nothing is served any more.
    ///
    /// # Errors
    /// The kernel refuses, or serving stopped for an error of the transport.
    pub fn finish(self) -> Result<(), MountError> {
        let Self { kernel, session, counters: _ } = self;
        if !session.is_finished() && kernel.is_there() {
            let dir = kernel.dir().to_owned();
            let whole = kernel.unmount().map_err(|source| MountError::Unmount { dir, source })?;
            if !whole {
                // Its users keep the connection; the threads end with them or with the process.
                return Ok(());
            }
        }
        join(session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::numbers::fattr;
    use crate::proto::wire::SetattrIn;
    use files::ROOT;

    #[test]
    fn setuid_goes_where_a_request_says_so() {
        let below = tempfile::tempdir().unwrap();
        let all: [Box<dyn Files>; 2] = [Box::new(Null::new()), Box::new(Through::new(below.path()).unwrap())];
        for files in all {
            for (name, mode, without) in [(&b"a"[..], 0o6755, 0o755), (b"b", 0o2644, 0o2644), (b"c", 0o644, 0o644)] {
                let node = files.make(ROOT, name, 0o100_000 | mode & 0o777, 0).unwrap().node;
                let set = SetattrIn { valid: fattr::MODE, mode, ..SetattrIn::default() };
                assert_eq!(files.setattr(node, &set).unwrap().mode, 0o100_000 | mode);
                assert_eq!(files.take_suid(node), Ok(mode != without));
                assert_eq!(files.getattr(node).unwrap().mode, 0o100_000 | without);
            }
        }
    }
}
