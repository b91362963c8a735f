//! What waiting for a modelled device is: real time, or a number.

use ondol_env::sync::atomic::{AtomicU64, Ordering};
use ondol_env::sync::thread;
use ondol_env::{Env, System};
use std::cell::Cell;
use std::num::NonZeroU64;
use std::time::Duration;

/// A clock that can be waited on.
pub trait Pace: Send + Sync {
    /// Nanoseconds since some fixed moment.
    fn now(&self) -> u64;
    /// Returns once it is `time`.
    fn wait_until(&self, time: u64);
}

/// The machine's clock; waiting threads sleep.
#[derive(Debug, Default)]
pub struct RealPace(System);

thread_local! {
    static EXACT: Cell<bool> = const { Cell::new(false) };
}

impl Pace for RealPace {
    fn now(&self) -> u64 {
        self.0.monotonic_ns()
    }

    fn wait_until(&self, time: u64) {
        if !EXACT.replace(true) {
            // The kernel lets sleepers sleep 50 µs too long unless told otherwise. Where it cannot be told, they do.
            let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        }
        let left = time.saturating_sub(self.now());
        if left > 0 {
            thread::sleep(Duration::from_nanos(left));
        }
    }
}

/// A clock that goes on only as far as somebody waits: equal requests take equal times.
#[derive(Debug, Default)]
pub struct VirtualPace(AtomicU64);

impl Pace for VirtualPace {
    fn now(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn wait_until(&self, time: u64) {
        self.0.fetch_max(time, Ordering::SeqCst);
    }
}
