//! What persisting costs on a pool: each step that engines are built of, timed and counted.

use crate::{Error, Result};
use ondol_env::{Env, System};
use ondol_medium::{
    Access, Domain, Fenced, Instructions, Nvm, NvmError, NvmModel, NvmOptions, NvmStats, PAGE, PoolError, inspect,
};
use serde::Serialize;
use std::path::Path;

/// How a pool is measured.
#[derive(Clone, Copy, Debug, Default)]
pub struct MeasureOptions {
    domain: Domain,
    model: NvmModel,
}

impl MeasureOptions {
    /// In the pool's own persistence domain, as fast as the medium is.
    pub fn new() -> Self {
        Self::default()
    }

    /// As if the medium had this persistence domain.
    #[must_use]
    pub fn domain(mut self, domain: Domain) -> Self {
        self.domain = domain;
        self
    }

    /// As if the medium were as slow as this.
    #[must_use]
    pub fn model(mut self, model: NvmModel) -> Self {
        self.model = model;
        self
    }
}

/// What a pool costs.
#[derive(Clone, Debug, Serialize)]
pub struct PoolCosts {
    /// The pool, as the user named it.
    pub pool: String,
    /// What it is made of.
    pub medium: &'static str,
    /// The persistence domain that was measured.
    pub domain: &'static str,
    /// Which crashes the medium survives in that domain.
    pub survives: &'static str,
    /// How this processor writes lines back.
    pub write_back: &'static str,
    /// The slower NVM that was imitated, or `off`.
    pub model: String,
    /// First byte of the free space that was measured in.
    pub start: u64,
    /// Bytes of it.
    pub len: u64,
    /// What a reading of the clock takes: it is part of every time below.
    pub clock_ns: u64,
    /// The operations.
    pub costs: Vec<Cost>,
}

/// An operation: its times in nanoseconds, and what each one did.
#[derive(Clone, Debug, Serialize)]
pub struct Cost {
    /// What is done.
    pub operation: &'static str,
    /// How often it was.
    pub repetitions: u64,
    /// Half of them took no longer.
    pub median_ns: u64,
    /// 99 of 100 took no longer.
    pub p99_ns: u64,
    /// Lines written back by each.
    pub lines: u64,
    /// Fences of each.
    pub fences: u64,
    /// Bytes that each stored through the caches.
    pub stored_bytes: u64,
    /// Bytes that each copied past the caches.
    pub copied_bytes: u64,
    /// Bytes that each read.
    pub read_bytes: u64,
}

/// How much free space is used at most: beyond the nearest caches, and saved in no time.
const ROOM: u64 = 1 << 20;

/// How often each operation is done, unless it takes too long.
const REPETITIONS: usize = 20_000;

/// How long one operation is repeated: nanoseconds. `msync` reaches a disk.
const LONGEST: u64 = 500_000_000;

/// How often it is done at least.
const LEAST: usize = 20;

/// Measures the pool at `path`, which nobody may use meanwhile. Stores go to space that no area has, which afterwards
/// holds what it held before; nothing is allotted, and the header is not touched.
///
/// # Errors
/// It is in use, is no pool that this program can use, has no free space, or cannot have the persistence domain, by
/// name.
pub fn measure(path: impl AsRef<Path>, options: &MeasureOptions) -> Result<PoolCosts> {
    let opened =
        NvmOptions { access: Access::Write, domain: options.domain, model: options.model, ..NvmOptions::default() };
    let nvm = crate::machine::pools::open(path.as_ref(), &opened)?;
    let report = inspect(&nvm)?;
    let header = report.header(nvm.name(), nvm.size())?.clone();
    let nvm = if options.domain == Domain::Auto { nvm.with_domain(header.domain)? } else { nvm };
    let free = header.free().max_by_key(|gap| gap.end - gap.start).filter(|gap| gap.end - gap.start >= PAGE);
    let free = free.ok_or_else(|| Error::Pool(PoolError::NoFree { name: nvm.name().into() }))?;
    let (start, len) = (free.start, (free.end - free.start).min(ROOM) / PAGE * PAGE);
    let mut before = vec![0; len as usize];
    nvm.read(start, &mut before)?;
    let costs = Bench { nvm: &nvm, start, len }.all();
    let mut batch = nvm.stored();
    batch.copy(start, &before)?;
    batch.write_back().fence()?;
    Ok(PoolCosts {
        pool: nvm.name().into(),
        medium: nvm.kind().name(),
        domain: nvm.domain().name(),
        survives: nvm.describe(),
        write_back: Instructions::detect().name(),
        model: options.model.to_string(),
        start,
        len,
        clock_ns: clock(),
        costs: costs?,
    })
}

/// What reading the clock twice says that it takes.
fn clock() -> u64 {
    let mut times: Vec<u64> = (0..REPETITIONS)
        .map(|_| {
            let begun = System.monotonic_ns();
            System.monotonic_ns().saturating_sub(begun)
        })
        .collect();
    times.sort_unstable();
    percentile(&times, 50)
}

/// The free space at work.
struct Bench<'n> {
    nvm: &'n Nvm,
    start: u64,
    len: u64,
}

