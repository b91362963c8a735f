//! The write stage: into NVM, durably, then into the tree (papers/2, §3.1); truncate and remove are records, too.
//!
//! A piece of more than a quarter of a block has a block of its own, copied before anything is locked; smaller pieces
//! go into the thread's open fragment block, of which there are at most 16. A write to several stripes of the file,
//! each of at most 64 blocks and a quarter of the buffer, is several operations, each with a sequence of its own.

use crate::file::FileState;
use crate::format::{BlockLine, BlockRecord, FragmentKind, LINE, Owner, SEQUENCE_LIMIT, data_sum, is_offset};
use crate::fragments::{New, Open, footprint};
use crate::queue::Place;
use crate::shared::Core;
use crate::space::Taken;
use crate::stats::Counters;
use crate::tree::{Life, Segment};
use crate::whole::Control;
use crate::{BufferError, Result};
use ondol_env::sync::Arc;
use ondol_env::sync::atomic::Ordering::SeqCst;
use ondol_medium::Stored;

/// The part of an operation that lies in one LBN.
#[derive(Clone, Debug)]
struct Piece<'d> {
    lbn: u64,
    /// First byte in the LBN.
    start: u32,
    bytes: &'d [u8],
}

/// A piece that was copied to a block of its own.
struct Copied<'p, 'd> {
    piece: &'p Piece<'d>,
    block: u32,
    /// The checksum of its bytes.
    sum: u32,
}

impl Piece<'_> {
    fn segment(&self, block: u32, at: u32, sequence: u64) -> Segment {
        Segment { start: self.start, end: self.start + self.bytes.len() as u32, block, at, sequence }
    }
}

impl Core {
    pub(crate) fn write(&self, file: &Arc<FileState>, offset: u64, data: &[u8]) -> Result<()> {
        let out_of_range = || BufferError::Range { file: file.identity.clone(), offset, len: data.len() as u64 };
        offset.checked_add(data.len() as u64).filter(|end| is_offset(*end)).ok_or_else(out_of_range)?;
        let stripe = self.area.header.stripe() * self.area.block_size();
        let (mut at, mut rest) = (offset, data);
        while !rest.is_empty() {
            let (now, later) = rest.split_at((stripe - at % stripe).min(rest.len() as u64) as usize);
            self.write_in_stripe(file, at, now)?;
            at += now.len() as u64;
            rest = later;
        }
        Counters::add(&self.counters.writes, 1);
        Counters::add(&self.counters.user_bytes, data.len() as u64);
        Ok(())
    }

