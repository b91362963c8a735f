//! The drain: syncs the files of running programs for real, and gives the room of their records back.

use crate::client::wall_ns;
use crate::error::Result;
use crate::format::{shared, slot};
use crate::lock;
use crate::look::Identity;
use crate::slot::Slot;
use crate::{Log, recover};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io;

/// How old live records may be: nanoseconds.
const AGE_NS: u64 = 1_000_000_000;

/// Syncs files for real. One process of all that use a pool does it at a time; another takes over when that is gone.
#[derive(Debug)]
pub struct Drain {
    log: Log,
    me: u64,
    files: HashMap<(u32, u64), File>,
    /// Removed before they could be opened: they are not looked for again.
    gone: HashSet<(u32, u64)>,
    failed: HashSet<(u32, u64)>,
}

/// A file that is to be synced.
struct Due {
    slot: u32,
    incarnation: u64,
    /// What was in the page cache before anything is synced for it.
    last: u64,
    /// Device number when it was opened: a copy of a file system has its identity, too.
    dev: u64,
    identity: Identity,
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
        Ok(Self { log, me, files: HashMap::new(), gone: HashSet::new(), failed: HashSet::new() })
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
        let mut missing = Vec::new();
        for slot in log.slots() {
            let incarnation = slot.load(slot::NAMED)?;
            if !slot.is_live()? {
                self.files.retain(|(index, _), _| *index != slot.index);
                self.gone.retain(|(index, _)| *index != slot.index);
                continue;
            }
            let key = (slot.index, incarnation);
            if !self.files.contains_key(&key) && !self.gone.contains(&key) {
                // While it has its name still: a file that is removed can be synced like any other then.
                let named = slot.identity()?.filter(|(named, ..)| *named == incarnation);
                let file = named.and_then(|(_, _, identity)| self.open(key, &identity));
                self.files.extend(file.map(|file| (key, file)));
            }
            let due = pressed || wall_ns() >= slot.load(slot::SINCE)?.saturating_add(AGE_NS);
            if !due || self.failed.contains(&key) {
                drained.live += 1;
            } else {
                missing.extend(self.sync(&slot, incarnation, &mut drained)?);
            }
        }
        self.sync_missing(missing, &mut drained)?;
        for lane in log.lanes() {
            lane.advance()?;
        }
        Ok(drained)
    }

    /// Opens a file, if it can be found.
    fn open(&mut self, key: (u32, u64), identity: &Identity) -> Option<File> {
        match recover::find(identity, recover::For::Sync) {
            recover::Place::Here(file, _) => Some(file),
            recover::Place::Gone => {
                self.gone.insert(key);
                None
            }
            recover::Place::Unknown(_) => None,
        }
    }

    /// Syncs a file and retires what was in the page cache before that; answers it if it cannot be found.
    fn sync(&mut self, slot: &Slot<'_>, incarnation: u64, drained: &mut Drained) -> Result<Option<Due>> {
        let key = (slot.index, incarnation);
        let last = slot.load(slot::LAST)?;
        let Some((_, dev, identity)) = slot.identity()?.filter(|(named, ..)| *named == incarnation) else {
            drained.live += 1;
            return Ok(None);
        };
        let found = self.files.remove(&key);
        let file = if self.gone.contains(&key) { found } else { found.or_else(|| self.open(key, &identity)) };
        let due = Due { slot: slot.index, incarnation, last, dev, identity };
        let Some(file) = file else { return Ok(Some(due)) };
        self.synced(&due, file.sync_all(), drained)?;
        self.files.insert(key, file);
        Ok(None)
    }

    /// Syncs everything on the file systems of files that cannot be found, once for all files of each: their names are gone, or they have others that we cannot know. The loss of a name is synced, too.
    fn sync_missing(&mut self, missing: Vec<Due>, drained: &mut Drained) -> Result<()> {
        let mut by_system = BTreeMap::<(u64, u64), Vec<Due>>::new();
        for file in missing {
            by_system.entry((file.dev, file.identity.fsid)).or_default().push(file);
        }
        for files in by_system.into_values() {
            let Some(dir) = files.iter().find_map(|file| recover::beside_it(&file.identity)) else {
                drained.live += files.len() as u64;
                continue;
            };
            let synced = rustix::fs::syncfs(dir);
            for file in files {
                self.synced(&file, synced.map_err(Into::into), drained)?;
            }
        }
        Ok(())
    }

    /// A file was synced for real, or could not be.
    fn synced(&mut self, file: &Due, synced: io::Result<()>, drained: &mut Drained) -> Result<()> {
        let slot = self.log.slot(file.slot);
        let Err(e) = synced else {
            drained.synced += 1;
            return slot.retire(file.incarnation, file.last);
        };
        // The kernel has told this descriptor and will not again: a sync that succeeds now would prove nothing. The program's own is real from here.
        slot.enter_broken()?;
        slot.leave()?;
        self.failed.insert((file.slot, file.incarnation));
        drained.live += 1;
        let path = file.identity.path.display();
        drained.failed.push(format!("{path}: cannot be synced: {e}; `ondol recover` has its bytes"));
        Ok(())
    }
}
