//! Defects planted in pools are found, and nothing is where none is planted.

#[allow(dead_code, reason = "shared with the own tests of pools")]
#[path = "../../crates/medium/tests/common/mod.rs"]
mod common;

use common::{UUID, VOLUME, bytes, explore, pool, record, reopen, spec};
use ondol_faults::Defect;
use ondol_medium::{Nvm, Pool, PoolError, PoolSpec};
use ondol_power::PowerDomain;

/// States of attaching twice in which there is no pool, or one with an epoch or a volume that it never had.
fn attaching() -> usize {
    let base = bytes(&pool());
    let power = PowerDomain::new();
    let mut pool = Pool::open(Nvm::from_bytes(&base).unwrap().record(power.clone(), 0)).unwrap();
    for epoch in 1..=2 {
        pool.attach(VOLUME).unwrap();
        power.mark(epoch);
    }
    let mut wrong = 0;
    explore(&base, &power.take(), |state, done| {
        let found = reopen(state).map(|pool| (pool.header().epoch, pool.header().volume));
        let allowed = [(0, None), (1, Some(VOLUME)), (2, Some(VOLUME))];
        let right = found.is_ok_and(|f| allowed.contains(&f) && f.0 >= done && f.0 <= done + 1);
        wrong += usize::from(!right);
    });
    wrong
}

/// States of making a pool over another one in which there is one, but neither the old nor the new, whole.
fn making() -> usize {
    let old = Pool::create(Nvm::volatile(common::SIZE).unwrap(), &PoolSpec { uuid: [9; 16], ..spec() }).unwrap();
    let mut batch = old.nvm().stored();
    batch.copy(8192, &[0xee; 16384]).unwrap();
    batch.write_back().fence().unwrap();
    let base = bytes(&old);
    let events = record(&base, |nvm| drop(Pool::create(nvm, &PoolSpec { force: true, ..spec() }).unwrap()));
    let mut wrong = 0;
    explore(&base, &events, |state, _| {
        let right = match reopen(state) {
            Ok(pool) if pool.header().uuid == UUID => {
                let found = bytes(&pool);
                pool.header().areas == common::pool().header().areas
                    && pool.header().areas.iter().all(|a| found[a.start as usize..][..4096] == [0; 4096])
            }
            Ok(pool) => pool.header() == old.header(),
            Err(e) => matches!(e, PoolError::NotAPool { .. } | PoolError::Damaged { .. }),
        };
        wrong += usize::from(!right);
    });
    wrong
}

fn found(defect: Option<Defect>) -> (usize, usize) {
    let _planted = ondol_faults::set(defect).unwrap();
    (attaching(), making())
}

#[test]
fn each_is_found_and_nothing_else() {
    assert_eq!(found(None), (0, 0));
    let (attaching, _) = found(Some(Defect::PoolMissingWriteBack));
    assert!(attaching > 0, "missing write-back");
    let (attaching, _) = found(Some(Defect::PoolMissingFence));
    assert!(attaching > 0, "missing fence");
    let (attaching, making) = found(Some(Defect::PoolUncheckedChecksum));
    assert!(attaching > 0 && making > 0, "unchecked checksum: {attaching}, {making}");
    let (attaching, making) = found(Some(Defect::PoolPublishBeforeData));
    assert!(attaching == 0 && making > 0, "published before its data: {attaching}, {making}");
}
