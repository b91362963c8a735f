//! The name that was last looked for in a directory.
//!
//! Whoever makes or renames a name has it looked up first: by then the search is done. What is remembered was seen under the
//! directory's lock and holds until a name in it changes, which takes that lock exclusively and forgets it.

use super::{Search, Slot};
use ondol_env::sync::Mutex;

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Memo(Mutex<Seen>);

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
        let Some(mut seen) = self.0.try_lock().filter(|_| cheap) else { return };
        seen.name.clear();
        seen.name.extend_from_slice(name);
        seen.search = Some(search.clone());
    }

    /// What was found when `name` was the last that was looked for; the directory is locked.
    pub(crate) fn recall(&self, name: &[u8]) -> Option<Search> {
        let seen = self.0.lock();
        seen.search.as_ref().filter(|_| seen.name == name).cloned()
    }

    /// Names are about to change; the directory is locked exclusively.
    pub(crate) fn forget(&self) {
        self.0.lock().search = None;
    }
}
