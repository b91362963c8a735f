//! Openers, and the end of inodes that have neither openers nor names.

use super::COST;
use crate::alloc::Need;
use crate::node::NodeGuard;
use crate::op::{Cost, Op};
use crate::{Attr, Error, Ino, InodeOps, Result, file, xattr};
use ondol_env::sync::atomic::Ordering::SeqCst;

/// Journal blocks of the last step of a deletion: the inode, its bitmap and descriptor, xattrs, the orphan entry.
const LAST: u32 = 3 + xattr::FREE_COST + COST;
/// Journal blocks that one step of freeing contents asks for.
const STEP: u32 = 64;

impl<'v> InodeOps<'v> {
    /// Counts an opener: an inode that loses its last name lives until the last [`InodeOps::release`]. An inode without
    /// names can be opened as long as somebody has it open.
    ///
    /// # Errors
    /// `NotFound`, corruption, or the store's failure.
    pub fn open(self, ino: Ino) -> Result<Attr> {
        let node = self.vol.node(ino)?;
        let state = node.read()?;
        let attr = self.vol.attr(ino, &state.inode)?;
        // Under the inode's lock: a deletion has either begun, and the inode is gone, or will see this opener.
        node.opens.fetch_add(1, SeqCst);
        Ok(attr)
    }

    /// Undoes one [`InodeOps::open`]; the last one deletes an inode that has no names.
    ///
    /// # Errors
    /// `Invalid` if the inode is not open; as a deletion, which the next mount then finishes.
    pub fn release(self, ino: Ino) -> Result<()> {
        const NOT_OPEN: Error = Error::Invalid("release of an inode that is not open");
        let node = match self.vol.nodes.cached(ino) {
            Some(node) => node,
            None if self.vol.nodes.is_open_elsewhere(ino) => self.vol.node(ino)?,
            None => return Err(NOT_OPEN),
        };
        let before = node.opens.fetch_update(SeqCst, SeqCst, |n| n.checked_sub(1)).map_err(|_| NOT_OPEN)?;
        if before > 2 {
            return Ok(());
        }
        let nameless = node.read().is_ok_and(|state| state.inode.links == 0);
        if before == 2 && nameless {
            self.vol.lookups.changed(self.vol.env.monotonic_ns());
        }
        if before == 2 || !nameless || self.vol.is_read_only() {
            return Ok(());
        }
        self.delete_orphan(ino)
    }

    /// Deletes an inode that has no names and no openers: frees its contents in steps, then its xattrs, the inode and
    /// its orphan entry. Nothing happens if it is open, has a name, or is gone already. A crash between two steps
    /// leaves an orphan, which the next mount deletes.
    ///
    /// # Errors
    /// Corruption, or the journal's failure; the inode is then still an orphan.
    pub(crate) fn delete_orphan(self, ino: Ino) -> Result<()> {
        let node = match self.vol.nodes.cached(ino) {
            Some(node) => node,
            None if self.vol.orphans.contains(ino) => {
                self.vol.nodes.get_orphan(&self.vol.shared, &*self.vol.engine, ino).map_err(|e| self.vol.noted(e))?
            }
            None => return Ok(()),
        };
        let Ok(guard) = node.write() else { return Ok(()) };
        if guard.state.inode.links > 0 || node.opens.load(SeqCst) > 0 {
            return Ok(());
        }
        self.delete_locked(guard).map_err(|e| self.vol.noted(e))
    }

    /// Deletes an inode without names.
    pub(crate) fn delete_locked(self, mut guard: NodeGuard) -> Result<()> {
        let ino = guard.node.ino;
        let mut op = loop {
            let mut op = self.free_contents(self.vol.xattrs().release_values(guard)?)?;
            // Meanwhile the others that had its xattr block may have left it.
            if !xattr::still_names_values(&mut op, ino)? {
                break op;
            }
            guard = op.close_holding(ino)?;
        };
        xattr::free(&mut op, ino)?;
        super::remove(&mut op, ino)?;
        op.free_inode(ino)?;
        op.close().map(|_| ())
    }

    /// Frees the contents of a locked inode in as many operations as it takes. The last is returned open, with room for
    /// [`LAST`] more journal blocks.
    fn free_contents(self, guard: NodeGuard) -> Result<Op<'v>> {
        let ino = guard.node.ino;
        let journal = (LAST + STEP).min(self.vol.engine.max_blocks()).max(LAST);
        let mut guards = vec![guard];
        loop {
            let mut op = Op::begin(self.vol, guards, Cost { journal, blocks: 0, need: Need::ToFree })?;
            let done = !file::has_blocks(op.inode(ino)?) || file::shrink(&mut op, ino, 0)?;
            let handle = op.handle()?;
            let missing = LAST.saturating_sub(handle.credits().left);
            if done && (missing == 0 || handle.extend(missing)) {
                return Ok(op);
            }
            if handle.is_empty() {
                return Err(Error::Invalid("the journal is too small to free a file"));
            }
            guards = op.close_keeping()?.1;
        }
    }
}
