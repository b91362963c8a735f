//! Inodes as a whole: what stat(2) tells, flags, who uses them, and their end when nobody does any more.

use crate::Volume;

/// Inodes: their attributes and flags, their openers, and the orphans among them.
#[derive(Clone, Copy)]
pub struct InodeOps<'v> {
    pub(crate) vol: &'v Volume,
}

impl Volume {
    /// Its inodes.
    pub fn inode_ops(&self) -> InodeOps<'_> {
        InodeOps { vol: self }
    }
}
