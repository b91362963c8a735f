//! A hard disk: one arm, a platter that turns, and a volatile write cache that is written back in one sweep.
//!
//! The disk is as large as the image, so that a small image is no fast corner of a large disk. The sweep is why a
//! flush costs what lies apart, not what is much. A write that follows the last one after a flush finds its place gone
//! by and waits most of a turn: that is what a commit block behind its transaction costs.

use super::{Request, transfer};
use std::collections::BTreeMap;

/// Nanoseconds of one turn at 7200 a minute.
const TURN: u64 = 8_333_333;
/// Bytes that pass the head in one turn: 196.6 MB a second.
const TRACK: u64 = 400 * 4096;
/// Nanoseconds of the shortest seek, to another track.
const SETTLE: u64 = 1_000_000;
/// Nanoseconds that the longest seek takes above the shortest; it grows with the root of the distance, so that a seek
/// over a third of the disk, the mean of random ones, takes 8.5 ms.
const STROKE: f64 = 13_000_000.0;
/// Nanoseconds for a command.
const COMMAND: u64 = 50_000;
/// Bytes a second of the link.
const LINK_RATE: u64 = 550_000_000;
/// Bytes of the write cache.
const CACHE: u64 = 64 << 20;
/// Times are rounded to nanoseconds, angles to bytes: what is missed by less than this is met.
const ROUNDING: u64 = 2_000;

/// What the disk is doing.
#[derive(Clone, Debug)]
pub(super) struct Hdd {
    size: u64,
    /// When the last request is done.
    free: u64,
    /// The byte under which the arm stands: the one after the last that was read or written.
    head: u64,
    /// Bytes that it has moved over to get where it was wanted.
    way: u64,
    /// The byte after the last read: the disk reads on by itself.
    read_on: u64,
    /// Ranges in the write cache, from begin to end; they do not touch.
    cache: BTreeMap<u64, u64>,
    /// Bytes in the write cache.
    cached: u64,
}

impl Hdd {
    pub(super) fn new(size: u64) -> Self {
        Self { size: size.max(TRACK), free: 0, head: 0, way: 0, read_on: 0, cache: BTreeMap::new(), cached: 0 }
    }

    pub(super) fn way(&self) -> u64 {
        self.way
    }

    pub(super) fn serve(&mut self, now: u64, request: Request) -> u64 {
        let begin = self.free.max(now) + COMMAND;
        self.free = match request {
            Request::Read { offset, len } if self.holds(offset, len) => begin + transfer(len, LINK_RATE),
            Request::Read { offset, len } => {
                let there =
                    if offset == self.read_on && offset == self.head { begin } else { self.reach(begin, offset) };
                self.read_on = offset.saturating_add(len);
                self.pass(there, offset, len)
            }
            Request::Write { offset, len } => self.write(begin, offset, len),
            Request::Flush => self.write_back(begin),
        };
        self.free
    }

    fn write(&mut self, begin: u64, offset: u64, len: u64) -> u64 {
        let begin = if self.cached.saturating_add(len) > CACHE { self.write_back(begin) } else { begin };
        if len > CACHE {
            let there = self.reach(begin, offset);
            return self.pass(there, offset, len);
        }
        self.keep(offset, len);
        begin + transfer(len, LINK_RATE)
    }

    /// Writes the cache back in one sweep, from the arm's place to the end and on from the beginning.
    fn write_back(&mut self, begin: u64) -> u64 {
        let mut ranges: Vec<(u64, u64)> = std::mem::take(&mut self.cache).into_iter().collect();
        self.cached = 0;
        let ahead = ranges.partition_point(|&(from, _)| from < self.head);
        ranges.rotate_left(ahead);
        ranges.into_iter().fold(begin, |time, (from, to)| {
            let there = self.reach(time, from);
            self.pass(there, from, to - from)
        })
    }

    /// When the head stands over `offset`, from `time` on.
    fn reach(&mut self, time: u64, offset: u64) -> u64 {
        let there = time + self.seek(offset);
        self.way += offset.abs_diff(self.head);
        let angle = offset % TRACK * TURN / TRACK;
        let wait = (angle + TURN - there % TURN) % TURN;
        there + if wait > TURN - ROUNDING { 0 } else { wait }
    }

    fn seek(&self, offset: u64) -> u64 {
        // Where a track ends the next one is skewed by as much as the change takes.
        if offset == self.head || offset / TRACK == self.head / TRACK {
            return 0;
        }
        let part = offset.abs_diff(self.head) as f64 / self.size as f64;
        SETTLE + (STROKE * part.min(1.0).sqrt()) as u64
    }

    /// When `len` bytes from `offset` on, over which the head stands at `time`, have passed it.
    fn pass(&mut self, time: u64, offset: u64, len: u64) -> u64 {
        self.head = offset.saturating_add(len);
        time + u64::try_from(u128::from(len) * u128::from(TURN) / u128::from(TRACK)).unwrap_or(u64::MAX)
    }

    /// Keeps a range in the cache, together with those that it meets.
    fn keep(&mut self, offset: u64, len: u64) {
        let (mut from, mut to) = (offset, offset.saturating_add(len));
        while let Some((&begin, &end)) = self.cache.range(..=to).next_back().filter(|&(_, &end)| end >= from) {
            self.cache.remove(&begin);
            self.cached -= end - begin;
            (from, to) = (from.min(begin), to.max(end));
        }
        self.cache.insert(from, to);
        self.cached += to - from;
    }

    fn holds(&self, offset: u64, len: u64) -> bool {
        let last = self.cache.range(..=offset).next_back();
        last.is_some_and(|(_, &end)| end >= offset.saturating_add(len))
    }
}
