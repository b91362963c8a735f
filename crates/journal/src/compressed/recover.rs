//! Recovery of a compressed journal: which units are whole, what they come to, and bringing that home.
//!
//! Units are read twice, one at a time: once to find the end and the newest image of every block, once to write those home. Then the home
//! blocks are flushed, and only then the log is declared empty; recovery interrupted anywhere can be repeated.

use super::{RING_MAX, next_sequence};
use crate::area::{LogMap, write_runs};
use crate::jbd2::{Recovered, corrupt, load_superblock};
use crate::{Corrupt, Result};
use ondol_block::BlockStore;
use ondol_env::plant::{self, Defect};
use ondol_env::reach::{self, Place};
use ondol_format::csum::{self, crc32c};
use ondol_format::jbd2::{Extension, JournalIncompat, JournalSuperblock};
use ondol_format::unit::{HEADER, Header, StagedRun, Unit};
use std::collections::HashMap;

/// Replays the journal into its volume of `volume_blocks` blocks and empties it. The next unit's number is past every one that
/// the log can have seen. Durable when this returns.
///
/// # Errors
/// Corruption: a unit that is known to have been whole and is not, or one that is whole and makes no sense; the store's failure.
pub fn recover(store: &dyn BlockStore, map: &LogMap, volume_blocks: u64) -> Result<Recovered> {
    let sb = load_superblock(store, map)?;
    let log = Log::new(store, map, sb);
    let Some(start) = log.sb.start() else {
        return Ok(Recovered::default());
    };
    let start = u64::from(start) - log.first;
    let found = log.scan(start)?;
    log.refuse_damage(&found, start)?;
    match found.units.len() {
        0 => reach::hit(Place::ReplayNone),
        1 => reach::hit(Place::ReplayOne),
        _ => reach::hit(Place::ReplaySeveral),
    }
    reach::hit_if(found.end < start, Place::ReplayWrapped);
    reach::hit_if(found.revoked > 0, Place::RevokeHonoured);
    let recovered = log.replay(&found, volume_blocks)?;
    if !plant::is(Defect::MissingFlushInRecovery) {
        store.flush()?;
    }
    // One further than the end: an unfinished unit may lie there under that number.
    log.empty(found.next + 1)?;
    Ok(recovered)
}

/// Where a block's newest image lies: in the unit of this index, at this place among its images.
#[derive(Clone, Copy)]
struct Newest {
    unit: usize,
    image: usize,
}

/// What a log holds.
struct Found {
    /// Ring positions of the whole units, in their order.
    units: Vec<u64>,
    /// Number of the first unit that is not whole, and where it would be.
    next: u64,
    end: u64,
    newest: HashMap<u64, Newest>,
    /// Images that revokes held back.
    revoked: u64,
}

struct Log<'a> {
    store: &'a dyn BlockStore,
    map: &'a LogMap,
    sb: JournalSuperblock,
    seed: u32,
    first: u64,
    ring: u64,
}

impl<'a> Log<'a> {
    fn new(store: &'a dyn BlockStore, map: &'a LogMap, sb: JournalSuperblock) -> Self {
        let first = u64::from(sb.first());
        let most = RING_MAX / map.block_size() as u64;
        let ring = u64::from(sb.end()).saturating_sub(first).min(most);
        Self { store, map, seed: csum::uuid_seed(sb.uuid()), first, ring, sb }
    }

    /// Reads `len` bytes from position `at` of the ring on.
    fn read(&self, mut at: u64, len: usize) -> Result<Vec<u8>> {
        let size = self.map.block_size();
        let mut bytes = vec![0; len];
        let mut done = 0;
        while done < len {
            let (physical, run) = self.map.run_from(self.first + at)?;
            let blocks = run.min(self.ring - at).min((len - done).div_ceil(size) as u64);
            let n = (blocks as usize * size).min(len - done);
            self.store.read(physical * size as u64, &mut bytes[done..done + n])?;
            (at, done) = ((at + blocks) % self.ring, done + n);
        }
        Ok(bytes)
    }

