//! The threads that serve `/dev/fuse`: how many there are, who waits for the next request, and with whose memory.
//!
//! One client is served by one thread, always the same: it takes a request, serves it, and takes the next. Where
//! several clients are seen, as many threads are kept at it as there are processors; one that begins a long wait is
//! replaced, so that any number may wait for one commit. Requests that come meanwhile stay with the kernel, and whoever
//! has finished takes the next without having been woken. Threads without work are laid off, the last of them called
//! first, and let go after a while.
//!
//! The kernel hands a request only to a reader with room for the largest, so whoever waits for one needs a large
//! buffer. Whoever serves one needs it only where much data comes or goes: what is small is copied out, and the room
//! goes to the next. So memory is bound by the rooms, of which there are fewer than threads.

use crate::foreman::Foreman;
use ondol::waits::Watch;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;
use std::time::Duration;

/// For how long a thread is kept that has nothing to do.
const KEPT: Duration = Duration::from_secs(2);

/// What a request of another sender than the one before adds to the signs of company; one of the same takes one away.
const OTHER: u32 = 3;
/// From so many signs on there is company, until there are so few; and no more are counted.
const SIGNS: std::ops::Range<u32> = 8..24;
const SIGNS_MOST: u32 = 48;

/// What a crew may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Threads that run at the same time, where there is work for them.
    pub(crate) running: usize,
    /// Threads in all.
    pub(crate) threads: usize,
    /// Rooms.
    pub(crate) rooms: usize,
    /// Bytes of each.
    pub(crate) room: usize,
}

/// The threads of one connection.
pub(crate) struct Crew {
    size: Size,
    state: Mutex<State>,
    /// Starts threads, each with the room that it begins with.
    pub(crate) foreman: Foreman<Vec<u8>>,
}

#[derive(Debug, Default)]
struct State {
    /// Rooms that nobody has. The one that was used last is taken first: its memory is there already.
    free: Vec<Vec<u8>>,
    /// Rooms that nobody has made yet.
    unmade: usize,
    /// Threads there are, or will be when the foreman has started them.
    threads: usize,
    /// Those that wait for a request, or have been called to.
    reading: usize,
    /// Those that serve one and wait for nothing.
    running: usize,
    /// Those that serve one and wait.
    waiting: usize,
    /// Requests taken and finished.
    turns: u64,
    /// When the foreman looked last.
    turns_seen: u64,
    /// Who sent the last request that had a sender.
    sender: u32,
    signs: u32,
    company: bool,
    /// Those without work, the last one on top.
    laid_off: Vec<Arc<LaidOff>>,
    over: bool,
}

/// A thread without work.
#[derive(Debug, Default)]
struct LaidOff {
    called: Condvar,
    /// What it is called with.
    room: Mutex<Option<Vec<u8>>>,
}

impl Crew {
    /// A crew whose first thread the foreman is to start.
    pub(crate) fn new(size: Size) -> Self {
        let crew = Self {
            size,
            state: Mutex::new(State { unmade: size.rooms.max(1), ..State::default() }),
            foreman: Foreman::default(),
        };
        crew.call(crew.state.lock(), true);
        crew
    }

    /// A thread has a request from `sender` (0: the kernel's own), and does not keep `back`.
    pub(crate) fn taken(&self, sender: u32, back: Option<Vec<u8>>) {
        let mut state = self.state.lock();
        state.reading -= 1;
        state.running += 1;
        state.turns += 1;
        state.free.extend(back);
        state.note(sender);
        self.call(state, false);
        self.foreman.stir();
    }

    /// A thread has served its request and gives back what it had of rooms. Waits until it is to wait for the next one,
    /// with the room for it; `None` when the thread is not needed any more.
    pub(crate) fn finished(&self, back: Option<Vec<u8>>) -> Option<Vec<u8>> {
        let mut state = self.state.lock();
        state.running = state.running.saturating_sub(1);
        state.turns += 1;
        state.free.extend(back);
        if state.over {
            return None;
        }
        if state.running + state.reading < self.wanted(&state)
            && let Some(room) = state.take(self.size.room)
        {
            state.reading += 1;
            return Some(room);
        }
        self.rest(state)
    }

    /// A thread that was to wait for a request leaves instead, and its room stays. Another takes its place where one is
    /// wanted.
    pub(crate) fn replaced(&self, room: Vec<u8>) {
        let mut state = self.state.lock();
        state.reading -= 1;
        state.threads -= 1;
        state.free.push(room);
        let wanted = state.running + state.reading < self.wanted(&state);
        self.call(state, wanted);
    }

    /// A thread could not be started, and its room is lost. How many there are.
    pub(crate) fn not_started(&self) -> usize {
        let mut state = self.state.lock();
        state.unmade += 1;
        state.reading -= 1;
        state.threads -= 1;
        state.threads
    }

