//! Time, randomness and the number of processors behind one trait.

use crate::sync::{Mutex, thread};
use std::sync::OnceLock;
use std::time::Duration;

/// A point in time as ext4 stores it: seconds since 1970 and nanoseconds (0..=999_999_999).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Seconds since the epoch; negative before 1970.
    pub sec: i64,
    /// Nanoseconds within the second, below 1_000_000_000.
    pub nsec: u32,
}

/// What one volume takes from its surroundings: clock, random numbers, processors.
pub trait Env: Send + Sync {
    /// The current wall-clock time.
    fn now(&self) -> Timestamp;
    /// Fills `buf` with random bytes (UUIDs, inode generations, hash seeds; not for keys).
    fn random(&self, buf: &mut [u8]);

    /// Nanoseconds since some fixed moment; never goes back. For all intervals: the wall clock may be set at any time.
    fn monotonic_ns(&self) -> u64;

    /// Lets at least `time` go by on this clock.
    fn sleep(&self, time: Duration);

    /// Threads that a single piece of work may be shared by: 1 where everything has to happen in one order.
    fn processors(&self) -> usize {
        1
    }

    /// Four random bytes as a number.
    fn random_u32(&self) -> u32 {
        let mut b = [0; 4];
        self.random(&mut b);
        u32::from_le_bytes(b)
    }

    /// Sixteen random bytes shaped as a version 4 UUID.
    fn random_uuid(&self) -> [u8; 16] {
        let mut b = [0; 16];
        self.random(&mut b);
        uuid::Builder::from_random_bytes(b).into_uuid().into_bytes()
    }
}

/// The machine's own clock and the kernel's random numbers.
#[derive(Debug, Default)]
pub struct System;

impl Env for System {
    /// As many as the machine let this process have when it was first asked: finding out reads a handful of files, and
    /// each commit asks.
    fn processors(&self) -> usize {
        static FOUND: OnceLock<usize> = OnceLock::new();
        *FOUND.get_or_init(|| thread::available_parallelism().map_or(1, usize::from))
    }

    fn sleep(&self, time: Duration) {
        thread::sleep(time);
    }

    fn monotonic_ns(&self) -> u64 {
        let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
    }

    /// The kernel's coarse clock, as its own file systems stamp with: it stands still within a tick of a few
    /// milliseconds, so that writes in quick succession need not change the inode each time.
    fn now(&self) -> Timestamp {
        let t = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
        Timestamp { sec: t.tv_sec, nsec: t.tv_nsec as u32 }
    }

    fn random(&self, buf: &mut [u8]) {
        let mut done = 0;
        while done < buf.len() {
            match rustix::rand::getrandom(&mut buf[done..], rustix::rand::GetRandomFlags::empty()) {
                Ok(n) => done += n,
                // Interrupted: ask again. The call has no other failure once the kernel is up.
                Err(_) => continue,
            }
        }
    }
}

/// A clock that only moves when told and a seeded random source: equal seeds give equal runs.
#[derive(Debug)]
pub struct Fixed {
    state: Mutex<FixedState>,
}

#[derive(Debug)]
struct FixedState {
    wall: Timestamp,
    monotonic_ns: u64,
    random: u64,
}

impl Fixed {
    /// A clock that starts at `start` and a random source that starts from `seed`.
    pub fn new(start: Timestamp, seed: u64) -> Self {
        let monotonic_ns = start.sec as u64 * 1_000_000_000 + u64::from(start.nsec);
        Self { state: Mutex::new(FixedState { wall: start, monotonic_ns, random: seed }) }
    }

    /// Moves the clock forward by `nsec` nanoseconds.
    pub fn advance(&self, nsec: u64) {
        let mut s = self.state.lock();
        s.monotonic_ns += nsec;
        let total = u64::from(s.wall.nsec) + nsec;
        s.wall.sec += (total / 1_000_000_000) as i64;
        s.wall.nsec = (total % 1_000_000_000) as u32;
    }

    /// Sets the wall clock, forward or back, as an administrator or a time server does. No time passes by it.
    pub fn set_wall(&self, wall: Timestamp) {
        self.state.lock().wall = wall;
    }
}

impl Env for Fixed {
    /// Nobody waits: the clock moves, and others go first.
    fn sleep(&self, time: Duration) {
        self.advance(time.as_nanos() as u64);
        thread::yield_now();
    }

    fn monotonic_ns(&self) -> u64 {
        self.state.lock().monotonic_ns
    }

    fn now(&self) -> Timestamp {
        self.state.lock().wall
    }

    fn random(&self, buf: &mut [u8]) {
        let mut s = self.state.lock();
        for chunk in buf.chunks_mut(8) {
            // splitmix64: small, seedable, and good enough for identifiers.
            s.random = s.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = s.random;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            chunk.copy_from_slice(&(z ^ (z >> 31)).to_le_bytes()[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_bytes_and_time_moves_only_when_told() {
        let t = Timestamp { sec: 10, nsec: 999_999_999 };
        let (a, b) = (Fixed::new(t, 7), Fixed::new(t, 7));
        assert_eq!(a.random_uuid(), b.random_uuid());
        assert_ne!(a.random_u32(), a.random_u32());
        assert_eq!(a.now(), t);
        a.advance(2);
        assert_eq!(a.now(), Timestamp { sec: 11, nsec: 1 });
        let before = a.monotonic_ns();
        a.set_wall(t);
        assert_eq!((a.now(), a.monotonic_ns()), (t, before));
    }
}
