//! Rules that are broken on purpose: each is found, and nothing where nothing is planted. Others are found by the crash
//! laboratory.

use super::bypass::{Between, holds, submit};
use super::crash::objects;
use super::local::{NEVER, Tape, commit, make_with, open_with, with, without};
use super::*;
use ondol_faults::Defect;
use ondol_object_home::Border;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// What was looked at is as it should be, in this order: without the defect, with it.
fn found(defect: Defect, is_right: impl Fn() -> bool) -> [bool; 2] {
    let without = is_right();
    let _planted = ondol_faults::set(Some(defect)).unwrap();
    [without, is_right()]
}

const FOUND: [bool; 2] = [true, false];

#[test]
fn a_writer_that_was_taken_over_and_acknowledges_what_the_store_refused_is_found() {
    let is_right = || {
        let store = unruly();
        let old = make(&store, 64);
        let number = old.submit(&[(at(1), &chunk(2))], &[]).unwrap();
        let new = open(&store);
        old.settle(number).is_err() || read_chunk(&new, 1) == chunk(2)
    };
    assert_eq!(found(Defect::HomeUnfenced, is_right), FOUND);
}

#[test]
fn a_writer_that_was_taken_over_and_acknowledges_what_its_log_has_is_found() {
    let is_right = || {
        let store = unruly();
        let old = make_with(&store, 64, &with(&Tape::new(1 << 20), NEVER));
        let number = commit(&old, 1, 2);
        let new = Home::open(&bucket(store.clone()), &without(old.log().unwrap())).unwrap();
        // It learns of it.
        assert!(old.ship().is_err());
        old.settle(number).is_err() || read_chunk(&new, 1) == chunk(2)
    };
    assert_eq!(found(Defect::RedoUnfenced, is_right), FOUND);
}

/// A volume whose writer is gone, with a batch in its log that is not in the bucket.
fn left() -> (Unruly, Vec<u8>, [u8; 16]) {
    let (store, tape) = (unruly(), Tape::new(1 << 20));
    let home = make_with(&store, 64, &with(&tape, NEVER));
    for n in 0..6 {
        commit(&home, n, n + 1);
    }
    let log = home.log().unwrap();
    (store, tape.bytes(), log)
}

#[test]
fn a_log_that_is_used_after_the_bucket_went_another_way_is_found() {
    let is_right = || {
        let (store, log, uuid) = left();
        let home = Home::open(&bucket(store.clone()), &without(uuid)).unwrap();
        let number = home.submit(&[(at(5), &chunk(50))], &[]).unwrap();
        home.settle(number).unwrap();
        home.close().unwrap();
        drop(home);
        match open_with(&store, log) {
            Ok(home) => read_chunk(&home, 5) == chunk(50),
            Err(e) => matches!(e, HomeError::LogOld { .. }),
        }
    };
    assert_eq!(found(Defect::RedoOtherHistory, is_right), FOUND);
}

#[test]
fn a_log_that_is_used_for_another_volume_is_found() {
    let is_right = || {
        let (_, log, _) = left();
        let other = unruly();
        make(&other, 64).close().unwrap();
        match open_with(&other, log) {
            Ok(home) => (0..6).all(|n| read_chunk(&home, n) == [0; CHUNK]),
            Err(e) => matches!(e, HomeError::LogForeign { .. }),
        }
    };
    assert_eq!(found(Defect::RedoForeign, is_right), FOUND);
}

#[test]
fn an_object_of_the_log_behind_what_has_bypassed_it_is_found() {
    let is_right = || {
        let memory = Arc::new(InMemory::new());
        let store = Unruly::new(memory.clone());
        let is_held = Arc::new(AtomicBool::new(false));
        let between = Between { inner: Some(store.clone()), is_held: is_held.clone(), ..Between::default() };
        let short = Opening { object: 128 << 10, ..opening() };
        let home = Home::make(&bucket(between), making(4096), &short).unwrap();
        let made = memory.fork();
        store.record();
        let until = |puts| {
            while log_puts(&store).len() < puts {
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        // The large batch bypasses the log, then the small one comes there, and then the large one to the bucket.
        is_held.store(true, SeqCst);
        submit(&home, 0, 64, 1);
        until(1);
        let number = submit(&home, 100, 1, 500);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                until(2);
                is_held.store(false, SeqCst);
            });
            home.settle(number).unwrap();
        });
        let (events, border) = (store.events(), Border::new(1).unwrap());
        (0..=events.len()).all(|cut| {
            let after = Unruly::new(border.wait(objects(made.fork(), events.clone(), cut, false)));
            let home = Home::open(&bucket(after), &short).unwrap();
            !holds(&home, 100, 1, 500) || holds(&home, 0, 64, 1)
        })
    };
    assert_eq!(found(Defect::HomeGap, is_right), FOUND);
}
