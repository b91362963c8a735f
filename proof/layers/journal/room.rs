//! Room for changes: what may be promised can be had, however short the log is, and who waits for it learns that the
//! engine has stopped.

use crate::batch::Batch;
use crate::classic::Classic;
use crate::compressed::Compressed;
use crate::contract::{BLOCK, Bench, HOME, META, Rig, TestClient, bench, config, empty_journal};
use ondol_block::{BlockStore, RamStore};
use ondol_env::sync::Arc;
use ondol_env::{Env, Fixed, Timestamp};
use ondol_format::jbd2::JournalSuperblock;
use ondol_journal::{Engine, Ground, Handle, Journal, JournalError, LogMap, open};
use std::thread;

/// Engines over a log of so many blocks.
fn short(blocks: u64) -> [Box<dyn Engine>; 2] {
    let env: Arc<dyn Env> = Arc::new(Fixed::new(Timestamp { sec: 1_000_000, nsec: 0 }, 1));
    let store = || -> Arc<dyn BlockStore> {
        let mut bytes = empty_journal();
        let sb = JournalSuperblock::new(BLOCK as u32, blocks as u32, [9; 16]);
        bytes[40 * BLOCK..40 * BLOCK + 1024].copy_from_slice(&sb.encode());
        Arc::new(RamStore::from_bytes(bytes))
    };
    let map = || LogMap::new(BLOCK as u32, [(40, blocks)]);
    [Journal::Classic(map()), Journal::Compressed(map())].map(|journal| {
        let client = Arc::new(TestClient::default());
        let ground = Ground { store: store(), block_size: BLOCK, client, env: env.clone(), config: config() };
        open(ground, journal).unwrap()
    })
}

#[test]
fn what_may_be_promised_can_be_had_of_logs_of_any_length() {
    let mut fit = 0;
    for blocks in (2..80).chain([100, 200, 1000]) {
        for engine in short(blocks) {
            let most = engine.max_blocks();
            let refused = engine.reserve(most + 1);
            let expected =
                matches!(refused, Err(JournalError::TooBig { need, max }) if (need, max) == (most + 1, most));
            assert!(expected, "{} of {blocks} blocks: {refused:?}", engine.name());
            for round in 0..20 {
                let mut handle = Handle::begin(&*engine, most).unwrap();
                for block in 0..u64::from(most) {
                    handle.write(HOME + block, META, 0, &[round; BLOCK]).unwrap();
                }
                handle.close();
            }
            engine.checkpoint_all().unwrap();
            fit += u32::from(most > 0);
        }
    }
    assert!(fit > 100, "{fit}");
}

#[test]
fn who_waits_for_room_is_told_that_the_engine_has_stopped() {
    for rig in [&Classic as &dyn Rig, &Compressed { zeroing: false }, &Batch] {
        let Bench { engine, .. } = bench(rig);
        let all = Handle::begin(&*engine, engine.max_blocks()).unwrap();
        thread::scope(|scope| {
            let waits = [(); 3].map(|()| scope.spawn(|| engine.reserve(1)));
            thread::sleep(std::time::Duration::from_millis(30));
            assert!(waits.iter().all(|wait| !wait.is_finished()), "{}: all is promised", engine.name());
            engine.stop("the end");
            for wait in waits {
                let told = wait.join().unwrap();
                assert!(matches!(told, Err(JournalError::Aborted(_))), "{}: {told:?}", engine.name());
            }
        });
        drop(all);
    }
}
