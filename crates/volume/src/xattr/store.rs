//! Where attributes lie, and how a change of one is laid out and staged.

use super::value;
use crate::alloc::Need;
use crate::op::{Cost, Op, Reader};
use crate::{Error, Ino, Result, Volume, kind};
use ondol_env::sync::Arc;
use ondol_format::xattr::{
    MAGIC, RawHeader, VALUE_MAX, Xattr, block_fits, inode_fits, parse_block, parse_inode, refcount, value_entry_hash,
    write_block, write_inode,
};
use ondol_format::{Compat, Incompat, Inode, Place, RawSuperblock};
use ondol_journal::{Extent, Merge};
use std::mem::offset_of;

/// Journal blocks that [`free`] may change beside the inode itself: the block, or its bitmap and descriptor.
pub(crate) const FREE_COST: u32 = 2;

/// Journal blocks of one change: the inode, the block left, the block gained with bitmap and descriptor, the
/// superblock.
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
    pub(super) inline: Vec<Xattr>,
    pub(super) block: Vec<Xattr>,
}

/// A change, laid out.
struct Layout {
    after: Attrs,
    /// The new value lies in an inode that is still to be made: the entry has this place holder.
    large: bool,
}

/// In place of the number of an inode that is still to be made.
const TO_BE_MADE: Ino = Ino::MAX;

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

    /// As they lie after a change: in the inode if there is room, otherwise in the block; the value in an inode of its
    /// own if there is no other room, and the volume has such.
    fn after(&self, change: &Change<'_>, vol: &Volume, tail: usize) -> Result<Layout> {
        const FULL: Error = Error::NoSpace("extended attributes of one inode");
        let mut rest = self.clone();
        rest.inline.retain(|x| !is(x, change.number, change.name));
        rest.block.retain(|x| !is(x, change.number, change.name));
        let Some(value) = &change.value else { return Ok(Layout { after: rest, large: false }) };
        if value.len() > VALUE_MAX {
            return Err(FULL);
        }
        let block_size = vol.shared.sb.block_size() as usize;
        let new = Xattr::new(change.number, change.name, value.as_slice());
        if let Some(after) = rest.with(&new, tail, block_size) {
            return Ok(Layout { after, large: false });
        }
        let named = Xattr { value: Vec::new(), value_inum: TO_BE_MADE, ..new };
        let after = rest.with(&named, tail, block_size).filter(|_| value::enabled(vol) && !value.is_empty());
        after.map(|after| Layout { after, large: true }).ok_or(FULL)
    }

    /// With a further one, if there is room.
    fn with(&self, new: &Xattr, tail: usize, block_size: usize) -> Option<Self> {
        let mut after = self.clone();
        after.inline.push(new.clone());
        if inode_fits(&after.inline, tail) {
            return Some(after);
        }
        after.block.extend(after.inline.pop());
        block_fits(&after.block, block_size).then_some(after)
    }

    /// Names the inode that has been made for a value.
    fn name_value(&mut self, ino: Ino, hash: u32) {
        for xattr in self.inline.iter_mut().chain(&mut self.block).filter(|x| x.value_inum == TO_BE_MADE) {
            xattr.value_inum = ino;
            xattr.hash = value_entry_hash(&xattr.name, hash);
        }
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
pub(super) fn users(reader: &mut dyn Reader, ino: Ino, at: u64) -> Result<u32> {
    let bytes = read_block(reader, ino, at)?;
    let bad = |e: ondol_format::FormatError| Error::corrupt("xattr block", at, e.to_string());
    match refcount(&bytes, Place::inode(ino).in_block(at)).map_err(bad)? {
        0 => Err(Error::corrupt("xattr block", at, format!("inode {ino} uses it, but its reference count is 0"))),
        n => Ok(n),
    }
}

/// What a change takes.
///
/// # Errors
/// `NoSpace` when the attribute does not fit; corruption.
pub(crate) fn needs(reader: &mut dyn Reader, ino: Ino, inode: &Inode, change: &Change<'_>) -> Result<Cost> {
    let before = Attrs::read(reader, ino, inode)?;
    let Layout { after, large } = before.after(change, reader.volume(), tail_room(inode))?;
    let mut cost = Cost { journal: SET_COST + value::reference_cost(&before), blocks: 0, need: Need::Ordinary };
    if let Some(value) = change.value.as_ref().filter(|_| large) {
        let creation = value::creation_cost(reader, value.len())?;
        cost.journal += creation.journal;
        cost.blocks += creation.blocks;
    }
    if !after.block.is_empty() && after.block != before.block {
        let own = inode.file_acl != 0 && users(reader, ino, inode.file_acl)? == 1;
        cost.blocks += u64::from(!own);
    }
    Ok(cost)
}

/// What these attributes, as the first of a new inode, take beside the inode.
///
/// # Errors
/// `NoSpace` when they do not fit.
pub(super) fn needs_of_new(reader: &mut dyn Reader, changes: &[Change<'_>]) -> Result<Cost> {
    if changes.is_empty() {
        return Ok(Cost { journal: 0, blocks: 0, need: Need::Ordinary });
    }
    let shared = &reader.volume().shared;
    let fresh = Inode::new(shared.sb.want_extra_isize(), &shared.inode_format);
    // Where contents begin in the inode, they may leave no room there.
    let tail = if shared.sb.has_incompat(Incompat::INLINE_DATA) { 0 } else { tail_room(&fresh) };
    let (mut attrs, mut cost) = (Attrs::default(), Cost { journal: 0, blocks: 0, need: Need::Ordinary });
    for change in changes {
        let Layout { after, large } = attrs.after(change, reader.volume(), tail)?;
        if let Some(value) = change.value.as_ref().filter(|_| large) {
            let creation = value::creation_cost(reader, value.len())?;
            cost.journal += creation.journal + value::reference_cost(&after);
            cost.blocks += creation.blocks;
        }
        attrs = after;
    }
    cost.blocks += u64::from(!attrs.block.is_empty());
    cost.journal += if cost.blocks > 0 { SET_COST } else { 0 };
    Ok(cost)
}

/// Stages a change of a locked inode's attributes; none if an attribute to be removed is not there.
///
/// # Errors
/// `NoSpace` when it does not fit; corruption.
pub(crate) fn change(op: &mut Op<'_>, ino: Ino, change: &Change<'_>) -> Result<()> {
    let inode = op.inode(ino)?.clone();
    let before = Attrs::read(op, ino, &inode)?;
    let Layout { mut after, large } = before.after(change, op.vol(), tail_room(&inode))?;
    if let Some(value) = change.value.as_ref().filter(|_| large) {
        let (made, hash) = value::create(op, ino, value)?;
        after.name_value(made, hash);
    }
    count_values(op, ino, &before, &after)?;
    let (less, more) = (value::sectors(op.vol(), &before), value::sectors(op.vol(), &after));
    if less != more {
        let inode = op.inode_mut(ino)?;
        inode.blocks = inode.blocks.saturating_sub(less).saturating_add(more);
    }
    if after.inline != before.inline {
        let fits = write_inode(&after.inline, Arc::make_mut(&mut op.inode_mut(ino)?.tail));
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

fn count_values(op: &mut Op<'_>, ino: Ino, before: &Attrs, after: &Attrs) -> Result<()> {
    if !before.iter().chain(after.iter()).any(Xattr::in_inode) {
        return Ok(());
    }
    // Whether others have the block must not change before it is left.
    op.orphans.hold();
    let at = op.inode(ino)?.file_acl;
    let shared = at != 0 && users(op, ino, at)? > 1;
    value::count(op, value::differences(before, after, shared))
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
    let (group, sectors) = (sb.group_of_inode(ino).map_or(0, |(g, _)| g), sectors(op));
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
    let sectors = sectors(op);
    let inode = op.inode_mut(ino)?;
    inode.file_acl = 0;
    inode.blocks = inode.blocks.saturating_sub(sectors);
    Ok(())
}

/// What an inode counts for its block, which has a cluster to itself: units of 512 bytes.
fn sectors(op: &Op<'_>) -> u64 {
    let sb = &op.vol().shared.sb;
    u64::from(sb.cluster_ratio()) * u64::from(sb.block_size() / 512)
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
    op.handle()?.merge(
        at,
        kind::XATTR,
        Merge::Add { offset: offset_of!(RawHeader, h_refcount), width: 4, delta: -1 },
    )?;
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
    Ok(op.handle()?.merge(
        block,
        kind::SUPERBLOCK,
        Merge::Set { first: at + Compat::EXT_ATTR.bits().trailing_zeros(), count: 1 },
    )?)
}
