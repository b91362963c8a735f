//! The border between threads that wait and an asynchronous runtime.
//!
//! What a commit waits for is polled by the caller's own thread ([`Border::drive`]): no task is handed over and back.
//! It is not tokio's `block_on`, which panics in a thread that belongs to a program's own runtime. A runtime without
//! threads, at which only those who wait work, was slower, and stands still when nobody waits.

use std::future::Future;
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};

/// Threads of its own on which asynchronous work is done, while whoever asked for it waits. They have a clock and
/// sockets, and end when this is dropped: work that nobody waits for ends with them, wherever it is.
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

    /// Waits for `work`, which is done by those threads. May be called from threads of another runtime, too: they wait
    /// as at any call that blocks.
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

    /// As [`Border::wait`], but the caller's thread does the work itself, between the times that it waits: it changes
    /// threads less often. For what is short.
    pub fn drive<T>(&self, work: impl Future<Output = T>) -> T {
        let Some(runtime) = &self.runtime else { unreachable!("it is only taken when this is dropped") };
        // Clock and tasks of the work are those of the runtime.
        let _inside = runtime.enter();
        let (ring, rung) = mpsc::sync_channel(1);
        let waker = Waker::from(Arc::new(Bell(ring)));
        let mut context = Context::from_waker(&waker);
        // A caller who is a task of another runtime may have used up its share: it would be sent away for ever.
        let mut work = pin!(tokio::task::unconstrained(work));
        loop {
            if let Poll::Ready(done) = work.as_mut().poll(&mut context) {
                return done;
            }
            if let Err(e) = rung.recv() {
                unreachable!("the bell is here: {e}");
            }
        }
    }

    /// Has `work` done, and does not wait for it. It is given up when this is dropped.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.runtime {
            runtime.spawn(work);
        }
    }
}

/// Wakes the thread that drives a work: once for any number of rings before it looks.
struct Bell(mpsc::SyncSender<()>);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // It has rung already, or nobody waits any more.
        let _ = self.0.try_send(());
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
    use std::thread;
    use std::time::Duration;

    #[test]
    fn work_is_waited_for_from_threads_of_any_kind() {
        let border = Border::new(2).unwrap();
        assert_eq!(border.wait(async { 1 + 1 }), 2);
        // Inside of another runtime, where a runtime's own way to wait would panic.
        let other = Border::new(1).unwrap();
        let inner = other.wait(async move { (border.wait(async { 3 }), border.drive(async { 4 })) });
        assert_eq!(inner, (3, 4));
    }

    #[test]
    fn work_that_the_caller_drives_has_clock_and_tasks_of_the_runtime() {
        let border = Border::new(1).unwrap();
        let work = || async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            tokio::spawn(async { thread::current().name().map(str::to_owned) }).await.unwrap()
        };
        let here = thread::current().id();
        assert_eq!(border.drive(async { thread::current().id() }), here);
        assert_eq!(border.drive(work()).as_deref(), Some("ondol-object"));
    }

    #[test]
    fn a_task_of_another_runtime_drives_more_than_its_share() {
        let (border, other) = (Border::new(1).unwrap(), Border::new(1).unwrap());
        let sum = other.wait(async move {
            let (send, mut received) = tokio::sync::mpsc::unbounded_channel();
            (0..1000).for_each(|n| send.send(n).unwrap());
            (0..1000).map(|_| border.drive(received.recv()).unwrap()).sum::<u32>()
        });
        assert_eq!(sum, 499_500);
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
