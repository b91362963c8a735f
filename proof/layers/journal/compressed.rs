//! Engine `compressed` against the engine contract.

use crate::contract::{BLOCK, BLOCKS, Ground, HOME, Rig, map};
use ondol_block::BlockStore;
use ondol_env::sync::Arc;
use ondol_format::jbd2::JournalSuperblock;
use ondol_journal::{Config, Engine, Journal, compressed};
use ondol_medium::Pool;

/// With or without the paper's zeroing.
pub(crate) struct Compressed {
    pub(crate) zeroing: bool,
}

impl Rig for Compressed {
    fn empty(&self) -> Vec<u8> {
        crate::contract::empty_journal()
    }

    fn open(&self, ground: Ground, c: Config) -> Box<dyn Engine> {
        ground.open(Journal::Compressed(map()), Config { zeroing: self.zeroing, ..c })
    }

    fn recover(&self, store: Arc<dyn BlockStore>, _: Option<Pool>) {
        compressed::recover(&*store, &map(), BLOCKS).unwrap();
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
    let after = b.crashed(&rig);
    let recovered = number(&*after);
    assert!(recovered > first + 1 && recovered >> 32 == first >> 32, "{recovered} after {first}");
    let ground = Ground { store: after.clone(), pool: None, client: b.client.clone(), env: b.env.clone() };
    let again = rig.open(ground, crate::contract::config());
    drop(again);
    assert!(number(&*after) > recovered && number(&*after) >> 32 == first >> 32);
}
