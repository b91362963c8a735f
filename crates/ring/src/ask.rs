//! Questions to a FUSE server about an open file that have no safe call: ioctl(2) with structures of their own.

#![allow(unsafe_code, reason = "system calls with pointers to structures")]

use rustix::ioctl::{Getter, Opcode, Setter, ioctl};
use std::io;
use std::os::fd::AsFd;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The command that exchanges ranges of files, with an [`ExchangeRange`]: `_IOW(0xEF, 0x81, struct)`, a number that no file system of
/// Linux has.
pub const EXCHANGE_RANGE: u32 = 0x4030_EF81;

/// `FS_IOC_GETVERSION` of `linux/fs.h`, whose answer has four bytes in a place for eight.
const GETVERSION: Opcode = 0x8008_7601;

/// `struct xfs_exchange_range`, but with the number and generation of the first inode in the place of its descriptor, which a server cannot
/// resolve. The second file is the one that is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ExchangeRange {
    /// The first file's inode, as stat(2) has it.
    pub file1_ino: u64,
    /// Its generation: [`generation`].
    pub file1_generation: u32,
    /// Zero.
    pub pad: u32,
    /// Byte from which on the first file's contents are exchanged.
    pub file1_offset: u64,
    /// The same of the second file.
    pub file2_offset: u64,
    /// Bytes.
    pub length: u64,
    /// As XFS has them: 1 to the ends of the files, 2 durable on return, 4 check only, 8 only what is written in the first file.
    pub flags: u64,
}

/// The generation of an open file's inode.
///
/// # Errors
/// The file system keeps none, or does not answer.
pub fn generation(file: impl AsFd) -> io::Result<u32> {
    // SAFETY: whoever knows this command writes a number of at most eight bytes to the address that it is given.
    let told: [u32; 2] = unsafe { ioctl(file, Getter::<GETVERSION, [u32; 2]>::new())? };
    Ok(told[0])
}

/// Asks the server of the open file `file2` for an exchange. The meaning of each error: `docs/commands.md` of the project.
///
/// # Errors
/// The server's refusal; ENOTTY where `file2` is no file of such a server.
pub fn exchange(file2: impl AsFd, range: &ExchangeRange) -> io::Result<()> {
    // SAFETY: the command's number says that as many bytes are read as the structure has, which lives until the call returns.
    unsafe { ioctl(file2, Setter::<{ EXCHANGE_RANGE as Opcode }, ExchangeRange>::new(*range)) }?;
    Ok(())
}

/// `EXT4_IOC_RESIZE_FS`: a number of blocks.
pub const RESIZE_FS: u32 = 0x4008_6610;

/// Asks the server of an open directory for a volume of so many blocks, as resize2fs(8) does.
///
/// # Errors
/// The server's refusal; ENOTTY where the directory is on no file system that resizes so.
pub fn resize(dir: impl AsFd, blocks: u64) -> io::Result<()> {
    // SAFETY: the command's number says that eight bytes are read, as the number has, which lives until the call returns.
    unsafe { ioctl(dir, Setter::<{ RESIZE_FS as Opcode }, u64>::new(blocks)) }?;
    Ok(())
}

/// The command that makes or deletes a snapshot, with a [`SnapshotAsked`]: `_IOW(0xEF, 0x82, struct)`.
pub const SNAPSHOT: u32 = 0x4108_EF82;

/// The most bytes of a snapshot's name.
pub const SNAPSHOT_NAME: usize = 255;

/// Which snapshot is to be made or deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SnapshotAsked {
    /// 1: made; 2: deleted.
    pub what: u32,
    /// Bytes of its name.
    pub length: u32,
    /// The name, then zeros.
    pub name: [u8; SNAPSHOT_NAME + 1],
}

impl SnapshotAsked {
    /// Asks for this.
    ///
    /// # Errors
    /// ENAMETOOLONG.
    pub fn new(what: u32, name: &str) -> io::Result<Self> {
        let mut asked = Self { what, length: 0, name: [0; SNAPSHOT_NAME + 1] };
        if name.len() > SNAPSHOT_NAME {
            return Err(rustix::io::Errno::NAMETOOLONG.into());
        }
        asked.name[..name.len()].copy_from_slice(name.as_bytes());
        asked.length = name.len() as u32;
        Ok(asked)
    }

    /// The name that was sent, if it is one.
    pub fn name(&self) -> Option<&str> {
        let name = self.name.get(..self.length as usize).filter(|name| name.len() <= SNAPSHOT_NAME)?;
        std::str::from_utf8(name).ok()
    }
}

/// Asks the server of an open directory to make or delete a snapshot of its volume.
///
/// # Errors
/// The server's refusal; ENOTTY where the directory is on no file system of such a server.
pub fn snapshot(dir: impl AsFd, asked: &SnapshotAsked) -> io::Result<()> {
    // SAFETY: the command's number says that as many bytes are read as the structure has, which lives until the call returns.
    unsafe { ioctl(dir, Setter::<{ SNAPSHOT as Opcode }, SnapshotAsked>::new(*asked)) }?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_snapshot_comes_as_it_was_sent() {
        assert_eq!(SnapshotAsked::new(1, "Montag früh").unwrap().name(), Some("Montag früh"));
        assert_eq!(SnapshotAsked::new(1, &"x".repeat(255)).unwrap().name(), Some(&*"x".repeat(255)));
        assert!(SnapshotAsked::new(1, &"x".repeat(256)).is_err());
        let sent = SnapshotAsked::new(2, "one").unwrap();
        for hostile in [256, 257, u32::MAX] {
            assert_eq!(SnapshotAsked { length: hostile, ..sent }.name(), None, "{hostile}");
        }
        assert_eq!(SnapshotAsked { name: [0xFF; 256], ..sent }.name(), None);
    }

    #[test]
    fn the_number_says_the_size() {
        assert_eq!(SNAPSHOT >> 16 & 0x3FFF, size_of::<SnapshotAsked>() as u32);
        assert_eq!(EXCHANGE_RANGE >> 16 & 0x3FFF, size_of::<ExchangeRange>() as u32);
        assert_eq!(RESIZE_FS >> 16 & 0x3FFF, size_of::<u64>() as u32);
    }

    #[test]
    fn others_do_not_know_the_command() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let refused = exchange(&file, &ExchangeRange::default()).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(rustix::io::Errno::NOTTY.raw_os_error()));
        assert!(generation(&file).is_err());
        let refused = resize(&file, 1).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(rustix::io::Errno::NOTTY.raw_os_error()));
    }
}
