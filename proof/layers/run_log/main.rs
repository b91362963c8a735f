//! Programs that write and sync, with power cut after every event: recovery finds everything that was acknowledged.
//!
//! The kernel is a model: a page cache, and what the disk holds of it. The log is the real one, on recorded NVM.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test")]

use ondol_env::sync::Mutex;
use ondol_faults::Defect;
use ondol_medium::{Nvm, Pool, PoolSpec};
use ondol_power::PowerDomain;
use ondol_run_log::{Call, Client, Log, LogOptions, Place, WriteCall, Written, found};
use ondol_testkit::run_log::kernel::{Kernel, OneCall, recovered};
use ondol_testkit::run_log::threads::Interleaved;
use ondol_testkit::run_log::{Shown, names, program};

/// The pool: room for a few records.
const POOL: u64 = 2 << 20;

/// A log in such a pool.
fn log() -> Log {
    let spec = PoolSpec { uuid: [9; 16], ..PoolSpec::default() };
    let mut pool = Pool::create(Nvm::volatile(POOL).unwrap(), &spec).unwrap();
    Log::prepare(&mut pool, &LogOptions::here()).unwrap().log
}

/// How many are tried: ten times as many in a hunt.
fn many(usual: u64) -> u64 {
    if std::env::var_os("ONDOL_HUNT").is_some() { 10 * usual } else { usual }
}

/// Each finds nothing wrong, and so many syncs that ended in the log are among them all.
fn all_are_right(shown: impl Iterator<Item = Shown>, fast: usize) {
    let (mut states, mut found) = (0, 0);
    for shown in shown {
        assert_eq!(shown.wrong, None);
        (states, found) = (states + shown.states, found + shown.fast);
    }
    println!("{states} states, {found} fast syncs");
    assert!(found > fast, "only {found} syncs ended in the log");
}

#[test]
fn what_was_acknowledged_is_found_after_any_cut() {
    all_are_right((0..many(12)).map(program::small_writes), 60);
}

#[test]
fn full_lanes_are_found_after_any_cut() {
    all_are_right((0..many(1)).map(program::full_lanes), 20);
}

#[test]
fn what_is_synced_past_the_pool_is_found_after_any_cut() {
    all_are_right((0..many(8)).map(program::synced_past_the_pool), 40);
}

#[test]
fn what_was_acknowledged_is_found_after_a_cut_of_any_interleaving() {
    let programs = Interleaved::new();
    all_are_right((0..many(300)).map(|number| programs.explore(number, 300)), 1800);
}

#[test]
fn what_is_killed_anywhere_takes_nothing_with_it() {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    let programs = Interleaved::alone();
    let kills: Vec<Shown> = (0..many(120)).filter_map(|number| programs.kill(child.id(), number)).collect();
    assert!(kills.len() > 60, "only {} kills", kills.len());
    all_are_right(kills.into_iter(), 0);
}

#[test]
fn faults_of_the_log_are_found() {
    if !ondol_faults::AVAILABLE {
        return;
    }
    for defect in [Defect::RunEarlyRoom, Defect::RunEarlyRetired, Defect::RunRetiresNewest] {
        let _planted = ondol_faults::set(Some(defect)).unwrap();
        let programs = Interleaved::new();
        assert!((0..1200).any(|number| programs.explore(number, 2000).wrong.is_some()), "{defect}");
    }
    // One in a hundred programs with files that cannot be found shows the last.
    for (defect, from) in [(Defect::RunForgetsRefusal, 0), (Defect::RunUncut, 0), (Defect::RunAskedAgain, 960)] {
        let _planted = ondol_faults::set(Some(defect)).unwrap();
        assert!((from..from + 300).any(|seed| program::small_writes(seed).wrong.is_some()), "{defect}");
    }
    // One in some 300 programs of names gives a slot to another file in time.
    let _planted = ondol_faults::set(Some(Defect::NameOneFence)).unwrap();
    assert!((280..300).any(|seed| names(seed, 300).wrong.is_some()), "{}", Defect::NameOneFence);
}

