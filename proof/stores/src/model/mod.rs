//! Modelled devices: how long a disk that is not there would take.
//!
//! [`Device`] is arithmetic only: requests with their times in, times of completion out. [`ModelStore`] puts one under
//! any store and lets its callers wait; a [`Pace`] says what waiting is. What the models are for:
//! docs/design/bench.md.

mod hdd;
mod pace;
mod ssd;
mod store;
#[cfg(test)]
mod tests;

pub use pace::{Pace, RealPace, VirtualPace};
pub use store::ModelStore;

use hdd::Hdd;
use ssd::Ssd;

/// What is asked of a device. Offsets and lengths are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Read `len` bytes at `offset`.
    Read {
        /// Where.
        offset: u64,
        /// How much.
        len: u64,
    },
    /// Write `len` bytes at `offset`.
    Write {
        /// Where.
        offset: u64,
        /// How much.
        len: u64,
    },
    /// Make durable what was written.
    Flush,
}

/// A device: its parameters and what it is doing.
#[derive(Clone, Debug)]
pub struct Device(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Ssd(Ssd),
    Hdd(Hdd),
}

impl Device {
    /// A SATA solid-state disk with a volatile write cache.
    pub fn ssd() -> Self {
        Self(Kind::Ssd(Ssd::default()))
    }

    /// A hard disk of 7200 turns a minute and `size` bytes: its arm crosses the whole disk from the first byte to the
    /// last.
    pub fn hdd(size: u64) -> Self {
        Self(Kind::Hdd(Hdd::new(size)))
    }

    /// Bytes that its arm has moved over to get where it was wanted; `None` if it has no arm.
    pub fn way(&self) -> Option<u64> {
        match &self.0 {
            Kind::Ssd(_) => None,
            Kind::Hdd(hdd) => Some(hdd.way()),
        }
    }

    /// When the device is done with a request that arrives at `now`, in nanoseconds of the same clock. Requests are
    /// given in the order of their arrival.
    pub fn serve(&mut self, now: u64, request: Request) -> u64 {
        match &mut self.0 {
            Kind::Ssd(ssd) => ssd.serve(now, request),
            Kind::Hdd(hdd) => hdd.serve(now, request),
        }
    }
}

/// Nanoseconds that `len` bytes take at `bytes_per_second`.
fn transfer(len: u64, bytes_per_second: u64) -> u64 {
    u64::try_from(u128::from(len) * 1_000_000_000 / u128::from(bytes_per_second)).unwrap_or(u64::MAX)
}
