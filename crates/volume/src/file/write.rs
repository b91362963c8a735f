//! Write and append.

use super::data::Target;
use super::plan::{Part, Parts, Write, check_changeable, is_atomic, max_size, plan_write};
use super::{Mapped, Run, data, inline, mapping, tree};
use crate::inline::is_inline;
use crate::node::NodeGuard;
use crate::op::Op;
use crate::{Error, FileIo, Ino, Result, Volume};
use ondol_format::Inode;
use ondol_format::inode::InodeFlags;
use ondol_journal::{Before, Bytes};
use std::ops::Range;

/// Largest write that is one operation whatever the journal holds, bytes.
pub const ATOMIC_MAX: u64 = 1 << 20;

impl FileIo<'_> {
    /// Writes `bytes` at byte `offset`. Up to [`FileIo::atomic_bytes`] this is one operation: after a crash all of it
    /// is there, or nothing (with `data=journal`; otherwise bytes over stored ones may be there alone). More is a
    /// sequence of such operations, and when a later one fails, fewer bytes than `bytes` are written and counted. That
    /// an append-only file is only appended to is a matter of opening it: see [`crate::InodeOps::check_open`].
    ///
    /// # Errors
    /// `NoSpace`, `FileTooBig`, `NotPermitted`, `IsDirectory`, `Invalid`, `Unsupported`, `ReadOnly`, corruption, or the
    /// journal's or store's failure; nothing is written then.
    pub fn write(self, ino: Ino, offset: u64, bytes: &[u8]) -> Result<usize> {
        let guard = self.vol.node(ino)?.write()?;
        self.write_locked(guard, offset, bytes, Times::Stamp).map_err(|e| self.vol.noted(e))
    }

    /// As [`FileIo::write`], of bytes from a cache above that keeps the file's times itself and tells them by
    /// [`crate::InodeOps::setattr`]: they stay as they are.
    ///
    /// # Errors
    /// As [`FileIo::write`].
    pub fn write_back(self, ino: Ino, offset: u64, bytes: &[u8]) -> Result<usize> {
        let guard = self.vol.node(ino)?.write()?;
        self.write_locked(guard, offset, bytes, Times::Keep).map_err(|e| self.vol.noted(e))
    }

    /// Writes all of `bytes` behind the end of the file and returns where that was. Other writers cannot come between.
    ///
    /// # Errors
    /// As [`FileIo::write`]; when a later operation of a large write fails, what the earlier ones appended is cut off
    /// again.
    pub fn append(self, ino: Ino, bytes: &[u8]) -> Result<u64> {
        let node = self.vol.node(ino)?;
        let guard = node.write()?;
        let offset = guard.state.inode.size;
        let written = self.write_locked(guard, offset, bytes, Times::Stamp).map_err(|e| self.vol.noted(e))?;
        if written == bytes.len() {
            return Ok(offset);
        }
        let guard = node.write()?;
        if guard.state.inode.size == offset + written as u64 {
            self.truncate_locked(guard, offset).map_err(|e| self.vol.noted(e))?;
        }
        Err(Error::NoSpace("blocks"))
    }

    /// Bytes that one write makes part of the file in one operation, wherever they lie.
    pub fn atomic_bytes(self) -> u64 {
        let block_size = u64::from(self.vol.shared.sb.block_size());
        // One block more than the bytes fill, because they need not begin with a block.
        let (mut fits, mut fails) = (0, ATOMIC_MAX / block_size + 1);
        if is_atomic(self.vol, fails) {
            return ATOMIC_MAX;
        }
        while fits + 1 < fails {
            let middle = u64::midpoint(fits, fails);
            if is_atomic(self.vol, middle) { fits = middle } else { fails = middle }
        }
        (fits.max(2) - 1) * block_size
    }

    fn write_locked(self, mut guard: NodeGuard, offset: u64, bytes: &[u8], times: Times) -> Result<usize> {
        let inode = &guard.state.inode;
        check_changeable(guard.node.ino, inode, true)?;
        self.vol.check_writable()?;
        if bytes.is_empty() {
            return Ok(0);
        }
        let room = max_size(self.vol, inode).checked_sub(offset).filter(|&room| room > 0).ok_or(Error::FileTooBig)?;
        let bytes = &bytes[..bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX))];
        let mut done = 0;
        loop {
            match self.write_step(guard, offset + done as u64, &bytes[done..], times) {
                Ok((n, _)) if done + n == bytes.len() => return Ok(bytes.len()),
                Ok((n, again)) => {
                    (done, guard) = (done + n, again);
                }
                Err(e) if done == 0 => return Err(e),
                Err(e) => {
                    tracing::warn!("a write stopped after {done} of {} bytes: {e}", bytes.len());
                    self.vol.noted(e);
                    return Ok(done);
                }
            }
        }
    }

    /// Writes as much of `bytes` as is one operation.
    pub(super) fn write_step(
        self,
        guard: NodeGuard,
        offset: u64,
        bytes: &[u8],
        times: Times,
    ) -> Result<(usize, NodeGuard)> {
        let ino = guard.node.ino;
        let inode = &guard.state.inode;
        let n = self.piece(offset, bytes.len());
        let only_bytes = (times == Times::Keep || !stale(self.vol, inode)) && !data::journaled(self.vol, ino, inode);
        let mut write = Write { ino, inode, offset, len: n, only_bytes };
        let plan = loop {
            write.only_bytes &= offset + write.len as u64 <= inode.size;
            let plan = plan_write(&mut &*self.vol, &write)?;
            if write.only_bytes && !plan.is_overwrite() {
                write.only_bytes = false;
                continue;
            }
            // Only a tree that nobody's splits have made asks for more.
            if plan.cost.journal <= self.vol.engine.max_blocks() || write.len <= 1 {
                break plan;
            }
            write.len /= 2;
        };
        let n = write.len;
        if write.only_bytes {
            let written = self.overwrite_only(&guard, offset, &bytes[..n], &plan.parts);
            // Also where it failed: what can be read has to become durable.
            self.vol.note_written(&guard.node);
            written?;
            return Ok((n, guard));
        }
        let before = (inode.mtime, inode.ctime);
        let mut op = Op::begin(self.vol, vec![guard], plan.cost)?;
        do_write(&mut op, ino, offset, Bytes::Lent(&bytes[..n]), plan.parts)?;
        if times == Times::Keep {
            let inode = op.inode_mut(ino)?;
            (inode.mtime, inode.ctime) = before;
        }
        Ok((n, op.close_holding(ino)?))
    }

    /// How many of `len` bytes at `offset` the next operation takes: all, or up to a block's end.
    fn piece(self, offset: u64, len: usize) -> usize {
        let block_size = u64::from(self.vol.shared.sb.block_size());
        if len as u64 <= block_size {
            return len;
        }
        let atomic = self.atomic_bytes();
        if len as u64 <= atomic {
            return len;
        }
        (atomic - offset % block_size).max(1) as usize
    }

    /// Bytes over stored ones, when not even a time changes.
    fn overwrite_only(self, guard: &NodeGuard, offset: u64, all: &[u8], parts: &Parts) -> Result<()> {
        let block_size = u64::from(self.vol.shared.sb.block_size());
        for Part { run, .. } in parts {
            let Mapped::Written(start) = run.what else { continue };
            let bytes = within(block_size, run, offset, all.len());
            let skip = (offset + bytes.start as u64) % block_size;
            self.vol.engine.write_data(start, skip as usize, &all[bytes])?;
        }
        let synchronous = guard.state.inode.flags.contains(InodeFlags::SYNC);
        if synchronous { self.vol.sync() } else { Ok(()) }
    }
}

