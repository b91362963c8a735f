//! Rules of a log in NVM.
//!
//! - *commit*: when the line of a commit is stored, all records that it commits are durable: a processor may write it
//!   back at once.
//! - *room*: no line is stored to that a durable commit covers and the durable tail has not passed, but for what the
//!   commit passes over.
//! - *tail*: the tail passes only what is committed, durably, and no write of a bitmap or table of the volume waits for
//!   its flush then.
//!
//! `docs/format.md` has the bytes.

use super::Volume;
use crate::log::NvmLog;
use ondol_medium::{PAGE, crc32c};
use ondol_power::{Cut, Event, Item, Kind, LINE, Layer, Medium};

/// Where the line of the tail lies in each of the two pages before the ring.
const TAIL_AT: u64 = PAGE / 2;
const COMMIT: u8 = 2;
/// Bytes of a record before its contents.
const HEAD: usize = 16;
/// Places of a commit's gaps, of two words each.
const GAPS_AT: usize = 48;

/// Judges the log in a pool at each event of a run.
///
/// # Errors
/// The rule that is broken, and by what.
pub(super) fn judge(log: &NvmLog, media: &[Medium], events: &[Event]) -> Result<(), String> {
    let mut judge = NvmJudge::new(log, media);
    events.iter().enumerate().try_for_each(|(n, event)| judge.event(event).map_err(|what| super::at(n, &what)))
}

/// What a commit covers: positions from the first on to its own, but the gaps.
#[derive(Debug)]
struct Span {
    from: u64,
    at: u64,
    gaps: Vec<(u64, u64)>,
}

impl Span {
    fn of(line: &[u8]) -> Option<Self> {
        let (at, from) = (long(line, 8)?, long(line, 24)?);
        let gaps = (0..word(line, 36)?.min(2) as usize).map(|n| {
            Some((from + u64::from(word(line, GAPS_AT + 8 * n)?), u64::from(word(line, GAPS_AT + 8 * n + 4)?)))
        });
        Some(Self { gaps: gaps.collect::<Option<_>>()?, from, at })
    }

    fn gap(&self, position: u64) -> Option<u64> {
        let gap = self.gaps.iter().find(|(at, lines)| (*at..at + lines).contains(&position));
        gap.map(|(at, lines)| at + lines)
    }
}

pub(super) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

pub(super) fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

struct NvmJudge<'l> {
    log: &'l NvmLog,
    cut: Cut<'l>,
    lines: u64,
    seal: u32,
    /// The volume, where it lies on a medium that is flushed.
    volume: Option<Volume>,
    /// Commits that are stored, in their order; those that the durable tail has passed are gone.
    spans: Vec<Span>,
}

impl<'l> NvmJudge<'l> {
    fn new(log: &'l NvmLog, media: &'l [Medium]) -> Self {
        let mut uuid = [0; 16];
        media[log.medium].base.read((log.ring.start - 2 * PAGE) as usize + 16, &mut uuid);
        let lines = (log.ring.end - log.ring.start) / LINE as u64;
        let home = media.first().filter(|medium| medium.kind == Kind::Block);
        let volume = home.and_then(|medium| Volume::of(&medium.base));
        Self { log, cut: Cut::new(media), lines, seal: crc32c(!0, &[&uuid]), volume, spans: Vec::new() }
    }

    fn durable(&self) -> &Layer {
        &self.cut.durable()[self.log.medium]
    }

    fn event(&mut self, event: &'l Event) -> Result<(), String> {
        if let Event::Store { medium, offset, bytes, .. } = event
            && *medium as usize == self.log.medium
        {
            if self.log.ring.contains(offset) {
                self.stored(*offset, bytes)?;
                if self.log.is_commit(event)
                    && let Some(span) = Span::of(bytes)
                {
                    self.judge_commit(&span)?;
                    self.spans.push(span);
                }
            } else if self.is_tail(*offset) && bytes.len() == LINE {
                self.judge_tail(long(bytes, 8).unwrap_or(0))?;
            }
        }
        self.cut.advance(event);
        if let Event::Fence { .. } = event
            && let Some(tail) = self.tail()
        {
            self.spans.retain(|span| span.at >= tail);
        }
        Ok(())
    }

    fn is_tail(&self, offset: u64) -> bool {
        let area = self.log.ring.start - 2 * PAGE;
        offset == area + TAIL_AT || offset == area + PAGE + TAIL_AT
    }

    /// The position of the durable tail.
    fn tail(&self) -> Option<u64> {
        let area = self.log.ring.start - 2 * PAGE;
        let copies = [0, PAGE].map(|copy| {
            let mut line = [0; LINE];
            self.durable().read((area + copy + TAIL_AT) as usize, &mut line);
            let is_whole = word(&line, 0) == Some(crc32c(self.seal, &[&line[4..]]));
            long(&line, 8).filter(|_| is_whole)
        });
        copies.into_iter().flatten().max()
    }

    fn place(&self, position: u64) -> usize {
        (self.log.ring.start + position % self.lines * LINE as u64) as usize
    }

