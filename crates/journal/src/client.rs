//! What an engine asks of the volume that feeds it.

use crate::{Corrupt, Extent, Kind, Ranges};
use std::ops::Range;

/// The images of one transaction, by block number.
pub trait Images {
    /// The unsealed image of `block`, if the transaction holds it.
    fn image(&self, block: u64) -> Option<&[u8]>;
}

/// Derived bytes that a seal computed: `(offset, bytes)` pairs for one image.
#[derive(Clone, Debug, Default)]
pub struct Patches {
    bytes: Vec<u8>,
    parts: Vec<(u32, u32)>,
}

impl Patches {
    /// Sets `bytes` at `offset`.
    pub fn put(&mut self, offset: usize, bytes: &[u8]) {
        self.parts.push((offset as u32, bytes.len() as u32));
        self.bytes.extend_from_slice(bytes);
    }

    /// Nothing was derived.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.parts.clear();
    }

    /// Writes the derived bytes into `image`.
    pub fn apply(&self, image: &mut [u8]) {
        let mut at = 0;
        for &(offset, len) in &self.parts {
            let (offset, len) = (offset as usize, len as usize);
            image[offset..offset + len].copy_from_slice(&self.bytes[at..at + len]);
            at += len;
        }
    }
}

/// Where a block stands that says something about another one, in values that a seal derives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Derived {
    /// The block.
    pub block: u64,
    /// What it holds.
    pub kind: Kind,
    /// The bytes that have to be sealed anew when the other one changes.
    pub bytes: Range<u32>,
}

/// What an engine asks of the volume that feeds it.
pub trait Client: Send + Sync {
    /// Builds a block of which the medium holds nothing yet (an uninitialised bitmap), in zeros. False: what home has
    /// counts.
    fn build(&self, kind: Kind, bytes: &mut [u8]) -> bool;

    /// Checks a block that was read from home.
    ///
    /// # Errors
    /// Names the structure and what is wrong with it.
    fn verify(&self, block: u64, kind: Kind, bytes: &[u8]) -> std::result::Result<(), Corrupt>;

    /// Computes the derived values (checksums, free counts) of an image of metadata that goes to journal or home, from
    /// that image, the other images of the same transaction, and nothing else. `dirty` are the bytes that changed in it
    /// since its last seal.
    fn seal(&self, block: u64, kind: Kind, image: &[u8], dirty: &Ranges, tx: &dyn Images) -> Patches;

    /// The block that has values derived from a block of this kind, as a descriptor has of its bitmaps: it goes
    /// wherever the other goes. None for most.
    fn derived(&self, _kind: Kind) -> Option<Derived> {
        None
    }

    /// Whether a crash may leave a block of this kind at home with some bytes new and some old, as long as the
    /// journal's records say which: not where something is read of it before those are applied, as of the superblock.
    fn may_tear(&self, kind: Kind) -> bool;

    /// The freeing transaction is durable, or comes before all that is written from now on, and no late write to these
    /// blocks can come any more: they may be allocated again.
    fn release(&self, freed: &[Extent]);
}
