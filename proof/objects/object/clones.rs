//! Clones, and deleting volumes.

use super::*;
use ondol_object_home::object_store::ObjectStoreExt;
use ondol_object_home::{Border, Of, Snapshot, What};
use ondol_stores::unruly::Plan;
use slatedb::admin::{Admin, AdminBuilder};
use slatedb::compactor::{CompactionSpec, SourceId};
use slatedb::config::{GarbageCollectorDirectoryOptions, GarbageCollectorOptions, GarbageCollectorScheduleOptions};

const LARGE: u64 = 3000;

/// Places in one store, by their names.
fn places(store: &Unruly) -> impl Fn(&str) -> Bucket + use<> {
    let all = bucket(store.clone());
    move |name| all.beside(name, Path::from(format!("place/{name}")))
}

fn made(bucket: &Bucket, first: u64, chunks: u64) -> Home {
    let home = Home::make(bucket, making(LARGE), &opening()).unwrap();
    fill(&home, first, 0, chunks);
    home
}

/// Chunks that nobody else writes, from `start`.
fn fill(home: &Home, first: u64, start: u64, chunks: u64) {
    (0..chunks).for_each(|n| home.write(at(start + n), &chunk(first + n)).unwrap());
    home.flush().unwrap();
}

fn holds(home: &Home, first: u64, start: u64, chunks: u64) {
    for n in 0..chunks {
        assert!(read_chunk(home, start + n) == chunk(first + n), "chunk {}", start + n);
    }
}

fn opened(bucket: &Bucket) -> Home {
    Home::open(bucket, &opening()).unwrap()
}

fn cloned(from: &Bucket, to: &Bucket) {
    Home::clone_of(from, Of::Newest, to, &opening()).unwrap();
}

/// The names of all objects.
fn objects(store: &Unruly) -> Vec<String> {
    let inner = store.inner().clone();
    Border::new(1).unwrap().wait(async move {
        use futures_util::TryStreamExt;
        let all: Vec<_> = inner.list(None).try_collect().await.unwrap();
        all.into_iter().map(|meta| meta.location.to_string()).collect()
    })
}

fn admin(store: &Unruly, name: &str) -> Admin {
    AdminBuilder::new(format!("place/{name}/db"), store.inner().clone()).build()
}

/// Everything that is not needed goes, however young.
fn all_garbage() -> GarbageCollectorOptions {
    let now = Some(GarbageCollectorDirectoryOptions { min_age: Duration::ZERO, ..Default::default() });
    GarbageCollectorOptions {
        manifest_options: now,
        wal_options: now,
        wal_fence_options: None,
        compacted_options: now,
        compactions_options: now,
        detach_options: Some(GarbageCollectorScheduleOptions::default()),
        ..GarbageCollectorOptions::default()
    }
}

fn collect(store: &Unruly, name: &str) {
    let admin = admin(store, name);
    Border::new(1).unwrap().wait(async move { admin.run_gc_once(all_garbage()).await.unwrap() });
}

#[test]
fn a_clone_and_its_original_are_written_and_read_apart() {
    let store = unruly();
    let place = places(&store);
    let (one, two) = (place("one"), place("two"));
    let home = made(&one, 0, 1000);
    let uuid = home.uuid();
    home.close().unwrap();
    let bytes = store.counts().put_bytes;
    cloned(&one, &two);
    // Notes, manifests and the log of an opening, but no chunk.
    assert!(store.counts().put_bytes - bytes < 100_000, "{}", store.counts().put_bytes - bytes);
    // What is in no data object yet would be copied as a part of the log.
    assert_eq!(one.requests().copies, 0);
    let view = Home::view(&two, &What::Newest, &opening()).unwrap();
    assert_ne!(view.uuid(), uuid);
    let (first, second) = (opened(&one), opened(&two));
    assert_eq!((first.uuid(), second.uuid()), (uuid, view.uuid()));
    fill(&first, 10_000, 500, 1000);
    fill(&second, 20_000, 500, 1000);
    first.discard(0, at(100)).unwrap();
    first.close().unwrap();
    second.close().unwrap();
    let (first, second) = (opened(&one), opened(&two));
    assert_eq!((first.uuid(), second.uuid()), (uuid, view.uuid()));
    assert_eq!(read(&first, 0, 100 * CHUNK), vec![0; 100 * CHUNK]);
    holds(&first, 100, 100, 400);
    holds(&first, 10_000, 500, 1000);
    holds(&second, 0, 0, 500);
    holds(&second, 20_000, 500, 1000);
}

