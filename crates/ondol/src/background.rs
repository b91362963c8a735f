//! Threads for the steps of engine and volume: commit timer, data flusher, checkpointer, writer of errors. Only the facade gives steps threads.

use crate::Result;
use crate::compose::Composed;
use ondol_env::sync::atomic::{AtomicBool, Ordering::SeqCst};
use ondol_env::sync::{Arc, Condvar, Mutex, thread};
use ondol_env::{Progress, Step};
use ondol_journal::JournalError;
use std::time::Duration;

/// How often the steps look at the clock when nobody wakes them.
const TICK: Duration = Duration::from_millis(500);

/// The running thread; stopped and joined by [`Background::stop`] or on drop.
pub(crate) struct Background {
    stop: Arc<AtomicBool>,
    wake: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Background {
    /// Starts stepping the steps of a volume.
    pub(crate) fn start(composed: &Composed) -> Self {
        let (stop, wake, steps) = (Arc::new(AtomicBool::new(false)), composed.engine.wake(), composed.steps());
        if steps.is_empty() {
            return Self { stop, wake, thread: None };
        }
        let (stopped, woken) = (stop.clone(), wake.clone());
        let run = move || {
            while !stopped.load(SeqCst) {
                run_all(&steps, &stopped);
                let mut kicked = woken.0.lock();
                if !*kicked && !stopped.load(SeqCst) {
                    woken.1.wait_for(&mut kicked, TICK);
                }
                *kicked = false;
            }
        };
        let thread = thread::Builder::new().name("ondol-journal".into()).spawn(run);
        if let Err(e) = &thread {
            tracing::warn!("no background thread ({e}): operations commit and checkpoint themselves");
        }
        Self { stop, wake, thread: thread.ok() }
    }

    /// No thread: the steps are run by [`run_until_idle`] alone.
    pub(crate) fn none(composed: &Composed) -> Self {
        Self { stop: Arc::new(AtomicBool::new(false)), wake: composed.engine.wake(), thread: None }
    }

    /// Ends the thread and waits for it.
    pub(crate) fn stop(&mut self) {
        self.stop.store(true, SeqCst);
        *self.wake.0.lock() = true;
        self.wake.1.notify_all();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run_all(steps: &[Arc<dyn Step<Error = JournalError>>], stop: &AtomicBool) {
    for step in steps {
        // A failed step has stopped the engine, which every later call reports.
        while !stop.load(SeqCst) && matches!(step.step(), Ok(Progress::Worked)) {}
    }
}

/// Rounds of steps that find work after which something must be wrong.
const ROUNDS: u32 = 10_000;

/// Runs the steps of a volume in turn until none of them finds anything to do.
pub(crate) fn run_until_idle(composed: &Composed) -> Result<()> {
    let steps = composed.steps();
    for _ in 0..ROUNDS {
        let mut worked = false;
        for step in &steps {
            worked |= step.step()? == Progress::Worked;
        }
        if !worked {
            return Ok(());
        }
    }
    Err(ondol_volume::Error::Invalid("background work does not come to an end").into())
}
