//! The bytes of a block.

use ondol_env::sync::Arc;
use std::ops::Deref;

/// The bytes of one block at one moment.
///
/// A clone is the same bytes, shared: a reader's snapshot, a committing image and a checkpoint image cost a count. Whoever changes them copies them first, if
/// somebody else has them. Where they lie nobody outside is told. The default is no bytes: what stands for a block that is not in memory.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Block(Arc<[u8]>);

impl Block {
    /// `len` zeros.
    pub fn zeros(len: usize) -> Self {
        Self(std::iter::repeat_n(0, len).collect())
    }

    /// Whether these are the very same bytes, and not others that are equal.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether somebody else has them, too.
    pub(crate) fn is_shared(&mut self) -> bool {
        Arc::get_mut(&mut self.0).is_none()
    }

    /// To be changed: a copy, if somebody else has them.
    pub fn make_mut(&mut self) -> &mut [u8] {
        Arc::make_mut(&mut self.0)
    }
}

impl Deref for Block {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Block {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl From<&[u8]> for Block {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }
}

impl From<Vec<u8>> for Block {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Block({} bytes)", self.len())
    }
}
