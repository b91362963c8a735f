//! How often a server says the same: whoever can have it say something cannot fill its log with that. As ext4 does it:
//! ten messages of a kind in five seconds, and the next that is said tells how many were left out.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

/// How long messages are counted together.
const WINDOW: Duration = Duration::from_secs(5);
/// How many of a kind are said in that time.
const MOST: u32 = 10;

/// The kinds of messages that there have been.
#[derive(Debug)]
pub(super) struct Limit<K>(HashMap<K, Said>);

/// What has been said of one kind.
#[derive(Debug)]
struct Said {
    since: Duration,
    times: u32,
    left_out: u64,
}

impl<K> Default for Limit<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash> Limit<K> {
    /// Whether a message of this kind is to be said at the time `now`, and then how many like it were left out before.
    pub(super) fn admits(&mut self, kind: K, now: Duration) -> Option<u64> {
        let said = self.0.entry(kind).or_insert(Said { since: now, times: 0, left_out: 0 });
        if now.saturating_sub(said.since) >= WINDOW {
            (said.since, said.times) = (now, 0);
        }
        if said.times == MOST {
            said.left_out += 1;
            return None;
        }
        said.times += 1;
        Some(std::mem::take(&mut said.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_said_ten_times_and_then_how_often_it_was_not() {
        let mut limit = Limit::default();
        let mut say = |kind, at: u64| limit.admits(kind, Duration::from_millis(7_000 + at));
        assert!((0..10).all(|n| say("a", n) == Some(0)));
        assert!((0..100).all(|n| say("a", 10 + n * 49).is_none()));
        assert_eq!(say("b", 4_900), Some(0), "another kind");
        assert_eq!((say("a", 5_000), say("a", 5_001)), (Some(100), Some(0)));
        assert!((2..10).all(|n| say("a", 5_000 + n) == Some(0)) && say("a", 9_999).is_none());
        assert_eq!(say("a", 20_000), Some(1));
    }
}
