//! `ondol mkfs`, `check` and `recover`: commands about an image that is not mounted.

use crate::args;
use crate::failure::{CHECK_CORRECTED, CHECK_LEFT, CHECK_OPERATION, CHECK_USAGE, FAILED, Failure, Outcome, USAGE};
use ondol::{CheckOptions, FormatOptions, Volume};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Refuses `nvm:POOL`, which names no file.
pub(crate) fn refuse_pool(target: &Path, code: u8) -> Result<(), Failure> {
    if target.as_os_str().as_bytes().starts_with(b"nvm:") {
        return Err(Failure::new(code, format!("{}: a volume in an NVM pool is not built yet", target.display())));
    }
    Ok(())
}

/// Makes a file system.
pub(crate) fn mkfs(args: &args::Mkfs) -> Outcome {
    refuse_pool(&args.target, USAGE)?;
    let options = FormatOptions {
        size: args.size,
        label: args.label.clone().unwrap_or_default(),
        block_size: args.block_size.unwrap_or(4096),
        inodes: args.inodes.map(u64::from),
        features: args.features.clone().unwrap_or_default(),
        force: args.force,
    };
    Volume::format(&args.target, &options).map(|()| 0).map_err(Failure::with(FAILED))
}

/// Makes an image file with a file system of the default kind.
pub(crate) fn create(target: &Path, size: u64) -> Result<(), ondol::Error> {
    Volume::format(target, &FormatOptions { size: Some(size), ..FormatOptions::default() })
}

/// Checks a volume.
pub(crate) fn check(args: &args::Check) -> Outcome {
    refuse_pool(&args.target, CHECK_USAGE)?;
    let options = CheckOptions { read_only: args.read_only };
    let report = ondol::check(&args.target, &options).map_err(Failure::with(CHECK_OPERATION))?;
    for problem in &report.problems {
        println!("{problem}");
    }
    Ok(if report.problems.is_empty() {
        0
    } else if args.read_only {
        CHECK_LEFT
    } else {
        CHECK_CORRECTED
    })
}

/// Replays the journal.
pub(crate) fn recover(args: &args::Recover) -> Outcome {
    refuse_pool(&args.target, USAGE)?;
    if args.discard_nvm {
        return Err(Failure::new(USAGE, "--discard-nvm: NVM pools are not built yet"));
    }
    let report = ondol::recover(&args.target).map_err(Failure::with(FAILED))?;
    println!("{}: {} transactions replayed", args.target.display(), report.transactions);
    Ok(0)
}
