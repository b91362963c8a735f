//! Schedules find what threads do wrong, again and again by their seed.

use ondol_env::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use ondol_env::sync::{Arc, Condvar, Mutex, RwLock, thread, untold};
use ondol_schedule::{Policy, Schedule, ScheduleError, Stats, Task, Why};

const POLICIES: [Policy; 2] = [Policy::Random, Policy::Priorities { depth: 3, steps: 20 }];

/// The same thing several times.
fn tasks(n: usize, body: impl Fn(usize) + Send + Sync + 'static) -> Vec<Task> {
    let body = Arc::new(body);
    (0..n)
        .map(|i| {
            let body = body.clone();
            Box::new(move || body(i)) as Task
        })
        .collect()
}

/// Two tasks that count without care; how far they came.
fn count(policy: Policy, seed: u64) -> (u64, Stats) {
    let number = Arc::new(AtomicU64::new(0));
    let shared = number.clone();
    let careless = tasks(2, move |_| {
        for _ in 0..3 {
            shared.store(shared.load(SeqCst) + 1, SeqCst);
        }
    });
    let stats = ondol_schedule::run(seed, policy, careless).unwrap();
    (number.load(SeqCst), stats)
}

/// Two tasks that take two locks in opposite order.
fn cross(policy: Policy, seed: u64) -> Result<Stats, ScheduleError> {
    let locks = Arc::new((Mutex::new(0), RwLock::new(0)));
    let crossing = tasks(2, move |i| {
        if i == 0 {
            let mut first = locks.0.lock();
            *locks.1.write() += 1;
            *first += 1;
        } else {
            let first = locks.1.read();
            *locks.0.lock() += *first;
        }
    });
    ondol_schedule::run(seed, policy, crossing)
}

#[test]
fn a_lost_update_is_found_and_found_again() {
    for policy in POLICIES {
        let seed = (0..50).find(|seed| count(policy, *seed).0 < 6).expect("some schedule loses an update");
        assert!((0..50).any(|seed| count(policy, seed).0 == 6), "{policy}: some schedule loses none");
        let again: Schedule = Schedule::new(policy, seed).to_string().parse().unwrap();
        assert_eq!(count(again.policy, again.seed), count(policy, seed));
    }
}

#[test]
fn a_deadlock_is_found_and_found_again() {
    for policy in POLICIES {
        let error = (0..50).find_map(|seed| cross(policy, seed).err()).expect("some schedule deadlocks");
        assert_eq!(error.why, Why::Deadlock(vec![0, 1]));
        assert!((0..50).any(|seed| cross(policy, seed).is_ok()), "{policy}: some schedule does not");
        assert_eq!(cross(policy, error.schedule.seed), Err(error.clone()));
        assert_eq!(error.to_string(), format!("schedule {}: tasks [0, 1] wait for each other", error.schedule));
    }
}

#[test]
fn seeds_give_many_interleavings_each_always_the_same() {
    for policy in POLICIES {
        let mut seen: Vec<u64> = (0..40).map(|seed| count(policy, seed).1.fingerprint).collect();
        let again: Vec<u64> = (0..40).map(|seed| count(policy, seed).1.fingerprint).collect();
        assert_eq!(seen, again);
        seen.sort_unstable();
        seen.dedup();
        assert!(seen.len() > 10, "{policy}: {} of 40", seen.len());
    }
}

