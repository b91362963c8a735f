//! A transaction as a unit's contents: which images to compress, in chunks that several threads share when there are
//! many.

use super::sums::Sums;
use crate::Block;
use crate::Result;
use crate::block_engine::Sealed;
use crate::together::together;
use ondol_env::Env;
use ondol_format::Time;
use ondol_format::unit::{self, CHUNK, Chunk, StagedRun, Tables};
use std::ops::Range;

/// Bytes to compress from which on another thread helps, for each.
pub const WORTH_A_THREAD: usize = 1 << 20;
/// The most threads that compress one unit.
const THREADS: usize = 8;

/// The contents of a unit.
pub(super) struct Encoded {
    pub(super) chunks: Vec<Chunk<Block>>,
    /// Images that were not tried.
    pub(super) stored: u64,
}

/// Encodes a transaction as unit number `sequence`. Of what is not to be `compressed` the images are stored as they
/// are.
///
/// # Errors
/// A thread that helped has panicked.
pub(super) fn encode(tx: &Sealed, sequence: u64, compressed: bool, env: &dyn Env, sums: &Sums) -> Result<Encoded> {
    let (now, block_size) = (env.now(), sums.block_size());
    let stays = |(_, image): &(u64, Block)| !compressed || unit::looks_random(image);
    let (dense, plain): (Vec<_>, Vec<_>) = tx.images.iter().cloned().partition(stays);
    let blocks: Vec<u64> = plain.iter().chain(&dense).map(|(block, _)| *block).collect();
    let staged = runs(&tx.staged, sums);
    let tables = unit::tables(&Tables {
        sequence,
        time: Time { sec: now.sec, nsec: now.nsec },
        block_size: block_size as u32,
        images: &blocks,
        revoked: &tx.revoked,
        staged: &staged,
    });
    let stored = dense.len() as u64;
    let contents = Contents { tables, images: images(plain), block_size };
    let mut chunks = compress(contents, env.processors())?;
    let whole = CHUNK / block_size;
    let parts = |some: &[(u64, Block)]| Chunk::stored(some.iter().map(|(_, image)| image.clone()).collect());
    chunks.extend(dense.chunks(whole).map(parts));
    Ok(Encoded { chunks, stored })
}

fn images(blocks: Vec<(u64, Block)>) -> Vec<Block> {
    blocks.into_iter().map(|(_, image)| image).collect()
}

/// Runs of staged blocks, given by their sums, with the checksums of their contents.
fn runs(staged: &[(u64, u32)], sums: &Sums) -> Vec<StagedRun> {
    let mut runs: Vec<StagedRun> = Vec::new();
    for &(block, sum) in staged {
        match runs.last_mut() {
            Some(run) if run.start + u64::from(run.blocks) == block => {
                run.blocks += 1;
                run.checksum = sums.and(run.checksum, sum);
            }
            _ => runs.push(StagedRun { start: block, blocks: 1, checksum: sums.first(sum) }),
        }
    }
    runs
}

/// Consecutive bytes: the tables, then the images.
struct Contents {
    tables: Vec<u8>,
    images: Vec<Block>,
    block_size: usize,
}

impl Contents {
    fn len(&self) -> usize {
        self.tables.len() + self.images.len() * self.block_size
    }

    /// The bytes of chunk `n`.
    fn chunk(&self, n: usize, out: &mut Vec<u8>) {
        out.clear();
        let Range { start, end } = n * CHUNK..((n + 1) * CHUNK).min(self.len());
        let tables = self.tables.len();
        out.extend_from_slice(&self.tables[start.min(tables)..end.min(tables)]);
        let mut at = start.max(tables) - tables;
        let end = end.max(tables) - tables;
        while at < end {
            let (image, from) = (at / self.block_size, at % self.block_size);
            let to = (from + end - at).min(self.block_size);
            out.extend_from_slice(&self.images[image][from..to]);
            at += to - from;
        }
    }
}

/// Every `of`th chunk from chunk `first` on.
fn every(contents: &Contents, first: usize, of: usize) -> Vec<Chunk<Block>> {
    let mut bytes = Vec::with_capacity(CHUNK.min(contents.len()));
    let mut chunk = |n| {
        contents.chunk(n, &mut bytes);
        Chunk::compressed(&bytes)
    };
    (first..contents.len().div_ceil(CHUNK)).step_by(of).map(&mut chunk).collect()
}

fn compress(contents: Contents, processors: usize) -> Result<Vec<Chunk<Block>>> {
    let threads = (contents.len() / WORTH_A_THREAD).clamp(1, processors.min(THREADS));
    if threads == 1 {
        return Ok(every(&contents, 0, 1));
    }
    let chunks = contents.len().div_ceil(CHUNK);
    let parts = together(threads, "ondol-compress", move |n| every(&contents, n, threads))?;
    let mut parts: Vec<_> = parts.into_iter().map(Vec::into_iter).collect();
    Ok((0..chunks).filter_map(|n| parts[n % threads].next()).collect())
}
