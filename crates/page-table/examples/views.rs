//! What the processor's table brings and costs: `cargo run --release -p ondol-page-table --example views
//! [DIRECTORY]...`.
//!
//! Reads by look-up against mapped views; transactions of swaps without a view, with one remap for each transaction and
//! with one for each entry; reads after ranges were remapped, against reads with nothing remapped; and pages of 4 KiB
//! against 2 MiB, where the pool lies in a DIRECTORY that gives large ones (tmpfs with `huge=always`). Medians of
//! rounds that alternate.
#![allow(clippy::disallowed_methods, reason = "it measures time")]

use ondol_block::BlockStore;
use ondol_env::sync::atomic::{AtomicBool, Ordering::Relaxed};
use ondol_env::{Env, System};
use ondol_medium::{Nvm, NvmOptions, Pool, PoolSpec};
use ondol_page_table::{PageTable, Remapping, TableSpec, View, ViewSpec};
use std::path::Path;

const BLOCKS: u64 = 32 * 1024;
const PAGE: u64 = 4096;
const ROUNDS: usize = 7;

type Failure = Box<dyn std::error::Error>;
type Read<'r> = dyn Fn(u64, &mut [u8]) -> Result<(), Failure> + Sync + 'r;
type Measured<'m> = (&'m str, Box<dyn FnMut() -> Result<u64, Failure> + 'm>);

fn main() -> Result<(), Failure> {
    let table = made(Nvm::volatile(pool_bytes())?)?;
    println!("{} MiB in memory, blocks in the order of their pages", (BLOCKS * PAGE) >> 20);
    reads(&table)?;
    remaps(&table)?;
    flushes(&table)?;
    for directory in std::env::args_os().skip(1) {
        let path = Path::new(&directory).join("ondol-views.pool");
        println!("\npool in {}", path.display());
        let measured = Nvm::create(&path, pool_bytes(), &NvmOptions::default()).map_err(Failure::from);
        let measured = measured.and_then(made).and_then(|other| large(&table, &other));
        std::fs::remove_file(&path)?;
        measured?;
    }
    Ok(())
}

fn pool_bytes() -> u64 {
    (BLOCKS + 2048) * PAGE + (8 << 20)
}

/// A table whose blocks are written and in order.
fn made(nvm: Nvm) -> Result<PageTable, Failure> {
    let mut pool = Pool::create(nvm, &PoolSpec { force: true, ..PoolSpec::default() })?;
    TableSpec { uuid: System.random_uuid(), blocks: Some(BLOCKS), reserve: Some(2048) }.make(&mut pool)?;
    let mut table = PageTable::attach(&pool)?;
    let page = [7; PAGE as usize];
    (0..BLOCKS).try_for_each(|block| table.write(block * PAGE, &page))?;
    table.flatten()?;
    Ok(table)
}

fn viewed(table: &PageTable, remapping: Remapping, populate: bool) -> Result<View<&PageTable>, Failure> {
    let spec = ViewSpec { blocks: 0..BLOCKS, remapping, populate, ..ViewSpec::default() };
    Ok(View::new(table, &spec)?)
}

/// Runs all of them in turn, several times; prints medians in nanoseconds and ratios to the first.
fn compare(title: &str, mut measured: Vec<Measured<'_>>) -> Result<(), Failure> {
    let mut times = vec![Vec::new(); measured.len()];
    for _ in 0..ROUNDS {
        for (times, (_, each)) in times.iter_mut().zip(&mut measured) {
            times.push(each()?);
        }
    }
    println!("\n{title:52}{:>10}{:>10}{:>10}{:>8}", "median ns", "least", "most", "ratio");
    let mut first = None;
    for (mut times, (name, _)) in times.into_iter().zip(measured) {
        times.sort_unstable();
        let median = times[ROUNDS / 2] as f64 / 1000.0;
        let of = |n: usize| times[n] as f64 / 1000.0;
        let ratio = *first.get_or_insert(median) / median;
        println!("  {name:50}{median:10.1}{:10.1}{:10.1}{ratio:8.2}", of(0), of(ROUNDS - 1));
    }
    Ok(())
}

