//! What is asked and told of a page cache above.

use crate::Volume;

/// The page cache above a volume, if there is one: what it was given, and what it may still write.
#[derive(Clone, Copy)]
pub struct PageCache<'v> {
    pub(crate) vol: &'v Volume,
}

impl Volume {
    /// The page cache above it.
    pub fn page_cache(&self) -> PageCache<'_> {
        PageCache { vol: self }
    }
}
