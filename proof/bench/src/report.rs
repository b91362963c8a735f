//! What comes out: JSON for programs, tables for people.

mod table;

pub(crate) use table::{aligned, compression, terminal};

use crate::contents::Payload;
use crate::counters::{Counters, Device};
use crate::guarantee;
use crate::machine::Machine;
use crate::measure::Sample;
use crate::stats::{Spread, ratio, spread};
use hdrhistogram::Histogram;
use serde::Serialize;
use serde_json::{Map, Value};

/// The result of `bench run`. Its field names are part of the product: scripts read them.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    /// The workload's name.
    pub(crate) workload: &'static str,
    /// Its parameters, with `threads` and `ops` or `seconds`.
    pub(crate) params: Map<String, Value>,
    /// What was written.
    pub(crate) contents: Payload,
    /// Where it ran.
    pub(crate) machine: Machine,
    /// What ran.
    pub(crate) commit: &'static str,
    /// How often every target had its turn.
    pub(crate) rounds: u32,
    /// There were to be more rounds: the run was interrupted.
    pub(crate) partial: bool,
    /// The targets, in the order of the command line.
    pub(crate) targets: Vec<TargetReport>,
}

/// What one target did.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct TargetReport {
    /// As it was written on the command line.
    pub(crate) target: String,
    /// What it promises after a crash.
    pub(crate) guarantee: String,
    /// It is no peer: it shows what FUSE itself takes.
    pub(crate) floor: bool,
    /// Operations a second, over rounds.
    pub(crate) ops_per_s: Spread,
    /// The same of each round.
    pub(crate) rates: Vec<f64>,
    /// Its rate in multiples of the first target's, by round.
    pub(crate) ratio: Spread,
    /// Latencies over all rounds.
    pub(crate) latency_us: Latency,
    /// Latencies of fsyncs alone; null where there were none.
    pub(crate) fsync_us: Option<Latency>,
    /// Totals over all rounds.
    pub(crate) counters: Counters,
}

/// Latencies of one operation, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Latency {
    /// Half of the operations took at most this.
    pub(crate) p50: f64,
    /// 99 % took at most this.
    pub(crate) p99: f64,
    /// 99.9 % took at most this.
    pub(crate) p999: f64,
    /// The slowest.
    pub(crate) max: f64,
}

impl Latency {
    fn of(nanos: &Histogram<u64>) -> Self {
        let at = |quantile| nanos.value_at_quantile(quantile) as f64 / 1000.0;
        Self { p50: at(0.5), p99: at(0.99), p999: at(0.999), max: at(1.0) }
    }
}

/// The turns of one target.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns {
    /// What it promises.
    pub(crate) guarantee: String,
    /// What was measured, by round, with what its media did meanwhile.
    pub(crate) samples: Vec<(Sample, Device)>,
}

/// How the guarantee of a target goes on whose image was damaged in one of the rounds.
pub(crate) const DAMAGED: &str = "DAMAGED its image: ";

impl Turns {
    /// What it promises, told once more in each round. What a round has found wrong stays.
    pub(crate) fn promised(&mut self, guarantee: String) {
        if !self.guarantee.contains(DAMAGED) {
            self.guarantee = guarantee;
        }
    }

    fn rates(&self) -> Vec<f64> {
        self.samples.iter().map(|(sample, _)| sample.rate()).collect()
    }
}

/// Puts the turns of all targets, named by `names`, beside each other.
pub(crate) fn targets(names: &[String], turns: &[Turns]) -> Vec<TargetReport> {
    let first = turns.first().map(Turns::rates).unwrap_or_default();
    names.iter().zip(turns).filter_map(|(name, turns)| target(name, turns, &first)).collect()
}

/// One target's report; `None` if it had no turn.
fn target(name: &str, turns: &Turns, first: &[f64]) -> Option<TargetReport> {
    let ((sample, device), rest) = turns.samples.split_first()?;
    let mut total = sample.clone();
    let mut device = *device;
    for (sample, more) in rest {
        total.ops += sample.ops;
        total.user_bytes += sample.user_bytes;
        total.fsyncs += sample.fsyncs;
        total.asked = total.asked.with(sample.asked, u64::saturating_add);
        // Both resize themselves, so that nothing can be out of range.
        total.latency.add(&sample.latency).ok()?;
        total.sync.add(&sample.sync).ok()?;
        device += *more;
    }
    let Sample { ops, user_bytes, fsyncs, latency, sync, asked, .. } = total;
    let rates = turns.rates();
    Some(TargetReport {
        target: name.to_owned(),
        guarantee: turns.guarantee.clone(),
        floor: turns.guarantee.starts_with(guarantee::FLOOR),
        ops_per_s: spread(&rates),
        ratio: ratio(first, &rates),
        rates,
        latency_us: Latency::of(&latency),
        fsync_us: (!sync.is_empty()).then(|| Latency::of(&sync)),
        counters: Counters { ops, user_bytes, fsyncs, client: asked, device },
    })
}

/// A table as tests look at it: what stands between cells is ` | `.
#[cfg(test)]
pub(crate) fn cells(text: &str) -> String {
    let line =
        |line: &str| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect::<Vec<_>>().join(" | ");
    text.lines().map(line).collect::<Vec<_>>().join(
        "
",
    )
}

#[cfg(test)]
mod tests;
