//! New data that is home before its commit, and what the transaction still has to say of it: a number and a sum for
//! each block. The blocks themselves are ordinary ones of the cache, which may be evicted.

use crate::hash::NumberHash;
use crate::names::{Extent, Kind};
use ondol_env::sync::Mutex;
use ondol_env::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::collections::HashMap;

/// Bytes of memory that a block takes here, about.
pub(crate) const BYTES: u64 = 48;

/// What is known of each block.
type Sums = HashMap<u64, u32, NumberHash>;

#[derive(Debug, Default)]
struct State {
    running: Sums,
    /// Of the transaction that is being committed, until it is durable.
    committing: Sums,
}

/// See the module documentation. Its lock comes after those of buffers.
#[derive(Debug, Default)]
pub(crate) struct Early {
    state: Mutex<State>,
    /// Blocks of the running transaction, and of both: most transactions have none, and ask nothing more.
    running: AtomicU64,
    all: AtomicU64,
}

impl Early {
    /// Blocks of the running transaction.
    pub(crate) fn blocks(&self) -> u64 {
        self.running.load(SeqCst)
    }

    /// Those of the transaction that is being committed, too.
    pub(crate) fn all(&self) -> u64 {
        self.all.load(SeqCst)
    }

    /// The running transaction has a block at home.
    pub(crate) fn add(&self, block: u64, sum: u32) {
        self.change(|state| {
            state.running.insert(block, sum);
        });
    }

    /// A block is about to be changed: what is home is not what the running transaction has. True if it was.
    pub(crate) fn take(&self, block: u64) -> bool {
        self.blocks() > 0 && self.change(|state| state.running.remove(&block).is_some())
    }

    /// Blocks that the running transaction frees need no word of it any more. How many had one.
    pub(crate) fn lose(&self, freed: &[(Extent, Kind)]) -> u32 {
        if self.blocks() == 0 {
            return 0;
        }
        let extents = freed.iter().filter(|(_, kind)| *kind == Kind::DATA);
        let blocks = extents.flat_map(|(extent, _)| extent.start..extent.start + u64::from(extent.len));
        self.change(|state| blocks.filter(|block| state.running.remove(block).is_some()).count() as u32)
    }

    /// The running transaction is being committed: what it has, by rising block number.
    pub(crate) fn switch(&self) -> Vec<(u64, u32)> {
        if self.blocks() == 0 {
            return Vec::new();
        }
        self.change(|state| {
            state.committing = std::mem::take(&mut state.running);
            let mut all: Vec<(u64, u32)> = state.committing.iter().map(|(block, sum)| (*block, *sum)).collect();
            all.sort_unstable();
            all
        })
    }

    /// The transaction of the last switch is durable.
    pub(crate) fn committed(&self) {
        if self.all() > 0 {
            self.change(|state| state.committing = Sums::default());
        }
    }

    /// Whether a transaction that is not durable has a block of `extent` at home.
    pub(crate) fn has(&self, extent: Extent) -> bool {
        if self.all() == 0 {
            return false;
        }
        let state = self.state.lock();
        let mut blocks = extent.start..extent.start + u64::from(extent.len);
        blocks.any(|block| state.running.contains_key(&block) || state.committing.contains_key(&block))
    }

    fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state.lock();
        let done = change(&mut state);
        self.running.store(state.running.len() as u64, SeqCst);
        self.all.store((state.running.len() + state.committing.len()) as u64, SeqCst);
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_transaction_has_its_own() {
        let early = Early::default();
        let at = |start, len| Extent { start, len };
        assert!(!early.has(at(0, 100)) && !early.take(1) && early.switch().is_empty());
        [(7, 70), (3, 30), (5, 50)].into_iter().for_each(|(block, sum)| early.add(block, sum));
        assert!(early.take(5) && !early.take(5));
        assert_eq!(early.switch(), [(3, 30), (7, 70)]);
        early.add(9, 90);
        assert!(early.has(at(0, 4)) && early.has(at(7, 1)) && early.has(at(9, 1)) && !early.has(at(4, 3)));
        assert!(!early.take(3), "what is being committed is not taken back");
        early.committed();
        assert!(!early.has(at(0, 9)) && early.blocks() == 1);
        assert_eq!(early.lose(&[(at(0, 20), Kind { class: 1, ..Kind::DATA }), (at(9, 2), Kind::DATA)]), 1);
        assert!(!early.has(at(9, 1)) && early.switch().is_empty());
    }
}
