//! What an fsync makes durable where it covers its file alone.

use super::order::{Orders, Progress, State};
use super::{Call, step};
use crate::model::Id;
use std::collections::{BTreeMap, BTreeSet};

/// What is the same in all orders, by thread and step.
#[derive(Default)]
struct Known {
    /// Inodes that the step changes, or names of them.
    touched: BTreeMap<(usize, usize), BTreeSet<Id>>,
    /// The inode that an fsync is of.
    synced: BTreeMap<(usize, usize), Option<Id>>,
}

impl Orders {
    /// The same with `fsync=file`: a `fsync` is known to cover the calls that had returned before it began and that
    /// were, in every order, done to its file or a name of it; so is a map's commit, which is such a call itself.
    /// `calls` are those that the orders were found for.
    #[must_use]
    pub fn by_file(mut self, calls: &[Vec<Call>]) -> Self {
        let known = self.known(calls);
        for (thread, calls) in calls.iter().enumerate() {
            for (call, Call { op, .. }) in calls.iter().enumerate() {
                if let (Some(_), Some(all)) = (op.synced_file(), self.history.covered[thread][call].clone()) {
                    let last = self.history.first[thread][call + 1] - 1;
                    let id = known.synced.get(&(thread, last)).copied().flatten();
                    self.history.covered[thread][call] = Some(self.covering(&known, id, &all));
                }
            }
        }
        self
    }

    /// The calls up to the last of each thread that is within `all` and was done to `id`.
    fn covering(&self, known: &Known, id: Option<Id>, all: &Progress) -> Progress {
        let touches = |thread: usize, step: usize| {
            id.is_some_and(|id| known.touched.get(&(thread, step)).is_some_and(|touched| touched.contains(&id)))
        };
        let of_thread = |(thread, all): (usize, &usize)| {
            let last = (0..*all).rev().find(|step| touches(thread, *step));
            let ends = |step: usize| self.history.first[thread].iter().copied().find(|first| *first > step);
            last.and_then(ends).unwrap_or(0)
        };
        all.iter().enumerate().map(of_thread).collect()
    }

    fn known(&self, calls: &[Vec<Call>]) -> Known {
        let mut known = Known::default();
        for state in &self.states {
            for next in &state.next {
                known.learn(state, &self.states[*next], calls, &self.history.first);
            }
        }
        known
    }
}

impl Known {
    /// Of one step that leads from `one` state to `other`.
    fn learn(&mut self, one: &State, other: &State, calls: &[Vec<Call>], first: &[Vec<usize>]) {
        let Some((thread, step)) = one.step_to(other) else { return };
        let touched = other.model.touched_since(&one.model);
        self.touched
            .entry((thread, step))
            .and_modify(|all| all.retain(|id| touched.contains(id)))
            .or_insert_with(|| touched.clone());
        let call = first[thread].partition_point(|first| *first <= step) - 1;
        if let Some(file) = step::synced(thread, &calls[thread][call].op) {
            let id = one.model.id_of_file(&file);
            self.synced
                .entry((thread, step))
                .and_modify(|known| *known = known.filter(|known| Some(*known) == id))
                .or_insert(id);
        }
    }
}
