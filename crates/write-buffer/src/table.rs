//! The volume table in memory: which files are in the buffer, by name and by slot (papers/2, §2.2).

use crate::file::FileState;
use crate::format::Owner;
use crate::home::Identity;
use ondol_env::sync::Arc;
use std::collections::{BTreeMap, VecDeque};

/// Files that have a slot.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) names: BTreeMap<Identity, Arc<FileState>>,
    /// Removed in NVM; whether at home, too. Their names are not synced yet.
    pub(crate) removed: Vec<(Arc<FileState>, bool)>,
    pub(crate) by_slot: Vec<Option<Arc<FileState>>>,
    pub(crate) free_slots: VecDeque<u32>,
    pub(crate) next_incarnation: u32,
    /// Where reclaim goes on.
    cursor: usize,
}

impl Files {
    pub(crate) fn new(slots: u32) -> Self {
        Self {
            names: BTreeMap::new(),
            removed: Vec::new(),
            by_slot: vec![None; slots as usize],
            free_slots: (0..slots).collect(),
            next_incarnation: 1,
            cursor: 0,
        }
    }

    /// All files, beginning with another one each time.
    pub(crate) fn round(&mut self) -> Vec<Arc<FileState>> {
        let mut all = self.all();
        let count = all.len().max(1);
        all.rotate_left(self.cursor % count);
        self.cursor = (self.cursor + 1) % count;
        all
    }

    /// All files, by slot.
    pub(crate) fn all(&self) -> Vec<Arc<FileState>> {
        self.by_slot.iter().flatten().cloned().collect()
    }

    pub(crate) fn of_owner(&self, owner: Owner) -> Option<Arc<FileState>> {
        let file = self.by_slot.get(owner.slot as usize)?.as_ref()?;
        (file.owner == owner).then(|| file.clone())
    }
}
