//! Shows where threads that work on different files meet: operations per second, and how often a thread had to wait for
//! another, by number of threads.
//!
//! `cargo run --release -p ondol --example contention [IMAGE]`
//!
//! Waits are the kernel's count of voluntary context switches of the working threads: without fsync nothing else in
//! these loops gives up the processor, so they are waits for locks. They do not depend on how busy the machine is.
#![allow(clippy::disallowed_methods, reason = "a program that measures")]

use ondol::{FormatOptions, OpenOptions, Volume};
use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

const OPERATIONS: u64 = 40_000;

fn main() -> Result<(), Box<dyn Error>> {
    let image =
        std::env::args_os().nth(1).map_or_else(|| PathBuf::from("/dev/shm/ondol-contention.img"), PathBuf::from);
    println!("{:<12} {:>7} {:>12} {:>20}", "work", "threads", "ops/s", "waits per 1000 ops");
    for (name, work) in [("overwrite", overwrite as Work), ("create", create), ("read", read), ("lookup", lookup)] {
        for threads in [1, 2, 4, 8] {
            Volume::format(&image, &FormatOptions::new().size(2 << 30).block_size(4096).force(true))?;
            let volume = Volume::open(&image)?;
            let (rate, waits) = measure(&volume, threads, work)?;
            println!("{name:<12} {threads:>7} {rate:>12.0} {waits:>20.2}");
            volume.close()?;
        }
    }
    std::fs::remove_file(image)?;
    Ok(())
}

type Work = fn(&Volume, u64, u64) -> ondol::Result<()>;

/// Runs `work` on as many threads as said, each in a directory of its own.
fn measure(volume: &Volume, threads: u64, work: Work) -> Result<(f64, f64), Box<dyn Error>> {
    for t in 0..threads {
        volume.create_dir(format!("/{t}"))?;
        volume.write(format!("/{t}/file"), vec![1; 1 << 20])?;
    }
    volume.sync()?;
    let each = OPERATIONS / threads;
    let began = Instant::now();
    let waits: u64 = std::thread::scope(|scope| {
        let run = |t| {
            move || -> Result<u64, String> {
                let before = waits_of_this_thread();
                (0..each).try_for_each(|n| work(volume, t, n)).map_err(|e| e.to_string())?;
                Ok(waits_of_this_thread() - before)
            }
        };
        let threads: Vec<_> = (0..threads).map(|t| scope.spawn(run(t))).collect();
        threads
            .into_iter()
            .map(|t| t.join().unwrap_or_else(|_| Err("a thread panicked".into())))
            .sum::<Result<u64, _>>()
    })?;
    let done = (each * threads) as f64;
    Ok((done / began.elapsed().as_secs_f64(), waits as f64 * 1000.0 / done))
}

fn overwrite(volume: &Volume, thread: u64, n: u64) -> ondol::Result<()> {
    let file = OpenOptions::new().write(true).open(volume, format!("/{thread}/file"))?;
    file.write_all_at(&[n as u8; 4096], n * 7919 % 256 * 4096)
}

fn create(volume: &Volume, thread: u64, n: u64) -> ondol::Result<()> {
    volume.write(format!("/{thread}/{n}"), [n as u8; 4096])
}

fn read(volume: &Volume, thread: u64, n: u64) -> ondol::Result<()> {
    volume.open_file(format!("/{thread}/file"))?.read_at(&mut [0; 4096], n * 7919 % 256 * 4096).map(|_| ())
}

fn lookup(volume: &Volume, thread: u64, _n: u64) -> ondol::Result<()> {
    volume.metadata(format!("/{thread}/file")).map(|_| ())
}

fn waits_of_this_thread() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|n| n.trim().parse().ok()).unwrap_or(0)
}
