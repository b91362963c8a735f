//! Open fragment blocks: small writes of any files, one behind the other.

use crate::Result;
use crate::area::Area;
use crate::format::{BlockLine, FRAGMENT_BYTES, Filled, Fragment, FragmentKind, LINE, Owner, data_sum};
use crate::space::Space;
use ondol_env::sync::atomic::{AtomicU32, Ordering::SeqCst};
use ondol_medium::Stored;

/// A fragment block that is being filled, or none. Whoever has it appends one operation at a time, fenced: so a
/// fragment proves those of earlier operations in its block.
#[derive(Debug, Default)]
pub(crate) struct Open {
    block: Option<u32>,
    fill: u64,
    life: u32,
    /// How far the block before this one was filled: its successor says so, and proves it.
    before: Option<Filled>,
    /// A record on its way to NVM.
    scratch: Vec<u8>,
}

/// A fragment that is to be appended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct New<'b> {
    pub(crate) owner: Owner,
    pub(crate) sequence: u64,
    pub(crate) kind: FragmentKind,
    /// How many of the same operation were appended before it.
    pub(crate) part: u16,
    pub(crate) offset: u64,
    pub(crate) payload: &'b [u8],
}

/// Bytes of a data block that a fragment with such a payload takes.
pub(crate) fn footprint(payload: u64) -> u64 {
    (FRAGMENT_BYTES + payload).next_multiple_of(LINE)
}

impl Open {
    /// Bytes that are left.
    pub(crate) fn room(&self, area: &Area) -> u64 {
        if self.block.is_some() { area.block_size() - self.fill } else { 0 }
    }

    pub(crate) fn block(&self) -> Option<u32> {
        self.block
    }

    /// Nothing is appended to the block any more.
    pub(crate) fn close(&mut self, space: &Space) {
        if let Some(block) = self.block.take() {
            self.before = Some(Filled { block, life: self.life, fill: self.fill as u32 }).filter(|b| b.fill > 0);
            space.close(block);
        }
    }

    /// As [`Open::close`], after a failure: nobody knows what the last of it is.
    pub(crate) fn abandon(&mut self, space: &Space) {
        self.close(space);
        self.before = None;
    }

    /// Goes on in another block.
    pub(crate) fn begin(&mut self, block: u32, space: &Space, life: &AtomicU32) {
        self.close(space);
        space.open(block);
        (self.block, self.fill, self.life) = (Some(block), 0, life.fetch_add(1, SeqCst));
    }

    /// Stores a fragment behind the others, for which there is room. Returns its block and where in that the payload
    /// is.
    pub(crate) fn append(&mut self, area: &Area, batch: &mut Stored<'_>, new: New<'_>) -> Result<(u32, u32)> {
        let block = self.block.expect("there is room, so there is a block");
        if self.fill == 0 {
            let line = area.seal.encode_line(block, &BlockLine::Fragments { life: self.life, before: self.before });
            batch.store(area.line_at(block), &line)?;
        }
        let fragment = Fragment {
            owner: new.owner,
            sequence: new.sequence,
            offset: new.offset,
            len: new.payload.len() as u32,
            life: self.life,
            kind: new.kind,
            part: new.part,
            data: data_sum(new.payload),
        };
        let bytes = footprint(new.payload.len() as u64);
        self.scratch.clear();
        self.scratch.extend_from_slice(&area.seal.encode_fragment(block, &fragment));
        self.scratch.extend_from_slice(new.payload);
        self.scratch.resize(bytes as usize, 0);
        let at = area.block_at(block) + self.fill;
        // Short ones are cheaper through the caches.
        match bytes {
            0..=256 => batch.store(at, &self.scratch)?,
            _ => batch.copy(at, &self.scratch)?,
        }
        let payload = self.fill + FRAGMENT_BYTES;
        self.fill += bytes;
        Ok((block, payload as u32))
    }
}
