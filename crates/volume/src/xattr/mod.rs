//! Extended attributes: in the inode's tail as far as they fit, then in one block; with ea_inode, a value that fits
//! into neither in an inode of its own.
//!
//! Names come and go in full (`user.x`); the format keeps the prefix as a number. POSIX ACLs are attributes too, stored
//! in ext4's own form, and the access ACL is one with the permission bits: setting it sets them, and `chmod` changes
//! it. Every change is one operation: after a crash there is the old value or the new.

mod acl;
mod store;
mod value;

pub(crate) use acl::{Inherited, inherit};
pub(crate) use store::{Change, FREE_COST, SET_COST, change, free, needs};
pub(crate) use value::{names_values, still_names_values};

use crate::op::{Cost, Op, Reader};
use crate::{Error, Ino, Result, SetXattr, Volume};
use ondol_format::Inode;
use ondol_format::inode::InodeFlags;
use ondol_format::xattr::{acl_from_disk, index, join_name, split_name};
use store::Attrs;

/// The longest full name and value of an attribute, bytes: XATTR_NAME_MAX and XATTR_SIZE_MAX of Linux.
const NAME_MAX: usize = 255;
const VALUE_MAX: usize = 65_536;
/// The name of the access ACL.
const ACCESS_ACL: &[u8] = b"system.posix_acl_access";
const SETGID: u16 = 0o2000;

/// The name of file capabilities behind their prefix.
const CAPABILITY: &[u8] = b"capability";

/// `Xattrs` reads and changes the extended attributes of inodes.
#[derive(Clone, Copy)]
pub struct Xattrs<'v> {
    vol: &'v Volume,
}

impl Volume {
    /// The part that works on extended attributes.
    pub fn xattrs(&self) -> Xattrs<'_> {
        Xattrs { vol: self }
    }
}

impl Xattrs<'_> {
    /// The value of an attribute.
    ///
    /// # Errors
    /// `NoAttribute`; `Unsupported` for a prefix that ext4 does not serve; corruption.
    pub fn getxattr(self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        let node = self.vol.node(ino)?;
        let state = node.read()?;
        get(&mut &*self.vol, ino, &state.inode, name).map_err(|e| self.vol.noted(e))
    }

    /// The full names of all attributes.
    ///
    /// # Errors
    /// Corruption, or the store's failure.
    pub fn listxattr(self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        let node = self.vol.node(ino)?;
        let state = node.read()?;
        let attrs = Attrs::read(&mut &*self.vol, ino, &state.inode).map_err(|e| self.vol.noted(e))?;
        let visible = attrs.iter().filter(|x| is_served(x.name_index));
        Ok(visible.filter_map(|x| join_name(x.name_index, &x.name)).collect())
    }

    /// Sets an attribute, atomically.
    ///
    /// # Errors
    /// `Exists` or `NoAttribute` as `how` says, which for ACLs says nothing; `NoSpace` when it fits neither into the
    /// inode nor into its block, or the volume is full; `ValueTooLong`; `BufferTooSmall` for a name that is too long or
    /// empty, `Invalid` for one that is a bare prefix; `NotPermitted` on an immutable or append-only inode, or where
    /// the prefix does not belong; `Unsupported` prefix; `Invalid` for what is no ACL, `Denied` for a default ACL of
    /// anything but a directory.
    pub fn setxattr(self, ino: Ino, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        self.change_xattr(ino, name, Some(value), how, true)
    }

    /// As [`Xattrs::setxattr`] by somebody who is not in the inode's group: with an access ACL, setgid goes.
    ///
    /// # Errors
    /// As [`Xattrs::setxattr`].
    pub fn setxattr_without_setgid(self, ino: Ino, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        self.change_xattr(ino, name, Some(value), how, false)
    }

    /// Removes an attribute, atomically.
    ///
    /// # Errors
    /// `NoAttribute`, but not for ACLs, and as [`Xattrs::setxattr`].
    pub fn removexattr(self, ino: Ino, name: &[u8]) -> Result<()> {
        self.change_xattr(ino, name, None, SetXattr::Replace, true)
    }

    fn change_xattr(
        self,
        ino: Ino,
        name: &[u8],
        value: Option<&[u8]>,
        how: SetXattr,
        keeps_setgid: bool,
    ) -> Result<()> {
        self.vol.check_writable()?;
        let guard = self.vol.node(ino)?.write()?;
        let apply = || -> Result<()> {
            let wanted = Wanted { name, value, how };
            let cost = plan_change(&mut &*self.vol, ino, &guard.state.inode, wanted)?;
            let mut op = Op::begin(self.vol, vec![guard], cost)?;
            do_change(&mut op, ino, wanted)?;
            if !keeps_setgid && value.is_some() && name == ACCESS_ACL {
                op.inode_mut(ino)?.mode &= !SETGID;
            }
            op.close()?;
            self.bury_values();
            Ok(())
        };
        apply().map_err(|e| self.vol.noted(e))
    }
}

/// An attribute that is to be set or, without a value, removed.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'n> {
    pub(crate) name: &'n [u8],
    pub(crate) value: Option<&'n [u8]>,
    pub(crate) how: SetXattr,
}

/// Checks whether an attribute can be changed, and says what it takes.
///
/// # Errors
/// As [`Xattrs::setxattr`].
pub(crate) fn plan_change(reader: &mut dyn Reader, ino: Ino, inode: &Inode, wanted: Wanted<'_>) -> Result<Cost> {
    let change = plan(reader, ino, inode, wanted)?;
    needs(reader, ino, inode, &change)
}

