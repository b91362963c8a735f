//! One piece of work by several threads.

use crate::{JournalError, Result};
use ondol_env::sync::{Arc, Mutex, thread};

/// Does `work` on `threads` threads, this one among them, each with its number from 0 on, and returns what each has made.
///
/// # Errors
/// A thread cannot be started, or has panicked.
pub(crate) fn together<T: Send + 'static>(
    threads: usize,
    name: &str,
    work: impl Fn(usize) -> T + Send + Sync + 'static,
) -> Result<Vec<T>> {
    let work = Arc::new(work);
    let failed = |e: String| JournalError::Aborted(format!("thread {name}: {e}"));
    let mut helpers = Vec::new();
    for n in 1..threads {
        let (work, made) = (work.clone(), Arc::new(Mutex::new(None)));
        let into = made.clone();
        let body = move || *into.lock() = Some(work(n));
        let helper = thread::Builder::new().name(name.into()).spawn(body).map_err(|e| failed(e.to_string()))?;
        helpers.push((helper, made));
    }
    let mut all = vec![work(0)];
    for (helper, made) in helpers {
        // What it has made, and not how it ended, tells whether it was able to.
        drop(helper.join());
        all.push(made.lock().take().ok_or_else(|| failed("has failed".into()))?);
    }
    Ok(all)
}
