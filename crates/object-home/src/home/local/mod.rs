//! The local log of `durable=local`: what is acknowledged is durable in a log on this machine, and goes to the bucket
//! later, in order.
//!
//! ```text
//!   submit   wait for room │ the database takes the batch, in memory │ its record is written to the ring
//!   settle   one persist of the medium at a time serves all who wait
//!   shipper  flushes the database's log, when enough waits or it has waited long enough     ship
//!   opening  may this log be used?                                                           judge
//!            batches behind the bucket's newest are submitted again, in order                join
//! ```
//!
//! Invariants:
//!
//! - The database has every batch as soon as it is submitted, so reads never look here. The log is read at an opening
//!   and at no other time.
//! - A record is written over only when its batch is in the bucket, and the header that says so is durable.
//! - Records of an epoch are written when the bucket has that epoch, and only then. An empty log may be one epoch
//!   ahead.
//! - A batch that is in no record (it is too large, or changes the bucket's header) is in the bucket before anything
//!   comes after it, and the log begins anew behind it.

mod books;
mod dump;
mod format;
mod join;
mod judge;
mod medium;
mod ring;
mod ship;

pub use books::Lag;
pub use dump::{LogContents, LoggedBatch, LoggedRanges};
pub use medium::{LogMedium, RedoFile, RedoNvm};

pub(super) use judge::{Joined, NONE, judge};
pub(super) use ring::Survey;
pub(super) use ship::{Shipper, shipped};

use super::HomeError;
use super::change::Put;
use super::settle::Turn;
use books::Books;
use format::{LogHeader, Moment, Tail, encode_record, record_len};
use ondol_env::sync::{Condvar, Mutex};
use ondol_env::{Env, System};
use ring::Ring;
use std::sync::Arc;
use std::time::Duration;

/// What waits is in memory, too; so there is a bound that no log raises by itself.
const MOST: u64 = 64 << 20;

/// Whoever waits for something to be shipped looks again after so long.
const LOOK: Duration = Duration::from_secs(1);

/// A local log, and how far the bucket may be behind it.
#[derive(Clone, Debug)]
pub struct Local {
    /// Where the log is.
    pub medium: Arc<dyn LogMedium>,
    /// The most bytes that wait for the bucket. None: three quarters of the log, but 64 MiB at most. They are in memory
    /// as well.
    pub lag: Option<u64>,
    /// For how long something may wait before nothing is taken any more.
    pub lag_time: Duration,
    /// So long the shipper waits for more, as long as little waits: the longer, the fewer requests.
    pub gather: Duration,
}

impl Local {
    /// A log on `medium`, with the usual bounds.
    pub fn new(medium: Arc<dyn LogMedium>) -> Self {
        Self { medium, lag: None, lag_time: Duration::from_secs(30), gather: Duration::from_secs(1) }
    }

    /// The most bytes that wait for the bucket.
    pub(super) fn bound(&self) -> u64 {
        let quarters = self.medium.size() / 4 * 3;
        self.lag.unwrap_or(MOST).min(quarters)
    }
}

/// The local log of an open volume.
pub(super) struct Log {
    ring: Mutex<Ring>,
    medium: Arc<dyn LogMedium>,
    state: Mutex<State>,
    bell: Condvar,
    books: Arc<Books>,
}

#[derive(Default)]
struct State {
    /// The newest batch whose record is written.
    written: u64,
    /// All batches up to this one are durable here, or in the bucket.
    logged: u64,
    /// Somebody persists.
    flying: bool,
}

impl Log {
    /// In this ring, in which nothing is written before [`Log::begin`].
    fn new(local: &Local, ring: Ring) -> Self {
        let books = Books::new(local.bound(), local.lag_time, local.gather);
        Self {
            ring: Mutex::new(ring),
            medium: local.medium.clone(),
            state: Mutex::default(),
            bell: Condvar::new(),
            books: Arc::new(books),
        }
    }

    pub(super) fn books(&self) -> &Arc<Books> {
        &self.books
    }

    /// The bounds: bytes and time.
    pub(super) fn bounds(&self) -> (u64, Duration) {
        self.books.bounds()
    }

    /// Everything before batch `number` is in the bucket: the log is empty, and begins with that one, in this epoch.
    pub(super) fn begin(&self, epoch: u64, number: u64) -> Result<(), HomeError> {
        let mut ring = self.ring.lock();
        let tail = Tail { position: ring.head, number };
        let header = LogHeader { tail, epoch, ..ring.header };
        ring.write_header(header)?;
        self.books.release(number - 1);
        let mut state = self.state.lock();
        state.written = state.written.max(number - 1);
        state.logged = state.logged.max(number - 1);
        drop(state);
        self.bell.notify_all();
        Ok(())
    }

