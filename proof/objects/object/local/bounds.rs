//! How far the bucket may be behind, and what happens when the store is away.

use super::*;
use ondol_object_home::RedoFile;

#[test]
fn what_is_not_shipped_is_acknowledged_read_and_counted() {
    let store = unruly();
    let tape = Tape::new(1 << 20);
    let home = make_with(&store, 64, &with(&tape, NEVER));
    let shipped = home.newest().unwrap();
    store.follow(away());
    (0..6).for_each(|n| _ = commit(&home, n, n));
    home.write(at(6), &chunk(6)).unwrap();
    home.flush().unwrap();
    let lag = home.lag().unwrap();
    assert!(lag.batches == 7 && lag.bytes > 7 * 4096 && lag.bytes < 7 * 4200, "{lag:?}");
    assert!((0..7).all(|n| read_chunk(&home, n) == chunk(n)));
    assert!(home.warning().unwrap().contains("36000 seconds"));
    let found = contents(tape.bytes());
    assert_eq!((found.uuid, found.home, found.epoch), (home.log().unwrap(), home.uuid(), 1));
    assert_eq!((found.first, found.batches, found.shipped, found.lost), (shipped + 1, 7, shipped, None));
    store.follow(Plan::default());
    home.close().unwrap();
    // Whoever has closed needs no log.
    assert_eq!(contents(tape.bytes()).batches, 0);
    let home = open(&store);
    assert!((0..7).all(|n| read_chunk(&home, n) == chunk(n)) && home.lag().is_none() && home.log().is_none());
}

#[test]
fn a_store_that_is_away_too_long_loses_nothing_that_was_acknowledged() {
    let store = unruly();
    let tape = Tape::new(1 << 20);
    make(&store, 64).close().unwrap();
    let hasty = Opening { timeout: Some(Duration::from_secs(20)), ..with(&tape, Duration::ZERO) };
    let home = Home::open(&bucket(store.clone()), &hasty).unwrap();
    store.follow(away());
    let mut acknowledged = 0;
    let e = loop {
        let done = home.submit(&[(at(acknowledged), &chunk(acknowledged))], &[]).and_then(|batch| home.settle(batch));
        match done {
            Ok(()) if acknowledged < 40 => acknowledged += 1,
            Ok(()) => std::thread::sleep(Duration::from_millis(50)),
            Err(e) => break e,
        }
    };
    assert!(acknowledged == 40 && matches!(cause(&e), HomeError::Away { seconds: 20, .. }), "{acknowledged}: {e}");
    // It is back; nothing is acknowledged any more all the same.
    store.follow(Plan::default());
    assert!(home.flush().is_err());
    drop(home);
    let home = open_with(&store, tape.bytes()).unwrap();
    assert!((0..40).all(|n| read_chunk(&home, n) == chunk(n)));
}

#[test]
fn who_writes_waits_when_the_log_is_full_and_goes_on_when_it_is_shipped() {
    let store = unruly();
    let tape = Tape::new(64 << 10);
    let home = make_with(&store, 256, &with(&tape, NEVER));
    store.follow(away());
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| (0..100).for_each(|n| _ = commit(&home, n, n)));
        // Two pages for each of them.
        while home.lag().unwrap().batches < 8 {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(!writer.is_finished());
        let (bytes, _) = home.lag_bounds().unwrap();
        let lag = home.lag().unwrap();
        assert!(bytes == (72 << 10) / 4 * 3 && lag.bytes <= bytes && lag.batches == 8, "{lag:?}");
        store.follow(Plan::default());
        writer.join().unwrap();
    });
    drop(home);
    let home = open_with(&store, tape.bytes()).unwrap();
    assert!((0..100).all(|n| read_chunk(&home, n) == chunk(n)));
}

