//! What operations are done to: the model, a volume in this process, a directory of a mount.

mod directory;
mod library;
mod lockstep;
mod opened;
mod steps;
mod user;

pub use directory::{Directory, Remount, fallocate_flags};
pub use library::Library;
pub use lockstep::{Disagreement, Lockstep};
pub use user::User;

use crate::Outcome;
use crate::dump::Snapshot;
use crate::model::{Mapping, Model};
use crate::op::Op;

/// Something that does operations and shows what became of them.
pub trait Target {
    /// Does one call.
    ///
    /// # Errors
    /// The class of failure; nothing has changed then, unless it is [`crate::Fail::NoSpace`] or [`crate::Fail::Io`].
    fn apply(&mut self, op: &Op) -> Outcome;

    /// Everything that can be seen.
    ///
    /// # Errors
    /// Says what could not be read.
    fn snapshot(&mut self) -> Result<Snapshot, String>;

    /// Whether the kernel asks a FUSE server what it is asked, and answers some calls itself.
    fn is_fuse(&self) -> bool {
        false
    }

    /// Whether most of its blocks and inodes are free, so that a small call finds what it needs.
    fn is_roomy(&self) -> bool {
        false
    }

    /// How its files are mapped.
    fn mapping(&self) -> Mapping {
        Mapping::default()
    }
}

impl Target for Model {
    fn apply(&mut self, op: &Op) -> Outcome {
        Self::apply(self, op)
    }

    fn snapshot(&mut self) -> Result<Snapshot, String> {
        Ok(Self::snapshot(self))
    }
}
