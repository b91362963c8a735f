//! Files without a name: O_TMPFILE.

use super::plain;
use crate::behalf;
use crate::dir::init::NewInode;
use crate::dir::lock::Locked;
use crate::dir::{Dir, init};
use crate::op::{Cost, Op};
use crate::{Attr, Caller, Error, Ino, Namespace, ROOT, Result, orphan};
use ondol_format::inode::{FileType, InodeFlags};

impl Namespace<'_> {
    /// Makes an empty regular file without a name, open once (as by [`crate::InodeOps::open`]). It gets its group, its
    /// ACLs and its flags from `dir`, in which it does not appear. [`Namespace::link`] can name it; the last
    /// [`crate::InodeOps::release`] deletes it otherwise, and so does recovery: it is an orphan from the first moment
    /// on.
    ///
    /// # Errors
    /// `NotFound` when the directory is gone, `NotDirectory`, `NoSpace`, `ReadOnly`, `NotPermitted` (`dir` is
    /// immutable); corruption. Nothing has changed then.
    pub fn tmpfile(self, dir: Ino, mode: u16, caller: Caller) -> Result<Attr> {
        self.try_tmpfile(dir, mode, caller, None).map_err(|e| self.vol.noted(e))
    }

    /// As [`Namespace::tmpfile`]; with the generation that makes checksums of its blocks those of `like`, an inode and
    /// its generation.
    pub(crate) fn try_tmpfile(self, dir: Ino, mode: u16, caller: Caller, like: Option<(Ino, u32)>) -> Result<Attr> {
        let locked = Locked::one(self.vol, dir)?;
        if Dir::seen(&locked, dir)?.inode.flags.contains(InodeFlags::IMMUTABLE) {
            return Err(Error::NotPermitted("the directory is immutable"));
        }
        self.make_unnamed(locked, dir, &plain(FileType::Regular, mode, caller), like)
    }

    /// As [`Namespace::tmpfile`], for what the volume itself writes in between: whatever the flags of the root
    /// directory are.
    pub(crate) fn own_tmpfile(self) -> Result<Ino> {
        let new = plain(FileType::Regular, 0o600, Caller::default());
        Ok(self.make_unnamed(Locked::one(self.vol, ROOT)?, ROOT, &new, None)?.ino)
    }

    fn make_unnamed(
        self,
        mut locked: Locked<'_>,
        dir: Ino,
        new: &NewInode<'_>,
        like: Option<(Ino, u32)>,
    ) -> Result<Attr> {
        self.vol.check_writable()?;
        let caller = new.caller;
        let (inherited, needs) = new.plan(&mut locked, dir)?;
        let cost = Cost {
            journal: needs.journal + orphan::COST,
            blocks: needs.blocks,
            need: behalf::of_owner(&self.vol.shared.sb, caller),
        };
        let mut op = Op::begin(self.vol, locked.into_guards(), cost)?;
        let ino = init::make(&mut op, dir, new, &inherited)?;
        let inode = op.inode_mut(ino)?;
        inode.links = 0;
        if let Some(generation) = like.and_then(|(other, its)| self.vol.shared.sb.generation_like(ino, other, its)) {
            inode.generation = generation;
        }
        orphan::add(&mut op, ino)?;
        op.open_unnamed(ino)?;
        let attr = self.vol.attr(ino, op.inode(ino)?)?;
        op.close()?;
        Ok(attr)
    }
}
