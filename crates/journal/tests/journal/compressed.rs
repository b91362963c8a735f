//! Engine `compressed` against the engine contract.

use crate::contract::{BLOCK, BLOCKS, HOME, Rig, TestClient, map};
use ondol_block::BlockStore;
use ondol_env::Env;
use ondol_env::sync::Arc;
use ondol_format::jbd2::JournalSuperblock;
use ondol_journal::{Config, Engine, compressed};

/// With or without the paper's zeroing.
struct Compressed {
    zeroing: bool,
}

impl Rig for Compressed {
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
    crate::contract::engine_contract!(Compressed { zeroing: false });
}

mod zeroing {
    use super::*;
    crate::contract::engine_contract!(Compressed { zeroing: true });
}

/// Numbers begin with a random upper half where there were none, and go on from there ever after.
#[test]
fn numbers_are_no_other_volumes_and_never_repeat() {
    let rig = Compressed { zeroing: false };
    let b = crate::contract::bench(&rig);
    let number = |store: &dyn BlockStore| {
        let mut bytes = vec![0; BLOCK];
        store.read(40 * BLOCK as u64, &mut bytes).unwrap();
        JournalSuperblock::parse(&bytes, BLOCK as u32, 1024).unwrap().extension().sequence
    };
    let first = number(&*b.store);
    assert!(first >> 32 > 0, "{first}");
    b.fill(HOME, 1);
    b.sync();
    let after = Arc::new(b.crashed(&rig));
    let recovered = number(&*after);
    assert!(recovered > first + 1 && recovered >> 32 == first >> 32, "{recovered} after {first}");
    let again = rig.open(after.clone(), b.client.clone(), b.env.clone(), crate::contract::config());
    drop(again);
    assert!(number(&*after) > recovered && number(&*after) >> 32 == first >> 32);
}
