//! Whether new data is written home at once from where the caller has it, past the cache and the log: by what that takes and saves, measured as the engine runs.
//!
//! Design: `docs/design/allocation.md`, "Write-through". Nothing here tells the time: what a thing took is told.
//! Without a clock (all times are zero) nothing is written through but one long run in 64. It is not done on every
//! disk: reads would come from it then, and an arm would seek for each write instead of once for many.

use ondol_env::apart::{Apart, STRIPES, stripe};
use ondol_env::sync::Mutex;

/// Bytes of a run that is long, which may be written home to see what that takes.
pub(crate) const LONG: usize = 32 << 10;
/// Of so many long runs one is, while nothing passes: the fourth of them.
const PROBE: u64 = 64;
const FOURTH: u64 = 3;
/// Nanoseconds below which a flush has reached no device: what is written there takes what a copy in memory takes.
pub(crate) const NO_DEVICE: u64 = 10_000;
/// Nanoseconds a byte at which a disk takes writes as memory does: a gigabyte a second. Whoever lies below it keeps them in memory then.
const AS_MEMORY: f64 = 1.0;
/// Nanoseconds a byte from which on a write has reached a disk, whatever a flush takes: memory that is touched for the first time on a slow host takes less.
const DISK: f64 = 8.0;
/// Nanoseconds that a byte saves which is not kept in memory until its commit, to be set against the flush that it costs.
const KEPT: f64 = 0.5;
/// Bytes of new data up to which a commit has too little of it for a flush more: what fsyncs of single blocks save is less than can be told.
const LITTLE: f64 = 4096.0;
/// Values of which the older half counts a third.
const MEMORY: f64 = 32.0;

/// A mean in which what is older counts less.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mean {
    sum: f64,
    weight: f64,
}

impl Mean {
    pub(crate) fn add(&mut self, value: f64) {
        let kept = 1.0 - 1.0 / MEMORY;
        (self.sum, self.weight) = (self.sum * kept + value, self.weight * kept + 1.0);
    }

    pub(crate) fn now(self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }
}

/// So many in a row that took twice as long and more: the disk has changed, and no thread has lost its processor.
const ROW: u32 = 8;

/// What the faster quarter takes: a thread that has lost its processor tells nothing of the disk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fast {
    now: Option<f64>,
    /// The last ones, of which each took twice as long and more: how many, and the least of them.
    slow: u32,
    least: f64,
}

impl Fast {
    pub(crate) fn add(&mut self, value: f64) {
        // Nothing takes no time: there was no clock.
        let Some(before) = self.now.filter(|before| *before > 0.0) else {
            self.now = Some(value);
            return;
        };
        if value < 2.0 * before {
            self.slow = 0;
        } else {
            self.least = if self.slow == 0 { value } else { self.least.min(value) };
            self.slow += 1;
        }
        self.now = Some(match value {
            _ if self.slow == ROW => self.least,
            much_faster if much_faster < before / 2.0 => f64::midpoint(before, much_faster),
            faster if faster < before => before + (faster - before) / 4.0,
            slower => before + (slower - before).min(before) / 16.0,
        });
        self.slow %= ROW;
    }

    pub(crate) fn now(self) -> Option<f64> {
        self.now
    }
}

#[derive(Debug, Default)]
struct State {
    /// Runs of new data so far of which one may be written home to measure it.
    runs: u64,
    /// Bytes of new data since the last commit, and in a commit.
    new: u64,
    new_of_a_commit: Mean,
    /// Nanoseconds for each byte of what is written home, and elsewhere; and for a flush.
    home: Fast,
    elsewhere: Fast,
    flush: Fast,
    /// Nanoseconds of the flush when the log was opened.
    first: Option<f64>,
}

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Passing(Mutex<State>);

impl Passing {
    /// Whether new data of `bytes` bytes that lies together is to be written home now, and not to be kept until its commit. Asked once for each.
    pub(crate) fn passes(&self, bytes: usize) -> bool {
        let mut state = self.0.lock();
        state.new += bytes as u64;
        let probe = state.is_probe(bytes);
        (probe || state.is_memory()) && state.is_worth_a_flush()
    }

    /// As [`Passing::passes`], where commits flush what was written before in any case.
    pub(crate) fn passes_freely(&self, bytes: usize) -> bool {
        let mut state = self.0.lock();
        let probe = state.is_probe(bytes);
        probe || state.is_memory()
    }

