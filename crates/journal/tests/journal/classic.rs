//! Engine `classic` against the engine contract.

use crate::contract::{BLOCKS, Rig, TestClient, map};
use ondol_block::BlockStore;
use ondol_env::Env;
use ondol_env::sync::Arc;
use ondol_journal::{Config, Engine, jbd2};

struct Classic;

impl Rig for Classic {
    fn empty(&self) -> Vec<u8> {
        crate::contract::empty_journal()
    }

    fn open(
        &self,
        store: Arc<dyn BlockStore>,
        client: Arc<TestClient>,
        env: Arc<dyn Env>,
        c: Config,
    ) -> Box<dyn Engine> {
        Box::new(jbd2::open(store, map(), client, env, c).unwrap())
    }

    fn recover(&self, store: &dyn BlockStore) {
        jbd2::recover(store, &map(), jbd2::Volume { blocks: BLOCKS, made: 0 }).unwrap();
    }

    fn flushes_per_commit(&self) -> u64 {
        2
    }
}

crate::contract::engine_contract!(Classic);
