//! Values that lie in inodes of their own (ea_inode): written with the attribute in one operation, counted where
//! several entries share one (the kernel's do), deleted with the last.
//!
//! **Lock order**: such an inode has no name and is reached through its entries alone. It is locked when the operation
//! is open, for which nobody may wait: it is tried for a while, since whoever holds it is about to let go.

use super::store::{Attrs, Change, change, users};
use crate::alloc::Need;
use crate::file::plan::{Write, plan_write};
use crate::node::NodeGuard;
use crate::op::{Cost, Op, Reader};
use crate::{Error, Ino, Result, Volume, Xattrs, file, orphan};
use ondol_env::sync::thread;
use ondol_format::csum::crc32c;
use ondol_format::xattr::{
    VALUE_MAX, Xattr, init_value_inode, is_value_entry_hash, is_value_inode, set_value_refs, value_hash, value_refs,
    value_sectors,
};
use ondol_format::{Incompat, Inode};
use ondol_journal::Bytes;
use std::collections::BTreeMap;
use std::time::Duration;

/// How often, a millisecond apart, the lock of a value is asked for.
const LOCK_TRIES: u32 = 200;

/// Journal blocks of a new inode.
const INODE_COST: u32 = 3;

/// Whether the volume has values in inodes.
pub(super) fn enabled(vol: &Volume) -> bool {
    vol.shared.sb.has_incompat(Incompat::EA_INODE)
}

fn bad(ino: Ino, xattr: &Xattr, what: impl Into<String>) -> Error {
    Error::corrupt(
        format!("value of an attribute of inode {ino}"),
        0,
        format!("inode {}: {}", xattr.value_inum, what.into()),
    )
}

/// The value of an attribute, wherever it lies.
///
/// # Errors
/// The inode is not one that holds this value; the store's failure.
pub(super) fn read(vol: &Volume, ino: Ino, xattr: &Xattr) -> Result<Vec<u8>> {
    if !xattr.in_inode() {
        return Ok(xattr.value.clone());
    }
    let gone = |e| match e {
        Error::NotFound => bad(ino, xattr, "it is not in use"),
        e => e,
    };
    let node = vol.node(xattr.value_inum).map_err(gone)?;
    let state = node.read().map_err(gone)?;
    let inode = &state.inode;
    let size = xattr.value_size as usize;
    if !enabled(vol) || !is_value_inode(inode) || inode.size != u64::from(xattr.value_size) || size > VALUE_MAX {
        return Err(bad(ino, xattr, format!("{} bytes with flags {:#x}", inode.size, inode.flags.bits())));
    }
    let mut value = vec![0; size];
    vol.files().read_at(xattr.value_inum, inode, 0, &mut value)?;
    let hash = crc32c(vol.shared.sb.value_seed(), &value);
    if hash == value_hash(inode) && is_value_entry_hash(xattr.hash, &xattr.name, hash) {
        return Ok(value);
    }
    if inode.mtime.sec as u32 == ino && value_refs(inode) == 0 {
        return Err(Error::Unsupported("an attribute whose value lies in an inode as Lustre wrote it".into()));
    }
    Err(bad(ino, xattr, format!("hash {:#010x}, computed {hash:#010x}", value_hash(inode))))
}

/// What writing a new value of `len` bytes takes.
pub(super) fn creation_cost(reader: &mut dyn Reader, len: usize) -> Result<Cost> {
    let vol = reader.volume();
    let mut inode = Inode::new(0, &vol.shared.inode_format);
    file::init_mapping(vol, &mut inode);
    let cost = plan_write(reader, &Write { ino: 0, inode: &inode, offset: 0, len, only_bytes: false })?.cost;
    Ok(Cost { journal: cost.journal + INODE_COST, ..cost })
}

/// Journal blocks for the references of `attrs`: any of their values may be shared with a copy of the block, one may
/// go.
pub(super) fn reference_cost(attrs: &Attrs) -> u32 {
    match attrs.iter().filter(|x| x.in_inode()).count() as u32 {
        0 => 0,
        n => n + 1 + orphan::COST,
    }
}

/// Makes an inode that holds `value`, without references yet.
pub(super) fn create(op: &mut Op<'_>, owner: Ino, value: &[u8]) -> Result<(Ino, u32)> {
    let (uid, gid) = op.inode(owner).map(|inode| (inode.uid, inode.gid))?;
    let vol = op.vol();
    let hash = crc32c(vol.shared.sb.value_seed(), value);
    let ino = op.alloc_inode(owner, false)?;
    let vol = op.vol();
    let inode = op.inode_mut(ino)?;
    (inode.uid, inode.gid) = (uid, gid);
    init_value_inode(inode, hash);
    file::init_mapping(vol, inode);
    let inode = inode.clone();
    let plan = plan_write(op, &Write { ino, inode: &inode, offset: 0, len: value.len(), only_bytes: false })?;
    file::write::do_write(op, ino, 0, Bytes::Passing(value), plan.parts)?;
    set_value_refs(op.inode_mut(ino)?, 0);
    Ok((ino, hash))
}

