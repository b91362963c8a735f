//! What POSIX ACLs mean: which are valid, and how the access ACL and the permission bits go together.

use super::store::{Attrs, Change, change, may_have_any, needs_of_new};
use crate::op::{Cost, Op, Reader, View};
use crate::{Caller, Error, Ino, Result};
use ondol_format::inode::FileType;
use ondol_format::xattr::acl_tag::{GROUP, GROUP_OBJ, MASK, OTHER, USER, USER_OBJ};
use ondol_format::xattr::{acl_from_disk, acl_to_disk, index};
use ondol_format::{FormatError, Inode};

/// Version of the value that programs see.
const VERSION: u32 = 2;
/// Bytes before the entries of the value a program sees, and of each entry: tag, permissions, id.
const HEADER: usize = 4;
const ENTRY: usize = 8;

/// The tags and permissions of a value as programs see it, which has been checked to be one.
fn entries(value: &[u8]) -> impl Iterator<Item = (u16, u16)> + '_ {
    let word = |e: &[u8], at: usize| u16::from_le_bytes([e[at], e[at + 1]]);
    value.get(HEADER..).unwrap_or_default().chunks_exact(ENTRY).map(move |e| (word(e, 0), word(e, 2)))
}

/// Whether a value that programs see has no entries.
pub(super) fn is_empty(value: &[u8]) -> bool {
    value.len() <= HEADER
}

fn perm_of(value: &[u8], tag: u16) -> Option<u16> {
    entries(value).find(|&(t, _)| t == tag).map(|(_, perm)| perm)
}

/// An ACL that a program wants to set, of which so far only the form has been judged.
pub(super) struct Wanted<'v> {
    value: &'v [u8],
    disk: Vec<u8>,
}

impl<'v> Wanted<'v> {
    /// Reads a value. No value, and one without entries, is no ACL.
    ///
    /// # Errors
    /// `Invalid` for what is none, or names nobody; `Unsupported` version.
    pub(super) fn parse(value: &'v [u8]) -> Result<Self> {
        if value.is_empty() {
            return Ok(Self { value, disk: Vec::new() });
        }
        let version = value.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
        if version.is_some_and(|version| version != VERSION) {
            return Err(Error::Unsupported("a POSIX ACL of this version".into()));
        }
        let disk = acl_to_disk(value).map_err(|_| Error::Invalid("not a POSIX ACL"))?;
        let nobody = value.get(HEADER..).unwrap_or_default().chunks_exact(ENTRY).any(|e| {
            let id = u32::from_le_bytes([e[4], e[5], e[6], e[7]]);
            id == u32::MAX && matches!(u16::from_le_bytes([e[0], e[1]]), USER | GROUP)
        });
        if nobody { Err(Error::Invalid("an entry of a POSIX ACL is about nobody")) } else { Ok(Self { value, disk }) }
    }

    /// What setting it on `inode` comes to. An access ACL that says no more than permission bits can is kept in those
    /// alone.
    ///
    /// # Errors
    /// `Denied` for a default ACL of anything but a directory; `Invalid` for entries that make no ACL together.
    pub(super) fn plan(self, number: u8, inode: &Inode) -> Result<Change<'static>> {
        let mut change = Change { number, name: b"", value: None, perm: None };
        let none = is_empty(self.value);
        if number == index::POSIX_ACL_DEFAULT && !inode.is_dir() {
            return if none { Ok(change) } else { Err(Error::Denied("a default ACL is for directories")) };
        }
        if none {
            return Ok(change);
        }
        check(self.value)?;
        if number == index::POSIX_ACL_DEFAULT {
            change.value = Some(self.disk);
            return Ok(change);
        }
        let perm = |tag| perm_of(self.value, tag).unwrap_or(0);
        let mask = perm_of(self.value, MASK);
        change.perm = Some(perm(USER_OBJ) << 6 | mask.unwrap_or(perm(GROUP_OBJ)) << 3 | perm(OTHER));
        if mask.is_some() {
            change.value = Some(self.disk);
        }
        Ok(change)
    }
}

/// Owner, group, others: each once; a mask if there are named entries; everything in order; three bits each.
fn check(value: &[u8]) -> Result<()> {
    let once = |tag| entries(value).filter(|&(t, _)| t == tag).count() == 1;
    let named = entries(value).any(|(tag, _)| tag == USER || tag == GROUP);
    let masks = entries(value).filter(|&(tag, _)| tag == MASK).count();
    let ordered = entries(value).zip(entries(value).skip(1)).all(|((a, _), (b, _))| a <= b);
    let masked = masks == 1 || (masks == 0 && !named);
    let bits = entries(value).all(|(_, perm)| perm <= 7);
    if once(USER_OBJ) && once(GROUP_OBJ) && once(OTHER) && masked && ordered && bits {
        return Ok(());
    }
    Err(Error::Invalid("not a valid POSIX ACL"))
}