/// Picoseconds that `each` takes, on average of `count`.
fn time(count: u64, mut each: impl FnMut(u64) -> Result<(), Failure>) -> Result<u64, Failure> {
    let began = System.monotonic_ns();
    (0..count).try_for_each(&mut each)?;
    Ok((System.monotonic_ns() - began) * 1000 / count)
}

/// A number below `n` that looks random.
fn scattered(at: u64, n: u64) -> u64 {
    at.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) % n
}

fn reads(table: &PageTable) -> Result<(), Failure> {
    let view = viewed(table, Remapping::Transaction, true)?;
    let mut page = [0; PAGE as usize];
    view.read(0, &mut page)?;
    let size = BLOCKS * PAGE;
    for (title, len, random) in [
        ("4 KiB, in order", PAGE, false),
        ("4 KiB, anywhere", PAGE, true),
        ("16 bytes, in order", 16, false),
        ("16 bytes, anywhere", 16, true),
    ] {
        let count = if len == PAGE { BLOCKS } else { 500_000 };
        let at = |n: u64| if random { scattered(n, size / len) * len } else { n * len % size };
        compare(
            title,
            vec![
                (
                    "look-up",
                    Box::new(|| {
                        let mut buf = vec![0; len as usize];
                        time(count, |n| Ok(table.read(at(n), &mut buf)?))
                    }),
                ),
                (
                    "view",
                    Box::new(|| {
                        let mut buf = vec![0; len as usize];
                        time(count, |n| Ok(view.read(at(n), &mut buf)?))
                    }),
                ),
            ],
        )?;
    }
    let threads = |read: &Read| -> Result<u64, Failure> {
        let count = 300_000;
        let times = std::thread::scope(|s| {
            let each = |of: u64| {
                s.spawn(move || {
                    let mut buf = [0; 16];
                    time(count, |n| read(scattered(n + of * count, size / 16) * 16, &mut buf))
                        .map_err(|e| e.to_string())
                })
            };
            [each(0), each(1)].map(|thread| thread.join().unwrap_or_else(|_| Err("a thread has panicked".into())))
        });
        Ok(times.into_iter().sum::<Result<u64, String>>()? / 2)
    };
    compare(
        "16 bytes, anywhere, by two threads, each",
        vec![
            ("look-up", Box::new(|| threads(&|at, buf| Ok(table.read(at, buf)?)))),
            ("view", Box::new(|| threads(&|at, buf| Ok(view.read(at, buf)?)))),
        ],
    )
}

/// With another thread of the process on another processor, whose translations are flushed, too.
fn beside_another(measure: impl FnOnce() -> Result<u64, Failure>) -> Result<u64, Failure> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            while !is_over.load(Relaxed) {
                std::hint::spin_loop();
            }
        });
        let spent = measure();
        is_over.store(true, Relaxed);
        spent
    })
}

/// Swaps in transactions of some, without views and with one.
fn remaps(table: &PageTable) -> Result<(), Failure> {
    for (swaps, title) in [(1u64, "a transaction of one swap"), (256, "a transaction of 256 swaps, a swap of it")] {
        let pairs = |n: u64, k: u64| {
            let at = (n * 512 + k * 2) % (BLOCKS / 2);
            (at, at + BLOCKS / 2)
        };
        let measure = |remapping: Option<Remapping>| -> Result<u64, Failure> {
            let view = remapping.map(|remapping| viewed(table, remapping, true)).transpose()?;
            // Twice the same transactions leave everything in its order.
            let transactions = if swaps == 1 { 400 } else { 16 };
            let spent = time(2 * transactions, |n| {
                let mut transaction = table.transaction();
                for k in 0..swaps {
                    let (a, b) = pairs(n % transactions, k);
                    transaction.swap(a, b);
                }
                Ok(transaction.commit()?)
            })?;
            drop(view);
            Ok(spent / swaps)
        };
        compare(
            title,
            vec![
                ("no view", Box::new(|| measure(None))),
                ("remapped once for the transaction", Box::new(|| measure(Some(Remapping::Transaction)))),
                ("remapped with each entry", Box::new(|| measure(Some(Remapping::Immediate)))),
                (
                    "once, beside a thread that computes",
                    Box::new(|| beside_another(|| measure(Some(Remapping::Transaction)))),
                ),
            ],
        )?;
    }
    // Neighbours that move together take one call.
    let measure = |remapping: Option<Remapping>| -> Result<u64, Failure> {
        let view = remapping.map(|remapping| viewed(table, remapping, true)).transpose()?;
        let spent = time(32, |n| {
            let mut transaction = table.transaction();
            let first = n % 16 * 256;
            (first..first + 256).for_each(|at| transaction.swap(at, at + BLOCKS / 2));
            Ok(transaction.commit()?)
        })?;
        drop(view);
        Ok(spent / 256)
    };
    compare(
        "a transaction of 256 swaps of neighbours, a swap of it",
        vec![
            ("no view", Box::new(|| measure(None))),
            ("remapped once for the transaction", Box::new(|| measure(Some(Remapping::Transaction)))),
            ("remapped with each entry", Box::new(|| measure(Some(Remapping::Immediate)))),
        ],
    )
}

