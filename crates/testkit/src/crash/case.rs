//! One crash state, exactly: the event after which power was lost, and what survived of each unflushed write.

use super::{Layer, UNIT};
use ondol_power::Event;
use std::fmt;
use std::str::FromStr;

/// What survived of one write.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Keep {
    /// Nothing.
    None,
    /// All of it.
    All,
    /// These of its units of 512 aligned bytes, in order.
    Units(Vec<bool>),
}

/// A crash state of a run. As text: the number of events before the cut, a colon, and for each write since the last flush
/// `-` (lost), `+` (there) or its units in brackets, as in `57:++-[0110]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Case {
    /// Number of events that happened.
    pub events: usize,
    /// What survived of each write since the last flush, in order.
    pub keep: Vec<Keep>,
}

/// First byte of ext4's superblock, and the byte behind it.
const SUPERBLOCK: std::ops::Range<usize> = 1024..2048;

/// Applies what survived of a write.
pub(super) fn apply(layer: &mut Layer, offset: u64, bytes: &[u8], keep: &Keep) {
    let offset = offset as usize;
    match keep {
        Keep::None => {}
        Keep::All => layer.write(offset, bytes),
        Keep::Units(units) => {
            for (range, kept) in ranges(offset, bytes.len()).zip(whole_superblock(offset, units)) {
                if kept {
                    layer.write(offset + range.start, &bytes[range]);
                }
            }
        }
    }
}

/// The parts of a write of `len` bytes at `offset` that lie in one unit each.
fn ranges(offset: usize, len: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let first = offset / UNIT;
    (0..units_of(offset as u64, len)).map(move |i| {
        let unit = (first + i) * UNIT;
        unit.max(offset) - offset..(unit + UNIT).min(offset + len) - offset
    })
}

/// Number of units that a write touches.
pub(super) fn units_of(offset: u64, len: usize) -> usize {
    let first = offset as usize / UNIT;
    if len == 0 { 0 } else { (offset as usize + len - 1) / UNIT - first + 1 }
}

/// The superblock arrives whole or not at all: its first unit decides.
fn whole_superblock(offset: usize, units: &[bool]) -> Vec<bool> {
    let first = offset / UNIT;
    let glued = |i: usize| SUPERBLOCK.contains(&((first + i) * UNIT));
    let decides = (0..units.len()).find(|i| glued(*i));
    (0..units.len()).map(|i| units[if glued(i) { decides.unwrap_or(i) } else { i }]).collect()
}

impl Case {
    /// Builds the state out of a run's base image and events.
    ///
    /// # Errors
    /// The case does not fit the run.
    pub fn build(&self, base: &Layer, events: &[Event]) -> Result<Layer, String> {
        let happened = events.get(..self.events).ok_or("the run has fewer events")?;
        let flushed = happened.iter().rposition(|e| matches!(e, Event::Flush { .. })).map_or(0, |at| at + 1);
        let mut layer = base.clone();
        let mut keep = self.keep.iter();
        for (i, event) in happened.iter().enumerate() {
            let Event::Write { offset, bytes, .. } = event else { continue };
            let kept = if i < flushed { &Keep::All } else { keep.next().ok_or("the run has more unflushed writes")? };
            apply(&mut layer, *offset, bytes, kept);
        }
        keep.next().map_or(Ok(layer), |_| Err("the run has fewer unflushed writes".into()))
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.events)?;
        for keep in &self.keep {
            match keep {
                Keep::None => f.write_str("-")?,
                Keep::All => f.write_str("+")?,
                Keep::Units(units) => {
                    let bits: String = units.iter().map(|kept| if *kept { '1' } else { '0' }).collect();
                    write!(f, "[{bits}]")?;
                }
            }
        }
        Ok(())
    }
}

impl FromStr for Case {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("no crash state (EVENTS:KEEP, as in 57:++-[0110]): {text}");
        let (events, mut rest) = text.split_once(':').ok_or_else(bad)?;
        let mut keep = Vec::new();
        while let Some(c) = rest.chars().next() {
            rest = &rest[c.len_utf8()..];
            keep.push(match c {
                '-' => Keep::None,
                '+' => Keep::All,
                '[' => {
                    let (bits, after) = rest.split_once(']').ok_or_else(bad)?;
                    rest = after;
                    let bit = |c| if c == '0' || c == '1' { Ok(c == '1') } else { Err(bad()) };
                    Keep::Units(bits.chars().map(bit).collect::<Result<_, _>>()?)
                }
                _ => return Err(bad()),
            });
        }
        Ok(Self { events: events.parse().map_err(|_| bad())?, keep })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondol_env::sync::Arc;

    fn write(offset: u64, bytes: &[u8]) -> Event {
        Event::Write { medium: 0, offset, bytes: bytes.into() }
    }

    #[test]
    fn a_case_survives_being_text() {
        for text in ["0:", "57:++-[0110]-"] {
            assert_eq!(text.parse::<Case>().unwrap().to_string(), text);
        }
        assert!("57".parse::<Case>().is_err() && "1:[01".parse::<Case>().is_err() && "x:+".parse::<Case>().is_err());
    }

    #[test]
    fn torn_writes_lose_units_of_512_aligned_bytes() {
        let base = Layer::new(Arc::from(vec![0; 8192]));
        let events = [write(0, &[9; 8]), Event::Flush { medium: 0 }, write(4000, &[1; 1000])];
        let case: Case = "3:[011]".parse().unwrap();
        let bytes = case.build(&base, &events).unwrap().to_bytes();
        assert_eq!((bytes[0], bytes[4000], bytes[4095], bytes[4096], bytes[4999]), (9, 0, 0, 1, 1));
        assert!("3:".parse::<Case>().unwrap().build(&base, &events).is_err());
        assert!("9:".parse::<Case>().unwrap().build(&base, &events).is_err());
    }

    #[test]
    fn the_superblock_is_not_torn() {
        let base = Layer::new(Arc::from(vec![0; 8192]));
        let case: Case = "1:[00010]".parse().unwrap();
        let bytes = case.build(&base, &[write(0, &[1; 2560])]).unwrap().to_bytes();
        assert!(bytes.iter().all(|b| *b == 0));
    }
}
