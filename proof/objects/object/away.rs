//! A store that is away for a while, or for too long.

use super::*;
use ondol_stores::unruly::Plan;

const AWAY: Plan = Plan {
    seed: 0,
    latency: Duration::ZERO,
    turns: 0,
    held: 0,
    fail_before: 1000,
    fail_after: 0,
    creates: ondol_stores::unruly::Conditions::Kept,
    updates: ondol_stores::unruly::Conditions::Kept,
    dropped: 0,
    stale: 0,
    undeleted: 0,
    unlisted: 0,
    behind: 0,
};

#[test]
fn a_store_that_comes_back_has_everything() {
    let store = unruly();
    let home = make(&store, 64);
    store.follow(AWAY);
    let asked = store.counts().puts;
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let number = home.submit(&[(at(1), &chunk(1))], &[]).unwrap();
            home.settle(number)
        });
        while store.counts().puts < asked + 3 {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(!waiting.is_finished());
        // What waits can be read.
        assert_eq!(read_chunk(&home, 1), chunk(1));
        store.follow(Plan::default());
        waiting.join().unwrap().unwrap();
    });
    drop(home);
    assert_eq!(read_chunk(&open(&store), 1), chunk(1));
}

#[test]
fn a_store_that_is_away_too_long_ends_a_writer_for_good() {
    let store = unruly();
    let hasty = Opening { timeout: Some(Duration::from_secs(3)), ..opening() };
    make(&store, 64).close().unwrap();
    let home = Home::open(&bucket(store.clone()), &opening()).unwrap();
    home.write(0, &chunk(1)).unwrap();
    home.flush().unwrap();
    home.close().unwrap();
    let home = loop {
        // On a busy machine an opening may take as long, too.
        match Home::open(&bucket(store.clone()), &hasty) {
            Ok(home) => break home,
            Err(HomeError::Away { .. }) => {}
            Err(e) => panic!("{e}"),
        }
    };
    store.follow(AWAY);
    let number = home.submit(&[(at(1), &chunk(2))], &[]).unwrap();
    let away = |e| matches!(cause(&e), HomeError::Away { seconds: 3, .. });
    assert!(away(home.settle(number).unwrap_err()));
    store.follow(Plan::default());
    // It is back, and might even have the batch: nobody was told so, and nobody will be.
    assert!(away(home.settle(number).unwrap_err()));
    assert!(away(home.submit(&[(at(2), &chunk(3))], &[]).unwrap_err()));
    assert!(away(home.flush().unwrap_err()));
    drop(home);
    let home = open(&store);
    assert_eq!(read_chunk(&home, 0), chunk(1));
    let later = read_chunk(&home, 1);
    assert!(later == chunk(2) || later == [0; CHUNK]);
    store.follow(AWAY);
    assert!(matches!(
        Home::open(&bucket(store.clone()), &hasty),
        Err(HomeError::Away { .. } | HomeError::Store { .. })
    ));
}

#[test]
fn what_waits_while_a_store_is_away_is_bounded() {
    let store = unruly();
    let narrow = Opening { timeout: Some(Duration::from_secs(15)), object: 256 << 10, ..opening() };
    make(&store, 16384).close().unwrap();
    let home = Home::open(&bucket(store.clone()), &narrow).unwrap();
    store.follow(AWAY);
    // Four objects of 256 KiB may wait. Chunks that compress to half.
    let mut taken = 0;
    let e = loop {
        match home.submit(&[(at(taken), &chunk(taken))], &[]) {
            Ok(_) => taken += 1,
            Err(e) => break e,
        }
        assert!(taken < 2000);
    };
    assert!(matches!(cause(&e), HomeError::Away { .. }), "{e}");
    assert!(taken > 50, "{taken}");
}
