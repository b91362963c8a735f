//! `ondol mkfs`, `check` and `recover`: commands about an image that is not mounted.

use crate::args;
use crate::failure::{CHECK_LEFT, CHECK_OPERATION, CHECK_USAGE, FAILED, Failure, Outcome, USAGE};
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
    Volume::format(&args.target, &options).map(|()| ExitCode::SUCCESS).map_err(Failure::with(FAILED))
}

/// Makes an image file with a file system of the default kind.
pub(crate) fn create(target: &Path, size: u64) -> Result<(), ondol::Error> {
    Volume::format(target, &FormatOptions::new().size(size))
}

/// Checks a volume; the journal is replayed first, unless nothing may be changed.
pub(crate) fn check(args: &args::Check) -> Outcome {
    refuse_pool(&args.target, CHECK_USAGE)?;
    let target = args.target.display();
    let look = || {
        let report = match args.superblock {
            Some(block) => ondol::check_by_copy(&args.target, block),
            None => ondol::check(&args.target),
        };
        report.map_err(Failure::with(CHECK_OPERATION))
    };
    let mut report = look()?;
    if report.needs_recovery && !args.read_only && args.superblock.is_none() {
        let replayed = ondol::recover(&args.target).map_err(Failure::with(CHECK_OPERATION))?;
        println!("{target}: {} transactions replayed", replayed.transactions);
        report = look()?;
    }
    for problem in &report.problems {
        println!("{target}: {problem}");
    }
    if report.needs_recovery {
        println!("{target}: the journal holds transactions; without -n and -b they are replayed");
        return Ok(ExitCode::from(CHECK_LEFT));
    }
    if !report.problems.is_empty() {
        println!("{target}: {} problems; `e2fsck -f` mends them", report.problems.len());
        return Ok(ExitCode::from(CHECK_LEFT));
    }
    println!("{target}: clean, {} inodes and {} blocks in use", report.inodes, report.blocks);
    Ok(ExitCode::SUCCESS)
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
