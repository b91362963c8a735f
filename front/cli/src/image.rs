//! `ondol mkfs`, `tune`, `recover`, `export` and `import`: commands about an image that is not mounted.

use crate::args;
use crate::failure::{FAILED, Failure, Message, Outcome, USAGE};
use crate::progress::Line;
use crate::say::say;
use crate::tools;
use ondol::machine::locks::shown;
use ondol::machine::mountinfo::Entry;
use ondol::pool::{GivenUp, GivenUpChanges};
use ondol::{FormatOptions, Options, RecoverReport, Transferred, Volume, counted, printable};
use ondol_fuse::client;
use std::path::Path;
use std::process::ExitCode;

/// Refuses a mount point of ours where an image is meant, without going there.
pub(crate) fn refuse_mount_point(target: &Path, code: u8) -> Result<(), Failure> {
    match client::mounted_on(target) {
        Some(Entry { point, source, .. }) => {
            let (point, source) = (shown(&point), shown(&source));
            let what = format!("{point} is where {source} is mounted: run `ondol umount {point}`, then name the image");
            Err(Failure::new(code, what))
        }
        None => Ok(()),
    }
}

/// The file or device that a target lies in.
pub(crate) fn file(target: &Path) -> &Path {
    let part = || ondol::part_of(target).map(|(file, _)| file);
    ondol::pool_of(target).or_else(part).unwrap_or(target)
}

/// Whether there is an image, or what one can be made in.
pub(crate) fn is_there(target: &Path) -> Result<bool, ondol::Error> {
    if ondol::is_in_bucket(target) { ondol::is_volume_there(target) } else { Ok(file(target).exists()) }
}

/// Why an image could not be opened. Of a disk with partitions, also how one of them is named.
pub(crate) fn unopened(e: ondol::Error, target: &Path) -> String {
    let said = e.said();
    if ondol::is_in_bucket(target) || e.errno() != OPNOTSUPP || file(target) != target {
        return said;
    }
    let found = ondol::partitions(target).unwrap_or_default();
    let Some(first) = found.first() else { return said };
    let numbers: Vec<String> = found.iter().map(|partition| partition.number.to_string()).collect();
    let (numbers, target) = (numbers.join(", "), ondol::Part::Partition(first.number).target(target));
    format!("{said}; it has a partition table: `{}` names an image in one of the partitions {numbers}", shown(&target))
}

/// There is nothing of the kind (EOPNOTSUPP).
const OPNOTSUPP: i32 = rustix::io::Errno::OPNOTSUPP.raw_os_error();

/// Says on standard error if the kernel uses what is only looked at. Whatever fails here, looking at it will tell.
pub(crate) fn warn_of_users(target: &Path) {
    for by in ondol::machine::users(target).unwrap_or_default() {
        eprintln!("ondol: warning: {} is in use by {by}: what is said of it may be wrong", shown(target));
    }
}

/// Something is there (EEXIST).
const EEXIST: i32 = rustix::io::Errno::EXIST.raw_os_error();

/// Why `what` was not made. What is in the way, `-F` takes away.
pub(crate) fn hint(e: ondol::Error, what: &str) -> Failure {
    match e {
        e if e.errno() == EEXIST => Failure::new(FAILED, format!("{}; -F makes {what} in its place", e.said())),
        e @ ondol::Error::Format { .. } => Failure::new(USAGE, e),
        e => Failure::new(FAILED, e),
    }
}

