//! Transactions: several operations as one.
//!
//! ```text
//!   steps ─▶ rename lock ─▶ attempt: lock what they name ─▶ Op ─▶ each step: plan on the Op, grant, do_… ─▶ close
//!                              ▲                                                             │
//!                              └──── drop everything, begin with more locks or space ◀───────┘
//! ```
//!
//! A step is planned on what the steps before it have staged, with the same functions as the operation of its name, and
//! all go through one `Op`: so they take effect in one instant, for other threads and for a crash, or not at all.
//!
//! Which inodes names lead to is known only along the way. So an attempt *tries* each lock when it comes to it, and
//! never waits under a lock; when somebody else holds it, the attempt is dropped and the next one begins by locking, in
//! the lock order, everything that this one held and the inode that it lacked. The same way it gets journal space or
//! blocks that are not to be had without waiting. Directories on the way are locked shared, and everything that
//! changes, with the directories that hold its names, exclusively: until the close nobody can change what the steps
//! have been planned on.

mod attempt;
mod step;
mod walk;

use crate::dir::ops::{check_name, is_dots};
use crate::{Caller, DataMode, Error, Ino, Rename, SetXattr, Volume};
use attempt::{Stop, Want};
use std::collections::HashSet;

/// The names that lead from the root to an entry, one for each level; none for the root itself. Symbolic links on the
/// way are not followed, and "." and ".." are not names.
pub type Trail = Vec<Vec<u8>>;

/// One step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Makes an empty regular file with permission bits `perm`; with `keep`, one that exists already is left as it is.
    Create {
        /// Its name.
        at: Trail,
        /// Permission bits of a new file (0o7777).
        perm: u16,
        /// Whether it may exist.
        keep: bool,
    },
    /// Makes an empty directory.
    CreateDir {
        /// Its name.
        at: Trail,
        /// Permission bits (0o7777).
        perm: u16,
    },
    /// Makes a symbolic link.
    Symlink {
        /// Its name.
        at: Trail,
        /// What it says.
        target: Vec<u8>,
    },
    /// Gives what is not a directory a further name.
    HardLink {
        /// A name that it has.
        original: Trail,
        /// The further name.
        at: Trail,
    },
    /// Moves a name.
    Rename {
        /// From here.
        from: Trail,
        /// To here.
        to: Trail,
        /// What happens to what is there.
        how: Rename,
    },
    /// Removes a name of something that is not a directory.
    RemoveFile {
        /// The name.
        at: Trail,
    },
    /// Removes an empty directory.
    RemoveDir {
        /// Its name.
        at: Trail,
    },
    /// Writes into a regular file.
    WriteAt {
        /// Its name.
        at: Trail,
        /// First byte.
        offset: u64,
        /// What is written.
        bytes: Vec<u8>,
    },
    /// Writes behind the end of a regular file.
    Append {
        /// Its name.
        at: Trail,
        /// What is written.
        bytes: Vec<u8>,
    },
    /// Cuts a regular file off or extends it with zeros.
    SetLen {
        /// Its name.
        at: Trail,
        /// Its new size in bytes.
        size: u64,
    },
    /// Changes permission bits.
    SetPermissions {
        /// Whose.
        at: Trail,
        /// The new bits (0o7777).
        perm: u16,
    },
    /// Sets an extended attribute.
    SetXattr {
        /// Whose.
        at: Trail,
        /// Its full name.
        name: Vec<u8>,
        /// Its value.
        value: Vec<u8>,
        /// Whether it may, or must, exist.
        how: SetXattr,
    },
    /// Removes an extended attribute.
    RemoveXattr {
        /// Whose.
        at: Trail,
        /// Its full name.
        name: Vec<u8>,
    },
}

/// Why a transaction was refused. Nothing of it has taken effect.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct TransactionError {
    /// The step that failed, counted from 0; `None` if it is about the transaction as a whole.
    pub step: Option<usize>,
    /// Why.
    #[source]
    pub error: Error,
}

impl From<TransactionError> for Error {
    fn from(e: TransactionError) -> Self {
        e.error
    }
}

impl Step {
    /// Names that the step leads to the end, each with whether it makes, moves or removes that name.
    fn trails(&self) -> [Option<(&Trail, bool)>; 2] {
        match self {
            Self::Create { at, .. } | Self::CreateDir { at, .. } | Self::Symlink { at, .. } => [Some((at, true)), None],
            Self::RemoveFile { at } | Self::RemoveDir { at } => [Some((at, true)), None],
            Self::HardLink { original, at } => [Some((at, true)), Some((original, false))],
            Self::Rename { from, to, .. } => [Some((from, true)), Some((to, true))],
            Self::WriteAt { at, .. } | Self::Append { at, .. } | Self::SetLen { at, .. } => [Some((at, false)), None],
            Self::SetPermissions { at, .. } | Self::SetXattr { at, .. } | Self::RemoveXattr { at, .. } => {
                [Some((at, false)), None]
            }
        }
    }

