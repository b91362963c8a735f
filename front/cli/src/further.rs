//! A further mount of a volume that is mounted already: mount(8) may mount a file system of the kernel on several
//! directories, and so it may one of root's here. It is another mount of the same file system, by the same server.

use crate::args;
use crate::background;
use crate::failure::{Failure, MOUNT, MOUNT_USAGE, Outcome};
use crate::passed::source;
use crate::remount::agreed;
use crate::say::say;
use ondol::machine::mountinfo::Entry;
use ondol_fuse::{MountOptions, client};
use rustix::mount::MountFlags;
use std::path::Path;
use std::process::ExitCode;

/// Where root's server has mounted the volume in `target`, if root asks, and for another directory. A user's server is
/// never one to give root a mount.
pub(crate) fn mounted(target: &Path, dir: &Path) -> Option<Entry> {
    if background::is_child() || !rustix::process::geteuid().is_root() {
        return None;
    }
    let entry = client::serving_for_root(&source(target).ok()?)?;
    let is_there = client::mounted_on(&dir.canonicalize().ok()?).is_some_and(|there| there.device == entry.device);
    (!is_there).then_some(entry)
}

/// Mounts it on the helper's directory, too, with flags of its own.
pub(crate) fn mount(entry: &Entry, lists: &[String], args: &args::MountHelper) -> Outcome {
    let why = "cannot be another here than there, since it is mounted there already: leave it out";
    let wishes = agreed(entry, MountOptions::default(), lists, args.sloppy, why)?;
    // These two are the file system's, and not a mount's.
    for (flag, word) in [(MountFlags::SYNCHRONOUS, "sync"), (MountFlags::DIRSYNC, "dirsync")] {
        if wishes.mount.flags.contains(flag) && !entry.has(word) {
            return Err(Failure::new(MOUNT_USAGE, format!("{}: option `{word}` {why}", entry.point.display())));
        }
    }
    client::mount_further(entry, &args.dir, &wishes.mount).map_err(Failure::with(MOUNT))?;
    if args.verbose {
        say!("{} mounted on {}, as on {}", args.source.display(), args.dir.display(), entry.point.display());
    }
    Ok(ExitCode::SUCCESS)
}
