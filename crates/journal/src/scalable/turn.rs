//! One checkpoint at a time. Who comes meanwhile waits for that one and has what it came for: it does not queue up for another one.

use ondol_env::sync::{Condvar, Mutex};

#[derive(Debug, Default)]
pub(super) struct Turns {
    state: Mutex<State>,
    over: Condvar,
}

#[derive(Debug, Default)]
struct State {
    taken: bool,
    /// Checkpoints that brought something home.
    done: u64,
}

/// Nobody else checkpoints until this is dropped.
#[derive(Debug)]
pub(super) struct Turn<'t> {
    turns: &'t Turns,
    done: bool,
}

impl Turns {
    /// The caller's turn; `None` when another's has ended meanwhile and has brought something home.
    pub(super) fn take(&self) -> Option<Turn<'_>> {
        let mut state = self.state.lock();
        let before = state.done;
        while state.taken && state.done == before {
            self.over.wait(&mut state);
        }
        if state.done != before {
            return None;
        }
        state.taken = true;
        Some(Turn { turns: self, done: false })
    }

    /// The caller's turn, whatever others have done meanwhile; `None` while another has it, unless the caller waits.
    pub(super) fn take_next(&self, waits: bool) -> Option<Turn<'_>> {
        let mut state = self.state.lock();
        while state.taken {
            if !waits {
                return None;
            }
            self.over.wait(&mut state);
        }
        state.taken = true;
        Some(Turn { turns: self, done: false })
    }
}

impl Turn<'_> {
    /// Something is home.
    pub(super) fn done(mut self) {
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
