//! Engine `classic` against the engine contract.

mod contract;

use contract::{BLOCK, BLOCKS, Rig, TestClient};
use ondol_block::BlockStore;
use ondol_env::Env;
use ondol_env::sync::Arc;
use ondol_format::jbd2::JournalSuperblock;
use ondol_journal::jbd2::{self, LogMap};
use ondol_journal::{Config, Engine};

struct Classic;

/// A journal in two pieces, so that the ring crosses from one to the other.
fn map() -> LogMap {
    LogMap::new(BLOCK as u32, [(40, 24), (70, 1000)])
}

impl Rig for Classic {
    fn empty(&self) -> Vec<u8> {
        let mut bytes = vec![0; BLOCK * BLOCKS as usize];
        let sb = JournalSuperblock::new(BLOCK as u32, 1024, [9; 16]);
        bytes[40 * BLOCK..40 * BLOCK + 1024].copy_from_slice(&sb.encode());
        bytes
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
        jbd2::recover(store, &map(), BLOCKS).unwrap();
    }

    fn flushes_per_commit(&self) -> u64 {
        2
    }
}

macro_rules! contract {
    ($($name:ident),* $(,)?) => { $(#[test] fn $name() { contract::$name(&Classic); })* };
}

contract! {
    nothing_is_seen_before_close_and_nothing_of_a_dropped_handle,
    concurrent_changes_of_one_block_merge,
    a_waited_for_transaction_survives,
    every_crash_leaves_a_prefix,
    freed_blocks_wait_for_durability_and_are_never_replayed,
    one_commit_costs_its_flushes_and_no_more,
    a_small_log_wraps_and_never_loses,
    too_big_is_refused_before_anything_happens,
    a_failed_flush_or_write_ends_all_promises,
    many_threads_share_commits,
    a_read_base_that_breaks_its_rules_is_refused,
    the_timer_commits_and_the_checkpointer_drains,
    a_handle_that_changed_nothing_is_no_work,
}
