//! Group commit: one flush of the database's log at a time, which serves everybody who waited when it began.
//!
//! *A false fence*: over a store that cannot keep an attribute with an object (`file://`), a put that was done and
//! whose answer was lost looks, when it is repeated, like another writer's. The database then takes itself for fenced
//! although nobody took over. Nothing is lost: opening again replays the object. So a newer lease is looked for before
//! one is named.

use super::bypass::{Begun, Beside, Bypass, NOTE_KEY};
use super::error::is_fence;
use super::keeper::Keeper;
use super::{HomeError, Writing, bounded, hand_over, local};
use ondol_env::sync::{Condvar, Mutex};
use slatedb::config::{FlushOptions, FlushType};
use slatedb::{Db, WriteBatch};
use std::sync::Arc;
use std::time::Duration;

/// After so many flushes of the log, what they hold is written as an object of the database, so that an opening has
/// little to replay.
const REPLAYED: u32 = 256;

/// So long is a newer lease looked for, to say who took over.
const ASKED: Duration = Duration::from_secs(5);

/// Whose turn it is to flush, how far it has come, and whether it has ended for good.
#[derive(Default)]
pub(super) struct Turn {
    state: Mutex<State>,
    bell: Condvar,
}

#[derive(Default)]
struct State {
    /// The newest batch, and the database's own number for it.
    newest: (u64, u64),
    /// All batches up to this one are durable.
    settled: u64,
    /// Somebody flushes.
    flying: bool,
    /// Flushes of which nobody has asked to have their contents written.
    replayed: u32,
    failed: Option<Arc<HomeError>>,
}

impl Turn {
    /// Everything up to batch `number` is durable already.
    pub(super) fn new(number: u64) -> Self {
        Self {
            state: Mutex::new(State { newest: (number, 0), settled: number, ..State::default() }),
            bell: Condvar::new(),
        }
    }

    pub(super) fn submitted(&self, number: u64, seq: u64) {
        self.state.lock().newest = (number, seq);
    }

    /// The newest batch that was submitted.
    pub(super) fn newest(&self) -> u64 {
        self.state.lock().newest.0
    }

    /// As [`Turn::newest`], and the database's own number for it.
    pub(super) fn newest_and_seq(&self) -> (u64, u64) {
        self.state.lock().newest
    }

    /// The newest batch that is durable in the bucket.
    pub(super) fn settled(&self) -> u64 {
        self.state.lock().settled
    }

    /// Waits until more is durable in the bucket than `settled`, or it has ended, but no longer than `limit`.
    pub(super) fn moved(&self, settled: u64, limit: Duration) {
        let mut state = self.state.lock();
        if state.settled == settled && state.failed.is_none() {
            self.bell.wait_for(&mut state, limit);
        }
    }

    /// Ends it for good, with this error if it is the first one. Returns the first one.
    pub(super) fn fail(&self, error: HomeError) -> HomeError {
        let mut state = self.state.lock();
        let first = state.failed.get_or_insert_with(|| Arc::new(error));
        let first = HomeError::clone(first);
        self.bell.notify_all();
        first
    }

    /// It has not ended.
    pub(super) fn require(&self) -> Result<(), HomeError> {
        match &self.state.lock().failed {
            Some(error) => Err(HomeError::clone(error)),
            None => Ok(()),
        }
    }

    /// Waits until `number` is settled or it is the caller's turn: the newest batch and its number of the database.
    fn enter(&self, number: u64) -> Result<Option<(u64, u64)>, HomeError> {
        let mut state = self.state.lock();
        loop {
            if let Some(error) = &state.failed {
                return Err(HomeError::clone(error));
            }
            if state.settled >= number {
                return Ok(None);
            }
            if !state.flying {
                state.flying = true;
                return Ok(Some(state.newest));
            }
            self.bell.wait(&mut state);
        }
    }

    /// The turn ends: everything up to `settled` is durable, if it is. True: there is much to replay.
    pub(super) fn leave(&self, settled: Option<u64>) -> bool {
        let mut state = self.state.lock();
        state.flying = false;
        let Some(settled) = settled else {
            self.bell.notify_all();
            return false;
        };
        state.settled = settled;
        state.replayed += 1;
        let is_much = state.replayed >= REPLAYED;
        if is_much {
            state.replayed = 0;
        }
        self.bell.notify_all();
        is_much
    }
}

impl Writing<'_> {
    /// Waits until batch `number`, which was submitted, is durable in the bucket.
    pub(super) fn settle_to(self, number: u64) -> Result<(), HomeError> {
        if let Some(log) = &self.log {
            return local::shipped(&self.turn, log, number);
        }
        let Some((newest, seq)) = self.turn.enter(number)? else { return Ok(()) };
        match self.flush_log(seq) {
            // The lease may be known to be lost since.
            Ok(()) => {
                if self.turn.leave(Some(newest)) {
                    self.shorten_replay();
                }
                self.turn.require()
            }
            Err(e) => {
                let first = self.turn.fail(self.explained(e));
                self.turn.leave(None);
                Err(first)
            }
        }
    }

    fn flush_log(self, seq: u64) -> Result<(), HomeError> {
        self.home.drive("making a batch durable", self.flusher.durable(seq))
    }

    /// Asks for it and does not wait: if it fails, so does a later flush.
    fn shorten_replay(self) {
        let flusher = self.flusher.clone();
        self.home.border.spawn(async move { flusher.shorten().await });
    }

    /// A fence with the name of whoever is behind it, as far as it can be found.
    pub(super) fn explained(self, error: HomeError) -> HomeError {
        let keeper = self.keeper.clone();
        self.home.border.wait(async move { explain(&keeper, error).await })
    }
}