    /// Small pieces become fragments, others have a block of their own.
    fn cut_up<'d>(&self, offset: u64, data: &'d [u8]) -> (Vec<Piece<'d>>, Vec<Piece<'d>>) {
        let block_size = self.area.block_size();
        let (mut small, mut whole) = (Vec::new(), Vec::new());
        let (mut at, mut rest) = (offset, data);
        while !rest.is_empty() {
            let len = ((block_size - at % block_size) as usize).min(rest.len());
            let (bytes, later) = rest.split_at(len);
            let of = if len as u64 > block_size / 4 { &mut whole } else { &mut small };
            of.push(Piece { lbn: at / block_size, start: (at % block_size) as u32, bytes });
            (at, rest) = (at + len as u64, later);
        }
        (small, whole)
    }

    /// One operation: one sequence, one fence, one shard, which is locked until the bytes are durable and in the tree.
    fn write_in_stripe(&self, file: &Arc<FileState>, offset: u64, data: &[u8]) -> Result<()> {
        let (small, whole) = self.cut_up(offset, data);
        let need: u64 = small.iter().map(|piece| footprint(piece.bytes.len() as u64)).sum();
        // All blocks at once: nobody waits for a block while holding one.
        let mut taken = match whole.len() {
            0 => None,
            count => Some(self.obtain(count + usize::from(need > 0))?),
        };
        let mut open = match need {
            0 => None,
            need => Some(self.open_with_room(need, taken.as_mut())?),
        };
        let mut batch = self.area.nvm().stored();
        let blocks: Vec<u32> = taken.as_ref().map(|t| t.blocks()[..whole.len()].to_vec()).unwrap_or_default();
        let copied = self.copy_whole(&mut batch, &whole, &blocks)?;

        let mut gone = Vec::new();
        let mut tree = file.shard(offset / self.area.block_size()).write();
        file.check(tree.life)?;
        let sequence = next_sequence(file)?;
        let owner = file.owner;
        let stored = self
            .store_lines(&mut batch, owner, sequence, &copied)
            .and_then(|()| self.append(open.as_deref_mut(), &mut batch, owner, sequence, &small))
            .and_then(|places| self.area.commit(batch).map(|()| places));
        let places = stored.inspect_err(|_| {
            // Nothing may follow what may be torn.
            open.as_deref_mut().into_iter().for_each(|open| open.abandon(&self.space));
        })?;
        {
            let mut whole = file.whole.lock();
            whole.size = whole.size.max(offset + data.len() as u64);
        }
        let whole_places = copied.iter().map(|Copied { piece, block, .. }| (*piece, (*block, piece.start)));
        for (piece, (block, at)) in whole_places.chain(small.iter().zip(places)) {
            self.space.hold(block, piece.bytes.len() as u32);
            let node = tree.put(piece.lbn, piece.segment(block, at, sequence), &mut gone);
            if node.phase.written(sequence) {
                self.push_due(file, Place::Block(piece.lbn));
            }
        }
        taken.iter_mut().for_each(|taken: &mut Taken<'_>| taken.used(blocks.len()));
        drop(tree);
        drop(open);
        self.space.let_go(&gone);
        Counters::add(&self.counters.block_records, whole.len() as u64);
        Counters::add(&self.counters.fragments, small.len() as u64);
        Ok(())
    }

    /// Data of block records, whole lines. Nothing refers to them yet, so no lock is needed.
    fn copy_whole<'p, 'd>(
        &self,
        batch: &mut Stored<'_>,
        whole: &'p [Piece<'d>],
        blocks: &[u32],
    ) -> Result<Vec<Copied<'p, 'd>>> {
        let copy = |(piece, block): (&'p Piece<'d>, &u32)| {
            let at = self.area.block_at(*block) + u64::from(piece.start);
            batch.copy(at, piece.bytes)?;
            Ok(Copied { piece, block: *block, sum: data_sum(piece.bytes) })
        };
        whole.iter().zip(blocks).map(copy).collect()
    }

    fn store_lines(
        &self,
        batch: &mut Stored<'_>,
        owner: Owner,
        sequence: u64,
        copied: &[Copied<'_, '_>],
    ) -> Result<()> {
        for Copied { piece, block, sum } in copied {
            let (lbn, len) = (piece.lbn, piece.bytes.len() as u32);
            let record = BlockRecord { owner, sequence, lbn, start: piece.start, len, data: *sum };
            let line = self.area.seal.encode_line(*block, &BlockLine::Record(record));
            batch.store(self.area.line_at(*block), &line)?;
        }
        Ok(())
    }

    /// Appends small pieces to a fragment block. Returns where they lie, by block and byte.
    fn append(
        &self,
        open: Option<&mut Open>,
        batch: &mut Stored<'_>,
        owner: Owner,
        sequence: u64,
        small: &[Piece<'_>],
    ) -> Result<Vec<(u32, u32)>> {
        let Some(open) = open else { return Ok(Vec::new()) };
        let append = |(part, piece): (_, &Piece<'_>)| {
            let offset = piece.lbn * self.area.block_size() + u64::from(piece.start);
            let new = New { owner, sequence, kind: FragmentKind::Bytes, part, offset, payload: piece.bytes };
            open.append(&self.area, batch, new)
        };
        (0..).zip(small).map(append).collect()
    }

    pub(crate) fn set_len(&self, file: &Arc<FileState>, len: u64) -> Result<()> {
        if !is_offset(len) {
            return Err(BufferError::Range { file: file.identity.clone(), offset: len, len: 0 });
        }
        self.control(file, FragmentKind::Length, len)
    }

    /// Appends a *length* or *removed*, and does in the tree what it says.
    pub(crate) fn control(&self, file: &Arc<FileState>, kind: FragmentKind, len: u64) -> Result<()> {
        let mut open = self.open_with_room(LINE, None)?;
        let mut gone = Vec::new();
        let mut shards = file.lock_all();
        shards.iter().try_for_each(|tree| file.check(tree.life))?;
        if kind == FragmentKind::Length && len == file.whole.lock().size {
            return Ok(());
        }
        let sequence = next_sequence(file)?;
        let mut batch = self.area.nvm().stored();
        let new = New { owner: file.owner, sequence, kind, part: 0, offset: len, payload: &[] };
        let stored = open.append(&self.area, &mut batch, new);
        let (block, _) = match stored.and_then(|place| self.area.commit(batch).map(|()| place)) {
            Ok(place) => place,
            Err(e) => {
                open.abandon(&self.space);
                return Err(e);
            }
        };
        self.space.hold(block, 1);
        let mut whole = file.whole.lock();
        whole.controls.push(Control { sequence, block });
        whole.set_len(len);
        shards.iter_mut().for_each(|tree| tree.cut(len, &mut gone));
        match kind {
            FragmentKind::Removed => shards.iter_mut().for_each(|tree| tree.life = Life::Removed),
            _ if whole.length.written(sequence) => self.push_due(file, Place::Length),
            _ => {}
        }
        drop(whole);
        drop(shards);
        drop(open);
        self.space.let_go(&gone);
        Ok(())
    }
}

/// Counts an operation, also one that will fail: parts of it may be in NVM.
fn next_sequence(file: &FileState) -> Result<u64> {
    let sequence = file.last.fetch_add(1, SeqCst) + 1;
    if sequence < SEQUENCE_LIMIT { Ok(sequence) } else { Err(BufferError::Spent) }
}
