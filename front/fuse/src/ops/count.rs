//! How many requests of each kind were served: part of what `ondol info --stats` and the bench show.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

macro_rules! kinds {
    ($($kind:ident $name:literal),* $(,)?) => {
        /// The kinds of requests.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Op { $(#[doc = $name] $kind),* }

        impl Op {
            pub(super) const NAMES: &[&str] = &[$($name),*];
        }
    };
}

kinds! {
    Lookup "lookup", Getattr "getattr", Setattr "setattr", Readlink "readlink", Symlink "symlink", Mknod "mknod",
    Mkdir "mkdir", Unlink "unlink", Rmdir "rmdir", Rename "rename", Link "link", Open "open", Create "create",
    Read "read", Write "write", Release "release", Fsync "fsync", Opendir "opendir", Readdir "readdir",
    Readdirplus "readdirplus", Releasedir "releasedir", Fsyncdir "fsyncdir", Statfs "statfs", Getxattr "getxattr",
    Setxattr "setxattr", Listxattr "listxattr", Removexattr "removexattr", Fallocate "fallocate", Lseek "lseek",
    Statx "statx", Forget "forget", Syncfs "syncfs", Ioctl "ioctl", CopyFileRange "copy_file_range", Tmpfile "tmpfile",
}

pub(super) const KINDS: usize = Op::NAMES.len();
pub(super) const STRIPES: usize = 16;

impl Op {
    /// The name in statistics and logs.
    pub(crate) fn name(self) -> &'static str {
        Self::NAMES.get(self as usize).copied().unwrap_or_default()
    }
}

static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static STRIPE: Cell<usize> = Cell::new(NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES);
}

/// The calling thread's stripe, below [`STRIPES`].
pub(super) fn stripe() -> usize {
    STRIPE.with(Cell::get)
}

#[repr(align(128))]
struct Stripe([AtomicU64; KINDS]);

impl Default for Stripe {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

/// Counters that threads add to without sharing a cache line.
#[derive(Default)]
pub(crate) struct Counters {
    stripes: [Stripe; STRIPES],
}

impl Counters {
    pub(crate) fn count(&self, op: Op) {
        let stripe = self.stripes.get(stripe());
        if let Some(counter) = stripe.and_then(|s| s.0.get(op as usize)) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Name and count of every kind that occurred.
    pub(crate) fn read(&self) -> Vec<(&'static str, u64)> {
        let of =
            |kind: usize| self.stripes.iter().filter_map(|s| s.0.get(kind)).map(|c| c.load(Ordering::Relaxed)).sum();
        Op::NAMES.iter().enumerate().map(|(kind, name)| (*name, of(kind))).filter(|(_, n)| *n > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_all_threads_add_up() {
        let counters = Counters::default();
        std::thread::scope(|s| {
            for _ in 0..40 {
                s.spawn(|| {
                    counters.count(Op::Lookup);
                    counters.count(Op::Lseek);
                });
            }
        });
        assert_eq!(counters.read(), vec![("lookup", 40), ("lseek", 40)]);
        assert_eq!((Op::Lookup.name(), Op::Lseek.name()), ("lookup", "lseek"));
    }
}
