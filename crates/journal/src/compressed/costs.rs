//! What compressing and the disk take, measured as the engine runs, and what is done by it.
//!
//! Design: `docs/design/compressed.md`, "By measurement". Nothing here tells the time: what a thing took is told.
//! Without a clock all units are compressed but one in 16. What compressing takes from other programs is not seen.

use crate::passing::{Fast, Mean, NO_DEVICE};
use ondol_env::sync::Mutex;
use std::collections::BTreeMap;

/// Of so many commits one is done the other way, so that both are known: the second of them, so that it is known soon.
const PROBE: u64 = 16;
const SECOND: u64 = 1;
/// How much less the other way has to take, so that units change over.
const CLEARLY: f64 = 0.8;
/// Commits whose lengths differ by less than a quarter are of one class, and so many of them are as good as more.
const CLASSES: f64 = 4.0;
const ENOUGH: u32 = 8;

/// A length that none of so many commits had is not known any more: the disk may have changed.
const LATELY: u64 = 64;

/// Commits that are about as long.
#[derive(Clone, Copy, Debug, Default)]
struct Class {
    count: u32,
    /// The number of the last one among all commits.
    last: u64,
    bytes: Mean,
    ns: Fast,
}

/// What a byte adds to a commit: by least squares through what commits of each length take at best. So one that had to wait for a processor makes bytes no dearer.
#[derive(Debug, Default)]
struct Disk {
    classes: BTreeMap<u32, Class>,
    commits: u64,
}

impl Disk {
    fn add(&mut self, bytes: f64, ns: f64) {
        self.commits += 1;
        self.classes.retain(|_, class| class.last + LATELY > self.commits);
        let class = self.classes.entry((bytes.max(1.0).log2() * CLASSES) as u32).or_default();
        (class.count, class.last) = (class.count + 1, self.commits);
        class.bytes.add(bytes);
        class.ns.add(ns);
    }

    /// Nanoseconds for each byte; `None` while all commits that were seen are as long.
    fn each(&self) -> Option<f64> {
        let points = || {
            let point = |class: &Class| Some((f64::from(class.count.min(ENOUGH)), class.bytes.now()?, class.ns.now()?));
            self.classes.values().filter_map(point)
        };
        let mean = |of: &dyn Fn(f64, f64) -> f64| {
            let (sum, weight) = points().fold((0.0, 0.0), |(sum, all), (w, x, y)| (sum + w * of(x, y), all + w));
            (weight > 0.0).then(|| sum / weight)
        };
        let (x, y) = (mean(&|x, _| x)?, mean(&|_, y| y)?);
        let (spread, both) = (mean(&|x, _| x * x)? - x * x, mean(&|x, y| x * y)? - x * y);
        // Bytes take neither less than nothing nor more than all of it.
        (spread >= x * x / 1000.0).then(|| (both / spread).clamp(0.0, y / x))
    }
}

#[derive(Debug, Default)]
struct State {
    commits: u64,
    stores: bool,
    /// Nanoseconds that compressing takes for each byte, and the share of it that is gone then.
    compressing: Mean,
    saved: Mean,
    disk: Disk,
}

/// See the module documentation.
#[derive(Debug, Default)]
pub(super) struct Costs(Mutex<State>);

impl Costs {
    /// Before the first commit a flush of little has taken `ns`.
    pub(super) fn begins(&self, ns: u64) {
        self.0.lock().stores = (1..NO_DEVICE).contains(&ns);
    }

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
        state.decide();
    }
}

impl State {
    fn decide(&mut self) {
        let (Some(takes), Some(saved)) = (self.compressing.now(), self.saved.now()) else { return };
        let Some(each) = self.disk.each() else { return };
        let spares = saved * each;
        let (now, other) = if self.stores { (spares, takes) } else { (takes, spares) };
        if other < now * CLEARLY {
            self.stores = !self.stores;
        }
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
        let noise = Costs::default();
        for _ in 0..400 {
            noise.compresses();
            noise.compressed(1000, 1000, 1000);
            noise.committed(1000, 1);
        }
        assert!(!noise.0.lock().stores, "units that are all as long tell nothing of a byte");
    }

    #[test]
    fn where_no_flush_reaches_a_device_units_are_stored_from_the_first_one_on() {
        let costs = Costs::default();
        costs.begins(500);
        assert!(!costs.compresses() && costs.compresses() && !costs.compresses(), "but for the second, to measure it");
        let costs = Costs::default();
        costs.begins(500);
        assert!(DISK.commits(&costs, 400) > 150, "what a byte takes counts, once it is known");
        for flush in [0, 1_000_000] {
            let costs = Costs::default();
            costs.begins(flush);
            assert!(costs.compresses());
        }
    }

    #[test]
    fn commits_that_had_to_wait_for_a_processor_make_bytes_no_dearer() {
        let costs = Costs::default();
        for i in 0..400u64 {
            let raw = (16 << 10) * (1 + i * 7 % 16);
            if costs.compresses() {
                costs.compressed(raw, raw / 3, 2 * raw);
            }
            // Of each length every other one waits, the longer the more it writes.
            let waits = if (i / 16) % 2 == 0 { 50 * raw } else { 0 };
            costs.committed(raw, 20_000 + raw * 3 / 10 + waits);
        }
        assert!(costs.0.lock().stores);
    }
}
