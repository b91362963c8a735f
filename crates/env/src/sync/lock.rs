//! Mutexes and reader-writer locks. Their guards are `parking_lot`'s.

use super::Arc;
use super::schedule::{acquire, is_any, point};
use crate::waits;
use parking_lot::{
    ArcRwLockReadGuard, ArcRwLockWriteGuard, MutexGuard, RawRwLock, RwLockReadGuard, RwLockWriteGuard, lock_api,
};
use std::time::Duration;

/// A shared lock that keeps its [`OwnedRwLock`] alive by itself.
pub type OwnedReadGuard<T> = ArcRwLockReadGuard<RawRwLock, T>;
/// An exclusive lock that keeps its [`OwnedRwLock`] alive by itself.
pub type OwnedWriteGuard<T> = ArcRwLockWriteGuard<RawRwLock, T>;

/// A value that one thread at a time has.
#[derive(Debug, Default)]
pub struct Mutex<T: ?Sized>(parking_lot::Mutex<T>);

impl<T> Mutex<T> {
    /// An unlocked mutex.
    pub const fn new(value: T) -> Self {
        Self(parking_lot::Mutex::new(value))
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until it can have the value.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        if is_any()
            && let Some(guard) = acquire(|| self.0.try_lock())
        {
            return guard;
        }
        self.0.lock()
    }

    /// The value, unless somebody has it.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        point();
        self.0.try_lock()
    }

    /// The value, which nobody else can have now.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

/// A value that one thread writes or many read.
#[derive(Debug, Default)]
pub struct RwLock<T: ?Sized>(parking_lot::RwLock<T>);

impl<T> RwLock<T> {
    /// An unlocked lock.
    pub const fn new(value: T) -> Self {
        Self(parking_lot::RwLock::new(value))
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until it can read.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        if is_any()
            && let Some(guard) = acquire(|| self.0.try_read())
        {
            return guard;
        }
        self.0.read()
    }

    /// Waits until it can write.
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        if is_any()
            && let Some(guard) = acquire(|| self.0.try_write())
        {
            return guard;
        }
        self.0.write()
    }

    /// Reads, unless somebody writes.
    #[inline]
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        point();
        self.0.try_read()
    }

    /// Writes, unless somebody reads or writes.
    #[inline]
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        point();
        self.0.try_write()
    }

    /// The value, which nobody else can have now.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

/// How long a wait for an owned lock may be before it is a long one: what others do in memory under it takes less.
const SHORT: Duration = Duration::from_micros(50);

/// Takes a lock under which others may wait for a medium, and says so when that takes long and somebody watches the
/// thread.
fn told<G>(short: impl FnOnce(Duration) -> Option<G>, wait: impl FnOnce() -> G) -> G {
    if !waits::is_watched() {
        return wait();
    }
    short(SHORT).unwrap_or_else(|| waits::long(wait))
}

/// As [`RwLock`], with guards that keep it alive and borrow nothing. A long wait for it is told ([`waits`]).
#[derive(Debug, Default)]
pub struct OwnedRwLock<T>(Arc<lock_api::RwLock<RawRwLock, T>>);

impl<T> OwnedRwLock<T> {
    /// An unlocked lock.
    pub fn new(value: T) -> Self {
        Self(Arc::new(lock_api::RwLock::new(value)))
    }

    /// Waits until it can read.
    #[inline]
    pub fn read(&self) -> OwnedReadGuard<T> {
        if is_any()
            && let Some(guard) = acquire(|| self.0.try_read_arc())
        {
            return guard;
        }
        told(|most| self.0.try_read_arc_for(most), || self.0.read_arc())
    }

    /// Waits until it can write.
    #[inline]
    pub fn write(&self) -> OwnedWriteGuard<T> {
        if is_any()
            && let Some(guard) = acquire(|| self.0.try_write_arc())
        {
            return guard;
        }
        told(|most| self.0.try_write_arc_for(most), || self.0.write_arc())
    }

    /// Reads, unless somebody writes.
    #[inline]
    pub fn try_read(&self) -> Option<OwnedReadGuard<T>> {
        point();
        self.0.try_read_arc()
    }

    /// Writes, unless somebody reads or writes.
    #[inline]
    pub fn try_write(&self) -> Option<OwnedWriteGuard<T>> {
        point();
        self.0.try_write_arc()
    }
}
