//! One piece of work by several threads.

use crate::{JournalError, Result};
use ondol_env::sync::{Arc, Mutex, thread};

/// Does `work` on `threads` threads, this one among them, each with its number from 0 on, and returns what each has made. Where the
/// system has no thread to give, this one does its part, too.
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
    let mut all = vec![work(0)];
    for (n, (helper, made)) in (1..).zip(helpers) {
        let Ok(helper) = helper else {
            all.push(work(n));
            continue;
        };
        // What it has made, and not how it ended, tells whether it was able to.
        drop(helper.join());
        let failed = || JournalError::Aborted(format!("thread {name} has failed"));
        all.push(made.lock().take().ok_or_else(failed)?);
    }
    Ok(all)
}
