//! The border between threads that wait and an asynchronous runtime.

use std::future::Future;
use std::panic::resume_unwind;
use std::sync::mpsc;

/// Threads of its own on which asynchronous work is done, while whoever asked for it waits. They have a clock and sockets, and end when this is dropped: work that nobody waits for ends
/// with them, wherever it is.
#[derive(Debug)]
pub struct Border {
    runtime: Option<tokio::runtime::Runtime>,
}

impl Border {
    /// Starts `threads` threads.
    ///
    /// # Errors
    /// The system gives no more threads.
    pub fn new(threads: usize) -> std::io::Result<Self> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        // All of it: the clock for pauses and limits, and sockets for the clients of clouds.
        let runtime = builder.worker_threads(threads.max(1)).thread_name("ondol-object").enable_all().build()?;
        Ok(Self { runtime: Some(runtime) })
    }

    /// Waits for `work`, which is done by those threads. May be called from threads of another runtime, too: they wait as at any call that blocks.
    ///
    /// # Panics
    /// As `work` does.
    pub fn wait<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        let Some(runtime) = &self.runtime else { unreachable!("it is only taken when this is dropped") };
        let (done, result) = mpsc::sync_channel(1);
        let task = runtime.spawn(work);
        runtime.spawn(async move {
            // Whoever asked is there: it waits below.
            let _ = done.send(task.await);
        });
        match result.recv() {
            Ok(Ok(value)) => value,
            Ok(Err(e)) => resume_unwind(e.into_panic()),
            Err(e) => unreachable!("the runtime outlives the call: {e}"),
        }
    }

    /// Has `work` done, and does not wait for it. It is given up when this is dropped.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.runtime {
            runtime.spawn(work);
        }
    }
}

impl Drop for Border {
    /// Does not wait for work that nobody waits for. A runtime may not be dropped by a thread of another one otherwise.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Border;

    #[test]
    fn work_is_waited_for_from_threads_of_any_kind() {
        let border = Border::new(2).unwrap();
        assert_eq!(border.wait(async { 1 + 1 }), 2);
        // Inside of another runtime, where a runtime's own way to wait would panic.
        let other = Border::new(1).unwrap();
        let inner = other.wait(async move { border.wait(async { 3 }) });
        assert_eq!(inner, 3);
    }

    #[test]
    fn a_panic_comes_to_whoever_waits() {
        let border = Border::new(1).unwrap();
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            border.wait(async { panic!("of the work") });
        }));
        assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"of the work"));
        assert_eq!(border.wait(async { 4 }), 4);
    }
}
