//! What transactions, contents of blocks, and runs of blocks are called.

/// The number of a transaction, or of whatever an engine makes durable as one. They grow by one and never repeat, also
/// across engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tid(pub u64);

impl Tid {
    /// The one after this.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// jbd2's transaction id, of which the format keeps 32 bits.
    pub fn low(self) -> u32 {
        self.0 as u32
    }
}

/// What a block holds, in the volume's words. Engines treat it as opaque, except for [`Kind::DATA`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kind {
    /// The volume's own class number; 0 is file data.
    pub class: u8,
    /// Whose block it is: an inode or group number.
    pub owner: u32,
    /// A further word that the checksum needs, such as the inode's generation.
    pub salt: u32,
}

impl Kind {
    /// File data: never sealed, never verified.
    pub const DATA: Self = Self { class: 0, owner: 0, salt: 0 };
}

/// A run of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extent {
    /// First block.
    pub start: u64,
    /// Number of blocks.
    pub len: u32,
}
