//! What callers are promised, counted where it is a count.

use ondol_env::sync::Arc;
use ondol_faults::Defect;
use ondol_medium::{AreaKind, Nvm, Pool, PoolSpec};
use ondol_nvm_log::{Contents, Log, LogError, OnDamage, Options};
use ondol_testkit::nvm_log::rig::{LINES, contents, env, pool, record, start};

#[test]
fn what_is_committed_is_found_and_what_is_not_is_gone() {
    let pool = pool(LINES);
    let log = start(&pool, 0);
    let append = |bytes: &[u8]| log.promise(bytes.len() as u64).unwrap().claim(bytes.len() as u64).complete(bytes);
    let first = append(b"one").unwrap();
    let second = append(&[7; 200]).unwrap();
    log.commit(second).unwrap();
    append(b"not committed").unwrap();
    assert!(first < second && log.durable() > second);
    drop(log);
    let found = contents(&pool);
    assert_eq!(found.commits().len(), 1);
    let commit = &found.commits()[0];
    assert_eq!(
        (commit.number, commit.records.as_slice(), commit.time),
        (1, &[first, second][..], 1_700_000_000_000_000_005)
    );
    let mut bytes = b"before".to_vec();
    let (one, two) = (found.read(first, &mut bytes).unwrap(), found.read(second, &mut bytes).unwrap());
    assert!(bytes[..6] == *b"before" && bytes[one] == *b"one" && bytes[two] == [7; 200]);
    let inspected = Contents::inspect(&pool, OnDamage::Refuse).unwrap().unwrap();
    assert_eq!(inspected.commits(), found.commits());
    // Started again it is empty, and numbers go on.
    let log = Log::start(found, env(), &Options::default()).unwrap();
    assert!(contents(&pool).commits().is_empty() && log.first_batch().is_none());
    let third = log.promise(5).unwrap().claim(5).complete(b"three").unwrap();
    assert!(third > second + LINES, "positions never come again");
    log.commit_all().unwrap();
    assert_eq!(log.first_batch().map(|batch| (batch.number, batch.records)), Some((2, vec![third])));
}

#[test]
fn a_record_costs_a_fence_a_commit_another_and_nothing_new_none() {
    let pool = pool(1024);
    let log = start(&pool, 0);
    let counts = || {
        let stats = pool.nvm().stats();
        (stats.fences, stats.lines)
    };
    let since = |before: (u64, u64)| (counts().0 - before.0, counts().1 - before.1);
    let before = counts();
    let position = log.promise(150).unwrap().claim(150).complete(&[1; 150]).unwrap();
    assert_eq!(since(before), (1, 3), "166 bytes are three lines");
    let before = counts();
    log.commit(position).unwrap();
    assert_eq!(since(before), (1, 1));
    let before = counts();
    log.commit(position).unwrap();
    log.commit_all().unwrap();
    assert_eq!(since(before), (0, 0));
    let before = counts();
    let batch = log.first_batch().unwrap();
    log.release(&[batch]).unwrap();
    assert_eq!(since(before), (2, 2), "both copies of the tail");
    // Whole lines of large records go past the caches.
    let before = counts();
    log.promise(1000).unwrap().claim(1000).complete(&[1; 1000]).unwrap();
    assert_eq!(since(before), (1, 2));
}

