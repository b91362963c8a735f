//! What the locks, atomics and threads ask of a scheduler, and that they do not ask where none is installed.

use ondol_env::sync::atomic::{AtomicU64, Ordering::SeqCst};
use ondol_env::sync::{self, Condvar, Mutex, MutexGuard, OwnedRwLock, RwLock, Scheduler, thread};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

/// Counts the questions; what it is given to do, it does when the only task is blocked.
#[derive(Default)]
struct Script {
    points: Cell<u32>,
    blocked: Cell<u32>,
    others: RefCell<Vec<Box<dyn FnOnce()>>>,
}

impl Scheduler for Script {
    fn point(&self) {
        self.points.set(self.points.get() + 1);
    }

    fn blocked(&self) {
        self.blocked.set(self.blocked.get() + 1);
        assert!(self.blocked.get() < 100, "nobody will ever go on");
        let other = self.others.borrow_mut().pop();
        if let Some(other) = other {
            other();
        }
    }

    fn task(&self) -> u32 {
        7
    }

    fn spawn(&self, body: Box<dyn FnOnce() + Send>) {
        self.others.borrow_mut().push(body);
    }
}

fn installed() -> (Rc<Script>, sync::Installed) {
    let script = Rc::new(Script::default());
    let guard = sync::install(script.clone()).expect("this thread has no scheduler yet");
    (script, guard)
}

fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

#[test]
fn every_acquisition_and_every_atomic_operation_is_a_point() {
    let (mutex, lock, number) = (Mutex::new(1), RwLock::new(2), AtomicU64::new(0));
    let (script, guard) = installed();
    *mutex.lock() += 1;
    let seen = *lock.read();
    *lock.write() += seen;
    number.store(number.load(SeqCst) + 1, SeqCst);
    assert_eq!((script.points.get(), script.blocked.get()), (5, 0));
    assert_eq!(sync::task(), Some(7));
    drop(guard);
    *mutex.lock() += number.fetch_add(1, SeqCst);
    assert_eq!(script.points.get(), 5);
    assert_eq!(sync::task(), None);
}

#[test]
fn a_held_lock_is_tried_again_after_the_others_turn() {
    let mutex = leak(Mutex::new(0));
    let held = mutex.lock();
    let (script, _guard) = installed();
    script.others.borrow_mut().extend([Box::new(|| drop(held)) as Box<dyn FnOnce()>, Box::new(|| ())]);
    assert!(mutex.try_lock().is_none());
    *mutex.lock() = 3;
    assert_eq!(script.blocked.get(), 2);
}

#[test]
fn owned_guards_outlive_their_lock() {
    let lock = OwnedRwLock::new(5);
    let writer = lock.write();
    let (script, _guard) = installed();
    script.others.borrow_mut().push(Box::new(|| drop(writer)));
    let reader = lock.read();
    assert!(lock.try_write().is_none());
    drop(lock);
    assert_eq!((*reader, script.blocked.get()), (5, 1));
}

#[test]
fn a_wait_ends_with_a_notification_and_has_the_mutex_again() {
    let (mutex, wake) = (leak(Mutex::new(false)), leak(Condvar::new()));
    let (script, _guard) = installed();
    let holder: &'static RefCell<Option<MutexGuard<'static, bool>>> = leak(RefCell::new(None));
    // The last is taken first: somebody sets the flag and notifies, and holds the mutex for one more turn.
    script.others.borrow_mut().push(Box::new(|| drop(holder.take())));
    script.others.borrow_mut().push(Box::new(|| {
        *holder.borrow_mut() = mutex.try_lock();
        **holder.borrow_mut().as_mut().expect("the waiting task has released it") = true;
        wake.notify_all();
    }));
    script.others.borrow_mut().push(Box::new(|| ()));
    let mut guard = mutex.lock();
    while !*guard {
        wake.wait(&mut guard);
    }
    assert_eq!(script.blocked.get(), 3);
    assert!(wake.wait_for(&mut guard, Duration::from_secs(3600)).timed_out());
}

#[test]
fn a_wait_that_has_released_its_mutex_is_told_as_something_done() {
    let (mutex, wake) = (leak(Mutex::new(())), leak(Condvar::new()));
    let (script, _guard) = installed();
    let (free, seen) = (leak(Cell::new(0)), script.clone());
    script.others.borrow_mut().push(Box::new(move || {
        // At the first turn of another task its mutex is free, and there has been a point since.
        assert!(mutex.try_lock().is_some());
        free.set(seen.points.get());
    }));
    let mut guard = mutex.lock();
    let held = script.points.get();
    assert!(wake.wait_for(&mut guard, Duration::from_secs(1)).timed_out());
    assert!(free.get() >= held + 2, "one before it was released, one after: {} of {held}", free.get());
}

#[test]
fn threads_are_tasks_of_the_scheduler() {
    let (script, _guard) = installed();
    let handle = thread::spawn(|| 42);
    assert!(!handle.is_finished());
    assert_eq!((handle.join().unwrap(), script.blocked.get()), (42, 1));
    let failed = thread::spawn(|| std::panic::resume_unwind(Box::new("no")));
    let failed: thread::Result<()> = failed.join();
    assert!(failed.is_err());
    thread::sleep(Duration::from_secs(3600));
    assert!(sync::install(Rc::new(Script::default())).is_none());
}

#[test]
fn without_a_scheduler_threads_are_threads() {
    let (mutex, wake) = (leak(Mutex::new(0)), leak(Condvar::new()));
    let handles: Vec<_> = (0..4)
        .map(|_| {
            thread::spawn(|| {
                *mutex.lock() += 1;
                wake.notify_all();
                sync::task()
            })
        })
        .collect();
    let mut done = mutex.lock();
    while *done < 4 {
        wake.wait(&mut done);
    }
    drop(done);
    assert!(handles.into_iter().all(|handle| handle.join().unwrap().is_none()));
}
