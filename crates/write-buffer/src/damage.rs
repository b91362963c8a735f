//! What the areas hold, record by record, and what of it cannot be.
//!
//! A record that fails its checksum may be a write that a crash cut, which was never acknowledged. It is certainly
//! damage if
//!
//! - a whole record of the same shard of the file, or a whole *length* or *removed* of the file, has a higher sequence
//!   (one operation has one fence, so the earlier one was durable), and such records do not cover the bytes of the
//!   damaged one;
//! - it is a fragment, and behind it in the same block and life stands a readable one that begins an operation (part
//!   0), or readable ones of two different operations;
//! - it is a fragment, and the block's successor says that the block was filled further;
//! - the words or the identity of a slot are bad, or a whole record names a file that does not exist.
//!
//! It cannot be told from a crash in the newest operation on a file, in the newest fragment of each open block, and in
//! a line of the inode table that held a block record. A line that fails its checksum is counted, and its block is
//! searched for fragments.

use crate::area::Area;
use crate::format::{BLOCK_BYTES, BlockLine, FILE_BYTES, FragmentKind, LINE, Owner, SlotState, is_data};
use crate::home::Identity;
use crate::scan;
use crate::{BufferError, Damage, Result};
use ondol_medium::NvmError;
use std::collections::{BTreeMap, BTreeSet};

/// A record that is not synced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) sequence: u64,
    pub(crate) what: What,
    pub(crate) is_whole: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    Bytes { lbn: u64, start: u32, len: u32, block: u32, at: u32 },
    Length(u64),
    Removed,
}

/// A file with records that are not synced.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) identity: Identity,
    pub(crate) records: Vec<Record>,
}

/// What the areas hold.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub(crate) files: Vec<Found>,
    pub(crate) damage: Vec<Damage>,
    pub(crate) unreadable_lines: u64,
    /// Both tables are as after a reset.
    pub(crate) is_untouched: bool,
}

/// A slot of the volume table.
enum Slot {
    /// No record up to this incarnation counts.
    Dead(u32),
    Live {
        incarnation: u32,
        synced: u64,
        identity: Identity,
    },
    Bad {
        incarnation: Option<u32>,
        what: &'static str,
    },
}

/// Reads everything, and believes nothing.
pub(crate) fn find(area: &Area) -> Result<Contents> {
    let mut contents = Contents { is_untouched: true, ..Contents::default() };
    let mut slots = Vec::new();
    for slot in 0..area.header.files {
        slots.push(read_slot(area, slot, &mut contents.is_untouched)?);
    }
    let mut records: Vec<(Owner, u32, Record)> = Vec::new();
    let lines: Vec<Option<BlockLine>> =
        (0..area.header.blocks).map(|block| read_line(area, block)).collect::<Result<_>>()?;
    let befores = lines.iter().filter_map(|line| match line {
        Some(BlockLine::Fragments { before, .. }) => before.map(|b| ((b.block, b.life), b.fill)),
        _ => None,
    });
    let filled: BTreeMap<(u32, u32), u32> = befores.collect();
    for (block, line) in (0..).zip(&lines) {
        records.extend(read_block(area, block, line.as_ref(), &filled, &mut contents)?);
    }
    let mut by_slot: BTreeMap<u32, Vec<Record>> = BTreeMap::new();
    let mut bad = BTreeSet::new();
    for (owner, block, record) in records {
        let Owner { slot, incarnation } = owner;
        let unknown = Damage::Owner { block, slot, incarnation };
        match slots.get(slot as usize) {
            Some(Slot::Dead(last)) if incarnation <= *last => {}
            Some(Slot::Live { incarnation: live, synced, .. }) if incarnation <= *live => {
                if incarnation == *live && record.sequence > *synced {
                    by_slot.entry(slot).or_default().push(record);
                }
            }
            // With an incarnation that can be read, older ones are known to be dead.
            Some(Slot::Bad { incarnation: Some(live), .. }) if incarnation < *live => {}
            Some(Slot::Bad { what, .. }) => {
                if bad.insert(slot) {
                    contents.damage.push(Damage::Slot { slot, what });
                }
            }
            _ => contents.damage.push(unknown),
        }
    }
    for (slot, records) in by_slot {
        if let Some(Slot::Live { identity, .. }) = slots.get(slot as usize) {
            contents.files.push(Found { identity: identity.clone(), records });
        }
    }
    Ok(contents)
}

