//! Locks, condition variables, atomics and threads.
//!
//! They are `parking_lot`'s and `std`'s. On an operating system thread that has a [`Scheduler`] installed they ask it
//! before every acquisition and every atomic operation, and give way to its other tasks instead of blocking; so a test
//! chooses the interleaving. Everywhere else that costs one load and one branch that is never taken.
//!
//! All users of one lock or condition variable are to be tasks of one scheduler, or none of them.

pub mod atomic;
mod condvar;
mod lock;
mod schedule;
pub mod thread;

pub use condvar::{Condvar, WaitTimeoutResult};
pub use lock::{Mutex, OwnedReadGuard, OwnedRwLock, OwnedWriteGuard, RwLock};
pub use parking_lot::{MappedMutexGuard, MutexGuard, RwLockReadGuard, RwLockWriteGuard};
pub use schedule::{Installed, Scheduler, install, task, untold};
pub use std::sync::Arc;
