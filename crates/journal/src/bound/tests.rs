//! The arithmetic, with times that are told.

use super::*;
use ondol_env::{Fixed, Timestamp};

const MIB: u64 = 1 << 20;
const MOST: u64 = 512 * MIB;

/// A disk of so many MiB a second has written so many, beginning at `at`. Returns when it was done.
fn writes(bound: &Bound, at: u64, rate: u64, written: u64) -> u64 {
    let done = at + written * 1_000_000_000 / rate;
    bound.begins(at);
    bound.ends(done, written * MIB);
    done
}

/// The bounds of so many transactions, in MiB, in each of which `written` MiB are written.
fn bounds(bound: &Bound, rate: u64, written: u64, quiet: bool, times: usize) -> Vec<u64> {
    let mut at = 0;
    let next = |_| {
        at = writes(bound, at, rate, written) + 5_000_000_000;
        bound.next_at(at, quiet);
        mib(bound.dirty())
    };
    (0..times).map(next).collect()
}

/// To the nearest.
fn mib(bytes: u64) -> u64 {
    (bytes + MIB / 2) / MIB
}

fn slowly(env: &Fixed) -> Result<()> {
    env.advance(1_000_000_000);
    Ok(())
}

/// One that may fall and rise.
fn fresh() -> Bound {
    let bound = Bound::new(MOST, None, None);
    bound.now.store(MOST, Relaxed);
    bound
}

#[test]
fn before_the_first_mebibyte_as_much_waits_as_may() {
    let bound = Bound::new(MOST, None, None);
    assert_eq!((bound.dirty(), bound.kept(), bound.early(), bound.rate()), (EARLY, EARLY, EARLY, 0));
    assert_eq!(Bound::new(5, None, None).dirty(), 5);
    bound.begins(0);
    bound.ends(1_000_000_000, MIB - 1);
    assert!(!bound.next_at(2_000_000_000, false), "a flush tells nothing of the disk");
    // What was too little is forgotten.
    bound.begins(2_000_000_000);
    bound.ends(2_000_000_001, 1);
    assert!(!bound.next_at(3_000_000_000, false));
    assert_eq!((bound.dirty(), bound.rate()), (EARLY, 0));
    writes(&bound, 0, 100, 1);
    assert!(bound.next_at(4_000_000_000, false));
    assert_eq!(mib(bound.rate()), 100);
}

#[test]
fn it_halves_and_doubles_at_most() {
    let bound = fresh();
    assert_eq!(bounds(&bound, 90, 4, false, 7), [256, 128, 64, 32, 16, 9, 9], "what 100 ms drain");
    assert_eq!(bounds(&bound, 110, 4, true, 6), [18, 36, 72, 100, 100, 100], "nobody waits: a second");
}

#[test]
fn the_least_and_the_most_hold_whatever_the_disk_is() {
    let (slow, fast) = (fresh(), fresh());
    assert_eq!(bounds(&slow, 1, 4, true, 20).pop(), Some(8));
    assert_eq!(bounds(&fast, 100_000, 100, false, 20).pop(), Some(32), "no program waits for such a disk");
    // So little may be dirty that nothing moves.
    let little = Bound::new(64 << 10, None, None);
    assert_eq!((bounds(&little, 1, 4, false, 20).pop(), little.dirty()), (Some(0), 64 << 10));
}

#[test]
fn what_differs_by_less_than_a_quarter_changes_nothing() {
    let bound = fresh();
    bounds(&bound, 90, 100, true, 9);
    assert_eq!(mib(bound.dirty()), 90);
    assert_eq!(bounds(&bound, 80, 100, true, 30), [90; 30]);
    assert_eq!(bounds(&bound, 105, 100, true, 30), [90; 30]);
    assert_eq!(mib(bound.rate()), 104, "the rate follows at once");
    let moved = bounds(&bound, 120, 100, true, 30);
    assert_eq!((moved[0], moved[29]), (90, 113));
}

#[test]
fn the_last_eight_count_most() {
    let bound = fresh();
    bounds(&bound, 80, 100, true, 50);
    assert_eq!(mib(bound.dirty()), 80);
    assert_eq!(bounds(&bound, 20, 100, true, 1), [58], "one that was slow is not the disk");
    assert_eq!(bounds(&bound, 80, 100, true, 20).pop(), Some(73));
    assert_eq!(bounds(&bound, 20, 100, true, 20).pop(), Some(24), "the disk has changed");
}

