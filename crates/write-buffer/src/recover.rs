//! After a crash: what NVM holds goes home, then the tables are as new (papers/2, §3.2).
//!
//! Nothing in NVM changes before everything is durable at home, so recovery can be cut anywhere and begun again.

use crate::area::{Area, Opened, Shape};
use crate::damage::{Found as FoundFile, Record, What, find};
use crate::format::{SHARDS, shard_of};
use crate::home::{Home, HomeFile, Identity};
use crate::tree::{Segment, Tree};
use crate::{BufferError, Damage, HomeError, Result};
use ondol_medium::Pool;

/// Most bytes of one write to the home.
const MOST_BYTES: usize = 1 << 20;

/// Stands for a data block of which the bytes are not what was written.
const DAMAGED: u32 = u32::MAX;

/// What to do when acknowledged bytes cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDamage {
    /// Nothing: say what it is, and change nothing.
    #[default]
    Refuse,
    /// Bring everything else home, and give up what cannot be read. Where it was, the home keeps older bytes.
    GoOn,
}

/// What recovery did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Files that were written to, cut or made longer.
    pub files: u64,
    /// Bytes written to them.
    pub bytes: u64,
    /// Files that were removed.
    pub removed: u64,
    /// Records of which only a part was there: writes that the crash cut.
    pub torn: u64,
    /// Lines of the inode table that cannot be read: blocks that were about to be filled, or damage.
    pub unreadable_lines: u64,
    /// What was given up.
    pub damage: Vec<Damage>,
}

/// Brings everything that the buffer of a pool holds to its files and empties it, as [`crate::Buffer::open`] does. A
/// pool with areas and no buffer gets an empty one of the usual shape.
///
/// # Errors
/// As for [`crate::Buffer::open`].
pub fn recover(pool: &Pool, home: &dyn Home, on_damage: OnDamage) -> Result<Report> {
    recover_area(pool, home, Shape::default(), on_damage).map(|(_, report)| report)
}

/// The area, empty, and what was done with what it held.
pub(crate) fn recover_area(pool: &Pool, home: &dyn Home, shape: Shape, on_damage: OnDamage) -> Result<(Area, Report)> {
    let area = match Area::open(pool, shape)? {
        Opened::Empty(area) => return Ok((area, Report::default())),
        Opened::Used(area) => area,
    };
    area.mend()?;
    let found = find(&area)?;
    let mut report =
        Report { unreadable_lines: found.unreadable_lines, damage: found.damage.clone(), ..Report::default() };
    let mut plans = Vec::new();
    for file in &found.files {
        plans.push(plan(&area, file, &mut report));
    }
    if !report.damage.is_empty() && on_damage == OnDamage::Refuse {
        return Err(BufferError::Damaged { pool: area.name().to_owned(), damage: report.damage });
    }
    for plan in plans.iter().filter(|plan| plan.is_removed) {
        home.remove(&plan.identity).map_err(|e| HomeError::new("remove", &plan.identity, e))?;
        report.removed += 1;
    }
    for plan in plans.iter().filter(|plan| !plan.is_removed) {
        bring_home(&area, home, plan, &mut report)?;
    }
    if let Some(plan) = plans.iter().find(|plan| plan.is_removed) {
        home.sync_names().map_err(|e| HomeError::new("sync the names of", &plan.identity, e))?;
    }
    let area = if found.is_untouched { area } else { area.reset()? };
    Ok((area, report))
}

/// What is to be done with one file.
#[derive(Debug)]
struct Plan {
    identity: Identity,
    is_removed: bool,
    /// The shortest that it was made.
    cut: Option<u64>,
    /// The length, if it was ever set.
    size: Option<u64>,
    tree: Tree,
}

/// Puts the records of a file, by sequence, into a tree; names what is damaged.
fn plan(area: &Area, file: &FoundFile, report: &mut Report) -> Plan {
    let mut records = file.records.clone();
    // Of two copies of a record the whole one comes last.
    records.sort_by_key(|record| (record.sequence, record.is_whole));
    // Each operation was durable before the next one of its shard: what is torn below is damage.
    let proven = Proven::by(&records, area.header.stripe());
    report.torn += records.iter().filter(|r| !r.is_whole && !proven.has(r)).count() as u64;
    let acknowledged: Vec<&Record> = records.iter().filter(|r| r.is_whole || proven.has(r)).collect();
    let all = build(area, file, acknowledged.iter().copied());
    let before = report.damage.len();
    for (lbn, node) in &all.tree.nodes {
        for s in node.segments.iter().filter(|s| s.block == DAMAGED) {
            report.damage.push(Damage::Record {
                file: file.identity.clone(),
                offset: lbn * area.block_size() + u64::from(s.start),
                len: s.len(),
                sequence: s.sequence,
            });
        }
    }
    match report.damage.len() > before {
        true => build(area, file, acknowledged.into_iter().filter(|r| r.is_whole)),
        false => all,
    }
}

/// Below which sequences the operations on each shard of a file are known to have been durable.
struct Proven {
    below: [u64; SHARDS],
    stripe: u64,
}

