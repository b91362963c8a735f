//! Lanes: rings of records, each written by the threads of one process.

use crate::Log;
use crate::durable_word::DurableWord;
use crate::error::Result;
use crate::format::{HEAD, LINE, RecordHead, SEQUENCES, SKIP, SlotKey, VALUE, lane};
use crate::lock;
use ondol_env::sync::untold;
use zerocopy::{FromZeros, IntoBytes};

/// A lane of a log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lane<'l> {
    pub(crate) log: &'l Log,
    pub(crate) index: u32,
    /// Where its words lie in the pool.
    pub(crate) words: u64,
    /// Where its ring begins.
    pub(crate) ring: u64,
}

impl<'l> Lane<'l> {
    fn len(&self) -> u64 {
        self.log.header.lane_len
    }

    fn load(&self, word: u64) -> Result<u64> {
        Ok(self.log.nvm.shared().load_u64(self.words + word)?)
    }

    /// The position of the first record that may be live.
    pub(crate) fn head(&self) -> DurableWord<'l> {
        let at = [lane::HEAD, lane::ROOM].map(|word| self.words + word);
        DurableWord::new(self.log, at, &[self.index.into()], "the head of a lane")
    }

    /// The position behind the last record.
    pub(crate) fn tail(&self) -> Result<u64> {
        // As far as a head can say: a shared word may hold anything.
        Ok(self.load(lane::TAIL)? & VALUE)
    }

    /// Nobody who lives has it.
    pub(crate) fn is_free(&self, me: u64) -> Result<bool> {
        let owner = self.load(lane::OWNER)?;
        Ok(owner == 0 || owner != me && lock::is_gone(owner, me))
    }

    /// There is room for a record of `span` bytes, wherever the ring ends.
    pub(crate) fn has_room(&self, span: u64) -> Result<bool> {
        let (used, len) = self.used()?;
        let left = len - self.tail()? % len;
        Ok(used + span + if span > left { left } else { 0 } <= len)
    }

    /// Makes the lane the caller's, if nobody who lives has it.
    pub(crate) fn claim(&self, me: u64) -> Result<bool> {
        let owner = self.load(lane::OWNER)?;
        let free = owner == 0 || lock::is_gone(owner, me);
        Ok(free && self.log.nvm.shared().cas_u64(self.words + lane::OWNER, owner, me)?.is_ok())
    }

    /// Leaves the lane to others, if it is the caller's.
    pub(crate) fn disown(&self, me: u64) -> Result<()> {
        Ok(self.log.nvm.shared().cas_u64(self.words + lane::OWNER, me, 0).map(drop)?)
    }

    /// Bytes up to which the lane is used, of those it has.
    pub(crate) fn used(&self) -> Result<(u64, u64)> {
        Ok((self.tail()?.saturating_sub(self.head().durable()?), self.len()))
    }

    /// Stores a record behind the last one; answers the position behind it, or none if there is no room. It is not
    /// durable.
    pub(crate) fn append(&self, me: u64, head: RecordHead, payload: &[&[u8]]) -> Result<Option<u64>> {
        let len: u64 = payload.iter().map(|part| part.len() as u64).sum();
        let nvm = &self.log.nvm;
        let Some(_held) = lock::lock(nvm, self.words + lane::LOCK, me) else { return Ok(None) };
        let tail = self.tail()?;
        let span = RecordHead::span(len);
        let left = self.len() - tail % self.len();
        let skipped = if span > left { left } else { 0 };
        if span > self.len() || tail.saturating_sub(self.head().durable()?) + skipped + span > self.len() {
            return Ok(None);
        }
        if skipped > 0 {
            let skip = RecordHead { slot: SKIP.into(), ..RecordHead::new_zeroed() };
            self.put(tail, skip, &[])?;
        }
        let position = tail + skipped;
        self.put(position, RecordHead { len: (len as u32).into(), ..head }, payload)?;
        nvm.shared().store_u64(self.words + lane::TAIL, position + span)?;
        Ok(Some(position + span))
    }

    fn put(&self, position: u64, head: RecordHead, payload: &[&[u8]]) -> Result<()> {
        let mut head = RecordHead { position: position.into(), ..head };
        head.checksum = head.sum(self.log.seal, self.index, payload).into();
        let mut at = self.ring + position % self.len();
        self.log.nvm.shared().store(at, head.as_bytes())?;
        at += HEAD as u64;
        for part in payload {
            self.log.nvm.shared().store(at, part)?;
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Makes everything before the position `end` durable.
    pub(crate) fn persist(&self, end: u64) -> Result<()> {
        let nvm = &self.log.nvm;
        let durable = self.load(lane::DURABLE)?;
        // Whoever is killed between two words of a slot leaves an end that is of another lane.
        let end = end.min(self.tail()?);
        if durable >= end {
            return Ok(());
        }
        let (from, to) = (durable % self.len(), end % self.len());
        let mut batch = nvm.stored();
        if end - durable >= self.len() {
            batch.others(self.ring, self.len())?;
        } else if from < to {
            batch.others(self.ring + from, to - from)?;
        } else {
            batch.others(self.ring, to)?;
            batch.others(self.ring + from, self.len() - from)?;
        }
        let fenced = self.log.fence(batch)?;
        untold();
        let mut seen = durable;
        while seen < end {
            match fenced.tell_if(self.words + lane::DURABLE, seen, end)? {
                Ok(()) => break,
                Err(now) => seen = now,
            }
        }
        Ok(())
    }

    /// The head of the record at `position`, as it lies there.
    pub(crate) fn record_head(&self, position: u64) -> Result<RecordHead> {
        let mut head = RecordHead::new_zeroed();
        self.log.nvm.read(self.ring + position % self.len(), head.as_mut_bytes())?;
        Ok(head)
    }

    /// The record at `position` with its payload and the position behind it; none if it is not whole.
    pub(crate) fn record(&self, position: u64) -> Result<Option<(RecordHead, Vec<u8>, u64)>> {
        let at = position % self.len();
        let head = self.record_head(position)?;
        let len = u64::from(head.len.get());
        if head.position.get() != position || RecordHead::span(len) > self.len() - at || len > self.len() {
            return Ok(None);
        }
        let mut payload = vec![0; len as usize];
        self.log.nvm.read(self.ring + at + HEAD as u64, &mut payload)?;
        let in_a_file = head.offset.get().checked_add(len).is_some_and(|end| i64::try_from(end).is_ok());
        // Words that tell what is retired have no room for more.
        let known = head.sequence.get() < SEQUENCES;
        let whole = in_a_file && known && head.checksum.get() == head.sum(self.log.seal, self.index, &[&payload]);
        Ok(whole.then(|| (head, payload, self.behind(position, &head))))
    }

    /// The position behind a record.
    pub(crate) fn behind(&self, position: u64, head: &RecordHead) -> u64 {
        match head.slot.get() {
            SKIP => position - position % self.len() + self.len(),
            _ => position + RecordHead::span(head.len.get().into()),
        }
    }

    /// Recovery would bring the record in.
    fn is_live(&self, record: &RecordHead) -> Result<bool> {
        for SlotKey { index, incarnation } in record.slots().filter(|key| key.index < self.log.header.slots) {
            if self.log.slot(index).has_live(incarnation, record.sequence.get())? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Moves the head over what is retired, durably. Whoever finds that another has done so meanwhile leaves it.
    pub(crate) fn advance(&self) -> Result<()> {
        let head = self.head();
        // Not from the durable one: for as long as this one stays, nobody uses the room of what lies behind it.
        let seen = head.stored()?;
        let (mut at, tail) = (seen.value, self.tail()?.min(seen.value + self.len()));
        while at < tail {
            let record = self.record_head(at)?;
            if record.position.get() != at {
                // The head has moved, and somebody has written here.
                return Ok(());
            }
            if record.slot.get() != SKIP && self.is_live(&record)? {
                break;
            }
            at = self.behind(at, &record);
        }
        head.grow(seen, at).map(drop)
    }
}

const _: () = assert!(HEAD as u64 == LINE);
