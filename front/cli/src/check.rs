//! `ondol check`, and the checker that fsck(8) calls.
//!
//! Exit codes are fsck's, used as e2fsck uses them: a replayed journal alone is no error that was corrected when the
//! rest is taken on trust (`fsck -p`), and one when everything is checked.

use crate::args;
use crate::failure::{CHECK_CORRECTED, CHECK_LEFT, CHECK_OPERATION, Failure, Outcome};
use crate::image::{refuse_mount_point, unopened, warn_of_users};
use crate::progress::Line;
use crate::say::say;
use ondol::counted;
use std::path::Path;
use std::process::ExitCode;

/// Checks a volume; the journal is replayed first, unless nothing may be changed.
pub(crate) fn check(args: &args::Check) -> Outcome {
    Check { target: &args.target, read_only: args.read_only, trusting: false, superblock: args.superblock }.run()
}

/// As fsck(8) calls it: a clean volume is taken as clean without being read whole, unless `-f` asks for it.
pub(crate) fn helper(args: &args::Fsck) -> Outcome {
    Check { target: &args.target, read_only: args.read_only, trusting: !args.force, superblock: args.superblock }.run()
}

struct Check<'a> {
    target: &'a Path,
    read_only: bool,
    /// Nothing needs to be looked at in a volume that says it is clean.
    trusting: bool,
    /// The block of the superblock's copy to go by. What it says of the state is old: nothing is changed then.
    superblock: Option<u64>,
}

impl Check<'_> {
    fn run(&self) -> Outcome {
        let target = self.target.display();
        refuse_mount_point(self.target, CHECK_OPERATION)?;
        if self.read_only || self.superblock.is_some() {
            warn_of_users(self.target);
        } else if let Some(by) = ondol::machine::users(self.target).map_err(Failure::with(CHECK_OPERATION))?.first() {
            let what = format!("{target} is in use by {by}; with -n it is looked at all the same");
            return Err(Failure::new(CHECK_OPERATION, what));
        }
        if self.superblock.is_some() {
            return self.look(false, false);
        }
        let mut replayed = false;
        let mut info = match self.info() {
            Ok(info) => info,
            // What keeps an image from being described (a descriptor, its journal) is found with all else, if it can be
            // opened at all.
            Err(failure) => return self.look(false, false).map_err(|_| failure),
        };
        if info.state == "dirty" && !self.read_only {
            let line = Line::new("recovering");
            let recovered = ondol::recover_telling(self.target, None, line.told());
            line.end();
            info = self.info()?;
            match recovered {
                Ok(report) => say!("{target}: {} replayed", counted(report.transactions, "transaction")),
                // What keeps it from being opened is found below, with all else.
                Err(_) if info.state != "dirty" => say!("{target}: the journal was replayed"),
                Err(e) => return Err(Failure::new(CHECK_OPERATION, e)),
            }
            replayed = true;
        }
        if info.state == "clean" && self.trusting {
            let (files, blocks) = (u64::from(info.inodes) - info.free_inodes, info.blocks - info.free_blocks);
            say!("{target}: clean, {files}/{} files, {blocks}/{} blocks", info.inodes, info.blocks);
            return Ok(ExitCode::SUCCESS);
        }
        self.look(replayed, matches!(info.state, "errors" | "unclean"))
    }

    fn info(&self) -> Result<ondol::Info, Failure> {
        ondol::info(self.target).map_err(|e| Failure::new(CHECK_OPERATION, unopened(e, self.target)))
    }

    /// Checks everything. `marked` says that the superblock asks for it, which it no longer does if nothing is
    /// wrong.
    fn look(&self, replayed: bool, marked: bool) -> Outcome {
        let target = self.target.display();
        let line = Line::new("checking");
        let report = ondol::check_telling(self.target, self.superblock, &mut |progress| line.tell(progress));
        line.end();
        let report = report.map_err(Failure::with(CHECK_OPERATION))?;
        for problem in &report.problems {
            say!("{target}: {problem}");
        }
        if report.needs_recovery {
            say!("{target}: the journal holds transactions; without -n and -b they are replayed");
            return Ok(ExitCode::from(CHECK_LEFT));
        }
        if report.unclean && report.problems.is_empty() {
            say!("{target}: not unmounted cleanly, and its journal is empty; without -n and -b the mark is taken away");
            return Ok(ExitCode::from(CHECK_LEFT));
        }
        if !report.is_clean() {
            let count = report.problems.len() as u64 + report.omitted;
            let pronoun = if count == 1 { "it" } else { "them" };
            say!("{target}: {}; `e2fsck -f` mends {pronoun}", counted(count, "problem"));
            return Ok(ExitCode::from(CHECK_LEFT));
        }
        if marked && !self.read_only {
            ondol::mark_checked(self.target).map_err(Failure::with(CHECK_OPERATION))?;
            say!("{target}: marked as checked");
        }
        let (inodes, blocks) = (counted(report.inodes, "inode"), counted(report.blocks, "block"));
        say!("{target}: clean, {inodes} and {blocks} in use");
        let changed = replayed || (marked && !self.read_only);
        Ok(if changed { ExitCode::from(CHECK_CORRECTED) } else { ExitCode::SUCCESS })
    }
}
