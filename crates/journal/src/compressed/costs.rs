//! What compressing and the disk take, measured as the engine runs, and what is done by it.
//!
//! Design: `docs/design/compressed.md`, "By measurement". Nothing here tells the time: what a thing took is told.

use super::writer::STAGE_EARLY;
use ondol_env::sync::Mutex;

/// Of so many commits one is done the other way, so that both are known: the second of them, so that it is known soon.
const PROBE: u64 = 16;
const SECOND: u64 = 1;
/// Of so many long runs one is written home to see what that takes: the fourth of them.
const RUN_PROBE: u64 = 64;
const FOURTH: u64 = 3;
/// Commits of which the older half counts a third.
const MEMORY: f64 = 32.0;
/// How much less the other way has to take, so that units change over.
const CLEARLY: f64 = 0.8;
/// Nanoseconds a byte at which a disk takes writes as memory does: a gigabyte a second. Whoever lies below it keeps them in memory then.
const AS_MEMORY: f64 = 1.0;
/// Nanoseconds that a byte saves which is not kept in memory until its commit, to be set against the flush that it costs.
const KEPT: f64 = 0.5;

/// A mean in which what is older counts less.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: f64,
    weight: f64,
}

impl Mean {
    fn add(&mut self, value: f64) {
        let kept = 1.0 - 1.0 / MEMORY;
        (self.sum, self.weight) = (self.sum * kept + value, self.weight * kept + 1.0);
    }

    fn now(self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }
}

/// What a commit takes that writes so many bytes: a fixed time, and one for each byte, by least squares.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    x: Mean,
    y: Mean,
    xx: Mean,
    xy: Mean,
}

impl Line {
    fn add(&mut self, bytes: f64, ns: f64) {
        self.x.add(bytes);
        self.y.add(ns);
        self.xx.add(bytes * bytes);
        self.xy.add(bytes * ns);
    }

    /// Nanoseconds for a commit, and for each byte of it; `None` while all that were seen are as long.
    fn now(self) -> Option<(f64, f64)> {
        let (x, y) = (self.x.now()?, self.y.now()?);
        let (spread, both) = (self.xx.now()? - x * x, self.xy.now()? - x * y);
        if spread < x * x / 1000.0 {
            return None;
        }
        // Neither is less than nothing, and bytes take no more than all of it.
        let each = (both / spread).clamp(0.0, y / x);
        Some((y - each * x, each))
    }
}

#[derive(Debug, Default)]
struct State {
    commits: u64,
    stores: bool,
    /// Nanoseconds that compressing takes for each byte, and the share of it that is gone then.
    compressing: Mean,
    saved: Mean,
    disk: Line,
    /// Long runs of new data so far.
    runs: u64,
    /// Bytes of new data since the last commit, and in a commit.
    new: u64,
    new_of_a_commit: Mean,
    /// Nanoseconds for each byte of what is written home, of the faster quarter.
    home: f64,
}

/// See the module documentation.
#[derive(Debug, Default)]
pub(super) struct Costs(Mutex<State>);

impl Costs {
    /// Whether the next unit is to be compressed. Asked once for each.
    pub(super) fn compresses(&self) -> bool {
        let mut state = self.0.lock();
        let other = state.commits % PROBE == SECOND;
        state.commits += 1;
        state.stores == other
    }

    /// Compressing `raw` bytes to `out` has taken `ns`.
    pub(super) fn compressed(&self, raw: u64, out: u64, ns: u64) {
        let mut state = self.0.lock();
        if raw > 0 {
            state.compressing.add(ns as f64 / raw as f64);
            state.saved.add(raw.saturating_sub(out) as f64 / raw as f64);
        }
    }

    /// A commit has written `bytes`, and it took `ns` until they were durable.
    pub(super) fn committed(&self, bytes: u64, ns: u64) {
        let mut state = self.0.lock();
        state.disk.add(bytes as f64, ns as f64);
        let new = std::mem::take(&mut state.new) as f64;
        state.new_of_a_commit.add(new);
        state.decide();
    }

    /// Whether new data of `bytes` bytes that lies together is to be written home now, and not to be kept until its commit. Asked once for each.
    pub(super) fn passes(&self, bytes: usize) -> bool {
        let mut state = self.0.lock();
        state.new += bytes as u64;
        let long = bytes >= STAGE_EARLY;
        let probe = long && state.runs % RUN_PROBE == FOURTH;
        state.runs += u64::from(long);
        let as_memory = state.home > 0.0 && state.home <= AS_MEMORY;
        (as_memory || probe) && state.is_worth_a_flush()
    }

    /// Writing `bytes` bytes home has taken `ns`.
    pub(super) fn wrote_home(&self, bytes: usize, ns: u64) {
        let mut state = self.0.lock();
        let now = ns as f64 / bytes.max(1) as f64;
        // A thread that has lost its processor tells nothing of the disk.
        state.home = match state.home {
            0.0 => now,
            before if now < before => before + (now - before) / 4.0,
            before => before + (now - before).min(before) / 16.0,
        };
    }
}

impl State {
    fn decide(&mut self) {
        let (Some(takes), Some(saved)) = (self.compressing.now(), self.saved.now()) else { return };
        let Some((_, each)) = self.disk.now() else { return };
        let spares = saved * each;
        let (now, other) = if self.stores { (spares, takes) } else { (takes, spares) };
        if other < now * CLEARLY {
            self.stores = !self.stores;
        }
    }

