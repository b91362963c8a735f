//! How long requests take to be served, by kind: for `ondol top` and for metrics.
//!
//! Nobody times until somebody asks. Threads add to tables of their own; whoever reads adds the tables up.

use super::count::{KINDS, Op, STRIPES, stripe};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Map, Value};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The longest time of each class but the last, in nanoseconds: six in a decade.
pub(super) const BOUNDS: [u64; 49] = {
    const STEPS: [u64; 6] = [100, 150, 200, 300, 500, 700];
    let mut bounds = [10_000_000_000; 49];
    let (mut n, mut decade) = (0, 1);
    while n < 48 {
        bounds[n] = STEPS[n % 6] * decade;
        n += 1;
        if n % 6 == 0 {
            decade *= 10;
        }
    }
    bounds
};
const CLASSES: usize = BOUNDS.len() + 1;

/// For how long requests are timed after somebody has asked.
const INTEREST: u64 = 60_000_000_000;

/// The kernel's monotonic clock, in nanoseconds.
pub(super) fn now() -> u64 {
    let t = clock_gettime(ClockId::Monotonic);
    t.tv_sec.cast_unsigned() * 1_000_000_000 + t.tv_nsec.cast_unsigned()
}

/// The times of one kind of request.
#[derive(Debug)]
struct Times {
    sum: AtomicU64,
    classes: [AtomicU64; CLASSES],
}

impl Default for Times {
    fn default() -> Self {
        Self { sum: AtomicU64::new(0), classes: std::array::from_fn(|_| AtomicU64::new(0)) }
    }
}

#[derive(Debug)]
#[repr(align(128))]
struct Table([Times; KINDS]);

/// The times of all requests.
#[derive(Debug, Default)]
pub(super) struct Timing {
    /// Requests are timed up to this moment; 0 while nobody asks.
    until: AtomicU64,
    tables: OnceLock<Box<[Table]>>,
}

impl Timing {
    /// When a request begins; `None` while nobody asks.
    pub(super) fn begin(&self) -> Option<u64> {
        (self.until.load(Relaxed) != 0).then(now)
    }

    /// A request has ended.
    pub(super) fn end(&self, op: Op, begun: Option<u64>) {
        let Some(begun) = begun else { return };
        let now = now();
        self.record(op, now.saturating_sub(begun));
        let until = self.until.load(Relaxed);
        if now > until {
            // Whoever has asked in between goes on being told.
            let _ = self.until.compare_exchange(until, 0, Relaxed, Relaxed);
        }
    }

    fn record(&self, op: Op, took: u64) {
        let tables = self
            .tables
            .get_or_init(|| (0..STRIPES).map(|_| Table(std::array::from_fn(|_| Times::default()))).collect());
        let Some(times) = tables.get(stripe()).and_then(|table| table.0.get(op as usize)) else { return };
        times.sum.fetch_add(took, Relaxed);
        if let Some(class) = times.classes.get(BOUNDS.partition_point(|bound| *bound < took)) {
            class.fetch_add(1, Relaxed);
        }
    }

    /// Times requests for a while.
    pub(super) fn ask(&self) {
        self.until.fetch_max(now() + INTEREST, Relaxed);
    }

    /// Times all requests from now on.
    pub(super) fn ask_for_ever(&self) {
        self.until.store(u64::MAX, Relaxed);
    }

    /// The bounds of the classes; and of each kind that occurred its name, the sum of its times, and how many of them
    /// are in each class.
    pub(super) fn read(&self) -> Value {
        let tables = self.tables.get().map_or(&[][..], |tables| tables);
        let mut operations = Map::new();
        for (kind, name) in Op::NAMES.iter().enumerate() {
            let of = |f: &dyn Fn(&Times) -> u64| tables.iter().filter_map(|t| t.0.get(kind)).map(f).sum::<u64>();
            let count = |class: usize| of(&|times| times.classes.get(class).map_or(0, |n| n.load(Relaxed)));
            let counts: Vec<u64> = (0..CLASSES).map(count).collect();
            if counts.iter().any(|n| *n > 0) {
                let sum = of(&|times| times.sum.load(Relaxed));
                operations.insert((*name).into(), serde_json::json!({ "sum_ns": sum, "counts": counts }));
            }
        }
        serde_json::json!({ "bounds_ns": BOUNDS.as_slice(), "operations": operations })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_rise_from_100_ns_to_10_s() {
        assert!(BOUNDS.is_sorted() && BOUNDS.windows(2).all(|pair| pair[0] != pair[1]));
        assert_eq!((BOUNDS[0], BOUNDS[6], BOUNDS[47], BOUNDS[48]), (100, 1000, 7_000_000_000, 10_000_000_000));
    }

    #[test]
    fn each_time_is_in_the_class_that_ends_with_or_above_it() {
        let timing = Timing::default();
        for took in [0, 100, 101, 20_000, u64::from(u32::MAX) * 4] {
            timing.record(Op::Fsync, took);
        }
        std::thread::scope(|s| (0..20).for_each(|_| drop(s.spawn(|| timing.record(Op::Read, 150)))));
        let read = timing.read();
        let counts = |op: &str, class: usize| read["operations"][op]["counts"][class].as_u64().unwrap();
        assert_eq!((counts("fsync", 0), counts("fsync", 1), counts("fsync", 49)), (2, 1, 1));
        assert_eq!(read["bounds_ns"][BOUNDS.partition_point(|b| *b < 20_000)], 20_000);
        assert_eq!((counts("read", 1), &read["operations"]["read"]["sum_ns"]), (20, &Value::from(3000)));
        assert!(read["operations"].get("write").is_none());
    }

    #[test]
    fn nobody_times_until_somebody_asks_nor_long_after() {
        let timing = Timing::default();
        assert_eq!(timing.begin(), None);
        timing.ask();
        assert!(timing.begin().is_some_and(|begun| begun <= now()));
        timing.until.store(1, Relaxed);
        let begun = timing.begin();
        timing.end(Op::Read, begun);
        assert_eq!(timing.begin(), None);
        timing.ask_for_ever();
        timing.ask();
        let begun = timing.begin();
        timing.end(Op::Read, begun);
        assert!(timing.begin().is_some());
    }
}
