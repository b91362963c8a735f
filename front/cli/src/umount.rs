//! `ondol umount`, umount(8)'s helper, and `ondol sync`.

use crate::args;
use crate::failure::{FAILED, Failure, MOUNT, Outcome, SYSTEM};
use crate::passed::enter_namespace;
use crate::say::say;
use ondol::machine::locks::shown;
use ondol_fuse::client::{Unmount, Unmounted};
use ondol_fuse::{ClientError, MountOptions, client};
use rustix::mount::MountFlags;
use std::path::Path;
use std::process::ExitCode;

/// Unmounts, and returns when the image is clean, unless nobody is to be waited for or its server goes on for others.
pub(crate) fn umount(args: &args::Umount) -> Outcome {
    if args.lazy {
        client::detach(&args.dir).map_err(failed)?;
    } else {
        let how = Unmount { force: args.force, wait: args.wait };
        tell(&args.dir, &client::unmount(&args.dir, how).map_err(failed)?);
    }
    Ok(ExitCode::SUCCESS)
}

/// Says who has the image still, a line for each mount namespace.
fn tell(dir: &Path, unmounted: &Unmounted) {
    let Unmounted::InUse { image, server, at } = unmounted else { return };
    let (dir, image) = (shown(dir), shown(image));
    for seen in at {
        say!("{dir} is unmounted; {image} is in use still by {server}, which serves it {}", seen.text());
    }
    if at.is_empty() {
        say!(
            "{dir} is unmounted; {image} is in use still by {server}, which serves it where this user does not see it"
        );
    }
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
    let how = Unmount { force: args.force, wait: false };
    let done = match args.lazy {
        true => client::detach(&args.dir).map(|()| None),
        false => client::unmount(&args.dir, how).map(Some),
    };
    match done {
        Ok(unmounted) => {
            if args.verbose {
                say!("{} unmounted", args.dir.display());
                unmounted.iter().for_each(|unmounted| tell(&args.dir, unmounted));
            }
        }
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
