//! lookup, readlink, readdir.

use super::{check_name, find_in};
use crate::dir::lock::dangling;
use crate::dir::{Dir, read};
use crate::file::{self, Mapped};
use crate::inline::{self, is_inline};
use crate::node::Node;
use crate::op::Reader;
use crate::{Attr, DirEntry, Error, Ino, Namespace, Result, kind};
use ondol_format::Inode;

/// How often a look-up that meets a writer begins anew before it does without the directory's lock.
const TRIES: usize = 4;

impl Namespace<'_> {
    /// The inode that `name` leads to in directory `parent`; also for "." and "..".
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `NameTooLong`, `Invalid` name; corruption, or the store's failure.
    pub fn lookup(self, parent: Ino, name: &[u8]) -> Result<Attr> {
        self.try_lookup(parent, name).map_err(|e| self.vol.noted(e))
    }

    fn try_lookup(self, parent: Ino, name: &[u8]) -> Result<Attr> {
        check_name(name)?;
        for _ in 0..TRIES {
            let node = self.vol.node(parent)?;
            let state = node.read()?;
            let ino = self.find(&node, &state.inode, name)?;
            if ino == parent {
                return self.vol.attr(ino, &state.inode);
            }
            let child = self.vol.node(ino).map_err(|e| dangling(e, ino))?;
            // Waiting for an inode here could be out of the lock order.
            if let Some(found) = child.try_read().map_err(|e| dangling(e, ino))? {
                return self.vol.attr(ino, &found.inode);
            }
            drop(state);
            drop(child.read());
        }
        let node = self.vol.node(parent)?;
        let state = node.read()?;
        let child = self.vol.node(self.find(&node, &state.inode, name)?)?;
        drop(state);
        let found = child.read()?;
        self.vol.attr(child.ino, &found.inode)
    }

    /// Which inode a name of a locked directory leads to.
    fn find(self, parent: &Node, inode: &Inode, name: &[u8]) -> Result<Ino> {
        match name {
            b"." => Dir::new(self.vol, parent.ino, inode).map(|_| parent.ino),
            b".." => Ok(Dir::new(self.vol, parent.ino, inode)?.parent(&mut &*self.vol)?.0),
            name => {
                let search = find_in(&mut &*self.vol, parent.ino, inode, name)?;
                if let Some(found) = search.remembered() {
                    parent.names.keep(name, found);
                }
                Ok(search.found()?.ino)
            }
        }
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` for anything else than a symlink; corruption, or the store's failure.
    pub fn readlink(self, ino: Ino) -> Result<Vec<u8>> {
        let node = self.vol.node(ino)?;
        let state = node.read()?;
        let target = target(&mut &*self.vol, ino, &state.inode).map_err(|e| self.vol.noted(e))?;
        let stale = self.vol.files().atime_is_stale(&state.inode);
        drop(state);
        if stale {
            // An access time is not worth failing a look that has succeeded.
            self.vol
                .files()
                .update_atime(&node)
                .unwrap_or_else(|e| tracing::debug!("access time of symlink {ino}: {e}"));
        }
        Ok(target)
    }

    /// Calls `each` with the entries of a directory from `cookie` on (0 is the start; "." and ".." are among them)
    /// until it returns false or there are no more. The entry for which it returned false comes again with the same
    /// cookie. An entry that is there all the while is listed exactly once, whatever else is made, removed or renamed
    /// meanwhile. Cookies have 63 bits. `each` must not call the volume: the directory is locked.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`; corruption, or the store's failure.
    pub fn readdir(self, dir: Ino, cookie: u64, each: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        let node = self.vol.node(dir)?;
        let state = node.read()?;
        let listed =
            Dir::new(self.vol, dir, &state.inode).and_then(|dir| read::list(&mut &*self.vol, &dir, cookie, each));
        listed.map_err(|e| self.vol.noted(e))?;
        let stale = self.vol.files().atime_is_stale(&state.inode);
        drop(state);
        if stale {
            // An access time is not worth failing a listing that has succeeded.
            self.vol
                .files()
                .update_atime(&node)
                .unwrap_or_else(|e| tracing::debug!("access time of directory {dir}: {e}"));
        }
        Ok(())
    }
}

/// The target of a locked symlink.
fn target(reader: &mut dyn Reader, ino: Ino, inode: &Inode) -> Result<Vec<u8>> {
    if !inode.is_symlink() {
        return Err(Error::Invalid("not a symbolic link"));
    }
    if let Some(target) = inode.fast_symlink() {
        return Ok(target.to_vec());
    }
    if is_inline(inode) {
        return inline::contents(ino, inode);
    }
    let wrong = |block: u64, what: String| Error::corrupt(format!("symlink {ino}"), block, what);
    let Mapped::Written(block) = file::map(reader, ino, inode, 0)?.what else {
        return Err(wrong(0, "its target is a hole".into()));
    };
    let bytes = reader.block(block, kind::SYMLINK)?;
    let target = usize::try_from(inode.size).ok().filter(|&n| n > 0).and_then(|n| bytes.get(..n));
    target.map(<[u8]>::to_vec).ok_or_else(|| wrong(block, format!("a target of {} bytes", inode.size)))
}
