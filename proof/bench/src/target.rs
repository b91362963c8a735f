//! What a workload can run on: targets are named on the command line, made for one round, and taken away after it.

mod bucket;
#[cfg(any(feature = "peers", test))]
mod crates;
mod device;
mod e2fsck;
mod floors;
mod image;
mod mounted;
mod ours;
mod peers;
mod session;
mod spec;

pub(crate) use image::WorkDir;
pub(crate) use session::{Session, Setting, open};
#[cfg(any(feature = "peers", test))]
pub(crate) use spec::Fresh;
pub(crate) use spec::{Kind, Target};

use crate::BenchError;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Every kind of target: how it is written, what it is, and an example.
pub(crate) const KINDS: [(&str, &str, &str); 10] = [
    ("dir:PATH", "a directory on any mounted file system", "dir:/var/tmp"),
    ("lib:TARGET[,OPTIONS]", "an image through the library, in process", "lib:new.img,data=journal"),
    ("fuse:TARGET[,OPTIONS]", "an image mounted by ondol mount", "fuse:new.img,data=ordered"),
    (
        "lib:|fuse:s3://BUCKET/PREFIX|gs://…|az://…|file:///DIR[,OPTIONS]",
        "a fresh volume in object storage below that place, deleted afterwards; in a program built with the feature \
         `object`",
        "lib:file:///srv/store",
    ),
    (
        "kernel:ext4|xfs|btrfs[,OPTIONS]",
        "a fresh image in a loop device, mounted by the kernel (needs root)",
        "kernel:ext4,data=journal,on=disk",
    ),
    ("fuse2fs[,OPTIONS]", "a fresh ext4 image mounted by fuse2fs", "fuse2fs,size=2G"),
    (
        "crate:rust-fs-ext4[,OPTIONS]",
        "a fresh ext4 image through rust-fs-ext4, in process; in a program built with the feature `peers`",
        "crate:rust-fs-ext4,on=ram",
    ),
    (
        "null[,OPTIONS]",
        "a floor, no peer: our own transport with a server of nothing behind it, which keeps names and sizes",
        "null,transport=dev",
    ),
    (
        "passthrough[:DIR][,OPTIONS]",
        "a floor, no peer: our own transport with a server that hands all on to DIR [default: /dev/shm]",
        "passthrough:/dev/shm,transport=uring",
    ),
    ("tmpfs", "memory, without any durability: what the workload itself costs", "tmpfs"),
];

/// Options of targets that the bench itself reads; the others are passed on as mount options.
pub(crate) const OPTIONS: [(&str, &str); 7] = [
    ("size=SIZE", "size of an image that the bench makes [default: what the workload needs, at least 1G]"),
    ("on=ram|disk", "where an image that the bench makes lies: /dev/shm, or a disk [default: --dir]"),
    ("on=ssd|hdd", "the same in memory behind a modelled disk, whose requests take their time (docs/design/bench.md)"),
    (
        "pool=SIZE",
        "an NVM pool of this size, made in --dir if that is in memory or else in /dev/shm, in front of an image, lib: \
         and fuse: only",
    ),
    ("redo=FILE", "with durable=local, as of a mount; the bench makes the file for each turn, and removes it"),
    (
        "journal=fg",
        "engine scalable with one lock and one thread for checkpoints, lib: with pool= only: what papers/5 compares \
         itself with",
    ),
    (
        "feature=NAME",
        "a feature for mke2fs -O, kernel:ext4, fuse2fs and crate: only: feature=fast_commit, feature=^has_journal",
    ),
];

/// Refuses what no target of this program can be, before anything is made.
pub(crate) fn require_made(target: &Target) -> Result<(), BenchError> {
    match &target.kind {
        Kind::Lib(image) | Kind::Fuse(image) if ondol::is_in_bucket(&image.path) => bucket::require_named(&image.path),
        _ => Ok(()),
    }
}

/// `dir` if it is in memory, or where memory is.
///
/// # Errors
/// There is none.
pub(crate) fn in_memory(dir: &Path) -> Result<PathBuf, BenchError> {
    if image::is_memory(dir)? { Ok(dir.to_owned()) } else { image::directory(Some(spec::On::Ram), dir) }
}

/// `dir` if it is on a disk, or where disks are.
///
/// # Errors
/// There is none.
pub(crate) fn on_disk(dir: &Path) -> Result<PathBuf, BenchError> {
    image::directory(Some(spec::On::Disk), dir)
}

/// A name that no other bench and no other round uses.
fn unique_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("ondol-bench-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
