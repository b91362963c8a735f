//! What the cores of all engines have in common: what they stand on, that they stop for good, and their background
//! work.

use crate::cache::{Cache, Home};
use crate::device::Bound;
use crate::in_place::InPlace;
use crate::names::Extent;
use crate::stats::EngineStats;
use crate::{Config, Ground, JournalError, Result};
use ondol_env::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use ondol_env::sync::{Arc, Condvar, Mutex};
use ondol_env::{Bell, Progress, Step};
use std::ops::Deref;
use std::sync::OnceLock;
use std::time::Duration;

/// The part of an engine's core that all have.
pub struct Common {
    ground: Ground,
    pub(crate) cache: Cache,
    pub(crate) bound: Bound,
    /// Looked at by every operation: a lock would be a line of memory that all of them write.
    pub(crate) aborted: OnceLock<String>,
    pub(crate) in_place: InPlace,
    pub(crate) bells: Bells,
    pub(crate) stats: Mutex<EngineStats>,
    /// Whoever waits for room.
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) failing: Failing,
    /// It is an engine that only reads.
    pub(crate) is_read_only: bool,
}

/// Whether what is in place takes what it is given, where an engine goes on if it does not.
#[derive(Debug, Default)]
pub(crate) struct Failing {
    pub(crate) fails: AtomicBool,
    /// Why, and when that was, in monotonic nanoseconds.
    pub(crate) last: Mutex<Option<(String, u64)>>,
}

/// The steps do not ask what has failed more often.
const PAUSE: Duration = Duration::from_secs(1);

impl Failing {
    /// It takes what it is given.
    pub(crate) fn works(&self) {
        if self.fails.load(Relaxed) {
            tracing::warn!("what is committed can be written home again");
            *self.last.lock() = None;
            self.fails.store(false, Relaxed);
        }
    }

    /// It has failed a moment before `now`.
    pub(crate) fn rests(&self, now: u64) -> bool {
        let is_new = |at: u64| u128::from(now.saturating_sub(at)) < PAUSE.as_nanos();
        self.fails.load(Relaxed) && self.last.lock().as_ref().is_some_and(|(_, at)| is_new(*at))
    }
}

impl Common {
    /// `home` is where its cache finds what it does not hold.
    pub(crate) fn new(ground: Ground, home: Arc<dyn Home>, bound: Bound) -> Self {
        let Ground { block_size, config, client, .. } = &ground;
        // A cache has so many blocks at least.
        let config = Config { cache_bytes: config.cache_bytes.max(Cache::LEAST * block_size), ..*config };
        let cache = Cache::new(*block_size, config.cache_bytes, home, client.clone());
        Self {
            ground: Ground { config, ..ground },
            cache,
            bound,
            aborted: OnceLock::new(),
            in_place: InPlace::default(),
            bells: Bells::default(),
            stats: Mutex::default(),
            waiters: Arc::default(),
            failing: Failing::default(),
            is_read_only: false,
        }
    }

    /// Of an engine that only reads.
    pub(crate) fn read_only(ground: Ground, home: Arc<dyn Home>) -> Self {
        Self { is_read_only: true, ..Self::new(ground, home, Bound { kept: 0, dirty: 0 }) }
    }

    pub(crate) fn check_alive(&self) -> Result<()> {
        match self.aborted.get() {
            Some(why) => Err(JournalError::Aborted(why.clone())),
            None if self.is_read_only => Err(JournalError::Unsupported("the volume is mounted read-only".into())),
            None => Ok(()),
        }
    }

    /// Stops the engine for good: the medium's state is unknown, so nothing may be called durable any more.
    pub(crate) fn abort(&self, error: &JournalError) {
        self.aborted.get_or_init(|| error.to_string());
        tracing::error!("journal stopped: {error}");
        self.waiters.wake_all();
    }

    pub(crate) fn or_abort<T>(&self, result: Result<T>) -> Result<T> {
        result.inspect_err(|e| self.abort(e))
    }

    pub(crate) fn byte_offset(&self, block: u64) -> u64 {
        block * self.block_size as u64
    }

    /// What was written in place before the call is durable when this returns. Where that fails the engine stops.
    pub(crate) fn flush(&self) -> Result<()> {
        self.in_place.flush(&*self.store, |e, _| self.abort(e), || self.check_alive())
    }

    /// As [`crate::Engine`]'s `write_data`.
    pub(crate) fn write_data(&self, block: u64, offset: usize, bytes: &[u8]) -> Result<()> {
        self.check_alive()?;
        self.is_dirty(self.in_place.write(bytes.len(), || self.write_in_place(block, offset, bytes))?);
        Ok(())
    }

