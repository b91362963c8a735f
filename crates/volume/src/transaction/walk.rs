//! From names to locked inodes, as the steps so far have left them.

use super::Trail;
use super::attempt::{Attempt, Tried};
use crate::dir::ops::{find, find_in};
use crate::dir::{Entry, Search};
use crate::{Error, Ino, ROOT, Result};
use ondol_format::Inode;

impl Attempt<'_, '_> {
    /// Locks the directories from the root to the one that `trail` leads to; the last is that directory.
    fn walk(&mut self, trail: &[Vec<u8>]) -> Tried<Vec<Ino>> {
        let mut above = vec![ROOT];
        self.hold(ROOT, self.is_changed(&[]))?;
        let mut dir = ROOT;
        for (i, name) in trail.iter().enumerate() {
            dir = self.find(dir, name)?.found()?.ino;
            self.hold(dir, self.is_changed(&trail[..=i]))?;
            not_followed(self.inode(dir)?)?;
            above.push(dir);
        }
        Ok(above)
    }

    fn is_changed(&self, trail: &[Vec<u8>]) -> bool {
        self.plan.changed.contains(trail)
    }

    /// A locked inode.
    fn inode(&self, ino: Ino) -> Result<&Inode> {
        match self.shared.get(&ino) {
            Some(state) => Ok(&state.inode),
            None => self.op.inode(ino),
        }
    }

    fn find(&mut self, dir: Ino, name: &[u8]) -> Result<Search> {
        match self.shared.get(&dir) {
            Some(state) => find_in(&mut self.op, dir, &state.inode, name),
            None => find(&mut self.op, dir, name),
        }
    }

    /// The directory in which a name is to be made, moved or removed, locked for that, with everything above it; and
    /// the name.
    pub(super) fn parent<'t>(&mut self, trail: &'t Trail) -> Tried<(Vec<Ino>, Ino, &'t [u8])> {
        let Some((name, parents)) = trail.split_last() else {
            return Err(Error::Invalid("the root directory has no name").into());
        };
        let above = self.walk(parents)?;
        let dir = above.last().copied().unwrap_or(ROOT);
        // A step before this one may have moved a directory here that was locked under its old name.
        self.hold(dir, true)?;
        if !self.inode(dir)?.is_dir() {
            return Err(Error::NotDirectory(dir).into());
        }
        Ok((above, dir, name))
    }

    /// The entry of a name, with its inode locked exclusively.
    pub(super) fn entry(&mut self, dir: Ino, name: &[u8]) -> Tried<Entry> {
        let entry = self.find(dir, name)?.found()?;
        self.hold(entry.ino, true)?;
        Ok(entry)
    }

    /// The inode that a trail leads to, locked exclusively, to be changed: `std::fs` would follow a symbolic link.
    pub(super) fn target(&mut self, trail: &Trail) -> Tried<Ino> {
        let ino = self.named(trail)?;
        not_followed(self.inode(ino)?)?;
        Ok(ino)
    }

    /// The inode that a trail leads to, a symbolic link too, locked exclusively.
    pub(super) fn named(&mut self, trail: &Trail) -> Tried<Ino> {
        let Some((name, parents)) = trail.split_last() else {
            self.hold(ROOT, true)?;
            return Ok(ROOT);
        };
        let above = self.walk(parents)?;
        let dir = above.last().copied().unwrap_or(ROOT);
        Ok(self.entry(dir, name)?.ino)
    }
}

fn not_followed(inode: &Inode) -> Result<()> {
    if inode.is_symlink() {
        return Err(Error::Invalid("a transaction does not follow symbolic links"));
    }
    Ok(())
}
