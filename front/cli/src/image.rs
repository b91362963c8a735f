//! `ondol mkfs` and `recover`: commands about an image that is not mounted.

use crate::args;
use crate::failure::{FAILED, Failure, Outcome, USAGE};
use ondol::{FormatOptions, Volume, counted};
use std::path::Path;
use std::process::ExitCode;

/// Makes a file system.
pub(crate) fn mkfs(args: &args::Mkfs) -> Outcome {
    let target = args.target.display();
    if args.size.is_none() && !args.target.exists() {
        return Err(Failure::new(USAGE, format!("there is no {target}: --size SIZE makes a file of that size")));
    }
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
    Volume::format(&args.target, &options).map(|()| ExitCode::SUCCESS).map_err(|e| match &e {
        ondol::Error::Format { .. } => Failure::new(USAGE, e),
        _ => Failure::new(FAILED, e),
    })
}

/// Changes how an image is journaled.
pub(crate) fn tune(args: &args::Tune) -> Outcome {
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
    let report = ondol::recover(&args.target).map_err(Failure::with(FAILED))?;
    let (transactions, blocks) = (counted(report.transactions, "transaction"), counted(report.blocks, "block"));
    println!("{}: {transactions} replayed, {blocks} written home; clean", args.target.display());
    Ok(ExitCode::SUCCESS)
}
