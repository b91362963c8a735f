//! Rules of a log on media that are written and flushed.
//!
//! - *freed*: no replay of a durable log, or of a beginning of it, writes a block that is free once it is done.
//! - *over*: what is written to a block that a replay would write is an image of a durable transaction.
//! - *before*: what is written to a bitmap, a table of inodes or of descriptors is an image of a durable transaction;
//!   with a log of jbd2 also what is written to any block of which that has had an image since it was empty.
//! - *late*: no image is written in place once the durable log has its block free; where there are several threads, a
//!   checkpoint that is under way may end.
//! - *tail*: the tail passes no image that is not home, durably, unless a later durable transaction has the block.
//! - *room*: no block of the log is written over that the durable tail has not passed.
//! - *staged*: the newest durable unit has no sum of a block that is free, and no block that it has the sum of is
//!   written with other contents before another unit is durable.
//! - *commit*: a commit block is not durable before its transaction is.

use super::Volume;
use super::read::{Head, Image, Reader, Transaction};
use crate::log::Log;
use ondol_format::bitmap;
use ondol_format::group::{BLOCK_UNINIT, DescCsum, GroupDesc};
use ondol_power::{Cut, Event, Medium};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Judges the log of a volume at each event of a run.
///
/// # Errors
/// The rule that is broken, and by what.
pub(super) fn judge(log: &Log, media: &[Medium], events: &[Event], is_alone: bool) -> Result<(), String> {
    let Some(volume) = Volume::of(&media[0].base) else { return Ok(()) };
    let mut judge = BlockJudge { is_alone, ..BlockJudge::new(log, media, volume) };
    // What the log holds when the recording begins.
    judge.follow_head()?;
    events.iter().enumerate().try_for_each(|(n, event)| judge.event(event).map_err(|what| super::at(n, &what)))
}

/// What a replay would write: of each block the number of the transaction, and its image.
type Replay = BTreeMap<u64, (u32, Image)>;

struct BlockJudge<'l> {
    reader: Reader<'l>,
    /// Which medium the log lies on, and the slot of each of its blocks.
    medium: usize,
    slots: HashMap<u64, u64>,
    volume: Volume,
    /// Nothing else goes on while something is written.
    is_alone: bool,
    cut: Cut<'l>,
    /// The durable log, as far as it counts.
    head: Option<Head>,
    transactions: Vec<Transaction>,
    replay: Replay,
    /// All images of durable transactions so far.
    images: HashMap<u64, HashSet<u64>>,
    /// Blocks that a log of jbd2 has had images of since it was empty, and that were neither revoked nor freed since.
    journaled: HashSet<u64>,
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

impl<'l> BlockJudge<'l> {
    fn new(log: &'l Log, media: &'l [Medium], volume: Volume) -> Self {
        let reader = Reader { slots: &log.slots, block_size: volume.sb.block_size() as usize };
        Self {
            medium: log.medium,
            slots: log.slots.iter().copied().collect(),
            cut: Cut::new(media),
            head: reader.head(&media[log.medium].base),
            reader,
            volume,
            is_alone: true,
            transactions: Vec::new(),
            replay: Replay::new(),
            images: HashMap::new(),
            journaled: HashSet::new(),
        }
    }

    fn event(&mut self, event: &'l Event) -> Result<(), String> {
        if let Event::Write { medium, offset, bytes } | Event::WriteFailed { medium, offset, bytes } = event {
            self.written(*medium as usize, *offset, bytes)?;
        }
        self.cut.advance(event);
        if let Event::Flush { .. } = event {
            self.follow_tail();
            self.follow_head()?;
        }
        Ok(())
    }

