//! Whose turn it is: one thread works, commits or checkpoints, and those who wait meanwhile are served by it.
//!
//! Waiting on a lock itself would serve its waiters one after the other, each woken only to find its handles committed,
//! and between two of them whoever comes by begins another commit for itself alone.
//!
//! The thread does not wait for more callers first. With 16 clients on a disk in memory that put ten operations into a
//! commit instead of two, and the rate was 0.85 to 1.0 of this: what it saves in copies it loses in switches.

use ondol_env::sync::{Condvar, Mutex, MutexGuard};

/// The turn, and who waits for its end.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    state: Mutex<State>,
    over: Condvar,
}

#[derive(Debug, Default)]
struct State {
    taken: bool,
    /// Turns that ended as [`Turn::done`].
    done: u64,
}

/// The turn of the thread that has it, until it is dropped.
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    done: bool,
}

impl Turns {
    /// Waits for the turn; `None` as soon as `served` says that there is nothing left to wait for.
    pub(crate) fn take(&self, served: impl Fn() -> bool) -> Option<Turn<'_>> {
        self.take_unless(self.state.lock(), |_| served())
    }

    /// Waits for the turn; `None` when another's has ended meanwhile and is done.
    pub(crate) fn take_or_share(&self) -> Option<Turn<'_>> {
        let state = self.state.lock();
        let before = state.done;
        self.take_unless(state, |state| state.done != before)
    }

    /// The turn, whatever others have done meanwhile; `None` while another has it, unless the caller waits.
    pub(crate) fn take_next(&self, waits: bool) -> Option<Turn<'_>> {
        self.take_unless(self.state.lock(), |state| state.taken && !waits)
    }

    fn take_unless<'t>(
        &'t self,
        mut state: MutexGuard<'t, State>,
        gives_up: impl Fn(&State) -> bool,
    ) -> Option<Turn<'t>> {
        loop {
            if gives_up(&state) {
                return None;
            }
            if !state.taken {
                state.taken = true;
                return Some(Turn { turns: self, done: false });
            }
            self.over.wait(&mut state);
        }
    }
}

impl Turn<'_> {
    /// It has done what others came for.
    pub(crate) fn done(mut self) {
        self.done = true;
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.turns.state.lock();
        state.taken = false;
        state.done += u64::from(self.done);
        self.turns.over.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::Turns;
    use ondol_env::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
    use ondol_env::sync::{Arc, thread};

    #[test]
    fn one_works_and_all_others_are_served_by_it() {
        let shared = Arc::new((Turns::default(), AtomicBool::new(false), AtomicU64::new(0)));
        let first = shared.0.take(|| false).expect("nobody has it");
        let others: Vec<_> = (0..8)
            .map(|_| {
                let shared = shared.clone();
                thread::spawn(move || {
                    let (turns, done, worked) = &*shared;
                    if let Some(_turn) = turns.take(|| done.load(SeqCst)) {
                        worked.fetch_add(1, SeqCst);
                    }
                })
            })
            .collect();
        shared.1.store(true, SeqCst);
        drop(first);
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(shared.2.load(SeqCst), 0);
    }

    #[test]
    fn a_turn_that_serves_nobody_is_followed_by_another() {
        let shared = Arc::new((Turns::default(), AtomicU64::new(0)));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let shared = shared.clone();
                thread::spawn(move || {
                    let turn = shared.0.take(|| false);
                    shared.1.fetch_add(1, SeqCst);
                    drop(turn);
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(shared.1.load(SeqCst), 4);
    }
}
