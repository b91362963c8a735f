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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_says_the_size() {
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