/// As [`Writing::explained`].
pub(super) async fn explain(keeper: &Keeper, error: HomeError) -> HomeError {
    let HomeError::Fenced { name, .. } = error else { return error };
    let (leases, token) = keeper.leases();
    let what = "finding out who took over";
    let by = match bounded(name.clone(), what, Some(ASKED), async move { leases.other_than(&token).await }).await {
        Ok(Some(by)) => by,
        Ok(None) => "nobody whose lease can be found (an answer of the store may have been lost; what was \
                     acknowledged is there)"
            .to_owned(),
        Err(e) => format!("somebody whose lease cannot be read ({e})"),
    };
    HomeError::Fenced { name, by }
}

/// When sorted objects have taken so long, it is seen to that they do not wait for the log.
const STUCK: Duration = Duration::from_millis(100);

/// Makes durable what the database has.
#[derive(Clone)]
pub(super) struct Flusher {
    pub(super) db: Db,
    pub(super) turn: Arc<Turn>,
    pub(super) name: String,
    /// Of the home's records.
    pub(super) seed: u32,
    pub(super) uuid: [u8; 16],
    pub(super) bypass: Arc<Bypass>,
}

impl Flusher {
    /// The database's batch `seq` and all before it become durable: by its log, or if something has bypassed that, by
    /// its sorted objects. One at a time.
    pub(super) async fn durable(&self, seq: u64) -> Result<(), HomeError> {
        if !self.bypass.is_pending() {
            self.flushed(FlushType::Wal, seq).await?;
            if !self.bypass.is_pending() {
                return Ok(());
            }
        }
        let begun = self.bypass.begin();
        // The database's own manifest may be ahead of the store's: what the flush is given comes into the store.
        let given = self.turn.newest_and_seq().1.max(seq);
        self.sorted(seq, begun).await?;
        // The flush of the log took what came while others were put, which the manifest need not have.
        let put = self.db.status().durable_seq;
        let is_closed = self.bypass.end(begun, given, put);
        self.note(is_closed.then_some(put)).await?;
        if is_closed {
            let _is_open = self.bypass.reopen(begun);
        }
        Ok(())
    }

    /// As [`Self::flushed`], of the sorted objects. These wait for whatever was frozen since, and the manifest for rows
    /// of that which are not in the log yet: whoever would flush it may be waiting for this.
    async fn sorted(&self, seq: u64, begun: Begun) -> Result<(), HomeError> {
        let mut sorted = Box::pin(self.flushed(FlushType::MemTable, seq));
        loop {
            match tokio::time::timeout(STUCK, &mut sorted).await {
                Ok(done) => return done,
                Err(_) => {
                    let is_behind = self.db.status().durable_seq < self.turn.newest_and_seq().1;
                    if is_behind && self.bypass.is_much_since(begun) {
                        self.make_room();
                    }
                }
            }
        }
    }

    async fn flushed(&self, flush_type: FlushType, seq: u64) -> Result<(), HomeError> {
        const WHAT: &str = "to make a batch durable";
        let flushed = self.db.flush_with_options(FlushOptions { flush_type }).await;
        flushed.map_err(|e| fault_of(&self.db, &self.name, WHAT, &e))?;
        let durable = self.db.status().durable_seq;
        if durable < seq {
            let why = format!("a flush ended with batch {durable}, before {seq}");
            return Err(HomeError::Store { name: self.name.clone(), what: WHAT, why });
        }
        Ok(())
    }

    /// Notes what is empty in the log, and if `closed`, which row the manifest must have.
    pub(super) async fn note(&self, closed: Option<u64>) -> Result<(), HomeError> {
        let changed = self.bypass.empty().changed();
        if closed.is_none() && changed.is_none() {
            return Ok(());
        }
        let mut note = self.bypass.noted();
        note.uuid = self.uuid;
        note.seq = closed.unwrap_or(note.seq);
        note.empty = changed.unwrap_or(note.empty);
        let mut batch = WriteBatch::new();
        batch.put(NOTE_KEY, note.encode(self.seed));
        self.bypass.take_note(note);
        hand_over(self, batch).await.map(drop)
    }

    /// Has what an opening would replay written as an object of the database.
    pub(super) async fn shorten(&self) {
        let _beside = self.bypass.beside();
        let options = FlushOptions { flush_type: FlushType::MemTable };
        if let Err(e) = self.db.flush_with_options(options).await {
            tracing::debug!("{}: what would be replayed stays: {e}", self.name);
        }
    }

    /// The log is flushed to make room, which nobody waits for.
    pub(super) fn make_room(&self) {
        if self.bypass.is_beside() {
            return;
        }
        let (db, beside): (Db, Beside) = (self.db.clone(), self.bypass.beside());
        tokio::spawn(async move {
            let flushed = db.flush().await;
            drop(beside);
            flushed
        });
    }
}

/// An error of a writer's database. A task of it that a fence has ended says only that the database is closed: why,
/// that says itself.
pub(super) fn fault_of(db: &Db, name: &str, what: &'static str, e: &slatedb::Error) -> HomeError {
    match db.status().close_reason {
        Some(slatedb::CloseReason::Fenced) => fence(name),
        _ => fault(name, what, e),
    }
}

/// An error of a database that is only being opened, or read.
pub(super) fn fault(name: &str, what: &'static str, e: &slatedb::Error) -> HomeError {
    if is_fence(e) { fence(name) } else { HomeError::of_database(name, what, e) }
}

fn fence(name: &str) -> HomeError {
    HomeError::Fenced { name: name.to_owned(), by: String::new() }
}
