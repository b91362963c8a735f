//! Room in the running transaction's batch, promised before an operation changes anything.

use crate::common::Waiters;
use ondol_env::sync::Arc;
use ondol_env::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// What is promised to open handles and held by the running transaction never exceeds what one batch takes.
#[derive(Debug)]
pub(super) struct Room {
    most: u64,
    outstanding: AtomicU64,
    waiters: Arc<Waiters>,
}

impl Room {
    /// Of batches of at most `most` blocks.
    pub(super) fn new(most: u64, waiters: Arc<Waiters>) -> Self {
        Self { most, outstanding: AtomicU64::new(0), waiters }
    }

    /// The most that one handle can be promised.
    pub(super) fn max_handle(&self) -> u32 {
        u32::try_from(self.most).unwrap_or(u32::MAX)
    }

    /// Promises `blocks` if there is room for them now.
    pub(super) fn try_promise(&self, blocks: u32) -> bool {
        let blocks = u64::from(blocks);
        if self.outstanding.fetch_add(blocks, SeqCst) + blocks <= self.most {
            return true;
        }
        self.outstanding.fetch_sub(blocks, SeqCst);
        false
    }

    /// Takes back a promise of a dropped handle.
    pub(super) fn give_back(&self, blocks: u32) {
        self.less(u64::from(blocks));
    }

    /// A handle that was promised `reserved` closed and brought `joined` new blocks.
    pub(super) fn joined(&self, reserved: u32, joined: u32) {
        self.less(u64::from(reserved - joined));
    }

    /// A batch of its own has what was promised to the transaction of the last switch.
    pub(super) fn switched(&self, promised: u64) {
        self.less(promised);
    }

    /// So much is promised that the running transaction, which has `running` of it, should be committed while the rest
    /// is used up.
    pub(super) fn is_filling(&self, running: u64) -> bool {
        self.outstanding.load(SeqCst) * 4 > self.most * 3 && running * 2 > self.most
    }

    fn less(&self, blocks: u64) {
        if blocks > 0 {
            self.outstanding.fetch_sub(blocks, SeqCst);
            self.waiters.wake_if_waited();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_promised_once() {
        let room = Room::new(10, Arc::default());
        assert_eq!(room.max_handle(), 10);
        assert!(room.try_promise(5) && room.try_promise(5) && !room.try_promise(1));
        room.joined(5, 3);
        room.give_back(2);
        assert!(!room.is_filling(6), "six of ten are promised");
        assert!(room.try_promise(4) && room.is_filling(6) && !room.is_filling(5) && !room.try_promise(1));
        room.switched(3);
        assert!(room.try_promise(3) && !room.try_promise(1));
    }
}
