//! The Handle: one operation's private write set.

use crate::cache::Buf;
use crate::change::{Base, Change, differences, joined};
use crate::write_set::{Staged, WriteSet};
use crate::{Before, Block, Bytes, Engine, Extent, JournalError, Kind, Placement, Result, Tid};
use ondol_env::sync::Arc;
use std::collections::HashMap;

/// A change of bits or of a number that concurrent operations share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// Bits become one.
    Set {
        /// The first bit.
        first: u32,
        /// How many bits.
        count: u32,
    },
    /// Bits become zero.
    Clear {
        /// The first bit.
        first: u32,
        /// How many bits.
        count: u32,
    },
    /// A little-endian number grows, whatever it then is.
    Add {
        /// Where it is in the block, in bytes.
        offset: usize,
        /// Its bytes, 1 to 4.
        width: u8,
        /// By how much.
        delta: i32,
    },
}

/// Blocks of the journal that a handle was promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credits {
    /// So many it has used.
    pub used: u32,
    /// So many more it may use.
    pub left: u32,
    /// Blocks of data that it has for its commit to write in place.
    pub delayed: u32,
}

/// One operation's changes, private until [`Handle::close`]. Dropping it changes nothing.
pub struct Handle<'e> {
    engine: &'e dyn Engine,
    reserved: u32,
    /// The numbers of the staged blocks, in their order.
    numbers: Vec<u64>,
    /// Where each is among them, once there are many.
    index: HashMap<u64, usize, crate::NumberHash>,
    /// The block that was read last: most are changed next.
    seen: Option<Arc<Buf>>,
    set: WriteSet<'e>,
    /// Blocks of the set that hold data which the engine may write home: they are promised less.
    newborn: u32,
}

/// Blocks that are searched one by one.
pub const FEW: usize = 16;

/// Bytes that a small operation changes in a block, about.
const USUAL_BYTES: usize = 128;

impl<'e> Handle<'e> {
    /// Opens a handle that may change up to `blocks` blocks.
    ///
    /// # Errors
    /// As [`Engine::reserve`]; may wait for journal space.
    pub fn begin(engine: &'e dyn Engine, blocks: u32) -> Result<Self> {
        engine.reserve(blocks)?;
        let few = FEW.min(blocks as usize);
        let set = WriteSet {
            arena: Vec::with_capacity(few * USUAL_BYTES),
            blocks: Vec::with_capacity(few),
            ..WriteSet::default()
        };
        let numbers = Vec::with_capacity(few);
        Ok(Self { engine, reserved: blocks, numbers, index: HashMap::default(), seen: None, set, newborn: 0 })
    }

    /// Asks for `blocks` more without waiting; false when the journal has no room and the operation must close first.
    pub fn extend(&mut self, blocks: u32) -> bool {
        let granted = self.engine.extend(blocks);
        if granted {
            self.reserved += blocks;
        }
        granted
    }

    /// What it was promised, and what of that it has used.
    pub fn credits(&self) -> Credits {
        let used = self.set.blocks.len() as u32 - self.newborn + self.engine.new_data_cost(self.newborn);
        Credits { used, left: self.reserved - used, delayed: self.newborn }
    }

    fn block_size(&self) -> usize {
        self.engine.cache().block_size()
    }

    /// Whether it has changed `block`.
    pub fn holds(&self, block: u64) -> bool {
        self.find(block).is_some()
    }

    fn find(&self, block: u64) -> Option<usize> {
        match self.index.is_empty() {
            true => self.numbers.iter().position(|&n| n == block),
            false => self.index.get(&block).copied(),
        }
    }

    /// The content of `block` as this operation sees it: published bytes plus its own changes.
    ///
    /// # Errors
    /// The block cannot be read or is corrupt.
    pub fn read(&mut self, block: u64, kind: Kind) -> Result<Block> {
        match self.find(block) {
            None => {
                let buf = self.engine.cache().get(block, kind)?;
                let bytes = buf.snapshot();
                self.seen = Some(buf);
                Ok(bytes)
            }
            Some(at) => Ok(self.set.view(at, self.engine.cache().block_size()).clone()),
        }
    }

