//! Why a mount could not be made, served, ended or asked.

use rustix::io::Errno;
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
    /// Its server has gone.
    #[error(
        "{point} has lost its server: `ondol umount {point}` removes it; what was synced is in the image, {image}, \
         and is there again after `ondol recover` or the next mount"
    )]
    Dead {
        /// The mount point.
        point: PathBuf,
        /// What mount tables show as the source.
        image: PathBuf,
    },
    /// Somebody uses the mount.
    #[error("cannot unmount {dir}: it is in use{}", by(users))]
    Busy {
        /// The mount point.
        dir: PathBuf,
        /// Who, as far as that is seen.
        users: Vec<String>,
    },
    /// It is unmounted, but what could not be written home is only in the journal.
    #[error(
        "{dir} is unmounted, but {image} is not clean: its server could not write everything to its place (its log \
         says why). What was synced is in the journal: make room if the disk is full, then run `ondol recover {image}`"
    )]
    NotClean {
        /// The mount point.
        dir: PathBuf,
        /// The image.
        image: PathBuf,
    },
    /// It is unmounted, but its server could not write everything into object storage, or not say so there.
    #[error(
        "{dir} is unmounted, but {volume} was not closed: what was not synced may be lost (its server's log says \
         why). What was synced is there"
    )]
    NotClosed {
        /// The mount point.
        dir: PathBuf,
        /// The volume.
        volume: PathBuf,
    },
    /// It is unmounted, but another user's server still has the image open.
    #[error("{dir} is unmounted, but {server} has not closed the image yet")]
    Closing {
        /// The mount point.
        dir: PathBuf,
        /// The server.
        server: String,
    },
    /// The mount could not be removed.
    #[error("cannot unmount {dir}: {said}")]
    Unmount {
        /// The mount point.
        dir: PathBuf,
        /// The reason.
        said: String,
    },
    /// Two files that lie on two mounts.
    #[error("{one} and {other} are not on one mounted volume")]
    TwoMounts {
        /// The first file.
        one: PathBuf,
        /// The second.
        other: PathBuf,
    },
    /// The files cannot be exchanged.
    #[error("cannot exchange {one} and {other}: {}", against_exchange(source))]
    Exchange {
        /// The first file.
        one: PathBuf,
        /// The second.
        other: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// The volume cannot be resized as it is.
    #[error("cannot resize {dir}: {}", against_resize(source))]
    Resize {
        /// The mount point.
        dir: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// A snapshot cannot be made or deleted.
    #[error("cannot change snapshot {name} of {dir}: {}", against_snapshot(source))]
    Snapshot {
        /// A directory on the mount.
        dir: PathBuf,
        /// The snapshot.
        name: String,
        /// The operating system's reason.
        source: io::Error,
    },
    /// Snapshots cannot be listed.
    #[error("cannot list the snapshots of {dir}: {}", against_snapshot(source))]
    Snapshots {
        /// A directory on the mount.
        dir: PathBuf,
        /// The operating system's reason.
        source: io::Error,
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

/// What an error means for an exchange, where that is more than its own words say.
fn against_exchange(e: &io::Error) -> String {
    let errno = Errno::from_io_error(e);
    match errno {
        Some(Errno::TOOBIG) => {
            "they are in more pieces than one transaction can change: exchange shorter ranges".into()
        }
        Some(Errno::INVAL) => {
            "offsets and length must be whole blocks (or clusters) inside both files, or reach to the ends of both, \
             and must not overlap"
                .into()
        }
        Some(Errno::OPNOTSUPP) => "these files or this mount do not take it: files need extents; a mount needs two \
                                   serving threads, and with writeback_cache the sizes stay"
            .into(),
        _ => e.to_string(),
    }
}

/// What an error means for a resize, where that is more than its own words say.
fn against_resize(e: &io::Error) -> String {
    match Errno::from_io_error(e) {
        Some(Errno::PERM) => "only root, and whoever has mounted it, may do that".into(),
        Some(Errno::INVAL) => "a mounted volume can only grow: unmount it to make it smaller".into(),
        Some(Errno::NOSPC | Errno::FBIG) => "what it lies on cannot be so long".into(),
        Some(Errno::OPNOTSUPP) => {
            "it cannot grow while it is mounted as it is: unmount it first; the server's log says why".into()
        }
        Some(Errno::TOOBIG) => "a step does not fit into its journal: unmount it first".into(),
        Some(Errno::BUSY) => "it is being resized already".into(),
        _ => e.to_string(),
    }
}

/// What an error means for a snapshot, where that is more than its own words say.
fn against_snapshot(e: &io::Error) -> String {
    match Errno::from_io_error(e) {
        Some(Errno::PERM) => "only root, and whoever has mounted it, may do that".into(),
        Some(Errno::EXIST) => "there is one of this name".into(),
        Some(Errno::NOENT) => "there is none of this name".into(),
        Some(Errno::INVAL | Errno::NAMETOOLONG) => {
            "a name has 1 to 255 bytes, no spaces and control characters, and none of /?#&=%".into()
        }
        Some(Errno::OPNOTSUPP) => "only volumes in object storage have snapshots".into(),
        Some(Errno::ROFS) => "it is mounted for reading".into(),
        Some(Errno::RANGE) => "there are more than can be listed through a mount: name the volume itself".into(),
        Some(Errno::IO | Errno::TIMEDOUT) => "the store failed; the server's log says how".into(),
        _ => e.to_string(),
    }
}

/// The first few users, or what helps to find them.
fn by(users: &[String]) -> String {
    const MOST: usize = 3;
    if users.is_empty() {
        return " by somebody whom this user does not see; `fuser -vm DIR` as root lists who".into();
    }
    let more = users.len().saturating_sub(MOST);
    let text = users.get(..MOST).unwrap_or(users).join("; ");
    if more > 0 { format!(" by {text}; and {more} more") } else { format!(" by {text}") }
}
