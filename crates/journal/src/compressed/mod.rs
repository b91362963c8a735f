//! Engine `compressed`: a transaction is one unit, compressed with LZ4, that counts whole or not at all; one flush
//! makes it durable.
//!
//! Source: papers/3. Design: `docs/design/compressed.md`; bytes: `ondol_format::unit`.

mod encode;
mod recover;
mod sums;
mod writer;

pub use encode::WORTH_A_THREAD;
pub use recover::{recover, salvage};
pub use writer::{STAGE_DENSE, STAGE_EARLY, STAGE_PLAIN};

use crate::area::{Area, LogMap};
use crate::block_engine::LogFormat;
use crate::jbd2::load_to_write;
use crate::names::Tid;
use crate::{Corrupt, Ground, Result};
use ondol_format::csum;
use ondol_format::jbd2::JournalSuperblock;
use writer::UnitLog;

/// The most bytes of a journal that are used: a unit, which is at most a quarter of it, tells its length in 32 bits.
const RING_MAX: u64 = 8 << 30;

/// Different blocks that the log may hold for each block of its ring: however well they compress, one transaction may
/// have to revoke them all.
const IMAGES_PER_BLOCK: u64 = 8;

/// More units than any medium lasts for.
const SEQUENCE_MAX: u64 = 1 << 62;

/// The log of engine `compressed`, and its first transaction. Its superblock says so with the first commit, durably
/// with it.
pub(crate) fn log(ground: &mut Ground, map: LogMap) -> Result<(Box<dyn LogFormat>, Tid)> {
    let Ground { store, env, config, .. } = ground;
    let sb = load_to_write(&**store, &map)?;
    // One further: a unit that was written and never counted may lie there under the next number.
    let mut first = next_sequence(&sb)? + 1;
    if sb.extension().sequence == 0 {
        // Where a volume was made over another with the same UUID, units of that may still lie in the ring.
        let [a, b, c, ..] = env.random_uuid();
        first += u64::from(u32::from_le_bytes([a, b, c, 0])) << 32;
    }
    let (seed, most) = (csum::uuid_seed(sb.uuid()), RING_MAX / map.block_size() as u64);
    let area = Area::new(store.clone(), map, sb, most);
    let log = UnitLog::new(area, seed, env.clone(), first, config.device)?;
    // Blocks of new data are images, in every data mode.
    config.journaled_data = true;
    Ok((Box::new(log), Tid(first)))
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
