//! Reading ahead of whoever reads one byte after the other, so that several requests are under way at once.
//!
//! Pieces are scanned into the database's cache of blocks, which never change: nothing has to be kept here or
//! dropped. What is asked for beyond a reader is never more than it has read in order, so at most half of it is in
//! vain. Who reads what comes waits for it.

use ondol_env::sync::{Condvar, Mutex};
use std::ops::Range;
use std::sync::Arc;

/// At most so many bytes are asked for beyond one reader.
const BEYOND: u64 = 16 << 20;

/// The bytes of a piece.
const LEAST: u64 = 32 << 10;
const MOST: u64 = 2 << 20;

/// Readers that are remembered.
const READERS: usize = 16;

/// A read is in order if it begins within so many of its own lengths of the end of those before: several threads serve
/// one reader.
const ASTRAY: u64 = 4;

/// Who reads, and what comes.
pub(super) struct Ahead {
    /// Bytes of a chunk.
    chunk: u64,
    /// At most so many bytes are ahead of all readers: more would drive each other out of the cache.
    room: u64,
    /// The latest last.
    readers: Mutex<Vec<Reader>>,
    coming: Mutex<Vec<Range<u64>>>,
    came: Condvar,
}

/// Somebody who reads in order, by bytes.
struct Reader {
    /// Where the furthest read has ended.
    end: u64,
    /// Bytes that were read in order.
    read: u64,
    /// Everything before this was asked for.
    asked: u64,
}

/// A range of chunks that is to be fetched. It has come when this is dropped, also if it could not be had.
pub(super) struct Wanted {
    pub(super) chunks: Range<u64>,
    ahead: Arc<Ahead>,
}

impl Drop for Wanted {
    fn drop(&mut self) {
        let mut coming = self.ahead.coming.lock();
        if let Some(at) = coming.iter().position(|chunks| *chunks == self.chunks) {
            coming.swap_remove(at);
        }
        self.ahead.came.notify_all();
    }
}

impl Ahead {
    /// For chunks of `chunk` bytes, with a cache of `cache` bytes for blocks.
    pub(super) fn new(chunk: usize, cache: usize) -> Self {
        let (readers, coming, came) = (Mutex::default(), Mutex::default(), Condvar::new());
        Self { chunk: chunk as u64, room: cache as u64 / 4, readers, coming, came }
    }

    /// Somebody reads `len` bytes from `offset` on, of a volume of `size` bytes. What is to be fetched for later.
    pub(super) fn read(self: &Arc<Self>, offset: u64, len: u64, size: u64) -> Vec<Wanted> {
        let mut readers = self.readers.lock();
        let (end, astray) = (offset + len, len.saturating_mul(ASTRAY));
        let is_in_order = |reader: &Reader| offset + astray >= reader.end && offset <= reader.end + astray;
        let Some(at) = readers.iter().rposition(is_in_order) else {
            if readers.len() >= READERS {
                readers.remove(0);
            }
            readers.push(Reader { end, read: len, asked: 0 });
            return vec![];
        };
        let mut reader = readers.remove(at);
        let mut wanted = vec![];
        if end > reader.end {
            (reader.end, reader.read) = (end, reader.read + len);
            let served = readers.iter().filter(|other| other.asked > other.end).count() as u64 + 1;
            wanted = self.want(&mut reader, self.room / served, size);
        }
        readers.push(reader);
        wanted.into_iter().map(|chunks| Wanted { chunks, ahead: self.clone() }).collect()
    }

    fn want(&self, reader: &mut Reader, room: u64, size: u64) -> Vec<Range<u64>> {
        let until = (reader.end + reader.read.min(BEYOND).min(room)).min(size);
        let len = (reader.read / 2).min(room / 2).clamp(LEAST.max(self.chunk), MOST) / self.chunk * self.chunk;
        let mut wanted = Vec::new();
        let mut from = reader.asked.max(reader.end / self.chunk * self.chunk);
        while from < until && (from + len <= until || until == size) {
            let to = (from + len).min(size.next_multiple_of(self.chunk));
            wanted.push(from / self.chunk..to / self.chunk);
            (from, reader.asked) = (to, to);
        }
        self.coming.lock().extend(wanted.iter().cloned());
        wanted
    }

    /// Waits for what comes of these chunks.
    pub(super) fn wait(&self, chunks: &Range<u64>) {
        let mut coming = self.coming.lock();
        while coming.iter().any(|piece| piece.start < chunks.end && chunks.start < piece.end) {
            self.came.wait(&mut coming);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: u64 = 4096;

    fn ahead() -> Arc<Ahead> {
        Arc::new(Ahead::new(CHUNK as usize, 64 << 20))
    }

    /// Reads of `len` bytes in order; the bytes that were asked for, and how many lie beyond the reader at the end.
    fn in_order(ahead: &Arc<Ahead>, from: u64, len: u64, until: u64, size: u64) -> (u64, u64) {
        let (mut asked, mut next) = (0, None);
        for offset in (from..until).step_by(len as usize) {
            for Wanted { chunks, .. } in &ahead.read(offset, len, size) {
                // Each chunk once.
                assert!(next.is_none_or(|next| next == chunks.start));
                next = Some(chunks.end);
                asked += (chunks.end - chunks.start) * CHUNK;
            }
        }
        (asked, next.map_or(0, |next| (next * CHUNK).saturating_sub(until)))
    }

    #[test]
    fn a_reader_in_order_is_read_ahead_of_by_no_more_than_it_has_read() {
        for len in [4 << 10, 128 << 10, 1 << 20] {
            let (asked, beyond) = in_order(&ahead(), 0, len, 2 << 20, 1 << 30);
            assert!(asked > 0 && beyond <= 2 << 20, "{len}: {asked}, {beyond}");
            let (_, beyond) = in_order(&ahead(), 0, len, 64 << 20, 1 << 30);
            assert!(beyond > BEYOND / 2 && beyond <= BEYOND, "{len}: {beyond}");
            // Nothing behind the end.
            let (asked, beyond) = in_order(&ahead(), 0, len, 8 << 20, 8 << 20);
            assert!(asked < 8 << 20 && beyond == 0, "{len}: {asked}, {beyond}");
        }
    }

    #[test]
    fn reads_here_and_there_ask_for_nothing() {
        let ahead = ahead();
        for n in 0..1000 {
            assert!(ahead.read((n * 7919 % 1000) * (1 << 20), CHUNK, 1 << 30).is_empty(), "{n}");
        }
    }

    #[test]
    fn all_readers_together_have_room_in_the_cache() {
        let ahead = ahead();
        let beyond: u64 = (0..8).map(|n| in_order(&ahead, n << 27, 128 << 10, (n << 27) + (32 << 20), 1 << 30).1).sum();
        assert!(beyond > 0 && beyond <= 3 * ahead.room, "{beyond}");
    }

    #[test]
    fn who_reads_what_comes_waits_for_it_and_not_for_what_is_given_up() {
        let ahead = ahead();
        let wanted: Vec<Wanted> = (0..64).flat_map(|n| ahead.read(n * (128 << 10), 128 << 10, 1 << 30)).collect();
        let chunks = wanted[0].chunks.clone();
        ahead.wait(&(0..chunks.start));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| ahead.wait(&chunks));
            assert!(!waits.is_finished());
            drop(wanted);
            waits.join().unwrap();
        });
        ahead.wait(&(0..u64::MAX));
    }
}
