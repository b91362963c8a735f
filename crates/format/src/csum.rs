//! crc32c and crc16 the way ext4 and jbd2 seed and chain them (no final inversion), and the derived seeds.

use crc_fast::{CrcAlgorithm, Digest};

/// crc32c of `data` continued from `seed`, without the usual inversions: the kernel's `crc32c_le`.
pub fn crc32c(seed: u32, data: &[u8]) -> u32 {
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(seed));
    digest.update(data);
    !(digest.finalize() as u32)
}

/// crc16 (polynomial 0x8005, reflected) continued from `seed`, as gdt_csum uses it.
pub fn crc16(seed: u16, data: &[u8]) -> u16 {
    data.iter().fold(seed, |crc, &byte| {
        (0..8).fold(crc ^ u16::from(byte), |c, _| if c & 1 == 1 { (c >> 1) ^ 0xa001 } else { c >> 1 })
    })
}

/// crc32 (polynomial 0x04c11db7, most significant bit first) continued from `seed`, without inversions: the kernel's
/// `crc32_be`, as jbd2's first checksum uses it.
pub fn crc32_be(seed: u32, data: &[u8]) -> u32 {
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Mpeg2, u64::from(seed));
    digest.update(data);
    digest.finalize() as u32
}

/// The seed of a volume that has no `metadata_csum_seed`: crc32c of its UUID.
pub fn uuid_seed(uuid: &[u8; 16]) -> u32 {
    crc32c(!0, uuid)
}

/// The seed of everything that belongs to one inode: the inode itself, its directory, extent and orphan-file blocks.
pub fn inode_seed(seed: u32, ino: u32, generation: u32) -> u32 {
    crc32c(crc32c(seed, &ino.to_le_bytes()), &generation.to_le_bytes())
}

/// The generation with which inode `ino` has the same [`inode_seed`] as inode `other` with `generation`: blocks with
/// checksums of the one are then right for the other. There is one for every `ino`, since what crc32c makes of the last
/// 4 bytes follows from their exclusive or with what was before them.
pub fn generation_like(seed: u32, ino: u32, other: u32, generation: u32) -> u32 {
    crc32c(seed, &ino.to_le_bytes()) ^ crc32c(seed, &other.to_le_bytes()) ^ generation
}

/// crc32c of `data` with the 4 bytes at `field` taken as zero; None if the field does not lie inside.
pub(crate) fn crc32c_skip4(seed: u32, data: &[u8], field: usize) -> Option<u32> {
    let head = data.get(..field)?;
    let tail = data.get(field.checked_add(4)?..)?;
    Some(crc32c(crc32c(crc32c(seed, head), &[0; 4]), tail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        // The usual check value of crc32c has both inversions; crc16/ARC is published as 0xbb3d.
        assert_eq!(!crc32c(!0, b"123456789"), 0xe306_9283);
        assert_eq!(crc16(0, b"123456789"), 0xbb3d);
        // crc32/MPEG-2, and the same in two parts.
        assert_eq!(crc32_be(!0, b"123456789"), 0x0376_e6e7);
        assert_eq!(crc32_be(crc32_be(!0, b"1234"), b"56789"), 0x0376_e6e7);
    }

    #[test]
    fn skipping_a_field_equals_zeroing_it() {
        let mut bytes: Vec<u8> = (0..64).collect();
        let skipped = crc32c_skip4(7, &bytes, 20);
        bytes[20..24].fill(0);
        assert_eq!(skipped, Some(crc32c(7, &bytes)));
        assert_eq!(crc32c_skip4(7, &bytes, 62), None);
    }

    #[test]
    fn a_generation_makes_two_inodes_alike() {
        for (seed, ino, other, generation) in [(0, 12, 8, 0), (!0, 11, 8, 7), (0x1234_5678, 99_999, 1, !0)] {
            let like = super::generation_like(seed, ino, other, generation);
            assert_eq!(super::inode_seed(seed, ino, like), super::inode_seed(seed, other, generation));
        }
    }
}