/// Changes an attribute of a locked inode, within an operation that has room for what [`plan_change`] says.
///
/// # Errors
/// As [`Xattrs::setxattr`].
pub(crate) fn do_change(op: &mut Op<'_>, ino: Ino, wanted: Wanted<'_>) -> Result<()> {
    let inode = op.inode(ino)?.clone();
    let planned = plan(op, ino, &inode, wanted)?;
    if planned.value.is_none() && planned.perm.is_none() && !has(op, ino, &inode, &planned)? {
        // An ACL that is not there is removed without a trace.
        return Ok(());
    }
    if let Some(perm) = planned.perm {
        let inode = op.inode_mut(ino)?;
        inode.mode = inode.mode & !0o777 | perm;
    }
    change(op, ino, &planned)?;
    op.inode_mut(ino)?.ctime = crate::time::to_disk(op.now());
    Ok(())
}

/// What goes with a change of an inode's permission bits to `perm`, and with one of its owner or a write by somebody
/// without privilege: the access ACL has the bits, too, and capabilities are dropped.
///
/// # Errors
/// Corruption of the attributes.
pub(crate) fn permission_changes(
    reader: &mut dyn Reader,
    ino: Ino,
    inode: &Inode,
    perm: Option<u16>,
    drops: bool,
) -> Result<Vec<Change<'static>>> {
    let attrs = Attrs::read(reader, ino, inode)?;
    let mut changes = Vec::new();
    if let Some(perm) = perm {
        changes.extend(acl::chmod(reader, ino, inode, &attrs, perm)?);
    }
    if drops && attrs.find(index::SECURITY, CAPABILITY).is_some() {
        changes.push(Change::remove(index::SECURITY, CAPABILITY));
    }
    Ok(changes)
}

fn has(reader: &mut dyn Reader, ino: Ino, inode: &Inode, change: &Change<'_>) -> Result<bool> {
    Ok(Attrs::read(reader, ino, inode)?.find(change.number, change.name).is_some())
}

fn get(reader: &mut dyn Reader, ino: Ino, inode: &Inode, name: &[u8]) -> Result<Vec<u8>> {
    check_length(name)?;
    if is_misplaced(inode, name) {
        return Err(Error::NoAttribute);
    }
    let (number, rest) = split(inode, name)?;
    let attrs = Attrs::read(reader, ino, inode)?;
    let found = attrs.find(number, rest).ok_or(Error::NoAttribute)?;
    let value = value::read(reader.volume(), ino, found)?;
    if !is_acl(number) {
        return Ok(value);
    }
    let acl = acl_from_disk(&value)
        .map_err(|e| Error::corrupt(format!("ACL of inode {ino}"), inode.file_acl, e.to_string()))?;
    if acl::is_empty(&acl) { Err(Error::NoAttribute) } else { Ok(acl) }
}

/// What a request comes to, once its name, its value and the inode have been judged: in the order in which Linux does.
fn plan<'n>(
    reader: &mut dyn Reader,
    ino: Ino,
    inode: &Inode,
    Wanted { name, value, how }: Wanted<'n>,
) -> Result<Change<'n>> {
    check_length(name)?;
    if let Some(value) = value.filter(|value| value.len() > VALUE_MAX) {
        return Err(Error::ValueTooLong(value.len()));
    }
    let acl = match split_name(name) {
        Some((number, _)) if is_acl(number) => Some((number, acl::Wanted::parse(value.unwrap_or_default())?)),
        _ => None,
    };
    if inode.flags.intersects(InodeFlags::IMMUTABLE | InodeFlags::APPEND) {
        return Err(Error::NotPermitted("the inode is immutable or append-only"));
    }
    if is_misplaced(inode, name) {
        return Err(Error::NotPermitted("user attributes are for files and directories"));
    }
    let (number, rest) = split(inode, name)?;
    if let Some((number, acl)) = acl {
        // Whether there is one already makes no difference, not even to its removal.
        return acl.plan(number, inode);
    }
    let attrs = Attrs::read(reader, ino, inode)?;
    match (attrs.find(number, rest), how) {
        (Some(_), SetXattr::Create) => return Err(Error::Exists),
        (None, SetXattr::Replace) => return Err(Error::NoAttribute),
        _ => {}
    }
    Ok(Change { number, name: rest, value: value.map(<[u8]>::to_vec), perm: None })
}

/// A user's attribute of what is neither file nor directory.
fn is_misplaced(inode: &Inode, name: &[u8]) -> bool {
    name.starts_with(b"user.") && !(inode.is_regular() || inode.is_dir())
}

fn check_length(name: &[u8]) -> Result<()> {
    if name.is_empty() || name.len() > NAME_MAX { Err(Error::BufferTooSmall) } else { Ok(()) }
}

/// The number of a name's prefix and its rest.
fn split<'n>(inode: &Inode, name: &'n [u8]) -> Result<(u8, &'n [u8])> {
    let unknown = || Error::Unsupported(format!("attribute '{}'", ondol_format::printable(name)));
    let Some((number, rest)) = split_name(name) else {
        let bare = [&b"user."[..], b"trusted.", b"security."].contains(&name);
        return Err(if bare { Error::Invalid("an attribute's name ends with its prefix") } else { unknown() });
    };
    if !is_served(number) || (is_acl(number) && inode.is_symlink()) {
        return Err(unknown());
    }
    Ok((number, rest))
}

fn is_acl(number: u8) -> bool {
    matches!(number, index::POSIX_ACL_ACCESS | index::POSIX_ACL_DEFAULT)
}

fn is_served(number: u8) -> bool {
    is_acl(number) || matches!(number, index::USER | index::TRUSTED | index::SECURITY)
}
