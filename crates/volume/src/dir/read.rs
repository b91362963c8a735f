//! Listing a directory in an order that survives changes made meanwhile.
//!
//! A cookie is a position, not an entry. Where entries may move (htrees, and single blocks that become one when they
//! grow), the position is the name's hash: neither insertions nor splits nor removals change where another name stands.
//! In other directories entries never move, and the position is their byte offset.
//!
//! ```text
//!   hash order   0 "."    1 ".."    2 + (major hash >> 1) << 32 | minor hash (24 bits) << 8 | place among equals (8 bits)
//! ```

use super::htree::{self, Path, Range};
use super::{Dir, bad, inline, valid_ino};
use crate::op::Reader;
use crate::{DirEntry, Ino, Result};
use ondol_format::dirent::DirBlock;
use ondol_format::hash::{DxHash, HashVersion};
use ondol_format::inode::FileType;
use ondol_format::{Incompat, dirent};

/// Who is told of entries; false ends the listing.
type Each<'e> = dyn FnMut(DirEntry<'_>) -> bool + 'e;

/// Cookie of the first entry behind "." and ".." in hash order.
const NAMES: u64 = 2;

/// Lists `dir` from `cookie` on.
pub(super) fn list(reader: &mut dyn Reader, dir: &Dir, cookie: u64, each: &mut Each<'_>) -> Result<()> {
    if dir.hashed() { by_hash(reader, dir, cookie, each) } else { by_offset(reader, dir, cookie, each) }
}

fn file_type(reader: &dyn Reader, code: u8) -> Option<FileType> {
    let known = reader.volume().shared.sb.has_incompat(Incompat::FILETYPE);
    known.then(|| FileType::from_dirent(code)).flatten()
}

/// Checks what no search has compared with a valid name.
fn check(reader: &dyn Reader, dir: &Dir, block: u64, e: &dirent::DirEntry<'_>) -> Result<()> {
    let dots = e.name == b"." || e.name == b"..";
    if (dots || dirent::is_valid_name(e.name)) && valid_ino(reader.volume(), e.ino) {
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

/// A name with its position.
struct Placed {
    position: u64,
    ino: Ino,
    file_type: u8,
    name: Vec<u8>,
}

/// Names whose leaves share hashes, to be sorted and listed together.
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
            let position = u64::from(hash.major >> 1) << 32 | u64::from(minor & !0xff);
            self.names.push(Placed { position, ino: e.ino, file_type: e.file_type, name: e.name.to_vec() });
        }
        Ok(())
    }

    /// Tells of all names from position `from` on; false if the listing is to end.
    fn tell(&mut self, reader: &dyn Reader, from: u64, each: &mut Each<'_>) -> bool {
        self.names.sort_by(|a, b| (a.position, &a.name).cmp(&(b.position, &b.name)));
        let (mut last, mut equals) = (None, 0);
        for Placed { position, ino, file_type: code, name } in self.names.drain(..) {
            equals = if last == Some(position) { equals + 1 } else { 0 };
            last = Some(position);
            let at = position | u64::min(equals, 0xff);
            let entry = DirEntry { ino, file_type: file_type(reader, code), name: &name, next: at + 1 + NAMES };
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
    let from = cookie.saturating_sub(NAMES);
    if !dir.indexed() {
        let mut batch = Batch::new(reader, dir, None);
        let whole = Range { first: 0, next: None };
        if dir.is_inline() {
            dir.each_list(&mut |list, _| batch.add(reader, dir, list, inline::HERE, whole).map(|()| true))?;
            batch.tell(reader, from, each);
            return Ok(());
        }
        let bytes = reader.block(first, dir.leaf_kind())?;
        batch.add(reader, dir, &dir.leaf(&bytes, first)?, first, whole)?;
        batch.tell(reader, from, each);
        return Ok(());
    }
    let Ok(major) = u32::try_from((from >> 32) << 1) else { return Ok(()) };
    let path = Path::find(reader, dir, |_| major)?;
    let mut batch = Batch::new(reader, dir, Some(path.version));
    htree::leaves(reader, dir, path, &mut |reader, path| {
        let bytes = reader.block(path.leaf, dir.leaf_kind())?;
        let range = path.range(dir)?;
        batch.add(reader, dir, &dir.leaf(&bytes, path.leaf)?, path.leaf, range)?;
        // Names of the last hash go on in the next leaf: all of them are needed before any can be placed.
        Ok(range.shared().is_some() || batch.tell(reader, from, each))
    })?;
    batch.tell(reader, from, each);
    Ok(())
}
