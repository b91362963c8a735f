//! Threads: the operating system's, or tasks of the scheduler that decides where they are started.

use super::schedule::{current, is_any};
use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
pub use std::thread::{Result, available_parallelism, panicking};
use std::time::Duration;

/// Starts a thread.
///
/// # Panics
/// The operating system has none left; see [`Builder::spawn`].
pub fn spawn<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    Builder::new().spawn(body).expect("the operating system can start a thread")
}

/// Lets at least `time` go by; under a scheduler, some turns of other tasks.
pub fn sleep(time: Duration) {
    match current_task() {
        Some(scheduler) => give_way(&*scheduler),
        None => crate::waits::long(|| std::thread::sleep(time)),
    }
}

/// Lets others go first.
pub fn yield_now() {
    match current_task() {
        Some(scheduler) => give_way(&*scheduler),
        None => std::thread::yield_now(),
    }
}

/// A turn of the others; the task can go on without it.
fn give_way(scheduler: &dyn super::Scheduler) {
    scheduler.point();
    scheduler.blocked();
}

fn current_task() -> Option<std::rc::Rc<dyn super::Scheduler>> {
    if is_any() { current() } else { None }
}

/// A thread before it starts.
#[derive(Debug)]
pub struct Builder(std::thread::Builder);

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// A thread without a name.
    pub fn new() -> Self {
        Self(std::thread::Builder::new())
    }

    /// Names it.
    #[must_use]
    pub fn name(self, name: String) -> Self {
        Self(self.0.name(name))
    }

    /// Starts it.
    ///
    /// # Errors
    /// The operating system has no thread left.
    pub fn spawn<T: Send + 'static>(self, body: impl FnOnce() -> T + Send + 'static) -> std::io::Result<JoinHandle<T>> {
        let Some(scheduler) = current_task() else {
            return Ok(JoinHandle(Handle::Thread(self.0.spawn(body)?)));
        };
        let result = Arc::new(Mutex::new(None));
        let place = result.clone();
        scheduler.spawn(Box::new(move || {
            let done = catch_unwind(AssertUnwindSafe(body));
            *place.lock() = Some(done);
        }));
        Ok(JoinHandle(Handle::Task(result)))
    }
}

/// A thread that was started.
#[derive(Debug)]
pub struct JoinHandle<T>(Handle<T>);

#[derive(Debug)]
enum Handle<T> {
    Thread(std::thread::JoinHandle<T>),
    /// What the task returned, once it has.
    Task(Arc<Mutex<Option<Result<T>>>>),
}

impl<T> JoinHandle<T> {
    /// Waits for its end. A task is waited for by a task.
    ///
    /// # Errors
    /// What it panicked with.
    pub fn join(self) -> Result<T> {
        let result = match self.0 {
            Handle::Thread(thread) => return thread.join(),
            Handle::Task(result) => result,
        };
        loop {
            if let Some(result) = result.lock().take() {
                return result;
            }
            match current_task() {
                Some(scheduler) => scheduler.blocked(),
                None => std::thread::yield_now(),
            }
        }
    }

    /// Whether it has ended.
    pub fn is_finished(&self) -> bool {
        match &self.0 {
            Handle::Thread(thread) => thread.is_finished(),
            Handle::Task(result) => result.lock().is_some(),
        }
    }
}
