//! When the server is asked.

use std::time::Duration;

/// How long a server may go without a question: it times requests for a minute after each.
const REMINDER: Duration = Duration::from_secs(30);

/// When a report begins, by the monotonic clock. Its length may change while it lasts.
#[derive(Debug)]
pub(super) struct Pace(Duration);

impl Pace {
    pub(super) fn beginning(begun: Duration) -> Self {
        Self(begun)
    }

    /// Whether a reading that is asked for now ends the report; else it is there so that requests go on being timed.
    pub(super) fn is_due(&self, interval: Duration, now: Duration) -> bool {
        now >= self.0.saturating_add(interval)
    }

    /// How long it is until the server is to be asked, whom somebody asked last at `asked`.
    pub(super) fn left(&self, interval: Duration, asked: Duration, now: Duration) -> Duration {
        self.0.saturating_add(interval).min(asked.saturating_add(REMINDER)).saturating_sub(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The moments at which a server is asked for a report from second 100 on, and whether each ends it.
    fn asked(interval: u64) -> Vec<(u64, bool)> {
        let (interval, pace) = (Duration::from_secs(interval), Pace::beginning(Duration::from_secs(100)));
        let (mut now, mut all) = (Duration::from_secs(100), Vec::new());
        while all.last().is_none_or(|(_, ends)| !ends) {
            now += pace.left(interval, now, now);
            all.push((now.as_secs(), pace.is_due(interval, now)));
        }
        all
    }

    #[test]
    fn a_server_never_waits_for_a_minute_to_be_asked() {
        assert_eq!(asked(1), [(101, true)]);
        assert_eq!(asked(30), [(130, true)]);
        assert_eq!(asked(100), [(130, false), (160, false), (190, false), (200, true)]);
        let hour = asked(3600);
        assert!(hour.windows(2).all(|pair| pair[1].0 - pair[0].0 < 60) && hour.last() == Some(&(3700, true)));
    }
}
