//! Threads for steps. The owner of the steps asks for them; nothing else starts threads for background work.

use crate::sync::atomic::{AtomicBool, Ordering::SeqCst};
use crate::sync::{Arc, thread};
use crate::{Progress, Step};
use std::fmt;
use std::io;
use std::time::Duration;

/// How often the steps look at the clock when nobody wakes them.
const TICK: Duration = Duration::from_millis(500);

/// The threads that run steps. [`Background::stop`] and dropping it end them and wait for them.
pub struct Background<E> {
    stop: Arc<AtomicBool>,
    threads: Vec<(Arc<dyn Step<Error = E>>, thread::JoinHandle<()>)>,
}

impl<E> fmt::Debug for Background<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.threads.iter().map(|(step, _)| step.name())).finish()
    }
}

impl<E> Default for Background<E> {
    /// No threads.
    fn default() -> Self {
        Self { stop: Arc::default(), threads: Vec::new() }
    }
}

impl<E: 'static> Background<E> {
    /// Gives the step a thread of its own, so that no step waits for another. A step that fails is tried again at its
    /// next ring or tick.
    ///
    /// # Errors
    /// The operating system has no thread: the step is not run.
    pub fn run(&mut self, step: Arc<dyn Step<Error = E>>) -> io::Result<()> {
        let (stopped, work) = (self.stop.clone(), step.clone());
        let thread = thread::Builder::new().name(format!("ondol-{}", step.name()));
        let thread = thread.spawn(move || run_until(&*work, &stopped))?;
        self.threads.push((step, thread));
        Ok(())
    }
}

impl<E> Background<E> {
    /// Ends the threads and waits for them.
    pub fn stop(&mut self) {
        self.stop.store(true, SeqCst);
        self.threads.iter().for_each(|(step, _)| step.bell().ring());
        self.threads.drain(..).for_each(|(_, thread)| drop(thread.join()));
    }
}

impl<E> Drop for Background<E> {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run_until<E>(step: &dyn Step<Error = E>, stopped: &AtomicBool) {
    loop {
        let seen = step.bell().rings();
        while !stopped.load(SeqCst) && matches!(step.step(), Ok(Progress::Worked)) {}
        if stopped.load(SeqCst) {
            return;
        }
        step.bell().wait(seen, TICK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bell;
    use crate::sync::atomic::AtomicU32;
    use crate::sync::{Condvar, Mutex};

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
        type Error = ();

        fn name(&self) -> &'static str {
            "slow"
        }

        fn bell(&self) -> &Bell {
            &self.bell
        }

        fn step(&self) -> Result<Progress, ()> {
            self.began.fetch_add(1, SeqCst);
            let mut open = self.gate.0.lock();
            while !*open {
                self.gate.1.wait(&mut open);
            }
            Ok(Progress::Idle)
        }
    }

    impl Step for Counted {
        type Error = ();

        fn name(&self) -> &'static str {
            "counted"
        }

        fn bell(&self) -> &Bell {
            &self.bell
        }

        fn step(&self) -> Result<Progress, ()> {
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
        let mut background = Background::default();
        background.run(slow.clone()).unwrap();
        background.run(counted.clone()).unwrap();
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
