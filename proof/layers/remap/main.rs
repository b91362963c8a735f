//! Engine `remap` on a page table: its contract, with the power cut everywhere, and what is its own.

#[path = "../journal/contract/mod.rs"]
#[expect(dead_code, reason = "some of it is for engines with a pool of their own")]
mod contract;
#[path = "../journal/lost.rs"]
mod lost;
mod own;
mod recovery;
mod schedules;

use contract::{Ground, Rig, TestClient};
use ondol_block::BlockStore;
use ondol_env::sync::Arc;
use ondol_env::{Fixed, System, Timestamp};
use ondol_journal::{Config, Engine, Journal, remap, scalable};
use ondol_medium::Pool;
use ondol_nvm_log::{Contents, OnDamage};

/// Bytes of a block: a page of the table.
const BLOCK: usize = 4096;
/// Blocks of the medium.
const BLOCKS: u64 = 2048;
/// Both.
const VOLUME: ondol_journal::scalable::Geometry =
    ondol_journal::scalable::Geometry { blocks: BLOCKS, block_size: BLOCK };

/// With a log of so many bytes. The table lends 48 pages.
struct Remap(u64);

const USUAL: Remap = Remap(8 << 20);
/// With a log that is looked at as a whole by each recovery.
const SMALL: Remap = Remap(512 << 10);

/// Lends what the log in a pool names, as whoever attaches the table does.
fn claim(store: &dyn BlockStore, contents: &Contents) {
    store.lender().unwrap().claim(&remap::pages(contents).unwrap());
}

/// The log of a pool, over the table in it.
fn contents(pool: &Pool) -> Contents {
    let env = Fixed::new(Timestamp::default(), 5);
    Contents::open(pool, &env, OnDamage::Refuse).unwrap().over_table(pool)
}

/// Brings home what the log has, all in one.
fn recover(store: &Arc<dyn BlockStore>, pool: &Pool) {
    let contents = contents(pool);
    claim(&**store, &contents);
    scalable::recover(store, VOLUME, &contents, &TestClient::default(), &System).unwrap();
}

impl Rig for Remap {
    fn empty(&self) -> Vec<u8> {
        vec![0; BLOCK * BLOCKS as usize]
    }

    fn lines(&self) -> Option<u64> {
        Some(64)
    }

    fn log(&self) -> u64 {
        self.0
    }

    fn open(&self, ground: Ground, c: Config) -> Box<dyn Engine> {
        let contents = contents(ground.pool.as_ref().unwrap());
        let log = ground.log(contents);
        ground.open(Journal::Remap(log, BLOCKS), c)
    }

    fn recover(&self, store: Arc<dyn BlockStore>, pool: Option<Pool>) {
        recover(&store, &pool.unwrap());
    }

    fn flushes_per_commit(&self) -> u64 {
        0
    }
}

mod small {
    use super::*;
    crate::contract::engine_contract!(SMALL; every_crash_leaves_a_prefix);
}

crate::contract::engine_contract!(
    USUAL;
    nothing_is_seen_before_close_and_nothing_of_a_dropped_handle
    concurrent_changes_of_one_block_merge
    a_waited_for_transaction_survives
    what_is_durable_already_costs_no_commit_and_no_flush
    new_data_is_there_when_it_is_named
    new_data_that_goes_home_early_is_there_when_it_is_named
    new_data_is_not_bound_by_the_ring
    new_data_fits_when_nobody_else_has_been_promised_anything
    freed_blocks_wait_for_durability_and_are_never_replayed
    data_written_at_home_takes_the_place_of_what_was_read
    one_commit_costs_its_flushes_and_no_more
    a_small_log_wraps_and_never_loses
    too_big_is_refused_before_anything_happens
    many_threads_share_commits
    a_read_base_that_breaks_its_rules_is_refused
    the_timer_commits_and_the_checkpointer_drains
    a_checkpoint_brings_home_what_is_committed_and_commits_nothing
    the_timer_goes_on_when_the_clock_is_set
    what_waits_for_a_commit_has_its_age
    a_handle_that_changed_nothing_is_no_work
);

crate::lost::lost_pages!(USUAL);
