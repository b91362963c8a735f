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

/// Which slots of one block are whose.
#[derive(Debug, Default)]
struct Slots {
    used: HashMap<Ino, u32>,
    free: Vec<u32>,
}

/// Where an orphan is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    block: u64,
    index: u32,
}

/// The orphan file in memory. A slot belongs to whoever claims it until it is given back, which happens when the operation
/// that cleared it is published; so the slots themselves need no lock.
#[derive(Debug)]
pub(super) struct OrphanFile {
    kind: Kind,
    blocks: Vec<(u64, Mutex<Slots>)>,
}

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
        let mut file = Self { kind: kind::orphan_file(ino, inode.generation), blocks: Vec::new() };
        let mut seen = HashMap::new();
        for at in 0..(inode.size / block_size) as u32 {
            let mut reader = vol;
            let Mapped::Written(block) = map(&mut reader, ino, &inode, at)?.what else {
                return Err(bad(format!("its block {at} is not allocated")));
            };
            let slots = read_slots(vol, block, file.kind)?;
            for &orphan in slots.used.keys() {
                check_orphan(vol, orphan).map_err(|what| bad(format!("it names inode {orphan}, {what}")))?;
                if seen.insert(orphan, at).is_some() {
                    return Err(bad(format!("it names inode {orphan} twice")));
                }
            }
            file.blocks.push((block, Mutex::new(slots)));
        }
        Ok(file)
    }

    /// Blocks in the order in which an inode looks for its slot: different inodes begin at different blocks.
    fn blocks_for(&self, ino: Ino) -> impl Iterator<Item = &(u64, Mutex<Slots>)> {
        let home = ino as usize % self.blocks.len().max(1);
        self.blocks[home..].iter().chain(&self.blocks[..home])
    }

    /// The slot of an orphan.
    pub(super) fn find(&self, ino: Ino) -> Option<Slot> {
        self.blocks_for(ino).find_map(|(block, slots)| {
            let index = *slots.lock().used.get(&ino)?;
            Some(Slot { block: *block, index })
        })
    }

    /// Takes a free slot for an inode that has none; None when the file is full.
    pub(super) fn claim(&self, ino: Ino) -> Option<Slot> {
        self.blocks_for(ino).find_map(|(block, slots)| {
            let mut slots = slots.lock();
            let index = slots.free.pop()?;
            slots.used.insert(ino, index);
            Some(Slot { block: *block, index })
        })
    }

    /// Makes the slot of an inode claimable again.
    pub(super) fn give_back(&self, ino: Ino) {
        for (_, slots) in self.blocks_for(ino) {
            let mut slots = slots.lock();
            if let Some(index) = slots.used.remove(&ino) {
                slots.free.push(index);
                return;
            }
        }
    }

    /// Stages a slot's content: an inode, or 0.
    pub(super) fn write(&self, op: &mut Op<'_>, slot: Slot, ino: Ino) -> Result<()> {
        Ok(op.handle()?.write(slot.block, self.kind, slot.index as usize * 4, &ino.to_le_bytes())?)
    }

    /// All orphans in it, by rising number.
    pub(super) fn inodes(&self) -> Vec<Ino> {
        let mut all: Vec<Ino> =
            self.blocks.iter().flat_map(|(_, s)| s.lock().used.keys().copied().collect::<Vec<_>>()).collect();
        all.sort_unstable();
        all
    }
}

fn read_slots(vol: &Volume, block: u64, kind: Kind) -> Result<Slots> {
    let bytes = vol.engine.read(block, kind)?;
    let mut slots = Slots::default();
    for (index, ino) in (0..).zip(orphan_file::entries(&bytes)) {
        if ino == 0 {
            slots.free.push(index);
        } else if slots.used.insert(ino, index).is_some() {
            return Err(Error::corrupt("orphan file", block, format!("it names inode {ino} twice")));
        }
    }
    // The first free slot is taken first.
    slots.free.reverse();
    Ok(slots)
}

/// Whether an inode may be an orphan at all: it exists, is not reserved, and is in use. Says why not.
pub(super) fn check_orphan(vol: &Volume, ino: Ino) -> std::result::Result<(), String> {
    let shared = &vol.shared;
    let special = Some(ino) == shared.sb.orphan_file_inum() || Some(ino) == shared.sb.journal_inum();
    if ino < shared.sb.first_ino() || special {
        return Err("which is reserved".into());
    }
    if ino > shared.sb.inodes_count() {
        return Err("which does not exist".into());
    }
    let checked = shared.groups.check_freeing_inode(&shared.sb, &*vol.engine, ino);
    checked.map_err(|e| format!("which cannot be one: {e}"))
}
