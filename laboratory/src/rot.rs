//! A bit of the log that changes by itself.
//!
//! No crash does that: flushes keep a commit from being on the medium before what it commits. So only this shows whether recovery looks at checksums, and whether it
//! tells damage from the end of the log. A block of the log that a sync has covered belongs to a transaction that is durable. Once a later sync has written to the log,
//! too, damage in that block is not the log's end any more: recovery refuses it and names the journal, or needs the block no more and comes to what is right.

use crate::log::Log;
use crate::run::Run;
use ondol_env::{Env, Fixed, Timestamp};
use ondol_power::{Event, Layer};
use ondol_testkit::disks::is_pool;
use std::fmt;

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
        if let (Some(layer), Ok(at)) = (layers.get_mut(log.medium), usize::try_from(self.byte)) {
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
    if run.description.fault.is_some() || !run.log.is_checked || run.media.iter().any(|medium| is_pool(&medium.base)) {
        return None;
    }
    let logged = |event: &Event| match event {
        Event::Write { medium, offset, bytes } if *medium as usize == run.log.medium && run.log.holds(*offset) => {
            // Zeros are no transaction.
            bytes.iter().any(|b| *b != 0).then_some((*offset, bytes.len() as u64))
        }
        _ => None,
    };
    let synced = |n: &usize| run.allowed[*n].0 > run.allowed[*n - 1].0;
    let mut syncs = (1..=events).rev().filter(synced);
    let last = syncs.next()?;
    let before = syncs.find(|sync| run.events[*sync..last].iter().any(|event| logged(event).is_some()))?;

    let random = Fixed::new(Timestamp::default(), seed);
    let below = |most: u64| u64::from(random.random_u32()) % most;
    let written: Vec<_> = (0..).zip(&run.events[..before]).filter_map(|(at, e)| Some((at, logged(e)?))).collect();
    let &(at, (offset, len)) = written.get(below(written.len().max(1) as u64) as usize)?;
    let flip = Flip { byte: offset + below(len), bit: random.random_u32() % 8 };
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
