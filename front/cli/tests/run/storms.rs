//! Power cuts of many threads with full lanes, times and renames; the pool in memory, and in an ordinary file on the
//! same disk, whose msync(2) is slowed down so that what is seen and what is durable are long apart.

use crate::power::{Cut, Slow, cut, in_rounds, unavailable};
use crate::{compiled, shared_library};
use ondol_skips::skips;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

const CELL: usize = 8192;

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
}

fn length(version: u32) -> usize {
    4 * (1 + (version.wrapping_mul(2_654_435_761) % 7_000) as usize)
}

fn check(said: &str, dir: &Path) -> Vec<String> {
    let mut acked = BTreeMap::<(char, usize, usize), u32>::new();
    for line in said.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |n: usize| words[n].parse::<u32>().unwrap();
        let key = (line.chars().next().unwrap(), number(1) as usize, number(2) as usize);
        acked.insert(key, number(3));
    }
    let mut wrong = Vec::new();
    for ((kind, thread, which), version) in acked {
        let dir = dir.join((thread / 2).to_string());
        if kind == 'C' {
            let all = words(&fs::read(dir.join(format!("cells-{thread}"))).unwrap_or_default());
            let cell = all.get(which * CELL / 4..(which + 1) * CELL / 4).unwrap_or_default();
            if let Some(old) = cell.iter().find(|word| **word < version).or(cell.is_empty().then_some(&0)) {
                wrong.push(format!("thread {thread}: cell {which} has {old}, {version} was acknowledged"));
            }
        } else {
            let all = words(&fs::read(dir.join(format!("file-{thread}-{which}"))).unwrap_or_default());
            if all.first().is_none_or(|word| *word < version) {
                let first = all.first();
                wrong.push(format!("thread {thread}: file {which} has {first:?}, {version} was acknowledged"));
            }
        }
    }
    // What has its final name was synced before, acknowledged or not.
    let dirs = (0..4).filter_map(|n| fs::read_dir(dir.join(n.to_string())).ok()).flatten().map(|entry| entry.unwrap());
    for entry in dirs.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"file-")) {
        let bytes = fs::read(entry.path()).unwrap();
        let all = words(&bytes);
        let whole = all.first().is_some_and(|word| length(*word) == bytes.len() && all.iter().all(|w| w == word));
        if !whole {
            wrong.push(format!("{}: {} bytes of {:?}", entry.path().display(), bytes.len(), all.first()));
        }
    }
    wrong
}

fn storms(rounds: u64, on_disk: bool) {
    if skips(unavailable(&["cc"])) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let program = compiled(place.path(), "storm.c", &["-pthread"]);
    let slow = shared_library(place.path(), "slow.c");
    in_rounds(rounds, |round| {
        let seed = (u64::from(std::process::id()) + round).to_string();
        // Its first eighth are the words: slow alone, they are long seen before they are durable.
        let pools = [("512K", 80 << 10), ("1M", 140 << 10), ("512K", u64::MAX >> 1), ("3M", 400 << 10)];
        let (pool, below) = pools[round as usize % pools.len()];
        let us = [4_000, 400_000, 3_000_000, 0, 50_000][round as usize % 5];
        let slow = Slow { library: &slow, us, below, drain_only: round % 3 > 0 };
        let what = Cut {
            image: 64 << 20,
            pool,
            program: &[program.as_os_str()],
            word: &seed,
            after: Duration::from_millis(100 + (round * 397) % 1900),
            on_disk,
            slow: Some(slow),
            ..Cut::default()
        };
        let (lost, bad) = cut(&what, check);
        (lost, bad.into_iter().map(|what| format!("seed {seed}, round {round}: {what}")).collect())
    });
}

#[test]
fn what_many_threads_have_synced_is_there_after_a_power_cut() {
    storms(3, false);
}

#[test]
fn what_many_threads_have_synced_with_a_pool_on_a_slow_disk_is_there_after_a_power_cut() {
    storms(4, true);
}
