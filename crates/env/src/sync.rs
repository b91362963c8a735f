//! Locks, condition variables, atomics and threads.
//!
//! The ordinary build re-exports `parking_lot` and `std`; a controlled scheduler replaces this module and nothing else.

pub use imp::*;
pub use std::sync::Arc;

mod imp {
    pub use parking_lot::{
        ArcRwLockReadGuard, ArcRwLockWriteGuard, Condvar, Mutex, MutexGuard, RawRwLock, RwLock, RwLockReadGuard,
        RwLockWriteGuard,
    };
    pub use std::sync::atomic;
    pub use std::thread;

    /// A shared lock that keeps its `RwLock` alive by itself.
    pub type OwnedReadGuard<T> = ArcRwLockReadGuard<RawRwLock, T>;
    /// An exclusive lock that keeps its `RwLock` alive by itself.
    pub type OwnedWriteGuard<T> = ArcRwLockWriteGuard<RawRwLock, T>;
}
