//! Whether a recovered volume is a beginning of an order.

use super::order::{Orders, Progress, State, is_within};
use crate::dump::{Snapshot, Strictness, describe_bytes};
use crate::model::Content;
use crate::op::Path;
use ondol::DataMode;

/// What a recovered volume was found to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matched {
    states: Vec<usize>,
    /// What a crash must have kept when it was looked at.
    must: Progress,
}

/// States described when none fits.
const EXPLAINED: usize = 4;

impl Orders {
    /// Which states of which beginnings `found` is, recovered from a crash after `events` events.
    ///
    /// # Errors
    /// It is none of those that are allowed; says what differs.
    pub fn judge(&self, data: DataMode, events: usize, found: &Snapshot) -> Result<Matched, String> {
        let (must, may) = self.range(events);
        let judge = Judge { orders: self, data, must: &must, may: &may };
        let states: Vec<usize> = judge.allowed().filter(|i| judge.shows(*i, found)).collect();
        if states.is_empty() { Err(judge.explain(found)) } else { Ok(Matched { states, must }) }
    }

    /// Whether what once was found is also allowed after `events` events, with no need to look again. Events only grow.
    pub fn still_allowed(&self, data: DataMode, matched: &Matched, events: usize) -> bool {
        let (must, may) = self.range(events);
        // What is stale counts from the last sync on in `writeback` alone.
        (data != DataMode::Writeback || matched.must == must)
            && matched.states.iter().any(|i| is_between(&must, &self.states[*i], &may))
    }

    /// Whether fewer states are allowed after this many events than after one less.
    pub fn is_narrowed(&self, events: usize) -> bool {
        events > 0 && self.range(events).0 != self.range(events - 1).0
    }
}

fn is_between(must: &Progress, state: &State, may: &Progress) -> bool {
    is_within(must, &state.progress) && is_within(&state.progress, may)
}

struct Judge<'a> {
    orders: &'a Orders,
    data: DataMode,
    must: &'a Progress,
    may: &'a Progress,
}

impl Judge<'_> {
    fn allowed(&self) -> impl Iterator<Item = usize> {
        let states = &self.orders.states;
        (0..states.len()).filter(|i| is_between(self.must, &states[*i], self.may))
    }

    /// Whether `found` is this state, as far as the data mode promises.
    fn shows(&self, i: usize, found: &Snapshot) -> bool {
        let state = &self.orders.states[i];
        match self.data {
            DataMode::Journal => state.shown().accepts(found, Strictness::Whole),
            _ => {
                state.shown().accepts(found, Strictness::Metadata)
                    && found.entries().all(|(path, entry)| self.wrong_byte(i, path, &entry.content).is_none())
            }
        }
    }

    /// The first byte of a file that cannot be there.
    fn wrong_byte(&self, i: usize, path: &Path, found: &Content) -> Option<u64> {
        let state = &self.orders.states[i];
        let id = state.model.id_of(path)?;
        let want = state.model.content(id)?;
        let mut differing =
            want.differences(found, 8).into_iter().flatten().filter(|at| found.byte(*at) != want.byte(*at));
        let first = differing.next()?;
        if self.data == DataMode::Journal {
            return Some(first);
        }
        let content = |state: usize| self.orders.states[state].model.content(id);
        let mut changes: Vec<_> = self.alone(i).into_iter().map(|(one, next)| (content(one), content(next))).collect();
        changes.retain(|(old, new)| old != new);
        let can_be_there = |at: &u64| {
            let byte = |content: &Option<&Content>| content.map(|content| content.byte(*at));
            let mut made = changes.iter().filter(|(old, new)| byte(old) != byte(new));
            match self.data {
                DataMode::Writeback => made.next().is_some(),
                _ => made.any(|(_, new)| byte(new) == Some(found.byte(*at))),
            }
        };
        std::iter::once(first).chain(differing).find(|at| !can_be_there(at))
    }

    /// The steps that may show in this state without the rest of what they did, as the states before and after each:
    /// those that follow; for `writeback` also those that went before. A map's commit, or an exchange, never does.
    fn alone(&self, i: usize) -> Vec<(usize, usize)> {
        let states = &self.orders.states;
        let mut follow = vec![false; states.len()];
        follow[i] = true;
        for at in i..states.len() {
            if follow[at] {
                states[at].next.iter().for_each(|next| follow[*next] = true);
            }
        }
        let mut leads = vec![false; states.len()];
        if self.data == DataMode::Writeback {
            leads[i] = true;
            for at in (0..i).rev() {
                leads[at] = states[at].next.iter().any(|next| leads[*next]);
            }
        }
        let is_possible = |(one, next): &(usize, usize)| {
            (follow[*one] || leads[*next])
                && is_within(&states[*next].progress, self.may)
                && !self.orders.history.is_commit(&states[*one], &states[*next])
        };
        let steps = self.allowed().flat_map(|one| states[one].next.iter().map(move |next| (one, *next)));
        steps.filter(is_possible).collect()
    }

    fn explain(&self, found: &Snapshot) -> String {
        let strictness = if self.data == DataMode::Journal { Strictness::Whole } else { Strictness::Metadata };
        let mut text = format!(
            "the recovered volume is no beginning of an order of the calls, from {:?} to {:?} calls by thread",
            self.orders.calls_in(self.must),
            self.orders.calls_in(self.may)
        );
        let mut described: Vec<(Vec<String>, usize)> = self
            .allowed()
            .map(|i| {
                let state = &self.orders.states[i];
                let mut lines = state.shown().differences(found, strictness);
                if lines.is_empty() {
                    lines.extend(found.entries().filter_map(|(path, entry)| {
                        let at = self.wrong_byte(i, path, &entry.content)?;
                        let what = describe_bytes(&state.shown().get(path)?.content, &entry.content)?;
                        Some(format!("{path}: byte {at} cannot be there: {what}"))
                    }));
                }
                (lines, i)
            })
            .collect();
        // What comes nearest says most.
        described.sort_by_key(|(lines, i)| (lines.len(), *i));
        for (lines, i) in described.iter().take(EXPLAINED) {
            let calls = self.orders.calls_in(&self.orders.states[*i].progress);
            text += &format!("\n  after {calls:?} calls:\n    {}", lines.join("\n    "));
        }
        if described.len() > EXPLAINED {
            text += &format!("\n  and {} more that differ as much or more", described.len() - EXPLAINED);
        }
        text
    }
}
