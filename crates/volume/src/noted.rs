//! Errors of the image: noted in memory where they are found, and written into the superblock soon after, as ext4 does.
//!
//! They are found with locks held and in the middle of operations, where nothing may begin another one. So what was
//! found waits for [`ErrorLog::save`], which whoever runs the engine's steps calls too, and for which a bell is
//! rung at once.

use crate::kind;
use crate::shared::Shared;
use ondol_env::sync::Mutex;
use ondol_env::{Bell, Progress};
use ondol_format::RawSuperblock;
use ondol_format::superblock::{ERRCODE_CORRUPTED, FoundError, SIZE, STATE_ERROR};
use ondol_journal::{Corrupt, Engine, Handle, JournalError};
use zerocopy::FromBytes;

/// Errors that the superblock does not tell of yet.
#[derive(Debug, Default)]
pub(crate) struct ErrorLog {
    waiting: Mutex<Waiting>,
    bell: Bell,
}

#[derive(Debug, Default)]
struct Waiting {
    first: Option<FoundError>,
    last: Option<FoundError>,
    count: u32,
}

impl ErrorLog {
    /// Notes what was found at that second.
    pub(crate) fn note(&self, found: &Corrupt, second: i64) {
        let found = FoundError::new(second, &found.structure, found.block, ERRCODE_CORRUPTED);
        {
            let mut waiting = self.waiting.lock();
            waiting.first.get_or_insert_with(|| found.clone());
            waiting.last = Some(found);
            waiting.count = waiting.count.saturating_add(1);
        }
        self.bell.ring();
    }

    /// Rung when something was noted.
    pub(crate) fn bell(&self) -> &Bell {
        &self.bell
    }

    /// Writes into the superblock what was noted since the last call; durable when this returns.
    ///
    /// # Errors
    /// The journal's failure.
    pub(crate) fn save(&self, shared: &Shared, engine: &dyn Engine) -> Result<Progress, JournalError> {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        let (Some(first), Some(last)) = (&waiting.first, &waiting.last) else { return Ok(Progress::Idle) };
        if engine.aborted().is_some() {
            return Ok(Progress::Idle);
        }
        let (block, at) = shared.sb.superblock_location();
        let mut handle = Handle::begin(engine, 1)?;
        handle.edit(block, kind::SUPERBLOCK, |bytes| {
            let Some(bytes) = bytes.get_mut(at..at + SIZE) else { return };
            if let Ok(raw) = RawSuperblock::mut_from_bytes(bytes) {
                raw.note_errors(first, last, waiting.count);
                raw.s_state.set(raw.s_state.get() | STATE_ERROR);
            }
        })?;
        let tid = handle.close();
        engine.wait(tid)?;
        Ok(Progress::Worked)
    }
}
