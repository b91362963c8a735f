//! What a block costs: `cargo run --release -p ondol-page-table --example table_rate`.
//!
//! Writes with a flush each, swaps, transactions of many swaps, and for comparison a copy of two blocks; attaching 1
//! GiB; medians of five rounds, and the counts of one.
#![allow(clippy::disallowed_methods, reason = "it measures time")]

use ondol_block::BlockStore;
use ondol_env::{Env, System};
use ondol_medium::{Nvm, Pool, PoolSpec};
use ondol_page_table::{PageTable, TableSpec};

const BLOCKS: u64 = 4096;
const PAGE: u64 = 4096;
const ROUNDS: usize = 5;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut pool = Pool::create(Nvm::volatile(64 << 20)?, &PoolSpec::default())?;
    TableSpec { uuid: System.random_uuid(), blocks: Some(BLOCKS), reserve: None }.make(&mut pool)?;
    let table = PageTable::attach(&pool)?;
    let (page, mut buf) = ([7; PAGE as usize], [0; PAGE as usize]);
    (0..BLOCKS).try_for_each(|block| table.write(block * PAGE, &page))?;
    table.flush()?;
    println!("{:34}{:>9}{:>9}{:>9}", "a block each, nanoseconds", "median", "fences", "lines");
    row(&table, "read", |n| Ok(table.read(n * PAGE, &mut buf)?))?;
    row(&table, "write", |n| Ok(table.write(n * PAGE, &page)?))?;
    row(&table, "write and flush", |n| Ok(table.write(n * PAGE, &page).and_then(|()| table.flush())?))?;
    row(&table, "100 bytes and flush", |n| {
        Ok(table.write(n * PAGE + 50, &page[..100]).and_then(|()| table.flush())?)
    })?;
    row(&table, "swap of two", |n| Ok(table.swap(n, BLOCKS - 1 - n)?))?;
    row(&table, "a 256th of a transaction of swaps", |n| {
        if n % 256 != 0 {
            return Ok(());
        }
        let mut transaction = table.transaction();
        (n..n + 256).for_each(|n| transaction.swap(n, (n + BLOCKS / 2) % BLOCKS));
        Ok(transaction.commit()?)
    })?;
    row(&table, "read and write of another", |n| {
        table.read(n * PAGE, &mut buf)?;
        Ok(table.write((BLOCKS - 1 - n) * PAGE, &buf)?)
    })?;
    attach()
}

/// Attaches a table whose blocks all have pages, in a pool of 1 GiB.
fn attach() -> Result<(), Failure> {
    let mut pool = Pool::create(Nvm::volatile(1 << 30)?, &PoolSpec::default())?;
    TableSpec { uuid: System.random_uuid(), blocks: None, reserve: None }.make(&mut pool)?;
    let table = PageTable::attach(&pool)?;
    let (megabyte, blocks) = (vec![7; 1 << 20], table.stats().blocks);
    (0..table.size() >> 20).try_for_each(|n| table.write(n << 20, &megabyte))?;
    table.flush()?;
    drop(table);
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let began = System.monotonic_ns();
        drop(PageTable::attach(&pool)?);
        times.push((System.monotonic_ns() - began) / 1000);
    }
    times.sort_unstable();
    println!("attach of 1 GiB, {blocks} blocks: {} microseconds", times[ROUNDS / 2]);
    Ok(())
}

/// Does it to all blocks, several times.
fn row(table: &PageTable, what: &str, mut each: impl FnMut(u64) -> Result<(), Failure>) -> Result<(), Failure> {
    let (mut times, mut counts) = (Vec::new(), (0.0, 0.0));
    for _ in 0..ROUNDS {
        let (before, began) = (table.nvm().stats(), System.monotonic_ns());
        (0..BLOCKS).try_for_each(&mut each)?;
        times.push((System.monotonic_ns() - began) / BLOCKS);
        let after = table.nvm().stats();
        let of = |after: u64, before: u64| (after - before) as f64 / BLOCKS as f64;
        counts = (of(after.fences, before.fences), of(after.lines, before.lines));
    }
    times.sort_unstable();
    println!("{what:34}{:9}{:9.2}{:9.2}", times[ROUNDS / 2], counts.0, counts.1);
    Ok(())
}
