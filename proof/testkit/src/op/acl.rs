//! POSIX ACLs as text, and as the value of the attribute that holds one.

use ondol_format::xattr::acl_tag::{GROUP, GROUP_OBJ, MASK, OTHER, USER, USER_OBJ};
use std::fmt;
use std::str::FromStr;

/// An entry: whom it is about, and what they may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Entry {
    tag: u16,
    perm: u16,
    id: u32,
}

/// An ACL: `u::rwx,u:7:r-x,g::r-x,m::rwx,o::---`. Nothing is checked but the form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Acl(Vec<Entry>);

/// The id of an entry that names nobody.
const NOBODY: u32 = u32::MAX;

impl Acl {
    /// The attribute's value.
    pub fn value(&self) -> Vec<u8> {
        let mut value = 2u32.to_le_bytes().to_vec();
        for Entry { tag, perm, id } in &self.0 {
            value.extend_from_slice(&tag.to_le_bytes());
            value.extend_from_slice(&perm.to_le_bytes());
            value.extend_from_slice(&id.to_le_bytes());
        }
        value
    }

    /// From an attribute's value.
    pub fn of_value(value: &[u8]) -> Option<Self> {
        let entries = value.get(4..)?.chunks_exact(8).map(|e| Entry {
            tag: u16::from_le_bytes([e[0], e[1]]),
            perm: u16::from_le_bytes([e[2], e[3]]),
            id: u32::from_le_bytes([e[4], e[5], e[6], e[7]]),
        });
        Some(Self(entries.collect()))
    }

    /// Whether permission bits cannot say the same.
    pub fn says_more(&self) -> bool {
        self.0.iter().any(|e| matches!(e.tag, USER | GROUP | MASK))
    }

    /// The permission bits that it comes to: of the group, the mask's if there is one.
    pub fn perm(&self) -> u16 {
        let of = |tag| self.0.iter().find(|e| e.tag == tag).map(|e| e.perm);
        let group = of(MASK).or(of(GROUP_OBJ)).unwrap_or(0);
        of(USER_OBJ).unwrap_or(0) << 6 | group << 3 | of(OTHER).unwrap_or(0)
    }

    /// The ACL with what the permission bits `perm` say of owner, group and others.
    #[must_use]
    pub fn with_perm(&self, perm: u16) -> Self {
        self.map_classes(|_, class| class & 7, perm)
    }

    /// The ACL with owner, group and others allowed no more than `perm` says.
    #[must_use]
    pub fn masked(&self, perm: u16) -> Self {
        self.map_classes(|old, class| old & class, perm)
    }

    fn map_classes(&self, new: impl Fn(u16, u16) -> u16, perm: u16) -> Self {
        let group = if self.0.iter().any(|e| e.tag == MASK) { MASK } else { GROUP_OBJ };
        let change = |e: &Entry| {
            let class = match e.tag {
                USER_OBJ => perm >> 6,
                OTHER => perm,
                tag if tag == group => perm >> 3,
                _ => return *e,
            };
            Entry { perm: new(e.perm, class), ..*e }
        };
        Self(self.0.iter().map(change).collect())
    }
}

impl fmt::Display for Acl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, Entry { tag, perm, id }) in self.0.iter().enumerate() {
            let who = match *tag {
                USER_OBJ | USER => "u",
                GROUP_OBJ | GROUP => "g",
                MASK => "m",
                _ => "o",
            };
            let id = if matches!(*tag, USER | GROUP) { id.to_string() } else { String::new() };
            let bit = |n: u16, c: char| if perm & n != 0 { c } else { '-' };
            let comma = if i > 0 { "," } else { "" };
            write!(f, "{comma}{who}:{id}:{}{}{}", bit(4, 'r'), bit(2, 'w'), bit(1, 'x'))?;
        }
        Ok(())
    }
}

impl FromStr for Acl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let entry = |part: &str| {
            let wrong = || format!("no entry of an ACL (u:7:r-x): {part}");
            let mut fields = part.split(':');
            let (Some(who), Some(id), Some(perm), None) = (fields.next(), fields.next(), fields.next(), fields.next())
            else {
                return Err(wrong());
            };
            let tag = match (who, id.is_empty()) {
                ("u", true) => USER_OBJ,
                ("u", false) => USER,
                ("g", true) => GROUP_OBJ,
                ("g", false) => GROUP,
                ("m", true) => MASK,
                ("o", true) => OTHER,
                _ => return Err(wrong()),
            };
            let id = if id.is_empty() { Ok(NOBODY) } else { id.parse() };
            let mut bits = 0;
            for (c, (letter, bit)) in perm.chars().zip([('r', 4), ('w', 2), ('x', 1)]) {
                match c {
                    '-' => {}
                    c if c == letter => bits |= bit,
                    _ => return Err(wrong()),
                }
            }
            if perm.len() != 3 {
                return Err(wrong());
            }
            Ok(Entry { tag, perm: bits, id: id.map_err(|_| wrong())? })
        };
        text.split(',').map(entry).collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_value_go_both_ways() {
        let text = "u::rwx,u:7:r-x,g::r--,g:9:-w-,m::rw-,o::--x";
        let acl: Acl = text.parse().unwrap();
        assert_eq!((acl.to_string().as_str(), acl.perm()), (text, 0o761));
        assert_eq!(Acl::of_value(&acl.value()), Some(acl.clone()));
        assert_eq!(acl.with_perm(0o640).to_string(), "u::rw-,u:7:r-x,g::r--,g:9:-w-,m::r--,o::---");
        assert_eq!(acl.masked(0o655).perm(), 0o641);
        assert!(acl.says_more() && !"u::rw-,g::r--,o::r--".parse::<Acl>().unwrap().says_more());
        for wrong in ["", "u::rwx,", "x::rwx", "u:a:rwx", "u::rxw", "u::rw", "o:3:rwx"] {
            assert!(wrong.parse::<Acl>().is_err(), "{wrong}");
        }
    }
}
