//! Recovery of a compressed journal: which units are whole, what they come to, and bringing that home.
//!
//! Units are read twice, one at a time: once to find the end and the newest image of every block, once to write those
//! home. Then the home blocks are flushed, and only then the log is declared empty; recovery interrupted anywhere can
//! be repeated.
//!
//! Nothing is held whole: units pass in pieces and chunk by chunk, and what is kept of an image takes a few bytes. So
//! the memory is bound by the blocks of the ring, whatever lies in them.

use super::{IMAGES_PER_BLOCK, RING_MAX, next_sequence};
use crate::area::{LogMap, write_runs};
use crate::jbd2::{Recovered, corrupt, load_superblock};
use crate::ring::Ring;
use crate::salvage::{GivenUp, Lose, Salvaged, longest};
use crate::{Corrupt, JournalError, NumberHash, Result};
use ondol_block::BlockStore;
use ondol_format::csum::{self, crc32c};
use ondol_format::jbd2::{Extension, JournalIncompat, JournalSuperblock};
use ondol_format::unit::{Failed, HEADER, Header, StagedRun, Unit};
use std::collections::HashMap;
use std::ops::ControlFlow;

/// Bytes of images that are written home at once.
const BATCH: usize = 4 << 20;

/// Replays the journal into its volume of `volume_blocks` blocks and empties it. The next unit's number is past every
/// one that the log can have seen. Durable when this returns.
///
/// # Errors
/// Corruption: a unit that is known to have been whole and is not, or one that is whole and makes no sense; the store's
/// failure.
pub fn recover(store: &dyn BlockStore, map: &LogMap, volume_blocks: u64) -> Result<Recovered> {
    let log = Log::load(store, map, volume_blocks)?;
    let Some(start) = log.start()? else { return Ok(Recovered::default()) };
    let found = log.scan(start, u64::MAX)?;
    log.refuse_damage(&found, start)?;
    let recovered = log.replay(&found)?;
    store.flush()?;
    // One further than the end: an unfinished unit may lie there under that number.
    log.empty(found.next + 1)?;
    Ok(recovered)
}

/// As [`recover`], of a damaged log: the longest beginning of it that is sound goes home, and the rest is given up.
///
/// # Errors
/// The journal's superblock is damaged, or the store's failure.
pub fn salvage(store: &dyn BlockStore, map: &LogMap, volume_blocks: u64, lose: Lose<'_>) -> Result<Salvaged> {
    let log = Log::load(store, map, volume_blocks)?;
    let Some(start) = log.start()? else { return Ok(Salvaged::default()) };
    let (found, why) = longest(log.ring.blocks(), |most| log.scan(start, most))?;
    let why = why.or_else(|| log.refuse_damage(&found, start).err());
    let recovered = log.replay(&found)?;
    store.flush()?;
    why.as_ref().map_or(Ok(()), |_| lose())?;
    // What cannot be read holds no more units than it has blocks.
    let newest = log.newest(&found).unwrap_or(found.next + log.ring.blocks());
    log.empty(newest + 1)?;
    let given_up = why.map(|e| GivenUp { first: found.next, last: newest, why: e.to_string() });
    Ok(Salvaged { recovered, given_up })
}

/// Where a block's newest image lies: in the unit of this index, at this place among its images.
#[derive(Clone, Copy)]
struct Newest {
    unit: u32,
    image: u32,
}

/// What a log holds.
struct Found {
    /// Ring positions of the whole units, in their order.
    units: Vec<u64>,
    /// Number of the first unit that is not whole, and where it would be.
    next: u64,
    end: u64,
    newest: HashMap<u64, Newest, NumberHash>,
    /// Images that revokes held back.
    revoked: u64,
}

struct Log<'a> {
    store: &'a dyn BlockStore,
    ring: Ring,
    sb: JournalSuperblock,
    seed: u32,
    volume_blocks: u64,
}

