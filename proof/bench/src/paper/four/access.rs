//! Ways to read a file, and their rounds.
#![expect(unsafe_code, reason = "maps files of other file systems")]

use crate::BenchError;
use crate::error::Context;
use crate::interrupt::Interrupt;
use crate::stats::Spread;
use memmap2::{Mmap, MmapMut, MmapOptions};
use ondol_env::{Env, System};
use std::fs::File;
use std::path::Path;

/// Bytes of a page.
pub(super) const PAGE: usize = 4096;

/// What is read comes to this, so that nobody can leave it out.
pub(super) type Sum = u64;

type Step<'r, T> = Box<dyn FnMut() -> Result<T, BenchError> + 'r>;

/// One way to read something, named.
pub(super) struct Way<'r> {
    pub(super) name: String,
    /// Done before each round, and not counted.
    before: Option<Step<'r, ()>>,
    /// What was read, if it was used.
    read: Step<'r, Option<Sum>>,
}

impl<'r> Way<'r> {
    pub(super) fn new(name: impl Into<String>, read: impl FnMut() -> Result<Option<Sum>, BenchError> + 'r) -> Self {
        Self { name: name.into(), before: None, read: Box::new(read) }
    }

    pub(super) fn after(mut self, before: impl FnMut() -> Result<(), BenchError> + 'r) -> Self {
        self.before = Some(Box::new(before));
        self
    }
}

/// What a way took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    /// Microseconds.
    pub(super) time: Spread,
    /// Page faults of this thread that needed no disk, in the last round: those of calls that enter pages, too.
    pub(super) faults: u64,
}

/// Has all ways read in turn, after one round that is not counted.
///
/// # Errors
/// A way fails, or one has read something else than the first.
pub(super) fn interleaved(ways: &mut [Way<'_>], rounds: u32, interrupt: &Interrupt) -> Result<Vec<Taken>, BenchError> {
    let mut taken = vec![(Vec::new(), 0); ways.len()];
    let mut sum = None;
    for round in 0..=rounds {
        for (way, (times, faults)) in ways.iter_mut().zip(&mut taken) {
            interrupt.check()?;
            way.before.as_mut().map_or(Ok(()), |before| before())?;
            let (before, begun) = (minor_faults()?, System.monotonic_ns());
            let read = (way.read)()?;
            let nanoseconds = System.monotonic_ns() - begun;
            *faults = minor_faults()? - before;
            if let Some(read) = read
                && *sum.get_or_insert(read) != read
            {
                return Err(BenchError::Unfit(format!("{}: not what the first way has read", way.name)));
            }
            if round > 0 {
                times.push(nanoseconds as f64 / 1000.0);
            }
        }
    }
    Ok(taken.into_iter().map(|(times, faults)| Taken { time: crate::stats::spread(&times), faults }).collect())
}

/// Reads bytes as the paper does: 16 at a time.
pub(super) fn chunks(bytes: &[u8]) -> Sum {
    let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
    bytes.chunks_exact(16).fold(0, |sum: u64, chunk| sum.wrapping_add(word(&chunk[..8]) ^ word(&chunk[8..])))
}

/// Calls `read` for each part of `len` bytes, `buffer` at a time, with the place of each, until it says that the file
/// ends.
pub(super) fn parts(
    len: usize,
    buffer: &mut [u8],
    mut read: impl FnMut(&mut [u8], u64) -> Result<usize, BenchError>,
    mut each: impl FnMut(&[u8]),
) -> Result<(), BenchError> {
    let mut at = 0;
    while at < len {
        let got = read(buffer, at as u64)?;
        if got == 0 {
            return Err(BenchError::Unfit(format!("a file ends at {at} of {len} bytes")));
        }
        each(&buffer[..got]);
        at += got;
    }
    Ok(())
}

/// Maps a file for reading, with all of its pages in the processor's table if they are to be.
pub(super) fn map(path: &Path, populate: bool) -> Result<Mmap, BenchError> {
    let file = File::open(path).context(|| path.display().to_string())?;
    let mut options = MmapOptions::new();
    if populate {
        options.populate();
    }
    // SAFETY: the file is of this bench's making, in a directory that nobody else works in, and is not written or cut
    // short before the map is gone.
    unsafe { options.map(&file) }.context(|| path.display().to_string())
}

/// Maps a file to be stored to.
pub(super) fn map_mut(file: &File) -> Result<MmapMut, BenchError> {
    // SAFETY: as in `map`; who else writes to it does so in turn.
    unsafe { MmapOptions::new().map_mut(file) }.context(|| "mapping a file")
}

fn minor_faults() -> Result<u64, BenchError> {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").context(|| "/proc/thread-self/stat")?;
    let field = stat.rsplit_once(')').and_then(|(_, fields)| fields.split_whitespace().nth(7));
    field
        .and_then(|field| field.parse().ok())
        .ok_or_else(|| BenchError::Unfit("/proc/thread-self/stat: no count of faults".into()))
}
