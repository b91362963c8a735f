//! `ondol resize`: a volume of another size, mounted or not.

use crate::failure::{FAILED, Failure, Message, Outcome, USAGE};
use crate::image::file;
use crate::progress::Line;
use crate::say::say;
use crate::size::{self, human};
use clap::Args;
use ondol::machine::mountinfo::Entry;
use ondol::{NewSize, counted};
use ondol_fuse::client;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Make a volume larger or smaller
///
/// Without a size the volume gets all of its file, device or partition. An image file is made longer where SIZE is more
/// than it has, and cut off behind a volume that has become smaller. A mounted volume can grow, by the directory or by
/// its image. Whatever cuts it short, a crash as well, leaves a whole volume of a size between the old one and the new
/// one.
#[derive(Debug, Args)]
pub(crate) struct ResizeArgs {
    /// Make it as small as it can be
    #[arg(short = 'M', long, conflicts_with = "size")]
    minimum: bool,
    /// Print how many blocks it can have at least, and change nothing
    #[arg(short = 'P', long, conflicts_with_all = ["size", "minimum"])]
    print_minimum: bool,
    /// Image file, block device, nvm:POOL, or the directory where it is mounted
    target: PathBuf,
    /// What the volume is to have: 64M, 2G, or a number of bytes
    #[arg(value_parser = size::parse)]
    size: Option<u64>,
}

/// Resizes.
pub(crate) fn resize(args: &ResizeArgs) -> Outcome {
    match mounted(&args.target) {
        Some(entry) => grow_mounted(args, &entry),
        None if args.print_minimum => print_minimum(&args.target),
        None => resize_image(args),
    }
}

/// The mount that the target is, or is the image of.
fn mounted(target: &Path) -> Option<Entry> {
    if ondol::is_in_bucket(target) {
        return client::serving(target);
    }
    client::mounted_on(target).or_else(|| {
        let full = file(target).canonicalize().ok()?;
        client::serving(&full)
    })
}

fn grow_mounted(args: &ResizeArgs, entry: &Entry) -> Outcome {
    if args.minimum || args.print_minimum {
        let what = format!("{} is mounted, and can only grow: unmount it first", entry.source.display());
        return Err(Failure::new(USAGE, what));
    }
    let grown = client::resize(&entry.point, args.size).map_err(Failure::with(FAILED))?;
    say!("{}: {} for files", args.target.display(), human(grown));
    Ok(ExitCode::SUCCESS)
}

fn print_minimum(target: &Path) -> Outcome {
    let sizes = ondol::sizes(target).map_err(Failure::with(FAILED))?;
    let bytes = sizes.least * u64::from(sizes.block_size);
    say!("{}: at least {}, {}", target.display(), counted(sizes.least, "block"), human(bytes));
    Ok(ExitCode::SUCCESS)
}

fn resize_image(args: &ResizeArgs) -> Outcome {
    let to = match args.size {
        Some(bytes) => NewSize::Bytes(bytes),
        None if args.minimum => NewSize::Least,
        None => NewSize::Whole,
    };
    let name = args.target.display();
    let line = Line::new("resizing");
    let done = ondol::resize_telling(&args.target, to, &mut |progress| line.tell(progress));
    line.end();
    let done = done.map_err(|e| match e {
        e if e.errno() == TOO_BIG => {
            Failure::new(FAILED, format!("{}; `ondol tune --journal-size` gives it a longer one", e.said()))
        }
        e => Failure::new(FAILED, e),
    })?;
    let size = human(done.blocks * u64::from(done.block_size));
    if done.blocks == done.before {
        say!("{name}: {} as before, {size}", counted(done.blocks, "block"));
    } else {
        say!("{name}: {} in place of {}, {size}", counted(done.blocks, "block"), done.before);
    }
    if let Some(bytes) = done.file_bytes {
        say!("{name}: the file has {bytes} bytes now");
    }
    Ok(ExitCode::SUCCESS)
}

/// A step does not fit into the journal (E2BIG).
const TOO_BIG: i32 = rustix::io::Errno::TOOBIG.raw_os_error();