#[test]
fn a_full_log_says_so_and_release_makes_room() {
    let pool = pool(LINES);
    let log = start(&pool, 0);
    let mut appended = 0;
    // Many laps.
    for _ in 0..500 {
        let promise = loop {
            match log.promise(100) {
                Ok(promise) => break promise,
                Err(LogError::Full { capacity, .. }) => {
                    assert_eq!(capacity, LINES);
                    log.commit_all().unwrap();
                    let first = log.first_batch().expect("something is committed");
                    let batches: Vec<_> = std::iter::successors(Some(first), |batch| log.batch_after(batch)).collect();
                    log.release(&batches).unwrap();
                }
                Err(e) => panic!("{e}"),
            }
        };
        promise.claim(100).complete(&record((1, appended), 100)).unwrap();
        appended += 1;
        if appended % 5 == 0 {
            log.commit_all().unwrap();
        }
    }
    let stats = log.stats();
    assert!(stats.lines > 10 * LINES && stats.used <= LINES && stats.capacity == LINES, "{stats:?}");
    let most = log.most();
    match log.promise(most + 1) {
        Err(LogError::TooLarge { bytes, most: limit, .. }) => assert_eq!((bytes, limit), (most + 1, most)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn room_is_given_back() {
    let pool = pool(LINES);
    let log = start(&pool, 0);
    drop(log.promise(300).unwrap());
    assert_eq!(log.stats().used, 0);
    let slot = log.promise(300).unwrap().claim(10);
    assert_eq!(slot.room(), 48, "one line");
    match slot.complete(&[1; 49]) {
        Err(LogError::TooLarge { bytes: 49, most: 48, .. }) => {}
        other => panic!("{other:?}"),
    }
    // What was claimed and not used is a record of zeros; it has a commit's line with it.
    assert_eq!(log.stats().used, 2);
    log.commit_all().unwrap();
    let batch = log.first_batch().unwrap();
    let mut read = Vec::new();
    let contents = log.read(batch.records[0], &mut read).unwrap();
    assert!(read[contents].iter().all(|byte| *byte == 0));
    log.release(std::slice::from_ref(&batch)).unwrap();
    assert_eq!(log.stats().used, 0);
    match log.release(&[batch]) {
        Err(LogError::OutOfTurn { .. }) => {}
        other => panic!("{other:?}"),
    }
}

/// Somebody has claimed lines and does not come on: others commit, and it is appended again behind them.
#[test]
fn who_does_not_come_on_is_voided_and_appends_again() {
    let pool = pool(LINES);
    let log = start(&pool, 5);
    let slow = log.promise(40).unwrap().claim(40);
    let other = log.promise(5).unwrap().claim(5).complete(b"other").unwrap();
    log.commit(other).unwrap();
    assert_eq!(log.stats().voided, 1);
    let position = slow.complete(b"slow").unwrap();
    assert!(position > other && log.durable() <= position);
    log.commit(position).unwrap();
    drop(log);
    let found = contents(&pool);
    let records: Vec<Vec<u64>> = found.commits().iter().map(|commit| commit.records.clone()).collect();
    assert_eq!(records, [vec![other], vec![position]]);
}

/// Somebody was voided, and writes its record long after others could have used its lines. How many of the newest
/// records of the others are not there any more then.
fn overwritten_by_the_slow() -> usize {
    let pool = pool(LINES);
    let log = start(&pool, 5);
    let slow = log.promise(100).unwrap().claim(100);
    let mut appended = Vec::new();
    for n in 0..25 {
        let Ok(promise) = log.promise(100) else { break };
        let position = promise.claim(100).complete(&record((1, n), 100)).unwrap();
        log.commit(position).unwrap();
        appended.push(position);
        // The newest stay.
        let batches: Vec<_> = std::iter::successors(log.first_batch(), |batch| log.batch_after(batch)).collect();
        log.release(&batches[..batches.len().saturating_sub(15)]).unwrap();
    }
    slow.complete(&[7; 100]).unwrap();
    appended.iter().rev().take(15).filter(|at| log.read(**at, &mut Vec::new()).is_err()).count()
}

#[test]
fn lines_are_not_used_again_while_somebody_may_write_there() {
    assert_eq!(overwritten_by_the_slow(), 0);
    let _planted = ondol_faults::set(Some(Defect::LogUnawaitedVoid)).unwrap();
    assert!(overwritten_by_the_slow() > 0);
}

#[test]
fn a_pool_that_fits_no_log_is_refused_by_name() {
    let open = |areas: Vec<(AreaKind, u64)>| {
        let nvm = Nvm::volatile(1 << 20).unwrap();
        let pool = Pool::create(nvm, &PoolSpec { areas, ..PoolSpec::default() }).unwrap();
        Contents::open(&pool, &*env(), OnDamage::Refuse).unwrap_err()
    };
    assert!(matches!(open(vec![]), LogError::NoArea { .. }));
    let small = open(vec![(AreaKind::JOURNAL_LOG, 8192)]);
    assert!(matches!(small, LogError::Small { lines: 0, .. }), "{small}");
    let pool = pool(LINES);
    assert!(Contents::inspect(&pool, OnDamage::Refuse).unwrap().is_none());
}

/// Real threads: everything that was appended is there, each in its order.
#[test]
fn many_threads_append_and_commit() {
    const EACH: u32 = 2000;
    let pool = pool(1 << 12);
    let log = Arc::new(Log::start(contents(&pool), env(), &Options::default()).unwrap());
    let taken = Arc::new(ondol_env::sync::Mutex::new(Vec::new()));
    let home = |log: &Log, taken: &ondol_env::sync::Mutex<Vec<_>>| {
        // One at a time takes batches home.
        let mut taken = taken.lock();
        if let Some(batch) = log.first_batch() {
            taken.extend(batch.records.iter().map(|at| {
                let mut bytes = Vec::new();
                let contents = log.read(*at, &mut bytes).unwrap();
                ondol_testkit::nvm_log::rig::read(&bytes[contents]).unwrap().unwrap()
            }));
            log.release(&[batch]).unwrap();
        }
    };
    let threads: Vec<_> = (0..4u8)
        .map(|who| {
            let (log, taken) = (log.clone(), taken.clone());
            ondol_env::sync::thread::spawn(move || {
                for n in 0..EACH {
                    let bytes = record((who, n), 20 + (n as usize * 31) % 300);
                    let promise = loop {
                        match log.promise(bytes.len() as u64) {
                            Ok(promise) => break promise,
                            Err(_) => {
                                log.commit_all().unwrap();
                                home(&log, &taken);
                            }
                        }
                    };
                    let position = promise.claim(bytes.len() as u64).complete(&bytes).unwrap();
                    if n % 3 == 0 {
                        log.commit(position).unwrap();
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    log.commit_all().unwrap();
    while log.first_batch().is_some() {
        home(&log, &taken);
    }
    let taken = taken.lock();
    for who in 0..4 {
        let of: Vec<u32> = taken.iter().filter(|id| id.0 == who).map(|id| id.1).collect();
        assert!(of.iter().copied().eq(0..EACH), "all of {who} in their order");
    }
    assert_eq!(log.stats().used, 0);
}
