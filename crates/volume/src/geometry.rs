//! The superblock's numbers and the groups of a volume that may grow while it is used: what there was stays where it
//! was, and more is added behind.

use ondol_env::sync::Mutex;
use ondol_format::Superblock;
use std::ops::Deref;
use std::sync::OnceLock;

/// Something to which others of its kind are added, the newest of which counts.
#[derive(Debug)]
pub(crate) struct Chain<T> {
    item: T,
    next: OnceLock<Box<Self>>,
}

impl<T> Chain<T> {
    pub(crate) fn new(item: T) -> Self {
        Self { item, next: OnceLock::new() }
    }

    fn last(&self) -> &Self {
        let mut at = self;
        while let Some(next) = at.next.get() {
            at = next;
        }
        at
    }

    /// All of them, from the first on.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        std::iter::successors(Some(self), |at| at.next.get().map(|next| &**next)).map(|at| &at.item)
    }

    /// Adds one. One thread at a time may add.
    pub(crate) fn push(&self, item: T) {
        // Never taken: who adds holds the lock of whoever grows.
        let _first = self.last().next.set(Box::new(Self::new(item)));
    }
}

/// The superblock as it was read, or as the volume has it since it grew. Its counts and times are those of when it was
/// read.
#[derive(Debug)]
pub(crate) struct Geometry(Chain<Superblock>);

impl Geometry {
    pub(crate) fn new(sb: Superblock) -> Self {
        Self(Chain::new(sb))
    }

    /// From now on the volume has this geometry.
    pub(crate) fn grown(&self, sb: Superblock) {
        self.0.push(sb);
    }
}

impl Deref for Geometry {
    type Target = Superblock;

    fn deref(&self) -> &Superblock {
        &self.0.last().item
    }
}

/// Held by who lets the volume grow.
#[derive(Debug, Default)]
pub(crate) struct Growing(pub(crate) Mutex<()>);
