//! Who decides which task runs next, if somebody does.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Runs several tasks on one operating system thread, one at a time.
///
/// Its methods return when it is the calling task's turn again. It must not use this module itself.
pub trait Scheduler {
    /// The calling task is about to acquire a lock or to do an atomic operation.
    fn point(&self);

    /// The calling task has done something that it is about to tell: see [`untold`].
    fn untold(&self) {
        self.point();
    }

    /// The calling task cannot go on until another task has done something; it will try again after this.
    fn blocked(&self);

    /// The number of the calling task: tasks that exist together have different ones.
    fn task(&self) -> u32;

    /// Starts another task.
    fn spawn(&self, body: Box<dyn FnOnce() + Send>);
}

/// How many operating system threads have a scheduler: alone in its cache line, as every lock looks at it.
#[repr(align(128))]
struct Count(AtomicUsize);

static INSTALLED: Count = Count(AtomicUsize::new(0));

thread_local! {
    static CURRENT: RefCell<Option<Rc<dyn Scheduler>>> = const { RefCell::new(None) };
}

/// Removes the scheduler of this operating system thread when it is dropped.
#[derive(Debug)]
#[must_use = "the scheduler is removed when this is dropped"]
pub struct Installed {
    /// It stays on its thread.
    _here: PhantomData<Rc<()>>,
}

/// Lets `scheduler` decide on this operating system thread; `None` if one does so already.
pub fn install(scheduler: Rc<dyn Scheduler>) -> Option<Installed> {
    CURRENT.with_borrow_mut(|current| {
        if current.is_some() {
            return None;
        }
        *current = Some(scheduler);
        INSTALLED.0.fetch_add(1, Relaxed);
        Some(Installed { _here: PhantomData })
    })
}

impl Drop for Installed {
    fn drop(&mut self) {
        let removed = CURRENT.with_borrow_mut(Option::take);
        INSTALLED.0.fetch_sub(1, Relaxed);
        drop(removed);
    }
}

/// The number of the calling task; `None` where no scheduler decides.
#[inline]
pub fn task() -> Option<u32> {
    if is_any() { current().map(|scheduler| scheduler.task()) } else { None }
}

/// Whether any thread has a scheduler: all that the ordinary build ever asks. A thread sees its own installation at
/// once.
#[inline]
pub(super) fn is_any() -> bool {
    INSTALLED.0.load(Relaxed) != 0
}

/// The scheduler of this thread. A copy, because none may stay borrowed while another task runs.
#[cold]
#[inline(never)]
pub(super) fn current() -> Option<Rc<dyn Scheduler>> {
    // A destructor of another thread-local value may come too late to find it.
    CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
}

/// A place where another task may be chosen.
#[inline]
pub(super) fn point() {
    if is_any() {
        point_here();
    }
}

#[cold]
#[inline(never)]
fn point_here() {
    if let Some(scheduler) = current() {
        scheduler.point();
    }
}

/// What the calling thread has done is done, and nobody knows of it yet: it is about to tell.
///
/// A thread can lose its processor here for as long as others take to do the same, and much more, and to tell it. So
/// what is told here comes late, and marks that only grow must not go back by it. A place where another task may be
/// chosen, which schedules can pick by its kind: there are few of these among thousands of others.
#[inline]
pub fn untold() {
    if is_any() {
        untold_here();
    }
}

#[cold]
#[inline(never)]
fn untold_here() {
    if let Some(scheduler) = current() {
        scheduler.untold();
    }
}

/// Tries until it succeeds, with turns of other tasks in between; `None` where no scheduler decides.
#[cold]
#[inline(never)]
pub(super) fn acquire<G>(attempt: impl Fn() -> Option<G>) -> Option<G> {
    let scheduler = current()?;
    scheduler.point();
    loop {
        if let Some(guard) = attempt() {
            return Some(guard);
        }
        scheduler.blocked();
    }
}
