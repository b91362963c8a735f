//! Names and sizes in memory, and nothing else: the least that a server can do and still carry a program.
//!
//! Contents are not kept: what is written has a size, and reads of it give zeros, unless the kernel has the pages.
//! There are no extended attributes, and the kernel is told so once, so that it never asks for them. Times stand still.

use super::files::{
    Attributes, DIRECTORY, Files, InDir, Listed, ROOT, TYPE, Told, kind, not_offered, stale, without_suid,
};
use super::table::Table;
use crate::ops::{Answer, Errno as Number};
use crate::proto::numbers::fattr;
use crate::proto::wire::{Attr, SetattrIn, StatfsOut};
use parking_lot::Mutex;
use rustix::io::Errno;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

const BLOCK: u32 = 4096;
/// Blocks and inodes that it says are free.
const PLENTY: u64 = 1 << 32;

pub(super) struct Null {
    known: Table<Node>,
    next: AtomicU64,
}

struct Node {
    number: u64,
    mode: AtomicU32,
    size: AtomicU64,
    /// Names in this directory.
    names: Option<Mutex<Names>>,
}

#[derive(Default)]
struct Names {
    found: HashMap<Box<[u8]>, Named>,
    /// In the order in which they were made, which is that of listings.
    order: BTreeMap<u64, Box<[u8]>>,
    last: u64,
}

struct Named {
    node: Arc<Node>,
    place: u64,
}

impl Names {
    fn add(&mut self, name: &[u8], node: Arc<Node>) -> Answer<()> {
        let Entry::Vacant(entry) = self.found.entry(name.into()) else { return Err(Errno::EXIST.into()) };
        self.last += 1;
        entry.insert(Named { node, place: self.last });
        self.order.insert(self.last, name.into());
        Ok(())
    }

    fn take(&mut self, name: &[u8]) -> Option<Arc<Node>> {
        let named = self.found.remove(name)?;
        self.order.remove(&named.place);
        Some(named.node)
    }
}

impl Node {
    fn new(number: u64, mode: u32) -> Arc<Self> {
        let names = (mode & TYPE == DIRECTORY).then(Mutex::default);
        Arc::new(Self { number, mode: mode.into(), size: AtomicU64::new(0), names })
    }

    fn names(&self) -> Answer<&Mutex<Names>> {
        self.names.as_ref().ok_or(Errno::NOTDIR.into())
    }

    fn attr(&self) -> Attr {
        let size = self.size.load(Relaxed);
        let nlink = if self.names.is_some() { 2 } else { 1 };
        let mode = self.mode.load(Relaxed);
        Attr { ino: self.number, size, blocks: size.div_ceil(512), mode, nlink, blksize: BLOCK, ..Attr::default() }
    }

    fn is_empty(&self) -> bool {
        self.names.as_ref().is_none_or(|names| names.lock().found.is_empty())
    }
}

impl Null {
    pub(super) fn new() -> Self {
        let known = Table::new();
        known.tell(ROOT, Node::new(ROOT, DIRECTORY | 0o755));
        Self { known, next: AtomicU64::new(ROOT + 1) }
    }

    fn node(&self, number: u64) -> Answer<Arc<Node>> {
        self.known.get(number).ok_or_else(stale)
    }

    fn tell(&self, node: &Arc<Node>) -> Told {
        self.known.tell(node.number, Arc::clone(node));
        Told { node: node.number, attr: node.attr() }
    }
}

impl Files for Null {
    fn lookup(&self, dir: u64, name: &[u8]) -> Answer<Told> {
        let dir = self.node(dir)?;
        let names = dir.names()?.lock();
        let found = names.found.get(name).map(|named| Arc::clone(&named.node));
        drop(names);
        found.map(|node| self.tell(&node)).ok_or(Errno::NOENT.into())
    }

    fn forget(&self, node: u64, times: u64) {
        if node != ROOT {
            self.known.forget(node, times);
        }
    }

    fn getattr(&self, node: u64) -> Answer<Attr> {
        Ok(self.node(node)?.attr())
    }

    fn setattr(&self, node: u64, set: &SetattrIn) -> Answer<Attr> {
        let node = self.node(node)?;
        if set.valid & fattr::SIZE != 0 {
            node.size.store(set.size, Relaxed);
        }
        if set.valid & fattr::MODE != 0 {
            node.mode.store(node.mode.load(Relaxed) & TYPE | set.mode & 0o7777, Relaxed);
        }
        Ok(node.attr())
    }

    fn make(&self, dir: u64, name: &[u8], mode: u32, _rdev: u32) -> Answer<Told> {
        let dir = self.node(dir)?;
        let node = Node::new(self.next.fetch_add(1, Relaxed), mode);
        dir.names()?.lock().add(name, Arc::clone(&node))?;
        Ok(self.tell(&node))
    }

    fn symlink(&self, _dir: u64, _name: &[u8], _target: &[u8]) -> Answer<Told> {
        Err(Errno::PERM.into())
    }

    fn readlink(&self, _node: u64) -> Answer<Vec<u8>> {
        Err(Errno::INVAL.into())
    }

    fn link(&self, _node: u64, _dir: u64, _name: &[u8]) -> Answer<Told> {
        Err(Errno::PERM.into())
    }

