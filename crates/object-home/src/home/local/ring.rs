//! The ring of records on a medium: finding it, going through it, appending, giving space back.

use super::format::{HEAD, Head, LogHeader, PAGE, RING_AT, Seal, Tail};
use super::medium::LogMedium;
use crate::home::HomeError;
use std::io::Error;
use std::sync::Arc;

/// Units that a ring has at least.
const LEAST: u64 = 4;

/// The ring of one log.
#[derive(Debug)]
pub(super) struct Ring {
    medium: Arc<dyn LogMedium>,
    pub(super) header: LogHeader,
    pub(super) seal: Seal,
    /// Where the next record goes.
    pub(super) head: u64,
}

/// What a log holds, all of it that is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::home) struct Survey {
    /// Number of the first batch that the log has or could have.
    pub(super) first: u64,
    /// Number of the first batch that it has not.
    pub(super) next: u64,
    /// Where the record of that one would be.
    pub(super) end: u64,
    /// The newest batch that some record calls shipped.
    pub(super) shipped: u64,
    /// The newest batch that some record calls durable.
    pub(super) logged: u64,
    /// Bytes of its records.
    pub(super) bytes: u64,
}

impl Survey {
    /// Batches that are not in a bucket whose newest is `newest`.
    pub(super) fn behind(&self, newest: u64) -> u64 {
        self.next.saturating_sub(self.first.max(newest.saturating_add(1)))
    }

    /// A batch that was durable in the log, is not in the bucket, and cannot be read.
    pub(super) fn lost(&self, newest: u64) -> Option<u64> {
        let missing = self.next.max(newest.saturating_add(1));
        (self.logged >= missing).then_some(missing)
    }
}

/// The bytes of the ring on a medium, if it has room for one.
pub(super) fn room(medium: &dyn LogMedium) -> Result<u64, HomeError> {
    let unit = medium.unit();
    let ring = medium.size().saturating_sub(RING_AT) / unit * unit;
    let least = LEAST * unit;
    if ring < least {
        let (log, size) = (medium.name().to_owned(), medium.size());
        return Err(HomeError::LogSmall { log, size, least: RING_AT + least });
    }
    Ok(ring)
}

/// The header that a medium holds. None: it holds nothing.
pub(super) fn find(medium: &dyn LogMedium) -> Result<Option<LogHeader>, HomeError> {
    let ring = room(medium)?;
    let (mut first, mut second) = (vec![0; PAGE], vec![0; PAGE]);
    read(medium, 0, &mut first)?;
    read(medium, PAGE as u64, &mut second)?;
    let damaged = |what: String| HomeError::LogDamaged { log: medium.name().to_owned(), what };
    let header = match (LogHeader::decode(&first), LogHeader::decode(&second)) {
        (Ok(None), Ok(None)) => return Ok(None),
        // The second copy is written when the first is durable: a log whose making was cut off.
        (Err(_), Ok(None)) if LogHeader::is_torn(&first) => return Ok(None),
        (Ok(Some(a)), Ok(Some(b))) => {
            if b.generation > a.generation {
                b
            } else {
                a
            }
        }
        (Ok(Some(header)), _) | (_, Ok(Some(header))) => header,
        (Err(what), _) | (_, Err(what)) => return Err(damaged(what)),
    };
    if header.ring > ring || header.unit != medium.unit() {
        let (it, unit) = (header.ring, header.unit);
        return Err(damaged(format!(
            "it was made for a ring of {it} bytes in units of {unit}, which is not what is here"
        )));
    }
    Ok(Some(header))
}

impl Ring {
    /// A ring as its header says, whose next record goes to `head`.
    pub(super) fn new(medium: Arc<dyn LogMedium>, header: LogHeader, head: u64) -> Self {
        Self { medium, seal: Seal::new(&header), header, head }
    }

    pub(super) fn name(&self) -> &str {
        self.medium.name()
    }

    /// Bytes that a record of `len` takes.
    pub(super) fn taken(&self, len: u64) -> u64 {
        len.next_multiple_of(self.header.unit)
    }

    /// Whether a record of `len` bytes fits behind the others.
    pub(super) fn fits(&self, len: u64) -> bool {
        self.head + self.taken(len) - self.header.tail.position <= self.header.ring
    }

