//! The orphan file: a slot for every orphan.

use crate::Ino;
use ondol_env::sync::Mutex;
use ondol_journal::Kind;
use std::collections::HashMap;

/// Where an orphan is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) block: u64,
    pub(super) index: u32,
}

/// The orphan file in memory. A slot belongs to whoever claims it until it is given back, which happens when the
/// operation that cleared it is published; so the slots themselves need no lock.
#[derive(Debug)]
pub(super) struct OrphanFile {
    kind: Kind,
    blocks: Vec<Block>,
    /// Whose slot is where, by the inode's number, so that what is no orphan is known without a look at every block.
    used: Vec<Mutex<HashMap<Ino, Slot>>>,
}

/// One block of the file.
#[derive(Debug)]
struct Block {
    at: u64,
    /// Indices of its free slots.
    free: Mutex<Vec<u32>>,
}

/// How many maps of owners there are: unlinks of different inodes need not wait for one another.
const SHARDS: usize = 16;

impl OrphanFile {
    /// An empty one of blocks of this kind.
    pub(super) fn new(kind: Kind) -> Self {
        Self { kind, blocks: Vec::new(), used: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }

    /// What its blocks are.
    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// Takes in its next block, with the indices of its free slots: the last is claimed first.
    pub(super) fn add_block(&mut self, at: u64, free: Vec<u32>) {
        self.blocks.push(Block { at, free: Mutex::new(free) });
    }

    /// Enters an orphan that a block names; false if it has a slot already.
    pub(super) fn enter(&self, ino: Ino, block: u64, index: u32) -> bool {
        self.shard(ino).lock().insert(ino, Slot { block, index }).is_none()
    }

    fn shard(&self, ino: Ino) -> &Mutex<HashMap<Ino, Slot>> {
        &self.used[ino as usize % SHARDS]
    }

    /// The slot of an orphan.
    pub(super) fn find(&self, ino: Ino) -> Option<Slot> {
        self.shard(ino).lock().get(&ino).copied()
    }

    /// Takes a free slot for an inode that has none; None when the file is full.
    pub(super) fn claim(&self, ino: Ino) -> Option<Slot> {
        // Different inodes begin to look at different blocks.
        let home = ino as usize % self.blocks.len().max(1);
        let slot = self.blocks[home..].iter().chain(&self.blocks[..home]).find_map(|block| {
            let index = block.free.lock().pop()?;
            Some(Slot { block: block.at, index })
        })?;
        self.shard(ino).lock().insert(ino, slot);
        Some(slot)
    }

    /// Makes the slot of an inode claimable again.
    pub(super) fn give_back(&self, ino: Ino) {
        let Some(slot) = self.shard(ino).lock().remove(&ino) else { return };
        if let Some(block) = self.blocks.iter().find(|b| b.at == slot.block) {
            block.free.lock().push(slot.index);
        }
    }

    /// How many orphans are in it.
    pub(super) fn len(&self) -> usize {
        self.used.iter().map(|shard| shard.lock().len()).sum()
    }

    /// All orphans in it, by rising number.
    pub(super) fn inodes(&self) -> Vec<Ino> {
        let mut all: Vec<Ino> = self.used.iter().flat_map(|s| s.lock().keys().copied().collect::<Vec<_>>()).collect();
        all.sort_unstable();
        all
    }
}
