//! Bytes at several places of a file, all of them at once: what a map that is stored to commits (papers/4, §2.3). Design: `docs/design/direct.md`.
//!
//! ```text
//!   few blocks     one operation, its bytes in the journal, whatever the data mode
//!   many           a file without a name takes whole units, in as many operations as that is  ──▶  one exchange
//! ```

use super::data::{self, Bytes};
use super::exchange::check_exchangeable;
use super::plan::{check_changeable, plan_write};
use super::write::{Times, do_write};
use crate::alloc::Need;
use crate::inline::is_inline;
use crate::node::{Node, NodeGuard};
use crate::op::{Cost, Op};
use crate::{Error, Exchange, Ino, Result, Volume};
use ondol_env::apart::Striped;
use ondol_env::sync::Arc;
use ondol_format::Inode;

/// Where bytes belong in their file, and what they are: in order, and none twice.
type Parts<'p, 'b> = &'p [(u64, &'b [u8])];

/// What was written at several places at once.
#[derive(Debug, Default)]
pub(crate) struct Committed {
    pub(crate) calls: Striped,
    pub(crate) bytes: Striped,
    pub(crate) exchanges: Striped,
}

impl Volume {
    /// Puts bytes over what a file holds, at several places: `(offset, bytes)`, in order, none over another. One operation, of which a crash leaves all or nothing in every data mode, and others see
    /// all or nothing. The size stays, and so do all other bytes. It is durable behind the next [`Volume::fsync`].
    ///
    /// Up to [`Volume::atomic_bytes`] the bytes go through the journal, and so does whatever is written to the file from then on until the volume is closed. More is written to new blocks, which then
    /// change places with the file's: see [`Volume::exchange`].
    ///
    /// # Errors
    /// `Shorter` where some of them lie behind the end of the file; `TooBig` for more than one exchange takes, or than one operation takes if the file has a block map; `Invalid` where they are not in
    /// order; and as [`Volume::write`]. Nothing is written then.
    pub fn write_parts(&self, ino: Ino, parts: &[(u64, &[u8])]) -> Result<()> {
        if parts.windows(2).any(|two| two[0].0.saturating_add(two[0].1.len() as u64) > two[1].0) {
            return Err(Error::Invalid("the parts are not in order, or lie over each other"));
        }
        let parts: Vec<_> = parts.iter().copied().filter(|(_, bytes)| !bytes.is_empty()).collect();
        let by_exchange = self.node(ino).and_then(|node| self.try_write_parts(&node, &parts));
        let by_exchange = by_exchange.map_err(|e| self.noted(e))?;
        let bytes = parts.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>();
        self.committed.calls.add(1);
        self.committed.bytes.add(bytes.cast_signed());
        self.committed.exchanges.add(i64::from(by_exchange));
        Ok(())
    }

    /// Whether it was done by an exchange.
    fn try_write_parts(&self, node: &Arc<Node>, parts: Parts<'_, '_>) -> Result<bool> {
        let block_size = u64::from(self.shared.sb.block_size());
        let is_small = blocks_in(block_size, parts) * block_size <= self.atomic_bytes();
        let can_be_exchanged = {
            let state = node.read()?;
            self.check_parts(node.ino, &state.inode, parts)?;
            check_exchangeable(node.ino, &state.inode).is_ok() && !is_inline(&state.inode)
        };
        if is_small || !can_be_exchanged {
            match self.parts_at_once(node, parts) {
                Err(Error::TooBig { .. }) if can_be_exchanged => {}
                done => return done.map(|()| false),
            }
        }
        self.parts_by_exchange(node, parts).map(|()| true)
    }

    /// Refuses what cannot be written.
    fn check_parts(&self, ino: Ino, inode: &Inode, parts: Parts<'_, '_>) -> Result<()> {
        // Whether an append-only file may be written to anywhere was asked when it was opened.
        check_changeable(ino, inode, true)?;
        self.check_writable()?;
        let end = parts.last().map_or(Some(0), |(offset, bytes)| offset.checked_add(bytes.len() as u64));
        match end.is_some_and(|end| end <= inode.size) {
            true => Ok(()),
            false => Err(Error::Shorter { size: inode.size }),
        }
    }

    /// All of it in one operation.
    fn parts_at_once(&self, node: &Arc<Node>, parts: Parts<'_, '_>) -> Result<()> {
        self.parts_in_one(node, parts)
    }

    fn parts_in_one(&self, node: &Arc<Node>, parts: Parts<'_, '_>) -> Result<()> {
        let max = self.engine.max_blocks();
        let mut wanted: Option<Cost> = None;
        loop {
            let guard = node.write()?;
            self.check_parts(node.ino, &guard.state.inode, parts)?;
            if parts.is_empty() {
                return Ok(());
            }
            if !data::journaled(self, node.ino, &guard.state.inode) {
                self.once_journaled.add(node.ino);
            }
            let cost = match wanted {
                Some(cost) => cost,
                None => self.parts_cost(&guard, parts)?,
            };
            let mut op = Op::begin(self, vec![guard], Cost { journal: cost.journal.min(max), ..cost })?;
            match put_parts(&mut op, node.ino, parts)? {
                None => {
                    return op.close().map(drop);
                }
                // More than what was missing, so that few attempts find out how much it is.
                Some(cost) => wanted = Some(Cost { journal: cost.journal.saturating_add(cost.journal / 2), ..cost }),
            }
        }
    }

