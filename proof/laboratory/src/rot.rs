//! A bit of the log that changes by itself.
//!
//! No crash does that: flushes keep a commit from being on the medium before what it commits. So only this shows
//! whether recovery looks at checksums, and whether it tells damage from the end of the log. A block of the log that a
//! sync has covered belongs to a transaction that is durable. Once a later sync has written to the log, too, damage in
//! that block is not the log's end any more: recovery refuses it and names the journal, or needs the block no more and
//! comes to what is right.
//!
//! Of a log in an NVM pool it is a bit of a record or of a commit's line that lies before a commit which another one
//! has followed: that one is durable, and has a number that shows what is missing.
//!
//! Of a page table it is any bit of an entry, at any time: each has a checksum.

use crate::log::{Log, NvmLog};
use crate::run::Run;
use ondol_env::{Env, Fixed, Timestamp};
use ondol_power::{Event, Layer};
use std::fmt;
use std::ops::Range;

/// One bit of the medium that the log lies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flip {
    /// Bytes from the medium's beginning.
    pub byte: u64,
    /// 0 to 7.
    pub bit: u32,
}

impl Flip {
    /// The media with that bit changed.
    pub(crate) fn of(self, layers: &[Layer], log: &Log) -> Vec<Layer> {
        let mut layers = layers.to_vec();
        if let (Some(layer), Ok(at)) = (layers.get_mut(log.logs_on()), usize::try_from(self.byte)) {
            let mut byte = [0];
            layer.read(at, &mut byte);
            layer.write(at, &[byte[0] ^ 1 << self.bit]);
        }
        layers
    }
}

impl fmt::Display for Flip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.byte, self.bit)
    }
}

impl std::str::FromStr for Flip {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('.').and_then(|(byte, bit)| Some((byte.parse().ok()?, bit.parse().ok()?)));
        let (byte, bit) = parsed.filter(|(_, bit)| *bit < 8).ok_or_else(|| format!("no bit of the log: {text}"))?;
        Ok(Self { byte, bit })
    }
}

/// A bit whose damage has to be noticed after so many events, if there is one where `seed` looks.
pub(crate) fn choose(run: &Run, events: usize, seed: u64) -> Option<Flip> {
    // On a medium that fails nobody can tell which sync has written what.
    if run.description.fault.is_some() {
        return None;
    }
    let in_map = |map: &Range<u64>| Choice::new(seed).bit(map.start, map.end - map.start);
    match (&run.log.nvm, &run.log.map) {
        (nvm, Some(map)) if nvm.is_none() || seed.is_multiple_of(2) => Some(in_map(map)),
        (Some(nvm), _) => in_pool(run, nvm, events, seed),
        _ => run.log.is_checked.then(|| in_journal(run, events, seed)).flatten(),
    }
}

/// The syncs that returned among so many events and made more durable, the latest first: numbers of events.
fn syncs(run: &Run, events: usize) -> impl Iterator<Item = usize> {
    (1..=events).rev().filter(|n| run.allowed[*n].0 > run.allowed[*n - 1].0)
}

fn in_pool(run: &Run, nvm: &NvmLog, events: usize, seed: u64) -> Option<Flip> {
    let synced = syncs(run, events).next()?;
    let mut commits = (0..synced).rev().filter(|n| nvm.is_commit(&run.events[*n]));
    let before = commits.nth(1)?;
    let choice = Choice::new(seed);
    let stored: Vec<_> = (0..).zip(&run.events[..=before]).filter_map(|(at, e)| Some((at, nvm.stored(e)?))).collect();
    let &(at, (offset, bytes)) = choice.of(&stored)?;
    let stays: usize = at + 1;
    let flip = choice.bit(offset, bytes.len() as u64);
    let is_over = |event: &Event| {
        nvm.stored(event).is_some_and(|(offset, bytes)| (offset..offset + bytes.len() as u64).contains(&flip.byte))
    };
    (!run.events[stays..events].iter().any(is_over)).then_some(flip)
}

/// What a seed chooses.
struct Choice(Fixed);

impl Choice {
    fn new(seed: u64) -> Self {
        Self(Fixed::new(Timestamp::default(), seed))
    }

    fn below(&self, most: u64) -> u64 {
        u64::from(self.0.random_u32()) % most
    }

    fn of<'t, T>(&self, all: &'t [T]) -> Option<&'t T> {
        all.get(self.below(all.len().max(1) as u64) as usize)
    }

    /// Of `len` bytes from `offset` on.
    fn bit(&self, offset: u64, len: u64) -> Flip {
        Flip { byte: offset + self.below(len), bit: self.0.random_u32() % 8 }
    }
}

fn in_journal(run: &Run, events: usize, seed: u64) -> Option<Flip> {
    let logged = |event: &Event| match event {
        Event::Write { medium, offset, bytes } if *medium as usize == run.log.medium && run.log.holds(*offset) => {
            // Zeros are no transaction.
            bytes.iter().any(|b| *b != 0).then_some((*offset, bytes.len() as u64))
        }
        _ => None,
    };
    let mut syncs = syncs(run, events);
    let last = syncs.next()?;
    let before = syncs.find(|sync| run.events[*sync..last].iter().any(|event| logged(event).is_some()))?;

    let choice = Choice::new(seed);
    let written: Vec<_> = (0..).zip(&run.events[..before]).filter_map(|(at, e)| Some((at, logged(e)?))).collect();
    let &(at, (offset, len)) = choice.of(&written)?;
    let flip = choice.bit(offset, len);
    let is_over = |event: &Event| match event {
        Event::Write { medium, offset, bytes } | Event::WriteFailed { medium, offset, bytes } => {
            *medium as usize == run.log.medium && (*offset..offset + bytes.len() as u64).contains(&flip.byte)
        }
        Event::Discard { medium, offset, len } => {
            *medium as usize == run.log.medium && (*offset..offset + len).contains(&flip.byte)
        }
        _ => false,
    };
    let stays: usize = at + 1;
    (!run.events[stays..events].iter().any(is_over)).then_some(flip)
}

#[cfg(test)]
mod tests {
    use super::Flip;

    #[test]
    fn flips_are_read_as_they_are_written() {
        let flip = Flip { byte: 123_456, bit: 7 };
        assert_eq!(flip.to_string().parse(), Ok(flip));
        for text in ["", "1", "1.8", "a.1", "1.-1"] {
            assert!(text.parse::<Flip>().is_err(), "{text}");
        }
    }
}
