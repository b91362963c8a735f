//! How much may wait to be written: what the disk drains in a stated time. Who syncs then waits for no more than that.
//!
//! Design: `docs/design/allocation.md`, "The bound". But for [`Bound::during`] and [`Bound::next`], nothing here looks at a clock: when a thing happened is told.

use crate::Result;
use ondol_env::Env;
use ondol_env::reach::{self, Place};
use ondol_env::sync::Mutex;
// What may wait is looked at and never waited for, so these are no places at which schedules part.
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes that may wait however slow the disk is.
const LEAST: u64 = 8 << 20;
/// So great a part of them has to be written between two commits to tell how fast the disk is: of less, flushes take most of the time.
const ENOUGH: u64 = 8;
/// New data of which more waits is written in the background, though more may wait: an idle disk would have all of it to write in the end. Where the disk is what all
/// wait for, more waits all the same, and what is deleted in time is not written. As much may wait before it is known how fast the disk is.
const EARLY: u64 = 32 << 20;
/// Nanoseconds for that much in which a disk is so fast that programs do not wait for it: more that waits there saves bytes, and takes time in the end.
const SWIFT: u64 = 250_000_000;
/// Nanoseconds in which the disk has to be able to write what waits: where programs wait for commits, and where none has for long.
const AWAITED: u64 = 100_000_000;
const QUIET: u64 = 1_000_000_000;
/// What one stretch says counts an eighth less with each that follows.
const FADES: f64 = 1.0 - 1.0 / 8.0;

/// How fast a disk drains what waits, where tests say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drains {
    /// Bytes that may wait however slow it is.
    pub least: u64,
    /// Nanoseconds that it takes for a byte, whatever a clock says.
    pub byte_ns: u64,
}

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct Bound {
    /// Bytes that may wait however fast the disk is (`dirty=`).
    most: u64,
    least: u64,
    /// New data that may wait, where nothing is measured.
    kept: Option<u64>,
    told: Option<u64>,
    now: AtomicU64,
    /// Bytes a second; 0 while it is not known.
    rate: AtomicU64,
    state: Mutex<State>,
}

/// Since the last commit, and what all before have said.
#[derive(Debug, Default)]
struct State {
    /// Writes and flushes under way, and since when there is one.
    under_way: u32,
    since: u64,
    /// Bytes that have been written, and the time in which at least one write or flush was under way.
    bytes: u64,
    ns: u64,
    /// Nanoseconds for a byte: a mean, so that what is slow counts for as long as it takes.
    sum: f64,
    weight: f64,
}

impl Bound {
    /// `most` bytes may wait, and fewer where the disk turns out to be slow; or always `kept` of new data and `most` of all else.
    pub(crate) fn new(most: u64, kept: Option<u64>, drains: Option<Drains>) -> Self {
        Self {
            most,
            least: drains.map_or(LEAST, |drains| drains.least),
            kept,
            told: drains.map(|drains| drains.byte_ns),
            now: AtomicU64::new(most.min(EARLY)),
            rate: AtomicU64::new(0),
            state: Mutex::default(),
        }
    }

    /// Bytes of new data that may wait before operations write it home themselves.
    pub(crate) fn kept(&self) -> u64 {
        self.kept.unwrap_or_else(|| self.dirty())
    }

    /// Bytes of new data that may wait before the background writes it home.
    pub(crate) fn early(&self) -> u64 {
        self.kept().min(EARLY)
    }

    /// Bytes of anything that may wait before somebody makes it durable.
    pub(crate) fn dirty(&self) -> u64 {
        if self.kept.is_some() { self.most } else { self.now.load(Relaxed) }
    }

    /// Bytes that the disk drains in a second; 0 while that is not known.
    pub(crate) fn rate(&self) -> u64 {
        self.rate.load(Relaxed)
    }

    /// Has `work` write `bytes` bytes, or flush.
    ///
    /// # Errors
    /// Those of `work`.
    pub(crate) fn during<T>(&self, env: &dyn Env, bytes: u64, work: impl FnOnce() -> Result<T>) -> Result<T> {
        if self.kept.is_some() {
            return work();
        }
        self.begins(self.now_by(env));
        let done = work();
        self.ends(self.now_by(env), if done.is_ok() { bytes } else { 0 });
        done
    }

    fn now_by(&self, env: &dyn Env) -> u64 {
        if self.told.is_some() { 0 } else { env.monotonic_ns() }
    }

    /// A write or a flush begins.
    fn begins(&self, at: u64) {
        let mut state = self.state.lock();
        if state.under_way == 0 {
            state.since = at;
        }
        state.under_way += 1;
    }

    /// One ends, which has written so many bytes.
    fn ends(&self, at: u64, bytes: u64) {
        let mut state = self.state.lock();
        state.goes_by(at);
        state.under_way -= 1;
        state.bytes = state.bytes.saturating_add(bytes);
        if let Some(each) = self.told {
            state.ns = state.ns.saturating_add(bytes.saturating_mul(each));
        }
    }

    /// A transaction ends and the next one begins, for which what was measured counts from now on. `quiet`: no program has waited for long.
    pub(crate) fn next(&self, env: &dyn Env, quiet: bool) {
        if self.kept.is_none() {
            let moved = self.next_at(self.now_by(env), quiet);
            reach::hit_if(moved, Place::BoundMoved);
        }
    }

    /// True if the bound moves.
    fn next_at(&self, at: u64, quiet: bool) -> bool {
        let Some(each) = self.byte_ns(at) else { return false };
        self.rate.store((1e9 / each) as u64, Relaxed);
        let time = if quiet { QUIET } else { AWAITED };
        let is_swift = EARLY as f64 * each <= SWIFT as f64;
        let most = if is_swift { self.most.min(EARLY) } else { self.most };
        let drained = ((time as f64 / each) as u64).max(self.least).min(most);
        let now = self.now.load(Relaxed);
        if drained.abs_diff(now) < now / 4 || drained == now {
            return false;
        }
        self.now.store(drained.clamp(now / 2, now.saturating_mul(2)), Relaxed);
        true
    }

    /// Nanoseconds for a byte, with what was written since the last call.
    fn byte_ns(&self, at: u64) -> Option<f64> {
        let mut state = self.state.lock();
        if state.under_way > 0 {
            state.goes_by(at);
        }
        let (bytes, ns) = (std::mem::take(&mut state.bytes), std::mem::take(&mut state.ns));
        if bytes >= self.least / ENOUGH && ns > 0 {
            // What is slower than the least bound knows says no more, and is over sooner.
            let each = (ns as f64 / bytes as f64).min(QUIET as f64 / self.least.max(1) as f64);
            (state.sum, state.weight) = (state.sum * FADES + each, state.weight * FADES + 1.0);
        }
        (state.weight > 0.0).then(|| state.sum / state.weight)
    }
}

impl State {
    /// It is `at` now, and something is under way. A clock that goes back takes nothing back.
    fn goes_by(&mut self, at: u64) {
        self.ns = self.ns.saturating_add(at.saturating_sub(self.since));
        self.since = at;
    }
}

#[cfg(test)]
mod tests;