    /// Has another thread take requests where all who could are stuck, whatever with. True while there is something to
    /// do.
    pub(crate) fn look(&self) -> bool {
        let mut state = self.state.lock();
        let busy = state.turns != state.turns_seen || state.running + state.waiting > 0;
        let stuck = state.turns == state.turns_seen && state.reading == 0;
        state.turns_seen = state.turns;
        if stuck {
            self.call(state, true);
        }
        busy
    }

    /// Threads that serve a request and wait for nothing, and whether there are several clients.
    pub(crate) fn at_work(&self) -> (usize, bool) {
        let state = self.state.lock();
        (state.running, state.company)
    }

    /// Ends it: the connection has ended.
    pub(crate) fn end(&self) {
        let mut state = self.state.lock();
        state.over = true;
        for one in &state.laid_off {
            one.called.notify_one();
        }
        drop(state);
        self.foreman.end();
    }

    /// How many threads are to run or to wait for a request.
    fn wanted(&self, state: &State) -> usize {
        if state.company { self.size.running } else { 1 }
    }

    /// Calls threads to the queue as far as they are wanted there, or one at least.
    fn call(&self, mut state: MutexGuard<'_, State>, one: bool) {
        let mut least = usize::from(one);
        while (least > 0 || (state.company && state.running + state.reading < self.size.running)) && !state.over {
            least = 0;
            if state.laid_off.is_empty() && state.threads >= self.size.threads {
                return;
            }
            let Some(room) = state.take(self.size.room) else { return };
            state.reading += 1;
            if let Some(last) = state.laid_off.pop() {
                *last.room.lock() = Some(room);
                last.called.notify_one();
            } else {
                state.threads += 1;
                self.foreman.hire(room);
            }
        }
    }

    /// Waits to be called; `None` when the thread is let go.
    fn rest(&self, mut state: MutexGuard<'_, State>) -> Option<Vec<u8>> {
        let me = Arc::new(LaidOff::default());
        state.laid_off.push(Arc::clone(&me));
        loop {
            let timed_out = me.called.wait_for(&mut state, KEPT).timed_out();
            let room = me.room.lock().take();
            if room.is_some() {
                return room;
            }
            if timed_out || state.over {
                state.laid_off.retain(|one| !Arc::ptr_eq(one, &me));
                state.threads -= 1;
                return None;
            }
        }
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

    /// Looks for signs of more than one client.
    fn note(&mut self, sender: u32) {
        if sender == 0 {
            return;
        }
        self.signs = match sender == self.sender {
            true => self.signs.saturating_sub(1),
            false => (self.signs + OTHER).min(SIGNS_MOST),
        };
        self.sender = sender;
        self.company = if self.company { self.signs > SIGNS.start } else { self.signs >= SIGNS.end };
    }
}

impl Watch for Crew {
    fn begins(&self) {
        let mut state = self.state.lock();
        state.running = state.running.saturating_sub(1);
        state.waiting += 1;
        self.call(state, false);
    }

    fn ends(&self) {
        let mut state = self.state.lock();
        state.running += 1;
        state.waiting = state.waiting.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "real threads")]

    use super::*;
    use crate::foreman::Duty;
    use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

    const ROOM: usize = 16;

    fn crew(running: usize, threads: usize, rooms: usize) -> Crew {
        Crew::new(Size { running, threads, rooms, room: ROOM })
    }

    impl Crew {
        /// Rooms of threads that the foreman was told to start.
        fn hired(&self) -> Vec<Vec<u8>> {
            self.foreman.hires()
        }

        /// Requests of two clients in turn, served by one thread.
        fn see_company(&self, mut room: Vec<u8>) -> Vec<u8> {
            for n in 0..SIGNS_MOST {
                self.taken(1 + n % 2, Some(room));
                room = self.finished(None).expect("it is the only one");
            }
            assert!(self.state.lock().company);
            room
        }
    }

    #[test]
    fn one_client_is_served_by_one_thread() {
        let crew = crew(4, 64, 10);
        let mut room = crew.hired().pop().expect("the first thread");
        for n in 0..1000 {
            // What has no sender is no sign of another.
            crew.taken(if n % 3 == 0 { 0 } else { 7 }, Some(room));
            if n % 5 == 0 {
                crew.begins();
                crew.ends();
            }
            room = crew.finished(None).expect("the same");
        }
        assert!(crew.hired().is_empty());
        assert_eq!(crew.state.lock().threads, 1);
    }

    #[test]
    fn several_clients_have_as_many_threads_as_run_and_more_for_those_that_wait() {
        let crew = crew(2, 4, 10);
        let room = crew.hired().pop().expect("the first thread");
        let room = crew.see_company(room);
        crew.taken(1, Some(room));
        // One runs, so another waits for requests.
        let second = crew.hired();
        assert_eq!(second.len(), 1, "two run");
        crew.taken(2, second.into_iter().next());
        assert!(crew.hired().is_empty(), "no third");
        crew.begins();
        let third = crew.hired();
        assert_eq!(third.len(), 1, "in the place of who waits");
        crew.taken(3, third.into_iter().next());
        crew.begins();
        crew.begins();
        assert_eq!(crew.hired().len(), 1, "no more than there may be");
        assert_eq!(crew.state.lock().threads, 4);
    }