    /// The header at a position of the ring, if it is the one of a unit.
    fn header(&self, at: u64) -> Result<Option<Header>> {
        Ok(Header::parse(&self.read(at, HEADER)?, self.ring * self.map.block_size() as u64))
    }

    /// The bytes of the unit whose header lies at a position of the ring, if all of them are there.
    fn whole(&self, at: u64, header: &Header) -> Result<Option<Vec<u8>>> {
        let bytes = self.read(at, header.size)?;
        let whole = header.is_whole(&bytes, self.seed) || plant::is(Defect::UncheckedUnit);
        Ok(Some(bytes).filter(|_| whole))
    }

    /// The unit number `sequence` at a position of the ring, if it is whole, and where the next one would be.
    ///
    /// # Errors
    /// It is whole and makes no sense.
    fn unit(&self, at: u64, sequence: u64) -> Result<Option<(Header, Unit, u64)>> {
        let any = plant::is(Defect::StaleUnit) || plant::is(Defect::UncheckedUnit);
        let expected = |header: &Header| {
            let is_next = header.sequence == sequence;
            reach::hit_if(!is_next, Place::StaleEnd);
            is_next || any
        };
        let Some(header) = self.header(at)?.filter(expected) else { return Ok(None) };
        let Some(bytes) = self.whole(at, &header)? else {
            reach::hit(Place::TornEnd);
            return Ok(None);
        };
        let unit = match Unit::read(&header, &bytes, self.map.block_size()) {
            Ok(unit) => unit,
            Err(_) if plant::is(Defect::UncheckedUnit) => return Ok(None),
            Err(e) => return Err(corrupt(self.map.physical(self.first + at)?, &e)),
        };
        let next = (at + header.size.div_ceil(self.map.block_size()) as u64) % self.ring;
        Ok(Some((header, unit, next)))
    }

