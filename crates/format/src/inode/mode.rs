//! File types, and how device numbers and short symlinks live in i_block.

use super::{FAST_SYMLINK_MAX, Inode, InodeFlags};
use std::ops::Range;

/// The type of a file, with its codes in modes and directory entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileType {
    /// Regular file.
    Regular,
    /// Directory.
    Directory,
    /// Character device.
    CharDevice,
    /// Block device.
    BlockDevice,
    /// Named pipe.
    Fifo,
    /// Socket.
    Socket,
    /// Symbolic link.
    Symlink,
}

impl FileType {
    /// Each type with the top four bits of its mode and its code in directory entries.
    const CODES: [(FileType, u16, u8); 7] = [
        (FileType::Regular, 0x8, 1),
        (FileType::Directory, 0x4, 2),
        (FileType::CharDevice, 0x2, 3),
        (FileType::BlockDevice, 0x6, 4),
        (FileType::Fifo, 0x1, 5),
        (FileType::Socket, 0xc, 6),
        (FileType::Symlink, 0xa, 7),
    ];

    fn codes(self) -> (u16, u8) {
        Self::CODES.iter().find(|(kind, ..)| *kind == self).map_or((0, 0), |(_, mode, entry)| (mode << 12, *entry))
    }

    /// From i_mode; None if its type bits are none of the seven.
    pub fn from_mode(mode: u16) -> Option<FileType> {
        Self::CODES.iter().find(|(_, code, _)| *code == mode >> 12).map(|(kind, ..)| *kind)
    }

    /// From the file_type of a directory entry; None for 0 (unknown) and codes that do not exist.
    pub fn from_dirent(code: u8) -> Option<FileType> {
        Self::CODES.iter().find(|(.., entry)| *entry == code).map(|(kind, ..)| *kind)
    }

    /// The type bits of i_mode.
    pub fn mode_bits(self) -> u16 {
        self.codes().0
    }

    /// The file_type of a directory entry.
    pub fn dirent_code(self) -> u8 {
        self.codes().1
    }
}

/// The number of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// Which driver has it.
    pub major: u32,
    /// Which of the driver's it is.
    pub minor: u32,
}

/// The words of i_block that hold a device number: the old 16-bit form if it fits, else the new 32-bit form.
pub fn encode_device(Device { major, minor }: Device) -> (u32, u32) {
    if major < 256 && minor < 256 {
        (major << 8 | minor, 0)
    } else {
        (0, minor & 0xff | (major & 0xfff) << 8 | (minor & !0xff) << 12)
    }
}

/// The device number in the first two words of i_block.
pub fn decode_device(old: u32, new: u32) -> Device {
    match old {
        0 => Device { major: new >> 8 & 0xfff, minor: new & 0xff | new >> 12 & 0xf_ff00 },
        old => Device { major: old >> 8 & 0xff, minor: old & 0xff },
    }
}

impl Inode {
    /// The file type; None if the mode has none of the seven.
    pub fn file_type(&self) -> Option<FileType> {
        FileType::from_mode(self.mode)
    }

    /// Whether this is a directory.
    pub fn is_dir(&self) -> bool {
        self.file_type() == Some(FileType::Directory)
    }

    /// Whether this is a regular file.
    pub fn is_regular(&self) -> bool {
        self.file_type() == Some(FileType::Regular)
    }

    /// Whether this is a symbolic link.
    pub fn is_symlink(&self) -> bool {
        self.file_type() == Some(FileType::Symlink)
    }

    /// Whether i_block is an extent tree.
    pub fn has_extents(&self) -> bool {
        self.flags.contains(InodeFlags::EXTENTS)
    }

    /// Whether this symlink's target lies in i_block.
    pub fn is_fast_symlink(&self) -> bool {
        let elsewhere = InodeFlags::EXTENTS | InodeFlags::INLINE_DATA | InodeFlags::EA_INODE;
        self.is_symlink() && !self.flags.intersects(elsewhere) && self.size <= FAST_SYMLINK_MAX as u64
    }

    /// The target of a fast symlink; None for anything else.
    pub fn fast_symlink(&self) -> Option<&[u8]> {
        if !self.is_fast_symlink() {
            return None;
        }
        self.i_block.get(..self.size as usize)
    }

    /// Makes `target` the target of this symlink, in i_block; false if it is too long for it.
    pub fn set_fast_symlink(&mut self, target: &[u8]) -> bool {
        if target.len() > FAST_SYMLINK_MAX {
            return false;
        }
        self.i_block = [0; 60];
        self.i_block[..target.len()].copy_from_slice(target);
        self.size = target.len() as u64;
        self.flags.remove(InodeFlags::EXTENTS);
        true
    }

    /// The device that a device file stands for.
    pub fn device(&self) -> Device {
        decode_device(self.block_word(0), self.block_word(1))
    }

    /// Makes this device file stand for `device`.
    pub fn set_device(&mut self, device: Device) {
        let (old, new) = encode_device(device);
        self.i_block = [0; 60];
        self.set_block_word(0, old);
        self.set_block_word(1, new);
    }

    /// Word `i` of i_block read as a block map: 0 to 11 direct, 12 to 14 indirect; 0 past the end.
    pub fn block_word(&self, i: usize) -> u32 {
        word(i).and_then(|range| self.i_block.get(range)?.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }

    /// Writes word `i` of i_block; ignored past the end.
    pub fn set_block_word(&mut self, i: usize, value: u32) {
        if let Some(bytes) = word(i).and_then(|range| self.i_block.get_mut(range)) {
            bytes.copy_from_slice(&value.to_le_bytes());
        }
    }
}

fn word(i: usize) -> Option<Range<usize>> {
    (i < 15).then(|| i * 4..i * 4 + 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_round_trip() {
        for (major, minor) in [(8, 1), (255, 255), (256, 0), (0, 256), (4095, 0xf_ffff), (0, 0)] {
            let (old, new) = encode_device(Device { major, minor });
            assert_eq!(decode_device(old, new), Device { major, minor });
        }
    }

    #[test]
    fn types_round_trip() {
        for (kind, ..) in FileType::CODES {
            assert_eq!(FileType::from_mode(kind.mode_bits() | 0o7777), Some(kind));
            assert_eq!(FileType::from_dirent(kind.dirent_code()), Some(kind));
        }
        assert_eq!(FileType::from_mode(0o777), None);
    }
}
