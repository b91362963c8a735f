//! Writing units into the ring.

use super::sums::Sums;
use super::{IMAGES_PER_BLOCK, encode};
use crate::area::Area;
use crate::block_engine::{AboutLog, LogFormat, Logged, Sealed};
use crate::device::{Passing, compresses};
use crate::names::Tid;
use crate::running::{Named, NewData};
use crate::stats::EngineStats;
use crate::{JournalError, Result};
use ondol_block::DeviceClass;
use ondol_env::Env;
use ondol_env::sync::Arc;
use ondol_env::sync::atomic::{AtomicU64, Ordering::Relaxed};
use ondol_format::jbd2::JournalIncompat;
use ondol_format::unit::{self, Chunk};

/// Bytes of new data in consecutive blocks from which on they are written home and not into the unit. Less is often
/// deleted or written again before it goes home, and a disk does one sequential write sooner than several apart.
pub const STAGE_PLAIN: usize = 64 << 10;
/// The same for data that does not compress.
pub const STAGE_DENSE: usize = 16 << 10;
/// Bytes in one run from which on they may be written home before their commit begins, where much waits for it.
pub const STAGE_EARLY: usize = 32 << 10;

/// A compressed journal on a block store.
pub(super) struct UnitLog {
    env: Arc<dyn Env>,
    area: Area,
    seed: u32,
    sums: Sums,
    /// Number of the newest unit that is durable.
    durable: AtomicU64,
    compresses: bool,
    passing: Passing,
    compress_ns: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    stored: AtomicU64,
}

impl UnitLog {
    /// A log over an empty journal whose next unit is number `next`, with checksums from `seed` on.
    pub(super) fn new(area: Area, seed: u32, env: Arc<dyn Env>, next: u64, device: DeviceClass) -> Result<Self> {
        let sums = Sums::new(seed, area.block_size());
        let log = Self {
            env,
            area,
            seed,
            sums,
            durable: AtomicU64::new(0),
            compresses: compresses(device),
            passing: Passing::new(device),
            compress_ns: AtomicU64::new(0),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            stored: AtomicU64::new(0),
        };
        log.set_tail(Tid(next), None)?;
        Ok(log)
    }
}

impl LogFormat for UnitLog {
    fn about(&self) -> AboutLog {
        let (plain, dense, early) = (STAGE_PLAIN, STAGE_DENSE, STAGE_EARLY);
        let named = Named { plain, dense, early, entry: unit::STAGED, sum: Sums::of };
        AboutLog { name: "compressed", images_per_block: IMAGES_PER_BLOCK, new_data: NewData::Named(named) }
    }

    fn area(&self) -> &Area {
        &self.area
    }

    fn cost(&self, images: u64, revokes: u64) -> u64 {
        let block_size = self.area.block_size() as u64;
        unit::most_bytes(block_size, images, revokes).div_ceil(block_size)
    }

    fn log(&self, at: u64, tx: &Sealed) -> Result<Logged> {
        let (number, durable) = (tx.tid.0, self.durable.load(Relaxed));
        let began = self.env.monotonic_ns();
        let encoded = encode::encode(tx, number, self.compresses, self.env.as_ref(), &self.sums)?;
        let head = unit::head(number, durable, &encoded.chunks, self.seed);
        self.compress_ns.fetch_add(self.env.monotonic_ns() - began, Relaxed);
        self.stored.fetch_add(encoded.stored, Relaxed);
        self.bytes_in.fetch_add(encoded.chunks.iter().map(|chunk| chunk.raw_len() as u64).sum(), Relaxed);
        self.bytes_out.fetch_add(encoded.chunks.iter().map(|chunk| chunk.len() as u64).sum(), Relaxed);
        let head = head.ok_or(JournalError::TooBig { need: tx.images.len() as u32, max: u32::MAX })?;
        let chunks = encoded.chunks.iter().flat_map(Chunk::parts);
        let mut parts: Vec<&[u8]> = std::iter::once(&head[..]).chain(chunks).collect();
        let size: usize = parts.iter().map(|part| part.len()).sum();
        let padding = vec![0; size.next_multiple_of(self.area.block_size()) - size];
        parts.push(&padding);
        self.area.write(at, &parts)?;
        Ok(Logged { blocks: size.div_ceil(self.area.block_size()) as u64, record: None })
    }

    fn durable(&self, tid: Tid) {
        self.durable.store(tid.0, Relaxed);
        self.passing.committed();
    }

    fn passes(&self, bytes: usize) -> bool {
        self.passing.passes(bytes)
    }

    fn set_tail(&self, tid: Tid, at: Option<u64>) -> Result<()> {
        let durable = self.durable.load(Relaxed);
        self.area.edit_superblock(|sb| {
            sb.set_start(at.map(|at| self.area.file_block(at)), tid.low());
            sb.set_extension(&ondol_format::jbd2::Extension { sequence: tid.0, durable, ..sb.extension() });
            let features = sb.incompat().difference(JournalIncompat::COMPRESSED);
            let own = if at.is_some() { JournalIncompat::COMPRESSED } else { JournalIncompat::empty() };
            sb.set_incompat(features | own);
        })
    }

    fn count(&self, stats: &mut EngineStats) {
        stats.compress_ns = self.compress_ns.load(Relaxed);
        stats.compress_in_bytes = self.bytes_in.load(Relaxed);
        stats.compress_out_bytes = self.bytes_out.load(Relaxed);
        stats.stored_blocks = self.stored.load(Relaxed);
    }
}
