//! The drain: syncs the files of running programs for real, and gives the room of their records back.

use crate::client::wall_ns;
use crate::error::Result;
use crate::format::{shared, slot};
use crate::lock;
use crate::look::Identity;
use crate::slot::Slot;
use crate::{Log, recover};
use std::collections::HashMap;
use std::fs::File;

/// How old live records may be: nanoseconds.
const AGE_NS: u64 = 1_000_000_000;

/// Syncs files for real. One process of all that use a pool does it at a time; another takes over when that is gone.
#[derive(Debug)]
pub struct Drain {
    log: Log,
    me: u64,
    files: HashMap<(u32, u64), File>,
    failed: HashMap<(u32, u64), ()>,
}

/// What a step has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Files that were synced.
    pub synced: u64,
    /// Files that have live records still.
    pub live: u64,
    /// There is not much room: the next step should come soon.
    pub pressed: bool,
    /// Why files could not be synced, one line each; said once.
    pub failed: Vec<String>,
}

impl Drain {
    /// A process that will drain.
    ///
    /// # Errors
    /// The medium's failure.
    pub fn new(log: Log) -> Result<Self> {
        let me = u64::from(std::process::id()) << 32 | log.token()?;
        Ok(Self { log, me, files: HashMap::new(), failed: HashMap::new() })
    }

    /// Syncs every file whose records are a second old, or all if `now`, or if a lane is a quarter full. Does nothing while another process drains.
    ///
    /// # Errors
    /// The medium's failure, or that a word in the pool is damaged.
    pub fn step(&mut self, now: bool) -> Result<Drained> {
        let log = self.log.clone();
        let mut drained = Drained::default();
        let Some(_held) = lock::try_lock(&log.nvm, log.shared(shared::DRAIN_LOCK), self.me) else { return Ok(drained) };
        let mut pressed = now;
        for lane in log.lanes() {
            let (used, len) = lane.used()?;
            pressed |= used > len / 4;
        }
        drained.pressed = pressed;
        for slot in log.slots() {
            let incarnation = slot.load(slot::NAMED)?;
            if !slot.is_live()? {
                self.files.retain(|(index, _), _| *index != slot.index);
                continue;
            }
            if !self.files.contains_key(&(slot.index, incarnation)) {
                // While it has its name still: a file that is removed can be synced like any other then.
                let named = slot.identity()?.filter(|(named, ..)| *named == incarnation);
                let file = named.and_then(|(_, _, identity)| opened(&identity));
                self.files.extend(file.map(|file| ((slot.index, incarnation), file)));
            }
            let due = pressed || wall_ns() >= slot.load(slot::SINCE)?.saturating_add(AGE_NS);
            let synced = due && self.sync(&slot, incarnation, &mut drained)?;
            (drained.synced, drained.live) = (drained.synced + u64::from(synced), drained.live + u64::from(!synced));
        }
        for lane in log.lanes() {
            lane.advance()?;
        }
        Ok(drained)
    }

    /// Syncs a file and retires what was in the page cache before that.
    fn sync(&mut self, slot: &Slot<'_>, incarnation: u64, drained: &mut Drained) -> Result<bool> {
        let key = (slot.index, incarnation);
        if self.failed.contains_key(&key) {
            return Ok(false);
        }
        let last = slot.load(slot::LAST)?;
        let Some((named, _, identity)) = slot.identity()?.filter(|(named, ..)| *named == incarnation) else {
            return Ok(false);
        };
        let file = self.files.remove(&key).or_else(|| opened(&identity));
        let synced = match &file {
            Some(file) => file.sync_all(),
            // Its name is gone, or it has another that we cannot know. Then everything on its file system is synced, and the loss of its name, too.
            None => match recover::beside_it(&identity) {
                Some(dir) => rustix::fs::syncfs(dir).map_err(Into::into),
                None => return Ok(false),
            },
        };
        match synced {
            Ok(()) => slot.retire(named, last)?,
            Err(e) => {
                // The kernel has told this descriptor and will not again: a sync that succeeds now would prove nothing. The program's own is real from here.
                slot.enter_broken()?;
                slot.leave()?;
                self.failed.insert(key, ());
                drained
                    .failed
                    .push(format!("{}: cannot be synced: {e}; `ondol recover` has its bytes", identity.path.display()));
            }
        }
        self.files.extend(file.map(|file| (key, file)));
        Ok(!self.failed.contains_key(&key))
    }
}

/// Opens a file, if it can be found.
fn opened(identity: &Identity) -> Option<File> {
    match recover::find(identity, recover::For::Sync) {
        recover::Place::Here(file, _) => Some(file),
        _ => None,
    }
}
