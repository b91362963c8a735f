//! Why a mount could not be made, served, ended or asked.

use std::io;
use std::path::PathBuf;

/// Why serving a mount failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// `/dev/fuse` cannot be used.
    #[error("cannot open /dev/fuse: {0}; is the fuse module loaded, and may this user open it?")]
    Device(#[source] io::Error),
    /// The mount point cannot be used.
    #[error("cannot use {dir} as a mount point: {source}{hint}")]
    Point {
        /// The mount point as given.
        dir: PathBuf,
        /// The operating system's reason.
        source: io::Error,
        /// What helps, or empty.
        hint: &'static str,
    },
    /// mount(2) refused.
    #[error("cannot mount on {dir}: {source}")]
    Mount {
        /// The mount point.
        dir: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// The helper that mounts for users without privilege failed; its own words.
    #[error("cannot mount on {dir}: {said}")]
    Helper {
        /// The mount point.
        dir: PathBuf,
        /// What the helper wrote, or why it did not run.
        said: String,
    },
    /// The kernel and the server could not agree on a protocol.
    #[error("the kernel did not accept the FUSE connection: {0}")]
    Handshake(#[source] io::Error),
    /// A thread could not be started.
    #[error("cannot start the serving threads: {0}")]
    Threads(#[source] io::Error),
    /// The mount could not be removed.
    #[error("cannot unmount {dir}: {source}")]
    Unmount {
        /// The mount point.
        dir: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// Serving stopped for an error of the transport.
    #[error("the FUSE connection failed: {0}")]
    Served(#[source] io::Error),
    /// A request made the server panic; changes were refused from then on.
    #[error(
        "a request failed unexpectedly (see the log), and further changes were refused: run `ondol check` on the image"
    )]
    Broken,
    /// Closing the volume failed.
    #[error(transparent)]
    Close(ondol::Error),
}

/// Why a mount that another process serves could not be asked or ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The directory cannot be reached.
    #[error("cannot open {dir}: {source}")]
    Open {
        /// The directory as given.
        dir: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// The table of mounts cannot be read.
    #[error("cannot read /proc/self/mountinfo: {0}")]
    Table(#[source] io::Error),
    /// No volume of ours is mounted there.
    #[error("{0} is not on a volume mounted by ondol")]
    NotOurs(PathBuf),
    /// The directory lies on a mount, but is not where it was mounted.
    #[error("{dir} is not a mount point; the volume is mounted on {point}")]
    NotMountPoint {
        /// The directory as given.
        dir: PathBuf,
        /// The mount point of the volume that it lies on.
        point: PathBuf,
    },
    /// Somebody uses the mount.
    #[error(
        "cannot unmount {0}: it is in use; close the files and leave the directories on it (`fuser -vm DIR` lists who)"
    )]
    Busy(PathBuf),
    /// The mount could not be removed.
    #[error("cannot unmount {dir}: {said}")]
    Unmount {
        /// The mount point.
        dir: PathBuf,
        /// The reason.
        said: String,
    },
    /// The server did not answer as it should.
    #[error("cannot {what} {dir}: {source}")]
    Ask {
        /// What was asked: `sync`, `read the state of`.
        what: &'static str,
        /// The mount point.
        dir: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
}