#[test]
fn a_clone_of_a_volume_that_was_not_closed_has_what_was_durable() {
    let store = unruly();
    let place = places(&store);
    let (one, two) = (place("one"), place("two"));
    drop(made(&one, 0, 100));
    cloned(&one, &two);
    let second = opened(&two);
    holds(&second, 0, 0, 100);
    assert_eq!(read_chunk(&second, 100), [0; CHUNK]);
}

#[test]
fn a_snapshot_is_cloned_while_the_writer_goes_on_and_a_writer_clones_itself() {
    let store = unruly();
    let place = places(&store);
    let (one, two, three) = (place("one"), place("two"), place("three"));
    let home = made(&one, 0, 100);
    home.snapshot("monday").unwrap();
    fill(&home, 10_000, 0, 100);
    Home::clone_of(&one, Of::Snapshot("monday"), &two, &opening()).unwrap();
    // Not flushed: it is part of the clone all the same.
    home.write(at(100), &chunk(5)).unwrap();
    home.clone_to(&three).unwrap();
    fill(&home, 20_000, 0, 100);
    // The snapshot may go: the clone has its own hold on what it needs.
    Snapshot::delete(&one, "monday", None).unwrap();
    collect(&store, "one");
    let (second, third) = (opened(&two), opened(&three));
    holds(&second, 0, 0, 100);
    assert_eq!(read_chunk(&second, 100), [0; CHUNK]);
    holds(&third, 10_000, 0, 100);
    assert_eq!(read_chunk(&third, 100), chunk(5));
    // A snapshot of a clone stays as it was, too.
    second.snapshot("here").unwrap();
    fill(&second, 30_000, 0, 100);
    let view = Home::view(&two, &What::Snapshot("here".into()), &opening()).unwrap();
    holds(&view, 0, 0, 100);
    holds(&second, 30_000, 0, 100);
    home.close().unwrap();
    holds(&opened(&one), 20_000, 0, 100);
}

