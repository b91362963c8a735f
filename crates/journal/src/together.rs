//! One piece of work by several threads.

use crate::{JournalError, Result};
use ondol_env::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use ondol_env::sync::{Arc, Mutex, thread};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Does `work` for each number below `count`, and returns what it made of them, in their order. Each of the threads, of
/// which this is one, claims `at_once` of them at a time, until none is left.
///
/// # Errors
/// As [`together`].
pub(crate) fn each<T: Send + 'static>(
    threads: usize,
    count: usize,
    at_once: usize,
    name: &str,
    work: impl Fn(usize) -> T + Send + Sync + 'static,
) -> Result<Vec<T>> {
    if threads <= 1 {
        return Ok((0..count).map(work).collect());
    }
    let next = AtomicUsize::new(0);
    let claimed = move |_| {
        let mut made = Vec::new();
        loop {
            let first = next.fetch_add(at_once, Relaxed);
            if first >= count {
                return made;
            }
            made.extend((first..count.min(first + at_once)).map(|n| (n, work(n))));
        }
    };
    let mut all: Vec<(usize, T)> = together(threads, name, claimed)?.into_iter().flatten().collect();
    all.sort_unstable_by_key(|(n, _)| *n);
    Ok(all.into_iter().map(|(_, made)| made).collect())
}

/// Does `work` on `threads` threads, this one among them, each with its number from 0 on, and returns what each has
/// made. Where the system has no thread to give, this one does its part, too.
///
/// # Errors
/// A thread has panicked.
pub(crate) fn together<T: Send + 'static>(
    threads: usize,
    name: &str,
    work: impl Fn(usize) -> T + Send + Sync + 'static,
) -> Result<Vec<T>> {
    let work = Arc::new(work);
    let mut helpers = Vec::new();
    for n in 1..threads {
        let (work, made) = (work.clone(), Arc::new(Mutex::new(None)));
        let into = made.clone();
        let body = move || *into.lock() = Some(work(n));
        helpers.push((thread::Builder::new().name(name.into()).spawn(body), made));
    }
    let first = catch_unwind(AssertUnwindSafe(|| work(0)));
    // All have ended before anything is said: what one still does must not come after what the caller does next.
    let helpers = helpers.into_iter().map(|(helper, made)| (helper.map(|helper| drop(helper.join())).is_ok(), made));
    let helpers: Vec<_> = helpers.collect();
    let mut all = vec![first.unwrap_or_else(|panic| resume_unwind(panic))];
    for (n, (has_run, made)) in (1..).zip(helpers) {
        if !has_run {
            all.push(work(n));
            continue;
        }
        // What it has made, and not how it ended, tells whether it was able to.
        let failed = || JournalError::Aborted(format!("thread {name} has failed"));
        all.push(made.lock().take().ok_or_else(failed)?);
    }
    Ok(all)
}