/// What an inode has in `i_blocks` for the values it names, shared or not, as the kernel charges them to it.
pub(super) fn sectors(vol: &Volume, attrs: &Attrs) -> u64 {
    attrs.iter().map(|xattr| value_sectors(&vol.shared.sb, xattr)).sum()
}

/// How many entries more (or fewer) name each value after a change. `shared`: the old block stays as others have it.
pub(super) fn differences(before: &Attrs, after: &Attrs, shared: bool) -> BTreeMap<Ino, i64> {
    let mut changes = BTreeMap::new();
    let mut count = |list: &[Xattr], by: i64| {
        for xattr in list.iter().filter(|x| x.in_inode()) {
            *changes.entry(xattr.value_inum).or_insert(0) += by;
        }
    };
    count(&before.inline, -1);
    count(&after.inline, 1);
    if before.block != after.block {
        count(&before.block, if shared { 0 } else { -1 });
        count(&after.block, 1);
    }
    changes.retain(|_, by| *by != 0);
    changes
}

/// Counts the references of values anew. Those that nothing names any more are orphans from then on.
pub(super) fn count(op: &mut Op<'_>, changes: BTreeMap<Ino, i64>) -> Result<()> {
    for (ino, by) in changes {
        lock(op, ino)?;
        let inode = op.inode_mut(ino)?;
        let refs = value_refs(inode).checked_add_signed(by);
        let Some(refs) = refs.filter(|_| is_value_inode(inode)) else {
            return Err(Error::corrupt(
                format!("inode {ino}"),
                0,
                "it holds no value, or has fewer references than entries name it",
            ));
        };
        set_value_refs(inode, refs);
        if refs == 0 {
            inode.links = 0;
            orphan::add(op, ino)?;
            op.dead_values.push(ino);
        }
    }
    Ok(())
}

/// Takes a value's inode into the operation.
fn lock(op: &mut Op<'_>, ino: Ino) -> Result<()> {
    if op.holds(ino) {
        return Ok(());
    }
    let gone = |e| match e {
        Error::NotFound => Error::corrupt(format!("inode {ino}"), 0, "an attribute names it, but it is not in use"),
        e => e,
    };
    let node = op.vol().node(ino).map_err(gone)?;
    for _ in 0..LOCK_TRIES {
        if let Some(guard) = node.try_write().map_err(gone)? {
            op.join(guard);
            return Ok(());
        }
        thread::sleep(Duration::from_millis(1));
    }
    Err(Error::Contended)
}

/// Whether an inode that is to be deleted names values, and nobody else does it by the same block.
///
/// # Errors
/// Corruption of the attributes.
pub(crate) fn names_values(reader: &mut dyn Reader, ino: Ino, inode: &Inode) -> Result<bool> {
    if !enabled(reader.volume()) {
        return Ok(false);
    }
    own_value(reader, ino, inode).map(|found| found.is_some())
}

/// An attribute of the inode's own whose value lies in an inode.
fn own_value(reader: &mut dyn Reader, ino: Ino, inode: &Inode) -> Result<Option<Xattr>> {
    let attrs = Attrs::read(reader, ino, inode)?;
    let own = inode.file_acl != 0 && users(reader, ino, inode.file_acl)? == 1;
    let block = if own { attrs.block.as_slice() } else { &[] };
    Ok(attrs.inline.iter().chain(block).find(|x| x.in_inode()).cloned())
}

/// As [`names_values`], of an inode that `op` is about to free: the answer holds until the operation closes.
///
/// # Errors
/// Corruption of the attributes.
pub(crate) fn still_names_values(op: &mut Op<'_>, ino: Ino) -> Result<bool> {
    if !enabled(op.vol()) {
        return Ok(false);
    }
    op.orphans.hold();
    let inode = op.inode(ino)?.clone();
    names_values(op, ino, &inode)
}

impl Xattrs<'_> {
    /// Removes the attributes of a locked inode whose values lie in inodes, one by one, and these with them.
    ///
    /// # Errors
    /// Corruption of the attributes, or the journal's failure.
    pub(crate) fn release_values(self, mut guard: NodeGuard) -> Result<NodeGuard> {
        let ino = guard.node.ino;
        while enabled(self.vol)
            && let Some(xattr) = own_value(&mut &*self.vol, ino, &guard.state.inode)?
        {
            let journal = super::SET_COST + reference_cost(&Attrs::read(&mut &*self.vol, ino, &guard.state.inode)?);
            let mut op = Op::begin(self.vol, vec![guard], Cost { journal, blocks: 0, need: Need::ToFree })?;
            change(&mut op, ino, &Change::remove(xattr.name_index, &xattr.name))?;
            guard = op.close_holding(ino)?;
            self.bury_values();
        }
        Ok(guard)
    }

    /// Deletes the values that nothing names any more since operations were closed; what fails is left to the next
    /// mount.
    pub(crate) fn bury_values(self) {
        if !enabled(self.vol) {
            return;
        }
        let dead = std::mem::take(&mut *self.vol.dead_values.lock());
        for ino in dead {
            if let Err(e) = self.vol.inode_ops().delete_orphan(ino) {
                tracing::warn!("inode {ino} is left to be deleted by the next mount: {e}");
            }
        }
    }
}