    /// Whether one flush more in a commit takes less than keeping its new data in memory.
    fn is_worth_a_flush(&self) -> bool {
        let flush = self.disk.now().map(|(fixed, _)| fixed).or(self.disk.y.now());
        let kept = self.new_of_a_commit.now().unwrap_or(0.0).max(self.new as f64) * KEPT;
        flush.is_some_and(|flush| flush < kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk with a time for each flush and each byte, and processors with one for each byte that they compress to a third.
    #[derive(Clone, Copy)]
    struct Machine {
        flush: f64,
        byte: f64,
        lz4: f64,
    }

    const SSD_OLD_PROCESSOR: Machine = Machine { flush: 1e6, byte: 2.0, lz4: 4.0 };
    const SSD: Machine = Machine { flush: 1e6, byte: 2.0, lz4: 0.8 };
    const DISK: Machine = Machine { flush: 8e6, byte: 5.0, lz4: 2.0 };
    const MEMORY_BELOW: Machine = Machine { flush: 2e4, byte: 0.3, lz4: 2.0 };

    impl Machine {
        /// Commits `n` times, between 16 and 256 KiB; how many of the last half were compressed.
        fn commits(self, costs: &Costs, n: u64) -> u64 {
            let mut compressed = 0;
            for i in 0..n {
                let raw = (16 << 10) * (1 + i * 7 % 16);
                let compresses = costs.compresses();
                let out = if compresses { raw / 3 } else { raw };
                if compresses {
                    costs.compressed(raw, out, (raw as f64 * self.lz4) as u64);
                }
                // Flushes are never equally long.
                let flush = self.flush * (0.9 + 0.02 * (i * 5 % 11) as f64);
                costs.committed(out, (flush + out as f64 * self.byte) as u64);
                compressed += u64::from(compresses && 2 * i >= n);
            }
            compressed
        }
    }

    #[test]
    fn units_are_compressed_where_that_takes_less_than_it_saves() {
        for (machine, most) in [(SSD_OLD_PROCESSOR, false), (SSD, true), (DISK, true), (MEMORY_BELOW, false)] {
            let costs = Costs::default();
            let compressed = machine.commits(&costs, 400);
            assert_eq!(compressed > 100, most, "{compressed} of 200");
            assert!((200 / PROBE - 1..=200 - 200 / PROBE + 1).contains(&compressed), "both are tried: {compressed}");
        }
    }

    #[test]
    fn a_machine_that_changes_is_followed() {
        let costs = Costs::default();
        assert!(MEMORY_BELOW.commits(&costs, 400) < 50);
        assert!(DISK.commits(&costs, 400) > 150);
        assert!(MEMORY_BELOW.commits(&costs, 400) < 50);
    }

    #[test]
    fn nothing_measured_changes_nothing() {
        let (costs, still) = (Costs::default(), Machine { flush: 0.0, byte: 0.0, lz4: 0.0 });
        assert!(still.commits(&costs, 400) > 180, "no clock");
        let passed = (0..5 * RUN_PROBE).filter(|_| costs.passes(1 << 20)).count();
        assert_eq!(passed, 5, "as many as it takes to measure");
        let noise = Costs::default();
        for _ in 0..400 {
            noise.compresses();
            noise.compressed(1000, 1000, 1000);
            noise.committed(1000, 1);
        }
        assert!(!noise.0.lock().stores, "units that are all as long tell nothing of a byte");
    }

    /// Long runs that pass of two hundred, in commits of `runs`.
    fn passing(costs: &Costs, machine: Machine, runs: u64) -> usize {
        let mut passed = 0;
        for i in 0..200 {
            if costs.passes(128 << 10) {
                passed += 1;
                costs.wrote_home(128 << 10, ((128 << 10) as f64 * machine.byte) as u64);
            }
            if i % runs == runs - 1 {
                costs.committed(16 << 10, machine.flush as u64);
            }
        }
        passed
    }

    #[test]
    fn long_runs_pass_the_cache_where_a_disk_is_as_fast_as_memory_and_flushes_are_few() {
        for (machine, runs, most) in [
            (MEMORY_BELOW, 10, true),
            (MEMORY_BELOW, 1, true),
            (Machine { flush: 2e5, ..MEMORY_BELOW }, 1, false),
            (SSD, 50, false),
        ] {
            let costs = Costs::default();
            passing(&costs, machine, runs);
            let passed = passing(&costs, machine, runs);
            assert_eq!(passed > 100, most, "{passed} of 200 in commits of {runs}");
            assert_eq!(costs.passes(100), most, "what is short, too");
        }
    }

    #[test]
    fn what_is_short_costs_no_flush_to_see_whether_it_should() {
        let costs = Costs::default();
        MEMORY_BELOW.commits(&costs, 4);
        assert!(!(0..1000).any(|_| costs.passes(STAGE_EARLY - 1)));
    }

    #[test]
    fn a_write_that_was_interrupted_does_not_count_for_much() {
        let costs = Costs::default();
        for i in 0..200u64 {
            costs.wrote_home(1000, if i % 5 == 0 { 100_000 } else { 300 });
        }
        assert!(costs.0.lock().home < AS_MEMORY);
        (0..200).for_each(|_| costs.wrote_home(1000, 3000));
        assert!(costs.0.lock().home > 2.0 * AS_MEMORY);
    }
}
