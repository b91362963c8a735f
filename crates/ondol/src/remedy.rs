//! What helps against an error: which step, without the words in which one front end or another asks for it.

use ondol_journal::JournalError;
use ondol_medium::{NvmError, PoolError};
use ondol_page_table::TableError;
use ondol_run_log::RunLogError;
use ondol_volume::Error as VolumeError;
use std::io::ErrorKind;

/// A step that helps against an error. Messages say what is wrong; how a step is done depends on who asks, so programs
/// add that in their own words: the name of a command, or of a button.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// Say how large the image shall be ([`crate::FormatOptions::size`]).
    Size,
    /// Make it nevertheless, over what is there (`force`).
    Force,
    /// Recover an image that nobody has open ([`crate::recover`]).
    Recover {
        /// The image, where it is known.
        image: Option<String>,
    },
    /// Give the image a longer journal ([`crate::tune()`]).
    LongerJournal {
        /// The image.
        image: String,
    },
    /// Recover an image with the pool in front of it ([`crate::recover_with_pool`]).
    RecoverWithPool {
        /// The pool, where it is known.
        pool: Option<String>,
    },
    /// Make a pool ([`crate::pool::create`]).
    MakePool {
        /// The pool, where it is known.
        pool: Option<String>,
    },
    /// Make a pool anew, which gives up what it holds ([`crate::pool::create`] with `force`).
    RemakePool {
        /// The pool.
        pool: String,
    },
    /// Make an image in a pool ([`crate::Volume::format`]), or bring one there ([`crate::import`]).
    MakeInPool {
        /// The pool, where it is known.
        pool: Option<String>,
    },
    /// Move the image into a new pool ([`crate::export`], [`crate::import`]).
    MoveToNewPool,
    /// Run a program with the pool, which makes its log ([`crate::run::start`]).
    Run {
        /// The pool.
        pool: String,
    },
    /// Run programs with another pool.
    RunElsewhere,
    /// Take a volume in object storage from whoever has it open ([`crate::Options::with_take_over`]). What was not
    /// synced there is lost.
    TakeOver {
        /// The volume.
        target: String,
    },
    /// Make a volume in object storage ([`crate::Volume::format`]), or bring one there ([`crate::import`]).
    MakeInBucket,
    /// Open the volume with the log on a machine that its last writer has left ([`crate::Options::with_redo`]), or give
    /// up what is in that log and nowhere else ([`crate::Options::with_log_given_up`]).
    LocalLog {
        /// The UUID of the log.
        log: String,
    },
    /// Use a build that has the feature `object`.
    OtherBuild,
    /// Bring home what programs have left in a pool ([`crate::run::recover`]), or run them with another pool.
    RecoverRun {
        /// The pool.
        pool: String,
    },
}

pub(crate) fn of_volume(e: &VolumeError) -> Option<Remedy> {
    match e {
        VolumeError::Journal(JournalError::Aborted(_)) => Some(Remedy::Recover { image: None }),
        VolumeError::Journal(JournalError::Home(_)) => Some(Remedy::RecoverWithPool { pool: None }),
        _ => None,
    }
}

pub(crate) fn of_pool(e: &PoolError) -> Option<Remedy> {
    match e {
        PoolError::NotAPool { name } => Some(Remedy::MakePool { pool: Some(name.clone()) }),
        PoolError::Damaged { name, .. } | PoolError::Differ { name } => Some(Remedy::RemakePool { pool: name.clone() }),
        PoolError::NoFree { .. } => Some(Remedy::MakePool { pool: None }),
        PoolError::Holds { .. } => Some(Remedy::Force),
        _ => None,
    }
}

pub(crate) fn of_table(e: &TableError) -> Option<Remedy> {
    match e {
        TableError::NoTable { pool } => Some(Remedy::MakeInPool { pool: Some(pool.clone()) }),
        _ => None,
    }
}

pub(crate) fn of_nvm(e: &NvmError) -> Option<Remedy> {
    match e {
        NvmError::Open { what: "open", name, source } if source.kind() == ErrorKind::NotFound => {
            Some(Remedy::MakePool { pool: Some(name.clone()) })
        }
        _ => None,
    }
}

pub(crate) fn of_run(e: &RunLogError) -> Option<Remedy> {
    match e {
        RunLogError::NoArea { pool } => Some(Remedy::Run { pool: pool.clone() }),
        RunLogError::Header { pool, .. } | RunLogError::Word { pool, .. } | RunLogError::Names { pool, .. } => {
            Some(Remedy::RemakePool { pool: pool.clone() })
        }
        RunLogError::Failed { pool } => Some(Remedy::RecoverRun { pool: pool.clone() }),
        _ => None,
    }
}
