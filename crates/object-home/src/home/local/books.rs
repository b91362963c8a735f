//! What is in the local log and not in the bucket: how much, for how long, and how that holds up who writes.

use ondol_env::sync::Mutex;
use ondol_env::{Env, System};
use std::collections::VecDeque;
use std::time::Duration;
use tokio::sync::Notify;

/// Nobody is held up longer than this at a time, as long as there is room.
const PAUSE: Duration = Duration::from_secs(1);

/// How far the bucket is behind the local log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// Bytes that are not in the bucket.
    pub bytes: u64,
    /// Batches that are not in the bucket.
    pub batches: u64,
    /// How long the oldest of them has been waiting.
    pub oldest: Duration,
}

/// A record that is not in the bucket.
#[derive(Clone, Copy, Debug)]
struct Entry {
    number: u64,
    /// Its place in the ring.
    position: u64,
    len: u64,
    at: u64,
}

/// Who appends and who ships meet here.
#[derive(Debug)]
pub(in crate::home) struct Books {
    state: Mutex<State>,
    /// Rung when there is something to ship, or when it is wanted at once.
    pub(super) bell: Notify,
    bytes: u64,
    time: Duration,
    gather: Duration,
    gather_bytes: u64,
}

#[derive(Debug, Default)]
struct State {
    entries: VecDeque<Entry>,
    bytes: u64,
    /// Somebody waits for this batch to be in the bucket.
    urged: u64,
    /// Bytes that were shipped in a second, of late. 0: not known yet.
    rate: u64,
}

impl Books {
    /// With these bounds; what is younger than `gather` may wait for more.
    pub(super) fn new(bytes: u64, time: Duration, gather: Duration) -> Self {
        Self { state: Mutex::default(), bell: Notify::new(), bytes, time, gather, gather_bytes: bytes / 8 }
    }

    /// The bounds.
    pub(super) fn bounds(&self) -> (u64, Duration) {
        (self.bytes, self.time)
    }

    pub(super) fn add(&self, number: u64, position: u64, len: u64) {
        let mut state = self.state.lock();
        state.bytes += len;
        state.entries.push_back(Entry { number, position, len, at: System.monotonic_ns() });
        drop(state);
        self.bell.notify_one();
    }

    /// Everything up to batch `settled` is in the bucket: where the first record lies that is not, and its number.
    pub(super) fn release(&self, settled: u64) -> Option<(u64, u64)> {
        let mut state = self.state.lock();
        while let Some(entry) = state.entries.front().filter(|entry| entry.number <= settled) {
            let len = entry.len;
            state.bytes -= len;
            state.entries.pop_front();
        }
        state.entries.front().map(|entry| (entry.position, entry.number))
    }

    pub(super) fn lag(&self, settled: u64) -> Lag {
        self.release(settled);
        let state = self.state.lock();
        let oldest = state.entries.front().map(|entry| System.monotonic_ns().saturating_sub(entry.at));
        let oldest = Duration::from_nanos(oldest.unwrap_or_default());
        Lag { bytes: state.bytes, batches: state.entries.len() as u64, oldest }
    }

    /// Whether `len` more bytes would be too many, or too old.
    pub(super) fn is_full(&self, lag: Lag, len: u64) -> bool {
        lag.batches > 0 && (lag.bytes + len > self.bytes || lag.oldest >= self.time)
    }

    /// How long `len` bytes are held up. From half of a bound on, more and more: at three quarters, for as long as
    /// their own shipping takes.
    pub(super) fn pause(&self, lag: Lag, len: u64) -> Duration {
        let share = |part: f64, whole: f64| part / whole.max(f64::MIN_POSITIVE);
        let share =
            share(lag.bytes as f64, self.bytes as f64).max(share(lag.oldest.as_secs_f64(), self.time.as_secs_f64()));
        let rate = self.state.lock().rate;
        if lag.batches == 0 || share <= 0.5 || rate == 0 {
            return Duration::ZERO;
        }
        let own = len as f64 / rate as f64;
        Duration::from_secs_f64((own * (share - 0.5) * 4.0).min(PAUSE.as_secs_f64()))
    }

    /// Somebody waits until batch `number` is in the bucket.
    pub(super) fn urge(&self, number: u64) {
        let mut state = self.state.lock();
        state.urged = state.urged.max(number);
        drop(state);
        self.bell.notify_one();
    }

    /// How long more may be gathered before it is shipped; zero when it is time.
    pub(super) fn patience(&self, settled: u64) -> Duration {
        let lag = self.lag(settled);
        let is_urged = self.state.lock().urged > settled;
        if is_urged || lag.bytes >= self.gather_bytes {
            return Duration::ZERO;
        }
        self.gather.saturating_sub(lag.oldest)
    }

    /// It took so long to ship `bytes`.
    pub(super) fn shipped(&self, bytes: u64, took: Duration) {
        let rate = (bytes as f64 / took.as_secs_f64().max(1e-6)) as u64;
        let mut state = self.state.lock();
        state.rate = if state.rate == 0 { rate } else { (state.rate / 4 * 3).saturating_add(rate / 4) }.max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn books() -> Books {
        Books::new(1000, Duration::from_secs(100), Duration::from_secs(50))
    }

    #[test]
    fn what_is_in_the_bucket_counts_no_more() {
        let books = books();
        (5..8).for_each(|number| books.add(number, number * 64, 100));
        assert_eq!((books.lag(4).bytes, books.lag(4).batches), (300, 3));
        assert_eq!(books.release(5), Some((6 * 64, 6)));
        assert_eq!((books.lag(5).bytes, books.lag(6).batches), (200, 1));
        assert_eq!(books.release(7), None);
        assert_eq!(books.lag(7), Lag::default());
    }

    #[test]
    fn who_writes_is_held_up_more_and_more_and_then_waits_for_room() {
        let books = books();
        let lag = |bytes, oldest| Lag { bytes, batches: 1, oldest: Duration::from_secs(oldest) };
        // Nothing was shipped yet: nobody knows how long it takes.
        assert_eq!(books.pause(lag(900, 0), 100), Duration::ZERO);
        books.shipped(1000, Duration::from_secs(1));
        let pause = |bytes, oldest| books.pause(lag(bytes, oldest), 100).as_millis();
        assert_eq!([pause(500, 0), pause(750, 0), pause(1000, 0)], [0, 100, 200]);
        assert_eq!([pause(0, 50), pause(0, 75), pause(750, 100)], [0, 100, 200]);
        assert_eq!(books.pause(lag(1000, 0), 1 << 20), PAUSE);
        assert!(!books.is_full(lag(900, 0), 100) && books.is_full(lag(901, 0), 100) && books.is_full(lag(0, 100), 1));
        // One that is larger than the bound goes alone.
        assert!(!books.is_full(Lag::default(), 5000));
    }

    #[test]
    fn it_is_shipped_when_much_waits_or_somebody_does() {
        let books = books();
        books.add(5, 0, 10);
        assert!(books.patience(4) > Duration::ZERO);
        books.urge(5);
        assert_eq!(books.patience(4), Duration::ZERO);
        books.add(6, 64, 10);
        assert!(books.patience(5) > Duration::ZERO);
        books.add(7, 128, 200);
        assert_eq!(books.patience(5), Duration::ZERO);
    }

    #[test]
    fn the_rate_follows_slowly() {
        let books = books();
        books.shipped(1000, Duration::from_secs(1));
        books.shipped(0, Duration::from_secs(1));
        assert_eq!(books.state.lock().rate, 750);
    }
}