#[test]
fn who_writes_waits_when_something_has_waited_too_long() {
    let store = unruly();
    let tape = Tape::new(1 << 20);
    let brief = Local { lag_time: Duration::from_millis(20), ..local(&tape, NEVER) };
    let home = make_with(&store, 64, &Opening { local: Some(brief), ..opening() });
    store.follow(away());
    commit(&home, 0, 0);
    std::thread::scope(|scope| {
        while home.lag().unwrap().oldest < Duration::from_millis(20) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let asked = store.counts().puts;
        let writer = scope.spawn(|| commit(&home, 1, 1));
        // It asks for shipping, and waits for it.
        while store.counts().puts < asked + 3 {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(!writer.is_finished());
        store.follow(Plan::default());
        writer.join().unwrap();
    });
    assert_eq!(home.lag().unwrap().batches, 1);
}

#[test]
fn a_batch_that_is_too_large_for_the_log_goes_to_the_bucket() {
    let store = unruly();
    let tape = Tape::new(64 << 10);
    let home = make_with(&store, 256, &with(&tape, NEVER));
    commit(&home, 0, 0);
    let large: Vec<u8> = (100..130).flat_map(chunk).collect();
    let number = home.submit(&[(at(100), &large)], &[]).unwrap();
    // It is in the bucket, and so is all before it; the log begins behind it.
    assert_eq!((home.lag().unwrap().batches, contents(tape.bytes()).first), (0, number + 1));
    home.settle(number).unwrap();
    commit(&home, 1, 1);
    home.lengthen(at(300)).unwrap();
    assert_eq!(contents(tape.bytes()).batches, 0);
    commit(&home, 299, 2);
    let log = home.log().unwrap();
    drop(home);
    let objects = objects_of(&store);
    let home = open_with(&store_of(&objects), tape.bytes()).unwrap();
    assert!(read_chunk(&home, 0) == chunk(0) && read(&home, at(100), large.len()) == large);
    assert!(read_chunk(&home, 1) == chunk(1) && read_chunk(&home, 299) == chunk(2));
    let home = Home::open(&bucket(store_of(&objects)), &without(log)).unwrap();
    assert!(read_chunk(&home, 1) == chunk(1) && read_chunk(&home, 299) == [0; CHUNK]);
}

#[test]
fn a_large_discard_is_a_short_record() {
    let store = unruly();
    let tape = Tape::new(1 << 20);
    let home = make_with(&store, 1 << 20, &with(&tape, NEVER));
    for n in [5, 2000, 500_000] {
        commit(&home, n, n);
    }
    let number = home.submit(&[(at(7), &chunk(7))], &[(at(5), at(1)), (at(8), at(400_000)), (at(600_000), at(10))]);
    home.settle(number.unwrap()).unwrap();
    assert_eq!(home.lag().unwrap().batches, 4);
    drop(home);
    let home = open_with(&store, tape.bytes()).unwrap();
    assert!(read_chunk(&home, 5) == [0; CHUNK] && read_chunk(&home, 2000) == [0; CHUNK]);
    assert!(read_chunk(&home, 7) == chunk(7) && read_chunk(&home, 500_000) == chunk(500_000));
}

#[test]
fn one_persist_serves_all_who_wait_and_the_shipper_gathers() {
    let store = unruly();
    let noted = Noted::new(&store);
    let tape = Tape::of(vec![0; 1 << 20], 4096, Some(noted.clone()));
    let home = make_with(&store, 1024, &with(&tape, NEVER));
    store.record();
    let batches: Vec<u64> = (0..20).map(|n| home.submit(&[(at(n), &chunk(n))], &[]).unwrap()).collect();
    noted.domain.take();
    for batch in batches.into_iter().rev() {
        home.settle(batch).unwrap();
    }
    let flushes = noted.domain.take().iter().filter(|event| matches!(event, PowerEvent::Flush { .. })).count();
    assert_eq!((flushes, log_puts(&store).len()), (1, 0));
    home.ship().unwrap();
    assert_eq!((log_puts(&store).len(), home.lag().unwrap().batches), (1, 0));
    let log = home.log().unwrap();
    drop(home);
    let home = Home::open(&bucket(store), &without(log)).unwrap();
    assert!((0..20).all(|n| read_chunk(&home, n) == chunk(n)));
}

#[test]
fn a_log_in_a_file_is_kept_for_one_process_and_found_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("redo");
    let store = unruly();
    let file = Arc::new(RedoFile::create(&path, 1 << 20).unwrap());
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 1 << 20);
    assert!(RedoFile::create(&path, 1 << 20).is_err());
    // Others can neither read what is not in the bucket yet, nor lock it.
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&path).unwrap()) & 0o777, 0o600);
    let home = make_with(&store, 64, &with(&file, NEVER));
    drop(file);
    (0..10).for_each(|n| _ = commit(&home, n, n));
    assert_eq!(RedoFile::open(&path).unwrap_err().kind(), std::io::ErrorKind::ResourceBusy);
    drop(home);
    let home =
        Home::open(&bucket(store.clone()), &with(&Arc::new(RedoFile::open(&path).unwrap()), Duration::ZERO)).unwrap();
    assert!((0..10).all(|n| read_chunk(&home, n) == chunk(n)));
    commit(&home, 20, 20);
    await_shipped(&home);
    home.close().unwrap();
    drop(home);
    assert!(RedoFile::open(dir.path()).is_err());
    let small = RedoFile::create(&dir.path().join("small"), 16 << 10).unwrap();
    let e = Home::open(&bucket(store), &with(&Arc::new(small), NEVER)).unwrap_err();
    assert!(matches!(e, HomeError::LogSmall { least: 24576, .. }), "{e}");
}
