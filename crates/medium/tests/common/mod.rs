//! A small pool, and every cut of what is done to it.

use ondol_medium::{AreaKind, Nvm, Pool, PoolError, PoolSpec};
use ondol_power::{Cut, Event, Item, Kind, Layer, Medium, PowerDomain};

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

/// States of every cut: nothing, everything, each item alone there, each alone missing, each torn at every word, and some of
/// those by chance. `judge` sees the contents and the number of events; each distinct one once for each number of marks.
pub(crate) fn explore(base: &[u8], events: &[Event], mut judge: impl FnMut(&[u8], u64)) -> usize {
    let media = [Medium { base: Layer::new(base.to_vec()), kind: Kind::Nvm, whole: None }];
    let (mut cut, mut seen, mut marks) = (Cut::new(&media), std::collections::HashSet::new(), 0);
    let mut random = 0x9E37_79B9_7F4A_7C15u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    for event in events {
        cut.advance(event);
        if let Event::Mark(n) = event {
            marks = *n;
        }
        let items = cut.items();
        let all = |i: &Item<'_>| i.choice(i.choices() - 1);
        let mut states = Vec::new();
        for alone in 0..=items.len() {
            states.push(items.iter().enumerate().map(|(n, i)| if n == alone { i.choice(0) } else { all(i) }).collect());
            states.push(items.iter().enumerate().map(|(n, i)| if n == alone { all(i) } else { i.choice(0) }).collect());
            states.push(
                items.iter().enumerate().map(|(n, i)| if n < alone { all(i) } else { i.choice(0) }).collect::<Vec<_>>(),
            );
        }
        for _ in 0..40 {
            let mut whole = |i: &Item<'_>| i.choice(next() as usize % i.choices());
            states.push(items.iter().map(&mut whole).collect());
            let mut torn = |i: &Item<'_>| i.torn(|_| next() as usize % i.choices());
            states.push(items.iter().map(&mut torn).collect());
        }
        for keep in states {
            let mut layer = cut.build(&keep).remove(0);
            if seen.insert((marks, layer.fingerprint())) {
                judge(&layer.to_bytes(), marks);
            }
        }
    }
    seen.len()
}
