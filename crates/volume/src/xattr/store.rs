//! Where attributes lie, and how a change of one is laid out and staged.

use crate::op::{Op, Reader};
use crate::{Error, Ino, Result, Volume, kind};
use ondol_format::xattr::{
    MAGIC, RawHeader, Xattr, block_fits, inode_fits, parse_block, parse_inode, refcount, write_block, write_inode,
};
use ondol_format::{Compat, Inode, Place, RawSuperblock};
use ondol_journal::Extent;
use std::mem::offset_of;

/// Journal blocks that [`free`] may change beside the inode itself: the block, or its bitmap and descriptor.
pub(crate) const FREE_COST: u32 = 2;

/// Journal blocks of one change: the inode, the block left, the block gained with bitmap and descriptor, the superblock.
pub(crate) const SET_COST: u32 = 6;

/// One attribute to be set (or, without a value, removed), in the format's terms.
pub(crate) struct Change<'n> {
    /// The number of the prefix.
    pub(crate) number: u8,
    /// The name behind the prefix.
    pub(crate) name: &'n [u8],
    /// The value as it is stored.
    pub(crate) value: Option<Vec<u8>>,
    /// The permission bits that go with it.
    pub(crate) perm: Option<u16>,
}

impl<'n> Change<'n> {
    /// A removal.
    pub(crate) fn remove(number: u8, name: &'n [u8]) -> Self {
        Self { number, name, value: None, perm: None }
    }
}

/// The attributes of one inode, by where they lie.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Attrs {
    inline: Vec<Xattr>,
    block: Vec<Xattr>,
}

