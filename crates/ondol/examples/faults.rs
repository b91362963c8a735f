//! What it takes to read a mapped file (papers/4, figures 4 and 5): `cargo run --release -p ondol --example faults`.
//!
//! A file of 4 MiB in a pool in memory, of which a part of the pages is touched, in order, at random, or one of each 16: page faults of this thread, calls that entered pages, pages that they entered, and
//! the time with the mapping. Once with its pages side by side, where the kernel enters 16 pages with a fault, and once with each of them in a mapping of its own, where a fault enters one.
#![allow(clippy::disallowed_methods, reason = "it measures time")]

use ondol::{File, FormatOptions, Map, MapStats, Options, Prefault, Volume};
use ondol_env::{Env, System};

const PAGE: usize = 4096;
const PAGES: usize = 1024;
const ROUNDS: usize = 9;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let path = std::path::Path::new("/dev/shm").join(format!("ondol-faults-{}.pool", std::process::id()));
    let target = format!("nvm:{}", path.display());
    let measured = Volume::format(&target, &FormatOptions::new().size(64 << 20)).map_err(Failure::from);
    let measured = measured.and_then(|_nothing_given_up| measure(&Volume::open_with(&target, &Options::default())?));
    std::fs::remove_file(&path)?;
    measured
}

fn measure(volume: &Volume) -> Result<(), Failure> {
    let create = |name| volume.options().read(true).write(true).create(true).open(name);
    let (side_by_side, apart, beside) = (create("/side by side")?, create("/apart")?, create("/beside")?);
    side_by_side.write_all_at(&[7; PAGES * PAGE], 0)?;
    volume.sync()?;
    while volume.checkpoint()? {}
    for page in 0..PAGES {
        apart.write_all_at(&[7; PAGE], (page * PAGE) as u64)?;
        beside.write_all_at(&[8; PAGE], (page * PAGE) as u64)?;
    }
    for (name, file) in [("pages side by side", &side_by_side), ("each page apart", &apart)] {
        for (order, pages) in orders() {
            println!("\n{name}, {order}: {:>24}{:>9}{:>9}{:>9}{:>11}", "", "faults", "calls", "pages", "median µs");
            for (how, prefault) in
                [("plain", Prefault::Plain), ("populate", Prefault::Populate), ("windows", Prefault::Windows)]
            {
                row(how, file, prefault, &pages)?;
            }
        }
    }
    Ok(())
}

/// In which order which pages are touched.
fn orders() -> Vec<(String, Vec<usize>)> {
    let mut orders = Vec::new();
    // Every page once, in an order that has none.
    let random: Vec<usize> = (0..PAGES).map(|n| n * 397 % PAGES).collect();
    for percent in [5, 10, 20, 40, 60, 80, 100] {
        let count = PAGES * percent / 100;
        orders.push((format!("{percent} % in order"), (0..count).collect()));
        orders.push((format!("{percent} % at random"), random[..count].to_vec()));
    }
    orders.push(("one of each 16".into(), (0..PAGES).step_by(16).collect()));
    orders
}

fn row(how: &str, file: &File<'_>, prefault: Prefault, pages: &[usize]) -> Result<(), Failure> {
    let (mut times, mut counts) = (Vec::new(), (0, MapStats::default()));
    for _ in 0..ROUNDS {
        let (faults, began) = (minor_faults()?, System.monotonic_ns());
        let map = file.map_with(prefault)?;
        let mapped = System.monotonic_ns();
        let sum = touch(&map, pages);
        times.push((mapped - began, System.monotonic_ns() - mapped));
        counts = (minor_faults()? - faults, map.stats());
        if map.is_copied() || sum != 7 * pages.len() as u64 {
            return Err("the file is not mapped, or not what was written".into());
        }
    }
    let median = |mut of: Vec<u64>| {
        of.sort_unstable();
        of[ROUNDS / 2] as f64 / 1000.0
    };
    let (making, reading) = times.into_iter().unzip();
    let (faults, MapStats { windows, pages }) = counts;
    let (making, reading) = (median(making), median(reading));
    println!("  {how:40}{faults:9}{windows:9}{pages:9}{reading:11.1}   (and {making:.1} to map)");
    Ok(())
}

fn touch(map: &Map<'_>, pages: &[usize]) -> u64 {
    let byte = |page: &usize| map.get(page * PAGE..page * PAGE + 16).map_or(0, |bytes| u64::from(bytes[0]));
    pages.iter().map(byte).sum()
}

/// Faults of this thread that needed no disk: those of calls that enter pages, too.
fn minor_faults() -> Result<u64, Failure> {
    let stat = std::fs::read_to_string("/proc/thread-self/stat")?;
    let field = stat.rsplit_once(')').and_then(|(_, fields)| fields.split_whitespace().nth(7));
    Ok(field.ok_or("no count of faults")?.parse()?)
}
