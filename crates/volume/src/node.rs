//! Inodes in memory, each under its own read-write lock.

use crate::dir::memo::Memo;
use crate::inline::is_inline;
use crate::newest::Newest;
use crate::shared::Shared;
use crate::{Error, Ino, Result, kind};
use ondol_env::apart::{Apart, shard_of};
use ondol_env::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed, Ordering::SeqCst};
use ondol_env::sync::{Arc, Mutex, OwnedReadGuard, OwnedRwLock, OwnedWriteGuard};
use ondol_format::inode::InodeFlags;
use ondol_format::{Incompat, Inode};
use ondol_journal::{Clock, Engine, Look, NumberHash, Tid};
use std::collections::HashMap;
use std::hash::BuildHasher;

/// What is known of one inode.
#[derive(Clone, Debug)]
pub(crate) struct NodeState {
    pub(crate) inode: Inode,
    /// The inode has been freed: whoever still holds the node sees a file that is gone.
    pub(crate) gone: bool,
}

/// One inode in memory.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) ino: Ino,
    state: OwnedRwLock<NodeState>,
    /// Openers; an inode without names lives until there is none. Its shard knows them while the inode is not in
    /// memory.
    pub(crate) opens: AtomicU32,
    /// It was made without a name and has never had one.
    pub(crate) linkable: AtomicBool,
    /// Of a directory.
    pub(crate) names: Memo,
    /// Of a directory: the one that contains it, or 0. Set and forgotten by who has the inode locked.
    pub(crate) parent: AtomicU32,
    /// What an fsync of it has to wait for.
    pub(crate) newest: Newest,
    referenced: AtomicBool,
}

/// An inode locked for changing, and the node it belongs to.
pub(crate) struct NodeGuard {
    pub(crate) node: Arc<Node>,
    pub(crate) state: OwnedWriteGuard<NodeState>,
}

impl Node {
    /// Locks for reading.
    ///
    /// # Errors
    /// `NotFound` when the inode has been freed.
    pub(crate) fn read(&self) -> Result<OwnedReadGuard<NodeState>> {
        let state = self.state.read();
        if state.gone { Err(Error::NotFound) } else { Ok(state) }
    }

    /// Locks for changing.
    ///
    /// # Errors
    /// `NotFound` when the inode has been freed.
    pub(crate) fn write(self: &Arc<Self>) -> Result<NodeGuard> {
        let state = self.state.write();
        if state.gone { Err(Error::NotFound) } else { Ok(NodeGuard { node: self.clone(), state }) }
    }

    /// As [`Node::read`], but `None` instead of waiting.
    ///
    /// # Errors
    /// `NotFound` when the inode has been freed.
    pub(crate) fn try_read(&self) -> Result<Option<OwnedReadGuard<NodeState>>> {
        match self.state.try_read() {
            Some(state) if state.gone => Err(Error::NotFound),
            state => Ok(state),
        }
    }

    /// As [`Node::write`], but `None` instead of waiting.
    ///
    /// # Errors
    /// `NotFound` when the inode has been freed.
    pub(crate) fn try_write(self: &Arc<Self>) -> Result<Option<NodeGuard>> {
        match self.state.try_write() {
            Some(state) if state.gone => Err(Error::NotFound),
            state => Ok(state.map(|state| NodeGuard { node: self.clone(), state })),
        }
    }
}

/// Shards, where there is room for so many inodes in each of them; fewer otherwise.
const SHARDS: usize = 1024;
const ROOMY: usize = 16;

#[derive(Debug, Default)]
struct Shard {
    map: HashMap<Ino, Arc<Node>, NumberHash>,
    clock: Clock<Ino>,
    /// Open inodes that are not in memory.
    open: HashMap<Ino, Open, NumberHash>,
    /// How often an inode has left the map.
    removals: u64,
    /// What an fsync of those has to wait for.
    forgotten: Newest,
}

/// What must not be forgotten of an open inode.
#[derive(Debug, Default)]
struct Open {
    opens: u32,
    linkable: bool,
}