fn read_slot(area: &Area, slot: u32, is_untouched: &mut bool) -> Result<Slot> {
    let mut bytes = [0; FILE_BYTES as usize];
    if !area.read_lines(area.slot_at(slot), &mut bytes)? {
        *is_untouched = false;
        return Ok(Slot::Bad { incarnation: None, what: "a line of it is lost" });
    }
    *is_untouched &= bytes.iter().all(|b| *b == 0);
    let (words, name) = bytes.split_at(LINE as usize);
    let word = |at: usize| words[at..at + 8].iter().rev().fold(0u64, |word, b| word << 8 | u64::from(*b));
    let incarnation = match area.seal.read_state(slot, word(0)) {
        None => return Ok(Slot::Bad { incarnation: None, what: "its state word" }),
        Some(SlotState::Unused) => return Ok(Slot::Dead(0)),
        Some(SlotState::Dead(incarnation)) => return Ok(Slot::Dead(incarnation)),
        Some(SlotState::Live(incarnation)) => incarnation,
    };
    let bad = |what| Ok(Slot::Bad { incarnation: Some(incarnation), what });
    let Some(synced) = area.seal.read_synced(Owner { slot, incarnation }, word(8)) else {
        return bad("its synced word");
    };
    let name = name.try_into().ok().and_then(|name| area.seal.decode_name(slot, name));
    match name {
        Some((of, identity)) if of == incarnation => Ok(Slot::Live { incarnation, synced, identity }),
        Some(_) => bad("its incarnation"),
        None => bad("its identity"),
    }
}

/// A line of the inode table, if it can be read.
fn read_line(area: &Area, block: u32) -> Result<Option<BlockLine>> {
    let mut line = [0; BLOCK_BYTES as usize];
    match area.nvm().read(area.line_at(block), &mut line) {
        Ok(()) => Ok(area.seal.decode_line(block, &line, area.header.block_size)),
        Err(NvmError::Poisoned { .. }) => Ok(None),
        Err(e) => Err(BufferError::Nvm(e)),
    }
}

/// The records of a block. `filled` says of blocks and lives how far they were filled at least.
fn read_block(
    area: &Area,
    block: u32,
    line: Option<&BlockLine>,
    filled: &BTreeMap<(u32, u32), u32>,
    contents: &mut Contents,
) -> Result<Vec<(Owner, u32, Record)>> {
    if line == Some(&BlockLine::Free) {
        return Ok(Vec::new());
    }
    contents.is_untouched = false;
    contents.unreadable_lines += u64::from(line.is_none());
    let mut bytes = vec![0; area.block_size() as usize];
    area.read_lines(area.block_at(block), &mut bytes)?;
    let life = match line {
        Some(BlockLine::Record(r)) => {
            let data = &bytes[r.start as usize..(r.start + r.len) as usize];
            let what = What::Bytes { lbn: r.lbn, start: r.start, len: r.len, block, at: r.start };
            let record = Record { sequence: r.sequence, what, is_whole: is_data(data, r.data) };
            return Ok(vec![(r.owner, block, record)]);
        }
        Some(BlockLine::Fragments { life, .. }) => Some((*life, filled.get(&(block, *life)).copied().unwrap_or(0))),
        _ => None,
    };
    let scan = scan::fragments(area, block, &bytes, life);
    contents.damage.extend(scan.lost.iter().map(|at| Damage::Fragments { block, at: *at }));
    let mut records = Vec::new();
    for found in scan.found {
        let f = found.fragment;
        let what = match f.kind {
            FragmentKind::Bytes => {
                let (lbn, start) = (f.offset / area.block_size(), (f.offset % area.block_size()) as u32);
                What::Bytes { lbn, start, len: f.len, block, at: found.payload_at }
            }
            FragmentKind::Length => What::Length(f.offset),
            FragmentKind::Removed => What::Removed,
        };
        records.push((f.owner, block, Record { sequence: f.sequence, what, is_whole: found.is_whole }));
    }
    Ok(records)
}
