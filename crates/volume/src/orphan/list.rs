//! The order of the orphan list, in memory.

use crate::Ino;
use ondol_env::sync::MutexGuard;
use ondol_env::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::collections::HashMap;

/// Stands for the superblock, where the list begins and ends. No inode has this number.
pub(super) const HEAD: Ino = 0;

#[derive(Clone, Copy, Debug, Default)]
struct Link {
    before: Ino,
    next: Ino,
}

/// A ring of inodes, joined by [`HEAD`].
#[derive(Debug, Default)]
pub(super) struct List {
    links: HashMap<Ino, Link>,
    loaded: bool,
}

impl List {
    /// Whether the inode is on the list; no as long as the list has not been read.
    pub(super) fn contains(&self, ino: Ino) -> bool {
        ino != HEAD && self.links.contains_key(&ino)
    }

    fn link(&self, ino: Ino) -> Link {
        self.links.get(&ino).copied().unwrap_or_default()
    }
}

/// The locked list. What is changed through it is undone when it is dropped, unless it is kept.
pub(super) struct ListGuard<'v> {
    list: MutexGuard<'v, List>,
    undo: Vec<(Ino, Option<Link>)>,
}

impl<'v> ListGuard<'v> {
    pub(super) fn new(list: MutexGuard<'v, List>) -> Self {
        Self { list, undo: Vec::new() }
    }

    /// Whether the list has been read from the image.
    pub(super) fn is_loaded(&self) -> bool {
        self.list.loaded
    }

    /// The list is as the image has it: these inodes, from the head on. Returns how many they are.
    pub(super) fn set_loaded(&mut self, inodes: &[Ino]) -> usize {
        let mut links = HashMap::from([(HEAD, Link::default())]);
        let mut before = HEAD;
        for &ino in inodes {
            links.insert(ino, Link { before, next: HEAD });
            links.entry(before).or_default().next = ino;
            before = ino;
        }
        links.entry(HEAD).or_default().before = before;
        (self.list.links, self.list.loaded) = (links, true);
        self.list.links.len() - 1
    }

    pub(super) fn contains(&self, ino: Ino) -> bool {
        self.list.contains(ino)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.links.len() <= 1
    }

    /// The inodes from the head on.
    pub(super) fn inodes(&self) -> Vec<Ino> {
        std::iter::successors(Some(self.list.link(HEAD).next), |&ino| Some(self.list.link(ino).next))
            .take_while(|&ino| ino != HEAD)
            .collect()
    }

    /// The inode behind `ino` (0 behind the last); None if `ino` is not on the list.
    pub(super) fn next(&self, ino: Ino) -> Option<Ino> {
        self.contains(ino).then(|| self.list.link(ino).next)
    }

    /// Puts an inode that is not on the list at its head; returns the one behind it.
    pub(super) fn push(&mut self, ino: Ino) -> Ino {
        let next = self.list.link(HEAD).next;
        self.set(ino, Some(Link { before: HEAD, next }));
        self.change(HEAD, |link| link.next = ino);
        self.change(next, |link| link.before = ino);
        next
    }

    /// Takes an inode off the list; returns its neighbours.
    pub(super) fn remove(&mut self, ino: Ino) -> Option<(Ino, Ino)> {
        let link = self.list.links.get(&ino).copied().filter(|_| ino != HEAD)?;
        self.set(ino, None);
        self.change(link.before, |l| l.next = link.next);
        self.change(link.next, |l| l.before = link.before);
        Some((link.before, link.next))
    }

    /// Keeps the changes, and the length of the list in `listed`: before anybody else can change it.
    pub(super) fn keep(mut self, listed: &AtomicUsize) {
        self.undo.clear();
        listed.store(self.list.links.len().saturating_sub(1), SeqCst);
    }

    fn change(&mut self, ino: Ino, change: impl FnOnce(&mut Link)) {
        let mut link = self.list.link(ino);
        change(&mut link);
        self.set(ino, Some(link));
    }

    fn set(&mut self, ino: Ino, link: Option<Link>) {
        let old = match link {
            Some(link) => self.list.links.insert(ino, link),
            None => self.list.links.remove(&ino),
        };
        self.undo.push((ino, old));
    }
}

impl Drop for ListGuard<'_> {
    fn drop(&mut self) {
        while let Some((ino, link)) = self.undo.pop() {
            match link {
                Some(link) => self.list.links.insert(ino, link),
                None => self.list.links.remove(&ino),
            };
        }
    }
}