    /// About what all parts need of the journal, and the first one of the volume: parts share blocks, clusters and nodes of the tree, so the rest is asked for when it is known.
    fn parts_cost(&self, guard: &NodeGuard, parts: Parts<'_, '_>) -> Result<Cost> {
        let mut all = Cost { journal: 1, blocks: 0, need: Need::Ordinary };
        let first = parts.first().map_or(0, |(offset, _)| *offset);
        for (offset, bytes) in parts {
            let (cost, _) = plan_write(&mut &*self, guard.node.ino, &guard.state.inode, *offset, bytes.len())?;
            all.journal = all.journal.saturating_add(cost.journal);
            all.blocks = all.blocks.max(if *offset == first { cost.blocks } else { 0 });
        }
        Ok(all)
    }

    /// By a file without a name that is written first.
    fn parts_by_exchange(&self, node: &Arc<Node>, parts: Parts<'_, '_>) -> Result<()> {
        let other = self.own_tmpfile()?;
        let done = self.exchange_parts(node, other, parts);
        if let Err(e) = self.release(other) {
            tracing::warn!("inode {other}, which has no name: {e}; the next mount deletes it");
            self.noted(e);
        }
        done
    }

    fn exchange_parts(&self, node: &Arc<Node>, other: Ino, parts: Parts<'_, '_>) -> Result<()> {
        let (Some((first, _)), Some((last, bytes))) = (parts.first(), parts.last()) else { return Ok(()) };
        let guard = node.write()?;
        self.check_parts(node.ino, &guard.state.inode, parts)?;
        check_exchangeable(node.ino, &guard.state.inode)?;
        let guard = self.unfold_locked(guard)?;
        let (unit, size) = (u64::from(self.cluster_size()), guard.state.inode.size);
        // Nobody else knows this one: out of the order of locks, and still nobody is waited for.
        let mut there = Some(self.node(other)?.write()?);
        self.each_unit(&guard, parts, &mut |mut offset, mut bytes| {
            while !bytes.is_empty() {
                let held = there.take().ok_or(Error::NotFound)?;
                let (n, held) = self.write_step(held, (offset, bytes), Times::Stamp)?;
                (offset, bytes, there) = (offset + n as u64, &bytes[n..], Some(held));
            }
            Ok(())
        })?;
        let first = first / unit * unit;
        let end = (last + bytes.len() as u64).next_multiple_of(unit).min(size);
        let how = Exchange { len: Some(end - first), written_only: true, ..Exchange::default() };
        let guards = there.into_iter().chain([guard]).collect();
        self.exchange_held(guards, (other, first), (node.ino, first), &how)
    }

    /// Calls `each` for whole units of allocation, and the end of the file, as they are with the parts: where they begin, and what they hold.
    fn each_unit(
        &self,
        guard: &NodeGuard,
        parts: Parts<'_, '_>,
        each: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let (ino, inode) = (guard.node.ino, &guard.state.inode);
        let unit = u64::from(self.cluster_size());
        let (mut done, mut buf) = (0, Vec::new());
        for (n, (offset, bytes)) in parts.iter().enumerate() {
            let end = offset + bytes.len() as u64;
            let mut from = (offset / unit * unit).max(done);
            while from < end {
                let whole = if end == inode.size { end - from } else { (end - from) / unit * unit };
                if from >= *offset && whole > 0 {
                    let at = (from - offset) as usize;
                    each(from, &bytes[at..at + whole as usize])?;
                    from += whole;
                    continue;
                }
                let to = (from / unit * unit + unit).min(inode.size);
                buf.resize((to - from) as usize, 0);
                self.read_at(ino, inode, from, &mut buf)?;
                parts[n..]
                    .iter()
                    .take_while(|(offset, _)| *offset < to)
                    .for_each(|part| lay_over(&mut buf, from, part));
                each(from, &buf)?;
                from = to;
            }
            done = done.max(from);
        }
        Ok(())
    }
}

/// Puts bytes where they belong in `buf`, which begins at byte `from` of the file: those that do.
fn lay_over(buf: &mut [u8], from: u64, (offset, bytes): &(u64, &[u8])) {
    let start = from.max(*offset);
    let end = (from + buf.len() as u64).min(offset + bytes.len() as u64);
    if start < end {
        let part = &bytes[(start - offset) as usize..(end - offset) as usize];
        buf[(start - from) as usize..(end - from) as usize].copy_from_slice(part);
    }
}

/// Stages all parts; what the operation must be begun with where it has too little.
fn put_parts<'v>(op: &mut Op<'v>, ino: Ino, parts: Parts<'_, 'v>) -> Result<Option<Cost>> {
    for (offset, bytes) in parts {
        let inode = op.inode(ino)?.clone();
        let (cost, _) = plan_write(op, ino, &inode, *offset, bytes.len())?;
        if let Some(more) = op.grant(cost)? {
            return Ok(Some(more));
        }
        do_write(op, ino, *offset, Bytes::Lent(bytes))?;
    }
    Ok(None)
}

/// Different blocks that the parts lie in.
fn blocks_in(block_size: u64, parts: Parts<'_, '_>) -> u64 {
    let (mut blocks, mut behind) = (0, 0);
    for (offset, bytes) in parts {
        let end = offset.saturating_add(bytes.len() as u64).div_ceil(block_size);
        let first = (offset / block_size).max(behind);
        blocks += end.saturating_sub(first);
        behind = end.max(behind);
    }
    blocks
}