    /// Writing `bytes` bytes home has taken `ns`.
    pub(crate) fn wrote_home(&self, bytes: usize, ns: u64) {
        self.0.lock().home.add(ns as f64 / bytes.max(1) as f64);
    }

    /// Writing `bytes` bytes elsewhere on the disk has taken `ns`: as good as a write home while there was none.
    pub(crate) fn wrote(&self, bytes: usize, ns: u64) {
        if bytes > 0 {
            self.0.lock().elsewhere.add(ns as f64 / bytes as f64);
        }
    }

    /// The flush when the log was opened has taken `ns`. It had little to make durable, so it counts only until another is told.
    pub(crate) fn opened(&self, ns: u64) {
        self.0.lock().first = Some(ns as f64);
    }

    /// A flush has taken `ns`.
    pub(crate) fn flushed(&self, ns: u64) {
        self.0.lock().flush.add(ns as f64);
    }

    /// A commit comes to an end, or begins: one of the two is told.
    pub(crate) fn committed(&self) {
        let mut state = self.0.lock();
        let new = std::mem::take(&mut state.new) as f64;
        state.new_of_a_commit.add(new);
    }
}

/// As [`Passing`], where threads must not meet: each goes by the new data that it commits itself, by what its own writes took, and by what all are told.
#[derive(Debug, Default)]
pub(crate) struct PassingByThread([Apart<Passing>; STRIPES]);

impl PassingByThread {
    /// The calling thread's.
    pub(crate) fn mine(&self) -> &Passing {
        &self.0[stripe()]
    }

    /// Everybody's, for what is seldom.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Passing> {
        self.0.iter().map(|part| &**part)
    }
}

impl State {
    /// Whether so many bytes are written home to see what that takes.
    fn is_probe(&mut self, bytes: usize) -> bool {
        // A flush that reaches no device costs nothing, so that what is short may be measured, too.
        let measurable = bytes >= LONG || self.reaches_no_device();
        let probe = measurable && self.runs % PROBE == FOURTH;
        self.runs += u64::from(measurable);
        probe
    }

    /// What a flush takes, as far as is known.
    fn a_flush(&self) -> Option<f64> {
        self.flush.now().or(self.first)
    }

    fn reaches_no_device(&self) -> bool {
        self.a_flush().is_some_and(|flush| flush > 0.0 && flush < NO_DEVICE as f64)
    }

    /// Whether what is written comes to lie in memory first, or in nothing else. There a byte that is kept takes as long as one that is written, however slow memory is at the moment.
    fn is_memory(&self) -> bool {
        let each = self.home.now().or(self.elsewhere.now());
        if self.reaches_no_device() {
            return each.is_none_or(|each| each < DISK);
        }
        each.is_some_and(|each| each > 0.0 && each <= AS_MEMORY)
    }