    /// As [`Log::begin`], in the same epoch.
    pub(super) fn begin_again(&self, number: u64) -> Result<(), HomeError> {
        let epoch = self.ring.lock().header.epoch;
        self.begin(epoch, number)
    }

    /// The record of such a batch can be in the log.
    pub(super) fn takes(&self, puts: &[Put]) -> bool {
        let ring = self.ring.lock();
        ring.taken(record_len(puts)) <= ring.header.ring / 2
    }

    /// Waits until a record of `puts` may be written: the bucket is not too far behind, and the ring has room. Only who
    /// orders batches calls this.
    pub(super) fn admit(&self, turn: &Turn, puts: &[Put]) -> Result<(), HomeError> {
        let len = record_len(puts);
        loop {
            turn.require()?;
            let settled = turn.settled();
            let lag = self.books.lag(settled);
            if !self.books.is_full(lag, len) && self.make_room(turn, len)? {
                break;
            }
            self.books.urge(turn.newest());
            turn.moved(settled, LOOK);
        }
        self.hold_up(turn, len)
    }

    /// The nearer the bounds are, the longer.
    fn hold_up(&self, turn: &Turn, len: u64) -> Result<(), HomeError> {
        let mut left = self.books.pause(self.books.lag(turn.settled()), len);
        while left > Duration::ZERO {
            self.books.urge(turn.newest());
            let settled = turn.settled();
            let began = System.monotonic_ns();
            turn.moved(settled, left);
            turn.require()?;
            left = left.saturating_sub(Duration::from_nanos(System.monotonic_ns() - began));
            // What was shipped meanwhile may make waiting needless.
            left = left.min(self.books.pause(self.books.lag(turn.settled()), len));
        }
        Ok(())
    }

    /// Whether the ring has room for a record, now that what was shipped is given back.
    fn make_room(&self, turn: &Turn, len: u64) -> Result<bool, HomeError> {
        let mut ring = self.ring.lock();
        if ring.fits(len) {
            return Ok(true);
        }
        let settled = turn.settled();
        let next = self.state.lock().written + 1;
        let (position, number) = self.books.release(settled).unwrap_or((ring.head, next));
        if position > ring.header.tail.position {
            ring.cut(Tail { position, number }).map_err(|e| turn.fail(e))?;
        }
        Ok(ring.fits(len))
    }

    /// The record of batch `number`, the next one, for [`Log::append`]. Only who orders batches calls this, and nothing
    /// else of the log in between.
    pub(super) fn record(&self, turn: &Turn, number: u64, puts: &[Put]) -> Vec<u8> {
        let ring = self.ring.lock();
        let logged = self.state.lock().logged;
        let (position, time) = (ring.head, System.now().sec);
        encode_record(ring.seal, Moment { position, number, shipped: turn.settled(), logged, time }, puts)
    }

    /// Writes the record of batch `number`, which the database has, and for which there is room.
    pub(super) fn append(&self, number: u64, record: Vec<u8>) -> Result<(), HomeError> {
        let mut ring = self.ring.lock();
        let (position, len) = (ring.head, record.len() as u64);
        ring.append(record)?;
        self.state.lock().written = number;
        drop(ring);
        self.books.add(number, position, len);
        Ok(())
    }

    /// Waits until batch `number`, which was submitted, is durable: in the log, or in the bucket.
    pub(super) fn settle(&self, turn: &Turn, number: u64) -> Result<(), HomeError> {
        let mut state = self.state.lock();
        loop {
            // Whoever has lost the volume acknowledges nothing, whatever the log has.
            turn.require()?;
            if state.logged.max(turn.settled()) >= number {
                return Ok(());
            }
            if state.flying {
                self.bell.wait(&mut state);
                continue;
            }
            state.flying = true;
            let written = state.written;
            drop(state);
            let persisted = self.medium.persist().map_err(|e| ring::failed(&*self.medium, "to persist", &e));
            state = self.state.lock();
            state.flying = false;
            self.bell.notify_all();
            match persisted {
                Ok(()) => state.logged = state.logged.max(written),
                Err(e) => return Err(turn.fail(e)),
            }
        }
    }
}
