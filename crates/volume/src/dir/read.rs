//! Listing a directory in an order that survives changes made meanwhile.
//!
//! A cookie is a position, not an entry. Where entries may move (htrees, and single blocks that become one when they
//! grow), the position is the name's hash: neither insertions nor splits nor removals change where another name stands.
//! In other directories entries never move, and the position is their byte offset.
//!
//! ```text
//!   hash order        0 "."    1 ".."    from 2 on: major hash >> 1
//!   between equals    that << 32 | minor hash (24 bits) << 8 | place among equals (8 bits)
//! ```
//!
//! 32-bit programs take offsets of 31 bits, and nobody tells which programs are such. So cookies are that small, but
//! for one that goes on between names of one major hash.

use super::htree::{self, Path, Range};
use super::{Dir, bad, inline};
use crate::op::Reader;
use crate::{DirEntry, Ino, Result};
use ondol_format::dirent::DirBlock;
use ondol_format::hash::{DxHash, HashVersion};
use ondol_format::inode::FileType;
use ondol_format::{Incompat, dirent};

/// Who is told of entries; false ends the listing.
type Each<'e> = dyn FnMut(DirEntry<'_>) -> bool + 'e;

/// The first and the last position of names in hash order: the cookies before and behind them have 31 bits.
const FIRST: u64 = 2;
const LAST: u64 = 0x7fff_fffd;

/// Lists `dir` from `cookie` on.
pub(super) fn list(reader: &mut dyn Reader, dir: &Dir, cookie: u64, each: &mut Each<'_>) -> Result<()> {
    if dir.hashed() { by_hash(reader, dir, cookie, each) } else { by_offset(reader, dir, cookie, each) }
}

fn file_type(reader: &dyn Reader, code: u8) -> Option<FileType> {
    let known = reader.volume().shared.sb.has_incompat(Incompat::FILETYPE);
    known.then(|| FileType::from_dirent(code)).flatten()
}

/// Checks what no search has compared with a valid name. A name may be listed that leads to what only its search
/// refuses.
fn check(reader: &dyn Reader, dir: &Dir, block: u64, e: &dirent::DirEntry<'_>) -> Result<()> {
    let dots = e.name == b"." || e.name == b"..";
    if (dots || dirent::is_valid_name(e.name)) && e.ino <= reader.volume().shared.sb.inodes_count() {
        return Ok(());
    }
    Err(dir.corrupt(block, format!("the entry at byte {} has an impossible name or inode {}", e.offset, e.ino)))
}

fn by_offset(reader: &mut dyn Reader, dir: &Dir, cookie: u64, each: &mut Each<'_>) -> Result<()> {
    if dir.is_inline() {
        return inline_by_offset(reader, dir, cookie, each);
    }
    let size = u64::from(reader.volume().shared.sb.block_size());
    let Ok(mut from) = u32::try_from(cookie / size) else { return Ok(()) };
    while let Some((logical, block)) = dir.next_block(reader, from)? {
        let bytes = reader.block(block, dir.leaf_kind())?;
        let base = u64::from(logical) * size;
        for entry in dir.leaf(&bytes, block)?.used() {
            let e = entry.map_err(|e| bad(block, &e))?;
            let at = base + e.offset as u64;
            if at < cookie {
                continue;
            }
            check(reader, dir, block, &e)?;
            let file_type = file_type(reader, e.file_type);
            if !each(DirEntry { ino: e.ino, file_type, name: e.name, next: at + e.rec_len as u64 }) {
                return Ok(());
            }
        }
        from = logical + 1;
    }
    Ok(())
}

/// Entries in the inode, at the offsets that they will have in a block.
fn inline_by_offset(reader: &mut dyn Reader, dir: &Dir, cookie: u64, each: &mut Each<'_>) -> Result<()> {
    let parent = dir.inline_parent(reader)?;
    for (at, ino, name) in [(0, dir.ino, &b"."[..]), (12, parent, b"..")] {
        let file_type = file_type(reader, FileType::Directory.dirent_code());
        if cookie <= at && !each(DirEntry { ino, file_type, name, next: at + 12 }) {
            return Ok(());
        }
    }
    dir.each_list(&mut |list, base| {
        for entry in list.used() {
            let e = entry.map_err(|e| bad(inline::HERE, &e))?;
            let at = (inline::SHIFT + base + e.offset) as u64;
            check(reader, dir, inline::HERE, &e)?;
            let file_type = file_type(reader, e.file_type);
            let next = at + e.rec_len as u64;
            if at >= cookie && !each(DirEntry { ino: e.ino, file_type, name: e.name, next }) {
                return Ok(false);
            }
        }
        Ok(true)
    })
}

/// The position of the names of a major hash. At both ends, several share one.
fn position(major: u32) -> u64 {
    u64::from(major >> 1).clamp(FIRST, LAST)
}

/// A name with its place in the order: its position, and behind it, in 32 bits, what the names of one position differ
/// in.
struct Placed {
    place: u64,
    ino: Ino,
    file_type: u8,
    name: Vec<u8>,
}

