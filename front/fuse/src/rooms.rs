//! Room for messages: few large buffers for many threads.
//!
//! The kernel hands a request only to a reader with room for the largest, so whoever waits for one needs a large buffer. Whoever serves one
//! needs it only where much data comes or goes: what is small is copied out, and the room goes to the next. So as many threads as there are may
//! wait for the disk, and memory is bound by the rooms.

use parking_lot::{Condvar, Mutex, MutexGuard};

/// The buffers of one connection, and who uses them.
#[derive(Debug)]
pub(crate) struct Rooms {
    state: Mutex<State>,
    handed_on: Condvar,
    /// Bytes of each.
    size: usize,
}

#[derive(Debug, Default)]
struct State {
    /// Nobody has them. The one that was used last is taken first: its memory is there already.
    free: Vec<Vec<u8>>,
    /// Nobody has made them yet.
    unmade: usize,
    /// For threads that wait and have been called.
    handed: Vec<Vec<u8>>,
    /// Threads that wait for a message, or have been called to.
    receiving: usize,
    /// Threads that wait for a room, without those that have been called.
    waiting: usize,
    /// Threads that can still be started.
    threads_left: usize,
    /// The connection has ended.
    over: bool,
}

impl Rooms {
    /// At most `most` buffers of `size` bytes, for threads that are there and at most `threads_left` more.
    pub(crate) fn new(most: usize, size: usize, threads_left: usize) -> Self {
        let state = State { unmade: most.max(1), threads_left, ..State::default() };
        Self { state: Mutex::new(state), handed_on: Condvar::new(), size }
    }

    /// Waits for a room to receive a message in; `None` when there will be none.
    pub(crate) fn to_receive(&self) -> Option<Vec<u8>> {
        let mut state = self.lock();
        if let Some(room) = state.take(self.size) {
            state.receiving += 1;
            return Some(room);
        }
        state.waiting += 1;
        loop {
            if state.over {
                return None;
            }
            self.handed_on.wait(&mut state);
            if let Some(room) = state.handed.pop() {
                return Some(room);
            }
        }
    }

    /// Somebody has received a message, and does not keep `back`. As [`Rooms::give_back`].
    pub(crate) fn received(&self, back: Option<Vec<u8>>) -> Option<Vec<u8>> {
        let mut state = self.lock();
        state.receiving -= 1;
        state.free.extend(back);
        self.call(state)
    }

    /// Takes a room back. Hands one to the caller where nobody waits for the next message, nobody is there to be called, and one more thread can be
    /// started: for that thread.
    pub(crate) fn give_back(&self, room: Vec<u8>) -> Option<Vec<u8>> {
        let mut state = self.lock();
        state.free.push(room);
        self.call(state)
    }

    /// The thread that a room was handed out for cannot be started, nor any other.
    pub(crate) fn no_more_threads(&self) {
        let mut state = self.lock();
        state.receiving -= 1;
        state.unmade += 1;
        state.threads_left = 0;
    }

    /// Nobody waits for messages any more: the connection has ended.
    pub(crate) fn end(&self) {
        self.lock().over = true;
        self.handed_on.notify_all();
    }

    fn call(&self, mut state: MutexGuard<'_, State>) -> Option<Vec<u8>> {
        if state.receiving > 0 || (state.waiting == 0 && state.threads_left == 0) {
            return None;
        }
        let room = state.take(self.size)?;
        state.receiving += 1;
        if state.waiting == 0 {
            state.threads_left -= 1;
            return Some(room);
        }
        state.waiting -= 1;
        state.handed.push(room);
        drop(state);
        self.handed_on.notify_one();
        None
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    fn take(&mut self, size: usize) -> Option<Vec<u8>> {
        let room = self.free.pop();
        if room.is_none() && self.unmade > 0 {
            self.unmade -= 1;
            return Some(vec![0; size]);
        }
        room
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "real threads")]

    use super::Rooms;
    use std::sync::Arc;
    use std::thread;

    #[test]
    fn whoever_leaves_nobody_waiting_calls_another() {
        let rooms = Rooms::new(2, 16, 2);
        let (first, second) = (rooms.to_receive(), rooms.to_receive().expect("room"));
        assert_eq!(rooms.received(first), None, "the other waits");
        let more = rooms.received(None).expect("a thread is to be started");
        assert_eq!(rooms.received(None), None, "no room is left");
        let last = rooms.give_back(second).expect("now there is");
        assert_eq!(rooms.received(Some(last)), None, "nor a thread");
        drop(more);
    }

    #[test]
    fn a_thread_that_cannot_be_started_leaves_its_room() {
        let rooms = Rooms::new(1, 16, 9);
        let room = rooms.to_receive();
        assert!(rooms.received(room).is_some(), "for a thread");
        rooms.no_more_threads();
        let room = rooms.to_receive();
        assert_eq!(room.as_ref().map(Vec::len), Some(16));
        assert_eq!(rooms.received(room), None, "no other is asked for");
    }

    #[test]
    fn no_more_rooms_than_there_may_be_and_nobody_waits_for_ever() {
        let rooms = Arc::new(Rooms::new(2, 16, 0));
        let threads: Vec<_> = (0..8)
            .map(|n| {
                let rooms = rooms.clone();
                thread::spawn(move || {
                    for i in 0..2000 {
                        let room = rooms.to_receive().expect("room");
                        let keeps = (i + n) % 3 == 0;
                        let (back, kept) = if keeps { (None, Some(room)) } else { (Some(room), None) };
                        assert_eq!(rooms.received(back), None);
                        assert_eq!(kept.and_then(|room| rooms.give_back(room)), None);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        let state = rooms.lock();
        assert_eq!((state.free.len() + state.unmade, state.receiving, state.waiting), (2, 0, 0));
    }

    #[test]
    fn the_end_wakes_all() {
        let rooms = Arc::new(Rooms::new(1, 16, 0));
        let kept = rooms.to_receive();
        let waiting = thread::spawn({
            let rooms = rooms.clone();
            move || rooms.to_receive().is_none()
        });
        while rooms.lock().waiting == 0 {
            thread::yield_now();
        }
        rooms.end();
        assert!(waiting.join().unwrap());
        drop(kept);
    }
}
