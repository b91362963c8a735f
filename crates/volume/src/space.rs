//! The free space: what grows it, what discards it, and what takes it for memory.

use crate::Volume;

/// The space of a volume: how much there is, and what is free of it.
#[derive(Clone, Copy)]
pub struct FreeSpace<'v> {
    pub(crate) vol: &'v Volume,
}

impl Volume {
    /// Its space.
    pub fn space(&self) -> FreeSpace<'_> {
        FreeSpace { vol: self }
    }
}
