//! Making a table in a pool.

use crate::error::{Result, TableError};
use crate::format::{Config, ENTRY, LogState, Part, Seal};
use crate::layout::{CONFIG_LEN, Layout};
use ondol_medium::{Area, AreaKind, Nvm, PAGE, Pool};

/// A table to be made.
#[derive(Clone, Copy, Debug, Default)]
pub struct TableSpec {
    /// Its UUID: random, so that what an older table left is never taken for this one's.
    pub uuid: [u8; 16],
    /// Blocks of the image; `None`: as many as fit.
    pub blocks: Option<u64>,
    /// Pages beyond the image's blocks, at least one; `None`: as many as a large transaction needs.
    pub reserve: Option<u64>,
}

/// Where the copies of the configuration table lie in their area.
pub(crate) const COPIES: [u64; 2] = [0, PAGE];

impl TableSpec {
    /// Makes a table of unmapped blocks in the areas that the pool has for one, or in its largest range of free bytes.
    /// What was in those areas is lost. Durable when this returns; after a crash on the way there is no table, or the
    /// new one. Blocks of the image.
    ///
    /// # Errors
    /// `Small` when it does not fit; the pool's and the medium's failures.
    pub fn make(&self, pool: &mut Pool) -> Result<u64> {
        let blocks = self.fits(pool)?;
        let [config, map, log, data] = match areas(pool) {
            Some(parts) => parts,
            None => allot(pool, blocks, self.reserve)?,
        };
        let pages = (data.len / PAGE).min(crate::format::MOST_PAGES);
        let [map, log, data] = [map, log, data].map(Part::from);
        let table = Config { uuid: self.uuid, pool: pool.header().uuid, blocks, pages, map, log, data };
        write(pool.nvm(), config.start, &table)?;
        Ok(blocks)
    }

    /// The blocks of the image that [`TableSpec::make`] would make a table for. Changes nothing.
    ///
    /// # Errors
    /// `Small` when it does not fit.
    pub fn fits(&self, pool: &Pool) -> Result<u64> {
        let largest = match areas(pool) {
            Some([config, _, log, _]) if config.len < CONFIG_LEN || log.len < 2 * PAGE => None,
            Some([_, map, _, data]) => Layout::largest(self.reserve, |l| l.map <= map.len && l.data() <= data.len),
            None => {
                let room = pool.header().free().map(|range| range.end - range.start).max().unwrap_or(0);
                Layout::largest(self.reserve, |layout| layout.total() <= room)
            }
        };
        let most = largest.map_or(0, |layout| layout.blocks);
        match self.blocks.unwrap_or(most) {
            blocks if (1..=most).contains(&blocks) => Ok(blocks),
            blocks => Err(TableError::Small { pool: pool.nvm().name().into(), blocks: blocks.max(1), most }),
        }
    }
}

/// The areas of a table: configuration, map, log, data.
pub(crate) fn areas(pool: &Pool) -> Option<[Area; 4]> {
    let [map, log, data] = Config::KINDS;
    Some([pool.area(AreaKind::PAGE_CONFIG)?, pool.area(map)?, pool.area(log)?, pool.area(data)?])
}

fn allot(pool: &mut Pool, blocks: u64, reserve: Option<u64>) -> Result<[Area; 4]> {
    let small = |pool: &Pool| TableError::Small { pool: pool.nvm().name().into(), blocks, most: 0 };
    let layout = Layout::of(blocks, reserve).ok_or_else(|| small(pool))?;
    let [map, log, data] = Config::KINDS;
    let lens = [(AreaKind::PAGE_CONFIG, CONFIG_LEN), (map, layout.map), (log, layout.log), (data, layout.data())];
    pool.allot_all(&lens)?;
    areas(pool).ok_or_else(|| small(pool))
}

/// The configuration table comes last, its first copy behind the second: with a first one of zeros there is no table.
fn write(nvm: &Nvm, config_at: u64, config: &Config) -> Result<()> {
    let mut batch = nvm.stored();
    COPIES.iter().try_for_each(|copy| batch.zero(config_at + copy, PAGE))?;
    batch.write_back().fence()?;
    let seal = Seal::new(config.uuid);
    let mut batch = nvm.stored();
    let each = PAGE / ENTRY;
    for first in (0..config.blocks).step_by(each as usize) {
        let count = each.min(config.blocks - first);
        let entries = (first..first + count).flat_map(|block| seal.entry(block, None).to_le_bytes());
        batch.copy(config.entry_at(first), &entries.collect::<Vec<u8>>())?;
    }
    batch.store(config.line_at(0), &[0; 64])?;
    batch.store_u64(config.line_at(0), seal.state(LogState { number: 0, open: false }))?;
    batch.write_back().fence()?;
    COPIES.iter().rev().try_for_each(|copy| write_config(nvm, config_at + copy, config))
}

pub(crate) fn write_config(nvm: &Nvm, at: u64, config: &Config) -> Result<()> {
    let mut batch = nvm.stored();
    batch.store(at, &config.encode())?;
    batch.write_back().fence()?;
    Ok(())
}