/// What a write does to the times of the contents and of the inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Times {
    /// They are now.
    Stamp,
    /// Whoever cached the bytes keeps them.
    Keep,
}

/// Whether a change of the contents now has to be stamped.
fn stale(vol: &Volume, inode: &Inode) -> bool {
    let now = crate::time::to_disk(vol.now());
    inode.mtime != now || inode.ctime != now
}

/// The logical block of a byte, and the byte's place in it.
pub(super) fn place(block_size: u64, byte: u64) -> Result<(u32, usize)> {
    let at = u32::try_from(byte / block_size).map_err(|_| Error::FileTooBig)?;
    Ok((at, (byte % block_size) as usize))
}

/// Which of `len` bytes at `offset` of a file lie in a run of its blocks.
fn within(block_size: u64, run: &Run, offset: u64, len: usize) -> Range<usize> {
    let from = (u64::from(run.at) * block_size).saturating_sub(offset);
    let to = ((u64::from(run.at) + u64::from(run.len)) * block_size).saturating_sub(offset);
    from as usize..(to as usize).min(len)
}

/// Writes `bytes` at `offset` of a regular file that `op` holds, as [`super::plan::plan_write`] has planned it for what
/// `op` has done so far. All of it, or an error after which the operation must be dropped.
///
/// # Errors
/// As [`FileIo::write`].
pub(crate) fn do_write<'v>(
    op: &mut Op<'v>,
    ino: Ino,
    offset: u64,
    bytes: Bytes<'v, '_>,
    mut parts: Parts,
) -> Result<()> {
    let block_size = u64::from(op.vol().shared.sb.block_size());
    let (size, len) = (op.inode(ino)?.size, bytes.now().len());
    check_changeable(ino, op.inode(ino)?, true)?;
    let most = max_size(op.vol(), op.inode(ino)?);
    let end = offset.checked_add(len as u64).filter(|&e| e <= most).ok_or(Error::FileTooBig)?;
    let mut is_planned = true;
    if is_inline(op.inode(ino)?) {
        if inline::write(op, ino, offset, bytes.now())? {
            return touch(op, ino);
        }
        inline::unfold(op, ino)?;
        is_planned = false;
    }
    if offset > size {
        zero_behind(op, ino, size)?;
        // What follows the zeros in their block goes where they are.
        is_planned &= size / block_size < offset / block_size || size.is_multiple_of(block_size);
    }
    if !is_planned {
        let inode = op.inode(ino)?.clone();
        parts = plan_write(op, &Write { ino, inode: &inode, offset, len, only_bytes: false })?.parts;
    }
    for part in &parts {
        let within = within(block_size, &part.run, offset, len);
        write_part(op, ino, part, offset + within.start as u64, bytes.part(within))?;
    }
    if parts.iter().any(|part| !matches!(part.run.what, Mapped::Written(_))) {
        tree::merge_up(op, ino)?;
    }
    if end > size {
        op.inode_mut(ino)?.size = end;
    }
    touch(op, ino)
}

