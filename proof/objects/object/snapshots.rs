//! Snapshots, and reading beside a writer.

use super::*;
use ondol_block::BlockError;
use ondol_object_home::{Snapshot, What};

fn view(store: &Unruly, what: What) -> Home {
    Home::view(&bucket(store.clone()), &what, &opening()).unwrap()
}

fn names(store: &Unruly) -> Vec<String> {
    Snapshot::list(&bucket(store.clone()), None).unwrap().into_iter().map(|snapshot| snapshot.name).collect()
}

#[test]
fn a_snapshot_stays_as_it_was_while_the_writer_goes_on() {
    let store = unruly();
    let home = make(&store, 2000);
    (0..1500).for_each(|n| home.write(at(n), &chunk(n)).unwrap());
    // Neither flushed nor submitted: a snapshot has all that was written before.
    home.snapshot("monday").unwrap();
    (0..1500).for_each(|n| home.write(at(n), &chunk(n + 5000)).unwrap());
    let number = home.submit(&[(at(1999), &chunk(1))], &[(0, at(10))]).unwrap();
    home.settle(number).unwrap();
    home.snapshot("tuesday").unwrap();
    home.discard(0, at(2000)).unwrap();
    home.flush().unwrap();
    let monday = view(&store, What::Snapshot("monday".into()));
    let tuesday = view(&store, What::Snapshot("tuesday".into()));
    assert!((0..1500).all(|n| read_chunk(&monday, n) == chunk(n)));
    assert_eq!(read_chunk(&monday, 1999), [0; CHUNK]);
    assert!((10..1500).all(|n| read_chunk(&tuesday, n) == chunk(n + 5000)));
    assert_eq!((read_chunk(&tuesday, 9), read_chunk(&tuesday, 1999)), (vec![0; CHUNK], chunk(1)));
    home.close().unwrap();
    drop(home);
    let home = open(&store);
    assert_eq!(read(&home, 0, 2000 * CHUNK), vec![0; 2000 * CHUNK]);
    assert!((0..1500).all(|n| read_chunk(&monday, n) == chunk(n)));
    home.close().unwrap();
}

#[test]
fn snapshots_are_listed_and_deleted_by_name_without_a_lease() {
    let store = unruly();
    let home = make(&store, 8);
    assert_eq!(names(&store), Vec::<String>::new());
    home.snapshot("one").unwrap();
    home.snapshot("two").unwrap();
    let mut found = names(&store);
    found.sort();
    assert_eq!(found, ["one", "two"]);
    assert!(matches!(home.snapshot("one"), Err(HomeError::SnapshotExists { .. })));
    for name in ["", "a b", "a/b", "a?b", "a\nb", &"x".repeat(256)] {
        assert!(matches!(home.snapshot(name), Err(HomeError::SnapshotName { .. })), "{name:?}");
    }
    let bucket = bucket(store.clone());
    Snapshot::delete(&bucket, "one", None).unwrap();
    assert!(matches!(Snapshot::delete(&bucket, "one", None), Err(HomeError::SnapshotMissing { .. })));
    assert_eq!(names(&store), ["two"]);
    let gone = Home::view(&bucket, &What::Snapshot("one".into()), &opening()).unwrap_err();
    assert!(matches!(gone, HomeError::SnapshotMissing { .. }), "{gone}");
    // The writer was not disturbed, and may use the name again.
    home.write(0, &chunk(1)).unwrap();
    home.snapshot("one").unwrap();
    assert_eq!(read_chunk(&view(&store, What::Snapshot("one".into())), 0), chunk(1));
    home.close().unwrap();
}

#[test]
fn nothing_is_listed_where_no_volume_is() {
    let bucket = bucket(unruly());
    assert!(matches!(Snapshot::list(&bucket, None), Err(HomeError::Missing { .. })));
    let gone = Home::view(&bucket, &What::Snapshot("one".into()), &opening()).unwrap_err();
    assert!(matches!(gone, HomeError::Missing { .. }), "{gone}");
}

#[test]
fn who_reads_writes_nothing_and_fences_nobody() {
    let store = unruly();
    let home = make(&store, 8);
    home.write(0, &chunk(1)).unwrap();
    home.flush().unwrap();
    home.snapshot("one").unwrap();
    // The same objects, so that the reader's requests are told from the writer's.
    let beside = Unruly::new(store.inner().clone());
    let newest = view(&beside, What::Newest);
    let one = view(&beside, What::Snapshot("one".into()));
    assert_eq!((read_chunk(&newest, 0), read_chunk(&one, 0)), (chunk(1), chunk(1)));
    assert!(newest.caps().read_only);
    assert!(matches!(newest.write(0, &[1]), Err(BlockError::ReadOnly { .. })));
    assert!(matches!(newest.discard(0, 4096), Err(BlockError::ReadOnly { .. })));
    assert!(matches!(one.submit(&[], &[]), Err(BlockError::ReadOnly { .. })));
    assert!(matches!(one.snapshot("two"), Err(HomeError::NotWriting { .. })));
    newest.flush().unwrap();
    newest.close().unwrap();
    let counts = beside.counts();
    assert!((counts.puts, counts.deletes) == (0, 0) && counts.gets > 0, "{counts:?}");
    home.write(at(1), &chunk(2)).unwrap();
    home.close().unwrap();
}

#[test]
fn a_volume_that_nobody_has_open_gets_a_snapshot_with_what_a_crash_has_left() {
    let store = unruly();
    let bucket = bucket(store.clone());
    assert!(matches!(Snapshot::make(&bucket, "one", &opening()), Err(HomeError::Missing { .. })));
    let home = make(&store, 8);
    home.write(0, &chunk(1)).unwrap();
    home.flush().unwrap();
    let polite = Opening { take_over: false, ..opening() };
    assert!(matches!(Snapshot::make(&bucket, "one", &polite), Err(HomeError::Held { .. })));
    assert!(matches!(Snapshot::make(&bucket, "a b", &opening()), Err(HomeError::SnapshotName { .. })));
    home.flush().unwrap();
    drop(home);
    Snapshot::make(&bucket, "one", &opening()).unwrap();
    assert!(matches!(Snapshot::make(&bucket, "one", &opening()), Err(HomeError::SnapshotExists { .. })));
    let home = open(&store);
    home.write(0, &chunk(2)).unwrap();
    home.close().unwrap();
    assert_eq!(read_chunk(&view(&store, What::Snapshot("one".into())), 0), chunk(1));
}
