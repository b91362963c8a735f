//! Errors of the image: noted in memory where they are found, and written into the superblock soon after, as ext4 does.
//!
//! They are found with locks held and in the middle of operations, where nothing may begin another one. So what was
//! found waits for [`Volume::save_errors`], which whoever runs the engine's steps calls too, and for which a bell is
//! rung at once.

use crate::{Error, OnError, Volume, kind};
use ondol_env::sync::Mutex;
use ondol_env::sync::atomic::Ordering::Relaxed;
use ondol_env::{Bell, Progress};
use ondol_format::RawSuperblock;
use ondol_format::superblock::{ERRCODE_CORRUPTED, FoundError, SIZE, STATE_ERROR};
use ondol_journal::{Corrupt, Handle, JournalError};
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

impl Volume {
    /// Passes an error on; corruption is noted for the superblock, and it and a dead journal (not one that cannot write
    /// home for a while) stop the volume as `errors=` says.
    pub(crate) fn noted(&self, error: Error) -> Error {
        let fatal = match &error {
            Error::Corrupt(_) => self.options.on_error == OnError::RemountReadOnly,
            // Nothing is lost and nothing wrong: when the image can be written to again, all goes on.
            Error::Journal(JournalError::Home(_)) => false,
            Error::Journal(_) => true,
            _ => false,
        };
        if let Error::Corrupt(found) = &error {
            tracing::error!("{error}");
            self.note(found);
        }
        if fatal {
            self.refuse_changes(&error.to_string());
        }
        error
    }

    /// Takes no change from now on, not even those that reading and closing bring about. The next check looks at
    /// everything.
    pub fn refuse_changes(&self, why: &str) {
        if !self.read_only.swap(true, Relaxed) {
            tracing::error!("the volume is read-only from now on: {why}");
            *self.stopped.lock() = Some(why.to_owned());
        }
    }

    fn note(&self, found: &Corrupt) {
        if self.options.read_only {
            return;
        }
        let found = FoundError::new(self.now().sec, &found.structure, found.block, ERRCODE_CORRUPTED);
        {
            let mut waiting = self.errors.waiting.lock();
            waiting.first.get_or_insert_with(|| found.clone());
            waiting.last = Some(found);
            waiting.count = waiting.count.saturating_add(1);
        }
        self.errors.bell.ring();
    }

    /// Rung when there is something for [`Volume::save_errors`].
    pub fn errors_noted(&self) -> &Bell {
        &self.errors.bell
    }

    /// Writes the errors that were noted since the last call into the superblock: their number, the first and the
    /// latest, and that the volume needs to be checked. Durable when this returns. To be called by whoever runs the
    /// engine's steps.
    ///
    /// # Errors
    /// The journal's failure: a journal that has failed takes nothing more.
    pub fn save_errors(&self) -> Result<Progress, JournalError> {
        let waiting = std::mem::take(&mut *self.errors.waiting.lock());
        let (Some(first), Some(last)) = (&waiting.first, &waiting.last) else { return Ok(Progress::Idle) };
        if self.engine.aborted().is_some() {
            return Ok(Progress::Idle);
        }
        let (block, at) = self.shared.sb.superblock_location();
        let mut handle = Handle::begin(&*self.engine, 1)?;
        handle.edit(block, kind::SUPERBLOCK, |bytes| {
            let Some(bytes) = bytes.get_mut(at..at + SIZE) else { return };
            if let Ok(raw) = RawSuperblock::mut_from_bytes(bytes) {
                raw.note_errors(first, last, waiting.count);
                raw.s_state.set(raw.s_state.get() | STATE_ERROR);
            }
        })?;
        let tid = handle.close();
        self.engine.wait(tid)?;
        Ok(Progress::Worked)
    }
}
