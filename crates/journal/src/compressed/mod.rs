//! Engine `compressed`: a transaction is one unit, compressed with LZ4, that counts whole or not at all; one flush makes it durable.
//!
//! Source: papers/3. Design: `docs/design/compressed.md`; bytes: `ondol_format::unit`.

mod encode;
mod recover;
mod writer;

pub use recover::recover;

use crate::area::LogMap;
use crate::contract::{Client, Tid};
use crate::jbd2::load_superblock;
use crate::{BlockEngine, Config, Corrupt, JournalError, Result};
use ondol_block::BlockStore;
use ondol_env::Env;
use ondol_env::sync::Arc;
use ondol_format::jbd2::{JournalCompat, JournalIncompat, JournalSuperblock};
use writer::UnitLog;

/// The most bytes of a journal that are used: a unit, which is at most a quarter of it, tells its length in 32 bits.
const RING_MAX: u64 = 8 << 30;

/// More units than any medium lasts for.
const SEQUENCE_MAX: u64 = 1 << 62;

/// Opens a recovered, empty journal for writing as engine `compressed`. Its superblock says so with the first commit, durably with it.
///
/// # Errors
/// Corruption, a journal that is not empty, or the store's failure.
pub fn open(
    store: Arc<dyn BlockStore>,
    map: LogMap,
    client: Arc<dyn Client>,
    env: Arc<dyn Env>,
    config: Config,
) -> Result<BlockEngine> {
    let mut sb = load_superblock(&*store, &map)?;
    if sb.start().is_some() {
        return Err(JournalError::Unsupported("the journal still holds transactions: recover it first".into()));
    }
    sb.upgrade();
    let kept = sb.incompat() & JournalIncompat::FAST_COMMIT;
    sb.set_incompat(kept | JournalIncompat::REVOKE | JournalIncompat::BIT64 | JournalIncompat::CSUM_V3);
    sb.set_compat(JournalCompat::empty());
    sb.set_errno(0);
    // One further: a unit that was written and never counted may lie there under the next number.
    let first = next_sequence(&sb)? + 1;
    let block_size = map.block_size();
    let log = UnitLog::new(store.clone(), map, sb, env.clone(), first)?;
    // Blocks of new data are images, in every data mode.
    let config = Config { journaled_data: true, ..config };
    Ok(BlockEngine::new(store, block_size, client, env, config, Box::new(log), Tid(first as u32)))
}

/// The number of the next unit: the next transaction id, with as many rounds of it before as this journal has seen.
///
/// # Errors
/// The superblock has one that no journal comes to.
fn next_sequence(sb: &JournalSuperblock) -> Result<u64> {
    let before = sb.extension().sequence;
    if before > SEQUENCE_MAX {
        let what = format!("unit number {before} is too large");
        return Err(Corrupt { structure: "journal superblock".into(), block: 0, what }.into());
    }
    let same_round = before & !0xffff_ffff | u64::from(sb.sequence());
    let next = if same_round < before { same_round + (1 << 32) } else { same_round };
    Ok(next.max(1))
}
