//! The shipper: brings to the bucket what the local log has, in order.

use super::books::Books;
use super::{LOOK, Log};
use crate::home::keeper::Keeper;
use crate::home::settle::{self, Flusher, Turn};
use crate::home::{HomeError, bounded};
use ondol_env::{Env, System};
use std::sync::Arc;
use std::time::Duration;

/// What it needs. It has nothing of the log's medium, which belongs to others as soon as the volume is gone.
pub(in crate::home) struct Shipper {
    pub(in crate::home) name: String,
    pub(in crate::home) flusher: Flusher,
    pub(in crate::home) turn: Arc<Turn>,
    pub(in crate::home) keeper: Keeper,
    pub(in crate::home) books: Arc<Books>,
    pub(in crate::home) timeout: Option<Duration>,
}

impl Shipper {
    /// Ships until the writer has ended for good. The database has the batches already: they are shipped by flushing
    /// its log.
    pub(in crate::home) async fn run(self) {
        while self.turn.require().is_ok() {
            if self.turn.settled() >= self.turn.newest() {
                self.books.bell.notified().await;
                continue;
            }
            let patience = self.books.patience(self.turn.settled());
            if patience > Duration::ZERO {
                // Rung or not: it is looked at again.
                let _ = tokio::time::timeout(patience, self.books.bell.notified()).await;
                continue;
            }
            if let Err(e) = self.ship().await {
                self.turn.fail(settle::explain(&self.keeper, e).await);
            }
        }
    }

    async fn ship(&self) -> Result<(), HomeError> {
        let (newest, seq) = self.turn.newest_and_seq();
        let (before, began) = (self.books.lag(self.turn.settled()).bytes, System.monotonic_ns());
        let flushed = self.flusher.durable(seq);
        bounded(self.name.clone(), "shipping what is in the local log", self.timeout, flushed).await?;
        let took = Duration::from_nanos(System.monotonic_ns().saturating_sub(began));
        self.books.shipped(before, took);
        if self.turn.leave(Some(newest)) {
            let flusher = self.flusher.clone();
            tokio::spawn(async move { flusher.shorten().await });
        }
        Ok(())
    }
}

/// Waits until batch `number` is in the bucket.
pub(in crate::home) fn shipped(turn: &Turn, log: &Log, number: u64) -> Result<(), HomeError> {
    loop {
        turn.require()?;
        let settled = turn.settled();
        if settled >= number {
            return Ok(());
        }
        log.books().urge(number);
        turn.moved(settled, LOOK);
    }
}