impl Attrs {
    /// Reads them.
    pub(super) fn read(reader: &mut dyn Reader, ino: Ino, inode: &Inode) -> Result<Self> {
        let place = Place::inode(ino);
        let bad = |e: ondol_format::FormatError| {
            Error::corrupt(format!("attributes of inode {ino}"), inode.file_acl, e.to_string())
        };
        let inline = parse_inode(&inode.tail, place).map_err(bad)?;
        let block = match inode.file_acl {
            0 => Vec::new(),
            at => parse_block(&read_block(reader, ino, at)?, place.in_block(at)).map_err(bad)?,
        };
        Ok(Self { inline, block })
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Xattr> {
        self.inline.iter().chain(&self.block)
    }

    /// The attribute of this name.
    pub(super) fn find(&self, number: u8, name: &[u8]) -> Option<&Xattr> {
        self.iter().find(|x| is(x, number, name))
    }

    /// As they lie after a change: in the inode if there is room, otherwise in the block.
    fn after(&self, change: &Change<'_>, tail: usize, block_size: usize) -> Result<Self> {
        let mut after = self.clone();
        after.inline.retain(|x| !is(x, change.number, change.name));
        after.block.retain(|x| !is(x, change.number, change.name));
        let Some(value) = &change.value else { return Ok(after) };
        let new = Xattr::new(change.number, change.name, value.as_slice());
        after.inline.push(new);
        if inode_fits(&after.inline, tail) {
            return Ok(after);
        }
        after.block.extend(after.inline.pop());
        if block_fits(&after.block, block_size) {
            return Ok(after);
        }
        Err(Error::NoSpace("extended attributes of one inode"))
    }
}

/// Whether an inode can have attributes, as far as a glance at it tells.
pub(super) fn may_have_any(inode: &Inode) -> bool {
    inode.file_acl != 0 || inode.tail.first_chunk().is_some_and(|word| u32::from_le_bytes(*word) == MAGIC)
}

/// Bytes for attributes in an inode: none if its extra fields, which would precede them, have no size.
fn tail_room(inode: &Inode) -> usize {
    if inode.extra_isize > 0 { inode.tail.len() } else { 0 }
}

fn is(xattr: &Xattr, number: u8, name: &[u8]) -> bool {
    xattr.name_index == number && xattr.name == name
}

fn read_block(reader: &mut dyn Reader, ino: Ino, at: u64) -> Result<ondol_journal::Block> {
    let shared = &reader.volume().shared;
    if !shared.sb.contains_blocks(&(at..at.saturating_add(1))) || shared.groups.touches_metadata(at, 1) {
        return Err(Error::corrupt(format!("inode {ino}"), at, "its xattr block cannot lie there"));
    }
    reader.block(at, kind::XATTR)
}

/// Inodes that share the xattr block `at`.
fn users(reader: &mut dyn Reader, ino: Ino, at: u64) -> Result<u32> {
    let bytes = read_block(reader, ino, at)?;
    let bad = |e: ondol_format::FormatError| Error::corrupt("xattr block", at, e.to_string());
    match refcount(&bytes, Place::inode(ino).in_block(at)).map_err(bad)? {
        0 => Err(Error::corrupt("xattr block", at, format!("inode {ino} uses it, but its reference count is 0"))),
        n => Ok(n),
    }
}

/// Blocks that a change has to be promised.
///
/// # Errors
/// `NoSpace` when the attribute does not fit into one block; corruption.
pub(crate) fn blocks_needed(reader: &mut dyn Reader, ino: Ino, inode: &Inode, change: &Change<'_>) -> Result<u64> {
    let block_size = reader.volume().shared.sb.block_size() as usize;
    let before = Attrs::read(reader, ino, inode)?;
    let after = before.after(change, tail_room(inode), block_size)?;
    if after.block.is_empty() || after.block == before.block {
        return Ok(0);
    }
    let own = inode.file_acl != 0 && users(reader, ino, inode.file_acl)? == 1;
    Ok(u64::from(!own))
}

/// Blocks that these attributes, as the first of a new inode, have to be promised.
///
/// # Errors
/// `NoSpace` when they do not fit.
pub(super) fn fits_new(vol: &Volume, changes: &[Change<'_>]) -> Result<u64> {
    let sb = &vol.shared.sb;
    let fresh = Inode::new(sb.want_extra_isize(), &vol.shared.inode_format);
    let mut attrs = Attrs::default();
    for change in changes {
        attrs = attrs.after(change, tail_room(&fresh), sb.block_size() as usize)?;
    }
    Ok(u64::from(!attrs.block.is_empty()))
}

/// Stages a change of a locked inode's attributes; none if an attribute to be removed is not there.
///
/// # Errors
/// `NoSpace` when it does not fit; corruption.
pub(crate) fn change(op: &mut Op<'_>, ino: Ino, change: &Change<'_>) -> Result<()> {
    let block_size = op.vol().shared.sb.block_size() as usize;
    let inode = op.inode(ino)?.clone();
    let before = Attrs::read(op, ino, &inode)?;
    let after = before.after(change, tail_room(&inode), block_size)?;
    if after.inline != before.inline {
        let fits = write_inode(&after.inline, &mut op.inode_mut(ino)?.tail);
        fits.map_err(|_| Error::NoSpace("extended attributes of one inode"))?;
    }
    if after.block != before.block {
        put_block(op, ino, &after.block)?;
    }
    if change.value.is_some() {
        announce(op)?;
    }
    Ok(())
}

/// Gives a locked inode a block with these attributes: its own, changed in place, or a new one.
fn put_block(op: &mut Op<'_>, ino: Ino, list: &[Xattr]) -> Result<()> {
    if list.is_empty() {
        return free(op, ino);
    }
    let mut bytes = vec![0; op.vol().shared.sb.block_size() as usize];
    write_block(list, 1, &mut bytes).map_err(|_| Error::NoSpace("extended attributes of one inode"))?;
    let old = op.inode(ino)?.file_acl;
    if old != 0 && !leave_shared(op, ino, old)? {
        // In place: the block is nobody else's.
        return Ok(op.handle()?.edit(old, kind::XATTR, |block| block.copy_from_slice(&bytes))?);
    }
    let sb = &op.vol().shared.sb;
    let (group, sectors) = (sb.group_of_inode(ino).map_or(0, |(g, _)| g), u64::from(sb.block_size() / 512));
    let goal = sb.group_first_block(group);
    let new = op.alloc_blocks(goal, 1)?.start;
    let handle = op.handle()?;
    handle.fresh(new, kind::XATTR)?;
    handle.write(new, kind::XATTR, 0, &bytes)?;
    let inode = op.inode_mut(ino)?;
    inode.file_acl = new;
    if old == 0 {
        inode.blocks = inode.blocks.saturating_add(sectors);
    }
    Ok(())
}

/// Gives up a locked inode's xattr block, which is freed with its last user. The attributes in the inode stay.
///
/// # Errors
/// Corruption of the block.
pub(crate) fn free(op: &mut Op<'_>, ino: Ino) -> Result<()> {
    let at = op.inode(ino)?.file_acl;
    if at == 0 {
        return Ok(());
    }
    if !leave_shared(op, ino, at)? {
        op.free_blocks(Extent { start: at, len: 1 }, kind::XATTR)?;
    }
    let sectors = u64::from(op.vol().shared.sb.block_size() / 512);
    let inode = op.inode_mut(ino)?;
    inode.file_acl = 0;
    inode.blocks = inode.blocks.saturating_sub(sectors);
    Ok(())
}

/// Takes one user off the reference count of a block; false, and no change, if the inode is its only user.
fn leave_shared(op: &mut Op<'_>, ino: Ino, at: u64) -> Result<bool> {
    if users(op, ino, at)? == 1 {
        return Ok(false);
    }
    // Counts only go down here, but two inodes may leave at once: the last one must know that it is.
    op.orphans.hold();
    if users(op, ino, at)? == 1 {
        return Ok(false);
    }
    op.handle()?.add(at, kind::XATTR, offset_of!(RawHeader, h_refcount), 4, -1)?;
    Ok(true)
}

/// Sets EXT_ATTR on a volume that had no attributes so far.
fn announce(op: &mut Op<'_>) -> Result<()> {
    let sb = &op.vol().shared.sb;
    if sb.has_compat(Compat::EXT_ATTR) {
        return Ok(());
    }
    let (block, at) = sb.superblock_location();
    let at = (at + offset_of!(RawSuperblock, s_feature_compat)) as u32 * 8;
    Ok(op.handle()?.set_bits(block, kind::SUPERBLOCK, at + Compat::EXT_ATTR.bits().trailing_zeros(), 1)?)
}