    /// Stages `bytes` at `offset` of `block`.
    ///
    /// # Errors
    /// The block's base cannot be read or is corrupt, or the handle's promise is used up.
    pub fn write(&mut self, block: u64, kind: Kind, offset: usize, bytes: &[u8]) -> Result<()> {
        let at = self.stage_block(block, kind, false)?;
        self.put(at, offset, bytes);
        Ok(())
    }

    /// Copies published bytes from `offset` of `block` on, which the handle is going to change, whatever it has staged
    /// for it.
    ///
    /// # Errors
    /// As [`Handle::write`]; `Ok(false)` when the block is shorter.
    pub fn published(&mut self, block: u64, kind: Kind, offset: usize, into: &mut [u8]) -> Result<bool> {
        let at = self.stage_block(block, kind, false)?;
        Ok(self.set.blocks[at].buf.copy(offset, into))
    }

    /// Declares that `block` starts from zeros, whatever it held: a newly allocated metadata block.
    ///
    /// # Errors
    /// The handle's promise is used up.
    pub fn fresh(&mut self, block: u64, kind: Kind) -> Result<()> {
        self.stage_block(block, kind, true).map(|_| ())
    }

    /// Changes bits or a number that concurrent operations share. Those of concurrent handles merge.
    ///
    /// # Errors
    /// As [`Handle::write`].
    pub fn merge(&mut self, block: u64, kind: Kind, change: Merge) -> Result<()> {
        self.change(
            block,
            kind,
            match change {
                Merge::Set { first, count } => Change::Set { first, count },
                Merge::Clear { first, count } => Change::Clear { first, count },
                Merge::Add { offset, width, delta } => Change::Add { offset: offset as u32, width, delta },
            },
        )
    }

    /// Lets `edit` change a private copy of `block` and stages the bytes that differ afterwards.
    ///
    /// # Errors
    /// As [`Handle::write`].
    pub fn edit<R>(&mut self, block: u64, kind: Kind, edit: impl FnOnce(&mut [u8]) -> R) -> Result<R> {
        let at = self.stage_block(block, kind, false)?;
        let size = self.engine.cache().block_size();
        let before = self.set.view(at, size).clone();
        let mut after = before.to_vec();
        let result = edit(&mut after);
        for (offset, len) in differences(&before, &after) {
            self.put(at, offset, &after[offset..offset + len]);
        }
        Ok(result)
    }

    /// As [`Handle::write`], of the bytes that this changes alone: what a record engine logs is that much shorter.
    /// Nobody else may change them before the handle is closed.
    ///
    /// # Errors
    /// As [`Handle::write`].
    pub fn update(&mut self, block: u64, kind: Kind, offset: usize, bytes: &[u8]) -> Result<()> {
        let at = self.stage_block(block, kind, false)?;
        let staged = &self.set.blocks[at];
        let range = offset as u32..(offset + bytes.len()) as u32;
        let is_as_published = matches!(staged.base, Base::Live) && !staged.changes.overlap(range);
        let mut before = vec![0; bytes.len()];
        if !is_as_published || !staged.buf.copy(offset, &mut before) {
            return self.write(block, kind, offset, bytes);
        }
        for (from, len) in joined(differences(&before, bytes)) {
            self.put(at, offset + from, &bytes[from..from + len]);
        }
        Ok(())
    }

    /// Puts data at byte `at` of a block where `placement` says, which is not [`Placement::InPlace`]. A block that was
    /// not [`Before::Stored`] begins as zeros.
    ///
    /// # Errors
    /// The handle's promise is used up; the block's base cannot be read.
    pub fn put_data(
        &mut self,
        block: u64,
        at: usize,
        bytes: Bytes<'e, '_>,
        placement: Placement,
        before: Before,
    ) -> Result<()> {
        let whole = bytes.now().len() == self.block_size();
        // Where new data costs nothing, what is logged is no new data: it goes into the log, and not home with its
        // commit.
        let is_new = before == Before::New && (placement != Placement::Logged || self.engine.new_data_cost(1) > 0);
        let staged = if is_new {
            self.stage_new(block)?
        } else if placement == Placement::Delayed {
            self.stage_over(block, whole || before != Before::Stored)?
        } else {
            self.stage_block(block, Kind::DATA, whole || before != Before::Stored)?
        };
        match bytes {
            Bytes::Lent(bytes) if whole => self.set.blocks[staged].start_from(Base::Lent(bytes)),
            bytes => self.put(staged, at, bytes.now()),
        }
        Ok(())
    }

