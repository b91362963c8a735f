//! Splitting a full leaf, and the index blocks above it when they are full too.

use super::path::{Frame, Path};
use crate::dir::{Dir, NewEntry, bad, new_block};
use crate::op::{Op, Reader};
use crate::{Error, Result};
use ondol_format::dirent::{DirBlockMut, rec_len_for};
use ondol_format::htree::{DxBlockMut, DxEntry};
use ondol_journal::Block;

/// Splits the leaf that `path` leads to, and puts a name into the half where it belongs.
pub(in crate::dir) fn insert_split(op: &mut Op<'_>, dir: &Dir, mut path: Path, new: NewEntry<'_>) -> Result<()> {
    let range = path.range(dir)?;
    make_room(op, dir, &mut path)?;
    let bytes = op.block(path.leaf, dir.leaf_kind())?;
    let hasher = dir.hasher(op.vol(), Some(path.version));
    let mut entries = Vec::new();
    for entry in dir.leaf(&bytes, path.leaf)?.used() {
        let e = entry.map_err(|e| bad(path.leaf, &e))?;
        let major = hasher.hash(e.name).major;
        if !range.contains(major) {
            return Err(dir.corrupt(path.leaf, format!("the hash of the entry at byte {} does not belong", e.offset)));
        }
        entries.push((major, NewEntry { name: e.name, ino: e.ino, file_type: e.file_type }));
    }
    entries.sort_by_key(|(major, _)| *major);
    let Some((low, high)) = halve(&entries, bytes.len()) else {
        return Err(dir.corrupt(path.leaf, "a leaf is full with a single entry"));
    };
    let (first, before) = (high[0].0, low[low.len() - 1].0);
    let to_high = hasher.hash(new.name).major >= first;
    let high = pack(dir, &bytes, high, to_high.then_some(new))?;
    let low = pack(dir, &bytes, low, (!to_high).then_some(new))?;
    let (logical, _) = new_block(op, dir.ino, dir.leaf_kind(), &high)?;
    op.handle()?.write(path.leaf, dir.leaf_kind(), 0, &low)?;
    let hash = first | u32::from(first == before);
    let last = path.frames.len() - 1;
    index_insert(op, dir, &mut path.frames[last], DxEntry { hash, block: logical })
}

/// A name to be, with its major hash.
type Hashed<'e> = (u32, NewEntry<'e>);

/// Two parts of about equal size, neither empty.
fn halve<'a, 'e>(entries: &'a [Hashed<'e>], block_size: usize) -> Option<(&'a [Hashed<'e>], &'a [Hashed<'e>])> {
    let (mut at, mut size) = (entries.len(), 0);
    while at > 1 {
        let need = rec_len_for(entries[at - 1].1.name.len());
        if size > 0 && size + need / 2 > block_size / 2 {
            break;
        }
        size += need;
        at -= 1;
    }
    (at < entries.len() && at > 0).then(|| entries.split_at(at))
}