impl Placed {
    fn position(&self) -> u64 {
        self.place >> 32
    }
}

/// Names whose leaves share positions, to be sorted and listed together.
struct Batch {
    hasher: DxHash,
    /// The hasher of minor hashes where the directory's own has none.
    minor: DxHash,
    names: Vec<Placed>,
}

impl Batch {
    fn new(reader: &dyn Reader, dir: &Dir, version: Option<HashVersion>) -> Self {
        let hasher = dir.hasher(reader.volume(), version);
        Self { hasher, minor: DxHash { version: HashVersion::HalfMd4, ..hasher }, names: Vec::new() }
    }

    fn add(&mut self, reader: &dyn Reader, dir: &Dir, leaf: &DirBlock<'_>, block: u64, range: Range) -> Result<()> {
        for entry in leaf.used() {
            let e = entry.map_err(|e| bad(block, &e))?;
            check(reader, dir, block, &e)?;
            if e.name == b"." || e.name == b".." {
                continue;
            }
            let hash = self.hasher.hash(e.name);
            if !range.contains(hash.major) {
                return Err(dir.corrupt(block, format!("the hash of the entry at byte {} does not belong", e.offset)));
            }
            let legacy = self.hasher.version == HashVersion::Legacy;
            let minor = if legacy { self.minor.hash(e.name).minor } else { hash.minor };
            let place = position(hash.major) << 32 | u64::from(minor & !0xff);
            self.names.push(Placed { place, ino: e.ino, file_type: e.file_type, name: e.name.to_vec() });
        }
        Ok(())
    }

    /// Tells of the names before position `end`, of which no further leaf has any, from place `from` on; false if the
    /// listing is to end.
    fn tell(&mut self, reader: &dyn Reader, from: u64, end: u64, each: &mut Each<'_>) -> bool {
        self.names.sort_by(|a, b| (a.place, &a.name).cmp(&(b.place, &b.name)));
        let whole = self.names.partition_point(|placed| placed.position() < end);
        let (mut last, mut equals) = (None, 0);
        let mut names = self.names.drain(..whole).peekable();
        while let Some(placed) = names.next() {
            equals = if last == Some(placed.place) { equals + 1 } else { 0 };
            last = Some(placed.place);
            let at = placed.place | u64::min(equals, 0xff);
            let position = placed.position();
            let goes_on = names.peek().is_some_and(|next| next.position() == position);
            let next = if goes_on { at + 1 } else { position + 1 };
            let Placed { ino, file_type: code, name, .. } = &placed;
            let entry = DirEntry { ino: *ino, file_type: file_type(reader, *code), name, next };
            if at >= from && !each(entry) {
                return false;
            }
        }
        true
    }
}

fn by_hash(reader: &mut dyn Reader, dir: &Dir, cookie: u64, each: &mut Each<'_>) -> Result<()> {
    let (parent, first) = dir.parent(reader)?;
    for (at, ino, name) in [(0, dir.ino, &b"."[..]), (1, parent, b"..")] {
        let file_type = file_type(reader, FileType::Directory.dirent_code());
        if cookie <= at && !each(DirEntry { ino, file_type, name, next: at + 1 }) {
            return Ok(());
        }
    }
    let from = if cookie >> 32 == 0 { cookie << 32 } else { cookie };
    if !dir.indexed() {
        let mut batch = Batch::new(reader, dir, None);
        let whole = Range { first: 0, next: None };
        if dir.is_inline() {
            dir.each_list(&mut |list, _| batch.add(reader, dir, list, inline::HERE, whole).map(|()| true))?;
        } else {
            let bytes = reader.block(first, dir.leaf_kind())?;
            batch.add(reader, dir, &dir.leaf(&bytes, first)?, first, whole)?;
        }
        batch.tell(reader, from, u64::MAX, each);
        return Ok(());
    }
    let major = match from >> 32 {
        ..=FIRST => 0,
        position @ ..=LAST => (position as u32) << 1,
        _ => return Ok(()),
    };
    let path = Path::find(reader, dir, |_| major)?;
    let mut batch = Batch::new(reader, dir, Some(path.version));
    htree::leaves(reader, dir, path, &mut |reader, path| {
        let bytes = reader.block(path.leaf, dir.leaf_kind())?;
        let range = path.range(dir)?;
        batch.add(reader, dir, &dir.leaf(&bytes, path.leaf)?, path.leaf, range)?;
        // Names of the last position may go on in the next leaf: all of them are needed before any can be placed.
        Ok(batch.tell(reader, from, range.next.map_or(u64::MAX, position), each))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cookie_before_and_behind_a_position_has_31_bits() {
        for major in [0, 2, 4, 6, 0x8000_0000, 0xffff_fff8, 0xffff_fffa, 0xffff_fffc] {
            assert!((2..0x7fff_ffff).contains(&position(major)) && position(major) + 1 < 0x7fff_ffff, "{major:#x}");
        }
        assert!(position(4) < position(6) && position(0xffff_fff8) < position(0xffff_fffa));
    }
}
