//! `ondol umount`, umount(8)'s helper, and `ondol sync`.

use crate::args;
use crate::failure::{FAILED, Failure, MOUNT, Outcome, SYSTEM};
use crate::passed::enter_namespace;
use crate::say::say;
use ondol_fuse::{ClientError, MountOptions, client};
use rustix::mount::MountFlags;
use std::process::ExitCode;

/// Unmounts, and returns when the image is clean, unless nobody is to be waited for.
pub(crate) fn umount(args: &args::Umount) -> Outcome {
    let done = if args.lazy { client::detach(&args.dir) } else { client::unmount(&args.dir, args.force) };
    done.map(|()| ExitCode::SUCCESS).map_err(failed)
}

/// Also says whether it is unmounted.
fn failed(e: ClientError) -> Failure {
    let is_unmounted =
        matches!(e, ClientError::NotClean { .. } | ClientError::NotClosed { .. } | ClientError::Closing { .. });
    let code = if is_unmounted { SYSTEM } else { MOUNT };
    Failure::new(code, e)
}

/// The same as umount(8) asks for it, which by itself would not wait for the image.
pub(crate) fn helper(args: &args::UmountHelper) -> Outcome {
    if let Some(namespace) = &args.namespace {
        enter_namespace(namespace)?;
    }
    let done = if args.lazy { client::detach(&args.dir) } else { client::unmount(&args.dir, args.force) };
    match done {
        Ok(()) if args.verbose => say!("{} unmounted", args.dir.display()),
        Ok(()) => {}
        Err(ClientError::Busy { dir, .. }) if args.read_only => {
            let now = client::mounted_on(&dir).map_or(MountFlags::empty(), |entry| MountOptions::flags_of(&entry));
            rustix::mount::mount_remount(&dir, now | MountFlags::RDONLY, "").map_err(Failure::with(MOUNT))?;
            client::sync(&dir).map_err(Failure::with(MOUNT))?;
            say!("{} is in use: read-only from now on", dir.display());
        }
        Err(e) => return Err(failed(e)),
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes everything durable that was done before.
pub(crate) fn sync(args: &args::Sync) -> Outcome {
    client::sync(&args.dir).map(|()| ExitCode::SUCCESS).map_err(Failure::with(FAILED))
}