    /// Whether a line holds, durably, what was stored to it.
    fn is_durable(&self, span: &Span) -> bool {
        let mut line = [0; LINE];
        self.durable().read(self.place(span.at), &mut line);
        line[4] == COMMIT && long(&line, 8) == Some(span.at)
    }

    fn judge_commit(&self, span: &Span) -> Result<(), String> {
        let mut position = span.from;
        while position < span.at {
            if let Some(end) = span.gap(position) {
                position = end;
                continue;
            }
            let lines = self.record(position).ok_or_else(|| {
                format!(
                    "commit: the line at position {} is stored, and the record at {position}, which it commits, is \
                     not durable",
                    span.at
                )
            })?;
            position += lines;
        }
        Ok(())
    }

    /// How many lines the record at a position takes, if it is durable and whole.
    fn record(&self, position: u64) -> Option<u64> {
        let mut bytes = vec![0; HEAD];
        self.read(position, &mut bytes);
        let len = (word(&bytes, 4)? >> 8) as usize;
        if long(&bytes, 8)? != position || len < HEAD || len as u64 > self.lines * LINE as u64 {
            return None;
        }
        bytes.resize(len, 0);
        self.read(position, &mut bytes);
        let is_whole = word(&bytes, 0)? == crc32c(self.seal, &[&bytes[4..]]);
        is_whole.then_some((len as u64).div_ceil(LINE as u64))
    }

    /// Reads from a position on, round the ring.
    fn read(&self, position: u64, bytes: &mut [u8]) {
        for (position, part) in (position..).zip(bytes.chunks_mut(LINE)) {
            self.durable().read(self.place(position), part);
        }
    }

    /// Something is stored to lines of the ring.
    fn stored(&self, offset: u64, bytes: &[u8]) -> Result<(), String> {
        let Some(tail) = self.tail() else { return Ok(()) };
        let first = (offset - self.log.ring.start) / LINE as u64;
        let end = (offset + bytes.len() as u64 - self.log.ring.start).div_ceil(LINE as u64);
        for place in first..end {
            // The only position there from the tail on, within a lap.
            let position = tail + (place + self.lines - tail % self.lines) % self.lines;
            let covers =
                |span: &&Span| (span.from.max(tail)..=span.at).contains(&position) && span.gap(position).is_none();
            let Some(span) = self.spans.iter().find(covers).filter(|span| self.is_durable(span)) else { continue };
            let start = (self.log.ring.start + place * LINE as u64).max(offset);
            let stop = (self.log.ring.start + (place + 1) * LINE as u64).min(offset + bytes.len() as u64);
            let mut old = vec![0; (stop - start) as usize];
            self.durable().read(start as usize, &mut old);
            if old != bytes[(start - offset) as usize..(stop - offset) as usize] {
                return Err(format!(
                    "room: the line at position {position} is stored to, which the commit at {} covers, and the \
                     durable tail is at {tail}",
                    span.at
                ));
            }
        }
        Ok(())
    }

    fn judge_tail(&self, new: u64) -> Result<(), String> {
        let Some(tail) = self.tail().filter(|tail| *tail < new) else { return Ok(()) };
        let mut passed = self.spans.iter().filter(|span| (tail..new).contains(&span.at));
        if let Some(span) = passed.find(|span| !self.is_durable(span)) {
            return Err(format!("tail: it moves to {new}, and the commit at {} is not durable", span.at));
        }
        match self.cut.items().iter().find_map(|item| self.is_on_its_way(item)) {
            Some(block) => {
                Err(format!("tail: it moves to {new}, and what was written to block {block} is not durable"))
            }
            None => Ok(()),
        }
    }

    /// A block of the volume's tables that was written and not flushed.
    fn is_on_its_way(&self, item: &Item<'_>) -> Option<u64> {
        let volume = self.volume.as_ref()?;
        let Item::Write { medium: 0, offset, bytes, .. } = item else { return None };
        let size = u64::from(volume.sb.block_size());
        let mut blocks = offset / size..(offset + bytes.len() as u64).div_ceil(size);
        blocks.find(|block| volume.table(*block).is_some())
    }
}

#[cfg(test)]
mod tests {
    use crate::Prey;
    use crate::explore::Limits;
    use crate::workload::scenes;
    use ondol::{DataMode, JournalEngine};
    use ondol_medium::Domain;

    #[test]
    fn a_log_that_begins_near_the_end_of_its_ring_goes_round_it() {
        let (engine, data, domain) = (JournalEngine::Scalable, DataMode::Journal, Domain::Adr);
        let prey =
            Prey { engine, data, plant: None, seed: 1, limits: Limits::default(), fault: None, domain, store: None };
        for name in ["lap", "lap-of-long", "lap-of-short"] {
            let workload = scenes().find(|workload| workload.name == name).expect("a workload");
            let run = prey.record(&workload.image.make().expect("an image"), &workload).expect("a run");
            let log = run.log.nvm.as_ref().expect("a log in NVM");
            let places: Vec<u64> = run.events.iter().filter_map(|event| Some(log.stored(event)?.0)).collect();
            assert!(places.windows(2).any(|next| next[0] > next[1] + 4096), "{name}: {places:?}");
        }
    }
}
