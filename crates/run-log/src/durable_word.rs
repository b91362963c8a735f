//! Words on the medium that only grow, and what of them is durable.
//!
//! Others see a word on the medium before it is durable. So a copy of it lies among the shared words, and is stored
//! only after the fence: whoever decides whether room is used again or an fsync is answered asks the copy. Recovery
//! asks the medium. No crash leaves a copy that is ahead of its word.

use crate::Log;
use crate::error::{Result, RunLogError};
use crate::format::{checked_word, named_seal, word_value};
use ondol_env::sync::untold;

/// A word of a log, and its copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DurableWord<'l> {
    log: &'l Log,
    /// Where the word lies in the pool.
    at: u64,
    /// Where its copy lies.
    copy: u64,
    /// What its check goes on from.
    seal: u32,
    what: &'static str,
}

/// A word as it was on the medium.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    word: u64,
    pub(crate) value: u64,
}

impl<'l> DurableWord<'l> {
    pub(crate) fn new(log: &'l Log, [at, copy]: [u64; 2], named: &[u64], what: &'static str) -> DurableWord<'l> {
        Self { log, at, copy, seal: named_seal(log.seal, named), what }
    }

    /// The value that the word has durably.
    pub(crate) fn durable(&self) -> Result<u64> {
        self.value_at(self.copy, self.log.nvm.shared().load_u64(self.copy)?)
    }

    /// The value on the medium, as recovery finds it. While processes run it need not be durable.
    pub(crate) fn stored(&self) -> Result<Seen> {
        let word = self.log.nvm.load_u64(self.at)?;
        Ok(Seen { word, value: self.value_at(self.at, word)? })
    }

    /// As [`DurableWord::stored`]; none if the word is somebody else's by now.
    pub(crate) fn stored_if_ours(&self) -> Result<Option<Seen>> {
        let word = self.log.nvm.load_u64(self.at)?;
        Ok(word_value(self.seal, &[], word).map(|value| Seen { word, value }))
    }

    /// Makes the word that was `seen` at least `to`, durably, and tells that. False if the word is another one by now.
    /// Somebody may have stored as much, and have been killed before the fence.
    pub(crate) fn grow(&self, seen: Seen, to: u64) -> Result<bool> {
        if seen.value >= to && self.durable().is_ok_and(|durable| durable >= to) {
            return Ok(true);
        }
        let (log, to) = (self.log, to.max(seen.value));
        let new = checked_word(self.seal, &[], to);
        let mut batch = log.nvm.stored();
        if batch.cas_u64(self.at, seen.word, new)?.is_err() {
            return Ok(false);
        }
        untold();
        let fenced = log.fence(batch)?;
        untold();
        let mut told = log.nvm.shared().load_u64(self.copy)?;
        // Others may have told more; or it is somebody else's by now.
        while word_value(self.seal, &[], told).is_some_and(|value| value < to) {
            match fenced.tell_if(self.copy, told, new)? {
                Ok(()) => break,
                Err(now) => told = now,
            }
        }
        Ok(true)
    }

    fn value_at(&self, at: u64, word: u64) -> Result<u64> {
        let wrong = || RunLogError::Word { pool: self.log.nvm.name().into(), what: self.what, offset: at };
        word_value(self.seal, &[], word).ok_or_else(wrong)
    }
}
