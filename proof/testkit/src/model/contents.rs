//! The calls that change what one inode holds.

use super::{Body, Id, Model};
use crate::op::{Fallocate, File, Fill, Op, SetXattr, sum_of};
use crate::{Fail, Outcome};
use ondol_env::Timestamp;

/// XATTR_SIZE_MAX of Linux.
const LONGEST_VALUE: u64 = 65_536;

impl Model {
    pub(super) fn change_bytes(&mut self, op: &Op) -> Outcome {
        match op {
            Op::Write { file, at, len, fill } | Op::WriteBack { file, at, len, fill } => {
                let content = self.tree.regular(file, false)?;
                content.fill(*at, *len, *fill);
                Ok(*len)
            }
            Op::Append { file, len, fill } => {
                let content = self.tree.regular(file, true)?;
                content.fill(content.len(), *len, *fill);
                Ok(*len)
            }
            Op::Truncate { file, size } => {
                self.tree.check_cuts(file)?;
                self.tree.regular(file, false)?.set_len(*size);
                Ok(0)
            }
            Op::Fallocate { file, how, at, len } => {
                if *len == 0 && !file.is_path() {
                    self.tree.openable(file)?;
                    return self.tree.check_is_regular(file).and(Err(Fail::Invalid));
                }
                if !matches!(how, Fallocate::Allocate | Fallocate::KeepSize) {
                    self.tree.check_cuts(file)?;
                }
                let extents = self.mapping.extents;
                let unit = self.block_size * self.mapping.cluster;
                let content = self.tree.regular(file, false)?;
                if *len == 0 {
                    return Err(Fail::Invalid);
                }
                if !extents && *how != Fallocate::PunchHole {
                    return Err(Fail::Unsupported);
                }
                if matches!(how, Fallocate::CollapseRange | Fallocate::InsertRange) {
                    let collapse = *how == Fallocate::CollapseRange;
                    let reaches = if collapse { at + len } else { *at };
                    if !at.is_multiple_of(unit) || !len.is_multiple_of(unit) || reaches >= content.len() {
                        return Err(Fail::Invalid);
                    }
                    if collapse { content.collapse(*at, *len) } else { content.insert(*at, *len) }
                }
                if matches!(how, Fallocate::PunchHole | Fallocate::ZeroRange | Fallocate::ZeroRangeKeepSize) {
                    content.zero(*at, *len);
                }
                if matches!(how, Fallocate::Allocate | Fallocate::ZeroRange) {
                    content.set_len(content.len().max(at + len));
                }
                Ok(0)
            }
            _ => Err(Fail::Unsupported),
        }
    }

    pub(super) fn copy(&mut self, from: &File, at: u64, to: &File, to_at: u64, len: u64) -> Outcome {
        let source = self.tree.opened_for_writing(from)?;
        let target = self.tree.opened_for_writing(to)?;
        self.tree.check_writes(target, true)?;
        let bytes = self.tree.content(source).cloned().ok_or(Fail::IsDirectory)?;
        let len = len.min(bytes.len().saturating_sub(at));
        if len == 0 {
            return Ok(0);
        }
        if source == target && at < to_at + len && to_at < at + len {
            return Err(Fail::Invalid);
        }
        self.tree.regular(to, false)?.copy(&bytes, at, to_at, len);
        Ok(len)
    }

    pub(super) fn exchange(&mut self, files: [&File; 2], places: [u64; 2], len: Option<u64>) -> Outcome {
        let ids = [self.tree.opened_for_writing(files[0])?, self.tree.opened_for_writing(files[1])?];
        for id in ids {
            self.tree.check_moves(id)?;
            if !self.mapping.extents {
                return Err(Fail::Unsupported);
            }
        }
        let unit = self.block_size * self.mapping.cluster;
        let mut rests = [0; 2];
        for i in 0..2 {
            let size = self.tree.content(ids[i]).ok_or(Fail::IsDirectory)?.len();
            rests[i] = size.checked_sub(places[i]).ok_or(Fail::Invalid)?;
        }
        let end_together = len.is_some_and(|len| rests == [len; 2]);
        let whole = len.is_none_or(|len| len.is_multiple_of(unit)) || end_together;
        let inside = len.is_none_or(|len| len <= rests[0].min(rests[1]));
        let reach = len.unwrap_or(rests[0].max(rests[1])).next_multiple_of(unit);
        let overlap = ids[0] == ids[1] && (len.is_none() || places[0].abs_diff(places[1]) < reach);
        if places.iter().any(|at| !at.is_multiple_of(unit)) || !whole || !inside || overlap {
            return Err(Fail::Invalid);
        }
        if reach > 0 {
            self.exchange_bytes(ids, places, len.map_or(rests, |len| [len; 2]), len.is_none());
        }
        Ok(0)
    }

    pub(super) fn read(&self, file: &File, at: u64, len: u64) -> Outcome {
        self.tree.check_is_regular(file)?;
        let content = self.tree.content(self.tree.openable(file)?).ok_or(Fail::IsDirectory)?;
        Ok(sum_of([&*content.bytes(at, len)]))
    }

