//! Stores to a file made durable: by commits of a map, by calls, and by the kernel's maps.

use super::access::{PAGE, Sum, Way, interleaved, map_mut};
use super::figure::{Figure, Row};
use super::figures::{figure, per};
use super::rig::{Rig, System, failed};
use crate::BenchError;
use crate::error::Context;
use crate::interrupt::Interrupt;
use crate::stats::Spread;
use ondol::{Counts, File};
use std::fs;
use std::os::unix::fs::FileExt;

/// Pages that are stored to between two syncs.
const PAGES: [usize; 3] = [1, 16, 256];
/// How often in a round.
const TIMES: usize = 32;

/// A file of another file system, of as many bytes as ours.
fn made(system: &System, bytes: usize) -> Result<fs::File, BenchError> {
    let path = system.path().with_file_name("stores");
    let make = || -> std::io::Result<fs::File> {
        let file = fs::File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
        file.write_all_at(&vec![1; bytes], 0)?;
        file.sync_all()?;
        Ok(file)
    };
    make().context(|| path.display().to_string())
}

/// The ways to change these pages, each with its name and what it does once.
fn ways<'r>(rig: &'r Rig, ours: &'r File, which: &'r [usize]) -> Result<Vec<Way<'r>>, BenchError> {
    let bytes = rig.sizes.short * PAGE;
    let mut ways = Vec::new();
    let mut map = ours.map_mut().map_err(failed)?;
    ways.push(Way::new("ondol, in process: stores to a map, commit", move || {
        repeated(|page| {
            for at in which {
                map.bytes_mut(at * PAGE..(at + 1) * PAGE).map_err(failed)?.copy_from_slice(page);
            }
            map.commit().map_err(failed)
        })
    }));
    ways.push(Way::new("ondol, in process: write, fsync", move || {
        repeated(|page| {
            which.iter().try_for_each(|at| ours.write_all_at(page, (at * PAGE) as u64)).map_err(failed)?;
            ours.sync_all().map_err(failed)
        })
    }));
    for system in rig.systems() {
        let (file, name) = (made(system, bytes)?, system.name);
        // A server's answers to stores to a shared map come when it likes.
        if name != "ondol, mounted" && name != "fuse2fs on RAM" {
            let mut map = map_mut(&file)?;
            ways.push(Way::new(format!("{name}: stores to mmap, msync"), move || {
                repeated(|page| {
                    for at in which {
                        map[at * PAGE..(at + 1) * PAGE].copy_from_slice(page);
                    }
                    map.flush().context(|| name)
                })
            }));
        }
        ways.push(Way::new(format!("{name}: pwrite, fsync"), move || {
            repeated(|page| {
                let write = |at: &usize| file.write_all_at(page, (at * PAGE) as u64);
                which.iter().try_for_each(write).and_then(|()| file.sync_all()).context(|| name)
            })
        }));
    }
    Ok(ways)
}

/// Does something with a page of other bytes each time.
fn repeated(mut once: impl FnMut(&[u8]) -> Result<(), BenchError>) -> Result<Option<Sum>, BenchError> {
    for n in 0..TIMES {
        once(&[n as u8; PAGE])?;
    }
    Ok(None)
}

pub(super) fn eight(rig: &Rig, rounds: u32, interrupt: &Interrupt) -> Result<Figure, BenchError> {
    let ours = rig.writable("stores")?;
    let count = rig.sizes.short;
    let (mut rows, mut notes): (Vec<Row>, Vec<String>) = (Vec::new(), Vec::new());
    for pages in PAGES {
        let which: Vec<usize> = (0..pages).map(|n| n * 397 % count).collect();
        let mut ways = ways(rig, &ours, &which)?;
        for (at, taken) in interleaved(&mut ways, rounds, interrupt)?.into_iter().enumerate() {
            if rows.len() <= at {
                rows.push(Row { name: ways[at].name.clone(), values: Vec::new() });
            }
            let each: Spread = per(taken.time, TIMES as f64);
            rows[at].values.push(Some(each));
        }
        drop(ways);
        notes.push(counted(rig, &ours, &which)?);
    }
    let columns = PAGES.map(|pages| format!("{pages} pages")).to_vec();
    let mut figure =
        figure(8, "µs until the stores are durable", columns, rows, "has no commit; it asks for atomic pages");
    figure.notes = notes;
    Ok(figure)
}

/// What a commit, and the same by calls, take of NVM.
fn counted(rig: &Rig, ours: &File, which: &[usize]) -> Result<String, BenchError> {
    let meter = rig.meter()?;
    let since = |before: ondol::NvmStats| {
        let done = meter.read().since(&before);
        format!("{} fences and {} bytes", done.fences, done.reached_bytes())
    };
    let mut map = ours.map_mut().map_err(failed)?;
    let page = [0x77; PAGE];
    for at in which {
        map.bytes_mut(at * PAGE..(at + 1) * PAGE).map_err(failed)?.copy_from_slice(&page);
    }
    let before = meter.read();
    map.commit().map_err(failed)?;
    let commit = since(before);
    let before = meter.read();
    which.iter().try_for_each(|at| ours.write_all_at(&page, (at * PAGE) as u64)).map_err(failed)?;
    ours.sync_all().map_err(failed)?;
    Ok(format!(
        "{} pages, in process: {commit} of NVM by a commit, {} by writes and an fsync",
        which.len(),
        since(before)
    ))
}
