//! Engine `compressed` against the engine contract.

mod contract;

use contract::{BLOCKS, Rig, TestClient, map};
use ondol_block::BlockStore;
use ondol_env::Env;
use ondol_env::sync::Arc;
use ondol_journal::{Config, Engine, compressed};

/// With or without the paper's zeroing.
struct Compressed {
    zeroing: bool,
}

impl Rig for Compressed {
    fn empty(&self) -> Vec<u8> {
        contract::empty_journal()
    }

    fn open(
        &self,
        store: Arc<dyn BlockStore>,
        client: Arc<TestClient>,
        env: Arc<dyn Env>,
        c: Config,
    ) -> Box<dyn Engine> {
        Box::new(compressed::open(store, map(), client, env, Config { zeroing: self.zeroing, ..c }).unwrap())
    }

    fn recover(&self, store: &dyn BlockStore) {
        compressed::recover(store, &map(), BLOCKS).unwrap();
    }

    fn flushes_per_commit(&self) -> u64 {
        1
    }
}

mod plain {
    use super::*;
    contract::engine_contract!(Compressed { zeroing: false });
}

mod zeroing {
    use super::*;
    contract::engine_contract!(Compressed { zeroing: true });
}