/// More than 32 MiB wait only where these take long: elsewhere the disk is not what programs wait for.
#[test]
fn a_disk_that_is_swift_is_not_left_idle() {
    let bound = Bound::new(MOST, None, None);
    assert_eq!(bounds(&bound, 1000, 100, true, 9), [32; 9]);
    let after = bounds(&bound, 60, 100, true, 20);
    assert_eq!((after[..6].to_vec(), after[19]), (vec![32, 32, 32, 64, 100, 100], 74), "it has become slow");
}

#[test]
fn time_counts_once_in_which_several_write_and_not_at_all_where_none_does() {
    let bound = fresh();
    bound.begins(1000);
    bound.begins(200_001_000);
    bound.ends(400_001_000, 10 * MIB);
    bound.begins(400_002_000);
    // A flush.
    bound.ends(900_001_000, 0);
    bound.ends(1_000_001_000, 90 * MIB);
    // Nobody writes.
    assert!(bound.next_at(90_000_000_000, true));
    assert_eq!(mib(bound.rate()), 100);
}

#[test]
fn what_is_under_way_goes_by_until_now_and_from_then_on() {
    let bound = fresh();
    bound.begins(0);
    bound.begins(0);
    bound.ends(10_000_000, MIB);
    bound.next_at(20_000_000, false);
    assert_eq!(mib(bound.rate()), 50);
    bound.ends(30_000_000, MIB);
    bound.next_at(40_000_000, false);
    assert_eq!(mib(bound.rate()), 68, "50, and then 100");
}

#[test]
fn a_clock_that_stands_leaves_it_as_it_was_set() {
    let bound = fresh();
    for _ in 0..20 {
        bound.begins(7);
        bound.ends(7, 100 * MIB);
        assert!(!bound.next_at(7, false));
    }
    assert_eq!((bound.dirty(), bound.rate()), (MOST, 0));
}

#[test]
fn a_wild_clock_leads_to_one_of_its_limits_and_is_forgotten() {
    let bound = fresh();
    bound.begins(u64::MAX);
    bound.ends(0, 100 * MIB);
    assert!(!bound.next_at(0, false), "it has gone back");
    for _ in 0..10 {
        bound.begins(0);
        bound.ends(u64::MAX, 100 * MIB);
        bound.begins(0);
        bound.ends(u64::MAX, 100 * MIB);
        bound.next_at(u64::MAX, true);
    }
    assert_eq!(bound.dirty(), LEAST);
    assert_eq!(bounds(&bound, 100, 100, true, 50).pop(), Some(91), "and on its way back to 100");
    bound.begins(0);
    bound.ends(1, u64::MAX);
    bound.next_at(1, false);
    assert!((LEAST..=MOST).contains(&bound.dirty()));
}

#[test]
fn what_is_set_is_not_measured() {
    let bound = Bound::new(MOST, Some(5), Some(Drains { least: 1, byte_ns: u64::MAX }));
    let env = Fixed::new(Timestamp::default(), 1);
    for _ in 0..9 {
        bound.during(&env, 100 * MIB, || slowly(&env)).unwrap();
        bound.next(&env, false);
    }
    assert_eq!((bound.kept(), bound.early(), bound.dirty(), bound.rate()), (5, 5, MOST, 0));
}

#[test]
fn what_tests_say_counts_without_a_clock() {
    let bound = Bound::new(64 << 10, None, Some(Drains { least: 4096, byte_ns: 10_000 }));
    let env = Fixed::new(Timestamp::default(), 1);
    let next = |_| {
        bound.during(&env, 512, || Ok(())).unwrap();
        bound.next(&env, false);
        bound.dirty()
    };
    assert_eq!((0..5).map(next).collect::<Vec<_>>(), [32 << 10, 16 << 10, 10_000, 10_000, 10_000]);
}

#[test]
fn what_fails_was_not_written() {
    let (bound, env) = (fresh(), Fixed::new(Timestamp::default(), 1));
    let fails = || {
        env.advance(1_000_000_000);
        Err::<(), _>(crate::JournalError::Aborted("it fails".into()))
    };
    bound.during(&env, 100 * MIB, fails).unwrap_err();
    bound.next(&env, false);
    assert_eq!(bound.rate(), 0);
    bound.during(&env, 100 * MIB, || slowly(&env)).unwrap();
    bound.next(&env, false);
    assert_eq!(mib(bound.rate()), 100);
}
