//! The name that was last looked for in a directory.
//!
//! Whoever makes or renames a name has it looked up first: by then the search is done. What is remembered was seen
//! under the directory's lock and holds until a name in it changes, which takes that lock exclusively and forgets it.

use crate::Ino;
use ondol_env::sync::Mutex;

/// A name's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The inode it names.
    pub(crate) ino: Ino,
    /// Its file type code.
    pub(crate) file_type: u8,
    /// The physical block it lies in; [`super::inline::HERE`] in an inode.
    pub(super) block: u64,
    /// Where it begins there.
    pub(super) offset: usize,
    /// Where the entry before it begins, unless it is the first.
    pub(super) before: Option<usize>,
}

/// What a search found that is worth remembering.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Remembered {
    /// The name.
    Found(Entry),
    /// Its absence, and a block that has room for it.
    Leaf {
        /// Where it lies.
        block: u64,
        /// In place of, or behind which of its entries; `None` if it has room only once its entries are packed.
        gap: Option<usize>,
    },
}

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Memo(Mutex<Option<Box<Seen>>>);

#[derive(Debug, Default)]
struct Seen {
    name: Vec<u8>,
    found: Option<Remembered>,
}

impl Memo {
    /// Keeps what a search for `name` found; the directory is locked.
    pub(crate) fn keep(&self, name: &[u8], found: Remembered) {
        // Whoever else looks for something at this moment may have it: it is only a memo.
        let Some(mut memo) = self.0.try_lock() else { return };
        let seen = memo.get_or_insert_default();
        seen.name.clear();
        seen.name.extend_from_slice(name);
        seen.found = Some(found);
    }

    /// What was found when `name` was the last that was looked for; the directory is locked.
    pub(crate) fn recall(&self, name: &[u8]) -> Option<Remembered> {
        let memo = self.0.lock();
        memo.as_ref().filter(|seen| seen.name == name)?.found
    }

    /// Names are about to change; the directory is locked exclusively.
    pub(crate) fn forget(&self) {
        if let Some(seen) = &mut *self.0.lock() {
            seen.found = None;
        }
    }
}
