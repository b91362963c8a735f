//! Empty volumes that mke2fs made and our own mkfs does not: the bytes that are not zeros, each run behind its offset
//! and length.
//!
//! All are 4 MiB in blocks of 1 KiB with a journal of 1,024 blocks, by mke2fs 1.47 with `-t ext4 -b 1024 -J size=1 -N
//! 128` and what the constants say.

/// `-C 4096 -O bigalloc,orphan_file`
pub(super) const CLUSTERS: &[u8] = include_bytes!("../../seeds/clusters");
/// `-O fast_commit,large_dir,ea_inode,inline_data,orphan_file`
pub(super) const FAST: &[u8] = include_bytes!("../../seeds/fast");
/// `-O ^extent,^64bit,^flex_bg`
pub(super) const MAPS: &[u8] = include_bytes!("../../seeds/maps");
/// `-I 128 -O ^extent,^64bit,^metadata_csum,^flex_bg`
pub(super) const OLD: &[u8] = include_bytes!("../../seeds/old");

/// The volume, in an image of `size` bytes.
pub(super) fn unpack(mut runs: &[u8], size: usize) -> Vec<u8> {
    let mut image = vec![0; size];
    let number = |bytes: &[u8; 4]| u32::from_le_bytes(*bytes) as usize;
    while let Some((offset, rest)) = runs.split_first_chunk() {
        let (len, rest) = rest.split_first_chunk().expect("an offset goes before a length");
        let (run, rest) = rest.split_at(number(len));
        image[number(offset)..][..run.len()].copy_from_slice(run);
        runs = rest;
    }
    image
}
