//! POSIX ACLs: the value a program sees has 8 bytes an entry, the value on the image leaves out ids that mean nothing.

use crate::error::{FormatError, Result};
use acl_tag::{GROUP, GROUP_OBJ, MASK, OTHER, USER, USER_OBJ};

/// Whom an entry of an ACL is about (`e_tag`).
pub mod acl_tag {
    /// The owner.
    pub const USER_OBJ: u16 = 0x01;
    /// A user, named by its id.
    pub const USER: u16 = 0x02;
    /// The file's group.
    pub const GROUP_OBJ: u16 = 0x04;
    /// A group, named by its id.
    pub const GROUP: u16 = 0x08;
    /// The most that named users and groups may.
    pub const MASK: u16 = 0x10;
    /// Everybody else.
    pub const OTHER: u16 = 0x20;
}

/// Version of the value programs see.
const USER_VERSION: u32 = 2;
/// Version of the value on the image.
const DISK_VERSION: u32 = 1;
/// Id of an entry that has none.
const UNDEFINED_ID: u32 = !0;

fn bad() -> FormatError {
    FormatError::Parameter("not a POSIX ACL".into())
}

fn half(bytes: &[u8]) -> Option<(u16, &[u8])> {
    bytes.split_first_chunk().map(|(head, rest)| (u16::from_le_bytes(*head), rest))
}

fn word(bytes: &[u8]) -> Option<(u32, &[u8])> {
    bytes.split_first_chunk().map(|(head, rest)| (u32::from_le_bytes(*head), rest))
}

/// The value on the image for the value `user` that a program sets.
///
/// # Errors
/// Bytes that are no ACL.
pub fn acl_to_disk(user: &[u8]) -> Result<Vec<u8>> {
    let (version, mut rest) = word(user).ok_or_else(bad)?;
    if version != USER_VERSION {
        return Err(bad());
    }
    let mut disk = DISK_VERSION.to_le_bytes().to_vec();
    while !rest.is_empty() {
        let (tag, after) = half(rest).ok_or_else(bad)?;
        let (perm, after) = half(after).ok_or_else(bad)?;
        let (id, after) = word(after).ok_or_else(bad)?;
        disk.extend_from_slice(&tag.to_le_bytes());
        disk.extend_from_slice(&perm.to_le_bytes());
        match tag {
            USER | GROUP => disk.extend_from_slice(&id.to_le_bytes()),
            USER_OBJ | GROUP_OBJ | MASK | OTHER => {}
            _ => return Err(bad()),
        }
        rest = after;
    }
    Ok(disk)
}

/// The value a program sees for the value `disk` on the image.
///
/// # Errors
/// Bytes that are no ACL.
pub fn acl_from_disk(disk: &[u8]) -> Result<Vec<u8>> {
    let (version, mut rest) = word(disk).ok_or_else(bad)?;
    if version != DISK_VERSION {
        return Err(bad());
    }
    let mut user = USER_VERSION.to_le_bytes().to_vec();
    while !rest.is_empty() {
        let (tag, after) = half(rest).ok_or_else(bad)?;
        let (perm, after) = half(after).ok_or_else(bad)?;
        let (id, after) = match tag {
            USER | GROUP => word(after).ok_or_else(bad)?,
            USER_OBJ | GROUP_OBJ | MASK | OTHER => (UNDEFINED_ID, after),
            _ => return Err(bad()),
        };
        user.extend_from_slice(&tag.to_le_bytes());
        user.extend_from_slice(&perm.to_le_bytes());
        user.extend_from_slice(&id.to_le_bytes());
        rest = after;
    }
    Ok(user)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways() {
        let mut user = 2u32.to_le_bytes().to_vec();
        for (tag, perm, id) in [(1u16, 6u16, !0u32), (2, 4, 1000), (4, 4, !0), (0x10, 6, !0), (0x20, 0, !0)] {
            user.extend_from_slice(&tag.to_le_bytes());
            user.extend_from_slice(&perm.to_le_bytes());
            user.extend_from_slice(&id.to_le_bytes());
        }
        let disk = acl_to_disk(&user).unwrap();
        assert_eq!(disk.len(), 4 + 4 * 4 + 8);
        assert_eq!(acl_from_disk(&disk).unwrap(), user);
        assert!(acl_from_disk(&disk[..disk.len() - 1]).is_err());
        assert!(acl_to_disk(&disk).is_err());
    }
}
