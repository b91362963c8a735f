//! Several inodes, locked together for one operation.
//!
//! Which inodes a name leads to is known only under its directory's lock. So the directories are locked first, their
//! names looked up, and what they lead to is then *tried*; if somebody holds it, everything is released and locked
//! again in the lock order: directories by number, then others by number. Nothing ever waits out of that order, so even
//! an image whose directories form a circle cannot make operations wait for each other.

use crate::dir::memo::Remembered;
use crate::node::{Node, NodeGuard};
use crate::op::{Reader, View};
use crate::{Error, Ino, Result, Volume};
use ondol_env::sync::Arc;
use ondol_env::sync::atomic::Ordering::SeqCst;
use ondol_format::Inode;
use ondol_journal::{Block, Kind};

/// Locked inodes.
pub(super) struct Locked<'v> {
    vol: &'v Volume,
    guards: Vec<NodeGuard>,
}

/// The nodes of inodes, each once, in the order in which they have to be locked.
pub(crate) fn in_order(vol: &Volume, inos: &[Ino]) -> Result<Vec<Arc<Node>>> {
    let mut order = Vec::with_capacity(inos.len());
    for &ino in inos {
        let node = vol.node(ino)?;
        let other = !node.read()?.inode.is_dir();
        order.push((other, ino, node));
    }
    order.sort_by_key(|&(other, ino, _)| (other, ino));
    order.dedup_by_key(|&mut (.., ino, _)| ino);
    Ok(order.into_iter().map(|(.., node)| node).collect())
}

/// Inodes that an operation on names holds at most, usually.
const MOST: usize = 4;

impl<'v> Locked<'v> {
    /// Locks one inode.
    pub(super) fn one(vol: &'v Volume, ino: Ino) -> Result<Self> {
        let mut guards = Vec::with_capacity(MOST);
        guards.push(vol.node(ino)?.write()?);
        Ok(Self { vol, guards })
    }

    /// Locks inodes in the lock order.
    fn all(vol: &'v Volume, inos: &[Ino]) -> Result<Self> {
        if let [ino] = *inos {
            return Self::one(vol, ino);
        }
        let guards = in_order(vol, inos)?.iter().map(Node::write).collect::<Result<_>>()?;
        Ok(Self { vol, guards })
    }

    /// Locks `first`, lets `plan` look under these locks for what else is needed, and locks that too. What `plan`
    /// returned last holds under all locks.
    pub(super) fn with<T>(
        vol: &'v Volume,
        first: &[Ino],
        mut plan: impl FnMut(&mut Self) -> Result<(T, Vec<Ino>)>,
    ) -> Result<(Self, T)> {
        let mut more: Vec<Ino> = Vec::new();
        loop {
            let mut wanted: Vec<Ino> = Vec::with_capacity(first.len() + more.len());
            for &ino in first.iter().chain(&more) {
                if !wanted.contains(&ino) {
                    wanted.push(ino);
                }
            }
            let mut locked = match Self::all(vol, &wanted) {
                // What was there is gone: look again.
                Err(Error::NotFound) if !more.is_empty() => {
                    more.clear();
                    continue;
                }
                locked => locked?,
            };
            let (planned, needed) = plan(&mut locked)?;
            locked.guards.retain(|g| first.contains(&g.node.ino) || needed.contains(&g.node.ino));
            if locked.try_add(&needed)? {
                return Ok((locked, planned));
            }
            more = needed;
        }
    }

    /// Locks what is not locked yet; false if that would mean to wait.
    fn try_add(&mut self, inos: &[Ino]) -> Result<bool> {
        let vol = self.vol;
        for &ino in inos {
            if self.guards.iter().any(|g| g.node.ino == ino) {
                continue;
            }
            let guard = vol.node(ino).and_then(|node| node.try_write());
            match guard.map_err(|e| vol.noted(dangling(e, ino)))? {
                Some(guard) => self.guards.push(guard),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    fn guard(&self, ino: Ino) -> Result<&NodeGuard> {
        let guard = self.guards.iter().find(|g| g.node.ino == ino);
        guard.ok_or(Error::Invalid("an operation planned with an inode that it has not locked"))
    }

    /// For an operation.
    pub(super) fn into_guards(self) -> Vec<NodeGuard> {
        self.guards
    }
}

impl Reader for Locked<'_> {
    fn block(&mut self, block: u64, kind: Kind) -> Result<Block> {
        Ok(self.vol.engine.read(block, kind)?)
    }

    fn volume(&self) -> &Volume {
        self.vol
    }
}

impl View for Locked<'_> {
    fn inode(&self, ino: Ino) -> Result<&Inode> {
        self.guard(ino).map(|g| &g.state.inode)
    }

    fn is_open(&self, ino: Ino) -> Result<bool> {
        self.guard(ino).map(|g| g.node.opens.load(SeqCst) > 0)
    }

    fn is_linkable(&self, ino: Ino) -> Result<bool> {
        self.guard(ino).map(|g| g.node.linkable.load(SeqCst))
    }

    fn recall(&self, ino: Ino, name: &[u8]) -> Option<Remembered> {
        self.guard(ino).ok()?.node.names.recall(name)
    }
}

/// A name, seen under its directory's lock, leads to an inode that is not in use.
pub(crate) fn dangling(e: Error, ino: Ino) -> Error {
    match e {
        Error::NotFound => Error::corrupt(format!("inode {ino}"), 0, "an entry names it, but it is not in use"),
        e => e,
    }
}