/// Writes the bytes of one part, which begin at `offset` of the file.
fn write_part<'v>(op: &mut Op<'v>, ino: Ino, part: &Part, offset: u64, bytes: Bytes<'v, '_>) -> Result<()> {
    let block_size = op.vol().shared.sb.block_size() as usize;
    let Part { run, to } = *part;
    let (mut at, mut done) = (run.at, 0);
    while at < run.at + run.len {
        let left = run.at + run.len - at;
        let (start, blocks, before) = match run.what {
            Mapped::Written(start) => (start, left, Before::Stored),
            Mapped::Unwritten(start) => (start, left, Before::Unwritten),
            Mapped::Hole => {
                let got = mapping::fill_hole(op, ino, at, left, false)?;
                (got.start, got.len, data::allocated(op.vol()))
            }
        };
        let skip = ((offset + done as u64) % block_size as u64) as usize;
        let n = (blocks as usize * block_size - skip).min(bytes.now().len() - done);
        data::put(op, Target { start, blocks, before, to }, skip, bytes.part(done..done + n))?;
        if let Mapped::Unwritten(_) = run.what {
            convert_all(op, ino, at, at + blocks)?;
        }
        (at, done) = (at + blocks, done + n);
    }
    Ok(())
}

fn convert_all(op: &mut Op<'_>, ino: Ino, from: u32, to: u32) -> Result<()> {
    let mut at = from;
    while at < to {
        at = mapping::convert(op, ino, at, to, false)?;
    }
    Ok(())
}

/// Stamps a change of the contents.
pub(super) fn touch(op: &mut Op<'_>, ino: Ino) -> Result<()> {
    let now = crate::time::to_disk(op.now());
    let inode = op.inode(ino)?;
    if inode.mtime != now || inode.ctime != now {
        let inode = op.inode_mut(ino)?;
        (inode.mtime, inode.ctime) = (now, now);
    }
    Ok(())
}

/// Makes what is stored behind byte `size` in its block zeros: a crash, or another implementation, may have left
/// anything behind the end of the file, and nothing of it may become visible when the file grows.
pub(super) fn zero_behind(op: &mut Op<'_>, ino: Ino, size: u64) -> Result<()> {
    let block_size = u64::from(op.vol().shared.sb.block_size());
    if size.is_multiple_of(block_size) {
        return Ok(());
    }
    let (at, from) = place(block_size, size)?;
    match mapping::map(op, ino, at)?.what {
        Mapped::Written(block) => data::zero(op, ino, block, from, block_size as usize),
        _ => Ok(()),
    }
}
