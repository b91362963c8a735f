//! Batches: what is written at several places of one file, or of several, is made in one operation: what a
//! transaction of a database changes, and what a map that is stored to commits (papers/4, §2.3). Design:
//! `docs/design/direct.md`.
//!
//! ```text
//!   few bytes, or several files   one operation over all files, its bytes in the journal, whatever the data mode
//!   many, of one file             a file without a name takes whole units, in as many operations as that is
//!                                   ──▶  one exchange, and the new size with it
//! ```

use super::batch::Batch;
use super::data;
use super::exchange::check_exchangeable;
use super::plan::{Write, check_changeable, max_size, plan_write};
use super::truncate::{do_set_size, set_size_cost};
use super::write::{Times, do_write};
use crate::alloc::Need;
use crate::dir::lock::in_order;
use crate::node::{Node, NodeGuard};
use crate::op::{Cost, Op};
use crate::{Error, FileRanges, Ino, Result};
use ondol_journal::Bytes;
use std::ops::Range;

/// What is to be done: the bytes lie elsewhere.
type Lent<'b> = Batch<&'b [u8]>;

/// Most bytes that are put together before they are written to the file without a name.
const RUN: u64 = 1 << 20;

/// Fewest bytes that are not put together with others.
const WHOLE: u64 = 1 << 16;