    /// Whether one flush more in a commit takes less than keeping its new data in memory.
    fn is_worth_a_flush(&self) -> bool {
        let new = self.new_of_a_commit.now().unwrap_or(0.0).max(self.new as f64);
        new > LITTLE && self.a_flush().is_some_and(|flush| flush < new * KEPT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk with a time for each flush and each byte.
    #[derive(Clone, Copy)]
    struct Disk {
        flush: f64,
        byte: f64,
    }

    const SSD: Disk = Disk { flush: 1e6, byte: 2.0 };
    const AS_MEMORY_IS: Disk = Disk { flush: 2e4, byte: 0.3 };

    /// Long runs that pass of two hundred, in commits of `runs`.
    fn passing(passing: &Passing, disk: Disk, runs: u64) -> usize {
        let mut passed = 0;
        for i in 0..200 {
            if passing.passes(128 << 10) {
                passed += 1;
                passing.wrote_home(128 << 10, ((128 << 10) as f64 * disk.byte) as u64);
            }
            if i % runs == runs - 1 {
                passing.flushed(disk.flush as u64);
                passing.committed();
            }
        }
        passed
    }

    #[test]
    fn long_runs_pass_where_a_disk_is_as_fast_as_memory_and_flushes_are_few() {
        for (disk, runs, most) in [
            (AS_MEMORY_IS, 10, true),
            (AS_MEMORY_IS, 1, true),
            (Disk { flush: 2e5, ..AS_MEMORY_IS }, 1, false),
            (SSD, 50, false),
        ] {
            let new = Passing::default();
            passing(&new, disk, runs);
            let passed = passing(&new, disk, runs);
            assert_eq!(passed > 100, most, "{passed} of 200 in commits of {runs}");
            assert_eq!(new.passes(100), most, "what is short, too");
        }
    }

    #[test]
    fn a_first_flush_and_a_first_write_are_enough_to_know() {
        let new = Passing::default();
        assert!(!(0..100).any(|_| new.passes(1 << 20)), "nothing is known of a flush");
        new.flushed(50_000);
        assert!(!new.passes(8 << 10), "nothing is known of a write");
        new.wrote(64 << 10, 20_000);
        assert!(new.passes(8 << 10));
        new.wrote_home(8 << 10, 8000);
        assert!(new.passes(8 << 10));
        (0..20).for_each(|_| new.wrote_home(8 << 10, 100_000));
        new.wrote(64 << 10, 20_000);
        assert!(!new.passes(8 << 10), "what is written elsewhere tells nothing where it is known");
    }

    #[test]
    fn where_no_flush_reaches_a_device_all_passes_in_slow_memory_too() {
        let new = Passing::default();
        new.flushed(NO_DEVICE / 10);
        assert!(!new.passes(4096) && new.passes(1000));
        // Memory that is touched for the first time: 14 us for a page.
        (0..100).for_each(|_| new.wrote_home(4096, 14_000));
        assert!(new.passes(1000));
    }

    #[test]
    fn what_goes_to_a_disk_does_not_pass_whatever_a_flush_takes() {
        let new = Passing::default();
        new.flushed(NO_DEVICE / 10);
        (0..20).for_each(|_| new.wrote_home(4096, 60_000));
        let passed = (0..2 * PROBE).filter(|_| new.passes(4096)).inspect(|_| new.wrote_home(4096, 60_000)).count();
        assert_eq!(passed, 2, "it is measured again and again");
        (0..20).for_each(|_| new.wrote_home(4096, 2000));
        assert!(new.passes(4096), "the disk has gone");
    }

    #[test]
    fn the_flush_at_the_opening_counts_until_a_commit_has_flushed() {
        let new = Passing::default();
        new.opened(NO_DEVICE / 10);
        assert!(!new.passes(4096) && new.passes(4096));
        new.flushed(1_000_000);
        assert!(!(0..200).any(|_| new.passes(4096)), "a commit has waited for a disk");
    }

    #[test]
    fn what_is_short_costs_no_flush_to_see_whether_it_should() {
        let new = Passing::default();
        new.flushed(NO_DEVICE);
        assert!(!(0..1000).any(|_| new.passes(LONG - 1)));
    }

    #[test]
    fn where_a_commit_flushes_anyway_memory_alone_decides() {
        let (slow, fast) = (Passing::default(), Passing::default());
        assert_eq!((0..2 * PROBE).filter(|_| slow.passes_freely(LONG)).count(), 2, "to see what it takes");
        for _ in 0..20 {
            slow.wrote_home(LONG, 2 * LONG as u64);
            fast.wrote_home(LONG, LONG as u64 / 2);
        }
        assert!((0..100).all(|_| fast.passes_freely(1)), "as fast as memory, whatever a flush takes");
        assert!(!(0..100).any(|_| slow.passes_freely(LONG - 1)));
        slow.flushed(NO_DEVICE / 10);
        assert!(slow.passes_freely(1), "nothing reaches a device");
    }

    #[test]
    fn single_blocks_cost_no_flush() {
        let new = Passing::default();
        new.flushed(100);
        new.wrote_home(4096, 400);
        for _ in 0..100 {
            assert!(!new.passes(4096));
            new.committed();
        }
        assert!(!new.passes(4096) && new.passes(4096), "two of them in a commit");
    }

    #[test]
    fn without_a_clock_as_much_passes_as_it_takes_to_measure() {
        let new = Passing::default();
        new.flushed(0);
        let passed = (0..5 * PROBE).filter(|_| new.passes(1 << 20)).inspect(|_| new.wrote_home(1 << 20, 0)).count();
        assert_eq!(passed, 5);
    }

    #[test]
    fn what_was_interrupted_does_not_count_for_much() {
        let mut home = Fast::default();
        for i in 0..200u64 {
            home.add(if i % 5 == 0 { 100.0 } else { 0.3 });
        }
        assert!(home.now().unwrap() < AS_MEMORY);
        (0..50).for_each(|_| home.add(3.0));
        assert_eq!(home.now(), Some(3.0), "all of them take that now");
    }
}
