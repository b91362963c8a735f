//! The index of a directory: a tree of hashes in block 0 and the nodes below it, over leaves of plain entries.
//!
//! A leaf holds the names whose hash lies between its index entry and the next. When names of one hash fall into two
//! leaves, the second's index entry has its low bit set: a search goes on there.

mod grow;
mod path;

pub(super) use grow::insert_split;
pub(super) use path::{Path, Range};

use super::Dir;
use super::search::{Search, Slot, scan};
use crate::Result;
use crate::op::Reader;

/// Looks for a name in an indexed directory.
pub(super) fn search(reader: &mut dyn Reader, dir: &Dir, name: &[u8]) -> Result<Search> {
    let mut major = 0;
    let mut path = Path::find(reader, dir, |hasher| {
        major = hasher.hash(name).major;
        major
    })?;
    let (mut first, mut room) = (None, None);
    for _ in 0..dir.blocks {
        let bytes = reader.block(path.leaf, dir.leaf_kind())?;
        let scan = scan(reader, dir, &bytes, path.leaf, name)?;
        if let Some(entry) = scan.found {
            return Ok(Search::Found(entry));
        }
        let room = room.get_or_insert_with(|| scan.room(path.leaf, true));
        let goes_on = path.range(dir)?.next == Some(major | 1);
        if goes_on {
            first.get_or_insert_with(|| path.clone());
        }
        if !goes_on || !path.advance(reader, dir)? {
            let room = room.take();
            return room.map_or_else(|| split(dir, first.unwrap_or(path)), Ok).map(Search::Absent);
        }
    }
    Err(path.endless(dir))
}

/// Where a name goes for which the leaf at the end of `path` has no room.
fn split(dir: &Dir, path: Path) -> Result<Slot> {
    path.check(dir)?;
    Ok(if path.is_full() { Slot::Full } else { Slot::Split(Box::new(path)) })
}

/// Calls `each` with every leaf's block from the one that `path` leads to on, until it returns false.
pub(super) fn leaves(
    reader: &mut dyn Reader,
    dir: &Dir,
    mut path: Path,
    each: &mut dyn FnMut(&mut dyn Reader, &Path) -> Result<bool>,
) -> Result<()> {
    for _ in 0..dir.blocks {
        if !each(reader, &path)? || !path.advance(reader, dir)? {
            return Ok(());
        }
    }
    Err(path.endless(dir))
}
