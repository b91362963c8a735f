//! Which transfers fail.

use ondol_env::{Env, Fixed, Timestamp};
use std::fmt;
use std::str::FromStr;

/// The kinds of transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads.
    Read,
    /// Writes and discards.
    Write,
    /// Flushes.
    Flush,
}

/// Transfers of this kind fail with EIO: the `nth`, counted from 0, and so many in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Which transfers.
    pub kind: Kind,
    /// The first that fails.
    pub nth: u64,
    /// How many; `u64::MAX` for all from then on.
    pub times: u64,
}

/// As in `write:17`, which fails for good, or `flush:3:2`, of which two fail.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::Flush => "flush",
        };
        write!(f, "{kind}:{}", self.nth)?;
        if self.times == u64::MAX { Ok(()) } else { write!(f, ":{}", self.times) }
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("no fault (KIND:NUMBER[:TIMES], as in write:17 or flush:3:1): {text}");
        let mut words = text.split(':');
        let kind = match words.next() {
            Some("read") => Kind::Read,
            Some("write") => Kind::Write,
            Some("flush") => Kind::Flush,
            _ => return Err(bad()),
        };
        let nth = words.next().ok_or_else(bad)?.parse().map_err(|_| bad())?;
        let times = words.next().map_or(Ok(u64::MAX), |times| times.parse().map_err(|_| bad()))?;
        if words.next().is_some() { Err(bad()) } else { Ok(Self { kind, nth, times }) }
    }
}

/// Faults of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Faults {
    /// This one.
    One(Fault),
    /// Some of those that there can be.
    Search {
        /// Which ones.
        seed: u64,
        /// How many.
        count: u64,
    },
    /// So many transfers of each kind, evenly spread over the run, each fails once and for good.
    Spread {
        /// How many; 0 for all.
        points: u64,
        /// Which ones.
        shift: u64,
    },
}

impl Faults {
    /// If it is one.
    pub(crate) fn one(self) -> Option<Fault> {
        match self {
            Self::One(fault) => Some(fault),
            Self::Search { .. } | Self::Spread { .. } => None,
        }
    }

    /// Of a run that makes so many transfers.
    pub(crate) fn of(self, tried: Tried) -> Vec<Fault> {
        let (seed, count) = match self {
            Self::One(fault) => return vec![fault],
            Self::Search { seed, count } => (seed, count),
            Self::Spread { points, shift } => return tried.spread(points, shift),
        };
        let random = Fixed::new(Timestamp::default(), seed);
        let below = |n: u64| u64::from(random.random_u32()) % n.max(1);
        let one = |_| {
            // Writes and flushes more than reads; while it is opened less than later, when there are promises to keep.
            let (kind, [opening, all]) = match below(6) {
                0 => (Kind::Read, tried.reads),
                1..4 => (Kind::Write, tried.writes),
                _ => (Kind::Flush, tried.flushes),
            };
            let nth = if below(4) == 0 { below(all) } else { opening + below(all - opening) };
            Fault { kind, nth, times: [1, u64::MAX, 2][below(3) as usize] }
        };
        (0..count).map(one).collect()
    }
}

/// Transfers that were tried: while the volume was opened, and in all.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tried {
    pub(super) reads: [u64; 2],
    pub(super) writes: [u64; 2],
    pub(super) flushes: [u64; 2],
}

impl Tried {
    fn spread(mut self, points: u64, shift: u64) -> Vec<Fault> {
        let mut all = Vec::new();
        for kind in [Kind::Read, Kind::Write, Kind::Flush] {
            let [_, count] = *self.of(kind);
            let points = if points == 0 { count } else { points.min(count) };
            let nth = (0..points).map(|i| (i * count + shift % count.max(1)) / points);
            all.extend(nth.flat_map(|nth| [1, u64::MAX].map(|times| Fault { kind, nth, times })));
        }
        all
    }

    pub(super) fn of(&mut self, kind: Kind) -> &mut [u64; 2] {
        match kind {
            Kind::Read => &mut self.reads,
            Kind::Write => &mut self.writes,
            Kind::Flush => &mut self.flushes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read_as_they_are_written() {
        for text in ["read:0", "write:17", "flush:3:1"] {
            assert_eq!(text.parse::<Fault>().unwrap().to_string(), text);
        }
        for text in ["", "write", "sync:1", "write:x", "flush:1:2:3"] {
            assert!(text.parse::<Fault>().is_err(), "{text}");
        }
    }
}
