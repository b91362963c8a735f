//! Reading ahead of whoever reads one byte after the other, so that several requests are under way at once.
//!
//! A *piece* is a range of chunks that was asked for before it was read. What is asked for beyond a reader is never more than it has read in order, so at most half of what is fetched is in vain.
//! Whatever changes chunks drops the pieces that have them, before anybody is told that the change is there.

use super::HomeError;
use bytes::Bytes;
use ondol_env::sync::{Condvar, Mutex};
use std::ops::Range;
use std::sync::Arc;

/// At most so many bytes are asked for beyond one reader,
const BEYOND: u64 = 16 << 20;
/// and at most so many are held for all of them.
const HELD: u64 = 48 << 20;

/// The bytes of a piece.
const LEAST: u64 = 32 << 10;
const MOST: u64 = 2 << 20;

/// Readers that are remembered.
const READERS: usize = 16;

/// A read is in order if it begins within so many of its own lengths of the end of those before: several threads serve one reader.
const ASTRAY: u64 = 4;

/// The values of a piece, by chunk.
pub(super) type Values = Vec<Option<Bytes>>;

/// Pieces, and whom they are for.
pub(super) struct Ahead {
    /// Bytes of a chunk.
    chunk: u64,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// The latest last.
    readers: Vec<Reader>,
    pieces: Vec<Piece>,
    next_reader: u64,
}

/// Somebody who reads in order, by bytes.
struct Reader {
    id: u64,
    /// Where the furthest read has ended.
    end: u64,
    /// Bytes that were read in order.
    read: u64,
    /// Everything before this was asked for.
    asked: u64,
}

struct Piece {
    chunks: Range<u64>,
    reader: u64,
    /// Bytes of it that nobody has read.
    left: u64,
    slot: Arc<Slot>,
}

/// A range of chunks that comes, or is there.
#[derive(Clone)]
pub(super) struct Part {
    pub(super) chunks: Range<u64>,
    /// The first chunk of the piece.
    first: u64,
    slot: Arc<Slot>,
}

/// Where the values of a piece come.
#[derive(Default)]
struct Slot {
    values: Mutex<Option<Result<Arc<Values>, HomeError>>>,
    bell: Condvar,
}

/// A piece that is to be fetched. Whoever waits for it learns of an end without values, too.
pub(super) struct Wanted {
    pub(super) chunks: Range<u64>,
    ahead: Arc<Ahead>,
    slot: Arc<Slot>,
}

impl Wanted {
    pub(super) fn put(self, values: Result<Values, HomeError>) {
        if values.is_err() {
            self.ahead.forget(&self.slot);
        }
        self.slot.put(values);
    }
}

impl Drop for Wanted {
    fn drop(&mut self) {
        if self.slot.values.lock().is_none() {
            self.ahead.forget(&self.slot);
            let why = "it was given up".to_owned();
            self.slot.put(Err(HomeError::Store { name: String::new(), what: "reading ahead", why }));
        }
    }
}

impl Slot {
    fn put(&self, values: Result<Values, HomeError>) {
        *self.values.lock() = Some(values.map(Arc::new));
        self.bell.notify_all();
    }

    fn wait(&self) -> Result<Arc<Values>, HomeError> {
        let mut values = self.values.lock();
        loop {
            if let Some(values) = &*values {
                return values.clone();
            }
            self.bell.wait(&mut values);
        }
    }
}

impl Part {
    /// Waits for the values of its piece.
    pub(super) fn wait(&self) -> Result<Arc<Values>, HomeError> {
        self.slot.wait()
    }

    /// Its own among them.
    pub(super) fn of<'v>(&self, values: &'v [Option<Bytes>]) -> &'v [Option<Bytes>] {
        let at = |number: u64| (number - self.first) as usize;
        &values[at(self.chunks.start)..at(self.chunks.end)]
    }
}

impl Ahead {
    /// For chunks of `chunk` bytes.
    pub(super) fn new(chunk: usize) -> Self {
        Self { chunk: chunk as u64, inner: Mutex::default() }
    }

