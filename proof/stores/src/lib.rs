//! Block stores that fail, are recorded, or are as slow as a disk, and with the feature `unruly` object stores that
//! misbehave. Each wraps another one.
#![forbid(unsafe_code)]

mod fault;
pub mod model;
mod record;
#[cfg(feature = "unruly")]
pub mod unruly;

pub use fault::{FaultPlan, Faulty};
pub use record::Recorder;

#[cfg(test)]
mod tests {
    use super::*;
    use ondol_block::{BlockStore, RamStore};
    use ondol_power::{Cut, Kind, Layer, Medium, PowerDomain};

    #[test]
    fn a_recorded_batch_is_one_event() {
        let domain = PowerDomain::new();
        let store = Recorder::new(RamStore::new(4096).with_batches(4096), 0, domain.clone());
        store.write(0, &[1; 8]).unwrap();
        let first = store.submit(&[(8, &[2; 8]), (512, &[2; 8])], &[]).unwrap();
        store.submit(&[(16, &[3; 8])], &[(0, 8)]).unwrap();
        let media = [Medium { base: Layer::new(vec![0; 4096]), kind: Kind::Batches, whole: None }];
        let states = |settled: bool| -> Vec<[u8; 4]> {
            if settled {
                store.settle(first).unwrap();
            }
            let mut events = domain.take();
            let cut = Cut::after(&media, &events);
            let state = |n| {
                let bytes = cut.build(&cut.combination(n))[0].to_bytes();
                [0, 8, 512, 16].map(|at: usize| bytes[at])
            };
            let states = (0..cut.combinations().unwrap()).map(state).collect();
            events.drain(..).for_each(|event| domain.push(event));
            states
        };
        let all = [[0, 0, 0, 0], [1, 0, 0, 0], [1, 2, 2, 0], [0, 2, 2, 3]];
        assert_eq!(states(false), all);
        assert_eq!(states(true), all[2..]);
        store.flush().unwrap();
        assert_eq!(states(false), all[3..]);
    }

    #[test]
    fn batches_fail_as_writes_and_flushes_do() {
        let store = Faulty::new(RamStore::new(4096).with_batches(4096));
        let number = store.submit(&[(0, &[1])], &[]).unwrap();
        store.arm(FaultPlan { writes: Some(0), flushes: Some(0), once: true, ..FaultPlan::default() });
        assert!(store.submit(&[(0, &[2])], &[]).is_err() && store.settle(number).is_err());
        assert!(store.submit(&[(0, &[2])], &[]).is_ok() && store.settle(number).is_ok());
    }
}