    #[test]
    fn the_last_that_was_laid_off_is_called_first_and_the_others_go() {
        let crew = crew(3, 64, 10);
        let room = crew.hired().pop().expect("the first thread");
        let room = crew.see_company(room);
        crew.taken(1, Some(room));
        assert_eq!(crew.hired().len(), 2);
        let woken = AtomicU32::new(0);
        std::thread::scope(|s| {
            // Each begins by being laid off: three read or run already.
            for number in 1..=3 {
                let (crew, woken) = (&crew, &woken);
                let before = crew.state.lock().laid_off.len();
                let one = s.spawn(move || {
                    let mut state = crew.state.lock();
                    state.threads += 1;
                    state.running += 1;
                    drop(state);
                    if crew.finished(None).is_some() {
                        woken.store(number, Relaxed);
                    }
                });
                while crew.state.lock().laid_off.len() == before {
                    assert!(!one.is_finished(), "it is not laid off");
                    std::thread::yield_now();
                }
            }
            crew.begins();
        });
        assert_eq!(woken.into_inner(), 3, "the last");
        let state = crew.state.lock();
        assert_eq!((state.laid_off.len(), state.threads), (0, 4), "two were let go");
    }

    #[test]
    fn who_leaves_is_replaced_where_one_is_wanted() {
        let crew = crew(2, 2, 1);
        let room = crew.hired().pop().expect("the first thread");
        crew.taken(1, Some(room));
        let room = crew.finished(None).expect("the same");
        crew.replaced(room);
        let room = crew.hired().pop().expect("another");
        assert_eq!(crew.state.lock().threads, 1);
        crew.taken(1, None);
        assert!(crew.finished(Some(room)).is_some(), "it goes on");
        crew.end();
        crew.replaced(vec![0; ROOM]);
        assert!(crew.hired().is_empty(), "not at the end");
    }

    #[test]
    fn where_all_are_stuck_another_takes_requests() {
        let crew = crew(2, 64, 10);
        let room = crew.hired().pop().expect("the first thread");
        assert!(!crew.look(), "it waits for the first request");
        crew.taken(1, Some(room));
        assert!(crew.look(), "a request has come since");
        assert!(crew.hired().is_empty());
        assert!(crew.look());
        assert_eq!(crew.hired().len(), 1, "it takes long");
        assert!(crew.look());
        assert!(crew.hired().is_empty(), "somebody waits for the next");
    }

    #[test]
    fn a_thread_that_cannot_be_started_leaves_its_room() {
        let crew = crew(2, 64, 1);
        assert_eq!(crew.hired().len(), 1);
        assert_eq!(crew.not_started(), 0);
        assert!(!crew.look());
        assert_eq!(crew.hired().len(), 1, "tried again");
    }

    /// A connection of numbers instead of requests.
    struct Serving<'s, 'e> {
        crew: &'s Crew,
        left: &'s AtomicUsize,
        scope: &'s std::thread::Scope<'s, 'e>,
    }

    /// Whoever fails ends it for all.
    struct Alarm<'c>(&'c Crew);

    impl Drop for Alarm<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                self.0.end();
            }
        }
    }

    fn serve(crew: &Crew, left: &AtomicUsize, mut room: Vec<u8>) {
        let _alarm = Alarm(crew);
        loop {
            assert_eq!(room.len(), ROOM);
            let Ok(n) = left.fetch_update(Relaxed, Relaxed, |n| n.checked_sub(1)) else { return crew.end() };
            let (back, kept) = if n % 3 == 0 { (None, Some(room)) } else { (Some(room), None) };
            crew.taken(n as u32 % 5, back);
            if n % 7 == 0 {
                crew.begins();
                std::thread::yield_now();
                crew.ends();
            }
            match crew.finished(kept) {
                Some(next) => room = next,
                None => return,
            }
        }
    }

    impl Duty<Vec<u8>> for Serving<'_, '_> {
        fn start(&mut self, room: Vec<u8>) {
            let (crew, left) = (self.crew, self.left);
            self.scope.spawn(move || serve(crew, left, room));
        }

        fn look(&mut self) -> bool {
            self.crew.look()
        }

        fn rest(&mut self) {}
    }

    #[test]
    fn whatever_happens_everything_is_served_within_the_rooms_and_the_end_wakes_all() {
        for rooms in [1, 2, 5] {
            let (crew, left) = (crew(2, 6, rooms), AtomicUsize::new(20_000));
            std::thread::scope(|scope| crew.foreman.work(&mut Serving { crew: &crew, left: &left, scope }));
            assert_eq!(left.into_inner(), 0);
            let state = crew.state.lock();
            assert!(state.threads <= 6 && state.laid_off.is_empty());
            assert!(state.free.len() + state.unmade <= rooms);
        }
    }
}
