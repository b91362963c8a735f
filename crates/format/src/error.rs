//! What can be wrong with bytes, said so that a person finds the structure on the image.

use std::fmt;

/// `std::result::Result` with [`FormatError`].
pub type Result<T, E = FormatError> = std::result::Result<T, E>;

/// Where a structure lies on the image, as far as the caller knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Physical block number.
    pub block: Option<u64>,
    /// Inode number.
    pub inode: Option<u32>,
    /// Block group number.
    pub group: Option<u32>,
}

impl Place {
    /// Nowhere in particular.
    pub const NONE: Place = Place { block: None, inode: None, group: None };

    /// A structure in physical block `block`.
    pub const fn block(block: u64) -> Place {
        Place { block: Some(block), inode: None, group: None }
    }

    /// A structure of inode `inode`.
    pub const fn inode(inode: u32) -> Place {
        Place { block: None, inode: Some(inode), group: None }
    }

    /// A structure of block group `group`.
    pub const fn group(group: u32) -> Place {
        Place { block: None, inode: None, group: Some(group) }
    }

    /// The same place, with the block known.
    pub const fn in_block(self, block: u64) -> Place {
        Place { block: Some(block), ..self }
    }

    /// A corruption found here.
    pub fn corrupt(self, structure: &'static str, what: impl Into<String>) -> FormatError {
        FormatError::Corrupt(Corrupt { structure, place: self, what: what.into() })
    }

    /// A checksum that does not match, found here.
    pub fn checksum(self, structure: &'static str, stored: u32, computed: u32) -> FormatError {
        FormatError::Checksum { structure, place: self, stored, computed }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(block) = self.block {
            write!(f, " in block {block}")?;
        }
        if let Some(inode) = self.inode {
            write!(f, " of inode {inode}")?;
        }
        if let Some(group) = self.group {
            write!(f, " of group {group}")?;
        }
        Ok(())
    }
}

/// A structure whose bytes break a rule of the format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corrupt {
    /// The structure, in ext4's or jbd2's words.
    pub structure: &'static str,
    /// Where it lies.
    pub place: Place,
    /// Which rule it breaks.
    pub what: String,
}

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}: {}", self.structure, self.place, self.what)
    }
}

/// Every error of this crate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The bytes break a rule of the format.
    #[error("{0}")]
    Corrupt(Corrupt),
    /// The stored checksum is not that of the bytes.
    #[error("{structure}{place}: checksum {stored:#010x}, computed {computed:#010x}")]
    Checksum {
        /// The structure, in ext4's or jbd2's words.
        structure: &'static str,
        /// Where it lies.
        place: Place,
        /// The checksum on the image.
        stored: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
    /// The bytes are no ext4 image or no jbd2 journal at all.
    #[error("no {what}: magic number {found:#x}, not {expected:#x}")]
    BadMagic {
        /// What was looked for.
        what: &'static str,
        /// The number found.
        found: u32,
        /// The number that belongs there.
        expected: u32,
    },
    /// Sound bytes that use features this crate does not handle.
    #[error("unsupported {what}: {}", names.join(", "))]
    Unsupported {
        /// Which feature set, as "incompatible features".
        what: &'static str,
        /// Names as mke2fs writes them, or bit numbers.
        names: Vec<String>,
    },
    /// Something does not fit where it should go (a value too long for its field, a full block).
    #[error("{0}")]
    TooLarge(String),
    /// A parameter of mkfs that cannot be honoured.
    #[error("{0}")]
    Parameter(String),
}
