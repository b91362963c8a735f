//! Logs whose bytes are not those that were written, and media that fail.

use super::*;
use ondol_object_home::LoggedBatch;
use proptest::prelude::*;
use std::sync::OnceLock;

/// A store without the batches that its log has, the log, and its UUID.
fn left() -> &'static (Objects, Vec<u8>, [u8; 16]) {
    static LEFT: OnceLock<(Objects, Vec<u8>, [u8; 16])> = OnceLock::new();
    LEFT.get_or_init(|| {
        let store = unruly();
        let tape = Tape::new(1 << 20);
        let home = make_with(&store, 64, &with(&tape, NEVER));
        (0..6).for_each(|n| _ = commit(&home, n, n + 1));
        (objects_of(&store), tape.bytes(), home.log().unwrap())
    })
}

fn batches(bytes: &[u8]) -> Result<Vec<LoggedBatch>, HomeError> {
    let medium: Arc<dyn LogMedium> = Tape::of(bytes.to_vec(), 4096, None);
    let mut shown = vec![];
    LogContents::dump(&medium, |batch| {
        shown.push(batch);
        Ok(())
    })?;
    Ok(shown)
}

/// Where the records are, and how far from each other: a chunk that does not compress and what is said of it.
const RECORDS: usize = 8192;
const RECORD: usize = 8192;

#[test]
fn a_broken_record_that_was_acknowledged_is_damage_and_not_the_end() {
    let (objects, log, uuid) = left();
    let mut broken = log.clone();
    // The third record. Those behind it say that it was durable.
    broken[RECORDS + 2 * RECORD + 100] ^= 1;
    let e = open_with(&store_of(objects), broken.clone()).unwrap_err();
    assert!(matches!(e, HomeError::LogDamaged { .. }) && e.to_string().contains("was durable"), "{e}");
    assert!(contents(broken.clone()).lost.is_some());
    // Given up, it is as far as it is whole.
    let opening = Opening { give_up: vec![*uuid], ..with(&Tape::of(broken, 4096, None), NEVER) };
    let home = Home::open(&bucket(store_of(objects)), &opening).unwrap();
    let there: Vec<bool> = (0..6).map(|n| read_chunk(&home, n) == chunk(n + 1)).collect();
    assert_eq!(there, [true, true, false, false, false, false]);
}

#[test]
fn one_broken_copy_of_the_header_is_no_harm_and_two_are_damage() {
    let (objects, log, _) = left();
    for copy in 0..2 {
        let mut broken = log.clone();
        broken[copy * 4096 + 50] ^= 1;
        let home = open_with(&store_of(objects), broken).unwrap();
        assert!((0..6).all(|n| read_chunk(&home, n) == chunk(n + 1)), "copy {copy}");
    }
    let mut broken = log.clone();
    broken[50] ^= 1;
    broken[4096 + 50] ^= 1;
    let e = open_with(&store_of(objects), broken).unwrap_err();
    assert!(matches!(e, HomeError::LogDamaged { .. }), "{e}");
    // Shorter than the ring that it describes.
    let e = open_with(&store_of(objects), log[..32768].to_vec()).unwrap_err();
    assert!(matches!(e, HomeError::LogDamaged { .. }) && e.to_string().contains("ring"), "{e}");
}

#[test]
fn a_medium_that_fails_ends_a_writer_for_good() {
    let store = unruly();
    let tape = Tape::new(1 << 20);
    let home = make_with(&store, 64, &with(&tape, NEVER));
    commit(&home, 0, 1);
    tape.fails.store(true, SeqCst);
    let number = home.submit(&[(at(1), &chunk(2))], &[]).unwrap();
    let is_log = |e| matches!(cause(&e), HomeError::Log { .. });
    assert!(is_log(home.settle(number).unwrap_err()));
    tape.fails.store(false, SeqCst);
    // Nobody knows what became of what was written before.
    assert!(is_log(home.settle(number).unwrap_err()) && is_log(home.flush().unwrap_err()));
    assert!(is_log(home.submit(&[(at(2), &chunk(3))], &[]).unwrap_err()));
    drop(home);
    assert_eq!(read_chunk(&open_with(&store, tape.bytes()).unwrap(), 0), chunk(1));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn whatever_is_written_over_a_log_what_is_read_of_it_was_in_it(
        holes in proptest::collection::vec((0usize..72 << 10, proptest::collection::vec(any::<u8>(), 1..600)), 0..4),
        copies in proptest::collection::vec((0usize..18, 0usize..18), 0..3),
    ) {
        let (_, log, _) = left();
        let mut bytes = log.clone();
        for (at, junk) in holes {
            let len = junk.len().min(bytes.len() - at);
            bytes[at..at + len].copy_from_slice(&junk[..len]);
        }
        for (from, to) in copies {
            bytes.copy_within(from * 4096..(from + 1) * 4096, to * 4096);
        }
        let all = batches(log).unwrap();
        if let Ok(found) = batches(&bytes) {
            prop_assert!(found.len() <= all.len() && all[..found.len()] == found[..]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn whatever_is_written_over_a_log_an_opening_ends_in_a_prefix_or_a_refusal(
        at in 0usize..56 << 10, junk in proptest::collection::vec(any::<u8>(), 1..5000),
    ) {
        let (objects, log, _) = left();
        let mut bytes = log.clone();
        bytes[at..at + junk.len()].copy_from_slice(&junk);
        match open_with(&store_of(objects), bytes) {
            Ok(home) => {
                let there: Vec<bool> = (0..6).map(|n| read_chunk(&home, n) == chunk(n + 1)).collect();
                prop_assert!(there.is_sorted_by(|a, b| a >= b), "{there:?}");
                // What was lost is what was written over, up to the end: nobody knows that it was finished.
                for lost in (0..6).filter(|n| !there[*n]) {
                    let record = RECORDS + lost * RECORD;
                    prop_assert!(at < record + RECORD && at + junk.len() > record, "{there:?} {at} {}", junk.len());
                }
            }
            Err(HomeError::LogDamaged { .. } | HomeError::LogMissing { .. }) => {}
            Err(e) => prop_assert!(false, "{e}"),
        }
    }
}
