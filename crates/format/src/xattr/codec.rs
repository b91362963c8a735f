//! Reading and writing the list of attributes in an inode's tail or in a block.
//!
//! Entries grow from the front, values from the end, both padded to 4 bytes; a word of zeros ends the entries.
//! Value offsets count from the first entry in an inode and from the block's beginning in a block.

use super::{MAGIC, RawHeader, Xattr};
use crate::csum::{crc32c, crc32c_skip4};
use crate::error::{FormatError, Place, Result};
use std::mem::offset_of;
use zerocopy::FromBytes;

/// Bytes of an entry before its name.
const ENTRY: usize = 16;
/// Bytes of the block header.
const HEADER: usize = size_of::<RawHeader>();
/// Bytes before the entries in an inode: the magic number.
const INODE_HEADER: usize = 4;
const STRUCTURE: &str = "extended attributes";

fn padded(len: usize) -> usize {
    len.next_multiple_of(4)
}

fn word_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

/// The attributes in an inode's tail (see [`crate::Inode::tail`]); none if no magic number begins it.
pub fn parse_inode(tail: &[u8], place: Place) -> Result<Vec<Xattr>> {
    match word_at(tail, 0) {
        Some(MAGIC) => parse(&tail[INODE_HEADER..], 0, place),
        _ => Ok(Vec::new()),
    }
}

/// The attributes in a block.
pub fn parse_block(block: &[u8], place: Place) -> Result<Vec<Xattr>> {
    let header = header(block, place)?;
    if header.h_blocks.get() != 1 {
        return Err(place.corrupt(STRUCTURE, format!("{} blocks, not 1", header.h_blocks.get())));
    }
    parse(block, HEADER, place)
}

/// Inodes that share a block.
pub fn refcount(block: &[u8], place: Place) -> Result<u32> {
    header(block, place).map(|header| header.h_refcount.get())
}

fn header(block: &[u8], place: Place) -> Result<&RawHeader> {
    let Ok((header, _)) = RawHeader::ref_from_prefix(block) else {
        return Err(place.corrupt(STRUCTURE, "no room for a header"));
    };
    if header.h_magic.get() != MAGIC {
        let what = format!("magic number {:#x}, not {MAGIC:#x}", header.h_magic.get());
        return Err(place.corrupt(STRUCTURE, what));
    }
    Ok(header)
}

/// Reads entries from byte `at` of `area`, from whose beginning value offsets count.
fn parse(area: &[u8], mut at: usize, place: Place) -> Result<Vec<Xattr>> {
    let mut list = Vec::new();
    // First pass: names, which also tells where values may begin.
    let mut offsets = Vec::new();
    loop {
        match word_at(area, at) {
            None => return Err(place.corrupt(STRUCTURE, "the entries have no end")),
            Some(0) => break,
            Some(_) => {}
        }
        let entry = area.get(at..).and_then(|rest| rest.first_chunk::<ENTRY>());
        let Some(entry) = entry else { return Err(place.corrupt(STRUCTURE, "an entry passes the end")) };
        let name_len = usize::from(entry[0]);
        let Some(name) = area.get(at + ENTRY..at + ENTRY + name_len) else {
            return Err(place.corrupt(STRUCTURE, "a name passes the end"));
        };
        offsets.push(usize::from(u16::from_le_bytes([entry[2], entry[3]])));
        list.push(Xattr {
            name_index: entry[1],
            name: name.to_vec(),
            value: Vec::new(),
            value_inum: word_at(entry, 4).unwrap_or_default(),
            value_size: word_at(entry, 8).unwrap_or_default(),
            hash: word_at(entry, 12).unwrap_or_default(),
        });
        at += padded(ENTRY + name_len);
    }
    let values_from = at + 4;
    for (xattr, offset) in list.iter_mut().zip(offsets) {
        if xattr.value_inum != 0 || xattr.value_size == 0 {
            continue;
        }
        let value = usize::try_from(xattr.value_size).ok().and_then(|size| area.get(offset..offset.checked_add(size)?));
        match value.filter(|_| offset >= values_from) {
            Some(value) => xattr.value = value.to_vec(),
            None => {
                let name = crate::printable(&xattr.name);
                let what = format!("the value of '{name}' ({} bytes at {offset}) cannot lie there", xattr.value_size);
                return Err(place.corrupt(STRUCTURE, what));
            }
        }
    }
    Ok(list)
}

/// Bytes that the entries (with the word that ends them) and the values take.
fn needed(list: &[Xattr]) -> usize {
    list.iter().map(|xattr| padded(ENTRY + xattr.name.len()) + value_room(xattr)).sum::<usize>() + 4
}

fn value_room(xattr: &Xattr) -> usize {
    if xattr.value_inum == 0 { padded(xattr.value.len()) } else { 0 }
}

/// Whether the attributes fit into a tail of `tail_len` bytes.
pub fn inode_fits(list: &[Xattr], tail_len: usize) -> bool {
    list.is_empty() || INODE_HEADER + needed(list) <= tail_len
}

/// Whether the attributes fit into a block.
pub fn block_fits(list: &[Xattr], block_size: usize) -> bool {
    HEADER + needed(list) <= block_size
}

/// Writes the attributes, in their order, as an inode's tail; an empty list leaves zeros. Hashes are 0 there.
///
/// # Errors
/// They do not fit, or a name is too long.
pub fn write_inode(list: &[Xattr], tail: &mut [u8]) -> Result<()> {
    if !inode_fits(list, tail.len()) {
        return Err(FormatError::TooLarge("the extended attributes do not fit into the inode".into()));
    }
    tail.fill(0);
    if list.is_empty() {
        return Ok(());
    }
    tail[..INODE_HEADER].copy_from_slice(&MAGIC.to_le_bytes());
    write(list.iter(), &mut tail[INODE_HEADER..], 0, false).map(|_| ())
}