/// Lanes that are too small for what is written between syncs.
#[test]
fn a_full_lane_is_synced_for_real() {
    let log = log();
    let kernel = Mutex::new(Kernel::new(PowerDomain::new(), 1));
    let client = Client::new(log).unwrap();
    let bytes = vec![3; 20_000];
    let call = OneCall { kernel: &kernel, file: 0, place: Place::Append, bytes: &bytes, durable: false, away: None };
    let slot = client.slot(&call.look().unwrap()).unwrap().unwrap();
    assert_eq!(client.sync(slot, &call), Ok(false));
    let mut logged = 0;
    while kernel.lock().syncs < 2 {
        assert_eq!(client.write(slot, &call), Ok(Written::Done(bytes.len())));
        logged += 1;
    }
    // All lanes but what is left to others; and nothing is logged from then on.
    let (lane, room) = (256 << 10, client.log().room());
    assert!((room / 2..room - lane).contains(&(logged * 20_000)), "{logged} of {room}");
    for _ in 0..40 {
        assert_eq!(client.write(slot, &call), Ok(Written::Done(bytes.len())));
    }
    assert_eq!(kernel.lock().syncs, 2);
    assert_eq!(client.sync(slot, &call), Ok(false));
    assert!(found(client.log()).unwrap().files.is_empty());
    assert_eq!(client.sync(slot, &call), Ok(true));
}

/// Nothing that the program's library does not see is acknowledged from the log.
#[test]
fn unseen_changes_make_syncs_real() {
    let log = log();
    let kernel = Mutex::new(Kernel::new(PowerDomain::new(), 1));
    let client = Client::new(log).unwrap();
    let call = OneCall { kernel: &kernel, file: 0, place: Place::At(0), bytes: b"abc", durable: false, away: None };
    let slot = client.slot(&call.look().unwrap()).unwrap().unwrap();
    let sync = || client.sync(slot, &call).unwrap();
    assert!(!sync() && sync());
    client.write(slot, &call).unwrap();
    assert!(sync());
    kernel.lock().write(0, 0, b"xyz");
    assert!(!sync() && sync());
    client.write(slot, &call).unwrap();
    kernel.lock().write(0, 1, b"-");
    client.write(slot, &call).unwrap();
    assert!(!sync() && sync());
    // Only the ctime: a rename, say.
    kernel.lock().ctime[0] += 1;
    assert!(!sync() && sync());
    client.map(slot).unwrap();
    assert!(!sync() && !sync());
}

/// A write to a file without a slot that is over only when the file has one and is trusted, in the midst of a logged
/// write: nothing tells it but the number of slots that were given.
#[test]
fn a_write_that_was_not_counted_tells_afterwards() {
    let log = log();
    let kernel = Mutex::new(Kernel::new(PowerDomain::new(), 2));
    let client = Client::new(log).unwrap();
    let call =
        |file| OneCall { kernel: &kernel, file, place: Place::Append, bytes: b"abc", durable: false, away: None };
    let look = |file| call(file).look().unwrap();
    assert_eq!((client.given(), client.find(&look(0)).unwrap()), (0, None));
    let began = client.given();
    let slot = client.slot(&look(0)).unwrap().unwrap();
    assert!(!client.sync(slot, &call(0)).unwrap());
    // The other one's bytes come between the two looks, and take no time: the log alone would answer.
    kernel.lock().away_ns = 0;
    let unlucky = || client.write(slot, &OneCall { place: Place::At(0), away: Some(0), ..call(0) }).unwrap();
    unlucky();
    assert!(client.sync(slot, &call(0)).unwrap());
    unlucky();
    assert_ne!(client.given(), began);
    client.unseen(client.find(&look(0)).unwrap().unwrap()).unwrap();
    assert!(!client.sync(slot, &call(0)).unwrap() && client.sync(slot, &call(0)).unwrap());
    // A file that has one is given no other. Each new one is counted before it is trusted, by whoever syncs the file:
    // the one that has given it may be stopped.
    let given = client.given();
    assert_eq!(client.slot(&look(0)).unwrap(), Some(slot));
    let new = client.slot(&look(1)).unwrap().unwrap();
    assert_eq!(client.given(), given);
    let other = Client::new(client.log().clone()).unwrap();
    assert_eq!((other.sync(new, &call(1)), client.given()), (Ok(false), given + 1));
    assert_eq!((other.sync(new, &call(1)), client.given()), (Ok(true), given + 1));
}

