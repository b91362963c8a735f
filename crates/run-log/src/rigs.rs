//! What tests of a whole log need, and programs do not: a log with few and short lanes, and recovery of one file.

use crate::area::Places;
use crate::format::{Header, slot_at};
use crate::recover::{FoundFile, Mounted, bring};
use crate::{Log, LogOptions, Result};
use ondol_medium::{AreaKind, Nvm, Pool, PoolSpec};
use std::fs::File;
use std::io;

/// Makes the bytes of a pool with an empty log: so many lanes, each of `lane_len` bytes (whole pages), and so many
/// slots.
///
/// # Errors
/// There is no memory.
pub fn pool(lanes: u32, slots: u32, lane_len: u64) -> Result<Vec<u8>> {
    let (files, log) = (slot_at(lanes, slots), u64::from(lanes) * lane_len);
    let areas = vec![(AreaKind::RUN_FILES, files), (AreaKind::RUN_LOG, log)];
    let spec = PoolSpec { uuid: [9; 16], areas, ..PoolSpec::default() };
    let mut pool = Pool::create(Nvm::volatile(files + log + (16 << 10))?, &spec)?;
    let LogOptions { boot, namespace } = LogOptions::here();
    let header = Header { uuid: [9; 16], epoch: 1, resetting: false, lanes, slots, lane_len, boot, namespace };
    Places::make(&mut pool)?.reset(pool.nvm(), &header)?;
    Ok(pool.nvm().to_bytes()?)
}

/// Writes what is live of a file into `target`, as recovery does where the file is the run's own.
///
/// # Errors
/// The system's.
pub fn bring(file: &FoundFile, target: &File) -> io::Result<()> {
    bring::write(&Mounted, target, file).map(drop)
}

/// Tells how many bytes of the lanes are in use.
///
/// # Errors
/// The memory's failure.
pub fn used(log: &Log) -> Result<u64> {
    log.lanes().map(|lane| Ok(lane.used()?.0)).sum()
}

#[cfg(test)]
mod tests {
    use super::pool;
    use crate::format::{RecordHead, checked_word, slot};
    use crate::{Client, Log, LogOptions};
    use ondol_env::sync::Arc;
    use ondol_medium::{Nvm, Pool};
    use ondol_power::{Cut, Kind, Layer, Medium, PowerDomain, Sampling};
    use zerocopy::FromZeros;

    fn media(base: Vec<u8>) -> [Medium; 1] {
        [Medium { base: Layer::new(base), kind: Kind::Nvm, whole: None }]
    }

    /// A killed process has stored that records are retired, and not fenced it.
    #[test]
    fn what_is_seen_when_a_pool_is_opened_is_durable() {
        let (power, base) = (PowerDomain::new(), pool(1, 4, 4096).unwrap());
        let nvm = Nvm::from_bytes(&base).unwrap().record(Arc::clone(&power), 0);
        let mut pool = Pool::open(nvm).unwrap();
        let log = Log::prepare(&mut pool, &LogOptions::here()).unwrap().log;
        let slot = log.slot(0);
        let word = checked_word(log.seal, &[0, 1], 7);
        slot.set(slot::RETIRED, word).unwrap();
        let log = Log::prepare(&mut pool, &LogOptions::here()).unwrap().log;
        assert_eq!(log.slot(0).retired(1).stored().unwrap().value, 7);
        let (media, events) = (media(base), power.take());
        let cut = Cut::after(&media, &events);
        assert_eq!(cut.items().len(), 0, "all of it is durable");
    }

    /// Whoever is killed between two words of a slot leaves the end of a record with another lane.
    #[test]
    fn an_end_of_another_lane_makes_no_later_record_count_as_durable() {
        let (power, base) = (PowerDomain::new(), pool(2, 4, 4096).unwrap());
        let log = Log::join(Nvm::from_bytes(&base).unwrap().record(Arc::clone(&power), 0)).unwrap();
        let client = Client::new(log.clone()).unwrap();
        let (me, slot) = (client.me(std::process::id()).unwrap(), log.slot(0));
        slot.set(slot::NAME_LANE, 1).unwrap();
        slot.set(slot::NAME_END, 1024).unwrap();
        slot.persist_name().unwrap();
        let lane = log.lane(1);
        let end = lane.append(me, RecordHead::new_zeroed(), &[b"acknowledged"]).unwrap().unwrap();
        lane.persist(end).unwrap();
        power.mark(1);
        let states = Sampling::default().each(&media(base), &power.take(), |layers, mark| {
            let log = Log::join(Nvm::from_bytes(&layers[0].to_bytes()).unwrap()).unwrap();
            assert!(mark == 0 || log.lane(1).record(0).unwrap().is_some());
        });
        assert!(states > 0);
    }
}
