//! Home that takes nothing, for a while or for good: nothing is lost, since the log keeps what is not home.

use super::ScalableCore;
use crate::{JournalError, Result};
use ondol_env::sync::atomic::Ordering::Relaxed;

impl ScalableCore {
    /// A checkpoint has failed. Its records stay; the next one begins with the same.
    pub(super) fn home_fails(&self, e: JournalError) -> JournalError {
        if self.aborted.get().is_some() {
            return e;
        }
        if !self.failing.fails.swap(true, Relaxed) {
            tracing::error!(
                "nothing can be written home ({e}): changes stay in the NVM log as long as it has room, and it is \
                 tried again"
            );
        }
        let why = e.to_string();
        *self.failing.last.lock() = Some((why.clone(), self.env.monotonic_ns()));
        JournalError::Home(why)
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
