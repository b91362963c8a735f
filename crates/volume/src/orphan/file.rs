//! The orphan file: a slot for every orphan.

use crate::file::{Mapped, map};
use crate::node::read_inode;
use crate::op::Op;
use crate::{Error, Ino, Result, Volume, kind};
use ondol_env::sync::Mutex;
use ondol_format::orphan_file;
use ondol_journal::Kind;
use std::collections::HashMap;

/// The largest orphan file that is believed, bytes; ext4 has the same limit.
const MAX_SIZE: u64 = 8 << 20;

/// Where an orphan is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    block: u64,
    index: u32,
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
    /// Reads the whole file, inode `ino`.
    ///
    /// # Errors
    /// Corruption of its inode or of a block, an entry that cannot be an orphan or is there twice.
    pub(super) fn load(vol: &Volume, ino: Ino) -> Result<Self> {
        let bad = |what: String| Error::corrupt(format!("orphan file (inode {ino})"), 0, what);
        let inode = read_inode(&vol.shared, &*vol.engine, ino)?;
        let block_size = u64::from(vol.shared.sb.block_size());
        let sound = inode.is_regular() && inode.size <= MAX_SIZE && inode.size.is_multiple_of(block_size);
        if !sound || inode.size == 0 {
            return Err(bad(format!("mode {:#o} with {} bytes cannot be one", inode.mode, inode.size)));
        }
        let used = (0..SHARDS).map(|_| Mutex::default()).collect();
        let mut file = Self { kind: kind::orphan_file(ino, inode.generation), blocks: Vec::new(), used };
        for at in 0..(inode.size / block_size) as u32 {
            let mut reader = vol;
            let Mapped::Written(block) = map(&mut reader, ino, &inode, at)?.what else {
                return Err(bad(format!("its block {at} is not allocated")));
            };
            let bytes = vol.engine.read(block, file.kind)?;
            let mut free = Vec::new();
            for (index, orphan) in (0..).zip(orphan_file::entries(&bytes)) {
                if orphan == 0 {
                    free.push(index);
                    continue;
                }
                check_orphan(vol, orphan).map_err(|what| bad(format!("it names inode {orphan}, {what}")))?;
                if file.shard(orphan).lock().insert(orphan, Slot { block, index }).is_some() {
                    return Err(bad(format!("it names inode {orphan} twice")));
                }
            }
            // The first free slot is taken first.
            free.reverse();
            file.blocks.push(Block { at: block, free: Mutex::new(free) });
        }
        Ok(file)
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

    /// Stages a slot's content: an inode, or 0.
    pub(super) fn write(&self, op: &mut Op<'_>, slot: Slot, ino: Ino) -> Result<()> {
        Ok(op.handle()?.write(slot.block, self.kind, slot.index as usize * 4, &ino.to_le_bytes())?)
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

/// Whether an inode may be an orphan at all: it exists, is not reserved, and is in use. Says why not.
pub(super) fn check_orphan(vol: &Volume, ino: Ino) -> std::result::Result<(), String> {
    let shared = &vol.shared;
    if ino > shared.sb.inodes_count() {
        return Err("which does not exist".into());
    }
    if !shared.sb.may_be_named(ino) || ino == crate::ROOT || shared.is_journal(ino) {
        return Err("which is reserved".into());
    }
    let checked = shared.groups.check_freeing_inode(&shared.sb, &*vol.engine, ino);
    checked.map_err(|e| format!("which cannot be one: {e}"))
}