    pub(crate) fn write_in_place(&self, block: u64, offset: usize, bytes: &[u8]) -> Result<()> {
        let written = self.store.write(self.byte_offset(block) + offset as u64, bytes);
        self.cache.follow(block, offset, bytes, written.is_ok());
        Ok(written?)
    }

    /// So many bytes wait for a flush.
    pub(crate) fn is_dirty(&self, bytes: u64) {
        if bytes >= self.bound.dirty {
            self.bells.flusher.ring();
        }
    }

    pub(crate) fn discard(&self, extent: Extent) -> Result<bool> {
        let len = u64::from(extent.len) * self.block_size as u64;
        Ok(self.store.discard(self.byte_offset(extent.start), len)?)
    }

    /// Tells the volume that freed blocks may be allocated again, which no write can reach any more.
    pub(crate) fn release(&self, freed: &[Extent]) {
        if freed.is_empty() {
            return;
        }
        if self.config.discard {
            let failed = freed.iter().find_map(|extent| self.discard(*extent).err());
            failed.into_iter().for_each(|e| tracing::warn!("discarding freed blocks: {e}"));
        }
        self.client.release(freed);
    }

    /// Nanoseconds since `then`.
    pub(crate) fn since(&self, then: u64) -> u64 {
        self.env.monotonic_ns().saturating_sub(then)
    }

    /// What has waited so many nanoseconds is to be committed (`commit=`).
    pub(crate) fn is_old(&self, ns: u64) -> bool {
        Duration::from_nanos(ns).as_secs() >= self.config.commit_interval
    }

    /// Stops the engine when it is dropped by a panic: what a commit had is lost, and a later one must not be called
    /// durable.
    pub(crate) fn watch(&self) -> Watch<'_> {
        Watch(self)
    }
}

impl Deref for Common {
    type Target = Ground;

    fn deref(&self) -> &Ground {
        &self.ground
    }
}

/// See [`Common::watch`].
pub(crate) struct Watch<'a>(&'a Common);

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.abort(&JournalError::Aborted("a commit has failed unexpectedly".into()));
        }
    }
}

/// Threads that wait for room.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    count: AtomicUsize,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Waiters {
    /// Waits until something changes; the timeout only bounds how late an abort is seen.
    pub(crate) fn wait_for_change(&self) {
        self.count.fetch_add(1, SeqCst);
        let mut guard = self.lock.lock();
        self.changed.wait_for(&mut guard, Duration::from_millis(10));
        drop(guard);
        self.count.fetch_sub(1, SeqCst);
    }

    pub(crate) fn wake_if_waited(&self) {
        if self.count.load(SeqCst) > 0 {
            self.wake_all();
        }
    }

    pub(crate) fn wake_all(&self) {
        let _guard = self.lock.lock();
        self.changed.notify_all();
    }
}

/// Rung for the background work of one engine.
#[derive(Debug, Default)]
pub(crate) struct Bells {
    /// Much is not committed. What is old it finds by the clock.
    pub(crate) committer: Bell,
    /// Much data is dirty, or a batch waits for nobody to settle it.
    pub(crate) flusher: Bell,
    /// The log, or the memory for its blocks, is crowded.
    pub(crate) checkpointer: Bell,
}

/// A piece of background work as an object to be stepped.
struct Work<C> {
    core: Arc<C>,
    name: &'static str,
    bell: fn(&Bells) -> &Bell,
    work: fn(&C) -> Result<Progress>,
}

impl<C: Deref<Target = Common> + Send + Sync> Step for Work<C> {
    type Error = JournalError;

    fn name(&self) -> &'static str {
        self.name
    }

    fn bell(&self) -> &Bell {
        (self.bell)(&self.core.bells)
    }

    fn step(&self) -> Result<Progress> {
        (self.work)(&self.core)
    }
}

/// Work of an engine: the name, whose bell rings for it, and what is done.
pub(crate) type Part<C> = (&'static str, fn(&Bells) -> &Bell, fn(&C) -> Result<Progress>);

/// The background work of an engine, to be stepped.
pub(crate) fn steps<C: Deref<Target = Common> + Send + Sync + 'static>(
    core: &Arc<C>,
    parts: &[Part<C>],
) -> Vec<Arc<dyn Step<Error = JournalError>>> {
    let step = |(name, bell, work): &Part<C>| -> Arc<dyn Step<Error = JournalError>> {
        Arc::new(Work { core: core.clone(), name, bell: *bell, work: *work })
    };
    parts.iter().map(step).collect()
}