#[test]
fn runs_on_several_threads_do_not_disturb_each_other() {
    let all = || -> Vec<_> { (0..64).map(|seed| (count(Policy::Random, seed), cross(Policy::Random, seed))).collect() };
    let alone = all();
    let ordinary = Mutex::new(0);
    let together: Vec<_> = std::thread::scope(|scope| {
        let one = || {
            // A thread that has no schedule uses the same kinds of locks meanwhile.
            *ordinary.lock() += 1;
            all()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(one)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(together.iter().all(|one| *one == alone));
}

#[test]
fn waiting_ends_with_a_notification_in_every_schedule() {
    for seed in 0..200 {
        let shared = Arc::new((Mutex::new(Vec::new()), Condvar::new()));
        let sum = Arc::new(AtomicU64::new(0));
        let total = sum.clone();
        let tasks = tasks(3, move |i| {
            let (queue, wake) = &*shared;
            if i < 2 {
                queue.lock().push(i as u64 + 1);
                wake.notify_all();
                return;
            }
            for _ in 0..2 {
                let mut queue = queue.lock();
                while queue.is_empty() {
                    wake.wait(&mut queue);
                }
                total.fetch_add(queue.pop().unwrap(), SeqCst);
            }
        });
        ondol_schedule::run(seed, POLICIES[seed as usize % 2], tasks).unwrap();
        assert_eq!(sum.load(SeqCst), 3);
    }
}

#[test]
fn a_lost_notification_is_a_deadlock() {
    let run = |seed| {
        let shared = Arc::new((AtomicBool::new(false), Condvar::new(), Mutex::new(())));
        let careless = tasks(2, move |i| {
            let (flag, wake, mutex) = &*shared;
            if i == 0 {
                // Without the mutex this can fall between the look and the wait.
                flag.store(true, SeqCst);
                wake.notify_all();
            } else {
                let mut guard = mutex.lock();
                while !flag.load(SeqCst) {
                    wake.wait(&mut guard);
                }
            }
        });
        ondol_schedule::run(seed, Policy::Random, careless)
    };
    let errors: Vec<_> = (0..100).filter_map(|seed| run(seed).err()).collect();
    assert!(!errors.is_empty() && errors.len() < 100);
    assert!(errors.iter().all(|error| error.why == Why::Deadlock(vec![1])), "{errors:?}");
}

#[test]
fn what_never_ends_and_what_panics_are_errors() {
    let flag = AtomicBool::new(false);
    let spin = tasks(2, move |_| while !flag.load(SeqCst) {});
    let schedule = Schedule { limit: 10_000, ..Schedule::new(Policy::Random, 1) };
    assert_eq!(schedule.run(spin).unwrap_err().why, Why::Endless(10_000));

    let mutex = Mutex::new(0);
    let failing = tasks(2, move |i| {
        let _guard = mutex.lock();
        assert!(i != 1, "task {i} had enough");
    });
    let error = ondol_schedule::run(2, Policy::Random, failing).unwrap_err();
    assert_eq!(error.why, Why::Panicked { task: 1, what: "task 1 had enough".into() });

    let nested = Arc::new(Mutex::new(None));
    let place = nested.clone();
    let outer = tasks(1, move |_| *place.lock() = Some(ondol_schedule::run(0, Policy::Random, Vec::new())));
    ondol_schedule::run(3, Policy::Random, outer).unwrap();
    assert_eq!(nested.lock().take().unwrap().unwrap_err().why, Why::Nested);
}

/// Two tasks do much, take numbers, and tell them as a mark that must only grow, without looking. What a run was like,
/// and whether the mark went back.
fn tell(schedule: Schedule, tells: bool) -> (Stats, bool) {
    let (next, mark, other) = (AtomicU64::new(0), Arc::new(AtomicU64::new(0)), AtomicU64::new(0));
    let seen = mark.clone();
    let late = tasks(2, move |_| {
        let much = || (0..50).map(|_| other.fetch_add(1, SeqCst)).max();
        much();
        let mine = next.fetch_add(1, SeqCst) + 1;
        if tells {
            untold();
        }
        seen.store(mine, SeqCst);
        much();
    });
    let stats = schedule.run(late).unwrap();
    (stats, mark.load(SeqCst) < 2)
}

#[test]
fn what_is_told_late_is_found_at_the_places_where_it_is() {
    let (in_turn, _) = tell(Schedule::in_turn(0), true);
    assert_eq!(in_turn.untold, 1, "the last task has nobody to lose its turn to");
    let found = |policy| (0..100).filter(|seed| tell(Schedule::new(policy, *seed), true).1).count();
    let here = found(Policy::Untold { depth: 2, places: in_turn.untold as u32 });
    let anywhere = found(Policy::Priorities { depth: 2, steps: in_turn.steps as u32 });
    assert!(here > 90 && anywhere < 10, "{here} and {anywhere} of 100");

    let is_untold = |schedule: &Schedule| matches!(schedule.policy, Policy::Untold { .. });
    let fitted = |stats| (0..100).filter(|n| is_untold(&Schedule::fitted_to(&stats, *n))).count();
    let (without, _) = tell(Schedule::in_turn(0), false);
    assert_eq!((fitted(in_turn), fitted(without)), (20, 0));
}

#[test]
fn tasks_start_tasks() {
    for seed in 0..50 {
        let sum = Arc::new(AtomicU64::new(0));
        let total = sum.clone();
        let outer = tasks(2, move |i| {
            let mine = total.clone();
            let joined = thread::spawn(move || mine.fetch_add(1, SeqCst));
            let mine = total.clone();
            drop(thread::spawn(move || mine.fetch_add(10, SeqCst)));
            if i == 0 {
                joined.join().unwrap();
            }
        });
        ondol_schedule::run(seed, POLICIES[seed as usize % 2], outer).unwrap();
        assert_eq!(sum.load(SeqCst), 22);
    }
}
