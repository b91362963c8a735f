//! Others take a volume with a local log.

use super::*;

#[test]
fn who_cannot_go_on_without_a_log_harms_nobody() {
    let store = unruly();
    let tape = Tape::new(1 << 20);
    let home = make_with(&store, 64, &with(&tape, Duration::ZERO));
    commit(&home, 0, 1);
    let e = Home::open(&bucket(store.clone()), &opening()).unwrap_err();
    assert!(matches!(e, HomeError::LogMissing { .. }), "{e}");
    // The writer was not fenced.
    commit(&home, 1, 2);
    home.close().unwrap();
    assert_eq!(read_chunk(&open(&store), 1), chunk(2));
}

/// Waits until the old writer knows, and looks that it acknowledges nothing from then on.
fn await_end(old: &Home) -> u64 {
    let mut acknowledged = 0;
    let e = loop {
        match old.submit(&[(at(10), &chunk(acknowledged))], &[]).and_then(|batch| old.settle(batch)) {
            Ok(()) => acknowledged += 1,
            Err(e) => break e,
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(matches!(cause(&e), HomeError::Fenced { .. }), "{e}");
    for _ in 0..3 {
        assert!(old.submit(&[(at(11), &chunk(0))], &[]).is_err() && old.flush().is_err() && old.settle(1).is_err());
    }
    acknowledged
}

#[test]
fn whoever_was_taken_over_ends_with_what_it_ships_next_and_its_log_goes_another_way() {
    let store = unruly();
    let tape = Tape::new(4 << 20);
    let old = make_with(&store, 64, &with(&tape, Duration::ZERO));
    commit(&old, 0, 1);
    await_shipped(&old);
    let new = Home::open(&bucket(store.clone()), &without(old.log().unwrap())).unwrap();
    let lost = await_end(&old);
    drop(old);
    assert!(read_chunk(&new, 0) == chunk(1) && read_chunk(&new, 10) == [0; CHUNK]);
    new.close().unwrap();
    // What it acknowledged before it knew is in its log, and is refused.
    match open_with(&store, tape.bytes()) {
        Err(HomeError::LogOld { batches, .. }) => assert!(batches >= lost, "{batches} of {lost}"),
        other => assert!(lost == 0 && other.is_ok(), "{lost}: {other:?}"),
    }
}

#[test]
fn whoever_was_taken_over_and_ships_nothing_learns_it_by_the_lease() {
    let store = unruly();
    let tape = Tape::new(4 << 20);
    let brief = Opening { lease: Duration::from_millis(60), ..with(&tape, NEVER) };
    let old = make_with(&store, 64, &brief);
    let _new = Home::open(&bucket(store.clone()), &without(old.log().unwrap())).unwrap();
    await_end(&old);
}
