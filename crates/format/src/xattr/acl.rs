//! POSIX ACLs: the value a program sees has 8 bytes an entry, the value on the image leaves out ids that mean nothing.

use crate::error::{FormatError, Result};

/// Version of the value programs see.
const USER_VERSION: u32 = 2;
/// Version of the value on the image.
const DISK_VERSION: u32 = 1;
/// Tags of named users and groups, the only entries with an id.
const USER: u16 = 0x02;
const GROUP: u16 = 0x08;
/// Tags of owner, group, mask and others.
const PLAIN: [u16; 4] = [0x01, 0x04, 0x10, 0x20];
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
            _ if PLAIN.contains(&tag) => {}
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
            _ if PLAIN.contains(&tag) => (UNDEFINED_ID, after),
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