    /// Bytes that it writes.
    fn len(&self) -> usize {
        match self {
            Self::WriteAt { bytes, .. } | Self::Append { bytes, .. } => bytes.len(),
            _ => 0,
        }
    }

    fn check(&self) -> crate::Result<()> {
        for (trail, changes_name) in self.trails().into_iter().flatten() {
            if trail.is_empty() && changes_name {
                return Err(Error::Invalid("the root directory has no name"));
            }
            for name in trail {
                check_name(name)?;
                if is_dots(name) {
                    return Err(Error::Invalid("\".\" and \"..\" are no names for a transaction"));
                }
            }
        }
        Ok(())
    }
}

/// The steps, and what is known about them beforehand.
struct Plan<'s> {
    steps: &'s [Step],
    caller: Caller,
    /// Where inodes lie that some step changes.
    changed: HashSet<&'s [Vec<u8>]>,
}

impl<'s> Plan<'s> {
    fn new(steps: &'s [Step], caller: Caller) -> Result<Self, TransactionError> {
        let mut changed: HashSet<&[Vec<u8>]> = HashSet::new();
        for (i, step) in steps.iter().enumerate() {
            step.check().map_err(|error| TransactionError { step: Some(i), error })?;
            for (trail, changes_name) in step.trails().into_iter().flatten() {
                changed.insert(trail);
                if let (true, Some((_, parent))) = (changes_name, trail.split_last()) {
                    changed.insert(parent);
                }
            }
        }
        Ok(Self { steps, caller, changed })
    }

    /// Journal blocks to begin with: what such steps usually take.
    fn usual(&self, vol: &Volume) -> u32 {
        let journaled = vol.options.data == DataMode::Journal;
        let block_size = vol.shared.sb.block_size() as usize;
        let data = |step: &Step| if journaled { step.len().div_ceil(block_size) } else { 0 };
        let sum = self.steps.iter().fold(0usize, |sum, step| sum.saturating_add(USUAL_STEP + data(step)));
        u32::try_from(sum).unwrap_or(u32::MAX).min(vol.engine.max_blocks())
    }
}

/// Journal blocks that most steps get on with.
const USUAL_STEP: usize = 8;

/// How often a transaction begins anew because others hold what it needs, or because it needs more space than it has.
/// Every attempt holds what the one before it lacked, so more than a few mean that the names themselves keep changing.
const ATTEMPTS: usize = 1000;

impl Volume {
    /// Does all steps, in this order, as one operation: other threads see all of it or nothing, a crash leaves all of
    /// it or nothing (as with every operation, bytes over stored ones are part of that only with `data=journal`), and
    /// when a step fails, nothing has changed. A file that loses its last name while it is open lives on as with
    /// [`crate::Namespace::unlink`].
    ///
    /// # Errors
    /// What the operations of the steps return, and which step did; `TooBig` when the journal cannot take all of it as
    /// one operation; `Contended` when it never found everything that it names in one state.
    pub fn apply(&self, steps: &[Step], caller: Caller) -> Result<(), TransactionError> {
        let plan = Plan::new(steps, caller)?;
        if steps.is_empty() {
            return Ok(());
        }
        let victims = self.attempts(&plan).map_err(|e| TransactionError { error: self.noted(e.error), ..e })?;
        for (ino, fate) in victims {
            self.names().bury(ino, fate);
        }
        self.xattrs().bury_values();
        Ok(())
    }

    /// Returns the inodes that have lost a name, with what has become of them.
    fn attempts(&self, plan: &Plan<'_>) -> Result<Vec<(Ino, crate::dir::ops::Fate)>, TransactionError> {
        let _rename = self.rename_lock.lock();
        let mut want = Want::usual(self, plan);
        for _ in 0..ATTEMPTS {
            match attempt::attempt(self, plan, &mut want) {
                Ok(victims) => return Ok(victims),
                Err(Stop::Failed(step, error)) => {
                    return Err(TransactionError { step, error });
                }
                Err(Stop::Busy(..) | Stop::Short(_)) => {}
            }
        }
        Err(TransactionError { step: None, error: Error::Contended })
    }
}