    /// Whether the runs that a unit names have arrived at home.
    fn has_arrived(&self, staged: &[StagedRun]) -> Result<bool> {
        let size = self.map.block_size() as u64;
        let mut block = vec![0; self.map.block_size()];
        // Runs do not overlap: more than the medium has is made up, and is not looked for.
        let blocks: u64 = staged.iter().map(|run| u64::from(run.blocks)).sum();
        if blocks > self.store.size() / size {
            return Ok(false);
        }
        for run in staged {
            let mut sum = self.seed;
            for i in 0..u64::from(run.blocks) {
                let at = run.start.checked_add(i).and_then(|block| block.checked_mul(size));
                let Some(at) = at.filter(|at| at.saturating_add(size) <= self.store.size()) else { return Ok(false) };
                self.store.read(at, &mut block)?;
                sum = crc32c(sum, &block);
            }
            if sum != run.checksum {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Follows the log from position `start` as far as its units are whole.
    fn scan(&self, start: u64) -> Result<Found> {
        let next = next_sequence(&self.sb)?;
        let mut found = Found { units: Vec::new(), next, end: start, newest: HashMap::new(), revoked: 0 };
        let known = self.sb.extension().durable;
        let mut used = 0;
        let mut whole = self.unit(start, next)?;
        while let Some((header, unit, after)) = whole {
            used += header.size.div_ceil(self.map.block_size()) as u64;
            let following = if used < self.ring { self.unit(after, found.next + 1)? } else { None };
            // A unit that another follows was durable, runs and all; since then, they may have been written again.
            let sure = following.is_some() || found.next <= known || plant::is(Defect::UncheckedStaging);
            if !sure && !self.has_arrived(&unit.staged)? {
                reach::hit(Place::StagedLost);
                break;
            }
            reach::hit_if(!sure && !unit.staged.is_empty(), Place::StagedArrived);
            found.take(&unit);
            found.units.push(found.end);
            (found.next, found.end) = (found.next + 1, after);
            whole = following;
        }
        Ok(found)
    }

    /// A log ends where a unit is not whole, and after a crash that is right. But if that unit, or a later one, is known to have been durable,
    /// it was whole once and has been damaged.
    fn refuse_damage(&self, found: &Found, start: u64) -> Result<()> {
        let mut durable = self.sb.extension().durable;
        let mut at = found.end;
        // Units do not overlap, so all of them together are not longer than the ring; headers that say otherwise are made up.
        let mut left = (self.ring as usize).saturating_mul(self.map.block_size());
        for _ in 0..self.ring {
            if let Some(header) = self.header(at)?
                && (found.next + 1..=found.next + self.ring).contains(&header.sequence)
                && header.durable > durable
                && header.size <= left
            {
                left -= header.size;
                if self.whole(at, &header)?.is_some() {
                    durable = header.durable;
                }
            }
            at = (at + 1) % self.ring;
            if at == start {
                break;
            }
        }
        if durable < found.next || plant::is(Defect::SilentDamage) {
            return Ok(());
        }
        let structure = format!("journal unit {}", found.next);
        let what = format!("it is not whole, and unit {durable} was durable");
        Err(Corrupt { structure, block: self.map.physical(self.first + found.end)?, what }.into())
    }

    /// Writes the newest images home.
    fn replay(&self, found: &Found, volume_blocks: u64) -> Result<Recovered> {
        for &block in found.newest.keys() {
            if block >= volume_blocks || self.map.contains(block) {
                let what = "the volume has no such block to be journaled".to_owned();
                return Err(Corrupt { structure: format!("journal image of block {block}"), block, what }.into());
            }
        }
        for ((i, &at), sequence) in found.units.iter().enumerate().zip(next_sequence(&self.sb)?..) {
            let Some((_, unit, _)) = self.unit(at, sequence)? else { return Err(self.lost(at)) };
            let mut images: Vec<(u64, &[u8])> = Vec::new();
            for (n, image) in unit.images().enumerate() {
                if found.newest.get(&image.block).is_some_and(|newest| newest.unit == i && newest.image == n) {
                    images.push((image.block, image.bytes));
                }
            }
            images.sort_unstable_by_key(|(block, _)| *block);
            write_runs(self.store, self.map.block_size(), &images)?;
        }
        let (transactions, blocks) = (found.units.len() as u64, found.newest.len() as u64);
        Ok(Recovered { transactions, blocks, revoked: found.revoked })
    }

    fn lost(&self, at: u64) -> crate::JournalError {
        let what = "a unit that was read before is not there any more".to_owned();
        Corrupt { structure: "journal".into(), block: self.map.physical(self.first + at).unwrap_or(at), what }.into()
    }

    /// Declares the log empty, and a journal that anybody can use; the next unit has number `next`.
    fn empty(&self, next: u64) -> Result<()> {
        let mut sb = self.sb.clone();
        sb.set_start(None, next as u32);
        sb.set_incompat(sb.incompat().difference(JournalIncompat::COMPRESSED));
        sb.set_extension(&Extension { sequence: next, durable: 0, ..sb.extension() });
        self.store.write(self.map.physical(0)? * self.map.block_size() as u64, &sb.encode())?;
        Ok(self.store.flush()?)
    }
}

impl Found {
    /// Takes in the next whole unit.
    fn take(&mut self, unit: &Unit) {
        let index = self.units.len();
        // Revokes of this unit concern older images; its own are newer than they are.
        if !plant::is(Defect::UnreadRevoke) {
            self.revoked += unit.revoked.iter().filter(|block| self.newest.remove(block).is_some()).count() as u64;
        }
        for (n, &block) in unit.blocks().iter().enumerate() {
            let older = self.newest.insert(block, Newest { unit: index, image: n });
            reach::hit_if(older.is_some(), Place::ReplayNewer);
        }
    }
}
