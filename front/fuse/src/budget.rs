//! What messages may take of memory: how many large ones are under way at a time, so that `cache=` bounds the server
//! whatever carries them.

use parking_lot::{Condvar, Mutex};

/// The largest write in one request: also the largest read, since both are counted in the same pages.
pub(crate) const MAX_WRITE: u32 = 1 << 20;

/// What precedes the data of the largest write.
const BEFORE_DATA: usize = 4096;

/// Bytes of the largest message.
pub(crate) const ROOM: usize = MAX_WRITE as usize + BEFORE_DATA;

/// Messages, answers and copies up to this long are a thread's own affair.
pub(crate) const SMALL: usize = 8 << 10;

/// Whoever serves a request that fills a room has its contents once more, on their way to blocks, and where a range is
/// copied a third time.
const COPIES: usize = 2;

/// One to receive in while another is being served.
const LEAST_ROOMS: usize = 2;

/// Over io_uring, so many in each queue: one that waits for a commit, and one beside it.
const LEAST_PLACES: usize = 2;

/// Rooms for `/dev/fuse`, with all that goes on in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ForDevice {
    pub(crate) rooms: usize,
    /// Bytes beyond those that were to be divided.
    pub(crate) excess: usize,
}

impl ForDevice {
    pub(crate) fn of(bytes: usize) -> Self {
        let each = (1 + COPIES) * ROOM;
        let rooms = (bytes / each).max(LEAST_ROOMS);
        Self { rooms, excess: (rooms * each).saturating_sub(bytes) }
    }
}

/// Places for io_uring, each of which has a room of its own whose pages stay, and turns at what takes more than that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ForRings {
    /// In each queue.
    pub(crate) places: usize,
    pub(crate) turns: usize,
    /// Bytes beyond those that were to be divided.
    pub(crate) excess: usize,
}

impl ForRings {
    /// For so many queues, and at most `most` places in all of them if that is enough.
    pub(crate) fn of(bytes: usize, queues: usize, most: usize) -> Self {
        let (half, queues) = (bytes / 2, queues.max(1));
        let places = (half / ROOM / queues).max(LEAST_PLACES).min((most / queues).max(1));
        let turns = (half / (COPIES * ROOM)).max(LEAST_ROOMS);
        let taken = (queues * places + COPIES * turns) * ROOM;
        Self { places, turns, excess: taken.saturating_sub(bytes) }
    }
}

/// Turns that are taken and given back. Nobody who has one waits for another request.
#[derive(Debug)]
pub(crate) struct Turns {
    left: Mutex<usize>,
    returned: Condvar,
}

/// A turn, given back when dropped.
pub(crate) struct Turn<'t>(&'t Turns);

impl Turns {
    pub(crate) fn new(turns: usize) -> Self {
        Self { left: Mutex::new(turns), returned: Condvar::new() }
    }

    /// Waits for one.
    pub(crate) fn take(&self) -> Turn<'_> {
        let mut left = self.left.lock();
        while *left == 0 {
            self.returned.wait(&mut left);
        }
        *left -= 1;
        Turn(self)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.left.lock() += 1;
        self.0.returned.notify_one();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "real threads")]

    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    #[test]
    fn what_is_divided_is_not_exceeded_unless_it_is_said() {
        for bytes in (0..400).map(|n| n << 18) {
            let device = ForDevice::of(bytes);
            assert!(device.rooms * 3 * ROOM <= bytes + device.excess);
            assert!(device.rooms >= 2 && (device.excess == 0 || device.rooms == 2));
            for (queues, most) in [(1, 64), (2, 64), (2, 1), (2, 5), (16, 64), (128, 64)] {
                let ForRings { places, turns, excess } = ForRings::of(bytes, queues, most);
                assert!((queues * places + 2 * turns) * ROOM <= bytes + excess);
                assert!(excess == 0 || places <= 2 || turns == 2, "{bytes} {queues}");
                assert!(places >= 1 && turns >= 2 && (places == 1 || queues * places <= most));
            }
        }
        assert_eq!(ForRings::of(32 << 20, 2, 64), ForRings { places: 7, turns: 7, excess: 0 });
        assert_eq!(ForDevice::of(32 << 20), ForDevice { rooms: 10, excess: 0 });
    }

    #[test]
    fn no_more_than_there_are_turns_and_everybody_has_one() {
        let (turns, now, most) = (Turns::new(3), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|s| {
            for _ in 0..12 {
                s.spawn(|| {
                    for _ in 0..200 {
                        let turn = turns.take();
                        most.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
                        std::thread::yield_now();
                        now.fetch_sub(1, SeqCst);
                        drop(turn);
                    }
                });
            }
        });
        assert!(most.into_inner() <= 3);
        assert_eq!(*turns.left.lock(), 3);
    }
}