    /// Writes a record, which fits. It is durable when the medium has been asked for that.
    pub(super) fn append(&mut self, mut record: Vec<u8>) -> Result<(), HomeError> {
        record.resize(self.taken(record.len() as u64) as usize, 0);
        let (at, before) = self.place(self.head, record.len());
        write(&*self.medium, at, &record[..before])?;
        if before < record.len() {
            write(&*self.medium, RING_AT, &record[before..])?;
        }
        self.head += record.len() as u64;
        Ok(())
    }

    /// The log begins here from now on, durably: what is before is free when this returns.
    pub(super) fn cut(&mut self, tail: Tail) -> Result<(), HomeError> {
        self.write_header(LogHeader { tail, ..self.header })
    }

    /// Writes a changed header, one copy after the other.
    pub(super) fn write_header(&mut self, header: LogHeader) -> Result<(), HomeError> {
        let header = LogHeader { generation: self.header.generation + 1, ..header };
        let page = header.encode();
        for copy in 0..2 {
            write(&*self.medium, copy * PAGE as u64, &page)?;
            self.medium.persist().map_err(|e| failed(&*self.medium, "to persist", &e))?;
        }
        (self.header, self.seal) = (header, Seal::new(&header));
        Ok(())
    }

    /// Where `len` bytes at `position` begin, and how many of them lie before the end of the ring.
    fn place(&self, position: u64, len: usize) -> (u64, usize) {
        let at = position % self.header.ring;
        (RING_AT + at, (self.header.ring - at).min(len as u64) as usize)
    }

    fn read(&self, position: u64, buf: &mut [u8]) -> Result<(), HomeError> {
        let (at, before) = self.place(position, buf.len());
        let (first, rest) = buf.split_at_mut(before);
        read(&*self.medium, at, first)?;
        if rest.is_empty() { Ok(()) } else { read(&*self.medium, RING_AT, rest) }
    }

    /// The head of the record at `position`, if one of batch `number` is there whole, and what is behind it.
    fn record(&self, position: u64, number: u64) -> Result<Option<(Head, Vec<u8>)>, HomeError> {
        let mut head = [0; HEAD];
        self.read(position, &mut head)?;
        let left = self.header.ring - (position - self.header.tail.position);
        let fits = |head: &Head| {
            (head.position, head.number) == (position, number) && (HEAD as u64..=left).contains(&head.len)
        };
        let Some(head) = Head::decode(self.seal, &head).filter(fits) else { return Ok(None) };
        let mut body = vec![0; head.len as usize - HEAD];
        self.read(position + HEAD as u64, &mut body)?;
        Ok(head.is_whole(self.seal, &body).then_some((head, body)))
    }

    /// Goes through all records that are whole, from the tail on.
    pub(super) fn each(
        &self,
        mut each: impl FnMut(Head, Vec<u8>) -> Result<(), HomeError>,
    ) -> Result<(Tail, u64), HomeError> {
        let (mut at, mut bytes) = (self.header.tail, 0);
        while at.position - self.header.tail.position + HEAD as u64 <= self.header.ring {
            let Some((head, body)) = self.record(at.position, at.number)? else { break };
            at = Tail { position: at.position + self.taken(head.len), number: at.number + 1 };
            bytes += head.len;
            each(head, body)?;
        }
        Ok((at, bytes))
    }

    /// What the log holds, and what records behind its end say about those that are missing.
    pub(super) fn survey(&self) -> Result<Survey, HomeError> {
        let (mut shipped, mut logged) = (0, 0);
        let mut note = |head: &Head| {
            shipped = head.shipped.max(shipped);
            logged = head.logged.max(logged);
        };
        let (end, bytes) = self.each(|head, _| {
            note(&head);
            Ok(())
        })?;
        let mut position = end.position;
        while position - self.header.tail.position < self.header.ring {
            let mut head = [0; HEAD];
            self.read(position, &mut head)?;
            Head::decode(self.seal, &head).iter().for_each(&mut note);
            position += self.header.unit;
        }
        let first = self.header.tail.number;
        Ok(Survey { first, next: end.number, end: end.position, shipped, logged, bytes })
    }
}

fn read(medium: &dyn LogMedium, offset: u64, buf: &mut [u8]) -> Result<(), HomeError> {
    medium.read(offset, buf).map_err(|e| failed(medium, "to read", &e))
}

fn write(medium: &dyn LogMedium, offset: u64, bytes: &[u8]) -> Result<(), HomeError> {
    medium.write(offset, bytes).map_err(|e| failed(medium, "to write", &e))
}

pub(super) fn failed(medium: &dyn LogMedium, what: &'static str, e: &Error) -> HomeError {
    HomeError::Log { log: medium.name().to_owned(), what, why: e.to_string() }
}
