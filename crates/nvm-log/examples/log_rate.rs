//! What a record and its commit cost: `cargo run --release -p ondol-nvm-log --example log_rate -- [BYTES]`.
//!
//! Each thread appends a record of so many bytes and commits it, over and over; beside it the same with one lock around
//! both. The two take turns; medians of five rounds, and the counts of one.
#![allow(clippy::disallowed_methods, reason = "it measures time, with threads of the system")]

use ondol_env::sync::{Arc, Mutex};
use ondol_env::{Env, System};
use ondol_medium::{AreaKind, Nvm, NvmError, Pool, PoolSpec};
use ondol_nvm_log::{Contents, Log, LogError, LogStats, OnDamage, Options};

const RECORDS: u64 = 200_000;
const ROUNDS: usize = 5;
const AREA: u64 = 64 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bytes = std::env::args().nth(1).map_or(Ok(100), |word| word.parse())?;
    println!("a record of {bytes} bytes and its commit, in nanoseconds");
    println!("threads  lock-free  one lock  ratio  | lock-free: fences  lines  records a commit  voided");
    for threads in [1, 2, 4, 8, 16, 32] {
        let (mut free, mut locked, mut counts) = (Vec::new(), Vec::new(), String::new());
        for _ in 0..ROUNDS {
            let (ns, log, fences, lines) = measure(threads, bytes, false)?;
            free.push(ns);
            let of = |n: u64| n as f64 / log.records as f64;
            let together = log.records as f64 / log.commits as f64;
            counts = format!("{:.2}  {:.2}  {together:.2}  {}", of(fences), of(lines), log.voided);
            locked.push(measure(threads, bytes, true)?.0);
        }
        let (free, locked) = (median(free), median(locked));
        println!("{threads:7}  {free:9}  {locked:8}  {:.2}  | {counts}", locked as f64 / free as f64);
    }
    Ok(())
}

fn median(mut of: Vec<u64>) -> u64 {
    of.sort_unstable();
    of[of.len() / 2]
}

/// Nanoseconds a record, what the log counted, fences and lines of the memory.
fn measure(threads: u64, bytes: usize, with_lock: bool) -> Result<(u64, LogStats, u64, u64), LogError> {
    let areas = vec![(AreaKind::JOURNAL_LOG, AREA)];
    let nvm = Nvm::volatile(AREA + (1 << 20))?;
    let pool = Pool::create(nvm, &PoolSpec { areas, ..PoolSpec::default() })
        .map_err(|_| NvmError::Stopped { name: "memory".into() })?;
    let log = Log::start(Contents::open(&pool, &System, OnDamage::Refuse)?, Arc::new(System), &Options::default())?;
    let (lock, releasing) = (Mutex::new(()), Mutex::new(()));
    let before = pool.nvm().stats();
    let began = System.monotonic_ns();
    let one = || -> Result<(), LogError> {
        let contents = vec![1; bytes];
        for _ in 0..RECORDS / threads {
            let promise = loop {
                match log.promise(bytes as u64) {
                    Err(LogError::Full { .. }) => release(&log, &releasing)?,
                    other => break other?,
                }
            };
            let _one_at_a_time = with_lock.then(|| lock.lock());
            log.commit(promise.claim(bytes as u64).complete(&contents)?)?;
        }
        Ok(())
    };
    std::thread::scope(|s| {
        let all: Vec<_> = (0..threads).map(|_| s.spawn(one)).collect();
        all.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|e| std::panic::resume_unwind(e)))
    })?;
    let (ns, after) = (System.monotonic_ns() - began, pool.nvm().stats());
    Ok((ns / RECORDS, log.stats(), after.fences - before.fences, after.lines - before.lines))
}

/// Nothing has to go home here.
fn release(log: &Log, one_at_a_time: &Mutex<()>) -> Result<(), LogError> {
    log.commit_all()?;
    let _alone = one_at_a_time.lock();
    let all: Vec<_> = std::iter::successors(log.first_batch(), |batch| log.batch_after(batch)).collect();
    log.release(&all)
}