/// A durable write to a file without a slot that is over only when the file has one, and an older acknowledged record.
#[test]
fn a_durable_write_that_was_not_counted_leaves_nothing_older() {
    let log = log();
    let kernel = Mutex::new(Kernel::new(PowerDomain::new(), 1));
    let client = Client::new(log).unwrap();
    let call = |bytes, durable| OneCall { kernel: &kernel, file: 0, place: Place::At(0), bytes, durable, away: None };
    let (older, newer) = (call(b"older", false), call(b"newer", true));
    let slot = client.slot(&older.look().unwrap()).unwrap().unwrap();
    assert_eq!(client.sync(slot, &older), Ok(false));
    client.write(slot, &older).unwrap();
    assert_eq!(client.sync(slot, &older), Ok(true));
    assert_eq!(client.appeared(slot, &newer, newer.write()), Ok(5));
    assert_eq!(recovered(client.log(), &kernel.lock().now.home), [b"newer"]);
    assert_eq!(client.sync(slot, &older), Ok(false));
}

/// Durable writes alone make a file trusted, and end in the log then; where that is of no use they stop trying.
#[test]
fn durable_writes_need_no_sync() {
    let log = log();
    let kernel = Mutex::new(Kernel::new(PowerDomain::new(), 1));
    let client = Client::new(log).unwrap();
    let call = OneCall { kernel: &kernel, file: 0, place: Place::Cursor, bytes: b"abc", durable: true, away: None };
    let slot = client.slot(&call.look().unwrap()).unwrap().unwrap();
    let write = || {
        let before = kernel.lock().moments.len();
        client.write(slot, &call).unwrap();
        kernel.lock().moments.len() - before
    };
    // The first may be the only one. The second has a sync behind it, which begins trust.
    assert_eq!([write(), write()], [1, 2]);
    assert_eq!([write(), write(), write()], [0; 3]);
    assert_eq!(found(client.log()).unwrap().files[0].records.len(), 3);
    // Somebody else writes between all of them: each is durable, few try again.
    let mut written_back = 0;
    for _ in 0..500 {
        kernel.lock().write(0, 1, b"-");
        written_back += write();
    }
    assert!((500..530).contains(&written_back), "{written_back}");
    let text = kernel.lock().now.home[0].clone();
    assert_eq!(text, kernel.lock().cache[0]);
}

/// The kernel has promised a write to a file that is not trusted any more: no older record may come back over it.
#[test]
fn no_record_outlives_what_the_kernel_has_promised() {
    let log = log();
    let kernel = Mutex::new(Kernel::new(PowerDomain::new(), 1));
    let client = Client::new(log).unwrap();
    let call = |bytes| OneCall { kernel: &kernel, file: 0, place: Place::At(0), bytes, durable: true, away: None };
    let slot = client.slot(&call(b"").look().unwrap()).unwrap().unwrap();
    for bytes in [b"first", b"other", b"older"] {
        client.write(slot, &call(bytes)).unwrap();
    }
    assert_eq!(found(client.log()).unwrap().files.len(), 1);
    client.map(slot).unwrap();
    client.write(slot, &call(b"newer")).unwrap();
    assert_eq!(recovered(client.log(), &kernel.lock().now.home), [b"newer"]);
}
