//! Which stores are refused, and what is said of them.

use futures_util::TryStreamExt;
use ondol_object_home::object_store::ObjectStore;
use ondol_object_home::object_store::local::LocalFileSystem;
use ondol_object_home::object_store::memory::InMemory;
use ondol_object_home::object_store::path::Path;
use ondol_object_home::{Border, Depth, ProbeError, Probed, Refusal, probe};
use ondol_stores::unruly::{Conditions, Counts, Plan, Unruly};
use std::sync::Arc;

fn ask(store: Arc<dyn ObjectStore>, depth: Depth) -> Result<Probed, ProbeError> {
    let border = Border::new(2).unwrap();
    border.wait(async move { probe(store, "s3://bucket/volume", Path::from("volume/probe/1"), depth).await })
}

fn objects(store: Arc<dyn ObjectStore>) -> Vec<Path> {
    let listed = async move { store.list(None).map_ok(|meta| meta.location).try_collect().await };
    Border::new(1).unwrap().wait(listed).unwrap()
}

/// What is said of a store in memory that misbehaves so, and how many requests it took.
fn of(plan: Plan, depth: Depth) -> (Result<Probed, ProbeError>, Counts) {
    let store = Unruly::new(Arc::new(InMemory::new()));
    store.follow(plan);
    let said = ask(Arc::new(store.clone()), depth);
    (said, store.counts())
}

fn refused(plan: Plan, depth: Depth) -> Refusal {
    match of(plan, depth).0 {
        Err(ProbeError::Refused { name, why }) => {
            assert_eq!(name, "s3://bucket/volume");
            why
        }
        other => panic!("{plan:?}: {other:?}"),
    }
}

fn creates(creates: Conditions) -> Plan {
    Plan { creates, ..Plan::default() }
}

fn updates(updates: Conditions) -> Plan {
    Plan { updates, ..Plan::default() }
}

const DEPTHS: [Depth; 2] = [Depth::Short, Depth::Whole];

#[test]
fn a_store_that_keeps_its_conditions_passes_and_nothing_is_left_in_it() {
    for depth in DEPTHS {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        assert_eq!(ask(store.clone(), depth).unwrap(), Probed { updates: true });
        assert_eq!(objects(store), []);
    }
}

#[test]
fn a_directory_keeps_creates_and_has_no_updates() {
    for depth in DEPTHS {
        let dir = tempfile::tempdir().unwrap();
        let store: Arc<dyn ObjectStore> = Arc::new(LocalFileSystem::new_with_prefix(dir.path()).unwrap());
        assert_eq!(ask(store.clone(), depth).unwrap(), Probed { updates: false });
        assert_eq!(objects(store), []);
    }
}

#[test]
fn what_a_store_cannot_do_is_no_lie() {
    for depth in DEPTHS {
        assert_eq!(of(updates(Conditions::Missing), depth).0.unwrap(), Probed { updates: false });
    }
}

#[test]
fn a_store_that_ignores_conditions_is_refused() {
    for depth in DEPTHS {
        assert_eq!(refused(creates(Conditions::Ignored), depth), Refusal::CreateIgnored);
        assert_eq!(refused(creates(Conditions::Missing), depth), Refusal::CreateMissing);
        assert_eq!(refused(creates(Conditions::Feigned), depth), Refusal::CreateOverwrote);
        assert_eq!(refused(updates(Conditions::Ignored), depth), Refusal::UpdateIgnored);
        assert_eq!(refused(updates(Conditions::Feigned), depth), Refusal::UpdateOverwrote);
        assert_eq!(refused(updates(Conditions::Refused), depth), Refusal::UpdateRefused);
    }
}

#[test]
fn a_store_that_looks_first_and_puts_later_is_found_by_a_race() {
    for plan in [creates(Conditions::Racy), updates(Conditions::Racy)] {
        assert_eq!(of(plan, Depth::Short).0.unwrap(), Probed { updates: true });
    }
    let why = refused(creates(Conditions::Racy), Depth::Whole);
    assert!(matches!(why, Refusal::SeveralCreated(2..)), "{why:?}");
    let why = refused(updates(Conditions::Racy), Depth::Whole);
    assert!(matches!(why, Refusal::SeveralUpdated(2..)), "{why:?}");
}

