//! `ondol snapshot`, `clone` and `delete`: volumes in object storage as they were, as others, and no more.

use crate::failure::{FAILED, Failure, Outcome};
use crate::say;
use crate::tools::minute;
use clap::{Args, Subcommand};
use ondol::Snapshot;
use ondol_fuse::client::{self, SnapshotChange};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Keep a volume in object storage as it is now
///
/// A snapshot takes no time and no room but for what is changed afterwards. `TARGET?snapshot=NAME` names it for
/// reading: `ondol mount -o ro`, `ondol check -n`, `ondol export`, `ondol ls` and `ondol cat` take that.
#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotCommand {
    /// Make one, of a volume that is mounted or that nobody uses
    Create(Named),
    /// List them, oldest first
    List(Listed),
    /// Delete one; whoever has the volume mounted goes on
    Delete(Named),
}

#[derive(Debug, Args)]
pub(crate) struct Named {
    /// Volume in object storage, or a directory where it is mounted
    target: PathBuf,
    /// Name of the snapshot
    name: String,
}

#[derive(Debug, Args)]
pub(crate) struct Listed {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Volume in object storage, or a directory where it is mounted
    target: PathBuf,
}

/// Make a volume in object storage out of another one, without copying
///
/// The clone shares the data of the original and takes room for what is changed. The original cannot be deleted while
/// the clone needs it.
#[derive(Debug, Args)]
pub(crate) struct CloneArgs {
    /// Volume in object storage that nobody has mounted, or a snapshot of one, TARGET?snapshot=NAME, whoever has that
    /// mounted
    source: PathBuf,
    /// Where the new one is to be, in the same bucket
    target: PathBuf,
}

/// Delete a volume in object storage with its snapshots, for good
#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    /// Say that it is meant: nothing brings it back
    #[arg(long, required = true)]
    yes: bool,
    /// Volume in object storage that nobody has mounted
    target: PathBuf,
}

/// Makes a clone.
pub(crate) fn clone(args: &CloneArgs) -> Outcome {
    ondol::clone_volume(&args.source, &args.target).map_err(Failure::with(FAILED))?;
    Ok(ExitCode::SUCCESS)
}

/// Deletes a volume.
pub(crate) fn delete(args: &DeleteArgs) -> Outcome {
    ondol::delete_volume(&args.target).map_err(Failure::with(FAILED))?;
    Ok(ExitCode::SUCCESS)
}

/// Makes, lists or deletes snapshots.
pub(crate) fn snapshot(command: &SnapshotCommand) -> Outcome {
    match command {
        SnapshotCommand::Create(named) => change(named, SnapshotChange::Create),
        SnapshotCommand::Delete(named) => change(named, SnapshotChange::Delete),
        SnapshotCommand::List(listed) => list(listed),
    }
}

/// Where the server of the volume is to be asked: on a directory, or where this machine has it mounted.
fn mounted(target: &Path) -> Option<PathBuf> {
    if !ondol::is_in_bucket(target) {
        return Some(target.to_owned());
    }
    client::serving(target).map(|entry| entry.point)
}

fn change(named: &Named, change: SnapshotChange) -> Outcome {
    let Named { target, name } = named;
    match mounted(target) {
        Some(dir) => client::snapshot(&dir, change, name).map_err(Failure::with(FAILED))?,
        None => match change {
            SnapshotChange::Create => ondol::snapshot(target, name),
            SnapshotChange::Delete => ondol::snapshot_delete(target, name),
        }
        .map_err(Failure::with(FAILED))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn list(listed: &Listed) -> Outcome {
    let found = match mounted(&listed.target) {
        Some(dir) => {
            let json = client::snapshots(&dir).map_err(Failure::with(FAILED))?;
            serde_json::from_slice(&json).map_err(Failure::with(FAILED))?
        }
        None => {
            let found: Vec<Snapshot> = ondol::snapshots(&listed.target).map_err(Failure::with(FAILED))?;
            serde_json::to_value(found).map_err(Failure::with(FAILED))?
        }
    };
    if listed.json {
        say::json(&found);
        return Ok(ExitCode::SUCCESS);
    }
    for snapshot in found.as_array().into_iter().flatten() {
        let name = snapshot.get("name").and_then(|name| name.as_str()).unwrap_or_default();
        let made = snapshot.get("made").and_then(serde_json::Value::as_i64).unwrap_or_default();
        say::say!("{} {name}", minute(made));
    }
    Ok(ExitCode::SUCCESS)
}
