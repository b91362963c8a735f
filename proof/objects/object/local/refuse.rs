//! Logs that are not there, belong to others, or to another history.

use super::*;

/// A volume whose last writer has left three batches in its log: the store, the log, its UUID.
fn left() -> (Unruly, Vec<u8>, [u8; 16]) {
    let store = unruly();
    let tape = Tape::new(1 << 20);
    let home = make_with(&store, 64, &with(&tape, NEVER));
    (0..3).for_each(|n| _ = commit(&home, n, n + 1));
    let log = home.log().unwrap();
    (store, tape.bytes(), log)
}

#[test]
fn a_log_that_is_missing_is_asked_for_and_given_up_by_name_alone() {
    let (store, log, uuid) = left();
    let e = Home::open(&bucket(store.clone()), &opening()).unwrap_err();
    assert!(matches!(e, HomeError::LogMissing { .. }) && e.to_string().contains(&contents(log.clone()).name()), "{e}");
    assert!(matches!(Home::open(&bucket(store.clone()), &without([9; 16])), Err(HomeError::LogMissing { .. })));
    // Another log is no help.
    let empty = vec![0; 1 << 20];
    assert!(matches!(open_with(&store, empty.clone()), Err(HomeError::LogMissing { .. })));
    let objects = objects_of(&store);
    // Nothing was done to it: with its log, all is there.
    let home = open_with(&store, log).unwrap();
    assert!((0..3).all(|n| read_chunk(&home, n) == chunk(n + 1)));
    for opening in [without(uuid), Opening { give_up: vec![uuid], ..with(&Tape::of(empty, 4096, None), NEVER) }] {
        let home = Home::open(&bucket(store_of(&objects)), &opening).unwrap();
        assert!((0..3).all(|n| read_chunk(&home, n) == [0; CHUNK]));
    }
}

#[test]
fn a_log_of_another_volume_is_refused_even_if_it_is_empty() {
    let (_, log, uuid) = left();
    let other = unruly();
    make(&other, 64).close().unwrap();
    let e = open_with(&other, log.clone()).unwrap_err();
    assert!(matches!(e, HomeError::LogForeign { .. }), "{e}");
    let tape = Tape::of(log, 4096, None);
    let home = Home::open(&bucket(other.clone()), &Opening { give_up: vec![uuid], ..with(&tape, NEVER) }).unwrap();
    commit(&home, 0, 7);
    drop(home);
    assert_eq!(read_chunk(&open_with(&other, tape.bytes()).unwrap(), 0), chunk(7));
    let e = Home::make(&bucket(unruly()), making(8), &with(&tape, NEVER)).unwrap_err();
    assert!(matches!(e, HomeError::LogForeign { .. }), "{e}");
    // A disk, say.
    let e = open_with(&other, vec![7; 1 << 20]).unwrap_err();
    assert!(matches!(e, HomeError::LogMissing { .. } | HomeError::LogDamaged { .. }), "{e}");
}

#[test]
fn a_log_whose_volume_went_another_way_is_kept_shown_and_given_up_by_name() {
    let (store, log, uuid) = left();
    // Elsewhere, without the log.
    let home = Home::open(&bucket(store.clone()), &without(uuid)).unwrap();
    home.write(0, &chunk(50)).unwrap();
    home.close().unwrap();
    let e = open_with(&store, log.clone()).unwrap_err();
    assert!(matches!(e, HomeError::LogOld { batches: 3, .. }), "{e}");
    let medium: Arc<dyn LogMedium> = Tape::of(log.clone(), 4096, None);
    let mut shown = vec![];
    LogContents::dump(&medium, |batch| {
        shown.push(batch);
        Ok(())
    })
    .unwrap();
    let writes: Vec<_> = shown.iter().map(|batch| batch.writes.clone()).collect();
    assert_eq!(writes, [vec![(0, chunk(1))], vec![(at(1), chunk(2))], vec![(at(2), chunk(3))]]);
    let tape = Tape::of(log, 4096, None);
    let home = Home::open(&bucket(store.clone()), &Opening { give_up: vec![uuid], ..with(&tape, NEVER) }).unwrap();
    assert!(read_chunk(&home, 0) == chunk(50) && read_chunk(&home, 1) == [0; CHUNK]);
    // It is a new log, in which nothing of the old one counts.
    assert!(home.log().unwrap() != uuid && contents(tape.bytes()).batches == 0);
}

#[test]
fn a_log_that_was_emptied_is_used_again_whoever_wrote_meanwhile() {
    let store = unruly();
    let tape = Tape::new(1 << 20);
    let home = make_with(&store, 64, &with(&tape, NEVER));
    commit(&home, 0, 1);
    home.close().unwrap();
    drop(home);
    let home = open(&store);
    home.write(at(1), &chunk(2)).unwrap();
    home.close().unwrap();
    let home = open_with(&store, tape.bytes()).unwrap();
    assert!(read_chunk(&home, 0) == chunk(1) && read_chunk(&home, 1) == chunk(2) && home.epoch() == 3);
}

#[test]
fn a_bucket_that_has_forgotten_is_told_from_the_log() {
    let store = unruly();
    let tape = Tape::new(256 << 10);
    let home = make_with(&store, 512, &with(&tape, NEVER));
    commit(&home, 0, 1);
    let old = objects_of(&store);
    // The ring goes round, and what it had first is shipped and written over.
    (0..200).for_each(|n| _ = commit(&home, n, n));
    drop(home);
    let e = open_with(&store_of(&old), tape.bytes()).unwrap_err();
    assert!(matches!(e, HomeError::BucketOld { .. }), "{e}");
    // It has forgotten an opening, too.
    let tape = Tape::of(tape.bytes(), 4096, None);
    for n in 0..2 {
        let home = Home::open(&bucket(store.clone()), &with(&tape, NEVER)).unwrap();
        commit(&home, 300 + n, n);
    }
    let e = open_with(&store_of(&old), tape.bytes()).unwrap_err();
    assert!(matches!(e, HomeError::BucketOld { .. }) && e.to_string().contains("epoch"), "{e}");
}
