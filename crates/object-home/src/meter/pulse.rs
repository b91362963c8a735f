//! Whether a store answers what it is asked, and since when not.

use ondol_env::sync::Mutex;
use ondol_env::{Env, System};

/// See the module documentation.
#[derive(Debug, Default)]
pub(super) struct Pulse {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Requests that are under way.
    pending: u64,
    /// Since when nothing that was asked was answered. None: nothing is asked, or the last request was answered.
    since: Option<u64>,
    /// The last request that ended did so without an answer.
    failing: bool,
}

impl Pulse {
    pub(super) fn asked(&self) {
        self.asked_at(System.monotonic_ns());
    }

    /// A request that [`Pulse::asked`] has noted has ended with an answer, or without one. None: nobody waits for it
    /// any more.
    pub(super) fn ended(&self, is_answer: Option<bool>) {
        self.ended_at(System.monotonic_ns(), is_answer);
    }

    /// An answer to something that was not noted.
    pub(super) fn answered(&self) {
        self.asked();
        self.ended(Some(true));
    }

    /// For how many seconds nothing was answered.
    pub(super) fn unanswered(&self) -> u64 {
        self.unanswered_at(System.monotonic_ns())
    }

    fn asked_at(&self, now: u64) {
        let mut state = self.state.lock();
        state.pending += 1;
        state.since.get_or_insert(now);
    }

    fn ended_at(&self, now: u64, is_answer: Option<bool>) {
        let mut state = self.state.lock();
        state.pending = state.pending.saturating_sub(1);
        match is_answer {
            Some(true) => (state.failing, state.since) = (false, (state.pending > 0).then_some(now)),
            Some(false) => state.failing = true,
            // Whoever gave up has learnt nothing.
            None if state.pending == 0 && !state.failing => state.since = None,
            None => {}
        }
    }

    fn unanswered_at(&self, now: u64) -> u64 {
        self.state.lock().since.map_or(0, |since| now.saturating_sub(since) / 1_000_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds.
    const S: u64 = 1_000_000_000;

    #[test]
    fn silence_begins_with_the_first_request_behind_the_last_answer() {
        let pulse = Pulse::default();
        assert_eq!(pulse.unanswered_at(100 * S), 0);
        pulse.asked_at(100 * S);
        pulse.asked_at(110 * S);
        assert_eq!(pulse.unanswered_at(130 * S), 30);
        // One answer tells that it is there; what is under way counts from then on.
        pulse.ended_at(130 * S, Some(true));
        assert_eq!(pulse.unanswered_at(135 * S), 5);
        pulse.ended_at(136 * S, Some(true));
        assert_eq!(pulse.unanswered_at(500 * S), 0);
    }

    #[test]
    fn failures_go_on_until_something_is_answered() {
        let pulse = Pulse::default();
        pulse.asked_at(10 * S);
        pulse.ended_at(12 * S, Some(false));
        assert_eq!(pulse.unanswered_at(20 * S), 10);
        pulse.asked_at(20 * S);
        pulse.ended_at(21 * S, None);
        assert_eq!(pulse.unanswered_at(30 * S), 20);
        pulse.asked_at(30 * S);
        pulse.ended_at(31 * S, Some(true));
        assert_eq!(pulse.unanswered_at(40 * S), 0);
    }

    #[test]
    fn what_is_given_up_says_nothing() {
        let pulse = Pulse::default();
        pulse.asked_at(10 * S);
        pulse.asked_at(11 * S);
        pulse.ended_at(12 * S, None);
        assert_eq!(pulse.unanswered_at(20 * S), 10);
        pulse.ended_at(21 * S, None);
        assert_eq!(pulse.unanswered_at(30 * S), 0);
    }
}
