//! Engine `classic` against the engine contract.

use crate::contract::{BLOCKS, Ground, Rig, map};
use ondol_block::BlockStore;
use ondol_env::sync::Arc;
use ondol_journal::{Config, Engine, Journal, jbd2};
use ondol_medium::Pool;

pub(crate) struct Classic;

impl Rig for Classic {
    fn empty(&self) -> Vec<u8> {
        crate::contract::empty_journal()
    }

    fn open(&self, ground: Ground, c: Config) -> Box<dyn Engine> {
        ground.open(Journal::Classic(map()), c)
    }

    fn recover(&self, store: Arc<dyn BlockStore>, _: Option<Pool>) {
        jbd2::recover(&*store, &map(), jbd2::Volume { blocks: BLOCKS, made: 0 }).unwrap();
    }

    fn flushes_per_commit(&self) -> u64 {
        2
    }
}

crate::contract::engine_contract!(Classic);
