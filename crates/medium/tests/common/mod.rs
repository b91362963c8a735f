//! A small pool, and every cut of what is done to it.

use ondol_medium::{AreaKind, Nvm, Pool, PoolError, PoolSpec};
use ondol_power::{Event, Kind, Layer, Medium, PowerDomain, Sampling};

pub(crate) const UUID: [u8; 16] = *b"pool-pool-pool-p";
pub(crate) const VOLUME: [u8; 16] = *b"volume-volume-vo";
pub(crate) const SIZE: u64 = 32768;

pub(crate) fn spec() -> PoolSpec {
    let areas = vec![(AreaKind::JOURNAL_LOG, 4096), (AreaKind::PAGE_DATA, 5000)];
    PoolSpec { uuid: UUID, areas, ..PoolSpec::default() }
}

pub(crate) fn pool() -> Pool {
    Pool::create(Nvm::volatile(SIZE).unwrap(), &spec()).unwrap()
}

pub(crate) fn bytes(pool: &Pool) -> Vec<u8> {
    pool.nvm().to_bytes().unwrap()
}

pub(crate) fn reopen(bytes: &[u8]) -> Result<Pool, PoolError> {
    Pool::open(Nvm::from_bytes(bytes).unwrap())
}

/// Records what `run` does to a medium that held `base`.
pub(crate) fn record(base: &[u8], run: impl FnOnce(Nvm)) -> Vec<Event> {
    let power = PowerDomain::new();
    run(Nvm::from_bytes(base).unwrap().record(power.clone(), 0));
    power.take()
}

/// States of every cut. `judge` sees the contents and the last mark; each distinct one once for each mark.
pub(crate) fn explore(base: &[u8], events: &[Event], mut judge: impl FnMut(&[u8], u64)) -> usize {
    let media = [Medium { base: Layer::new(base.to_vec()), kind: Kind::Nvm, whole: None }];
    let sampling = Sampling { all_of: 1, samples: 400, extremes: usize::MAX, ..Sampling::default() };
    sampling.each(&media, events, |layers, mark| judge(&layers[0].to_bytes(), mark))
}
