//! Engine `swap` on a page table: its contract, with the power cut everywhere, and what is its own.

#[path = "../journal/contract/mod.rs"]
#[expect(dead_code, reason = "some of it is for engines with a pool of their own")]
mod contract;
mod own;

use contract::{Ground, Rig, map};
use ondol_block::BlockStore;
use ondol_env::sync::Arc;
use ondol_journal::{Config, Engine, Journal, jbd2};
use ondol_medium::Pool;

/// Bytes of a block: a page of the table.
const BLOCK: usize = 4096;
/// Blocks of the medium: journal first, then home.
const BLOCKS: u64 = 2048;

/// With a table whose log has room for so many lines.
struct Swap(u64);

/// With so few that a checkpoint of some transactions is split, and one of a large transaction copies blocks: for about
/// 110.
const FEW: Swap = Swap(64);
/// With more than a checkpoint of all that the ring holds needs.
const MANY: Swap = Swap(2048);

impl Rig for Swap {
    fn empty(&self) -> Vec<u8> {
        contract::empty_journal()
    }

    fn lines(&self) -> Option<u64> {
        Some(self.0)
    }

    fn open(&self, ground: Ground, c: Config) -> Box<dyn Engine> {
        ground.open(Journal::Swap(map()), c)
    }

    fn recover(&self, store: Arc<dyn BlockStore>, _: Option<Pool>) {
        jbd2::recover(&*store, &map(), jbd2::Volume { blocks: BLOCKS, made: 0 }).unwrap();
    }

    fn flushes_per_commit(&self) -> u64 {
        2
    }
}

crate::contract::engine_contract!(FEW);
