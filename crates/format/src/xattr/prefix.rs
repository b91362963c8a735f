//! The prefixes of attribute names, which entries keep as a number.

/// The numbers of the prefixes.
pub mod index {
    /// No prefix.
    pub const NONE: u8 = 0;
    /// `user.`
    pub const USER: u8 = 1;
    /// `system.posix_acl_access`, the whole name.
    pub const POSIX_ACL_ACCESS: u8 = 2;
    /// `system.posix_acl_default`, the whole name.
    pub const POSIX_ACL_DEFAULT: u8 = 3;
    /// `trusted.`
    pub const TRUSTED: u8 = 4;
    /// `lustre.`
    pub const LUSTRE: u8 = 5;
    /// `security.`
    pub const SECURITY: u8 = 6;
    /// `system.`; "data" is the rest of inline data.
    pub const SYSTEM: u8 = 7;
    /// `system.richacl`, the whole name.
    pub const RICHACL: u8 = 8;
    /// Encryption context; not visible.
    pub const ENCRYPTION: u8 = 9;
    /// `gnu.`
    pub const HURD: u8 = 10;
}

/// Prefixes, whole names first, so that the longest match is the first.
const PREFIXES: [(u8, &[u8]); 9] = [
    (index::POSIX_ACL_ACCESS, b"system.posix_acl_access"),
    (index::POSIX_ACL_DEFAULT, b"system.posix_acl_default"),
    (index::RICHACL, b"system.richacl"),
    (index::USER, b"user."),
    (index::TRUSTED, b"trusted."),
    (index::LUSTRE, b"lustre."),
    (index::SECURITY, b"security."),
    (index::SYSTEM, b"system."),
    (index::HURD, b"gnu."),
];

/// A full name as number of its prefix and rest; None if ext4 has no number for it or a name is missing or too long.
pub fn split_name(full: &[u8]) -> Option<(u8, &[u8])> {
    for (number, prefix) in PREFIXES {
        let Some(rest) = full.strip_prefix(prefix) else { continue };
        let whole = prefix.last() != Some(&b'.');
        if whole != rest.is_empty() || rest.len() > super::NAME_MAX {
            continue;
        }
        return Some((number, rest));
    }
    None
}

/// The full name; None for a number that has no visible prefix.
pub fn join_name(name_index: u8, name: &[u8]) -> Option<Vec<u8>> {
    let (_, prefix) = PREFIXES.iter().find(|(number, _)| *number == name_index)?;
    Some([prefix, name].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_split_and_join() {
        for full in ["user.a", "system.posix_acl_access", "security.selinux", "system.data", "trusted.x.y"] {
            let (number, rest) = split_name(full.as_bytes()).unwrap();
            assert_eq!(join_name(number, rest).unwrap(), full.as_bytes());
        }
        assert_eq!(split_name(b"user."), None);
        assert_eq!(split_name(b"nonsense"), None);
        assert_eq!(split_name(b"system.posix_acl_accessory"), Some((index::SYSTEM, &b"posix_acl_accessory"[..])));
    }
}