/// Writes the attributes as a block, sorted as ext4 demands, with their hashes. The checksum is a matter of
/// [`seal_block`].
///
/// # Errors
/// They do not fit, or a name is too long.
pub fn write_block(list: &[Xattr], refcount: u32, block: &mut [u8]) -> Result<()> {
    if !block_fits(list, block.len()) {
        return Err(FormatError::TooLarge("the extended attributes do not fit into a block".into()));
    }
    let mut sorted: Vec<&Xattr> = list.iter().collect();
    sorted.sort_by(|a, b| (a.name_index, a.name.len(), &a.name).cmp(&(b.name_index, b.name.len(), &b.name)));
    block.fill(0);
    let hash = write(sorted.into_iter(), block, HEADER, true)?;
    if let Ok((header, _)) = RawHeader::mut_from_prefix(block) {
        header.h_magic.set(MAGIC);
        header.h_refcount.set(refcount);
        header.h_blocks.set(1);
        header.h_hash.set(hash);
    }
    Ok(())
}

/// Writes entries from byte `at` and values from the end of `area`; returns the hash over all.
fn write<'x>(list: impl Iterator<Item = &'x Xattr>, area: &mut [u8], mut at: usize, hashed: bool) -> Result<u32> {
    let mut end = area.len();
    let mut total = Some(0u32);
    for xattr in list {
        let name_len = u8::try_from(xattr.name.len())
            .map_err(|_| FormatError::TooLarge(format!("an attribute name of {} bytes", xattr.name.len())))?;
        end -= value_room(xattr);
        let offset = if value_room(xattr) > 0 { end } else { 0 };
        let value = if xattr.value_inum == 0 { xattr.value.as_slice() } else { &[] };
        area[end..end + value.len()].copy_from_slice(value);
        let hash = match (hashed, xattr.value_inum) {
            (true, 0) => entry_hash(&xattr.name, &area[end..end + padded(value.len())], u32::from),
            (_, 0) => 0,
            _ => xattr.hash,
        };
        total = total.filter(|_| hash != 0).map(|total| total.rotate_left(16) ^ hash);
        let size = if xattr.value_inum == 0 { value.len() as u32 } else { xattr.value_size };
        let entry = &mut area[at..at + ENTRY + xattr.name.len()];
        entry[0] = name_len;
        entry[1] = xattr.name_index;
        entry[2..4].copy_from_slice(&(offset as u16).to_le_bytes());
        entry[4..8].copy_from_slice(&xattr.value_inum.to_le_bytes());
        entry[8..12].copy_from_slice(&size.to_le_bytes());
        entry[12..16].copy_from_slice(&hash.to_le_bytes());
        entry[ENTRY..].copy_from_slice(&xattr.name);
        at += padded(ENTRY + xattr.name.len());
    }
    Ok(total.unwrap_or(0))
}

/// e_hash of a name and a value padded with zeros to whole words; `char` makes a number of a character.
fn entry_hash(name: &[u8], value: &[u8], char: fn(u8) -> u32) -> u32 {
    let hash = name.iter().fold(0u32, |hash, byte| hash.rotate_left(5) ^ char(*byte));
    value.chunks_exact(4).fold(hash, |hash, w| hash.rotate_left(16) ^ u32::from_le_bytes([w[0], w[1], w[2], w[3]]))
}

/// e_hash of an attribute whose value, of hash `value`, lies in an inode.
pub fn value_entry_hash(name: &[u8], value: u32) -> u32 {
    entry_hash(name, &value.to_le_bytes(), u32::from)
}

/// Whether `hash` is such an e_hash.
pub fn is_value_entry_hash(hash: u32, name: &[u8], value: u32) -> bool {
    is_hash(hash, name, &value.to_le_bytes())
}

/// Whether e_hash of an attribute whose value lies with it is right.
pub fn is_entry_hash(xattr: &Xattr) -> bool {
    let mut value = xattr.value.clone();
    value.resize(padded(value.len()), 0);
    is_hash(xattr.hash, &xattr.name, &value)
}

/// Whether `hash` is e_hash as it is written, or of signed characters, as kernels before 6.2 wrote it on most
/// processors.
fn is_hash(hash: u32, name: &[u8], value: &[u8]) -> bool {
    let signed = |byte: u8| i32::from(byte.cast_signed()).cast_unsigned();
    hash == entry_hash(name, value, u32::from) || hash == entry_hash(name, value, signed)
}

const CHECKSUM: usize = offset_of!(RawHeader, h_checksum);

fn checksum(block: &[u8], seed: u32, number: u64) -> Option<u32> {
    crc32c_skip4(crc32c(seed, &number.to_le_bytes()), block, CHECKSUM)
}

/// Writes the checksum of the xattr block at physical block `number`; `seed` is the volume's.
pub fn seal_block(block: &mut [u8], seed: u32, number: u64) {
    if let Some(crc) = checksum(block, seed, number) {
        block[CHECKSUM..CHECKSUM + 4].copy_from_slice(&crc.to_le_bytes());
    }
}

/// Verifies the checksum of the xattr block at physical block `number`; `seed` is the volume's.
pub fn verify_block(block: &[u8], seed: u32, number: u64, place: Place) -> Result<()> {
    let computed = checksum(block, seed, number).ok_or_else(|| place.corrupt(STRUCTURE, "no room for a header"))?;
    let stored = word_at(block, CHECKSUM).unwrap_or_default();
    let place = place.in_block(number);
    if stored == computed { Ok(()) } else { Err(place.checksum("xattr block", stored, computed)) }
}
