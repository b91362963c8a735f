//! How blocks are asked for: in turn, and with the work of all stages where there are none.

use crate::fragments::Open;
use crate::shared::Core;
use crate::space::Taken;
use crate::stats::Counters;
use crate::{BufferError, Result};
use ondol_env::sync::MutexGuard;
use ondol_env::thread_number;

impl Core {
    /// Takes blocks, in turn with others. No lock is held meanwhile.
    pub(crate) fn obtain(&self, count: usize) -> Result<Taken<'_>> {
        if let Some(taken) = self.space.try_take(count)? {
            if self.is_short() {
                self.bell.ring();
            }
            return Ok(taken);
        }
        Counters::add(&self.counters.waits, 1);
        let turn = self.space.queue();
        loop {
            turn.wait_to_be_first();
            if let Some(taken) = turn.take(count)? {
                return Ok(taken);
            }
            if !self.relieve(count)? && turn.is_first() {
                turn.wait_for_others();
            }
        }
    }

    /// Does what all stages would do, until so many blocks can be had. Whether any came free.
    fn relieve(&self, count: usize) -> Result<bool> {
        let before = self.space.available();
        let wanted = (count + crate::space::RESERVE) as u32;
        let _hurry = self.hurry();
        let is_enough = |core: &Self| core.space.available() >= wanted;
        self.reclaim_clean(wanted);
        if is_enough(self) || (self.compact()? && is_enough(self)) {
            return Ok(true);
        }
        let flushed = self.flush_all();
        let synced = self.sync_all();
        self.close_open_blocks();
        self.reclaim_clean(u32::MAX);
        let came_free = self.space.available() > before || is_enough(self);
        match flushed.and(synced) {
            Err(BufferError::Home(e)) if !came_free => Err(BufferError::Full(e)),
            Err(e) if !came_free => Err(e),
            _ => Ok(came_free),
        }
    }

    /// What is in open fragment blocks keeps them no longer than it must.
    fn close_open_blocks(&self) {
        for open in self.open.iter().chain([&self.compactor]) {
            open.lock().close(&self.space);
        }
    }

    /// An open fragment block with room for `need` bytes; `spare` has a block for it, if it was asked for with others.
    pub(crate) fn open_with_room(&self, need: u64, spare: Option<&mut Taken<'_>>) -> Result<MutexGuard<'_, Open>> {
        let shard = &self.open[thread_number() as usize % self.open.len()];
        let mut open = shard.lock();
        if open.room(&self.area) >= need {
            return Ok(open);
        }
        let spare = match spare {
            Some(taken) => taken.next(),
            None => self.space.try_take(1)?.and_then(|mut taken| taken.next()),
        };
        if let Some(block) = spare {
            open.begin(block, &self.space, &self.life);
            return Ok(open);
        }
        drop(open);
        let mut taken = self.obtain(1)?;
        let mut open = shard.lock();
        if open.room(&self.area) < need
            && let Some(block) = taken.next()
        {
            open.begin(block, &self.space, &self.life);
        }
        Ok(open)
    }
}
