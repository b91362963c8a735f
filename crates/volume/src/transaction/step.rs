//! The steps themselves: each is planned on the operation, gets its space, and is done.

use super::attempt::{Attempt, Stop, Tried};
use super::{Step, Trail};
use crate::attr::{do_setattr, plan_setattr};
use crate::dir::Search;
use crate::dir::init::NewInode;
use crate::dir::ops::{
    Circle, Names, do_create, do_link, do_rename, do_unlink, find, plain, plan_create, plan_link, plan_rename,
    plan_unlink,
};
use crate::file::plan;
use crate::file::truncate::{do_set_size, set_size_cost};
use crate::file::write::do_write;
use crate::{Error, Ino, Rename, SetAttr, SetXattr, xattr};
use ondol_format::inode::FileType;
use ondol_journal::Bytes;

impl Attempt<'_, '_> {
    pub(super) fn step(&mut self, step: &Step) -> Tried<()> {
        let caller = self.plan.caller;
        match step {
            Step::Create { at, perm, keep } => self.create_file(at, &plain(FileType::Regular, *perm, caller), *keep),
            Step::CreateDir { at, perm } => self.create(at, &plain(FileType::Directory, *perm, caller)),
            Step::Symlink { at, target } => {
                self.create(at, &NewInode { target, ..plain(FileType::Symlink, 0o777, caller) })
            }
            Step::HardLink { original, at } => self.hard_link(original, at),
            Step::Rename { from, to, how } => self.rename(from, to, *how),
            Step::RemoveFile { at } => self.remove(at, false),
            Step::RemoveDir { at } => self.remove(at, true),
            Step::WriteAt { at, offset, bytes } => self.write(at, Some(*offset), bytes),
            Step::Append { at, bytes } => self.write(at, None, bytes),
            Step::SetLen { at, size } => self.set_len(at, *size),
            Step::SetPermissions { at, perm } => self.set_permissions(at, *perm),
            Step::SetXattr { at, name, value, how } => self.set_xattr(at, name, Some(value), *how),
            Step::RemoveXattr { at, name } => self.set_xattr(at, name, None, SetXattr::Replace),
        }
    }

    fn create_file(&mut self, at: &Trail, new: &NewInode<'_>, keep: bool) -> Tried<()> {
        let (_, dir, name) = self.parent(at)?;
        if keep && let Search::Found(entry) = find(&mut self.op, dir, name)? {
            self.hold(entry.ino, true)?;
            return Ok(plan::check_regular(entry.ino, self.op.inode(entry.ino)?)?);
        }
        self.create(at, new)
    }

    fn create(&mut self, at: &Trail, new: &NewInode<'_>) -> Tried<()> {
        let (_, dir, name) = self.parent(at)?;
        let (place, cost) = plan_create(&mut self.op, dir, name, new)?;
        self.grant(cost)?;
        do_create(&mut self.op, dir, name, place, new)?;
        Ok(())
    }

    fn hard_link(&mut self, original: &Trail, at: &Trail) -> Tried<()> {
        let ino = self.named(original)?;
        let (_, dir, name) = self.parent(at)?;
        let (slot, cost) = plan_link(&mut self.op, ino, dir, name)?;
        self.grant(cost)?;
        Ok(do_link(&mut self.op, ino, dir, name, slot)?)
    }

    fn rename(&mut self, from: &Trail, to: &Trail, how: Rename) -> Tried<()> {
        let (above_from, from_dir, from_name) = self.parent(from)?;
        let (above_to, to_dir, to_name) = self.parent(to)?;
        let names = Names { from: from_dir, from_name, to: to_dir, to_name };
        let circle = match from_dir == to_dir {
            true => Circle::default(),
            false => {
                Circle { above_source: above_from.into_iter().collect(), above_target: above_to.into_iter().collect() }
            }
        };
        let mut plan = plan_rename(&mut self.op, &names, how, &circle)?;
        for ino in plan.inodes() {
            self.hold(ino, true)?;
        }
        if plan.is_done() {
            return Ok(());
        }
        let cost = plan.settle(&mut self.op, &names, &circle)?;
        self.grant(cost)?;
        self.victims.extend(do_rename(&mut self.op, &names, plan)?);
        Ok(())
    }

    fn remove(&mut self, at: &Trail, directory: bool) -> Tried<()> {
        let (_, dir, name) = self.parent(at)?;
        let entry = self.entry(dir, name)?;
        let (fate, cost) = plan_unlink(&mut self.op, dir, &entry, directory)?;
        self.grant(cost)?;
        let fate = do_unlink(&mut self.op, dir, &entry, fate)?;
        self.victims.push((entry.ino, fate));
        Ok(())
    }

    /// Without an offset, behind the end.
    fn write(&mut self, at: &Trail, offset: Option<u64>, bytes: &[u8]) -> Tried<()> {
        let ino = self.target(at)?;
        let inode = self.op.inode(ino)?.clone();
        plan::check_changeable(ino, &inode, offset.is_none())?;
        let offset = offset.unwrap_or(inode.size);
        if bytes.is_empty() {
            return Ok(());
        }
        let write = plan::Write { ino, inode: &inode, offset, len: bytes.len(), only_bytes: false };
        let plan = plan::plan_write(&mut self.op, &write)?;
        self.grant(plan.cost)?;
        Ok(do_write(&mut self.op, ino, offset, Bytes::Passing(bytes), plan.parts)?)
    }

    fn set_len(&mut self, at: &Trail, size: u64) -> Tried<()> {
        let ino = self.target(at)?;
        plan::check_changeable(ino, self.op.inode(ino)?, false)?;
        let cost = set_size_cost(self.vol(), ino, self.op.inode(ino)?, size);
        self.grant(cost)?;
        if do_set_size(&mut self.op, ino, size)? {
            return Ok(());
        }
        // A later step may write behind the new end, where nothing old must be left: all at once, or not at all.
        let max = self.vol().engine.max_blocks();
        let granted = self.op.journal_granted();
        if granted >= max {
            return Err(Error::TooBig { need: u64::from(max) + 1, max: max.into() }.into());
        }
        Err(Stop::Short(self.op.so_far(granted.saturating_mul(2).min(max))))
    }

    fn set_permissions(&mut self, at: &Trail, perm: u16) -> Tried<()> {
        let ino = self.target(at)?;
        let set = SetAttr { perm: Some(perm), ..SetAttr::default() };
        let inode = self.op.inode(ino)?.clone();
        let (xattrs, cost) = plan_setattr(&mut self.op, ino, &inode, &set)?;
        self.grant(cost)?;
        Ok(do_setattr(&mut self.op, ino, &set, xattrs)?)
    }

    fn set_xattr(&mut self, at: &Trail, name: &[u8], value: Option<&[u8]>, how: SetXattr) -> Tried<()> {
        let ino: Ino = self.target(at)?;
        let inode = self.op.inode(ino)?.clone();
        let wanted = xattr::Wanted { name, value, how };
        let cost = xattr::plan_change(&mut self.op, ino, &inode, wanted)?;
        self.grant(cost)?;
        Ok(xattr::do_change(&mut self.op, ino, wanted)?)
    }
}