#[test]
fn a_race_of_creates_must_have_a_winner_at_last_and_one_of_updates_need_not() {
    assert_eq!(refused(creates(Conditions::Contended), Depth::Whole), Refusal::NobodyCreated);
    assert_eq!(of(updates(Conditions::Contended), Depth::Whole).0.unwrap(), Probed { updates: true });
}

#[test]
fn lists_and_deletes_are_asked_about_too() {
    assert_eq!(refused(Plan { unlisted: 1000, ..Plan::default() }, Depth::Whole), Refusal::Unlisted);
    assert_eq!(refused(Plan { undeleted: 1000, ..Plan::default() }, Depth::Whole), Refusal::Undeleted);
}

#[test]
fn a_store_that_loses_what_it_acknowledges_is_refused() {
    for depth in DEPTHS {
        assert_eq!(refused(Plan { dropped: 1000, ..Plan::default() }, depth), Refusal::Lost);
        assert_eq!(refused(Plan { stale: 1000, ..Plan::default() }, depth), Refusal::Lost);
    }
}

#[test]
fn a_store_in_which_nothing_can_be_created_gives_no_answer() {
    let said = of(creates(Conditions::Refused), Depth::Short).0;
    assert!(matches!(said, Err(ProbeError::NoAnswer { .. })), "{said:?}");
}

#[test]
fn a_store_that_is_away_gives_no_answer() {
    for plan in [Plan { fail_before: 1000, ..Plan::default() }, Plan { fail_after: 1000, ..Plan::default() }] {
        let said = of(plan, Depth::Whole).0;
        let Err(e @ ProbeError::NoAnswer { .. }) = said else { panic!("{plan:?}: {said:?}") };
        assert!(e.to_string().starts_with("s3://bucket/volume does not answer what is asked"), "{e}");
    }
}

#[test]
fn a_store_that_is_late_and_answers_in_another_order_passes() {
    for seed in 0..20 {
        let plan = Plan { seed, turns: 30, held: 400, ..Plan::default() };
        assert_eq!(of(plan, Depth::Whole).0.unwrap(), Probed { updates: true });
    }
}

/// Requests that fail, or whose answers are lost, are no reason to refuse a store, nor to take one that lies.
#[test]
fn failures_are_told_from_lies() {
    let mut passed = 0;
    for seed in 0..40 {
        let failing = Plan { seed, turns: 5, fail_before: 4, fail_after: 4, ..Plan::default() };
        match of(failing, Depth::Whole).0 {
            Ok(probed) => {
                assert_eq!(probed, Probed { updates: true });
                passed += 1;
            }
            Err(ProbeError::NoAnswer { .. }) => {}
            Err(e) => panic!("seed {seed}: {e}"),
        }
        for lie in [Conditions::Ignored, Conditions::Feigned, Conditions::Racy] {
            for plan in [Plan { creates: lie, ..failing }, Plan { updates: lie, ..failing }] {
                let said = of(plan, Depth::Whole).0;
                assert!(said.is_err(), "seed {seed}: {plan:?}");
            }
        }
    }
    assert!(passed > 20, "{passed}");
}

/// What a mount asks each time.
#[test]
fn the_short_probe_takes_few_requests() {
    let (said, counts) = of(Plan::default(), Depth::Short);
    said.unwrap();
    assert_eq!((counts.puts, counts.gets, counts.lists, counts.deletes), (4, 4, 1, 1));
}

#[test]
fn a_refusal_says_which_store_does_what() {
    let e = of(creates(Conditions::Ignored), Depth::Short).0.unwrap_err();
    let text = "s3://bucket/volume ignores the condition \"create if absent\": no volume can be kept there safely";
    assert_eq!(e.to_string(), text);
}
