//! `ondol mkfs` and `recover`: commands about an image that is not mounted.

use crate::args;
use crate::failure::{FAILED, Failure, Outcome, USAGE};
use ondol::{FormatOptions, Volume};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;

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
    let mut options = FormatOptions::new().force(args.force);
    if let Some(size) = args.size {
        options = options.size(size);
    }
    if let Some(label) = &args.label {
        options = options.label(label);
    }
    if let Some(bytes) = args.block_size {
        options = options.block_size(bytes);
    }
    if let Some(count) = args.inodes {
        options = options.inodes(count);
    }
    if let Some(features) = &args.features {
        options = options.features(features);
    }
    if let Some(engine) = args.journal {
        options = options.journal(engine);
    }
    if let Some(data) = args.data {
        options = options.data(data);
    }
    if let Some(bytes) = args.journal_size {
        options = options.journal_size(bytes);
    }
    Volume::format(&args.target, &options).map(|()| ExitCode::SUCCESS).map_err(Failure::with(FAILED))
}

/// Changes how an image is journaled.
pub(crate) fn tune(args: &args::Tune) -> Outcome {
    refuse_pool(&args.target, USAGE)?;
    let tune = ondol::Tune { journal: args.journal, data: args.data, journal_size: args.journal_size };
    if tune.journal.is_none() && tune.data.is_none() && tune.journal_size.is_none() {
        return Err(Failure::new(USAGE, "nothing to change: say --journal ENGINE, --data MODE or --journal-size SIZE"));
    }
    ondol::tune(&args.target, &tune).map(|()| ExitCode::SUCCESS).map_err(Failure::with(FAILED))
}

/// Makes an image file with a file system of the default kind.
pub(crate) fn create(target: &Path, size: u64) -> Result<(), ondol::Error> {
    Volume::format(target, &FormatOptions::new().size(size))
}

/// Replays the journal.
pub(crate) fn recover(args: &args::Recover) -> Outcome {
    refuse_pool(&args.target, USAGE)?;
    if args.discard_nvm {
        return Err(Failure::new(USAGE, "--discard-nvm: NVM pools are not built yet"));
    }
    let report = ondol::recover(&args.target).map_err(Failure::with(FAILED))?;
    let (transactions, blocks) = (report.transactions, report.blocks);
    println!("{}: {transactions} transactions replayed, {blocks} blocks written home; clean", args.target.display());
    Ok(ExitCode::SUCCESS)
}