/// A leaf of these entries.
fn pack(dir: &Dir, like: &Block, entries: &[Hashed<'_>], new: Option<NewEntry<'_>>) -> Result<Vec<u8>> {
    let mut bytes = vec![0; like.len()];
    let mut block = DirBlockMut::init_empty(&mut bytes, dir.csum, dir.place(0));
    let all = entries.iter().map(|(_, e)| e).chain(&new).map(|e| (e.name, e.ino, e.file_type));
    block.fill(all).map_err(|e| bad(0, &e))?;
    Ok(bytes)
}

/// Sees to it that the last index block can take another entry.
fn make_room(op: &mut Op<'_>, dir: &Dir, path: &mut Path) -> Result<()> {
    if path.is_full() {
        return Err(Error::NoSpace("the directory's index is full"));
    }
    if path.new_nodes() == path.levels() {
        raise(op, dir, path)?;
    }
    let first = path.frames.len() - path.new_nodes() as usize;
    for level in first..path.frames.len() {
        split_node(op, dir, path, level)?;
    }
    Ok(())
}

/// Moves the root's entries into a new node, the root's only entry from then on.
fn raise(op: &mut Op<'_>, dir: &Dir, path: &mut Path) -> Result<()> {
    let levels = path.levels() as u8;
    let (allowed, root) = (path.allowed, &mut path.frames[0]);
    let place = dir.place(root.block);
    let mut old = op.block(root.block, root.kind)?.to_vec();
    let mut bytes = vec![0; old.len()];
    let mut node = DxBlockMut::init_node(&mut bytes, 1, dir.csum);
    let limit = node.limit();
    let copied = DxBlockMut::root(&mut old, dir.csum, allowed, place).map(|root| root.copy_entries(&mut node));
    if !copied.map_err(|e| bad(root.block, &e))? {
        return Err(dir.corrupt(root.block, "a root with more entries than a node takes"));
    }
    let (logical, block) = new_block(op, dir.ino, dir.node_kind(), &bytes)?;
    op.handle()?
        .edit(root.block, root.kind, |bytes| {
            let mut root = DxBlockMut::root(bytes, dir.csum, allowed, place)?;
            root.reset(logical);
            root.set_indirect_levels(levels);
            Ok(())
        })?
        .map_err(|e| bad(root.block, &e))?;
    let node = Frame { block, kind: dir.node_kind(), at: root.at, count: root.count, limit, bytes: bytes.into() };
    (root.at, root.count) = (0, 1);
    path.frames.insert(1, node);
    Ok(())
}

/// Moves the upper half of a full node into a new one. The block above has room.
fn split_node(op: &mut Op<'_>, dir: &Dir, path: &mut Path, level: usize) -> Result<()> {
    let (above, below) = path.frames.split_at_mut(level);
    let (Some(parent), Some(frame)) = (above.last_mut(), below.first_mut()) else {
        return Err(Error::Invalid("a root cannot be split"));
    };
    let half = frame.count / 2;
    let mut old = op.block(frame.block, frame.kind)?.to_vec();
    let mut bytes = vec![0; old.len()];
    let mut node = DxBlockMut::init_node(&mut bytes, 1, dir.csum);
    let place = dir.place(frame.block);
    let hash = DxBlockMut::node(&mut old, dir.csum, place).map(|mut old| old.split_off(half, &mut node));
    let hash = hash.map_err(|e| bad(frame.block, &e))?;
    let hash = hash.ok_or_else(|| dir.corrupt(frame.block, "an index node that cannot be split"))?;
    let (logical, block) = new_block(op, dir.ino, dir.node_kind(), &bytes)?;
    op.handle()?.write(frame.block, frame.kind, 0, &old)?;
    index_insert(op, dir, parent, DxEntry { hash, block: logical })?;
    if frame.at < half {
        frame.count = half;
    } else {
        let (at, count) = (frame.at - half, frame.count - half);
        *frame = Frame { block, at, count, bytes: bytes.into(), ..*frame };
        parent.at += 1;
    }
    Ok(())
}

/// Inserts behind the entry that the frame takes.
fn index_insert(op: &mut Op<'_>, dir: &Dir, frame: &mut Frame, entry: DxEntry) -> Result<()> {
    let (place, at) = (dir.place(frame.block), frame.at + 1);
    let root = frame.kind == dir.root_kind();
    let inserted = op.handle()?.edit(frame.block, frame.kind, |bytes| {
        let index = if root {
            DxBlockMut::root(bytes, dir.csum, u8::MAX, place)
        } else {
            DxBlockMut::node(bytes, dir.csum, place)
        };
        index.map(|mut index| index.insert(at, entry))
    })?;
    if !inserted.map_err(|e| bad(frame.block, &e))? {
        return Err(dir.corrupt(frame.block, "an index block without the room it should have"));
    }
    frame.count += 1;
    Ok(())
}