    /// Somebody reads `len` bytes from `offset` on, of a volume of `size` bytes. What is to be fetched for later.
    pub(super) fn read(self: &Arc<Self>, offset: u64, len: u64, size: u64) -> Vec<Wanted> {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let (end, astray) = (offset + len, len.saturating_mul(ASTRAY));
        let is_in_order = |reader: &Reader| offset + astray >= reader.end && offset <= reader.end + astray;
        let Some(at) = inner.readers.iter().rposition(is_in_order) else {
            inner.begin(end, len);
            return vec![];
        };
        let mut reader = inner.readers.remove(at);
        let mut asked = vec![];
        if end > reader.end {
            (reader.end, reader.read) = (end, reader.read + len);
            inner.leave_behind(&reader, self.chunk, astray);
            asked = inner.want(&mut reader, self.chunk, size);
        }
        inner.readers.push(reader);
        asked.into_iter().map(|(chunks, slot)| Wanted { chunks, ahead: self.clone(), slot }).collect()
    }

    /// What was asked for of these bytes, in order. They count as read.
    pub(super) fn find(&self, offset: u64, len: u64) -> Vec<Part> {
        let mut inner = self.inner.lock();
        let mut found = Vec::new();
        for Piece { chunks, left, slot, .. } in &mut inner.pieces {
            let bytes = offset.max(chunks.start * self.chunk)..(offset + len).min(chunks.end * self.chunk);
            if bytes.start < bytes.end {
                *left = left.saturating_sub(bytes.end - bytes.start);
                let part = bytes.start / self.chunk..bytes.end.div_ceil(self.chunk);
                found.push(Part { chunks: part, first: chunks.start, slot: slot.clone() });
            }
        }
        inner.pieces.retain(|piece| piece.left > 0);
        found.sort_by_key(|part| part.chunks.start);
        found
    }

    /// These chunks have changed: nobody who begins to read now finds what was asked for before.
    pub(super) fn change(&self, chunks: &[u64]) {
        let is_same = |piece: &Piece| !chunks.iter().any(|number| piece.chunks.contains(number));
        self.inner.lock().pieces.retain(is_same);
    }

    /// Forgets a piece that could not be fetched.
    fn forget(&self, slot: &Arc<Slot>) {
        self.inner.lock().pieces.retain(|piece| !Arc::ptr_eq(&piece.slot, slot));
    }
}

impl Inner {
    fn begin(&mut self, end: u64, read: u64) {
        if self.readers.len() >= READERS {
            let gone = self.readers.remove(0).id;
            self.pieces.retain(|piece| piece.reader != gone);
        }
        let id = self.next_reader;
        self.next_reader += 1;
        self.readers.push(Reader { id, end, read, asked: 0 });
    }

    /// What a reader has passed came from elsewhere.
    fn leave_behind(&mut self, reader: &Reader, chunk: u64, astray: u64) {
        let passed = reader.end.saturating_sub(astray);
        self.pieces.retain(|piece| piece.reader != reader.id || piece.chunks.end * chunk > passed);
    }

    fn want(&mut self, reader: &mut Reader, chunk: u64, size: u64) -> Vec<(Range<u64>, Arc<Slot>)> {
        let served = self.readers.iter().filter(|other| other.asked > other.end).count() as u64 + 1;
        let beyond = reader.read.min(BEYOND).min(HELD / served);
        let until = (reader.end + beyond).min(size);
        let len = (reader.read / 2).clamp(LEAST.max(chunk), MOST) / chunk * chunk;
        let mut wanted = Vec::new();
        // A chunk of which only a part was read is needed again.
        let mut from = reader.asked.max(reader.end / chunk * chunk);
        while from < until && (from + len <= until || until == size) {
            let to = (from + len).min(size.next_multiple_of(chunk));
            if !self.has_room(to - from, chunk, reader.id) {
                break;
            }
            let (chunks, slot) = (from / chunk..to.div_ceil(chunk), Arc::new(Slot::default()));
            let left = (chunks.end - chunks.start) * chunk;
            self.pieces.push(Piece { chunks: chunks.clone(), reader: reader.id, left, slot: slot.clone() });
            wanted.push((chunks, slot));
            (from, reader.asked) = (to, to);
        }
        wanted
    }

    /// Makes room by taking from whoever has not read for longest.
    fn has_room(&mut self, bytes: u64, chunk: u64, reader: u64) -> bool {
        let held = |pieces: &[Piece]| -> u64 {
            pieces.iter().map(|piece| (piece.chunks.end - piece.chunks.start) * chunk).sum()
        };
        let others: Vec<u64> = self.readers.iter().map(|other| other.id).filter(|id| *id != reader).collect();
        let mut others = others.into_iter();
        while held(&self.pieces) + bytes > HELD {
            let Some(other) = others.next() else { return false };
            self.pieces.retain(|piece| piece.reader != other);
        }
        true
    }
}

#[cfg(test)]
mod tests;
