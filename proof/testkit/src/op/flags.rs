//! The flags of chattr(1), by its letters.

use std::fmt;
use std::str::FromStr;

/// Flags that a call sets, in ext4's bits. Others are left as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u32);

/// The letters, as chattr(1) has them.
const LETTERS: [(char, u32); 9] = [
    ('S', 0x8),
    ('i', 0x10),
    ('a', 0x20),
    ('d', 0x40),
    ('A', 0x80),
    ('j', 0x4000),
    ('t', 0x8000),
    ('D', 0x1_0000),
    ('T', 0x2_0000),
];

impl Flags {
    /// Synchronous.
    pub const SYNC: u32 = 0x8;
    /// Immutable.
    pub const IMMUTABLE: u32 = 0x10;
    /// Append only.
    pub const APPEND: u32 = 0x20;
    /// Synchronous directory.
    pub const DIRSYNC: u32 = 0x1_0000;
    /// Top of a hierarchy of directories.
    pub const TOPDIR: u32 = 0x2_0000;
    /// All that have letters here.
    pub const KNOWN: u32 = 0x3_c0f8;
    /// What new inodes get from their directory.
    pub const INHERITED: u32 = Self::KNOWN & !(Self::IMMUTABLE | Self::APPEND | Self::TOPDIR);
    /// What devices, pipes, sockets and symbolic links get.
    pub const OTHER: u32 = 0xc0;
}

impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters: String = LETTERS.iter().filter(|(_, bit)| self.0 & bit != 0).map(|(c, _)| *c).collect();
        f.write_str(if letters.is_empty() { "-" } else { &letters })
    }
}

impl FromStr for Flags {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "-" {
            return Ok(Self(0));
        }
        let bit = |c| LETTERS.iter().find(|(letter, _)| *letter == c).map(|(_, bit)| *bit);
        let bits = text.chars().map(|c| bit(c).ok_or_else(|| format!("no flag of chattr: {c}")));
        bits.collect::<Result<Vec<u32>, _>>().map(|bits| Self(bits.into_iter().fold(0, |all, bit| all | bit)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_and_bits() {
        assert_eq!(LETTERS.iter().fold(0, |all, (_, bit)| all | bit), Flags::KNOWN);
        let all: Flags = "SiadAjtDT".parse().unwrap();
        assert_eq!((all.0, all.to_string().as_str()), (Flags::KNOWN, "SiadAjtDT"));
        assert_eq!("-".parse::<Flags>().unwrap().to_string(), "-");
        assert!("x".parse::<Flags>().is_err());
    }
}
