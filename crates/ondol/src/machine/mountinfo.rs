//! `/proc/self/mountinfo`: which volumes are mounted where.

pub use ondol_medium::mountinfo::{Entry, covering, on, read, read_of};

/// The file system type that a mount of ours has.
pub const FS_TYPE: &str = "fuse.ondol";