#[test]
fn an_original_is_not_deleted_while_clones_of_any_degree_need_it() {
    let store = unruly();
    let place = places(&store);
    let (one, two, three) = (place("one"), place("two"), place("three"));
    made(&one, 0, 200).close().unwrap();
    cloned(&one, &two);
    let home = opened(&two);
    fill(&home, 10_000, 200, 200);
    home.close().unwrap();
    cloned(&two, &three);
    let needed = |bucket: &Bucket| match Home::delete(bucket, &opening()) {
        Err(HomeError::Needed { mut clones, .. }) => {
            clones.sort();
            clones
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(needed(&one), ["three", "two"]);
    assert_eq!(needed(&two), ["three"]);
    let mut clones = Home::clones(&one, None).unwrap();
    clones.sort();
    assert_eq!(clones, ["three", "two"]);
    // Whoever was refused has changed nothing.
    let first = opened(&one);
    holds(&first, 0, 0, 200);
    first.close().unwrap();
    let third = opened(&three);
    holds(&third, 0, 0, 200);
    holds(&third, 10_000, 200, 200);
    // Nobody loses a volume that is written to, whoever takes over otherwise.
    assert!(matches!(Home::delete(&three, &opening()), Err(HomeError::Held { .. })));
    third.close().unwrap();
    Home::delete(&three, &opening()).unwrap();
    assert!(!objects(&store).iter().any(|name| name.starts_with("place/three")));
    Home::delete(&two, &opening()).unwrap();
    assert_eq!(Home::clones(&one, None).unwrap(), Vec::<String>::new());
    Home::delete(&one, &opening()).unwrap();
    assert_eq!(objects(&store), Vec::<String>::new());
    assert!(matches!(Home::delete(&one, &opening()), Err(HomeError::Missing { .. })));
}

/// Has what a clone reads of its original written anew, by whoever writes to the clone.
fn rewrite(store: &Unruly, name: &str) {
    let db = admin(store, name);
    Border::new(2).unwrap().wait(async move {
        let manifest = db.read_manifest(None).await.unwrap().unwrap();
        let tables = manifest.l0().iter().map(|view| SourceId::SstView(view.id));
        let runs = manifest.compacted().iter().map(|run| SourceId::SortedRun(run.id));
        let into = manifest.compacted().iter().map(|run| run.id).min().unwrap_or(0);
        db.submit_compaction(CompactionSpec::new(tables.chain(runs).collect(), into)).await.unwrap();
    });
}

#[test]
fn an_original_can_be_deleted_when_its_clone_has_let_go_of_it() {
    let store = unruly();
    let place = places(&store);
    let (one, two) = (place("one"), place("two"));
    made(&one, 0, 500).close().unwrap();
    cloned(&one, &two);
    let home = opened(&two);
    fill(&home, 10_000, 0, 200);
    rewrite(&store, "two");
    while names_others(&store, "two") {
        std::thread::sleep(Duration::from_millis(100));
    }
    // A compaction keeps what it has read for 15 minutes, for those who are reading it.
    assert!(matches!(Home::delete(&one, &opening()), Err(HomeError::Needed { .. })));
    let db = admin(&store, "two");
    Border::new(1).unwrap().wait(async move {
        for checkpoint in db.list_checkpoints(None).await.unwrap() {
            assert!(checkpoint.expire_time.is_some());
            db.delete_checkpoint(checkpoint.id).await.unwrap();
        }
    });
    Home::delete(&one, &opening()).unwrap();
    assert!(!objects(&store).iter().any(|name| name.starts_with("place/one")));
    home.close().unwrap();
    let home = opened(&two);
    holds(&home, 10_000, 0, 200);
    holds(&home, 200, 200, 300);
    home.close().unwrap();
    Home::delete(&two, &opening()).unwrap();
    assert_eq!(objects(&store), Vec::<String>::new());
}

/// Whether a clone names objects of others.
fn names_others(store: &Unruly, name: &str) -> bool {
    let db = admin(store, name);
    Border::new(1).unwrap().wait(async move {
        let manifest = db.read_manifest(None).await.unwrap().unwrap();
        manifest.external_dbs().iter().any(|db| !db.sst_ids.is_empty())
    })
}

#[test]
fn garbage_of_two_writers_never_holds_what_the_other_needs() {
    let store = unruly();
    let place = places(&store);
    let (one, two, three) = (place("one"), place("two"), place("three"));
    let home = made(&one, 0, 1000);
    home.snapshot("base").unwrap();
    home.close().unwrap();
    cloned(&one, &two);
    let (first, second) = (opened(&one), opened(&two));
    let names = ["one", "two", "three"];
    for round in 0..12u64 {
        let (mine, theirs) = (100_000 * (round + 1), 100_000 * (round + 1) + 50_000);
        fill(&first, mine, 100, 800);
        fill(&second, theirs, 100, 800);
        if round == 4 {
            second.clone_to(&three).unwrap();
        }
        first.snapshot(&format!("round{round}")).unwrap();
        second.snapshot(&format!("round{round}")).unwrap();
        if round > 1 {
            Snapshot::delete(&one, &format!("round{}", round - 1), None).unwrap();
            Snapshot::delete(&two, &format!("round{}", round - 2), None).unwrap();
        }
        let there = if round < 4 { 2 } else { 3 };
        names[..there].iter().for_each(|name| collect(&store, name));
        // Without what is in memory.
        for (bucket, base) in [(&one, mine), (&two, theirs)] {
            let view = Home::view(bucket, &What::Snapshot(format!("round{round}")), &opening()).unwrap();
            holds(&view, 0, 0, 100);
            holds(&view, base, 100, 800);
            holds(&view, 900, 900, 100);
        }
        let base = Home::view(&one, &What::Snapshot("base".into()), &opening()).unwrap();
        holds(&base, 0, 0, 1000);
    }
    let third = opened(&three);
    holds(&third, 550_000, 100, 800);
    holds(&third, 0, 0, 100);
    third.close().unwrap();
    first.close().unwrap();
    second.close().unwrap();
}

#[test]
fn what_is_in_the_way_of_a_clone_is_said() {
    let store = unruly();
    let place = places(&store);
    let (one, two) = (place("one"), place("two"));
    let made_of = |of| Home::clone_of(&one, of, &two, &opening());
    assert!(matches!(made_of(Of::Newest), Err(HomeError::Missing { .. })));
    assert!(matches!(made_of(Of::Snapshot("x")), Err(HomeError::Missing { .. })));
    let home = made(&one, 0, 10);
    assert!(matches!(made_of(Of::Snapshot("x")), Err(HomeError::SnapshotMissing { .. })));
    let polite = Opening { take_over: false, ..opening() };
    let held = Home::clone_of(&one, Of::Newest, &two, &polite);
    assert!(matches!(held, Err(HomeError::Held { .. })), "{held:?}");
    // Nothing is left of what was refused.
    assert!(!objects(&store).iter().any(|name| name.starts_with("place/two") || name.contains("clones")));
    home.close().unwrap();
    made_of(Of::Newest).unwrap();
    assert!(matches!(made_of(Of::Newest), Err(HomeError::Exists { .. })));
    assert!(matches!(Home::make(&two, making(8), &opening()), Err(HomeError::Exists { .. })));
}

#[test]
fn what_was_interrupted_is_said_and_can_be_deleted() {
    let store = unruly();
    let place = places(&store);
    let (one, two) = (place("one"), place("two"));
    made(&one, 0, 10).close().unwrap();
    let (mut left, mut refused) = (0, 0);
    for seed in 0..24 {
        // The machine that makes the clone is gone after some requests.
        let home = opened(&one);
        home.snapshot("base").unwrap();
        home.close().unwrap();
        let dying = Unruly::new(store.inner().clone());
        let beside = places(&dying)("one");
        let hasty = Opening { timeout: Some(Duration::from_millis(300)), ..opening() };
        dying.follow(Plan { seed, fail_before: 100, ..Plan::default() });
        let made =
            Home::clone_of(&beside, Of::Snapshot("base"), &beside.beside("two", Path::from("place/two")), &hasty);
        Snapshot::delete(&one, "base", None).unwrap();
        match Home::open(&two, &opening()) {
            Ok(home) => {
                holds(&home, 0, 0, 10);
                home.close().unwrap();
            }
            Err(HomeError::Missing { .. }) => assert!(made.is_err()),
            Err(HomeError::HalfMade { .. }) => {
                refused += 1;
                let view = Home::view(&two, &What::Newest, &opening());
                assert!(matches!(view, Err(HomeError::HalfMade { .. })), "{view:?}");
                assert!(made.is_err());
            }
            Err(e) => panic!("{e}"),
        }
        left += u64::from(objects(&store).iter().any(|name| name.starts_with("place/two")));
        match Home::delete(&two, &opening()) {
            Ok(()) | Err(HomeError::Missing { .. }) => {}
            Err(e) => panic!("{e}"),
        }
        assert!(!objects(&store).iter().any(|name| name.starts_with("place/two")), "{:?}", objects(&store));
    }
    assert!(left > 0, "{left} {refused}");
}

#[test]
fn a_volume_whose_deletion_was_interrupted_is_not_opened_and_can_be_deleted() {
    let store = unruly();
    let place = places(&store);
    let one = place("one");
    let mut marked = 0;
    for seed in 0..12 {
        made(&one, 0, 10).close().unwrap();
        let dying = Unruly::new(store.inner().clone());
        let hasty =
            Opening { timeout: Some(Duration::from_millis(400)), lease: Duration::from_millis(400), ..opening() };
        dying.follow(Plan { seed, fail_before: 150, ..Plan::default() });
        let deleted = Home::delete(&places(&dying)("one"), &hasty);
        match Home::open(&one, &opening()) {
            Ok(home) => {
                assert!(deleted.is_err());
                holds(&home, 0, 0, 10);
                home.close().unwrap();
                Home::delete(&one, &opening()).unwrap();
            }
            Err(HomeError::BeingDeleted { .. }) => {
                marked += 1;
                let view = Home::view(&one, &What::Newest, &opening());
                assert!(matches!(view, Err(HomeError::BeingDeleted { .. })), "{view:?}");
                let cloned = Home::clone_of(&one, Of::Newest, &place("two"), &opening());
                assert!(matches!(cloned, Err(HomeError::BeingDeleted { .. })), "{cloned:?}");
                delete_patiently(&one);
            }
            Err(HomeError::Held { .. }) => delete_patiently(&one),
            Err(HomeError::Missing { .. }) => {}
            Err(e) => panic!("{e}"),
        }
        assert_eq!(objects(&store), Vec::<String>::new());
    }
    assert!(marked > 0);
}

#[test]
fn a_volume_that_was_to_be_deleted_and_is_needed_is_opened_again() {
    let store = unruly();
    let one = places(&store)("one");
    let home = made(&one, 0, 10);
    home.snapshot("base").unwrap();
    home.close().unwrap();
    let mark = |text: &'static str| {
        let inner = store.inner().clone();
        Border::new(1).unwrap().wait(async move {
            inner.put(&Path::from("place/one/lease/deleting"), text.into()).await.unwrap();
        });
    };
    // Whoever wanted to delete it is gone, before anything was done.
    mark("");
    holds(&Home::view(&one, &What::Newest, &opening()).unwrap(), 0, 0, 10);
    let two = one.beside("two", Path::from("place/two"));
    let cloned = Home::clone_of(&one, Of::Snapshot("base"), &two, &opening());
    assert!(matches!(cloned, Err(HomeError::BeingDeleted { .. })), "{cloned:?}");
    opened(&one).close().unwrap();
    assert!(!objects(&store).iter().any(|name| name.ends_with("deleting")));
    Home::clone_of(&one, Of::Snapshot("base"), &two, &opening()).unwrap();
    assert!(matches!(Home::delete(&one, &opening()), Err(HomeError::Needed { .. })));
    opened(&one).close().unwrap();
    mark("begun");
    assert!(matches!(Home::open(&one, &opening()), Err(HomeError::BeingDeleted { .. })));
    // There is no way back, but clones are in the way all the same.
    assert!(matches!(Home::delete(&one, &opening()), Err(HomeError::Needed { .. })));
    assert!(matches!(Home::open(&one, &opening()), Err(HomeError::BeingDeleted { .. })));
    Home::delete(&two, &opening()).unwrap();
    Home::delete(&one, &opening()).unwrap();
    assert_eq!(objects(&store), Vec::<String>::new());
}

/// The lease of whoever was interrupted is this process's own, and has to run out.
fn delete_patiently(bucket: &Bucket) {
    while let Err(e) = Home::delete(bucket, &opening()) {
        assert!(matches!(e, HomeError::Held { .. }), "{e}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn directories_beside_each_other_share_objects() {
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| {
        let name = format!("file://{}/{name}", dir.path().display());
        ondol_object_home::Place::parse(&name).unwrap().unwrap()
    };
    // A volume that is moved is the same.
    made(&place("before").bucket(true).unwrap(), 0, 100).close().unwrap();
    std::fs::rename(dir.path().join("before"), dir.path().join("a volume")).unwrap();
    let one = place("a volume").bucket(false).unwrap();
    let two = place("two%20ü").bucket(true).unwrap();
    cloned(&one, &two);
    assert!(matches!(Home::delete(&one, &opening()), Err(HomeError::Needed { .. })));
    let elsewhere = place("other/three").bucket(true).unwrap();
    let e = Home::clone_of(&one, Of::Newest, &elsewhere, &opening()).unwrap_err();
    assert!(matches!(e, HomeError::OtherStore { .. }), "{e}");
    let home = Home::open(&place("two%20ü").bucket(false).unwrap(), &opening()).unwrap();
    holds(&home, 0, 0, 100);
    home.close().unwrap();
    Home::delete(&two, &opening()).unwrap();
    Home::delete(&one, &opening()).unwrap();
    // Nothing is left, not even a directory.
    assert!(!dir.path().join("a volume").exists() && !dir.path().join("two%20ü").exists());
}
