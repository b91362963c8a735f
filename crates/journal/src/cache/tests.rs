use super::*;
use crate::{Corrupt, Images};
use ondol_env::sync::Arc;

struct Zeros;

impl Home for Zeros {
    fn committed(&self, _: u64) -> Option<Block> {
        None
    }
    fn home_from(&self, _: u64) -> u64 {
        u64::MAX
    }
    fn read_home(&self, _: u64, _: &mut [u8]) -> Result<()> {
        Ok(())
    }
}

struct Nobody;

impl Client for Nobody {
    fn build(&self, _kind: Kind, _bytes: &mut [u8]) -> bool {
        false
    }

    fn verify(&self, _: u64, _: Kind, _: &[u8]) -> std::result::Result<(), Corrupt> {
        Ok(())
    }
    fn seal(&self, _: u64, _: Kind, _: &[u8], _: &Ranges, _: &dyn Images) -> Patches {
        Patches::default()
    }

    fn may_tear(&self, _: Kind) -> bool {
        false
    }

    fn release(&self, _: &[crate::Extent]) {}
}

fn cache(blocks: usize) -> Cache {
    Cache::new(64, blocks * 64, Arc::new(Zeros), Arc::new(Nobody))
}

fn places(cache: &Cache) -> usize {
    cache.shards.iter().map(|shard| shard.lock().clock.places()).sum()
}

#[test]
fn blocks_that_come_and_go_leave_no_places_behind() {
    let cache = cache(ROOMY * 64);
    // A working set that fits: nothing is ever evicted.
    for round in 0..2000u64 {
        for block in 0..64u64 {
            cache.get(block, Kind::DATA).unwrap();
            if round % 2 == 0 { drop(cache.forget(block)) } else { cache.follow(block, 0, &[0; 64], false) }
        }
    }
    assert_eq!(cache.stats().blocks, 0);
    assert!(places(&cache) <= cache.shards.len() * 66, "{} places for no block", places(&cache));
}

#[test]
fn blocks_in_memory_follow_what_is_written_at_home() {
    let cache = cache(ROOMY * 64);
    (0..4).for_each(|block| drop(cache.get(block, Kind::DATA).unwrap()));
    let held = cache.get(3, Kind::DATA).unwrap();
    // The end of one, a whole one, and bytes of one that is held and of one that is not there.
    cache.follow(1, 60, &[7; 4 + 64 + 64 + 1], true);
    assert_eq!(cache.peek_data(0).unwrap()[..], [0; 64]);
    assert_eq!(cache.peek_data(1).unwrap()[58..], [0, 0, 7, 7, 7, 7]);
    assert_eq!(cache.peek_data(2).unwrap()[..], [7; 64]);
    assert_eq!(held.snapshot()[..], [0; 64]);
    assert!(cache.peek_data(4).is_none());
    // What is long is left to home, but for its ends.
    cache.follow(0, 1, &[9; IN_PLACE], true);
    assert_eq!(cache.peek_data(0).unwrap()[..2], [0, 9]);
    assert!(cache.peek_data(1).is_none() && cache.peek_data(2).is_none());
    cache.follow(0, 0, &[8], false);
    assert!(cache.peek_data(0).is_none(), "nobody knows what home has");
}

#[test]
fn what_is_taken_as_empty_is_not_read_and_hides_nothing() {
    let cache = cache(ROOMY * 64);
    cache.take_as_empty(0, Kind::DATA);
    assert_eq!(cache.get(0, Kind::DATA).unwrap().snapshot()[..], [0; 64]);
    assert_eq!(cache.stats().misses, 0);
    cache.follow(0, 0, &[5], true);
    cache.take_as_empty(0, Kind::DATA);
    assert_eq!(cache.peek_data(0).unwrap()[0], 5);
}

#[test]
fn what_is_held_stays_and_what_is_idle_goes() {
    let cache = cache(ROOMY);
    let held = cache.get(0, Kind::DATA).unwrap();
    for n in 1..100 {
        cache.get(n, Kind::DATA).unwrap();
    }
    assert!(cache.stats().blocks <= 1 + ROOMY as u64);
    assert!(Arc::ptr_eq(&held, &cache.get(0, Kind::DATA).unwrap()));
}
