//! Filebench's file set: which files exist, which are open, and which one is next.
//!
//! Files are picked in rotation, from one rotor for those that exist and one for those that do not. A file is busy from
//! its pick until the operation that picked it is done; busy files are passed over.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The files of a set, by number.
#[derive(Debug)]
pub(super) struct FileSet(Mutex<State>);

#[derive(Debug)]
struct State {
    existing: BTreeSet<u32>,
    missing: BTreeSet<u32>,
    busy: BTreeSet<u32>,
    /// Openers of each file.
    open: Vec<u32>,
    /// Where the next pick of an existing file begins.
    next_existing: u32,
    /// Where the next pick of a missing file begins.
    next_missing: u32,
}

impl FileSet {
    /// A set of `files` files, of which `existing` are there.
    pub(super) fn new(files: u32, existing: BTreeSet<u32>) -> Self {
        let missing = (0..files).filter(|file| !existing.contains(file)).collect();
        Self(Mutex::new(State {
            existing,
            missing,
            busy: BTreeSet::new(),
            open: vec![0; files as usize],
            next_existing: 0,
            next_missing: 0,
        }))
    }

    /// The next file that exists, busy from now on. `None`: all are busy.
    pub(super) fn pick_existing(&self) -> Option<u32> {
        let mut state = self.lock();
        let file = pick(&state.existing, &state.busy, state.next_existing)?;
        state.next_existing = file.saturating_add(1);
        state.busy.insert(file);
        Some(file)
    }

    /// The next file that does not exist, busy from now on. `None`: all exist or are busy.
    pub(super) fn pick_missing(&self) -> Option<u32> {
        let mut state = self.lock();
        let file = pick(&state.missing, &state.busy, state.next_missing)?;
        state.next_missing = file.saturating_add(1);
        state.busy.insert(file);
        Some(file)
    }

    /// True if somebody has this file open.
    pub(super) fn is_open(&self, file: u32) -> bool {
        self.lock().open.get(file as usize).is_some_and(|&openers| openers > 0)
    }

    /// A picked file has been left as it is.
    pub(super) fn left(&self, file: u32) {
        self.lock().busy.remove(&file);
    }

    /// A picked file has been opened.
    pub(super) fn opened(&self, file: u32) {
        let mut state = self.lock();
        state.busy.remove(&file);
        state.existing.insert(file);
        state.missing.remove(&file);
        if let Some(openers) = state.open.get_mut(file as usize) {
            *openers += 1;
        }
    }

    /// An opened file has been closed.
    pub(super) fn closed(&self, file: u32) {
        if let Some(openers) = self.lock().open.get_mut(file as usize) {
            *openers = openers.saturating_sub(1);
        }
    }

    /// A picked file has been deleted.
    pub(super) fn deleted(&self, file: u32) {
        let mut state = self.lock();
        state.busy.remove(&file);
        state.existing.remove(&file);
        state.missing.insert(file);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is one assignment or insertion: a thread that panicked has left nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first file of `files` at or after `from`, going round, that is not busy.
fn pick(files: &BTreeSet<u32>, busy: &BTreeSet<u32>, from: u32) -> Option<u32> {
    files.range(from..).chain(files.range(..from)).copied().find(|file| !busy.contains(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_in_rotation() {
        let set = FileSet::new(5, BTreeSet::from([0, 2, 4]));
        let next = || {
            let file = set.pick_existing().expect("a file");
            set.left(file);
            file
        };
        assert_eq!([next(), next(), next(), next()], [0, 2, 4, 0]);
    }

    #[test]
    fn busy_files_are_passed_over() {
        let set = FileSet::new(3, BTreeSet::from([0, 1]));
        assert_eq!((set.pick_existing(), set.pick_existing(), set.pick_existing()), (Some(0), Some(1), None));
        assert_eq!((set.pick_missing(), set.pick_missing()), (Some(2), None));
        set.left(1);
        assert_eq!(set.pick_existing(), Some(1));
    }

    #[test]
    fn files_come_and_go() {
        let set = FileSet::new(2, BTreeSet::from([0]));
        let file = set.pick_missing().expect("a missing file");
        set.opened(file);
        assert!(set.is_open(1) && set.pick_missing().is_none());
        set.closed(file);
        assert!(!set.is_open(1));
        assert_eq!(set.pick_existing(), Some(0));
        set.deleted(0);
        assert_eq!((set.pick_missing(), set.pick_existing()), (Some(0), Some(1)));
    }
}
