//! One crash state, exactly.

use crate::{Cut, Event, Keep, Layer, Medium};
use std::fmt;
use std::str::FromStr;

/// A crash state of a run. As text: the number of events before the cut, a colon, and for each item that was not
/// durable `-` (lost), `+` (there), a write's units in brackets, or a line's stores (`(2)`: the first two; eight
/// numbers: for each word) in parentheses, as in `57:++-[0110](1)`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Case {
    /// Number of events that happened.
    pub events: usize,
    /// What survived of each item, in order.
    pub keep: Vec<Keep>,
}

impl Case {
    /// Builds the state out of a run's media and events.
    ///
    /// # Errors
    /// The case does not fit the run.
    pub fn build(&self, media: &[Medium], events: &[Event]) -> Result<Vec<Layer>, String> {
        let cut = self.cut(media, events)?;
        match cut.items().len() {
            n if n == self.keep.len() => Ok(cut.build(&self.keep)),
            n => {
                Err(format!("the run has {n} writes or lines that are not durable there, the case {}", self.keep.len()))
            }
        }
    }

    /// The cut that this is a state of.
    ///
    /// # Errors
    /// The run has fewer events.
    pub fn cut<'e>(&self, media: &'e [Medium], events: &'e [Event]) -> Result<Cut<'e>, String> {
        let happened = events.get(..self.events).ok_or_else(|| format!("the run has only {} events", events.len()))?;
        Ok(Cut::after(media, happened))
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.events)?;
        self.keep.iter().try_for_each(|keep| keep.fmt(f))
    }
}

impl FromStr for Case {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("no crash state (EVENTS:KEEP, as in 57:++-[0110](1)): {text}");
        let (events, mut rest) = text.split_once(':').ok_or_else(bad)?;
        let mut keep = Vec::new();
        while !rest.is_empty() {
            let (one, after) = Keep::parse(rest).ok_or_else(bad)?;
            keep.push(one);
            rest = after;
        }
        Ok(Self { events: events.parse().map_err(|_| bad())?, keep })
    }
}
