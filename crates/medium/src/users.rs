//! Users as `/etc/passwd` and `/etc/group` have them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// A user of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    name: Vec<u8>,
    /// The number of the group that the user is in at login.
    pub group: u32,
    /// The home directory.
    pub home: PathBuf,
}

fn number(field: &[u8]) -> Option<u32> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

fn lines(file: &[u8]) -> impl Iterator<Item = Vec<&[u8]>> {
    file.split(|byte| *byte == b'\n').map(|line| line.split(|byte| *byte == b':').collect())
}

impl User {
    /// The user with a number; none if nobody is known by it.
    pub fn of(uid: u32) -> Option<Self> {
        Self::among(&std::fs::read("/etc/passwd").ok()?, uid)
    }

    /// Numbers of all groups that the user is in at login.
    pub fn groups(&self) -> Vec<u32> {
        self.groups_among(&std::fs::read("/etc/group").unwrap_or_default())
    }

    fn among(passwd: &[u8], uid: u32) -> Option<Self> {
        lines(passwd).find_map(|fields| match fields[..] {
            [name, _, id, group, _, home, ..] if number(id) == Some(uid) => {
                let home = PathBuf::from(OsStr::from_bytes(home));
                Some(Self { name: name.to_vec(), group: number(group)?, home })
            }
            _ => None,
        })
    }

    fn groups_among(&self, group: &[u8]) -> Vec<u32> {
        let others = lines(group).filter_map(|fields| match fields[..] {
            [_, _, id, members] if members.split(|byte| *byte == b',').any(|member| member == self.name) => number(id),
            _ => None,
        });
        [self.group].into_iter().chain(others).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_a_home_and_groups() {
        let passwd = b"root:x:0:0:root:/root:/bin/sh\nbroken\nann:x:5:60:Ann,,:/home/ann:/bin/sh\n";
        let ann = User::among(passwd, 5).unwrap();
        assert_eq!((ann.group, ann.home.as_path()), (60, std::path::Path::new("/home/ann")));
        assert_eq!(ann.groups_among(b"root:x:0:\ndisk:x:6:ann\nother:x:7:anna,bob\nmany:x:8:bob,ann\n"), [60, 6, 8]);
        assert_eq!((User::among(passwd, 6), User::among(passwd, 0).unwrap().group), (None, 0));
    }
}