/// The inode cache, bounded by a number of inodes; those that somebody works with stay.
#[derive(Debug)]
pub(crate) struct Nodes {
    shards: Vec<Apart<Mutex<Shard>>>,
    per_shard: usize,
}

impl Nodes {
    /// A cache of about `inodes` inodes.
    pub(crate) fn new(inodes: usize) -> Self {
        let count = (inodes / ROOMY).clamp(1, SHARDS).next_power_of_two();
        Self { shards: (0..count).map(|_| Apart::default()).collect(), per_shard: (inodes / count).max(1) }
    }

    /// The inode, read from its table if it is not in memory.
    ///
    /// # Errors
    /// `NotFound` for an inode that is not in use, corruption, or the store's failure.
    pub(crate) fn get(&self, shared: &Shared, engine: &dyn Engine, ino: Ino) -> Result<Arc<Node>> {
        self.load(shared, engine, ino, 1)
    }

    /// As [`Nodes::get`], also for an orphan without names.
    ///
    /// # Errors
    /// As [`Nodes::get`].
    pub(crate) fn get_orphan(&self, shared: &Shared, engine: &dyn Engine, ino: Ino) -> Result<Arc<Node>> {
        self.load(shared, engine, ino, 0)
    }

    /// The inode, if it is in memory.
    pub(crate) fn cached(&self, ino: Ino) -> Option<Arc<Node>> {
        let node = self.shard(ino).lock().map.get(&ino)?.clone();
        node.referenced.store(true, Relaxed);
        Some(node)
    }

    fn load(&self, shared: &Shared, engine: &dyn Engine, ino: Ino, least_links: u16) -> Result<Arc<Node>> {
        loop {
            let (removals, is_open) = {
                let shard = self.shard(ino).lock();
                if let Some(node) = shard.map.get(&ino) {
                    node.referenced.store(true, Relaxed);
                    return Ok(node.clone());
                }
                (shard.removals, shard.open.contains_key(&ino))
            };
            let inode = read_inode(shared, engine, ino)?;
            if inode.mode == 0 || (inode.links < least_links && !is_open) {
                return Err(Error::NotFound);
            }
            // Somebody else may have read and even changed it meanwhile: theirs is then the right one. If it may have
            // come, been changed and gone again, what was read is too old.
            if let Some(node) = self.insert(ino, inode, removals) {
                return Ok(node);
            }
        }
    }

    /// Takes in an inode that has just been allocated, in place of whatever had its number before.
    pub(crate) fn create(&self, ino: Ino, inode: Inode) -> Arc<Node> {
        let mut shard = self.shard(ino).lock();
        shard.remove(ino);
        shard.insert(ino, inode, self.per_shard)
    }

    /// Forgets a freed inode.
    pub(crate) fn forget(&self, ino: Ino) {
        self.shard(ino).lock().remove(ino);
    }

    /// What an fsync of this inode has to wait for: of one that is not in memory, what all had that have left it from
    /// the same shard.
    pub(crate) fn newest(&self, ino: Ino) -> (Tid, u64) {
        let shard = self.shard(ino).lock();
        shard.map.get(&ino).map_or(&shard.forgotten, |node| &node.newest).get()
    }

    /// Whether the inode is open and not in memory.
    pub(crate) fn is_open_elsewhere(&self, ino: Ino) -> bool {
        self.shard(ino).lock().open.contains_key(&ino)
    }

    /// Number of open inodes that are not in memory.
    pub(crate) fn open_elsewhere(&self) -> usize {
        self.shards.iter().map(|s| s.lock().open.len()).sum()
    }

    /// Number of inodes in memory.
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|s| s.lock().map.len()).sum()
    }

    /// `None` when an inode has left the shard since `removals` was read.
    fn insert(&self, ino: Ino, inode: Inode, removals: u64) -> Option<Arc<Node>> {
        let mut shard = self.shard(ino).lock();
        if let Some(node) = shard.map.get(&ino) {
            return Some(node.clone());
        }
        (removals == shard.removals).then(|| shard.insert(ino, inode, self.per_shard))
    }

    #[cfg(test)]
    pub(crate) fn share_a_shard(&self, a: Ino, b: Ino) -> bool {
        std::ptr::eq(self.shard(a), self.shard(b))
    }

    fn shard(&self, ino: Ino) -> &Mutex<Shard> {
        &self.shards[shard_of(ino.into(), self.shards.len())]
    }
}

