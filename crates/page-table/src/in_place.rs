//! Writing in place, for callers that can write all of it again after a crash
//! ([`ondol_block::BlockStore::write_in_place`]): lines that differ are stored into the page that the block has. So a
//! block of which a few bytes change costs a few lines, no page, no entry, and no fence of its own.

use crate::error::Result;
use crate::table::{PageTable, State};
use crate::write::Source;
use ondol_medium::{PAGE, Stored};
use std::io::IoSlice;

/// Blocks that are written while others wait for the map.
const AT_ONCE: usize = 16;
/// What a store to the medium costs anyway.
const LINE: usize = 64;

impl PageTable {
    /// Writes buffers, each at its offset, which are in range. Durable when this returns, but for what a copy was made
    /// of: that is with the next flush.
    pub(crate) fn write_each_in_place(&self, places: &[(u64, &[u8])]) -> Result<()> {
        self.may_change()?;
        let mut batch = self.nvm.stored();
        let mut copied = Vec::new();
        for some in places.chunks(AT_ONCE) {
            let mut state = self.state.write();
            for place in some {
                if !self.overwrite(&mut state, &mut batch, place)? {
                    copied.push(*place);
                }
            }
        }
        let written = batch.write_back();
        written.fence()?;
        for (offset, bytes) in copied {
            self.write_at(offset, &Source::new(&[IoSlice::new(bytes)]))?;
        }
        Ok(())
    }

    /// Stores what differs into the page of the one block that this is all of. False: it needs a page.
    fn overwrite(&self, state: &mut State, batch: &mut Stored<'_>, (offset, bytes): &(u64, &[u8])) -> Result<bool> {
        let block = offset / PAGE;
        if offset % PAGE != 0 || bytes.len() as u64 != PAGE {
            return Ok(false);
        }
        let Some(page) = state.map[block as usize].checked_sub(1) else { return Ok(false) };
        // Whoever has borrowed it counts on what it holds, and so does who reads it in place. Nobody pins it as long as
        // the map is held here alone.
        if self.free.lock().is_lent(page) || self.is_pinned(page) {
            return Ok(false);
        }
        let mut now = [0; PAGE as usize];
        if self.read_page(page + 1, 0, &mut now).is_err() {
            // A line of it is lost: another page has all of it again.
            return Ok(false);
        }
        state.views.hide(block);
        let start = self.config.page_at(page);
        let lines = || now.chunks(LINE).zip(bytes.chunks(LINE)).map(|(old, new)| old != new);
        let mut line = 0;
        for run in lines().collect::<Vec<_>>().chunk_by(|a, b| a == b) {
            let (from, to) = (line * LINE, (line + run.len()) * LINE);
            if run[0] {
                batch.copy(start + from as u64, &bytes[from..to])?;
            }
            line += run.len();
        }
        state.views.changed(block, &state.map);
        Ok(true)
    }
}
