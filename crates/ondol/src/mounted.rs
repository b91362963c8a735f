//! What a [`Volume`](crate::Volume) and everything that is open in it share.
//!
//! Whatever is open has a [`Hold`]. The last one to let go, the volume or a hold, closes. Holds are counted and listed
//! where threads seldom meet: behind one of several doors, each in cache lines of its own.

use crate::compose::Composed;
use crate::recording;
use crate::{Error, Open, Result};
use ondol_env::Background;
use ondol_env::apart::{Apart, STRIPES, stripe};
use ondol_env::sync::{Arc, Mutex, thread};
use ondol_journal::JournalError;
use ondol_volume::{Caller, Volume as Inodes};
use std::collections::BTreeMap;
use std::ops::Deref;

/// A mounted image with the threads that work for it.
pub(crate) struct Mounted {
    // The threads must end before what they step.
    background: Background<JournalError>,
    composed: Option<Composed>,
    /// Dropping closes.
    closes: bool,
}

/// What is open, by the number that it got at its door.
#[derive(Default)]
struct List {
    next: u64,
    open: BTreeMap<u64, Open>,
}

struct Door {
    /// Only read, so it lies apart from the count of references, which changes.
    mounted: Apart<Arc<Mounted>>,
    list: Apart<Mutex<List>>,
}

/// All ways to a mounted image: what a volume has of it.
pub(crate) struct Doors {
    mounted: Arc<Mounted>,
    doors: [Arc<Door>; STRIPES],
}

/// Keeps an image mounted for something that is open in it.
pub(crate) struct Hold {
    door: Arc<Door>,
    number: u64,
}

impl Mounted {
    pub(crate) fn new(background: Background<JournalError>, composed: Composed, closes: bool) -> Self {
        Self { background, composed: Some(composed), closes }
    }

    pub(crate) fn composed(&self) -> &Composed {
        // Taken only by `shut_down`, which the last one who has this calls.
        self.composed.as_ref().expect("a mounted image")
    }

    pub(crate) fn inodes(&self) -> &Inodes {
        &self.composed().inodes
    }

    /// The inodes, for a call that is made of the library itself.
    ///
    /// # Errors
    /// [`Error::Recording`] within the closure of this volume's [`crate::Volume::transaction`].
    pub(crate) fn usable(&self) -> Result<&Inodes> {
        if recording::has(self) { Err(Error::Recording) } else { Ok(self.inodes()) }
    }

    /// Does something that may need space, for whom it is done.
    pub(crate) fn act<T>(&self, caller: Caller, work: impl FnOnce(&Inodes) -> T) -> T {
        let inodes = self.inodes();
        inodes.on_behalf_of(caller, || work(inodes))
    }

    fn shut_down(&mut self) -> Result<()> {
        self.background.stop();
        match self.composed.take() {
            Some(composed) => composed.close(),
            None => Ok(()),
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if !self.closes {
            return;
        }
        if let Err(e) = self.shut_down() {
            tracing::error!("closing a volume: {e}");
        }
    }
}

impl Doors {
    pub(crate) fn new(mounted: Mounted) -> Self {
        let mounted = Arc::new(mounted);
        let door = |_| Arc::new(Door { mounted: Apart(mounted.clone()), list: Apart::default() });
        Self { doors: std::array::from_fn(door), mounted }
    }

    /// Keeps the image mounted for `open`.
    pub(crate) fn hold(&self, open: Open) -> Hold {
        Hold::of(&self.doors[stripe()], open)
    }

    /// Everything that is open, in order.
    pub(crate) fn open(&self) -> Vec<Open> {
        let mut open: Vec<Open> = self.doors.iter().flat_map(|door| door.open()).collect();
        open.sort();
        open
    }

    /// Closes, if nothing is open.
    ///
    /// # Errors
    /// [`Error::StillOpen`]: the last hold closes then. Otherwise the journal's or the store's failure.
    pub(crate) fn close(self) -> Result<()> {
        let Self { mut mounted, doors } = self;
        let mut open: Vec<Open> = doors.into_iter().flat_map(shut).collect();
        open.sort();
        if !open.is_empty() {
            return Err(Error::StillOpen(open));
        }
        loop {
            match Arc::try_unwrap(mounted) {
                Ok(mut last) => return last.shut_down(),
                // A hold that was listed no more is about to let go.
                Err(shared) => mounted = shared,
            }
            thread::yield_now();
        }
    }
}

/// Gives up a door; returns what is open behind it.
fn shut(mut door: Arc<Door>) -> Vec<Open> {
    loop {
        match Arc::try_unwrap(door) {
            Ok(_) => return Vec::new(),
            Err(shared) => door = shared,
        }
        let open = door.open();
        if !open.is_empty() {
            return open;
        }
        // A hold that is listed no more is about to let go.
        thread::yield_now();
    }
}

impl Door {
    fn open(&self) -> Vec<Open> {
        self.list.lock().open.values().cloned().collect()
    }
}

impl Deref for Doors {
    type Target = Mounted;

    fn deref(&self) -> &Mounted {
        &self.mounted
    }
}

impl Hold {
    fn of(door: &Arc<Door>, open: Open) -> Self {
        let mut list = door.list.lock();
        let number = list.next;
        list.next += 1;
        list.open.insert(number, open);
        Self { door: door.clone(), number }
    }

    /// Of the same image.
    pub(crate) fn is_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.door.mounted, &other.door.mounted)
    }

    /// One more, for something else that is open.
    pub(crate) fn another(&self, open: Open) -> Self {
        Self::of(&self.door, open)
    }
}

impl Deref for Hold {
    type Target = Mounted;

    fn deref(&self) -> &Mounted {
        &self.door.mounted
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.door.list.lock().open.remove(&self.number);
    }
}
