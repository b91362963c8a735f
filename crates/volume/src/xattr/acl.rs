//! What POSIX ACLs mean: which are valid, and how the access ACL and the permission bits go together.

use super::store::{Attrs, Change, change};
use crate::op::Op;
use crate::{Error, Ino, Result};
use ondol_format::xattr::{acl_from_disk, acl_to_disk, index};

const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// Bytes before the entries of the value a program sees, and of each entry: tag, permissions, id.
const HEADER: usize = 4;
const ENTRY: usize = 8;

/// The tags and permissions of a value as programs see it, which has been checked to be one.
fn entries(value: &[u8]) -> impl Iterator<Item = (u16, u16)> + '_ {
    let word = |e: &[u8], at: usize| u16::from_le_bytes([e[at], e[at + 1]]);
    value.get(HEADER..).unwrap_or_default().chunks_exact(ENTRY).map(move |e| (word(e, 0), word(e, 2)))
}

fn perm_of(value: &[u8], tag: u16) -> Option<u16> {
    entries(value).find(|&(t, _)| t == tag).map(|(_, perm)| perm)
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

/// What setting an ACL comes to. One without entries is none; an access ACL that says no more than permission bits can is
/// kept in those alone.
pub(super) fn plan(number: u8, value: &[u8]) -> Result<Change<'static>> {
    let disk = acl_to_disk(value).map_err(|_| Error::Invalid("not a POSIX ACL"))?;
    let mut change = Change { number, name: b"", value: None, perm: None };
    if entries(value).next().is_none() {
        return Ok(change);
    }
    check(value)?;
    if number == index::POSIX_ACL_DEFAULT {
        change.value = Some(disk);
        return Ok(change);
    }
    let perm = |tag| perm_of(value, tag).unwrap_or(0);
    let mask = perm_of(value, MASK);
    change.perm = Some(perm(USER_OBJ) << 6 | mask.unwrap_or(perm(GROUP_OBJ)) << 3 | perm(OTHER));
    if mask.is_some() {
        change.value = Some(disk);
    }
    Ok(change)
}

/// Takes new permission bits of a locked inode into its access ACL, if it has one.
///
/// # Errors
/// Corruption of the attributes or of the ACL.
pub(crate) fn chmod(op: &mut Op<'_>, ino: Ino, perm: u16) -> Result<()> {
    let inode = op.inode(ino)?.clone();
    let attrs = Attrs::read(op, ino, &inode)?;
    let Some(acl) = attrs.find(index::POSIX_ACL_ACCESS, b"") else { return Ok(()) };
    let bad =
        |e: ondol_format::FormatError| Error::corrupt(format!("ACL of inode {ino}"), inode.file_acl, e.to_string());
    let mut value = acl_from_disk(&super::value::read(op.vol(), ino, acl)?).map_err(bad)?;
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
    change(op, ino, &Change { number: index::POSIX_ACL_ACCESS, name: b"", value, perm: None }).map(|_| ())
}
