//! What is counted of views and of batches.

use ondol_env::apart::Striped;

/// Bytes of files that were lent, or copied because they could not be.
#[derive(Debug, Default)]
pub(crate) struct Viewed {
    pub(crate) lent: Striped,
    pub(crate) copied: Striped,
}

/// What was made as one.
#[derive(Debug, Default)]
pub(crate) struct Made {
    pub(crate) calls: Striped,
    pub(crate) bytes: Striped,
    pub(crate) exchanges: Striped,
}