/// Where a unit lies that is whole, and its header.
#[derive(Clone, Copy)]
struct Place {
    at: u64,
    header: Header,
}

impl<'a> Log<'a> {
    fn load(store: &'a dyn BlockStore, map: &LogMap, volume_blocks: u64) -> Result<Self> {
        let sb = load_superblock(store, map)?;
        let ring = Ring::new(map.clone(), &sb, RING_MAX / map.block_size() as u64);
        Ok(Self { store, seed: csum::uuid_seed(sb.uuid()), ring, sb, volume_blocks })
    }

    /// The position of the oldest unit; None if there is none.
    fn start(&self) -> Result<Option<u64>> {
        let Some(start) = self.sb.start().map(|block| self.ring.position(block)) else { return Ok(None) };
        if start < self.ring.blocks() {
            return Ok(Some(start));
        }
        let what = format!("the log starts outside of its {} blocks", self.ring.blocks());
        Err(Corrupt { structure: "journal superblock".into(), block: self.ring.map().physical(0)?, what }.into())
    }

    /// The header at the beginning of a block, if it is one of a unit.
    fn header(&self, block: &[u8]) -> Option<Header> {
        Header::parse(block.get(..HEADER)?, self.ring.bytes())
    }

    /// Fills in bytes of the unit at position `at`.
    fn source(&self, at: u64) -> impl FnMut(usize, &mut [u8]) -> Result<()> + '_ {
        move |offset, into| self.ring.read(self.store, at, offset as u64, into)
    }

    /// Whether all bytes of a unit are there.
    fn is_whole(&self, unit: &Place) -> Result<bool> {
        unit.header.is_whole(self.seed, self.source(unit.at))
    }

    /// The unit number `sequence`, if it lies whole at a position of the ring.
    fn find(&self, at: u64, sequence: u64) -> Result<Option<Place>> {
        let mut head = [0; HEADER];
        self.ring.read(self.store, at, 0, &mut head)?;
        let header = self.header(&head).filter(|header| header.sequence == sequence);
        let Some(unit) = header.map(|header| Place { at, header }) else { return Ok(None) };
        let whole = self.is_whole(&unit)?;
        Ok(whole.then_some(unit))
    }

    /// Reads a whole unit with `read`, to its end unless that says that it has seen enough.
    ///
    /// # Errors
    /// It makes no sense.
    fn read<T>(
        &self,
        unit: &Place,
        read: impl FnOnce(&mut Reader<'_>) -> std::result::Result<ControlFlow<T, T>, Failed<JournalError>>,
    ) -> Result<T> {
        let source: Source<'_> = Box::new(self.source(unit.at));
        let all = Unit::open(&unit.header, self.ring.block_size(), source).and_then(|mut contents| {
            match read(&mut contents)? {
                ControlFlow::Continue(made) => contents.finish().map(|()| made),
                ControlFlow::Break(made) => Ok(made),
            }
        });
        all.map_err(|failed| match failed {
            Failed::Source(e) => e,
            Failed::Broken(e) => corrupt(self.ring.named(unit.at), &e),
        })
    }

    /// Whether the runs that a unit names have arrived at home.
    fn has_arrived(&self, unit: &Place) -> Result<bool> {
        let size = self.ring.block_size() as u64;
        // Runs do not overlap: more than the medium has is made up, and is not looked for.
        let mut left = self.store.size() / size;
        self.read(unit, |contents| {
            while let Some(run) = contents.next_staged()? {
                let Some(rest) = left.checked_sub(u64::from(run.blocks)) else { return Ok(ControlFlow::Break(false)) };
                left = rest;
                if !self.run_has_arrived(&run).map_err(Failed::Source)? {
                    return Ok(ControlFlow::Break(false));
                }
            }
            Ok(ControlFlow::Break(true))
        })
    }

    fn run_has_arrived(&self, run: &StagedRun) -> Result<bool> {
        let size = self.ring.block_size() as u64;
        let mut block = vec![0; self.ring.block_size()];
        let mut sum = self.seed;
        for i in 0..u64::from(run.blocks) {
            let at = run.start.checked_add(i).and_then(|block| block.checked_mul(size));
            let Some(at) = at.filter(|at| at.saturating_add(size) <= self.store.size()) else { return Ok(false) };
            self.store.read(at, &mut block)?;
            sum = crc32c(sum, &block);
        }
        Ok(sum == run.checksum)
    }

    /// Follows the log from position `start` as far as its units are whole, but not further than `most` units.
    fn scan(&self, start: u64, most: u64) -> Result<Found> {
        let next = next_sequence(&self.sb)?;
        let mut found = Found { units: Vec::new(), next, end: start, newest: HashMap::default(), revoked: 0 };
        let known = self.sb.extension().durable;
        let mut used = 0;
        let mut whole = if most > 0 { self.find(start, next)? } else { None };
        while let Some(unit) = whole {
            let blocks = unit.header.size.div_ceil(self.ring.block_size()) as u64;
            used += blocks;
            let after = self.ring.after(unit.at, blocks);
            let is_last = found.units.len() as u64 + 1 >= most;
            let following = match used < self.ring.blocks() {
                // What is not asked for is no part of what has to be readable.
                true if is_last => self.find(after, found.next + 1).unwrap_or(None),
                true => self.find(after, found.next + 1)?,
                false => None,
            };
            // A unit that another follows was durable, runs and all; since then, they may have been written again.
            let sure = following.is_some() || found.next <= known;
            if !sure && !self.has_arrived(&unit)? {
                break;
            }
            self.take(&mut found, &unit)?;
            (found.next, found.end) = (found.next + 1, after);
            whole = following.filter(|_| !is_last);
        }
        Ok(found)
    }

    /// Takes in the next whole unit.
    fn take(&self, found: &mut Found, unit: &Place) -> Result<()> {
        let index = found.units.len() as u32;
        let most = self.ring.blocks() * IMAGES_PER_BLOCK;
        self.read(unit, |contents| {
            if contents.revokes() as u64 > most {
                return Err(Failed::Source(self.too_many("revokes", unit.at, most)));
            }
            // Revokes of this unit concern older images; its own are newer than they are.
            while let Some(block) = contents.next_revoked()? {
                found.revoked += u64::from(found.newest.remove(&block).is_some());
            }
            for (&block, image) in contents.blocks().iter().zip(0..) {
                self.may_be_home(block).map_err(Failed::Source)?;
                found.newest.insert(block, Newest { unit: index, image });
                if found.newest.len() as u64 > most {
                    return Err(Failed::Source(self.too_many("images", unit.at, most)));
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        found.units.push(unit.at);
        Ok(())
    }

    fn may_be_home(&self, block: u64) -> Result<()> {
        if block < self.volume_blocks && !self.ring.map().contains(block) {
            return Ok(());
        }
        let what = "the volume has no such block to be journaled".to_owned();
        Err(Corrupt { structure: format!("journal image of block {block}"), block, what }.into())
    }

    fn too_many(&self, of: &str, at: u64, most: u64) -> JournalError {
        let what = format!("the log has {of} of more than {most} blocks");
        Corrupt { structure: "journal".into(), block: self.ring.named(at), what }.into()
    }

    /// A log ends where a unit is not whole, and after a crash that is right. But if that unit, or a later one, is
    /// known to have been durable, it was whole once and has been damaged.
    fn refuse_damage(&self, found: &Found, start: u64) -> Result<()> {
        let mut durable = self.sb.extension().durable;
        // Units do not overlap, so all of them together are not longer than the ring; headers that say otherwise are
        // made up.
        let mut left = self.ring.bytes();
        let behind = match self.ring.distance(found.end, start) {
            0 => self.ring.blocks(),
            blocks => blocks,
        };
        self.ring.search(self.store, found.end, behind, |before, block| {
            if let Some(header) = self.header(block)
                && (found.next + 1..=found.next + self.ring.blocks()).contains(&header.sequence)
                && header.durable > durable
                && header.size as u64 <= left
            {
                left -= header.size as u64;
                if self.is_whole(&Place { at: self.ring.after(found.end, before), header })? {
                    durable = header.durable;
                }
            }
            Ok(None::<()>)
        })?;
        if durable < found.next {
            return Ok(());
        }
        let structure = format!("journal unit {}", found.next);
        let what = format!("it is not whole, and unit {durable} was durable");
        Err(Corrupt { structure, block: self.ring.named(found.end), what }.into())
    }

    /// The number of the newest unit behind the whole ones that is whole or known to have been, or that of the first
    /// behind them.
    fn newest(&self, found: &Found) -> Result<u64> {
        let mut newest = found.next.max(self.sb.extension().durable.min(found.next + self.ring.blocks()));
        let mut left = self.ring.bytes();
        self.ring.search(self.store, found.end, self.ring.blocks(), |before, block| {
            if let Some(header) = self.header(block)
                && (newest + 1..=found.next + self.ring.blocks()).contains(&header.sequence)
                && header.size as u64 <= left
            {
                left -= header.size as u64;
                if self.is_whole(&Place { at: self.ring.after(found.end, before), header })? {
                    newest = header.sequence;
                }
            }
            Ok(None::<()>)
        })?;
        Ok(newest)
    }

    /// Writes the newest images home.
    fn replay(&self, found: &Found) -> Result<Recovered> {
        for ((index, &at), sequence) in (0..).zip(&found.units).zip(next_sequence(&self.sb)?..) {
            let Some(unit) = self.find(at, sequence)? else { return Err(self.lost(at)) };
            self.read(&unit, |contents| self.write_newest(contents, index, found).map(ControlFlow::Continue))?;
        }
        let (transactions, blocks) = (found.units.len() as u64, found.newest.len() as u64);
        Ok(Recovered { transactions, blocks, revoked: found.revoked })
    }

    /// Writes those images of the unit of this index home that are the newest, some at a time.
    fn write_newest(
        &self,
        contents: &mut Reader<'_>,
        index: u32,
        found: &Found,
    ) -> std::result::Result<(), Failed<JournalError>> {
        let size = self.ring.block_size();
        let mut images: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut image = vec![0; size];
        let mut number = 0;
        loop {
            let home = contents.next_image(&mut image)?;
            if images.len() * size >= BATCH || home.is_none() {
                images.sort_unstable_by_key(|(block, _)| *block);
                write_runs(self.store, size, &images).map_err(Failed::Source)?;
                images.clear();
            }
            let Some(home) = home else { return Ok(()) };
            if found.newest.get(&home).is_some_and(|newest| (newest.unit, newest.image) == (index, number)) {
                images.push((home, image.clone()));
            }
            number += 1;
        }
    }

    fn lost(&self, at: u64) -> JournalError {
        let what = "a unit that was read before is not there any more".to_owned();
        Corrupt { structure: "journal".into(), block: self.ring.named(at), what }.into()
    }

    /// Declares the log empty, and a journal that anybody can use; the next unit has number `next`.
    fn empty(&self, next: u64) -> Result<()> {
        let mut sb = self.sb.clone();
        sb.set_start(None, next as u32);
        sb.set_incompat(sb.incompat().difference(JournalIncompat::COMPRESSED));
        sb.set_extension(&Extension { sequence: next, durable: 0, ..sb.extension() });
        let map = self.ring.map();
        self.store.write(map.physical(0)? * map.block_size() as u64, &sb.encode())?;
        Ok(self.store.flush()?)
    }
}

/// Where the bytes of a unit come from.
type Source<'a> = Box<dyn FnMut(usize, &mut [u8]) -> Result<()> + 'a>;

/// A unit that is being read.
type Reader<'a> = Unit<Source<'a>>;
