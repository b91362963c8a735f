//! How far the journal has to be durable for all that was done to an inode: what an fsync waits for with `fsync=file`.
//!
//! Commits are prefixes of the log. So what an operation on the inode depended on, whichever inodes it was done to, is
//! durable with it.

use ondol_env::sync::atomic::{AtomicU64, Ordering::SeqCst};
use ondol_journal::Tid;

/// The newest transaction with an operation on an inode, and how many writes in place had ended after its own last one.
///
/// Both only grow. Too much makes an fsync wait for what it need not wait for; too little never happens.
#[derive(Debug, Default)]
pub(crate) struct Newest {
    tid: AtomicU64,
    written: AtomicU64,
}

impl Newest {
    /// An operation on the inode is part of this transaction. To be called before the inode is unlocked.
    pub(crate) fn note(&self, tid: Tid) {
        self.tid.fetch_max(tid.0, SeqCst);
    }

    /// Contents of the inode are among the first `written` writes in place. To be called before the inode is unlocked.
    pub(crate) fn note_written(&self, written: u64) {
        self.written.fetch_max(written, SeqCst);
    }

    /// As much as both.
    pub(crate) fn join(&self, other: &Self) {
        let (tid, written) = other.get();
        self.note(tid);
        self.note_written(written);
    }

    /// The transaction, and the number of writes in place.
    pub(crate) fn get(&self) -> (Tid, u64) {
        (Tid(self.tid.load(SeqCst)), self.written.load(SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Nodes;
    use ondol_format::Inode;
    use ondol_format::inode::InodeFormat;

    fn inode() -> Inode {
        let format = InodeFormat {
            inode_size: 256,
            block_size: 4096,
            huge_file: false,
            bit64: false,
            large_dir: false,
            csum_seed: None,
        };
        Inode::new(32, &format)
    }

    #[test]
    fn what_has_left_memory_is_waited_for_all_the_same() {
        // Sixteen inodes of each of four shards stay.
        let nodes = Nodes::new(64);
        let numbers = || (5..).filter(|ino| nodes.share_a_shard(*ino, 5)).take(40);
        for ino in numbers() {
            let node = nodes.create(ino, inode());
            node.newest.note(Tid(u64::from(ino)));
            node.newest.note_written(u64::from(ino) / 64);
        }
        assert!(nodes.len() < 20, "{}", nodes.len());
        for ino in numbers() {
            let (tid, written) = nodes.newest(ino);
            assert!(tid >= Tid(u64::from(ino)) && written >= u64::from(ino) / 64, "{ino}: {tid:?} {written}");
        }
        let elsewhere = (6..).find(|ino| !nodes.share_a_shard(*ino, 5)).unwrap();
        assert_eq!(nodes.newest(elsewhere), (Tid(0), 0), "another shard has forgotten nothing");
    }

    #[test]
    fn what_is_read_again_or_was_freed_waits_for_no_less() {
        let nodes = Nodes::new(1);
        nodes.create(5, inode()).newest.note(Tid(9));
        nodes.forget(5);
        assert_eq!(nodes.newest(5), (Tid(9), 0));
        let again = nodes.create(5, inode());
        assert_eq!(again.newest.get(), (Tid(9), 0));
        again.newest.note(Tid(7));
        assert_eq!(nodes.newest(5), (Tid(9), 0));
    }
}
