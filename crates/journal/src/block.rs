//! The bytes of a block.

use ondol_env::sync::Arc;
use std::ops::Deref;

/// The bytes of one block at one moment.
///
/// A clone is the same bytes, shared: a reader's snapshot, a committing image and a checkpoint image cost a count.
/// Whoever changes them copies them first, if somebody else has them. Where they lie nobody outside is told. The
/// default is no bytes: what stands for a block that is not in memory.
///
/// Count and bytes are allocated apart: bytes with a count in front would take the allocator's next larger size, a
/// quarter more memory for blocks of 4 KiB.
#[derive(Clone, Default)]
pub struct Block(Option<Arc<Box<[u8]>>>);

impl Block {
    /// `len` zeros.
    pub fn zeros(len: usize) -> Self {
        vec![0; len].into()
    }

    /// Whether these are the very same bytes, and not others that are equal.
    pub fn is(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            (own, other) => own.is_none() && other.is_none(),
        }
    }

    /// To be changed: a copy, if somebody else has them.
    pub fn make_mut(&mut self) -> &mut [u8] {
        self.0.as_mut().map_or(&mut [], |bytes| &mut Arc::make_mut(bytes)[..])
    }
}

impl PartialEq for Block {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Block {}

impl Deref for Block {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], |bytes| &bytes[..])
    }
}

impl AsRef<[u8]> for Block {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl From<&[u8]> for Block {
    fn from(bytes: &[u8]) -> Self {
        Self(Some(Arc::new(bytes.into())))
    }
}

impl From<Vec<u8>> for Block {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Some(Arc::new(bytes.into_boxed_slice())))
    }
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Block({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_seen_by_nobody_else() {
        let mut block = Block::zeros(16);
        let before = block.clone();
        assert!(block.is(&before));
        block.make_mut()[3] = 7;
        assert!(!block.is(&before));
        assert_eq!((before[3], block[3]), (0, 7));
        assert_eq!(block, Block::from(&block[..]));
    }

    #[test]
    fn no_bytes_are_no_block() {
        let mut none = Block::default();
        assert!(none.is_empty() && none.make_mut().is_empty() && none.is(&Block::default()));
        assert_eq!(none, Block::from(Vec::new()));
        assert!(!none.is(&Block::zeros(16)));
    }
}
