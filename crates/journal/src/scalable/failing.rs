//! Home that takes nothing, for a while or for good: nothing is lost, since the log keeps what is not home.

use super::Core;
use crate::{JournalError, Result};
use ondol_env::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The steps do not ask a home that has failed more often.
const PAUSE: Duration = Duration::from_secs(1);

impl Core {
    /// A checkpoint has failed. Its records stay; the next one begins with the same.
    pub(super) fn home_fails(&self, e: JournalError) -> JournalError {
        if self.aborted.get().is_some() {
            return e;
        }
        if !self.failing.fails.swap(true, Relaxed) {
            tracing::error!(
                "nothing can be written home ({e}): changes stay in the NVM log as long as it has room, and it is tried again"
            );
        }
        let why = e.to_string();
        *self.failing.last.lock() = Some((why.clone(), self.env.monotonic_ns()));
        JournalError::Home(why)
    }

    pub(super) fn home_works(&self) {
        if self.failing.fails.load(Relaxed) {
            tracing::warn!("what is committed can be written home again");
            *self.failing.last.lock() = None;
            self.failing.fails.store(false, Relaxed);
        }
    }

    /// Home has failed a moment ago.
    pub(super) fn home_rests(&self) -> bool {
        let now = self.env.monotonic_ns();
        let is_new = |at: u64| u128::from(now.saturating_sub(at)) < PAUSE.as_nanos();
        self.failing.fails.load(Relaxed) && self.failing.last.lock().as_ref().is_some_and(|(_, at)| is_new(*at))
    }

    /// Before an operation begins: where nothing goes home, half of the log is for those that have begun already.
    ///
    /// # Errors
    /// `Home`: no operation may begin.
    pub(super) fn check_home(&self) -> Result<()> {
        if !self.failing.fails.load(Relaxed) || !self.is_crowded(2) {
            return Ok(());
        }
        // Its space may be back.
        self.checkpoint().map(drop)
    }
}
