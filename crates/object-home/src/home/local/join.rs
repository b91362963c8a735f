//! What a volume does with its local log.

use super::format::Logged;
use super::judge::Joined;
use super::ring::Survey;
use super::{Lag, Log, Shipper};
use crate::home::change::Put;
use crate::home::record::Header;
use crate::home::store::UNSEEN;
use crate::home::{Home, HomeError, Order, Writing};
use std::time::Duration;

/// So much of a log is brought to the bucket at once.
const STEP: u64 = 8 << 20;

impl Home {
    /// Brings everything to the bucket that was written, submitted and discarded before.
    ///
    /// # Errors
    /// The volume is open for reading; the store fails, or somebody else has taken over.
    pub fn ship(&self) -> Result<(), HomeError> {
        let writer = self.writer()?;
        let mut order = writer.order.lock();
        writer.put_loose(&mut order)?;
        let number = order.number;
        drop(order);
        writer.settle_to(number)
    }

    fn puts_of(&self, logged: Logged) -> Result<Vec<Put>, HomeError> {
        let mut puts: Vec<Put> =
            logged.chunks.into_iter().map(|(number, value)| (number, Some(value.into()))).collect();
        for (first, count) in logged.runs {
            let run = first..first + count;
            if count <= UNSEEN {
                puts.extend(run.map(|number| (number, None)));
            } else {
                puts.extend(self.keyed(run)?.into_iter().map(|number| (number, None)));
            }
        }
        Ok(puts)
    }

    /// How far the bucket is behind the local log. None: there is no log.
    pub fn lag(&self) -> Option<Lag> {
        let writer = self.writer.as_ref()?;
        Some(writer.log.as_ref()?.books().lag(writer.turn.settled()))
    }

    /// How far behind it may be: bytes and time.
    pub fn lag_bounds(&self) -> Option<(u64, Duration)> {
        Some(self.writer.as_ref()?.log.as_ref()?.bounds())
    }

    /// The UUID of the local log.
    pub fn log(&self) -> Option<[u8; 16]> {
        self.writer.as_ref()?.log.as_ref().map(|_| self.header.log)
    }

    /// What the user is to know about a local log, in one sentence.
    pub fn warning(&self) -> Option<String> {
        let (bytes, time) = self.lag_bounds()?;
        Some(format!(
            "If this machine is lost, what was acknowledged in the last {} seconds (at most {bytes} bytes) is lost, \
             and the volume is as it was before.",
            time.as_secs()
        ))
    }
}

impl Writing<'_> {
    /// Hands a batch over. With a local log it has a record there, or is in the bucket when this returns.
    pub(in crate::home) fn take(self, order: &mut Order, puts: Vec<Put>) -> Result<(), HomeError> {
        let Some(log) = &self.log else { return self.put(order, puts, None) };
        if !log.takes(&puts) {
            self.put(order, puts, None)?;
            return self.bring(order);
        }
        log.admit(&self.turn, &puts)?;
        let record = log.record(&self.turn, order.number + 1, &puts);
        self.put(order, puts, None)?;
        log.append(order.number, record).map_err(|e| self.turn.fail(e))
    }

    /// A batch that changes the header. It is in the bucket when this returns.
    pub(in crate::home) fn put_header(self, order: &mut Order, header: Header) -> Result<(), HomeError> {
        self.put(order, vec![], Some(header))?;
        self.bring(order)
    }

    /// Everything so far is in the bucket when this returns, and a local log is empty.
    fn bring(self, order: &Order) -> Result<(), HomeError> {
        self.settle_to(order.number)?;
        match &self.log {
            Some(log) => log.begin_again(order.number + 1).map_err(|e| self.turn.fail(e)),
            None => Ok(()),
        }
    }

    /// Waits until batch `number`, which was submitted, is durable: in the local log if there is one, in the bucket
    /// otherwise.
    pub(in crate::home) fn make_durable(self, number: u64) -> Result<(), HomeError> {
        match &self.log {
            Some(log) => log.settle(&self.turn, number),
            None => self.settle_to(number),
        }
    }

    /// Starts the shipper.
    pub(in crate::home) fn start_shipper(self) {
        let Some(log) = &self.log else { return };
        let shipper = Shipper {
            name: self.home.bucket.name.clone(),
            flusher: self.flusher.clone(),
            turn: self.turn.clone(),
            keeper: self.keeper.clone(),
            books: log.books().clone(),
            timeout: self.home.timeout,
        };
        self.home.border.spawn(shipper.run());
    }

    /// Brings to the bucket what the local log has and the bucket has not, and begins the log anew in the next epoch.
    pub(in crate::home) fn join(self, order: &mut Order, survey: Option<&Survey>) -> Result<(), HomeError> {
        let Some(log) = &self.log else { return Ok(()) };
        if let Some(survey) = survey {
            let behind = survey.behind(order.number);
            if behind > 0 {
                let name = &self.home.bucket.name;
                tracing::info!("{name}: {behind} transactions of the local log are brought to the bucket");
            }
            self.replay(order, log)?;
        }
        log.begin(self.home.header.epoch, order.number + 1)
    }

    fn replay(self, order: &mut Order, log: &Log) -> Result<(), HomeError> {
        let ring = log.ring.lock();
        let damaged = |what: String| HomeError::LogDamaged { log: ring.name().to_owned(), what };
        let mut waiting = 0;
        ring.each(|head, body| {
            if head.number <= order.number {
                return Ok(());
            }
            let logged = head.contents(&body).map_err(damaged)?;
            drop(body);
            let chunks = self.home.len() / self.home.format.size().bytes() as u64;
            if !logged.is_inside(chunks) {
                return Err(damaged(format!("batch {} is of a volume that was larger", head.number)));
            }
            let is_whole = logged.check(&self.home.format);
            is_whole.map_err(|e| damaged(format!("batch {}: {e}", head.number)))?;
            let puts = self.home.puts_of(logged)?;
            self.put(order, puts, None)?;
            waiting += head.len;
            if waiting >= STEP {
                waiting = 0;
                self.settle_to(order.number)?;
            }
            Ok(())
        })?;
        drop(ring);
        self.settle_to(order.number)
    }
}

impl Joined {
    /// Its parts, for who has no log as well.
    pub(in crate::home) fn split(joined: Option<Self>) -> (Option<Log>, Option<Survey>) {
        joined.map_or((None, None), |joined| (Some(joined.log), joined.survey))
    }
}