/// The access ACL of an inode, if it has one, with new permission bits.
///
/// # Errors
/// Corruption of the ACL.
pub(super) fn chmod(
    reader: &dyn Reader,
    ino: Ino,
    inode: &Inode,
    attrs: &Attrs,
    perm: u16,
) -> Result<Option<Change<'static>>> {
    let Some(acl) = attrs.find(index::POSIX_ACL_ACCESS, b"") else { return Ok(None) };
    let bad = |e: FormatError| wrong(ino, inode, e.to_string());
    let mut value = acl_from_disk(&super::value::read(reader.volume(), ino, acl)?).map_err(bad)?;
    let group = if perm_of(&value, MASK).is_some() { MASK } else { GROUP_OBJ };
    for entry in value.get_mut(HEADER..).unwrap_or_default().chunks_exact_mut(ENTRY) {
        let bits = match u16::from_le_bytes([entry[0], entry[1]]) {
            USER_OBJ => perm >> 6,
            OTHER => perm,
            tag if tag == group => perm >> 3,
            _ => continue,
        };
        entry[2..4].copy_from_slice(&(bits & 7).to_le_bytes());
    }
    let value = Some(acl_to_disk(&value).map_err(bad)?);
    Ok(Some(Change { number: index::POSIX_ACL_ACCESS, name: b"", value, perm: None }))
}

/// The error for an ACL on the image that is none.
fn wrong(ino: Ino, inode: &Inode, what: impl Into<String>) -> Error {
    Error::corrupt(format!("ACL of inode {ino}"), inode.file_acl, what)
}

/// With what permissions and ACLs a new inode begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inherited {
    /// Its permission bits (0o7777).
    pub(crate) perm: u16,
    /// Its access ACL, as it is stored.
    access: Option<Vec<u8>>,
    /// Its default ACL, as it is stored.
    default: Option<Vec<u8>>,
}

impl Inherited {
    /// What its ACLs take beside the inode.
    ///
    /// # Errors
    /// `NoSpace` when they fit nowhere.
    pub(crate) fn needs(&self, reader: &mut dyn Reader) -> Result<Cost> {
        needs_of_new(reader, &self.changes())
    }

    /// Gives them to a new inode that `op` holds.
    ///
    /// # Errors
    /// As [`Inherited::needs`].
    pub(crate) fn apply(&self, op: &mut Op<'_>, ino: Ino) -> Result<()> {
        self.changes().iter().try_for_each(|acl| change(op, ino, acl))
    }

    fn changes(&self) -> Vec<Change<'static>> {
        let acls = [(index::POSIX_ACL_DEFAULT, &self.default), (index::POSIX_ACL_ACCESS, &self.access)];
        let set = |(number, value): (u8, &Option<Vec<u8>>)| {
            let value = Some(value.clone()?);
            Some(Change { number, name: b"", value, perm: None })
        };
        acls.into_iter().filter_map(set).collect()
    }
}

/// What a new inode in a locked directory gets when it is made with permission bits `perm`: the directory's default ACL
/// masks them, and becomes its access ACL where bits cannot say as much; without one, the caller's umask does. Symbolic
/// links take no part in this. (POSIX 1003.1e draft 17, 23.1.5.)
///
/// # Errors
/// Corruption of the directory's attributes.
pub(crate) fn inherit(
    view: &mut dyn View,
    parent: Ino,
    file_type: FileType,
    perm: u16,
    caller: Caller,
) -> Result<Inherited> {
    let perm = perm & 0o7777;
    if file_type == FileType::Symlink {
        return Ok(Inherited { perm, ..Inherited::default() });
    }
    let masked = Inherited { perm: perm & !(caller.umask & 0o777), ..Inherited::default() };
    if !may_have_any(view.inode(parent)?) {
        return Ok(masked);
    }
    let dir = &view.inode(parent)?.clone();
    let attrs = Attrs::read(view, parent, dir)?;
    let Some(default) = attrs.find(index::POSIX_ACL_DEFAULT, b"") else { return Ok(masked) };
    let default = super::value::read(view.volume(), parent, default)?;
    let mut acl = acl_from_disk(&default).map_err(|e| wrong(parent, dir, e.to_string()))?;
    if is_empty(&acl) {
        return Ok(masked);
    }
    check(&acl).map_err(|e| wrong(parent, dir, e.to_string()))?;
    let group = if perm_of(&acl, MASK).is_some() { MASK } else { GROUP_OBJ };
    let mut allowed = 0;
    for entry in acl.get_mut(HEADER..).unwrap_or_default().chunks_exact_mut(ENTRY) {
        let shift = match u16::from_le_bytes([entry[0], entry[1]]) {
            USER_OBJ => 6,
            OTHER => 0,
            tag if tag == group => 3,
            _ => continue,
        };
        let bits = u16::from_le_bytes([entry[2], entry[3]]) & perm >> shift;
        entry[2..4].copy_from_slice(&bits.to_le_bytes());
        allowed |= bits << shift;
    }
    let more = entries(&acl).any(|(tag, _)| matches!(tag, USER | GROUP | MASK));
    let access = match more {
        true => Some(acl_to_disk(&acl).map_err(|e| wrong(parent, dir, e.to_string()))?),
        false => None,
    };
    let default = (file_type == FileType::Directory).then_some(default);
    Ok(Inherited { perm: perm & !0o777 | allowed, access, default })
}