    fn written(&self, medium: usize, offset: u64, bytes: &[u8]) -> Result<(), String> {
        let size = self.reader.block_size as u64;
        let whole = offset.div_ceil(size)..(offset + bytes.len() as u64) / size;
        for block in offset / size..(offset + bytes.len() as u64).div_ceil(size) {
            let slot = if medium == self.medium { self.slots.get(&block) } else { None };
            match slot {
                Some(slot) => self.written_to_log(*slot, bytes, offset, block)?,
                None if medium == 0 && whole.contains(&block) => {
                    let at = (block * size - offset) as usize;
                    self.written_home(block, &bytes[at..at + size as usize])?;
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Transactions that the durable tail has passed count no more.
    fn follow_tail(&mut self) {
        let Some(head) = self.reader.head(&self.cut.durable()[self.medium]) else { return };
        let (is_empty, sequence) = (head.superblock.start().is_none(), head.superblock.sequence());
        if is_empty {
            // Nothing is replayed any more: what had been journaled may be written in place, as by the next mount.
            self.journaled.clear();
        }
        let before = self.transactions.len();
        self.transactions.retain(|tx| !is_empty && (tx.sequence.wrapping_sub(sequence) as i32) >= 0);
        if self.transactions.len() < before {
            self.replay = replay_of(self.transactions.iter());
        }
        self.head = Some(head);
    }

    /// Transactions that have become durable.
    fn follow_head(&mut self) -> Result<(), String> {
        while let Some(head) = &self.head
            && let Some(start) = head.start()
        {
            let (position, sequence) = match self.transactions.last() {
                Some(last) => ((last.place.0 + last.place.1) % head.ring.max(1), last.sequence.wrapping_add(1)),
                None => (start, head.superblock.sequence()),
            };
            let taken: u64 = self.transactions.iter().map(|tx| tx.place.1).sum();
            let (log, home) = (&self.cut.durable()[self.medium], &self.cut.durable()[0]);
            let found =
                if taken < head.ring { self.reader.transaction(log, home, head, position, sequence)? } else { None };
            let Some(tx) = found else { return Ok(()) };
            for (block, image) in &tx.images {
                self.images.entry(*block).or_default().insert(hash(image));
            }
            apply(&mut self.replay, &tx);
            // A compressed log has images of file data, which may be written in place later.
            if tx.revokes_own {
                self.journaled.extend(tx.images.iter().map(|(block, _)| block));
                self.journaled.retain(|block| !tx.revoked.contains(block));
            }
            self.transactions.push(tx);
            self.judge_freed()?;
        }
        Ok(())
    }

    /// A block as a replay would leave it.
    fn replayed(&self, block: u64) -> Image {
        self.replay.get(&block).map_or_else(|| self.stored(block), |(_, image)| image.clone())
    }

    /// A block as it is at home, durably.
    fn stored(&self, block: u64) -> Image {
        let mut bytes = vec![0; self.reader.block_size];
        self.cut.durable()[0].read(block as usize * bytes.len(), &mut bytes);
        bytes.into()
    }

    /// The bitmap of blocks of a group after a replay, if it has one.
    fn bitmap(&self, g: u32) -> Option<Image> {
        let sb = &self.volume.sb;
        let (block, offset) = sb.gdt().location(g);
        let table = self.replayed(block);
        let desc = GroupDesc::parse(table.get(offset..offset + usize::from(sb.gdt().desc_size()))?).ok()?;
        let unwritten = desc.flags & BLOCK_UNINIT != 0 && DescCsum::of(sb) != DescCsum::None;
        (!unwritten).then(|| self.replayed(desc.block_bitmap))
    }

    /// Whether a block is free after a replay. Bitmaps are kept for the next one.
    fn is_free(&self, block: u64, bitmaps: &mut HashMap<u32, Option<Image>>) -> bool {
        let sb = &self.volume.sb;
        let Some(at) = block.checked_sub(u64::from(sb.first_data_block())) else { return false };
        let g = (at / u64::from(sb.blocks_per_group())) as u32;
        let bit = at % u64::from(sb.blocks_per_group()) / u64::from(sb.cluster_ratio());
        let bitmap = bitmaps.entry(g).or_insert_with(|| self.bitmap(g));
        bitmap.as_ref().is_some_and(|bitmap| !bitmap::test(bitmap, bit as usize))
    }

    fn judge_freed(&mut self) -> Result<(), String> {
        let mut bitmaps = HashMap::new();
        let mut is_free = |block: u64| self.is_free(block, &mut bitmaps);
        if let Some((block, (sequence, _))) = self.replay.iter().find(|(block, _)| is_free(**block)) {
            let last = self.transactions.last().map_or(0, |tx| tx.sequence);
            return Err(format!(
                "freed: block {block} is free after transaction {last}, and a replay writes its image of transaction \
                 {sequence}"
            ));
        }
        let newest = self.transactions.last();
        if let Some((tx, block)) = newest.and_then(|tx| Some((tx, tx.staged.iter().find(|block| is_free(**block))?))) {
            return Err(format!("staged: block {block} is free after unit {}, which has its sum", tx.sequence));
        }
        let freed: HashSet<u64> = self.journaled.iter().copied().filter(|block| is_free(*block)).collect();
        self.journaled.retain(|block| !freed.contains(block));
        Ok(())
    }

    fn written_home(&self, block: u64, bytes: &[u8]) -> Result<(), String> {
        if block == self.volume.sb.superblock_location().0 {
            return Ok(());
        }
        let is_image = |block| self.images.get(&block).is_some_and(|images| images.contains(&hash(bytes)));
        let over = self.replay.get(&block).filter(|(_, image)| **image != *bytes);
        let of_log = self.journaled.contains(&block).then_some("which transactions have written");
        let table = self.volume.table(block).or(of_log);
        let is_filled = bytes.iter().all(|byte| *byte == bytes[0]);
        if self.is_alone && is_image(block) && over.is_none() && !is_filled && self.is_free(block, &mut HashMap::new())
        {
            return Err(format!(
                "late: block {block} is free in the durable log, and an image of it is written in place"
            ));
        }
        let is_stored = *self.stored(block) == *bytes;
        if let Some(tx) = self.transactions.last().filter(|tx| !is_stored && tx.staged.contains(&block)) {
            return Err(format!(
                "staged: block {block} is written, and the newest durable unit, {}, has the sum of what it held",
                tx.sequence
            ));
        }
        if is_image(block) || is_stored {
            return Ok(());
        }
        match (over, table) {
            (_, Some(what)) => Err(format!(
                "before: block {block}, {what}, is written in place, and no durable transaction has that image"
            )),
            (Some((sequence, _)), None) => Err(format!(
                "over: block {block} is written, and a replay would write its image of transaction {sequence} over that"
            )),
            (None, None) => Ok(()),
        }
    }

    fn written_to_log(&self, slot: u64, bytes: &[u8], offset: u64, block: u64) -> Result<(), String> {
        let Some(head) = &self.head else { return Ok(()) };
        if slot == 0 {
            let at = (block * self.reader.block_size as u64).checked_sub(offset);
            let new = at.and_then(|at| self.reader.parse(bytes.get(at as usize..)?));
            return new.map_or(Ok(()), |new| self.judge_tail(&new));
        }
        let first = u64::from(head.superblock.first());
        let Some(position) = slot.checked_sub(first).filter(|position| *position < head.ring) else { return Ok(()) };
        let holds = |tx: &&Transaction| (position + head.ring - tx.place.0) % head.ring < tx.place.1;
        match self.transactions.iter().find(holds) {
            Some(tx) => Err(format!(
                "room: block {slot} of the log is written over, and the durable tail has not passed transaction {} \
                 there",
                tx.sequence
            )),
            None => Ok(()),
        }
    }

    fn judge_tail(&self, new: &Head) -> Result<(), String> {
        let (is_empty, sequence) = (new.superblock.start().is_none(), new.superblock.sequence());
        let passes = |tx: &&Transaction| is_empty || (tx.sequence.wrapping_sub(sequence) as i32) < 0;
        let (passed, left): (Vec<_>, Vec<_>) = self.transactions.iter().partition(|tx| passes(tx));
        for (block, (sequence, image)) in replay_of(passed.into_iter()) {
            let is_later =
                |tx: &&Transaction| tx.images.iter().any(|(other, _)| *other == block) || tx.revoked.contains(&block);
            if *self.stored(block) == *image
                || left.iter().any(is_later)
                || block == self.volume.sb.superblock_location().0
            {
                continue;
            }
            return Err(format!(
                "tail: it passes transaction {sequence}, whose image of block {block} is not home, durably"
            ));
        }
        Ok(())
    }
}

/// What a replay of these, in their order, writes.
fn replay_of<'t>(transactions: impl Iterator<Item = &'t Transaction>) -> Replay {
    transactions.fold(Replay::new(), |mut replay, tx| {
        apply(&mut replay, tx);
        replay
    })
}

fn apply(replay: &mut Replay, tx: &Transaction) {
    let revoke = |replay: &mut Replay| tx.revoked.iter().for_each(|block| drop(replay.remove(block)));
    if !tx.revokes_own {
        revoke(replay);
    }
    replay.extend(tx.images.iter().map(|(block, image)| (*block, (tx.sequence, image.clone()))));
    if tx.revokes_own {
        revoke(replay);
    }
}