impl FileRanges<'_> {
    /// Reads a file as it would be with a batch of its changes, as [`crate::FileIo::read`].
    ///
    /// # Errors
    /// As [`crate::FileIo::read`].
    pub fn read_with(self, batch: &Batch, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let behind = offset.saturating_add(buf.len() as u64);
        if let Some(bytes) = batch.part_from(offset).get(..buf.len()).filter(|_| offset < behind) {
            buf.copy_from_slice(bytes);
            return Ok(buf.len());
        }
        if batch.is_empty() {
            return self.vol.files().read(batch.ino(), offset, buf);
        }
        let stored = self.vol.getattr(batch.ino())?.size;
        let Some(left) = batch.len_over(stored).checked_sub(offset) else { return Ok(0) };
        let n = buf.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let kept = batch.kept_of(stored).saturating_sub(offset).min(n as u64) as usize;
        let got = if kept > 0 { self.vol.files().read(batch.ino(), offset, &mut buf[..kept])? } else { 0 };
        buf[got..n].fill(0);
        batch.lay_over(offset, &mut buf[..n]);
        Ok(n)
    }

    /// The size that a file would have with a batch of its changes.
    ///
    /// # Errors
    /// As [`crate::Volume::getattr`].
    pub fn len_with(self, batch: &Batch) -> Result<u64> {
        Ok(batch.len_over(self.vol.getattr(batch.ino())?.size))
    }

    /// Makes the changes of batches, each of another file: one operation, of which others see all or nothing, and a
    /// crash leaves all or nothing in every data mode. Durable behind the next [`crate::Volume::fsync`] of any of the
    /// files, and with the operations after it.
    ///
    /// Up to [`crate::FileIo::atomic_bytes`], and of several files, the bytes go through the journal, and so does
    /// whatever is written to these files from then on until the volume is closed. More of one file is written to new
    /// blocks, which then change places with the file's: see [`FileRanges::exchange`]. Where there is no space for
    /// these, or the file has too many extents, the journal takes what it can.
    ///
    /// # Errors
    /// `TooBig` for more of several files than the journal takes as one operation, and for more of one file than that
    /// and than one exchange takes; `Shorter` where a batch was to lie [over what a file holds](Batch::over) and does
    /// not; `Invalid` for two batches of one file; and as [`crate::FileIo::write`] and [`crate::FileIo::truncate`].
    /// Nothing has changed then.
    pub fn apply_batches<B: AsRef<[u8]>>(self, batches: &[&Batch<B>]) -> Result<()> {
        let batches: Vec<Lent<'_>> =
            batches.iter().filter(|batch| !batch.is_empty()).map(|batch| batch.lent()).collect();
        if batches.is_empty() {
            return Ok(());
        }
        let mut inos: Vec<Ino> = batches.iter().map(|batch| batch.ino()).collect();
        inos.sort_unstable();
        if inos.windows(2).any(|two| two[0] == two[1]) {
            return Err(Error::Invalid("two batches of one file"));
        }
        let by_exchange = self.try_batches(&batches).map_err(|e| self.vol.noted(e))?;
        self.vol.made.calls.add(1);
        self.vol.made.bytes.add(batches.iter().map(|batch| batch.bytes().cast_signed()).sum());
        self.vol.made.exchanges.add(i64::from(by_exchange));
        Ok(())
    }

    /// Whether it was done by an exchange.
    fn try_batches(self, batches: &[Lent<'_>]) -> Result<bool> {
        let max = u64::from(self.vol.engine.max_blocks());
        let block_size = u64::from(self.vol.shared.sb.block_size());
        let blocks: u64 = batches.iter().map(|batch| blocks_in(block_size, batch)).sum();
        let at_once = || match blocks <= max {
            true => self.batches_at_once(batches).map(|()| false),
            false => Err(Error::TooBig { need: blocks, max }),
        };
        let can_be_exchanged = |ino| {
            let node = self.vol.node(ino)?;
            let state = node.read()?;
            Ok::<_, Error>(check_exchangeable(ino, &state.inode).is_ok())
        };
        let [batch] = batches else { return at_once() };
        if !can_be_exchanged(batch.ino())? {
            return at_once();
        }
        let by_exchange = || self.batch_by_exchange(batch).map(|()| true);
        if blocks * block_size <= self.vol.files().atomic_bytes() {
            match at_once() {
                Err(Error::TooBig { .. }) => by_exchange(),
                done => done,
            }
        } else {
            match by_exchange() {
                Err(why @ (Error::NoSpace(_) | Error::TooBig { .. })) => match at_once() {
                    Err(Error::TooBig { .. }) => Err(why),
                    done => done,
                },
                done => done,
            }
        }
    }

    /// All of it in one operation.
    fn batches_at_once(self, batches: &[Lent<'_>]) -> Result<()> {
        let max = self.vol.engine.max_blocks();
        let inos: Vec<Ino> = batches.iter().map(|batch| batch.ino()).collect();
        let mut wanted: Option<Cost> = None;
        loop {
            let guards = in_order(self.vol, &inos)?.iter().map(Node::write).collect::<Result<Vec<_>>>()?;
            for guard in &guards {
                self.check_batches(guard, batches)?;
                if !data::journaled(self.vol, guard.node.ino, &guard.state.inode) {
                    self.vol.once_journaled.add(guard.node.ino);
                }
            }
            let cost = match wanted {
                Some(cost) => cost,
                None => self.batches_cost(&guards, batches)?,
            };
            let mut op = Op::begin(self.vol, guards, Cost { journal: cost.journal.min(max), ..cost })?;
            match put_batches(&mut op, batches)? {
                None => return op.close().map(drop),
                // More than what was missing, so that few attempts find out how much it is.
                Some(cost) => wanted = Some(Cost { journal: cost.journal.saturating_add(cost.journal / 2), ..cost }),
            }
        }
    }

    /// Refuses what cannot be made.
    fn check_batches(self, guard: &NodeGuard, batches: &[Lent<'_>]) -> Result<()> {
        let (ino, inode) = (guard.node.ino, &guard.state.inode);
        // Whether an append-only file may be written to anywhere was asked when it was opened.
        check_changeable(ino, inode, true)?;
        self.vol.check_writable()?;
        let is_behind = |batch: &Lent<'_>| batch.ino() == ino && batch.is_within() && batch.end() > inode.size;
        if batches.iter().any(is_behind) { Err(Error::Shorter { size: inode.size }) } else { Ok(()) }
    }

    /// About what all parts need of the journal. Parts share blocks, clusters and nodes of the tree, and what is
    /// missing is asked for when it is known.
    fn batches_cost(self, guards: &[NodeGuard], batches: &[Lent<'_>]) -> Result<Cost> {
        let mut all = Cost { journal: 1, blocks: 0, need: Need::Ordinary };
        for batch in batches {
            let guard = guards.iter().find(|guard| guard.node.ino == batch.ino()).ok_or(Error::NotFound)?;
            for (offset, bytes) in batch.parts() {
                let (ino, inode, len) = (guard.node.ino, &guard.state.inode, bytes.len());
                let cost = plan_write(&mut &*self.vol, &Write { ino, inode, offset, len, only_bytes: false })?.cost;
                all.journal = all.journal.saturating_add(cost.journal);
                all.blocks = all.blocks.saturating_add(cost.blocks);
            }
        }
        // Each part was counted with nodes of its own.
        let block_size = u64::from(self.vol.shared.sb.block_size());
        let data = batches.iter().map(|batch| blocks_in(block_size, batch)).sum::<u64>();
        all.journal = all.journal.min(u32::try_from(data).unwrap_or(u32::MAX).saturating_add(BESIDE));
        all.blocks = all.blocks.min(data.saturating_add(u64::from(BESIDE)));
        Ok(all)
    }

    /// By a file without a name that is written first.
    fn batch_by_exchange(self, batch: &Lent<'_>) -> Result<()> {
        let other = self.vol.names().own_tmpfile()?;
        let done = self.exchange_batch(other, batch);
        if let Err(e) = self.vol.inode_ops().release(other) {
            tracing::warn!("inode {other}, which has no name: {e}; the next mount deletes it");
            self.vol.noted(e);
        }
        done
    }

    fn exchange_batch(self, other: Ino, batch: &Lent<'_>) -> Result<()> {
        let guard = self.vol.node(batch.ino())?.write()?;
        self.check_batches(&guard, std::slice::from_ref(batch))?;
        check_exchangeable(batch.ino(), &guard.state.inode)?;
        let guard = self.vol.files().unfold_locked(guard)?;
        let (unit, old) = (u64::from(self.vol.cluster_size()), guard.state.inode.size);
        let (kept, size) = (batch.kept_of(old), batch.len_over(old));
        if size > max_size(self.vol, &guard.state.inode) {
            return Err(Error::FileTooBig);
        }
        let runs = runs_of(batch, unit, old);
        // Nobody else knows this one: out of the order of locks, and still nobody is waited for.
        let mut there = Some(self.vol.node(other)?.write()?);
        let mut buf = Vec::new();
        for (start, end) in &runs {
            let (mut at, end) = (*start, (*end).min(size));
            while at < end {
                let mut bytes = self.units_with(&guard, batch, at..end, &mut buf)?;
                while !bytes.is_empty() {
                    let held = there.take().ok_or(Error::NotFound)?;
                    let (n, held) = self.vol.files().write_step(held, at, bytes, Times::Stamp)?;
                    (at, bytes, there) = (at + n as u64, &bytes[n..], Some(held));
                }
            }
        }
        let units = |bytes: u64| bytes.checked_next_multiple_of(unit).ok_or(Error::FileTooBig);
        let cut = units(kept)?..units(old)?;
        let first = runs.first().map_or(cut.start, |(start, _)| (*start).min(cut.start));
        // With its size, the file keeps what is behind.
        let end = runs.last().map(|(_, end)| *end).filter(|_| size == old && cut.is_empty());
        let end = end.map_or_else(|| units(size.max(old)), Ok)?;
        let guards = there.into_iter().chain([guard]).collect();
        let sides = [self.side(other, first), self.side(batch.ino(), first)];
        self.exchange_resized(guards, sides, end, size, cut)
    }

    /// Some bytes from `from` on, as they are with the batch: those of one part, if these are many, or others in `buf`.
    fn units_with<'b>(
        self,
        guard: &NodeGuard,
        batch: &'b Lent<'_>,
        Range { start: from, end }: Range<u64>,
        buf: &'b mut Vec<u8>,
    ) -> Result<&'b [u8]> {
        let unit = u64::from(self.vol.cluster_size());
        let part = batch.part_from(from);
        let whole = (from + part.len() as u64).min(end);
        let whole = if whole == end { whole } else { whole / unit * unit }.saturating_sub(from);
        if whole >= WHOLE || from + whole == end {
            return Ok(&part[..whole as usize]);
        }
        let inode = &guard.state.inode;
        let next = from + unit;
        // What follows whole is not read to be written over.
        let to = if batch.part_from(next).len() as u64 >= WHOLE { next } else { from + RUN }.min(end);
        buf.clear();
        buf.resize((to - from) as usize, 0);
        if !batch.covers(from, to) {
            let kept = batch.kept_of(inode.size).min(to).saturating_sub(from) as usize;
            self.vol.files().read_at(guard.node.ino, inode, from, &mut buf[..kept])?;
        }
        batch.lay_over(from, buf);
        Ok(buf)
    }
}

/// Journal blocks that most batches need beside those of their bytes.
const BESIDE: u32 = 64;

/// Whole units of allocation that are to be written, as runs in order: all that parts lie in, and the one in which what
/// is kept ends, if something of it is cut off or the file goes on behind that: it is copied so far, and what was
/// behind goes with the unit that it was in.
fn runs_of(batch: &Lent<'_>, unit: u64, old: u64) -> Vec<(u64, u64)> {
    let (kept, size) = (batch.kept_of(old), batch.len_over(old));
    let parts = batch.parts().map(|(offset, bytes)| (offset, offset + bytes.len() as u64));
    let ends_within = (kept < old || size > kept) && !kept.is_multiple_of(unit);
    let ends_within = ends_within.then_some((kept, kept + 1));
    let mut all: Vec<(u64, u64)> = parts.chain(ends_within).collect();
    all.sort_unstable();
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for (start, end) in all {
        let (start, end) = (start / unit * unit, end.div_ceil(unit) * unit);
        match runs.last_mut() {
            Some(last) if last.1 >= start => last.1 = last.1.max(end),
            _ => runs.push((start, end)),
        }
    }
    runs
}

/// Stages all batches; what the operation must be begun with where it has too little.
fn put_batches<'v>(op: &mut Op<'v>, batches: &'v [Lent<'_>]) -> Result<Option<Cost>> {
    for batch in batches {
        let (ino, (cut, size)) = (batch.ino(), batch.sizes());
        if let Some(cut) = cut
            && cut < op.inode(ino)?.size
            && let Some(more) = put_size(op, ino, cut)?
        {
            return Ok(Some(more));
        }
        for (offset, bytes) in batch.parts() {
            let inode = op.inode(ino)?.clone();
            let write = Write { ino, inode: &inode, offset, len: bytes.len(), only_bytes: false };
            let plan = plan_write(op, &write)?;
            if let Some(more) = op.grant(plan.cost)? {
                return Ok(Some(more));
            }
            do_write(op, ino, offset, Bytes::Lent(bytes), plan.parts)?;
        }
        if let Some(size) = size
            && size != op.inode(ino)?.size
            && let Some(more) = put_size(op, ino, size)?
        {
            return Ok(Some(more));
        }
    }
    Ok(None)
}

/// Stages a size: all of what is cut off is freed at once, since bytes may follow behind it.
fn put_size(op: &mut Op<'_>, ino: Ino, size: u64) -> Result<Option<Cost>> {
    let (vol, inode) = (op.vol(), op.inode(ino)?.clone());
    if let Some(more) = op.grant(set_size_cost(vol, ino, &inode, size))? {
        return Ok(Some(more));
    }
    if do_set_size(op, ino, size)? {
        return Ok(None);
    }
    let (max, granted) = (vol.engine.max_blocks(), op.journal_granted());
    if granted >= max {
        return Err(Error::TooBig { need: u64::from(max) + 1, max: max.into() });
    }
    Ok(Some(op.so_far(granted.saturating_mul(2).min(max))))
}

/// Different blocks that the parts of a batch lie in.
fn blocks_in(block_size: u64, batch: &Lent<'_>) -> u64 {
    let (mut blocks, mut behind) = (0, 0);
    for (offset, bytes) in batch.parts() {
        let end = offset.saturating_add(bytes.len() as u64).div_ceil(block_size);
        let first = (offset / block_size).max(behind);
        blocks += end.saturating_sub(first);
        behind = end.max(behind);
    }
    blocks
}