impl Bench<'_> {
    fn all(&self) -> std::result::Result<Vec<Cost>, NvmError> {
        let bytes = [0x5A; PAGE as usize];
        let store = |len: usize| {
            let bytes = bytes.get(..len).unwrap_or_default();
            move |offset| {
                let mut batch = self.nvm.stored();
                batch.store(offset, bytes)?;
                batch.write_back().fence().map(drop)
            }
        };
        let copy = |offset| {
            let mut batch = self.nvm.stored();
            batch.copy(offset, &bytes)?;
            batch.write_back().fence().map(drop)
        };
        let nothing: Fenced<'_> = self.nvm.stored().write_back().fence()?;
        let mut page = bytes;
        Ok(vec![
            self.time("store 64 B, write back, fence", 64, store(64))?,
            self.time("store 256 B, write back, fence", 256, store(256))?,
            self.time("store 4 KiB, write back, fence", PAGE, store(PAGE as usize))?,
            self.time("copy 4 KiB past the caches, fence", PAGE, copy)?,
            self.time("publish a word", 64, |offset| nothing.publish(offset, 1).map(drop))?,
            self.time("read 4 KiB", PAGE, |offset| self.nvm.read(offset, &mut page))?,
        ])
    }

    /// Repeats an operation, each time `stride` bytes further on.
    fn time(
        &self,
        operation: &'static str,
        stride: u64,
        mut once: impl FnMut(u64) -> std::result::Result<(), NvmError>,
    ) -> std::result::Result<Cost, NvmError> {
        let mut times = Vec::with_capacity(REPETITIONS);
        let mut offsets = (self.start..self.start + self.len).step_by(stride as usize).cycle();
        // Whatever the first one has to fetch is not what the others cost.
        once(self.start)?;
        let (before, first) = (self.nvm.stats(), System.monotonic_ns());
        while let Some(offset) = offsets.next().filter(|_| times.len() < REPETITIONS) {
            let begun = System.monotonic_ns();
            once(offset)?;
            let ended = System.monotonic_ns();
            times.push(ended.saturating_sub(begun));
            if times.len() >= LEAST && ended.saturating_sub(first) > LONGEST {
                break;
            }
        }
        Ok(cost(operation, times, &before, &self.nvm.stats()))
    }
}

fn cost(operation: &'static str, mut times: Vec<u64>, before: &NvmStats, after: &NvmStats) -> Cost {
    times.sort_unstable();
    let repetitions = times.len() as u64;
    let each = |before: u64, after: u64| (after - before).checked_div(repetitions).unwrap_or(0);
    Cost {
        operation,
        repetitions,
        median_ns: percentile(&times, 50),
        p99_ns: percentile(&times, 99),
        lines: each(before.lines, after.lines),
        fences: each(before.fences, after.fences),
        stored_bytes: each(before.stored_bytes, after.stored_bytes),
        copied_bytes: each(before.copied_bytes, after.copied_bytes),
        read_bytes: each(before.read_bytes, after.read_bytes),
    }
}

/// The least of the sorted `times` that `percent` of them do not exceed.
fn percentile(times: &[u64], percent: usize) -> u64 {
    let rank = (times.len() * percent).div_ceil(100);
    times.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondol_medium::{AreaKind, Pool, PoolSpec};

    /// A pool of 64 KiB: two pages of headers, `area` pages of an area.
    fn pool(area: u64) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        let nvm = Nvm::create(&path, 64 << 10, &NvmOptions::default()).unwrap();
        let spec = PoolSpec {
            domain: Domain::Volatile,
            areas: vec![(AreaKind::JOURNAL_LOG, area * PAGE)],
            ..PoolSpec::default()
        };
        Pool::create(nvm, &spec).unwrap();
        (dir, path)
    }

    #[test]
    fn each_operation_is_counted_and_no_byte_of_the_pool_changes() {
        let (_dir, path) = pool(4);
        let before = std::fs::read(&path).unwrap();
        let costs = measure(&path, &MeasureOptions::new()).unwrap();
        assert_eq!((costs.domain, costs.start, costs.len), ("volatile", 6 * PAGE, 10 * PAGE));
        let counts: Vec<_> =
            costs.costs.iter().map(|c| (c.lines, c.fences, c.stored_bytes, c.copied_bytes, c.read_bytes)).collect();
        let expected = [
            (1, 1, 64, 0, 0),
            (4, 1, 256, 0, 0),
            (64, 1, 4096, 0, 0),
            (0, 1, 0, 4096, 0),
            (1, 1, 8, 0, 0),
            (0, 0, 0, 0, 4096),
        ];
        assert_eq!(counts, expected);
        assert!(costs.costs.iter().all(|c| c.median_ns <= c.p99_ns && c.repetitions >= LEAST as u64));
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }

    #[test]
    fn a_domain_and_a_model_are_those_that_were_asked_for() {
        let (_dir, path) = pool(4);
        let model: NvmModel = "read=1ms".parse().unwrap();
        let costs = measure(&path, &MeasureOptions::new().domain(Domain::Volatile).model(model)).unwrap();
        // The model never waits less than it says.
        assert!(costs.model == "read=1000000ns" && costs.costs[5].median_ns >= 1_000_000, "{costs:?}");
    }

    #[test]
    fn a_full_pool_is_refused_by_name() {
        let (_dir, path) = pool(14);
        let before = std::fs::read(&path).unwrap();
        let said = measure(&path, &MeasureOptions::new()).unwrap_err().to_string();
        assert!(said.contains("has no free space") && said.contains("pool"), "{said}");
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }

    #[test]
    fn percentiles_are_of_the_measured_values() {
        let times: Vec<u64> = (1..=200).collect();
        assert_eq!((percentile(&times, 50), percentile(&times, 99), percentile(&[], 50)), (100, 198, 0));
    }
}
