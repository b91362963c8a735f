//! `ondol exchange`: ranges of two files on a mount change places.

use crate::failure::{FAILED, Failure, Outcome};
use crate::size;
use clap::Args;
use ondol::Exchange;
use ondol_fuse::client::{self, Part};
use std::path::PathBuf;
use std::process::ExitCode;

/// Exchange what two files on a mounted volume hold, as one
///
/// After a crash, too, each has the other's contents, or both have their own. Nothing is copied. Without --length
/// everything from the offsets to the ends of the files changes places, and the sizes with it. Offsets and length are
/// whole blocks. The caller must be able to read and to write both files.
#[derive(Debug, Args)]
pub(crate) struct ExchangeArgs {
    /// Exchange so many bytes, not everything to the ends of the files
    #[arg(long, value_parser = size::parse, value_name = "BYTES")]
    length: Option<u64>,
    /// Byte of A to begin with
    #[arg(long, value_parser = size::or_nothing, value_name = "BYTE", default_value = "0")]
    offset: u64,
    /// Byte of B to begin with
    #[arg(long, value_parser = size::or_nothing, value_name = "BYTE", default_value = "0")]
    other_offset: u64,
    /// Exchange only what is written in A, and leave B as it is where A has holes
    #[arg(long)]
    written: bool,
    /// Be durable on return
    #[arg(long)]
    sync: bool,
    /// Check whether it can be done, and change nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// The first file
    #[arg(value_name = "A")]
    one: PathBuf,
    /// The second file, on the same mount
    #[arg(value_name = "B")]
    other: PathBuf,
}

/// Exchanges them.
pub(crate) fn exchange(args: &ExchangeArgs) -> Outcome {
    let how = Exchange {
        len: args.length,
        written_only: args.written,
        durable: args.sync,
        dry_run: args.dry_run,
        ..Exchange::default()
    };
    let one = Part { path: &args.one, offset: args.offset };
    let other = Part { path: &args.other, offset: args.other_offset };
    let done = client::exchange(one, other, &how);
    done.map(|()| ExitCode::SUCCESS).map_err(Failure::with(FAILED))
}
