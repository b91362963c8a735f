//! Threads for the steps of engine and volume: commit timer, data flusher, checkpointer, writer of errors. Only the facade gives steps threads.

use crate::Result;
use crate::compose::Composed;
use ondol_env::sync::atomic::{AtomicBool, Ordering::SeqCst};
use ondol_env::sync::{Arc, thread};
use ondol_env::{Progress, Step};
use ondol_journal::JournalError;
use std::time::Duration;

/// How often the steps look at the clock when nobody wakes them.
const TICK: Duration = Duration::from_millis(500);

/// The running threads; stopped and joined by [`Background::stop`] or on drop.
#[derive(Default)]
pub(crate) struct Background {
    stop: Arc<AtomicBool>,
    threads: Vec<(Work, thread::JoinHandle<()>)>,
}

/// A step of a volume.
pub(crate) type Work = Arc<dyn Step<Error = JournalError>>;

impl Background {
    /// Gives each step a thread: a checkpoint keeps no commit waiting.
    pub(crate) fn start(steps: Vec<Work>) -> Self {
        let mut background = Self::default();
        for step in steps {
            let (stopped, work) = (background.stop.clone(), step.clone());
            let run = move || run_until(&*work, &stopped);
            match thread::Builder::new().name(format!("ondol-{}", step.name())).spawn(run) {
                Ok(thread) => background.threads.push((step, thread)),
                Err(e) => {
                    tracing::warn!("no thread to {} ({e}): operations commit and checkpoint themselves", step.name());
                }
            }
        }
        background
    }

    /// No threads: the steps are run by [`run_until_idle`] alone.
    pub(crate) fn none() -> Self {
        Self::default()
    }

    /// Ends the threads and waits for them.
    pub(crate) fn stop(&mut self) {
        self.stop.store(true, SeqCst);
        self.threads.iter().for_each(|(step, _)| step.bell().ring());
        self.threads.drain(..).for_each(|(_, thread)| drop(thread.join()));
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run_until(step: &dyn Step<Error = JournalError>, stopped: &AtomicBool) {
    loop {
        let seen = step.bell().rings();
        // A failed step has stopped the engine, which every later call reports.
        while !stopped.load(SeqCst) && matches!(step.step(), Ok(Progress::Worked)) {}
        if stopped.load(SeqCst) {
            return;
        }
        step.bell().wait(seen, TICK);
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

#[cfg(test)]
mod tests {
    use super::*;
    use ondol_env::Bell;
    use ondol_env::sync::atomic::AtomicU32;
    use ondol_env::sync::{Condvar, Mutex};

    /// Takes as long as the gate is closed.
    #[derive(Default)]
    struct Slow {
        bell: Bell,
        began: AtomicU32,
        gate: (Mutex<bool>, Condvar),
    }

    #[derive(Default)]
    struct Counted {
        bell: Bell,
        steps: AtomicU32,
    }

    impl Step for Slow {
        type Error = JournalError;

        fn name(&self) -> &'static str {
            "slow"
        }

        fn bell(&self) -> &Bell {
            &self.bell
        }

        fn step(&self) -> std::result::Result<Progress, JournalError> {
            self.began.fetch_add(1, SeqCst);
            let mut open = self.gate.0.lock();
            while !*open {
                self.gate.1.wait(&mut open);
            }
            Ok(Progress::Idle)
        }
    }

    impl Step for Counted {
        type Error = JournalError;

        fn name(&self) -> &'static str {
            "counted"
        }

        fn bell(&self) -> &Bell {
            &self.bell
        }

        fn step(&self) -> std::result::Result<Progress, JournalError> {
            self.steps.fetch_add(1, SeqCst);
            Ok(Progress::Idle)
        }
    }

    fn until(holds: impl Fn() -> bool) {
        for _ in 0..60_000 {
            if holds() {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
        panic!("it waits for ever");
    }

    #[test]
    fn a_step_that_takes_long_keeps_no_other_waiting() {
        let (slow, counted) = (Arc::new(Slow::default()), Arc::new(Counted::default()));
        let mut background = Background::start(vec![slow.clone(), counted.clone()]);
        until(|| slow.began.load(SeqCst) == 1);
        for _ in 0..20 {
            let before = counted.steps.load(SeqCst);
            counted.bell().ring();
            until(|| counted.steps.load(SeqCst) > before);
        }
        assert_eq!(slow.began.load(SeqCst), 1, "it is still at it");
        *slow.gate.0.lock() = true;
        slow.gate.1.notify_all();
        background.stop();
        let (began, steps) = (slow.began.load(SeqCst), counted.steps.load(SeqCst));
        counted.bell().ring();
        slow.bell().ring();
        thread::sleep(Duration::from_millis(5));
        assert_eq!((began, steps), (slow.began.load(SeqCst), counted.steps.load(SeqCst)), "nobody is left");
    }
}
