//! Doing a workload on threads, and keeping what it took.

use crate::fs::std_fs::calls;
use crate::fs::{Durable, File};
use crate::interrupt::Interrupt;
use crate::processes::Switches;
use crate::workload::{Prepared, Worker};
use hdrhistogram::Histogram;
use serde::Serialize;
use std::io;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Significant digits of latencies.
pub(crate) const DIGITS: u8 = 3;

/// When a turn ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    /// Operations of each thread.
    pub(crate) ops: u64,
    /// Time, if that is what limits it.
    pub(crate) time: Option<Duration>,
}

/// What one thread did.
#[derive(Debug)]
pub(crate) struct Meter {
    /// Latencies in nanoseconds.
    latency: Histogram<u64>,
    /// The same of fsyncs alone.
    sync: Histogram<u64>,
    /// Operations.
    ops: u64,
    /// Bytes written.
    pub(crate) user_bytes: u64,
    /// fsyncs.
    fsyncs: u64,
}

impl Meter {
    pub(crate) fn new() -> io::Result<Self> {
        let histogram = || Histogram::new(DIGITS).map_err(io::Error::other);
        Ok(Self { latency: histogram()?, sync: histogram()?, ops: 0, user_bytes: 0, fsyncs: 0 })
    }

    /// Does one operation and keeps how long it took.
    pub(crate) fn time<T>(&mut self, op: impl FnOnce(&mut Self) -> io::Result<T>) -> io::Result<T> {
        let begin = Instant::now();
        let done = op(self)?;
        self.latency.record(nanos_since(begin)).map_err(io::Error::other)?;
        self.ops += 1;
        Ok(done)
    }

    /// Makes a file durable, if it is to be, as an operation or as a part of one, and keeps how long that took.
    pub(crate) fn fsync(&mut self, file: &mut dyn File, sync: Option<Durable>) -> io::Result<()> {
        let Some(sync) = sync else { return Ok(()) };
        let begin = Instant::now();
        file.fsync(sync)?;
        self.sync.record(nanos_since(begin)).map_err(io::Error::other)?;
        self.fsyncs += 1;
        Ok(())
    }
}

fn nanos_since(begin: Instant) -> u64 {
    u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1)
}

/// What the threads that worked asked of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Asked {
    /// System calls on files.
    pub(crate) calls: u64,
    /// How often they lost the processor.
    #[serde(flatten)]
    pub(crate) switches: Switches,
}

impl Asked {
    /// The calling thread so far.
    fn of_this_thread() -> Self {
        Self { calls: calls(), switches: Switches::of_this_thread() }
    }

    /// Both, each put together with the other's by `how`.
    pub(crate) fn with(self, other: Self, how: fn(u64, u64) -> u64) -> Self {
        Self { calls: how(self.calls, other.calls), switches: self.switches.with(other.switches, how) }
    }
}

/// What all threads did in one turn.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// What they asked of the kernel.
    pub(crate) asked: Asked,
    /// Operations.
    pub(crate) ops: u64,
    /// Bytes written.
    pub(crate) user_bytes: u64,
    /// fsyncs.
    pub(crate) fsyncs: u64,
    /// From the first thread's begin to the last thread's end.
    pub(crate) elapsed: Duration,
    /// Latencies in nanoseconds.
    pub(crate) latency: Histogram<u64>,
    /// The same of fsyncs alone.
    pub(crate) sync: Histogram<u64>,
}

impl Sample {
    /// Operations a second.
    pub(crate) fn rate(&self) -> f64 {
        let seconds = self.elapsed.as_secs_f64();
        if seconds > 0.0 { self.ops as f64 / seconds } else { 0.0 }
    }
}

/// Runs `threads` workers of `prepared` until the limit.
///
/// # Errors
/// The first failure of a worker (the others stop), or `Interrupted` after a signal.
pub(crate) fn run(prepared: &dyn Prepared, threads: u32, limit: Limit, interrupt: &Interrupt) -> io::Result<Sample> {
    let workers = (0..threads).map(|thread| prepared.worker(thread)).collect::<io::Result<Vec<_>>>()?;
    let barrier = Barrier::new(workers.len());
    let failed = AtomicBool::new(false);
    let outcomes = thread::scope(|scope| {
        let spawned: Vec<_> = workers
            .into_iter()
            .map(|worker| scope.spawn(|| work(worker, limit, &barrier, &failed, interrupt)))
            .collect();
        spawned.into_iter().map(|thread| thread.join()).collect::<Vec<_>>()
    });
    let mut parts = Vec::new();
    for outcome in outcomes {
        parts.push(outcome.map_err(|_| io::Error::other("a worker panicked"))??);
    }
    if interrupt.came() {
        return Err(io::ErrorKind::Interrupted.into());
    }
    sum(parts)
}