impl Shard {
    fn insert(&mut self, ino: Ino, inode: Inode, most: usize) -> Arc<Node> {
        while self.map.len() >= most && self.evict_one() {}
        let state = OwnedRwLock::new(NodeState { inode, gone: false });
        let Open { opens, linkable } = self.open.remove(&ino).unwrap_or_default();
        shrink(&mut self.open);
        let node = Arc::new(Node {
            ino,
            state,
            opens: AtomicU32::new(opens),
            linkable: AtomicBool::new(linkable),
            names: Memo::default(),
            parent: AtomicU32::new(0),
            newest: Newest::default(),
            referenced: AtomicBool::new(true),
        });
        // It may be among those that were forgotten.
        node.newest.join(&self.forgotten);
        self.map.insert(ino, node.clone());
        self.clock.push(ino, self.map.len(), |ino| self.map.contains_key(ino));
        node
    }

    fn remove(&mut self, ino: Ino) {
        if let Some(node) = self.map.remove(&ino) {
            self.forgotten.join(&node.newest);
        }
        self.open.remove(&ino);
        self.removals += 1;
    }

    fn evict_one(&mut self) -> bool {
        let Self { map, clock, open, removals, forgotten } = self;
        clock.evict(usize::MAX, |ino| {
            let Some(node) = map.get(&ino) else { return Look::Gone };
            if Arc::strong_count(node) > 1 {
                return Look::Held;
            }
            if node.referenced.swap(false, Relaxed) {
                return Look::Stays;
            }
            forgotten.join(&node.newest);
            let opens = node.opens.load(SeqCst);
            if opens > 0 {
                open.insert(ino, Open { opens, linkable: node.linkable.load(SeqCst) });
            }
            map.remove(&ino);
            *removals += 1;
            Look::Evicted
        })
    }
}

/// Gives back the room of a map that holds little of what it has held.
pub(crate) fn shrink<T, H: BuildHasher>(map: &mut HashMap<Ino, T, H>) {
    if map.capacity() > 64 && map.len() < map.capacity() / 4 {
        map.shrink_to(map.len() * 2);
    }
}

/// Where inode `ino` lies: block, byte offset, and the first inode of that block.
pub(crate) fn locate(shared: &Shared, ino: Ino) -> Result<(u64, usize, Ino)> {
    let (g, index) = shared.sb.group_of_inode(ino).ok_or(Error::NotFound)?;
    let (block, offset) = shared.sb.inode_location(shared.groups.get(g)?.inode_table, index);
    Ok((block, offset, ino - (index % shared.sb.inodes_per_block())))
}

/// Reads and checks an inode as it is published.
pub(crate) fn read_inode(shared: &Shared, engine: &dyn Engine, ino: Ino) -> Result<Inode> {
    let (block, offset, first) = locate(shared, ino)?;
    let table = engine.read(block, kind::inode_table(first))?;
    let bytes = table.get(offset..offset + usize::from(shared.sb.inode_size()));
    let bytes = bytes.ok_or_else(|| Error::corrupt("inode table", block, "short block"))?;
    if let Some(why) = shared.bad_inode(ino) {
        return Err(Error::corrupt(format!("inode {ino}"), block, why));
    }
    let bad = |e: ondol_format::FormatError| Error::corrupt(format!("inode {ino}"), block, e.to_string());
    let mut inode = Inode::parse(bytes, ino, &shared.inode_format).map_err(bad)?;
    if shared.is_journal(ino) {
        // Where it has a name, nobody may change it all the same.
        inode.flags.insert(InodeFlags::IMMUTABLE);
    }
    if is_inline(&inode) && !shared.sb.has_incompat(Incompat::INLINE_DATA) {
        let what = "its contents lie in it, which the volume does not have";
        return Err(Error::corrupt(format!("inode {ino}"), block, what));
    }
    Ok(inode)
}