    fn remove(&self, dir: u64, name: &[u8], is_dir: bool) -> Answer<()> {
        let dir = self.node(dir)?;
        let mut names = dir.names()?.lock();
        let node = &names.found.get(name).ok_or(Number::from(Errno::NOENT))?.node;
        match (node.names.is_some(), is_dir) {
            (true, false) => return Err(Errno::ISDIR.into()),
            (false, true) => return Err(Errno::NOTDIR.into()),
            (true, true) if !node.is_empty() => return Err(Errno::NOTEMPTY.into()),
            _ => {}
        }
        names.take(name);
        Ok(())
    }

    fn rename(&self, from: InDir<'_>, to: InDir<'_>, flags: u32) -> Answer<()> {
        let (InDir { dir: from, name }, InDir { dir: to, name: new_name }) = (from, to);
        const NOREPLACE: u32 = 1;
        if flags & !NOREPLACE != 0 {
            return Err(Errno::INVAL.into());
        }
        let (from_dir, to_dir) = (self.node(from)?, self.node(to)?);
        if from == to {
            let mut names = from_dir.names()?.lock();
            let moved = names.found.get(name).map(|named| Arc::clone(&named.node)).ok_or(Number::from(Errno::NOENT))?;
            replaceable(&names, new_name, &moved, flags & NOREPLACE == 0)?;
            names.take(name);
            names.take(new_name);
            return names.add(new_name, moved);
        }
        // The kernel holds both directories; of two such requests each takes them in the order of their numbers.
        let (low, high) = if from < to { (&from_dir, &to_dir) } else { (&to_dir, &from_dir) };
        let (mut low, mut high) = (low.names()?.lock(), high.names()?.lock());
        let (source, target) = if from < to { (&mut low, &mut high) } else { (&mut high, &mut low) };
        let moved = source.found.get(name).map(|named| Arc::clone(&named.node)).ok_or(Number::from(Errno::NOENT))?;
        replaceable(target, new_name, &moved, flags & NOREPLACE == 0)?;
        source.take(name);
        target.take(new_name);
        target.add(new_name, moved)
    }

    fn take_suid(&self, node: u64) -> Answer<bool> {
        let node = self.node(node)?;
        let mode = node.mode.load(Relaxed);
        node.mode.store(without_suid(mode), Relaxed);
        Ok(without_suid(mode) != mode)
    }

    fn read(&self, node: u64, offset: u64, space: &mut [u8]) -> Answer<usize> {
        let left = self.node(node)?.size.load(Relaxed).saturating_sub(offset);
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(space.len());
        space.get_mut(..len).unwrap_or_default().fill(0);
        Ok(len)
    }

    fn write(&self, node: u64, offset: u64, data: &[u8]) -> Answer<usize> {
        let end = offset.checked_add(data.len() as u64).ok_or(Number::from(Errno::FBIG))?;
        self.node(node)?.size.fetch_max(end, Relaxed);
        Ok(data.len())
    }

    fn fsync(&self, _node: u64, _data_only: bool) -> Answer<()> {
        Ok(())
    }

    fn list(&self, dir: u64, offset: u64, each: &mut dyn FnMut(&Listed<'_>) -> bool) -> Answer<()> {
        const PARENTS: u64 = 2;
        let node = self.node(dir)?;
        for (n, name) in [&b"."[..], b".."].into_iter().enumerate().skip(usize::try_from(offset).unwrap_or(usize::MAX))
        {
            if !each(&Listed { name, ino: node.number, kind: kind(DIRECTORY), next: n as u64 + 1 }) {
                return Ok(());
            }
        }
        let first = offset.saturating_sub(PARENTS) + 1;
        // `each` may look names up.
        let names: Vec<_> = {
            let names = node.names()?.lock();
            let listed = names.order.range(first..).take(LISTED_MOST).filter_map(|(place, name)| {
                let node = &names.found.get(name)?.node;
                Some((*place, name.clone(), node.number, kind(node.mode.load(Relaxed))))
            });
            listed.collect()
        };
        for (place, name, ino, kind) in names {
            if !each(&Listed { name: &name, ino, kind, next: place + PARENTS }) {
                break;
            }
        }
        Ok(())
    }

    fn statfs(&self) -> Answer<StatfsOut> {
        Ok(StatfsOut {
            blocks: PLENTY,
            bfree: PLENTY,
            bavail: PLENTY,
            files: PLENTY,
            ffree: PLENTY,
            bsize: BLOCK,
            frsize: BLOCK,
            namelen: 255,
            ..StatfsOut::default()
        })
    }
}

impl Attributes for Null {
    fn getxattr(&self, _node: u64, _name: &[u8]) -> Answer<Vec<u8>> {
        not_offered()
    }

    fn setxattr(&self, _node: u64, _name: &[u8], _value: &[u8], _flags: u32) -> Answer<()> {
        not_offered()
    }

    fn listxattr(&self, _node: u64) -> Answer<Vec<u8>> {
        not_offered()
    }

    fn removexattr(&self, _node: u64, _name: &[u8]) -> Answer<()> {
        not_offered()
    }
}

/// More entries than one answer has room for.
const LISTED_MOST: usize = 8 << 10;

/// Whether `moved` may take the place of what has this name.
fn replaceable(names: &Names, name: &[u8], moved: &Node, replace: bool) -> Answer<()> {
    let Some(there) = names.found.get(name).map(|named| &named.node) else { return Ok(()) };
    match (moved.names.is_some(), there.names.is_some()) {
        _ if !replace => Err(Errno::EXIST.into()),
        (false, true) => Err(Errno::ISDIR.into()),
        (true, false) => Err(Errno::NOTDIR.into()),
        (true, true) if !there.is_empty() => Err(Errno::NOTEMPTY.into()),
        _ => Ok(()),
    }
}
