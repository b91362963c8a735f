//! One writer: the fence and the lease.

use super::*;
use ondol_block::BlockError;
use ondol_env::sync::Mutex;
use ondol_object_home::Place;
use ondol_stores::unruly::Plan;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

#[test]
fn a_volume_that_is_written_is_refused_to_others() {
    let store = unruly();
    let purpose = Opening { purpose: "mounted at /mnt/one".into(), ..opening() };
    let home = Home::make(&bucket(store.clone()), making(8), &purpose).unwrap();
    let polite = Opening { take_over: false, ..opening() };
    let e = Home::open(&bucket(store.clone()), &polite).unwrap_err();
    assert!(matches!(e, HomeError::Held { length: 60, .. }) && e.to_string().contains("/mnt/one"), "{e}");
    // Whoever was refused has fenced nobody.
    home.write(0, &chunk(1)).unwrap();
    home.flush().unwrap();
    home.close().unwrap();
    let home = Home::open(&bucket(store), &polite).unwrap();
    assert_eq!((read_chunk(&home, 0), home.epoch()), (chunk(1), 2));
    home.close().unwrap();
}

#[test]
fn a_lease_that_ran_out_is_no_obstacle() {
    let store = unruly();
    let brief = Opening { lease: Duration::from_millis(300), take_over: false, ..opening() };
    drop(Home::make(&bucket(store.clone()), making(8), &brief).unwrap());
    // The process is there; but nobody renews.
    while let Err(e) = Home::open(&bucket(store.clone()), &brief) {
        assert!(matches!(e, HomeError::Held { .. }), "{e}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn lost_answers_and_failures_do_not_make_one_lose_its_own_lease() {
    let store = unruly();
    let brief = Opening { lease: Duration::from_millis(30), ..opening() };
    let home = Home::make(&bucket(store.clone()), making(8), &brief).unwrap();
    for seed in 0..10 {
        store.follow(Plan { seed, fail_before: 150, fail_after: 150, ..Plan::default() });
        home.write(at(seed % 8), &chunk(seed)).unwrap();
        home.flush().unwrap();
    }
    store.follow(Plan::default());
    assert!(home.lease().is_some());
    home.close().unwrap();
}

#[test]
fn whoever_was_taken_over_never_acknowledges_again() {
    let store = unruly();
    let old = make(&store, 64);
    old.write(0, &chunk(1)).unwrap();
    old.flush().unwrap();
    let number = old.submit(&[(at(1), &chunk(2))], &[]).unwrap();
    let next = Opening { purpose: "the next one".into(), ..opening() };
    let new = Home::open(&bucket(store.clone()), &next).unwrap();
    let fenced = |e: &BlockError| {
        let is_fenced = matches!(cause(e), HomeError::Fenced { .. });
        assert!(is_fenced && e.to_string().contains("the next one"), "{e}");
    };
    fenced(&old.settle(number).unwrap_err());
    fenced(&old.settle(number).unwrap_err());
    fenced(&old.submit(&[(at(2), &chunk(3))], &[]).unwrap_err());
    fenced(&old.write(at(2), &chunk(3)).unwrap_err());
    fenced(&old.discard(0, 4096).unwrap_err());
    fenced(&old.flush().unwrap_err());
    assert!(matches!(old.snapshot("late"), Err(HomeError::Fenced { .. })));
    assert!(matches!(old.close(), Err(HomeError::Fenced { .. })));
    assert_eq!((read_chunk(&new, 0), read_chunk(&new, 1)), (chunk(1), vec![0; CHUNK]));
    new.write(at(1), &chunk(4)).unwrap();
    new.close().unwrap();
    drop(old);
    let home = open(&store);
    assert_eq!((read_chunk(&home, 1), read_chunk(&home, 2)), (chunk(4), vec![0; CHUNK]));
}

#[test]
fn whoever_is_idle_learns_it_when_the_lease_is_renewed() {
    let store = unruly();
    let brief = Opening { lease: Duration::from_millis(60), ..opening() };
    let old = Home::make(&bucket(store.clone()), making(64), &brief).unwrap();
    let _new = open(&store);
    // Nothing is written: it is the lease that tells.
    while old.flush().is_ok() {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(matches!(cause(&old.flush().unwrap_err()), HomeError::Fenced { .. }));
}

/// How long two writers race.
#[derive(Clone, Copy)]
struct Race {
    /// How often each takes the volume, at least.
    rounds: u64,
    /// How many batches it then writes.
    batches: u64,
}

/// Two writers take the volume from each other. Each batch has two blocks of its own, beside those of others in larger
/// chunks, so that all that was acknowledged must be there in the end, and a batch in it whole or not at all.
fn race(store: &Unruly, size: u64, how: Race, seed: u64) {
    race_in(&|| bucket(store.clone()), size, how, seed);
}

/// The same in a bucket that each opening reaches anew.
fn race_in(reach: &(dyn Fn() -> Bucket + Sync), size: u64, how: Race, seed: u64) {
    let Race { rounds, batches } = how;
    const PAIRS: u64 = 1 << 20;
    let home = Home::make(&reach(), making_of(size, 2 * PAIRS), &opening()).unwrap();
    home.close().unwrap();
    let (next, opened) = (AtomicU64::new(0), AtomicU64::new(0));
    let (acknowledged, fenced) = (Mutex::new(vec![]), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for racer in 0..2 {
            let (next, opened, acknowledged, fenced) = (&next, &opened, &acknowledged, &fenced);
            scope.spawn(move || {
                let mut random = Random(seed * 2 + racer);
                for round in 0..4 * rounds {
                    // On a busy machine they meet less often.
                    if round >= rounds && fenced.load(SeqCst) >= rounds / 20 {
                        break;
                    }
                    // Two who open at once may fence each other before either is done.
                    let home = match Home::open(&reach(), &opening()) {
                        Ok(home) => home,
                        Err(HomeError::Fenced { .. }) => continue,
                        Err(e) => panic!("{e}"),
                    };
                    opened.fetch_max(home.epoch(), SeqCst);
                    let mut is_lost = false;
                    for _ in 0..random.below(batches) {
                        let is_old = opened.load(SeqCst) > home.epoch();
                        let pair = next.fetch_add(1, SeqCst);
                        let bytes = chunk(pair);
                        let writes = [(at(pair), &bytes[..]), (at(PAIRS + pair), &bytes[..])];
                        let settled = home.submit(&writes, &[]).and_then(|number| home.settle(number));
                        match settled {
                            Ok(()) => {
                                assert!(!is_lost, "acknowledged after a refusal");
                                assert!(!is_old, "acknowledged although a newer writer was open before");
                                acknowledged.lock().push(pair);
                            }
                            Err(e) => {
                                assert!(matches!(cause(&e), HomeError::Fenced { .. }), "{e}");
                                is_lost = true;
                            }
                        }
                    }
                    fenced.fetch_add(is_lost.into(), SeqCst);
                }
            });
        }
    });
    let home = Home::open(&reach(), &opening()).unwrap();
    let acknowledged = acknowledged.into_inner();
    for pair in 0..next.load(SeqCst) {
        let (one, two) = (read_chunk(&home, pair), read_chunk(&home, PAIRS + pair));
        assert!(one == two, "half of batch {pair}");
        assert!(one == chunk(pair) || one == [0; CHUNK], "batch {pair}");
        assert!(one == chunk(pair) || !acknowledged.contains(&pair), "batch {pair} was acknowledged and is lost");
    }
    // The race was one.
    assert!(
        acknowledged.len() as u64 >= rounds / 4 && fenced.load(SeqCst) >= rounds / 20,
        "{} {fenced:?}",
        acknowledged.len()
    );
}

#[test]
fn two_writers_race_in_memory() {
    race(&unruly(), 4 << 10, Race { rounds: 150, batches: 6 }, 1);
    race(&unruly(), 16 << 10, Race { rounds: 50, batches: 6 }, 4);
    race(&unruly(), 64 << 10, Race { rounds: 50, batches: 6 }, 5);
}

#[test]
fn two_writers_race_in_a_directory() {
    race(&directory(&tempfile::tempdir().unwrap()), 4 << 10, Race { rounds: 60, batches: 6 }, 2);
}

#[test]
fn two_writers_race_over_a_store_that_delays_and_reorders() {
    for (size, rounds) in [(4 << 10, 100), (64 << 10, 40)] {
        let store = unruly();
        store.follow(Plan { seed: 3, turns: 40, held: 200, latency: Duration::from_millis(1), ..Plan::default() });
        race(&store, size, Race { rounds, batches: 40 }, 3);
    }
}

#[test]
#[ignore = "needs a bucket, which `cargo xtask s3` has"]
fn two_writers_race_in_a_real_bucket() {
    let target = std::env::var("ONDOL_TEST_BUCKET").expect("ONDOL_TEST_BUCKET names a bucket and a prefix") + "/race";
    let reach = || Place::parse(&target).expect("a place").and_then(|place| place.bucket(true)).unwrap();
    // Openings take long there: so that they meet whoever writes, more is written.
    race_in(&reach, 4 << 10, Race { rounds: 120, batches: 40 }, 4);
}
