//! From values to the bytes of an answer.

use super::wire::{Attr, Dirent, EntryOut, OutHeader};
use zerocopy::IntoBytes;

/// The header of an answer whose parts are `len` bytes long. `error` is a positive errno, or 0.
pub(crate) fn header(unique: u64, error: i32, len: usize) -> OutHeader {
    let len = u32::try_from(size_of::<OutHeader>().saturating_add(len)).unwrap_or(u32::MAX);
    OutHeader { len, error: error.saturating_neg(), unique }
}

/// A listing being filled, within the size that the kernel asked for.
pub(crate) struct Listing<'b> {
    bytes: &'b mut Vec<u8>,
    most: usize,
}

impl<'b> Listing<'b> {
    pub(crate) fn new(bytes: &'b mut Vec<u8>, most: usize) -> Self {
        bytes.clear();
        Self { bytes, most }
    }

    /// Adds an entry, after its attributes if it has a place for them; `false` when there is no room.
    pub(crate) fn add(&mut self, plus: Option<&EntryOut>, ino: u64, next: u64, kind: u32, name: &[u8]) -> bool {
        let head = plus.map_or(0, |_| size_of::<EntryOut>()) + size_of::<Dirent>();
        let whole = (head + name.len()).next_multiple_of(8);
        if self.bytes.len() + whole > self.most {
            return false;
        }
        let end = self.bytes.len() + whole;
        if let Some(entry) = plus {
            self.bytes.extend_from_slice(entry.as_bytes());
        }
        let namelen = u32::try_from(name.len()).unwrap_or(u32::MAX);
        self.bytes.extend_from_slice(Dirent { ino, off: next, namelen, kind }.as_bytes());
        self.bytes.extend_from_slice(name);
        self.bytes.resize(end, 0);
        true
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes
    }
}

/// An entry that the kernel may keep for `seconds`, with its attributes.
pub(crate) fn entry(nodeid: u64, generation: u32, attr: Attr, seconds: u64) -> EntryOut {
    EntryOut {
        nodeid,
        generation: generation.into(),
        entry_valid: seconds,
        attr_valid: seconds,
        entry_valid_nsec: 0,
        attr_valid_nsec: 0,
        attr,
    }
}