/// What one thread did, and when.
struct Part {
    meter: Meter,
    asked: Asked,
    begin: Instant,
    end: Instant,
}

/// One thread's turn. It takes its own times: with more threads than processors the thread that waits for them would
/// run late.
fn work(
    mut worker: Box<dyn Worker + '_>,
    limit: Limit,
    barrier: &Barrier,
    failed: &AtomicBool,
    interrupt: &Interrupt,
) -> io::Result<Part> {
    let meter = Meter::new();
    barrier.wait();
    let stop = Stop(failed);
    let mut meter = meter?;
    let before = Asked::of_this_thread();
    let begin = Instant::now();
    let over = |ops| ops >= limit.ops || limit.time.is_some_and(|time| begin.elapsed() >= time);
    while !over(meter.ops) && !failed.load(Ordering::Relaxed) && !interrupt.came() {
        worker.step(&mut meter)?;
    }
    let end = Instant::now();
    let asked = Asked::of_this_thread().with(before, u64::saturating_sub);
    worker.finish()?;
    std::mem::forget(stop);
    Ok(Part { meter, asked, begin, end })
}

/// Stops the other threads when this one fails or panics.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn sum(parts: Vec<Part>) -> io::Result<Sample> {
    let begin = parts.iter().map(|part| part.begin).min();
    let end = parts.iter().map(|part| part.end).max();
    let begin = begin.unwrap_or_else(Instant::now);
    let elapsed = end.map_or(Duration::ZERO, |end| end.duration_since(begin));
    let mut total = Meter::new()?;
    let mut asked = Asked::default();
    for Part { meter, asked: more, .. } in parts {
        asked = asked.with(more, u64::saturating_add);
        total.latency.add(meter.latency).map_err(io::Error::other)?;
        total.sync.add(meter.sync).map_err(io::Error::other)?;
        total.ops += meter.ops;
        total.user_bytes += meter.user_bytes;
        total.fsyncs += meter.fsyncs;
    }
    let Meter { latency, sync, ops, user_bytes, fsyncs } = total;
    Ok(Sample { asked, ops, user_bytes, fsyncs, elapsed, latency, sync })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counting {
        fail_at: Option<u64>,
    }

    struct CountingWorker {
        done: u64,
        fail_at: Option<u64>,
    }

    impl Prepared for Counting {
        fn worker(&self, thread: u32) -> io::Result<Box<dyn Worker + '_>> {
            Ok(Box::new(CountingWorker { done: 0, fail_at: self.fail_at.filter(|_| thread == 1) }))
        }
    }

    impl Worker for CountingWorker {
        fn step(&mut self, meter: &mut Meter) -> io::Result<()> {
            self.done += 1;
            if self.fail_at == Some(self.done) {
                return Err(io::Error::other("worker failed"));
            }
            meter.time(|meter| {
                meter.user_bytes += 10;
                Ok(())
            })
        }

        fn finish(self: Box<Self>) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn every_thread_does_its_share() {
        let interrupt = Interrupt::catch().expect("handlers");
        let limit = Limit { ops: 50, time: None };
        let sample = run(&Counting { fail_at: None }, 3, limit, &interrupt).expect("run");
        assert_eq!((sample.ops, sample.user_bytes, sample.fsyncs), (150, 1500, 0));
        assert_eq!(sample.latency.len(), 150);
        assert!(sample.rate() > 0.0);
    }

    #[test]
    fn time_limits_too() {
        let interrupt = Interrupt::catch().expect("handlers");
        let limit = Limit { ops: u64::MAX, time: Some(Duration::from_millis(5)) };
        let sample = run(&Counting { fail_at: None }, 2, limit, &interrupt).expect("run");
        assert!(sample.ops > 0);
    }

    #[test]
    fn a_failure_ends_the_turn() {
        let interrupt = Interrupt::catch().expect("handlers");
        let limit = Limit { ops: u64::MAX, time: None };
        let error = run(&Counting { fail_at: Some(7) }, 2, limit, &interrupt).expect_err("thread 1 fails");
        assert_eq!(error.to_string(), "worker failed");
    }
}