impl Proven {
    /// By records that are whole: one of bytes proves older ones of its shard, one of the whole file all older ones.
    fn by(records: &[Record], stripe: u64) -> Self {
        let mut proven = Self { below: [0; SHARDS], stripe };
        for record in records.iter().filter(|record| record.is_whole) {
            let shards = match record.what {
                What::Bytes { lbn, .. } => shard_of(lbn, stripe)..shard_of(lbn, stripe) + 1,
                What::Length(_) | What::Removed => 0..SHARDS,
            };
            proven.below[shards].iter_mut().for_each(|below| *below = record.sequence.max(*below));
        }
        proven
    }

    fn has(&self, record: &Record) -> bool {
        let below = match record.what {
            What::Bytes { lbn, .. } => self.below[shard_of(lbn, self.stripe)],
            What::Length(_) | What::Removed => self.below.into_iter().max().unwrap_or(0),
        };
        record.sequence < below
    }
}

fn build<'r>(area: &Area, file: &FoundFile, records: impl Iterator<Item = &'r Record>) -> Plan {
    let mut tree = Tree::new(area.block_size());
    let (mut cut, mut size, mut is_removed) = (None::<u64>, None::<u64>, false);
    let mut gone = Vec::new();
    for record in records {
        match record.what {
            What::Bytes { lbn, start, len, block, at } => {
                let block = if record.is_whole { block } else { DAMAGED };
                let segment = Segment { start, end: start + len, block, at, sequence: record.sequence };
                tree.put(lbn, segment, &mut gone);
                size = size.map(|size| size.max(lbn * area.block_size() + u64::from(start + len)));
            }
            What::Length(len) => {
                tree.cut(len, &mut gone);
                cut = Some(cut.map_or(len, |cut| cut.min(len)));
                size = Some(len);
            }
            What::Removed => is_removed = true,
        }
        gone.clear();
    }
    Plan { identity: file.identity.clone(), is_removed, cut, size, tree }
}

fn bring_home(area: &Area, home: &dyn Home, plan: &Plan, report: &mut Report) -> Result<()> {
    let is_empty = plan.tree.nodes.values().all(|node| node.segments.is_empty());
    if is_empty && plan.size.is_none() {
        return Ok(());
    }
    let failed = |what: &'static str| move |e| BufferError::Home(HomeError::new(what, &plan.identity, e));
    let Some(file) = home.open(&plan.identity, true).map_err(failed("open"))? else {
        return Err(failed("open")(std::io::ErrorKind::NotFound.into()));
    };
    if let Some(cut) = plan.cut
        && file.len().map_err(failed("open"))? > cut
    {
        file.set_len(cut).map_err(failed("set the length of"))?;
    }
    write_all(area, &*file, &plan.tree, &mut report.bytes, &failed("write"))?;
    if let Some(size) = plan.size {
        file.set_len(size).map_err(failed("set the length of"))?;
    }
    file.sync().map_err(failed("sync"))?;
    report.files += 1;
    Ok(())
}

/// Writes what the tree has, joined where it touches.
fn write_all(
    area: &Area,
    file: &dyn HomeFile,
    tree: &Tree,
    written: &mut u64,
    failed: &dyn Fn(std::io::Error) -> BufferError,
) -> Result<()> {
    let (mut offset, mut bytes) = (0, Vec::new());
    let mut flush = |offset: u64, bytes: &mut Vec<u8>| {
        if !bytes.is_empty() {
            file.write_at(offset, bytes).map_err(failed)?;
            *written += bytes.len() as u64;
            bytes.clear();
        }
        Ok::<(), BufferError>(())
    };
    for (lbn, node) in &tree.nodes {
        for s in &node.segments {
            let start = lbn * area.block_size() + u64::from(s.start);
            if offset + bytes.len() as u64 != start || bytes.len() >= MOST_BYTES {
                flush(offset, &mut bytes)?;
                offset = start;
            }
            let from = bytes.len();
            bytes.resize(from + s.len() as usize, 0);
            area.nvm().read(area.block_at(s.block) + u64::from(s.at), &mut bytes[from..])?;
        }
    }
    flush(offset, &mut bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_proves_older_ones_of_its_shard_alone() {
        let bytes = |lbn| What::Bytes { lbn, start: 0, len: 1, block: 0, at: 0 };
        let record = |sequence, what, is_whole| Record { sequence, what, is_whole };
        let torn = |sequence, lbn| record(sequence, bytes(lbn), false);
        let stripe = 4;
        let of_one_shard = [torn(1, 0), torn(1, 4), record(2, bytes(3), true)];
        let proven = Proven::by(&of_one_shard, stripe);
        assert!(proven.has(&torn(1, 0)), "its shard");
        assert!(!proven.has(&torn(1, 4)), "the next stripe, so another shard");
        assert!(proven.has(&torn(1, 4 * SHARDS as u64)), "the same shard again");
        assert!(!proven.has(&torn(2, 0)), "a part of the same operation");
        for what in [What::Length(9), What::Removed] {
            let proven = Proven::by(&[record(3, what, true)], stripe);
            assert!((0..40).all(|lbn| proven.has(&torn(2, lbn)) && !proven.has(&torn(4, lbn))));
        }
    }
}