/// The translation cache: one word of each page, after some ranges were remapped.
fn flushes(table: &PageTable) -> Result<(), Failure> {
    let view = viewed(table, Remapping::Transaction, false)?;
    let mut word = [0; 8];
    let pass = |word: &mut [u8; 8]| time(BLOCKS, |n| Ok(view.read(scattered(n, BLOCKS) * PAGE, word)?));
    pass(&mut word)?;
    let swapped = |count: u64| -> Result<(), Failure> {
        let mut transaction = table.transaction();
        (0..count).for_each(|n| transaction.swap(n * 4, BLOCKS - 2 - n * 4));
        Ok(transaction.commit()?)
    };
    let mut after: Vec<Measured<'_>> = Vec::new();
    for (count, name) in
        [(0u64, "nothing remapped"), (1, "2 pages remapped"), (16, "32 pages remapped"), (128, "256 pages remapped")]
    {
        let pass = &pass;
        after.push((
            name,
            Box::new(move || {
                let mut word = [0; 8];
                if count > 0 {
                    swapped(count)?;
                }
                let spent = pass(&mut word)?;
                if count > 0 {
                    // Back in order, and nothing of it left to the next.
                    swapped(count)?;
                    pass(&mut word)?;
                }
                Ok(spent)
            }),
        ));
    }
    compare(&format!("a word of each of {BLOCKS} pages, anywhere, after"), after)
}

/// Pages of two sizes: the same reads through views of two pools.
fn large(small: &PageTable, large: &PageTable) -> Result<(), Failure> {
    let before = huge_kib()?;
    let (large, small) = (viewed(large, Remapping::Transaction, false)?, viewed(small, Remapping::Transaction, false)?);
    let mut page = [0; PAGE as usize];
    // Read once, so that the processor's table has them.
    for n in 0..BLOCKS {
        large.read(n * PAGE, &mut page)?;
        small.read(n * PAGE, &mut page)?;
    }
    let kib = huge_kib()?.saturating_sub(before);
    println!("{} mappings; {} of {} MiB in large pages", large.stats().mappings, kib >> 10, (BLOCKS * PAGE) >> 20);
    if kib == 0 {
        println!("skipped: this directory gives no large pages (mount a tmpfs with huge=always)");
        return Ok(());
    }
    let read = |len: u64, view: &View<&PageTable>| {
        let (mut buf, count) = (vec![0; len as usize], if len == PAGE { BLOCKS } else { 500_000 });
        time(count, |n| Ok(view.read(scattered(n, BLOCKS * PAGE / len) * len, &mut buf)?))
    };
    for (len, title) in [(PAGE, "4 KiB, anywhere"), (16, "16 bytes, anywhere")] {
        compare(
            title,
            vec![("large pages", Box::new(|| read(len, &large))), ("pages of 4 KiB", Box::new(|| read(len, &small)))],
        )?;
    }
    Ok(())
}

/// KiB of this process that lie in large pages of shared memory.
fn huge_kib() -> Result<u64, Failure> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup")?;
    let line = text.lines().find_map(|line| line.strip_prefix("ShmemPmdMapped:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()).map(str::parse).transpose()?;
    Ok(kib.unwrap_or(0))
}
