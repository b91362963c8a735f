//! Where whole blocks of file data lie that records name in place of carrying them: pages beside the log
//! ([`super::pages`]), or free pages of the home ([`super::home_pages`]). The engine asks its pages, and never which
//! kind they are.

use super::ScalableCore;
use super::named::Named;
use crate::cache::Buf;
use crate::logged::Waiting;
use crate::write_set::Staged;
use crate::{JournalError, Result};
use ondol_env::sync::Arc;
use ondol_nvm_log::PageWrites;

/// The pages of one engine. What is not said otherwise is true where there are none: all data goes into records.
pub(super) trait DataPages: Delays {
    /// The engine's name as in `journal=`.
    fn engine(&self) -> &'static str {
        "scalable"
    }

    /// Finds pages for whole blocks of file data, as far as there are any, and says what belongs into them, by the
    /// blocks' places in the write set. What finds none is lent no longer.
    fn name<'p>(&self, _core: &ScalableCore, _arena: &[u8], blocks: &mut [Staged<'p>]) -> Vec<Named<'p>> {
        blocks.iter_mut().for_each(Staged::own);
        Vec::new()
    }

    /// Begins to store what belongs into pages under the fence of their record ([`super::named::at_once`]).
    fn store(&self, _named: &[Named<'_>]) -> Result<Option<PageWrites<'_>>> {
        Ok(None)
    }

    /// No record names these any more.
    fn give(&self, _pages: &[u32]) {}

    /// The complete record at `position` frees the block of this buffer.
    fn freed(&self, _buf: &Arc<Buf>, _position: u64) {}

    /// Whether a checkpoint need not write what this page was named for: home has it, or gets it by an entry of its
    /// map.
    fn is_there(&self, _page: u32) -> bool {
        false
    }

    /// Reads what a committed record says of `block` lies in `page`. False: home has it.
    fn read(&self, block: u64, _page: u32, _image: &mut [u8]) -> Result<bool> {
        Err(JournalError::LostData { block })
    }

    /// Whether they are pages of the home: a checkpoint sets entries of its map, and stores in place what may tear.
    fn are_of_home(&self) -> bool {
        false
    }

    /// Has the home's readers see the committed contents of blocks that lie in its pages, `(block, page)`. Durable with
    /// the next flush.
    fn set_entries(&self, _entries: &[(u64, u32)]) -> Result<()> {
        Ok(())
    }

    /// Pages that are named, and how many can be.
    fn used(&self) -> (u64, u64) {
        (0, 0)
    }

    /// Whether so many are named that a checkpoint has to give some back: more than this part of them.
    fn are_scarce(&self, _part: u64) -> bool {
        false
    }
}

/// New data that is in memory alone until it is committed, or goes home before that.
pub(super) trait Delays: Send + Sync {
    /// Whether new data may be written home before its operation is closed.
    fn let_pass(&self) -> bool {
        false
    }

    /// What may wait does so from now on: the record that names it gets its place next. Also says whether somebody
    /// should look how much waits.
    fn wait(&self, _blocks: &[Staged<'_>], _named: &[Named<'_>]) -> (Vec<Arc<Waiting>>, bool) {
        (Vec::new(), false)
    }

    /// A program waits for a commit.
    fn somebody_syncs(&self) {}

    /// No program has waited for a commit for so long that one may soon be waited for by a flush of the disk.
    fn is_quiet(&self) -> bool {
        false
    }

    /// Stores what waits, durably: whoever commits everything below `end` does so before it counts.
    fn store_waiting(&self, _end: u64) -> Result<()> {
        Ok(())
    }

    /// Bytes that wait.
    fn waiting(&self) -> u64 {
        0
    }

    /// Whether so much waits that the background should bring it home; or twice as much as may.
    fn much_waits(&self, _core: &ScalableCore, _flooded: bool) -> bool {
        false
    }

    /// Before a commit that no program waits for: writes what waits home, durably, as far as home takes it. `waits`:
    /// also for a checkpoint that is at work. Returns how many blocks.
    fn drain(&self, _core: &ScalableCore, _waits: bool) -> u64 {
        0
    }
}

/// A pool without pages (`buffer=0`).
pub(super) struct NoPages;

impl DataPages for NoPages {}

impl Delays for NoPages {}