    pub(super) fn map_commit(&mut self, file: &File, stores: &[(u64, u64)], fill: Fill) -> Outcome {
        self.check_holds(file, stores)?;
        if !stores.is_empty() {
            let content = self.tree.regular(file, true)?;
            stores.iter().for_each(|(at, len)| content.fill(*at, *len, fill));
        }
        Ok(0)
    }

    /// Makes the map that `op` commits later, of what its path has led to and `hold` holds, or of what it has a handle
    /// of: `hold` holds that from then on.
    pub(crate) fn map(&mut self, hold: u8, op: &Op) -> Result<(), Fail> {
        let Op::MapCommit { file, .. } = op else { return Err(Fail::Unsupported) };
        let held = File::Handle(hold);
        if file.is_path() {
            self.tree.check_is_regular(&held)?;
            self.tree.check_writes(self.tree.openable(&held)?, false)?;
        } else {
            self.tree.handles.insert(hold, self.tree.openable(file)?);
        }
        self.check_holds(&held, &op.stores())
    }

    /// Whether a file that is open for writing, or can be opened, reaches over all of `stores`.
    fn check_holds(&self, file: &File, stores: &[(u64, u64)]) -> Result<(), Fail> {
        let id = self.tree.opened_for_writing(file)?;
        let size = self.tree.content(id).ok_or(Fail::IsDirectory)?.len();
        let is_within = |(at, len): &(u64, u64)| at.checked_add(*len).is_some_and(|end| end <= size);
        stores.iter().all(is_within).then_some(()).ok_or(Fail::Invalid)
    }

    /// Whether `op` commits a map, and one operation has to take it: nothing of a file can be exchanged.
    pub(crate) fn commits_in_one(&self, op: &Op) -> bool {
        matches!(op, Op::MapCommit { .. }) && !self.mapping.extents
    }

    /// Bytes of `lens` from `places` on change places; up to the ends, if that is how far they reach.
    fn exchange_bytes(&mut self, ids: [Id; 2], places: [u64; 2], lens: [u64; 2], to_ends: bool) {
        let old = ids.map(|id| self.tree.content(id).cloned().unwrap_or_default());
        for (to, from) in [(0, 1), (1, 0)] {
            let inode = self.tree.inode_mut(ids[to]);
            inode.mtime = None;
            if let Body::Regular(content) = &mut inode.body {
                if to_ends {
                    content.set_len(places[to]);
                }
                content.copy(&old[from], places[from], places[to], lens[from]);
            }
        }
    }

    pub(super) fn change_xattr(&mut self, op: &Op) -> Result<(), Fail> {
        let (file, name) = match op {
            Op::SetXattr { file, name, .. } | Op::RemoveXattr { file, name } => (file, name),
            _ => return Err(Fail::Unsupported),
        };
        let id = self.tree.file(file)?;
        if matches!(op, Op::SetXattr { len, .. } if *len > LONGEST_VALUE) {
            return Err(Fail::TooBig);
        }
        self.tree.check_moves(id)?;
        let plain = matches!(self.tree.inode(id).body, Body::Regular(_) | Body::Directory { .. });
        if name.starts_with("user.") && !plain {
            return Err(Fail::NotPermitted);
        }
        let key = name.clone().into_bytes();
        let xattrs = &mut self.tree.inode_mut(id).xattrs;
        match op {
            Op::SetXattr { how: SetXattr::Create, .. } if xattrs.contains_key(&key) => return Err(Fail::Exists),
            Op::SetXattr { how: SetXattr::Replace, .. } if !xattrs.contains_key(&key) => {
                return Err(Fail::NoAttribute);
            }
            Op::SetXattr { len, fill, .. } => drop(xattrs.insert(key, fill.bytes(0, *len))),
            _ => drop(xattrs.remove(&key).ok_or(Fail::NoAttribute)?),
        }
        Ok(())
    }

    pub(super) fn change_attributes(&mut self, op: &Op) -> Result<(), Fail> {
        match op {
            Op::Chmod { file, mode } => {
                let id = self.tree.file(file)?;
                if matches!(self.tree.inode(id).body, Body::Symlink(_)) {
                    return Err(Fail::Unsupported);
                }
                self.tree.check_moves(id)?;
                self.tree.inode_mut(id).set_perm(*mode);
            }
            Op::Chown { file, uid, gid } => {
                let id = self.tree.file(file)?;
                self.tree.check_moves(id)?;
                let inode = self.tree.inode_mut(id);
                (inode.uid, inode.gid) = (*uid, *gid);
                inode.lose_setuid();
            }
            Op::Utimens { file, mtime, .. } => {
                let id = self.tree.file(file)?;
                self.tree.check_moves(id)?;
                let whole = Timestamp { sec: mtime.sec.clamp(i32::MIN.into(), i32::MAX.into()), nsec: 0 };
                self.tree.inode_mut(id).mtime = Some(if self.mapping.whole_seconds { whole } else { *mtime });
            }
            _ => return Err(Fail::Unsupported),
        }
        Ok(())
    }
}
