//! The thread that looks after the others: it starts threads, and notices where all of them are stuck.
//!
//! Serving threads say that a request has come ([`Foreman::stir`]), and that a thread is wanted ([`Foreman::hire`]). As
//! long as requests come, the foreman looks at each [`TICK`]; otherwise it sleeps.

use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Between two looks. A thread that serves one request for longer is not waited for.
const TICK: Duration = Duration::from_millis(2);

/// After so many looks without a request it sleeps.
const PATIENCE: u32 = 5;

/// What is told to one foreman; `H` is what it needs to start a thread.
#[derive(Debug)]
pub(crate) struct Foreman<H> {
    /// It looks, and need not be woken.
    awake: AtomicBool,
    told: Mutex<Told<H>>,
    changed: Condvar,
}

#[derive(Debug)]
struct Told<H> {
    hires: Vec<H>,
    over: bool,
}

/// What the foreman does.
pub(crate) trait Duty<H> {
    /// Starts a thread.
    fn start(&mut self, hire: H);

    /// Looks whether requests are stuck. False when none has come since the last look, and none is under way.
    fn look(&mut self) -> bool;

    /// It does not look any more until a request comes.
    fn rest(&mut self);
}

impl<H> Default for Foreman<H> {
    fn default() -> Self {
        let told = Told { hires: Vec::new(), over: false };
        Self { awake: AtomicBool::new(false), told: Mutex::new(told), changed: Condvar::new() }
    }
}

impl<H> Foreman<H> {
    /// A request has come. It costs nothing while requests come.
    pub(crate) fn stir(&self) {
        if !self.awake.load(Relaxed) {
            let _told = self.told.lock();
            self.awake.store(true, Relaxed);
            self.changed.notify_one();
        }
    }

    /// A thread is wanted.
    pub(crate) fn hire(&self, hire: H) {
        self.told.lock().hires.push(hire);
        self.changed.notify_one();
    }

    /// What there is to start.
    #[cfg(test)]
    pub(crate) fn hires(&self) -> Vec<H> {
        std::mem::take(&mut self.told.lock().hires)
    }

    /// The connection has ended.
    pub(crate) fn end(&self) {
        self.told.lock().over = true;
        self.changed.notify_one();
    }

    /// The foreman's life, until [`Foreman::end`].
    pub(crate) fn work(&self, duty: &mut dyn Duty<H>) {
        let mut idle = 0;
        while let Some(hires) = self.wait() {
            if !hires.is_empty() {
                hires.into_iter().for_each(|hire| duty.start(hire));
                continue;
            }
            idle = if duty.look() { 0 } else { idle + 1 };
            if idle == PATIENCE {
                self.awake.store(false, Relaxed);
                duty.rest();
                idle = 0;
            }
        }
    }

    /// Waits for what there is to do: threads to start, or none of them when it is time to look. `None` at the end.
    fn wait(&self) -> Option<Vec<H>> {
        let mut told = self.told.lock();
        loop {
            if told.over {
                return None;
            }
            if !told.hires.is_empty() {
                return Some(std::mem::take(&mut told.hires));
            }
            if !self.awake.load(Relaxed) {
                self.changed.wait(&mut told);
            } else if self.changed.wait_for(&mut told, TICK).timed_out() {
                return Some(Vec::new());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "real threads")]

    use super::*;
    use std::sync::atomic::AtomicU32;

    struct Counted<'c>(&'c AtomicU32, &'c AtomicU32);

    impl Duty<u32> for Counted<'_> {
        fn start(&mut self, hire: u32) {
            self.0.fetch_add(hire, Relaxed);
        }

        fn look(&mut self) -> bool {
            self.1.fetch_add(1, Relaxed);
            false
        }

        fn rest(&mut self) {}
    }

    #[test]
    fn it_starts_whoever_is_wanted_and_looks_only_when_stirred() {
        let (foreman, started, looks) = (Foreman::default(), AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|s| {
            s.spawn(|| foreman.work(&mut Counted(&started, &looks)));
            let until = |holds: &dyn Fn() -> bool| {
                let began = std::time::Instant::now();
                while !holds() && began.elapsed() < Duration::from_secs(60) {
                    std::thread::sleep(TICK);
                }
            };
            foreman.hire(7);
            until(&|| started.load(Relaxed) == 7);
            let unstirred = looks.load(Relaxed);
            foreman.stir();
            until(&|| looks.load(Relaxed) == PATIENCE && !foreman.awake.load(Relaxed));
            let stirred = looks.load(Relaxed);
            foreman.stir();
            until(&|| looks.load(Relaxed) == 2 * PATIENCE);
            foreman.end();
            assert_eq!((unstirred, stirred), (0, PATIENCE));
        });
        assert_eq!((started.into_inner(), looks.into_inner()), (7, 2 * PATIENCE));
    }
}
