//! Pages as memory (papers/4, §2.1): those of blocks that nobody reads or writes, and free ones in the place of pages
//! that such blocks do not have.
//!
//! The medium sees to it that nobody else stores there ([`ondol_medium::Owned`]). To the table an owned page is a
//! pinned one: where its block gets another, it is held until the memory is given back. The medium has no record of it,
//! so after a crash nothing is to be undone. Design: `docs/design/direct.md`.

use crate::error::Result;
use crate::pins::Pins;
use crate::table::PageTable;
use ondol_block::{Memory, Own};
use ondol_env::sync::Arc;
use ondol_env::sync::atomic::Ordering::Relaxed;
use ondol_medium::{Owned, Ownership};
use std::ops::Range;

/// Pages in somebody's hands.
struct Hands {
    /// Taken when it goes.
    owned: Option<Owned>,
    /// Of blocks that have one.
    named: Vec<u32>,
    /// That were free.
    free: Vec<u32>,
    pins: Arc<Pins>,
}

impl Memory for Hands {
    fn bytes(&self) -> &[u8] {
        self.owned.as_deref().unwrap_or_default()
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.owned.as_deref_mut().unwrap_or_default()
    }
}

impl Drop for Hands {
    fn drop(&mut self) {
        self.owned = None;
        self.pins.are_unpinned(self.named.iter().copied());
        self.pins.give_free(&self.free);
        self.pins.memory.fetch_sub((self.named.len() + self.free.len()) as u64, Relaxed);
    }
}

impl PageTable {
    /// Gives pages of blocks as memory, as [`ondol_block::PageLender::own`].
    pub(crate) fn own_blocks(&self, blocks: &[Range<u64>]) -> Result<Own> {
        self.may_change()?;
        blocks.iter().filter(|run| !run.is_empty()).try_for_each(|run| self.in_range(run.end - 1, 0, 0))?;
        if !self.nvm.can_pin() {
            return Ok(Own::Refused("others may store to the pool"));
        }
        // What is late has two pages, or an old one that its block gives up.
        self.persist()?;
        let (mut named, mut without, mut busy) = (Vec::new(), 0, Vec::new());
        // As long as it is held no entry changes.
        let state = self.state.read();
        {
            let free = self.free.lock();
            for block in blocks.iter().cloned().flatten() {
                let is_late = state.late.contains_key(&block);
                match state.map[block as usize].checked_sub(1) {
                    // A record that is not home yet names a lent page: with other contents it would be no record any
                    // more.
                    Some(page) if free.is_lent(page) => busy.push(block),
                    Some(page) if is_late || self.is_pinned(page) => busy.push(block),
                    None if is_late => busy.push(block),
                    Some(page) => named.push(page),
                    None => without += 1,
                }
            }
        }
        if !busy.is_empty() {
            return Ok(Own::Busy(busy));
        }
        // Each of these blocks could be given one by a write.
        let Some(free) = self.pins.take_to_own(without) else { return Ok(Own::Short) };
        let (pins, runs) = (self.pins.clone(), self.config.runs(named.iter().chain(&free)));
        pins.memory.fetch_add((named.len() + free.len()) as u64, Relaxed);
        let mut hands = Hands { owned: None, named, free, pins };
        let ownership = Ownership::new(&self.nvm, &runs)?;
        drop(state);
        // Somebody has begun to read one of them in place.
        let Some(mut ownership) = ownership else { return Ok(Own::Busy(Vec::new())) };
        ownership.clear();
        hands.owned = ownership.map();
        if hands.owned.is_none() {
            let why = "they cannot be mapped again: where the system gives no more mappings, flattening the pool puts \
                       pages side by side, which then need one";
            return Ok(Own::Refused(why));
        }
        Ok(Own::Memory(Box::new(hands)))
    }
}
