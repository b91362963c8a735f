//! Copying from file to file without the bytes leaving the volume.

use super::plan::{check_changeable, check_regular, max_size};
use super::write::Times;
use super::{Mapped, map};
use crate::attr::{do_setattr, plan_setattr};
use crate::inline::is_inline;
use crate::node::{Node, NodeGuard, NodeState};
use crate::op::Op;
use crate::{CopyRange, Error, Fallocate, FileRanges, Ino, Result, SetAttr};
use ondol_env::sync::{Arc, OwnedReadGuard};
use ondol_format::Inode;
use ondol_format::extent::MAX_LOGICAL;

/// Stored bytes that one call copies at most: callers go on after a short count, and others get at the files in
/// between.
pub const MOST_BYTES: u64 = 64 << 20;

/// Runs of data and of holes that one call copies at most.
pub const MOST_RUNS: u32 = 1024;

impl FileRanges<'_> {
    /// Copies bytes of file `from` to file `to`, as copy_file_range(2) does, and returns how many: fewer at the end of
    /// `from`, none behind it, and fewer than there are when that is much or when a later step fails. Holes stay holes.
    /// With `kill_suid`, `to` first loses what a write by an unprivileged user takes from it.
    ///
    /// A sequence of operations: after each, `to` has a beginning of what is copied.
    ///
    /// # Errors
    /// `Invalid` when the ranges overlap in one file; as [`crate::FileIo::read`] and [`crate::FileIo::write`] when
    /// nothing was copied.
    pub fn copy_range(self, from: Ino, to: Ino, range: CopyRange, kill_suid: bool) -> Result<u64> {
        let (source, target) = (self.vol.node(from)?, self.vol.node(to)?);
        let (copied, stale) = self.copy_locked(&source, &target, range, kill_suid).map_err(|e| self.vol.noted(e))?;
        self.vol.xattrs().bury_values();
        if stale {
            // An access time is not worth failing a copy that has succeeded.
            self.vol
                .files()
                .update_atime(&source)
                .unwrap_or_else(|e| tracing::debug!("access time of inode {from}: {e}"));
        }
        Ok(copied)
    }

    /// The number of bytes, and whether the source's access time is to be renewed.
    fn copy_locked(self, source: &Node, target: &Arc<Node>, range: CopyRange, kill_suid: bool) -> Result<(u64, bool)> {
        let before = if source.ino < target.ino { Some(source.read()?) } else { None };
        let mut guard = target.write()?;
        let locked = if source.ino > target.ino { Some(source.read()?) } else { before };
        let range = self.checked(&locked, &guard, source.ino, range)?;
        if range.len == 0 {
            return Ok((0, false));
        }
        if kill_suid {
            guard = self.kill_suid(guard)?;
        }
        let stale = self.vol.files().atime_is_stale(inode_of(&locked, &guard));
        Ok((self.copy_runs(&locked, guard, source.ino, range)?, stale))
    }

    /// Cuts the range to what there is to be copied.
    fn checked(
        self,
        source: &Option<OwnedReadGuard<NodeState>>,
        target: &NodeGuard,
        from: Ino,
        range: CopyRange,
    ) -> Result<CopyRange> {
        let CopyRange { from: start, to, len } = range;
        let inode = inode_of(source, target);
        check_regular(from, inode)?;
        // Whether an append-only file may be written to anywhere was asked when it was opened.
        check_changeable(target.node.ino, &target.state.inode, true)?;
        self.vol.check_writable()?;
        if start.checked_add(len).is_none() || to.checked_add(len).is_none() {
            return Err(Error::Invalid("a range that ends behind the largest offset"));
        }
        let len = len.min(inode.size.saturating_sub(start));
        if len == 0 {
            return Ok(CopyRange { len, ..range });
        }
        let room = max_size(self.vol, &target.state.inode)
            .checked_sub(to)
            .filter(|&room| room > 0)
            .ok_or(Error::FileTooBig)?;
        let len = len.min(room);
        if from == target.node.ino && start < to + len && to < start + len {
            return Err(Error::Invalid("a range that is copied over itself"));
        }
        Ok(CopyRange { len, ..range })
    }

    fn copy_runs(
        self,
        source: &Option<OwnedReadGuard<NodeState>>,
        mut guard: NodeGuard,
        from: Ino,
        range: CopyRange,
    ) -> Result<u64> {
        let (mut done, mut stored, mut buf) = (0, 0, Vec::new());
        for _ in 0..MOST_RUNS {
            if done >= range.len || stored >= MOST_BYTES {
                break;
            }
            let rest = CopyRange { from: range.from + done, to: range.to + done, len: range.len - done };
            let inode = inode_of(source, &guard);
            let step = self.next_run(from, inode, rest).and_then(|(is_data, len)| {
                if !is_data {
                    return self.copy_hole(guard, CopyRange { len, ..rest }).map(|guard| (len, guard));
                }
                buf.resize(len as usize, 0);
                self.vol.files().read_at(from, inode_of(source, &guard), rest.from, &mut buf)?;
                let (n, guard) = self.vol.files().write_step(guard, rest.to, &buf, Times::Stamp)?;
                stored += n as u64;
                Ok((n as u64, guard))
            });
            match step {
                Ok((n, again)) => (done, guard) = (done + n, again),
                Err(e) if done == 0 => return Err(e),
                Err(e) => {
                    tracing::warn!("a copy stopped after {done} of {} bytes: {e}", range.len);
                    self.vol.noted(e);
                    break;
                }
            }
        }
        Ok(done)
    }

    /// Whether the range begins with stored bytes, and how many bytes of it are alike: no more stored ones than a write
    /// takes.
    fn next_run(self, ino: Ino, inode: &Inode, range: CopyRange) -> Result<(bool, u64)> {
        let block_size = u64::from(self.vol.shared.sb.block_size());
        let most = range.len.min(self.vol.files().atomic_bytes());
        if is_inline(inode) {
            return Ok((true, most));
        }
        let mut len = 0;
        while len < most {
            let byte = range.from + len;
            let Some(at) = u32::try_from(byte / block_size).ok().filter(|&at| at < MAX_LOGICAL) else { break };
            let run = map(&mut &*self.vol, ino, inode, at)?;
            let bytes = u64::from(run.len) * block_size - byte % block_size;
            match run.what {
                Mapped::Written(_) => len += bytes,
                _ if len == 0 => return Ok((false, bytes.min(range.len))),
                _ => break,
            }
        }
        // Nothing can be stored behind the last block.
        if len == 0 { Ok((false, range.len)) } else { Ok((true, len.min(most))) }
    }

    /// Makes a hole of a range, which may reach behind the end of the file.
    fn copy_hole(self, mut guard: NodeGuard, range: CopyRange) -> Result<NodeGuard> {
        let (size, end) = (guard.state.inode.size, range.to + range.len);
        if range.to < size {
            guard = self.vol.files().unfold_locked(guard)?;
            guard = self.vol.files().fallocate_steps(
                guard,
                Fallocate::PunchHole,
                range.to,
                range.len.min(size - range.to),
            )?;
        }
        if end > size { self.vol.files().truncate_locked(guard, end) } else { Ok(guard) }
    }

    fn kill_suid(self, guard: NodeGuard) -> Result<NodeGuard> {
        let ino = guard.node.ino;
        let set = SetAttr { kill_suid: true, ..SetAttr::default() };
        let (xattrs, cost) = plan_setattr(&mut &*self.vol, ino, &guard.state.inode, &set)?;
        let mut op = Op::begin(self.vol, vec![guard], cost)?;
        do_setattr(&mut op, ino, &set, xattrs)?;
        op.close_holding(ino)
    }
}

/// The inode to be read: that of the target where both are one.
fn inode_of<'a>(source: &'a Option<OwnedReadGuard<NodeState>>, target: &'a NodeGuard) -> &'a Inode {
    source.as_ref().map_or(&target.state.inode, |state| &state.inode)
}
