//! Descriptors of what the kernel knows: no more than a process may have.
//!
//! An inode is opened when something is first done with it, by its name in the directory where it was found. Beyond a
//! bound, what was not used for longest (by second chance) is closed, and opened again when it is needed. What has lost
//! its name stays open until the kernel forgets it.

use super::files::{DIRECTORY, TYPE, stale};
use crate::ops::Answer;
use parking_lot::{Mutex, RwLock, RwLockWriteGuard};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};

const REGULAR: u32 = 0o100_000;

/// A directory, and a name there.
type Named = (Arc<Node>, Box<[u8]>);

/// An inode.
pub(super) struct Node {
    /// Its number below, which nothing else there has while it has a name or a descriptor.
    ino: u64,
    mode: u32,
    /// Where it was found; the root has no name.
    named: Mutex<Option<Named>>,
    held: Mutex<Option<Arc<Held>>>,
    /// Since eviction last came by.
    is_used: AtomicBool,
    /// Its descriptor is not closed: it has no name to be opened by.
    is_kept: AtomicBool,
}

impl Node {
    pub(super) fn new(ino: u64, mode: u32, dir: Option<&Arc<Self>>, name: &[u8]) -> Arc<Self> {
        Arc::new(Self {
            ino,
            mode,
            named: Mutex::new(dir.map(|dir| (Arc::clone(dir), name.into()))),
            held: Mutex::default(),
            is_used: AtomicBool::new(true),
            is_kept: AtomicBool::new(dir.is_none()),
        })
    }

    /// It is found there now.
    pub(super) fn is_named(&self, dir: &Arc<Self>, name: &[u8]) {
        *self.named.lock() = Some((Arc::clone(dir), name.into()));
    }

    /// It has its name still.
    pub(super) fn stays(&self) {
        self.is_kept.store(false, Relaxed);
    }

    /// What there is to open it with: to read, write, list and sync regular files and directories, and the place of
    /// everything else.
    fn flags(&self) -> OFlags {
        let how = match self.mode & TYPE {
            REGULAR => OFlags::RDWR,
            DIRECTORY => OFlags::RDONLY | OFlags::DIRECTORY,
            _ => OFlags::PATH,
        };
        how | OFlags::NOFOLLOW | OFlags::CLOEXEC
    }
}

/// A descriptor that counts.
pub(super) struct Held {
    fd: OwnedFd,
    count: Arc<AtomicUsize>,
}

impl Held {
    /// Where the kernel shows what the descriptor has.
    pub(super) fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.fd.as_raw_fd())
    }
}

impl AsFd for Held {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Relaxed);
    }
}

/// All descriptors of nodes.
pub(super) struct Descriptors {
    most: usize,
    count: Arc<AtomicUsize>,
    /// Who has one, in the order in which they are looked at to be closed; some of them are gone or closed already.
    queue: Mutex<VecDeque<Weak<Node>>>,
    /// Taken to rename, so that names say where things are while anything is opened.
    names: RwLock<()>,
}

impl Descriptors {
    /// At most `most` of them, but for those of inodes without a name.
    pub(super) fn new(most: usize) -> Self {
        Self { most, count: Arc::default(), queue: Mutex::default(), names: RwLock::default() }
    }

    /// What to work on a node with.
    pub(super) fn of(&self, node: &Arc<Node>) -> Answer<Arc<Held>> {
        if let Some(held) = held(node) {
            return Ok(held);
        }
        let _names = self.names.read();
        self.opened(node)
    }

    /// The same, and it stays open: what it is named by is about to go.
    pub(super) fn keep(&self, node: &Arc<Node>) -> Answer<Arc<Held>> {
        node.is_kept.store(true, Relaxed);
        self.of(node)
    }

    /// Nothing is opened until this is dropped.
    pub(super) fn renaming(&self) -> RwLockWriteGuard<'_, ()> {
        self.names.write()
    }

    fn opened(&self, node: &Arc<Node>) -> Answer<Arc<Held>> {
        if let Some(held) = held(node) {
            return Ok(held);
        }
        let (dir, name) = node.named.lock().clone().ok_or_else(stale)?;
        let dir = self.opened(&dir)?;
        let fd = rustix::fs::openat(&dir, &*name, node.flags(), Mode::empty())?;
        if rustix::fs::fstat(&fd)?.st_ino != node.ino {
            return Err(Errno::STALE.into());
        }
        Ok(self.hold(node, fd))
    }

    /// A node is worked on with this descriptor from now on.
    pub(super) fn hold(&self, node: &Arc<Node>, fd: OwnedFd) -> Arc<Held> {
        self.count.fetch_add(1, Relaxed);
        let new = Arc::new(Held { fd, count: Arc::clone(&self.count) });
        let held = Arc::clone(node.held.lock().get_or_insert_with(|| Arc::clone(&new)));
        if Arc::ptr_eq(&held, &new) {
            self.entered(node);
        }
        held
    }

    /// Closes what is beyond the bound.
    fn entered(&self, node: &Arc<Node>) {
        let mut queue = self.queue.lock();
        queue.push_back(Arc::downgrade(node));
        let is_beyond = |queue: &VecDeque<_>| self.count.load(Relaxed) > self.most || queue.len() > 2 * self.most;
        // Twice round: the first takes the marks of use away.
        let mut looks = 2 * queue.len();
        while looks > 0 && is_beyond(&queue) {
            looks -= 1;
            let Some(first) = queue.pop_front() else { return };
            let Some(node) = first.upgrade() else { continue };
            if node.is_kept.load(Relaxed) || node.is_used.swap(false, Relaxed) {
                queue.push_back(first);
            } else {
                drop(node.held.lock().take());
            }
        }
    }
}

fn held(node: &Node) -> Option<Arc<Held>> {
    let held = Arc::clone(node.held.lock().as_ref()?);
    if !node.is_used.load(Relaxed) {
        node.is_used.store(true, Relaxed);
    }
    Some(held)
}
