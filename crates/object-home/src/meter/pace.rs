//! How many requests are under way at once: a store that asks for fewer gets half as many, and more again as it goes on.

use ondol_env::sync::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};

/// The most requests at once.
const MOST: usize = 64;

#[derive(Debug)]
pub(super) struct Pace {
    room: Semaphore,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    limit: usize,
    /// Requests under way that are too many: their places are not given to others.
    owed: usize,
    /// Requests that were served since the limit was changed.
    served: usize,
    /// How often it was halved.
    halvings: u64,
}

/// A place among those that are under way.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    pace: &'a Pace,
    place: Option<SemaphorePermit<'a>>,
    /// As it was when this one began.
    halvings: u64,
}

impl Pace {
    pub(super) fn new() -> Self {
        let state = State { limit: MOST, owed: 0, served: 0, halvings: 0 };
        Self { room: Semaphore::new(MOST), state: Mutex::new(state) }
    }

    /// So many may be under way.
    pub(super) fn limit(&self) -> usize {
        self.state.lock().limit
    }

    /// Waits for a place.
    pub(super) async fn enter(&self) -> Turn<'_> {
        // It is never closed.
        let place = self.room.acquire().await.ok();
        Turn { pace: self, place, halvings: self.state.lock().halvings }
    }
}

impl Turn<'_> {
    /// The store asks for fewer. Those who were under way together are told so together, and count once.
    pub(super) fn throttled(self) {
        let mut state = self.pace.state.lock();
        if state.halvings != self.halvings {
            return;
        }
        let limit = (state.limit / 2).max(1);
        let gone = state.limit - limit;
        let taken = self.pace.room.forget_permits(gone);
        state.owed += gone - taken;
        *state = State { limit, owed: state.owed, served: 0, halvings: state.halvings + 1 };
    }

    /// The store has served it.
    pub(super) fn served(self) {
        let mut state = self.pace.state.lock();
        state.served += 1;
        if state.served < state.limit || state.limit == MOST {
            return;
        }
        (state.limit, state.served) = (state.limit + 1, 0);
        match state.owed {
            0 => self.pace.room.add_permits(1),
            owed => state.owed = owed - 1,
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let Some(place) = self.place.take() else { return };
        let mut state = self.pace.state.lock();
        if state.owed > 0 {
            state.owed -= 1;
            place.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn enter(pace: &Pace) -> Option<Turn<'_>> {
        pace.enter().now_or_never()
    }

    fn all(pace: &Pace) -> Vec<Turn<'_>> {
        std::iter::from_fn(|| enter(pace)).collect()
    }

    #[test]
    fn those_who_are_throttled_together_halve_it_once() {
        let pace = Pace::new();
        let turns = all(&pace);
        assert_eq!(turns.len(), MOST);
        turns.into_iter().for_each(Turn::throttled);
        assert_eq!((pace.limit(), all(&pace).len()), (MOST / 2, MOST / 2));
        enter(&pace).unwrap().throttled();
        assert_eq!((pace.limit(), all(&pace).len()), (MOST / 4, MOST / 4));
    }

    #[test]
    fn places_that_are_too_many_are_given_to_nobody() {
        let pace = Pace::new();
        let mut turns = all(&pace);
        turns.pop().unwrap().throttled();
        // One place is free, and half of the others are too many.
        assert!(enter(&pace).is_none());
        turns.truncate(MOST / 2 - 1);
        assert_eq!(all(&pace).len(), 1);
        drop(turns);
        assert_eq!(all(&pace).len(), MOST / 2);
    }

    #[test]
    fn it_grows_again_while_requests_are_served_and_never_ends() {
        let pace = Pace::new();
        for _ in 0..20 {
            enter(&pace).unwrap().throttled();
        }
        assert_eq!((pace.limit(), all(&pace).len()), (1, 1));
        let mut asked = 0;
        while pace.limit() < MOST {
            enter(&pace).unwrap().served();
            asked += 1;
        }
        assert_eq!(asked, (1..MOST).sum::<usize>());
        enter(&pace).unwrap().served();
        assert_eq!((pace.limit(), all(&pace).len()), (MOST, MOST));
    }
}