/// Makes a file system.
pub(crate) fn mkfs(args: &args::Mkfs) -> Outcome {
    let target = args.target.display();
    let in_bucket = ondol::is_in_bucket(&args.target);
    if args.size.is_none() && !in_bucket && !file(&args.target).exists() {
        let made = if ondol::pool_of(&args.target).is_some() { "a pool for a file system" } else { "a file" };
        return Err(Failure::new(USAGE, format!("there is no {target}: --size SIZE makes {made} of that size")));
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
    if let Some(uuid) = args.uuid.and_then(|uuid| uuid.0) {
        options = options.uuid(uuid);
    }
    if let Some(bytes) = args.bytes_per_inode {
        options = options.bytes_per_inode(bytes);
    }
    if let Some(bytes) = args.chunk {
        options = options.chunk(bytes);
    }
    if let Some(usage) = args.usage {
        options = options.usage(usage);
    }
    options = options.reserved_share(args.reserved.0);
    let directory = args.directory.as_deref();
    directory.map_or(Ok(()), require_directory)?;
    let is_new = !in_bucket && !file(&args.target).exists();
    let given_up = Volume::format(&args.target, &options).map_err(|e| hint(e, "a file system"))?;
    tell_lost(&args.target, &given_up);
    let Some(directory) = directory else { return Ok(ExitCode::SUCCESS) };
    let code = tools::fill(&args.target, directory);
    if is_new && code.as_ref().map_or(true, |code| *code != ExitCode::SUCCESS) {
        // A part of what was to be in it is of no use; what went wrong is the thing to tell.
        let _ = std::fs::remove_file(file(&args.target));
    }
    code
}

/// Refuses a directory to copy from that cannot be read, before anything is made.
fn require_directory(dir: &Path) -> Result<(), Failure> {
    let fail = |e| Failure::new(FAILED, format!("cannot read the directory {}: {e}", shown(dir)));
    std::fs::read_dir(dir).map(drop).map_err(fail)
}

/// Says what is lost with what a pool had.
pub(crate) fn tell_lost(what: &Path, given_up: &GivenUp) {
    for line in given_up.lines() {
        say!("{}: given up: {}", what.display(), printable(line.as_bytes()));
    }
    let is_named = |changes: &GivenUpChanges| changes.lost.as_ref().is_some_and(|lost| lost.commits == 0);
    if given_up.changes.as_ref().is_some_and(is_named) {
        say!("{}: `ondol recover --discard-nvm IMAGE` gives it up there", what.display());
    }
}

/// Changes how an image is journaled.
pub(crate) fn tune(args: &args::Tune) -> Outcome {
    let tune = ondol::Tune { journal: args.journal, data: args.data, journal_size: args.journal_size };
    if tune.journal.is_none() && tune.data.is_none() && tune.journal_size.is_none() {
        return Err(Failure::new(USAGE, "nothing to change: say --journal ENGINE, --data MODE or --journal-size SIZE"));
    }
    refuse_mount_point(&args.target, FAILED)?;
    ondol::tune(&args.target, &tune).map(|()| ExitCode::SUCCESS).map_err(Failure::with(FAILED))
}

/// Makes an image file with a file system of the default kind.
pub(crate) fn create(target: &Path, size: u64) -> Result<(), ondol::Error> {
    Volume::format(target, &FormatOptions::new().size(size)).map(drop)
}

/// Writes an image to a file or device.
pub(crate) fn export(args: &args::Export) -> Outcome {
    refuse_mount_point(&args.target, FAILED)?;
    let line = Line::new("exporting");
    let done = ondol::export_telling(&args.target, &args.image, args.force, &mut |progress| line.tell(progress));
    line.end();
    told(&args.image, &done.map_err(|e| hint(e, "a copy of the image"))?)
}

/// Brings an image into a pool, or into object storage.
pub(crate) fn import(args: &args::Import) -> Outcome {
    refuse_mount_point(&args.image, FAILED)?;
    let done = ondol::import(&args.image, &args.target, args.force);
    told(&args.target, &done.map_err(|e| hint(e, "a copy of the image"))?)
}

fn told(to: &Path, done: &Transferred) -> Outcome {
    let replayed = match done.transactions {
        0 => String::new(),
        n => format!(", {} replayed into it", counted(n, "transaction")),
    };
    let Transferred { size, written, given_up, .. } = done;
    tell_lost(to, given_up);
    say!("{}: an image of {size} bytes, {written} of them written{replayed}", to.display());
    Ok(ExitCode::SUCCESS)
}

/// Replays the journal.
pub(crate) fn recover(args: &args::Recover) -> Outcome {
    refuse_mount_point(&args.target, FAILED)?;
    if args.take_over {
        return take_over(&args.target);
    }
    if ondol::run::is_log(&args.target) {
        return crate::run::recover(args);
    }
    if args.force {
        return recover_by_force(args);
    }
    if args.discard_nvm {
        return discard_nvm(args);
    }
    let line = Line::new("recovering");
    let recovered = ondol::recover_telling(&args.target, args.nvm.as_deref(), line.told());
    line.end();
    let report = recovered.map_err(|e| match e {
        ondol::Error::State { .. } => Failure::new(FAILED, e),
        e if e.errno() == UCLEAN => {
            Failure::new(FAILED, format!("{}; --force gives up what is damaged in the journal", e.said()))
        }
        e => Failure::new(FAILED, e),
    })?;
    say!("{}: {}; clean", args.target.display(), replayed(&report));
    Ok(ExitCode::SUCCESS)
}

/// Takes a volume from whoever has it open, and closes it.
fn take_over(target: &Path) -> Outcome {
    let volume = Volume::open_with(target, &Options::default().with_take_over(true)).map_err(Failure::with(FAILED))?;
    volume.close().map_err(Failure::with(FAILED))?;
    say!("{}: taken over; clean", target.display());
    Ok(ExitCode::SUCCESS)
}

/// Damage of the image or its journal (EUCLEAN).
const UCLEAN: i32 = rustix::io::Errno::UCLEAN.raw_os_error();

fn discard_nvm(args: &args::Recover) -> Outcome {
    let name = args.target.display();
    let discarded = ondol::discard_nvm(&args.target, args.nvm.as_deref()).map_err(Failure::with(FAILED))?;
    say!("{name}: what lay in the NVM pool with UUID {} is given up", discarded.pool);
    if let Some(lost) = &discarded.lost {
        let (commits, operations) = (counted(lost.commits, "commit"), counted(lost.operations, "operation"));
        say!("{name}: lost: {commits} of {operations}, which changed {}", counted(lost.blocks, "block"));
        if let Some((from, to)) = lost.between {
            say!("{name}: they were made between {from} and {to}, in seconds since 1970");
        }
        if !lost.inodes.is_empty() {
            let inodes: Vec<String> = lost.inodes.iter().map(u32::to_string).collect();
            say!("{name}: inodes that they changed: {}", inodes.join(" "));
        }
    }
    say!("{name}: `e2fsck -f` mends what is left");
    Ok(ExitCode::SUCCESS)
}

fn recover_by_force(args: &args::Recover) -> Outcome {
    let name = args.target.display();
    let recovered = match &args.nvm {
        Some(pool) => ondol::recover_with_pool_by_force(&args.target, pool),
        None => ondol::recover_by_force(&args.target),
    };
    let report = recovered.map_err(Failure::with(FAILED))?;
    say!("{name}: {}", replayed(&report.recovered));
    for lost in &report.given_up {
        say!("{name}: given up: {lost}");
    }
    match &report.damage {
        Some(damage) => say!("{name}: {damage}"),
        None if report.given_up.is_empty() => say!("{name}: clean"),
        None => {}
    }
    if report.damage.is_some() || !report.given_up.is_empty() {
        say!("{name}: its journal is empty; `e2fsck -f` mends what is left");
    }
    Ok(ExitCode::SUCCESS)
}

fn replayed(report: &RecoverReport) -> String {
    let (transactions, blocks) = (counted(report.transactions, "transaction"), counted(report.blocks, "block"));
    format!("{transactions} replayed, {blocks} written home")
}
