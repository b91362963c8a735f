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
    space: &'b mut [u8],
    len: usize,
}

impl<'b> Listing<'b> {
    pub(crate) fn new(space: &'b mut [u8]) -> Self {
        Self { space, len: 0 }
    }

    /// Adds an entry, after its attributes if it has a place for them; `false` when there is no room.
    pub(crate) fn add(&mut self, plus: Option<&EntryOut>, ino: u64, next: u64, kind: u32, name: &[u8]) -> bool {
        let head = plus.map_or(0, |_| size_of::<EntryOut>()) + size_of::<Dirent>();
        let end = self.len + (head + name.len()).next_multiple_of(8);
        let Some(mut space) = self.space.get_mut(self.len..end) else { return false };
        let namelen = u32::try_from(name.len()).unwrap_or(u32::MAX);
        let entry = Dirent { ino, off: next, namelen, kind };
        for part in [plus.map_or(&[][..], IntoBytes::as_bytes), entry.as_bytes(), name] {
            let (place, rest) = std::mem::take(&mut space).split_at_mut(part.len());
            place.copy_from_slice(part);
            space = rest;
        }
        space.fill(0);
        self.len = end;
        true
    }

    /// Bytes that it takes.
    pub(crate) fn len(&self) -> usize {
        self.len
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
