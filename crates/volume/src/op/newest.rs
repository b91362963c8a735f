//! What an fsync of an inode has to wait for, noted by the operations that are done to it.

use super::Op;
use crate::Fsync;
use ondol_journal::Tid;

impl Op<'_> {
    /// Has whoever makes one of this operation's inodes durable wait for `tid`, and for what has been written in place.
    pub(super) fn note_newest(&mut self, tid: Option<Tid>) {
        let wrote_over = std::mem::take(&mut self.wrote_over);
        if self.vol.options.fsync != Fsync::File {
            return;
        }
        for node in &self.nodes {
            if let Some(tid) = tid {
                node.guard.node.newest.note(tid);
            }
            if wrote_over {
                self.vol.note_written(&node.guard.node);
            }
        }
    }
}
