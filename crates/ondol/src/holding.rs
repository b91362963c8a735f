//! The hold on a protected volume (MMP) while it is being opened: recovery may take longer than others wait before they
//! take it.

use crate::{Error, Result};
use ondol_env::Env;
use ondol_env::sync::{Arc, Condvar, Mutex, thread};
use ondol_volume::{Image, Mmp};
use std::time::Duration;

/// How often the thread looks whether it is time to say again that the volume is in use.
const TICK: Duration = Duration::from_millis(500);

/// A hold that a thread keeps alive until [`Holding::end`]. Dropped before, as when opening fails, it lets go of the
/// volume.
pub(crate) struct Holding(Option<Kept>);

struct Kept {
    hold: Arc<Mmp>,
    ended: Arc<(Mutex<bool>, Condvar)>,
    thread: thread::JoinHandle<()>,
}

impl Holding {
    /// Takes hold of the volume, if it is protected, and begins to keep it.
    ///
    /// # Errors
    /// `InUse`; corruption; the store's failure; no thread can be started.
    pub(crate) fn take(image: &Image, env: Arc<dyn Env>) -> Result<Self> {
        let node = rustix::system::uname().nodename().to_bytes().to_vec();
        let Some(hold) = image.take_hold(env, &node, image.name().as_bytes())? else { return Ok(Self(None)) };
        let ended = Arc::new((Mutex::new(false), Condvar::new()));
        let (kept, shared) = (hold.clone(), ended.clone());
        let run = move || {
            let mut ended = shared.0.lock();
            // A hold that is lost stays lost: `check` and `end` find out themselves.
            while !*ended && kept.keep().is_ok() {
                shared.1.wait_for(&mut ended, TICK);
            }
        };
        match thread::Builder::new().name("ondol-hold".into()).spawn(run) {
            Ok(thread) => Ok(Self(Some(Kept { hold, ended, thread }))),
            Err(e) => {
                hold.release()?;
                Err(Error::state(image.name(), format!("no thread to keep hold of it: {e}")))
            }
        }
    }

    /// To be asked before each part of the work.
    ///
    /// # Errors
    /// The volume was lost: `InUse` when somebody else has taken it; the store's failure.
    pub(crate) fn check(&self) -> Result<()> {
        Ok(self.0.as_ref().map_or(Ok(()), |kept| kept.hold.keep().map(drop))?)
    }

    /// Hands the hold over to whoever keeps it from now on.
    ///
    /// # Errors
    /// As [`Holding::check`].
    pub(crate) fn end(mut self) -> Result<Option<Arc<Mmp>>> {
        self.check()?;
        Ok(self.0.take().map(Kept::end))
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        if let Some(kept) = self.0.take()
            && let Err(e) = kept.end().release()
        {
            tracing::warn!("the mark of the volume's user stays: {e}");
        }
    }
}

impl Kept {
    fn end(self) -> Arc<Mmp> {
        *self.ended.0.lock() = true;
        self.ended.1.notify_all();
        drop(self.thread.join());
        self.hold
    }
}
