//! How much a checkpoint takes: so little that those who wait for it do not wait long, and so much that its flushes are not most of its time.

use ondol_env::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a checkpoint should take beside its flushes, in nanoseconds, or twice as long as these.
const AIM: u64 = 8_000_000;
/// Lines of the log that a checkpoint takes at least, and those that the first one takes.
const LEAST: u64 = (64 << 10) / ondol_nvm_log::LINE;
const FIRST: u64 = (1 << 20) / ondol_nvm_log::LINE;

#[derive(Debug)]
pub(super) struct Pace {
    lines: AtomicU64,
    flushing_ns: AtomicU64,
}

impl Default for Pace {
    fn default() -> Self {
        Self { lines: AtomicU64::new(FIRST), flushing_ns: AtomicU64::new(0) }
    }
}

impl Pace {
    /// Lines that the next checkpoint takes, of which it may take `most`.
    pub(super) fn lines(&self, most: u64) -> u64 {
        self.lines.load(Relaxed).min(most)
    }

    /// A flush of the checkpoint that is under way has taken so long.
    pub(super) fn flushed(&self, ns: u64) {
        self.flushing_ns.fetch_add(ns, Relaxed);
    }

    /// A checkpoint of so many lines has taken so long, its flushes included. One at a time says so.
    pub(super) fn took(&self, lines: u64, ns: u64, most: u64) {
        let flushing = self.flushing_ns.swap(0, Relaxed);
        let (slice, work, aim) = (self.lines(most), ns.saturating_sub(flushing), AIM.max(2 * flushing));
        if lines < slice / 2 {
            // A few lines can name many pages.
            if work > aim {
                self.lines.store((lines / 2).max(LEAST).min(most), Relaxed);
            }
            return;
        }
        let next = match work {
            long if long > aim => (slice / 2).max(LEAST),
            short if short < aim / 4 => slice * 2,
            _ => slice,
        };
        self.lines.store(next.min(most), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u64 = 1 << 20;

    #[test]
    fn long_ones_become_shorter_and_short_ones_longer() {
        let pace = Pace::default();
        for _ in 0..30 {
            pace.took(pace.lines(MOST), 10 * AIM, MOST);
        }
        assert_eq!(pace.lines(MOST), LEAST);
        pace.took(LEAST, AIM / 2, MOST);
        assert_eq!(pace.lines(MOST), LEAST);
        for _ in 0..30 {
            pace.took(pace.lines(MOST), 0, MOST);
        }
        assert_eq!((pace.lines(MOST), pace.lines(100)), (MOST, 100));
        pace.took(3, 10 * AIM, MOST);
        assert_eq!(pace.lines(MOST), LEAST, "a few lines that take long");
        (0..30).for_each(|_| pace.took(pace.lines(MOST), 0, MOST));
        pace.took(3, AIM / 2, MOST);
        assert_eq!(pace.lines(MOST), MOST, "one that had little to take tells nothing");
    }

    #[test]
    fn flushes_that_take_long_are_worth_more() {
        let pace = Pace::default();
        pace.flushed(10 * AIM);
        pace.took(FIRST, 25 * AIM, MOST);
        assert_eq!(pace.lines(MOST), FIRST);
        pace.flushed(10 * AIM);
        pace.took(FIRST, 11 * AIM, MOST);
        assert_eq!(pace.lines(MOST), 2 * FIRST);
    }
}
