//! The name that was last looked for in a directory.
//!
//! Whoever makes or renames a name has it looked up first: by then the search is done. What is remembered was seen
//! under the directory's lock and holds until a name in it changes, which takes that lock exclusively and forgets it.

use super::{Search, Slot};
use ondol_env::sync::Mutex;

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Memo(Mutex<Option<Box<Seen>>>);

#[derive(Debug, Default)]
struct Seen {
    name: Vec<u8>,
    search: Option<Search>,
}

impl Memo {
    /// Keeps what a search for `name` found; the directory is locked.
    pub(crate) fn keep(&self, name: &[u8], search: &Search) {
        let cheap = matches!(search, Search::Found(_) | Search::Absent(Slot::Leaf { .. }));
        // Whoever else looks for something at this moment may have it: it is only a memo.
        let Some(mut memo) = self.0.try_lock().filter(|_| cheap) else { return };
        let seen = memo.get_or_insert_default();
        seen.name.clear();
        seen.name.extend_from_slice(name);
        seen.search = Some(search.clone());
    }

    /// What was found when `name` was the last that was looked for; the directory is locked.
    pub(crate) fn recall(&self, name: &[u8]) -> Option<Search> {
        let memo = self.0.lock();
        let seen = memo.as_ref().filter(|seen| seen.name == name)?;
        seen.search.clone()
    }

    /// Names are about to change; the directory is locked exclusively.
    pub(crate) fn forget(&self) {
        if let Some(seen) = &mut *self.0.lock() {
            seen.search = None;
        }
    }
}