    /// Frees a run of blocks that held `kind`. Their pending checkpoints are dropped and revoked with the commit, and
    /// the client may allocate them again when [`crate::Client::release`] says so.
    pub fn free(&mut self, extent: Extent, kind: Kind) {
        self.set.freed.push((extent, kind));
    }

    /// Whether this handle has staged anything.
    pub fn is_empty(&self) -> bool {
        self.set.blocks.is_empty() && self.set.freed.is_empty()
    }

    /// Publishes all changes in one step. Readers see them when this returns; they are durable when
    /// [`Engine::wait_for`] returns for the transaction named here.
    pub fn close(mut self) -> Tid {
        let set = std::mem::take(&mut self.set);
        let reserved = std::mem::take(&mut self.reserved);
        self.engine.publish(set, reserved)
    }

    fn change(&mut self, block: u64, kind: Kind, change: Change) -> Result<()> {
        let at = self.stage_block(block, kind, false)?;
        self.set.change(at, change);
        Ok(())
    }

    fn put(&mut self, staged: usize, offset: usize, bytes: &[u8]) {
        if bytes.len() == self.engine.cache().block_size() {
            self.set.blocks[staged].start_from(Base::Whole(bytes.into()));
        } else {
            self.set.put(staged, offset, bytes);
        }
    }

    /// As [`Handle::stage_block`], of a block that this handle has allocated for data.
    fn stage_new(&mut self, block: u64) -> Result<usize> {
        if self.find(block).is_some() {
            return self.stage_block(block, Kind::DATA, true);
        }
        let max = self.engine.max_blocks();
        if self.set.blocks.len() as u32 >= max && self.engine.new_data_cost(1) > 0 {
            // It is in memory until it is committed, wherever it then goes.
            return Err(JournalError::TooBig { need: max + 1, max });
        }
        let more = self.engine.new_data_cost(self.newborn + 1) - self.engine.new_data_cost(self.newborn);
        if self.credits().left < more {
            return Err(JournalError::Unplanned { promised: self.reserved });
        }
        self.newborn += 1;
        let at = self.add_block(block, Kind::DATA, true)?;
        self.set.blocks[at].newborn = true;
        Ok(at)
    }

    /// As [`Handle::stage_block`], of data that the engine writes home and that is promised nothing.
    fn stage_over(&mut self, block: u64, fresh: bool) -> Result<usize> {
        if self.find(block).is_some() {
            return self.stage_block(block, Kind::DATA, fresh);
        }
        let at = self.add_block(block, Kind::DATA, fresh)?;
        self.newborn += 1;
        self.set.blocks[at].over = true;
        Ok(at)
    }

    fn stage_block(&mut self, block: u64, kind: Kind, fresh: bool) -> Result<usize> {
        if let Some(at) = self.find(block) {
            if fresh {
                let staged = &mut self.set.blocks[at];
                staged.kind = kind;
                staged.start_from(Base::Zeros);
            }
            return Ok(at);
        }
        if self.credits().left == 0 {
            return Err(JournalError::Unplanned { promised: self.reserved });
        }
        self.add_block(block, kind, fresh)
    }

    fn add_block(&mut self, block: u64, kind: Kind, fresh: bool) -> Result<usize> {
        let cache = self.engine.cache();
        let buf = match self.seen.take().filter(|buf| buf.block == block && !fresh) {
            Some(buf) => buf,
            None if fresh => cache.get_unread(block, kind),
            None => cache.get(block, kind)?,
        };
        self.numbers.push(block);
        if self.numbers.len() > FEW {
            let from = self.index.len();
            self.index.extend(self.numbers.iter().copied().zip(0..).skip(from));
        }
        let base = if fresh { Base::Zeros } else { Base::Live };
        self.set.blocks.push(Staged::new(buf, kind, base));
        Ok(self.set.blocks.len() - 1)
    }
}

impl Drop for Handle<'_> {
    fn drop(&mut self) {
        if self.reserved > 0 {
            self.engine.unreserve(self.reserved);
        }
    }
}
