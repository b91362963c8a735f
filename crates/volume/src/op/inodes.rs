//! Inodes that an operation makes and frees.

use super::{Op, OpNode};
use crate::{Error, Ino, Result, kind};
use ondol_env::sync::atomic::Ordering::SeqCst;
use ondol_format::Inode;
use ondol_format::group::GroupDesc;
use ondol_format::inode::InodeFlags;
use ondol_journal::Merge;

impl Op<'_> {
    /// Takes an inode number near `parent` and makes a new inode of it, locked and part of this operation. The caller
    /// fills in everything but generation and times.
    ///
    /// # Errors
    /// `NoSpace`; corruption of a bitmap.
    pub(crate) fn alloc_inode(&mut self, parent: Ino, dir: bool) -> Result<Ino> {
        let vol = self.vol;
        let shared = &vol.shared;
        // Directories of a top directory (the root, or `chattr +T`) belong to different things.
        let top = parent == crate::ROOT || self.inode(parent)?.flags.contains(InodeFlags::TOPDIR);
        let ino = shared.groups.take_inode(&shared.sb, &*vol.engine, parent, dir.then_some(top))?;
        let mut inode = Inode::new(shared.sb.want_extra_isize(), &shared.inode_format);
        // Who knows some must not know others: with its number it names the file, as in handles of NFS.
        inode.generation = vol.env.random_u32();
        let now = crate::time::to_disk(self.now);
        (inode.atime, inode.ctime, inode.mtime, inode.crtime) = (now, now, now, now);
        make_inode(self, ino, inode, dir)?;
        Ok(ino)
    }

    /// Counts an opener of an inode that the operation has made, and lets it get its first name later. Dropping the
    /// operation takes the inode away.
    ///
    /// # Errors
    /// The operation does not hold it.
    pub(crate) fn open_unnamed(&mut self, ino: Ino) -> Result<()> {
        let node = &self.nodes[self.find(ino)?].guard.node;
        node.opens.fetch_add(1, SeqCst);
        node.linkable.store(true, SeqCst);
        Ok(())
    }

    /// Names of a directory are about to change.
    pub(crate) fn forget_names(&self, ino: Ino) -> Result<()> {
        self.nodes[self.find(ino)?].guard.node.names.forget();
        Ok(())
    }

    /// A directory is about to get another parent: whoever goes up from it waits until it has.
    pub(crate) fn forget_parent(&self, ino: Ino) -> Result<()> {
        self.nodes[self.find(ino)?].guard.node.parent.store(0, SeqCst);
        self.vol.moves.fetch_add(1, SeqCst);
        Ok(())
    }

    /// What has lost its last name gets none again.
    pub(crate) fn not_linkable(&mut self, ino: Ino) -> Result<()> {
        self.nodes[self.find(ino)?].guard.node.linkable.store(false, SeqCst);
        Ok(())
    }

    /// Makes a new inode of this free number, locked and part of this operation.
    ///
    /// # Errors
    /// `Invalid` if it is in use; corruption of a bitmap.
    pub(crate) fn take_inode(&mut self, ino: Ino, inode: Inode) -> Result<()> {
        let shared = &self.vol.shared;
        shared.groups.claim_inode(&shared.sb, &*self.vol.engine, ino)?;
        let dir = inode.is_dir();
        make_inode(self, ino, inode, dir)
    }

    /// Frees a locked inode, whose blocks are freed already.
    ///
    /// # Errors
    /// Corruption: the inode is not in use.
    pub(crate) fn free_inode(&mut self, ino: Ino) -> Result<()> {
        let vol = self.vol;
        vol.shared.groups.check_freeing_inode(&vol.shared.sb, &*vol.engine, ino)?;
        let seconds = self.now.sec.clamp(1, i64::from(u32::MAX)) as u32;
        let inode = self.inode_mut(ino)?;
        let dir = inode.is_dir();
        (inode.dtime, inode.links, inode.size) = (seconds, 0, 0);
        let at = self.find(ino)?;
        self.nodes[at].freed = true;
        self.freed_inodes.push((ino, dir));
        mark_inode(self, ino, dir, false)
    }
}

/// Makes an inode of a number that the operation has taken.
fn make_inode(op: &mut Op<'_>, ino: Ino, inode: Inode, dir: bool) -> Result<()> {
    let vol = op.vol;
    op.taken_inodes.push((ino, dir));
    mark_inode(op, ino, dir, true)?;
    zero_inode_table(op, ino)?;
    vol.shared.inode_replaced(ino);
    let guard = vol.nodes.create(ino, inode.clone()).write()?;
    op.push(OpNode { guard, inode, dirty: true, created: true, freed: false });
    op.changes_table(ino)
}

/// Marks an inode used or free.
fn mark_inode(op: &mut Op<'_>, ino: Ino, dir: bool, used: bool) -> Result<()> {
    let shared = &op.vol.shared;
    let (g, index) = shared.sb.group_of_inode(ino).ok_or(Error::NotFound)?;
    let (block, kind) = (shared.groups.get(g)?.inode_bitmap, kind::inode_bitmap(g));
    let handle = op.handle()?;
    if used {
        handle.merge(block, kind, Merge::Set { first: index, count: 1 })?;
    } else {
        handle.merge(block, kind, Merge::Clear { first: index, count: 1 })?;
    }
    let dirs = if dir { 1 } else { 0 };
    op.touch_descriptor(g, if used { dirs } else { -dirs })
}

/// Zeroes the unused end of a group's inode table before its first inode is taken from it, so that no garbage can
/// ever pass for an inode.
fn zero_inode_table(op: &mut Op<'_>, ino: Ino) -> Result<()> {
    let vol = op.vol;
    let sb = &vol.shared.sb;
    let (g, _) = sb.group_of_inode(ino).ok_or(Error::NotFound)?;
    let info = vol.shared.groups.get(g)?;
    if info.inodes_zeroed() {
        return Ok(());
    }
    let busy = info.busy.lock();
    if info.inodes_zeroed() {
        return Ok(());
    }
    let (gdt, offset) = sb.gdt().location(g);
    let first = g - g % sb.gdt().desc_per_block();
    let descs = vol.engine.read(gdt, kind::group_descs(first))?;
    let size = usize::from(sb.gdt().desc_size());
    let desc = GroupDesc::parse(descs.get(offset..offset + size).unwrap_or_default());
    let desc = desc.map_err(|e| Error::corrupt("group descriptor", gdt, e.to_string()))?;
    let unused = if info.inode_uninit() { sb.inodes_per_group() } else { desc.itable_unused };
    let zeros = vec![0; sb.block_size() as usize * 64];
    let mut left = desc.table_end(sb, unused);
    while !left.is_empty() {
        let n = (left.end - left.start).min(64);
        vol.engine.write_data(left.start, 0, &zeros[..n as usize * sb.block_size() as usize])?;
        left.start += n;
    }
    info.set_inodes_zeroed();
    drop(busy);
    let flag = (offset + ondol_format::group::FLAGS_OFFSET) as u32 * 8 + INODE_ZEROED_BIT;
    Ok(op.handle()?.merge(gdt, kind::group_descs(first), Merge::Set { first: flag, count: 1 })?)
}

/// Bit number of INODE_ZEROED in the descriptor's flags.
const INODE_ZEROED_BIT: u32 = ondol_format::group::INODE_ZEROED.trailing_zeros();
