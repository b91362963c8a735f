//! Makes the checksums of changed structures right, so that what is in them is believed.

use super::{Structure, What};
use ondol_format::csum::crc32c;
use ondol_format::group::{self, DescCsum};
use ondol_format::jbd2::{BlockType, HEADER, Header, JournalSuperblock, LogCsum, LogFormat};
use ondol_format::{RawSuperblock, Superblock, bitmap, csum, dirent, extent, htree, inode, orphan_file, xattr};
use ondol_power::Layer;
use zerocopy::{FromZeros, IntoBytes};

/// Seals every structure that is touched, or that depends on one that is.
pub(crate) fn all(layer: &mut Layer, structures: &[Structure], touched: &[bool]) {
    let of = |what: What| structures.iter().zip(touched).any(|(s, t)| *t && s.what == what);
    let Some(sb) = superblock(layer) else { return };
    let everything = of(What::Superblock);
    let owners: Vec<u32> =
        structures.iter().zip(touched).filter(|(s, t)| **t && s.what == What::Inode).map(|(s, _)| s.ino).collect();
    let is_new = |(s, t): &(&Structure, &bool)| everything || **t || owners.contains(&s.ino);
    for (s, _) in structures.iter().zip(touched).filter(is_new) {
        one(layer, &sb, structures, s);
    }
    descriptors(layer, &sb, structures);
    if structures.iter().zip(touched).any(|(s, t)| *t && matches!(s.what, What::JournalSuper | What::Journal(_))) {
        journal(layer, structures, sb.block_size());
    }
}

/// Seals the superblock and reads it; `None` when nobody else will read it either.
fn superblock(layer: &mut Layer) -> Option<Superblock> {
    let mut raw = RawSuperblock::new_zeroed();
    let at = ondol_format::superblock::OFFSET as usize;
    layer.read(at, raw.as_mut_bytes());
    if raw.features().has_metadata_csum() {
        raw.seal();
        layer.write(at, raw.as_bytes());
    }
    Superblock::from_raw(raw, layer.len() as u64).ok()
}

fn bytes_of(layer: &Layer, s: &Structure) -> Vec<u8> {
    let mut bytes = vec![0; s.len as usize];
    layer.read(s.offset as usize, &mut bytes);
    bytes
}

/// The generation that an inode has now.
fn generation(layer: &Layer, structures: &[Structure], ino: u32) -> u32 {
    let mut word = [0; 4];
    if let Some(s) = structures.iter().find(|s| s.what == What::Inode && s.ino == ino) {
        layer.read(s.offset as usize + GENERATION, &mut word);
    }
    u32::from_le_bytes(word)
}

/// Where i_generation lies in an inode.
const GENERATION: usize = 0x64;

fn one(layer: &mut Layer, sb: &Superblock, structures: &[Structure], s: &Structure) {
    let Some(seed) = sb.csum_seed() else { return };
    let mut bytes = bytes_of(layer, s);
    let owner = csum::inode_seed(seed, s.ino, generation(layer, structures, s.ino));
    match s.what {
        What::Inode => inode::seal(&mut bytes, s.ino, &sb.inode_format()),
        What::ExtentNode => extent::seal(&mut bytes, owner),
        What::DirLeaf => dirent::seal(&mut bytes, owner),
        What::DxNode => htree::seal(&mut bytes, owner),
        What::Xattr => xattr::seal_block(&mut bytes, seed, s.block),
        What::OrphanFile => orphan_file::seal(&mut bytes, owner, s.block),
        _ => return,
    }
    layer.write(s.offset as usize, &bytes);
}

/// The checksums of bitmaps, and those of the descriptors that hold them.
fn descriptors(layer: &mut Layer, sb: &Superblock, structures: &[Structure]) {
    for s in structures {
        let What::Desc(g) = s.what else { continue };
        let mut desc = bytes_of(layer, s);
        if let Some(seed) = sb.csum_seed() {
            for map in structures {
                let mut put = |bits, put: fn(&mut [u8], u32) -> ondol_format::Result<()>| {
                    let sum = bitmap::checksum(seed, &bytes_of(layer, map), bits);
                    // A descriptor too short for it has none.
                    let _ = put(&mut desc, sum);
                };
                match map.what {
                    What::BlockBitmap(of) if of == g => put(sb.clusters_per_group(), group::put_block_bitmap_csum),
                    What::InodeBitmap(of) if of == g => put(sb.inodes_per_group(), group::put_inode_bitmap_csum),
                    _ => {}
                }
            }
        }
        DescCsum::of(sb).seal(g, &mut desc);
        layer.write(s.offset as usize, &desc);
    }
}

/// Where s_checksum lies in a journal superblock.
const JOURNAL_CHECKSUM: usize = 0xFC;
/// Where h_chksum lies in a commit block.
const COMMIT_CHECKSUM: usize = 0x10;

fn journal(layer: &mut Layer, structures: &[Structure], block_size: u32) {
    let Some(head) = structures.iter().find(|s| s.what == What::JournalSuper) else { return };
    let mut bytes = bytes_of(layer, head);
    bytes[JOURNAL_CHECKSUM..JOURNAL_CHECKSUM + 4].fill(0);
    let sum = crc32c(!0, &bytes[..ondol_format::jbd2::SUPERBLOCK_SIZE]);
    bytes[JOURNAL_CHECKSUM..JOURNAL_CHECKSUM + 4].copy_from_slice(&sum.to_be_bytes());
    layer.write(head.offset as usize, &bytes);
    let Ok(sb) = JournalSuperblock::parse(&bytes, block_size, 1 << 30) else { return };
    let format = sb.format();
    for s in structures.iter().filter(|s| matches!(s.what, What::Journal(_))) {
        let mut block = bytes_of(layer, s);
        let Some(header) = Header::parse(&block) else { continue };
        match header.kind {
            BlockType::Commit => seal_commit(&mut block, &format),
            BlockType::Descriptor => {
                let image_of =
                    |number| structures.iter().find(|s| s.what == What::Journal(number)).map(|s| bytes_of(layer, s));
                tags(s, &mut block, &format, header.sequence, image_of);
                format.seal_tail(&mut block);
            }
            BlockType::Revoke => format.seal_tail(&mut block),
            _ => {}
        }
        layer.write(s.offset as usize, &block);
    }
}

/// Writes the checksum of a commit block.
pub(super) fn seal_commit(block: &mut [u8], format: &LogFormat) {
    block[COMMIT_CHECKSUM..COMMIT_CHECKSUM + 4].fill(0);
    let sum = crc32c(format.seed, block);
    if format.has_csum() {
        block[COMMIT_CHECKSUM..COMMIT_CHECKSUM + 4].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Writes the checksums of the images behind a descriptor block into its tags, as far as they are there.
fn tags(
    at: &Structure,
    block: &mut [u8],
    format: &LogFormat,
    sequence: u32,
    image_of: impl Fn(u32) -> Option<Vec<u8>>,
) {
    let What::Journal(number) = at.what else { return };
    let (size, end) = (format.tag_bytes(), block.len() - ondol_format::jbd2::TAIL);
    let (mut tag, mut image) = (HEADER, number);
    while tag + size <= end && format.csum == LogCsum::V3 {
        image += 1;
        let Some(bytes) = image_of(image) else { return };
        let sum = ondol_format::jbd2::tag_checksum(format, sequence, &bytes);
        block[tag + 12..tag + 16].copy_from_slice(&sum.to_be_bytes());
        let flags = block[tag + 7];
        if flags & 8 != 0 {
            return;
        }
        tag += size + if flags & 2 == 0 { 16 } else { 0 };
    }
}
