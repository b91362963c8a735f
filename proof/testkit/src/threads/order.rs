//! Orders of concurrent calls that explain what each returned.

use super::{Call, Mark, step};
use crate::dump::{Snapshot, Strictness};
use crate::model::Model;
use crate::op::Op;
use ondol_power::Event;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::OnceLock;

/// How many of its steps each thread has done. A call is one step or more ([`step::steps_of`]).
pub(super) type Progress = Vec<usize>;

/// No order of the calls explains what they returned. Its text has the calls.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}\n{history}")]
pub struct Unexplained {
    /// How far explanations went.
    pub what: String,
    /// What began and returned, in order.
    pub history: String,
}

/// A model that some order leads to.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) progress: Progress,
    pub(super) model: Model,
    shown: OnceLock<Snapshot>,
    /// The states that one more call leads to.
    pub(super) next: Vec<usize>,
}

/// All orders of a run's calls that explain what they returned and what was left, as a graph of models.
#[derive(Clone, Debug)]
pub struct Orders {
    /// Those that lie on a whole order; a call leads from one to a later one.
    pub(super) states: Vec<State>,
    pub(super) history: History,
}

/// When calls began and returned.
#[derive(Clone, Debug)]
pub(super) struct History {
    /// Numbers of events, with the mark that each is.
    marks: Vec<(usize, Mark)>,
    /// By thread and call: the steps of all calls that had returned before it began.
    pub(super) before: Vec<Vec<Progress>>,
    /// By thread and call: the number of its first step; and the number of all steps.
    pub(super) first: Vec<Vec<usize>>,
    /// By thread and call: what it made durable.
    pub(super) covered: Vec<Vec<Option<Progress>>>,
    /// Steps that commit a map or exchange ranges, as thread and step.
    commits: BTreeSet<(usize, usize)>,
    threads: usize,
}

/// More states than any program of a few calls has.
const MOST_STATES: usize = 100_000;

impl Orders {
    /// Searches the orders of `calls` (by thread), which `events` has the [`Mark`]s of, from `before` to a volume that
    /// shows `after`.
    ///
    /// # Errors
    /// There is none: the volume does not do calls one after the other, crash or not.
    pub fn find(
        before: &Model,
        calls: &[Vec<Call>],
        events: &[Event],
        after: &Snapshot,
    ) -> Result<Self, Box<Unexplained>> {
        let history = History::new(calls, events);
        let unexplained = |what: String| Box::new(Unexplained { what, history: history.text(calls) });
        let mut states = search(before, calls, &history).map_err(unexplained)?;
        let end: Progress = history.first.iter().filter_map(|first| first.last().copied()).collect();
        let is_end = |state: &State| state.progress == end && state.model.snapshot().accepts(after, Strictness::Whole);
        let leads_to_end = leading_to(&states, is_end);
        if leads_to_end.first() != Some(&true) {
            return Err(unexplained(how_far(&states, &end, after, &history)));
        }
        keep(&mut states, &leads_to_end);
        Ok(Self { states, history })
    }

    /// What a crash after `events` events must have kept, and what it may have kept: numbers of calls by thread.
    pub fn allowed(&self, events: usize) -> (Vec<usize>, Vec<usize>) {
        let (must, may) = self.range(events);
        (self.calls_in(&must), self.calls_in(&may))
    }

    /// The same in steps.
    pub(super) fn range(&self, events: usize) -> (Progress, Progress) {
        self.history.range(events)
    }

    /// The calls that these steps are, those that are half done included.
    pub(super) fn calls_in(&self, progress: &Progress) -> Vec<usize> {
        self.history.calls_in(progress)
    }

    /// Number of different models that beginnings of these orders lead to.
    pub fn len(&self) -> usize {
        self.states.len()
    }

    /// Never: the model before all calls is one.
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }
}

impl History {
    fn new(calls: &[Vec<Call>], events: &[Event]) -> Self {
        let marks: Vec<(usize, Mark)> = events
            .iter()
            .enumerate()
            .filter_map(|(at, event)| match event {
                Event::Mark(id) => Some((at, Mark::from_id(*id))),
                _ => None,
            })
            .filter(|(_, mark)| calls.get(mark.thread).is_some_and(|calls| mark.call < calls.len()))
            .collect();
        let first: Vec<Vec<usize>> = calls.iter().map(|calls| first_steps(calls)).collect();
        let mut returned: Progress = vec![0; calls.len()];
        let mut before: Vec<Vec<Progress>> = vec![Vec::new(); calls.len()];
        for (_, mark) in &marks {
            if mark.returned {
                returned[mark.thread] = first[mark.thread][mark.call + 1];
            } else {
                before[mark.thread].push(returned.clone());
            }
        }
        let ends = calls.iter().zip(&first).enumerate().flat_map(|(thread, (calls, first))| {
            let is_commit = |op: &Op| matches!(op, Op::MapCommit { .. } | Op::Exchange { .. });
            let commits = calls.iter().zip(&first[1..]).filter(move |(call, _)| is_commit(&call.op));
            commits.map(move |(_, end)| (thread, end - 1))
        });
        let commits = ends.collect();
        let covered = covered(calls, &before, &first);
        Self { marks, before, first, covered, commits, threads: calls.len() }
    }

    /// Whether the step that leads from one state to the next commits a map or exchanges ranges.
    pub(super) fn is_commit(&self, one: &State, next: &State) -> bool {
        one.step_to(next).is_some_and(|step| self.commits.contains(&step))
    }

    fn range(&self, events: usize) -> (Progress, Progress) {
        let (mut must, mut may) = (vec![0; self.threads], vec![0; self.threads]);
        for (_, mark) in self.marks.iter().take_while(|(at, _)| *at < events) {
            if !mark.returned {
                may[mark.thread] = self.first[mark.thread][mark.call + 1];
            } else if let Some(Some(covered)) = self.covered[mark.thread].get(mark.call) {
                must.iter_mut().zip(covered).for_each(|(must, covered)| *must = (*must).max(*covered));
            }
        }
        (must, may)
    }

    /// The call that a thread's next step belongs to, and which of its steps that is.
    fn next_step(&self, progress: &Progress, thread: usize) -> Option<(usize, usize)> {
        let (step, first) = (progress[thread], &self.first[thread]);
        let call = first.partition_point(|first| *first <= step) - 1;
        (call + 1 < first.len()).then(|| (call, step - first[call]))
    }

    /// Whether a call may begin: all that had returned before have been done.
    fn may_begin(&self, progress: &Progress, thread: usize, call: usize) -> bool {
        self.before[thread].get(call).is_some_and(|before| is_within(before, progress))
    }

    fn calls_in(&self, progress: &Progress) -> Vec<usize> {
        let calls = |(step, first): (&usize, &Vec<usize>)| first.partition_point(|first| first < step);
        progress.iter().zip(&self.first).map(calls).collect()
    }

    fn text(&self, calls: &[Vec<Call>]) -> String {
        let mut text = String::new();
        for (at, Mark { thread, call, returned }) in &self.marks {
            let Call { op, outcome, failure } = &calls[*thread][*call];
            let _ = match (returned, failure) {
                (false, _) => writeln!(text, "  {at:6}  thread {thread} call {call}: {op}"),
                (true, None) => writeln!(text, "  {at:6}  thread {thread} call {call} returns {outcome:?}"),
                (true, Some(why)) => {
                    writeln!(text, "  {at:6}  thread {thread} call {call} returns {outcome:?} ({why})")
                }
            };
        }
        text
    }
}

/// By thread and call: the steps that it made durable. A sync covers the calls that had returned `before` it began, and
/// a map's commit itself, too.
fn covered(calls: &[Vec<Call>], before: &[Vec<Progress>], first: &[Vec<usize>]) -> Vec<Vec<Option<Progress>>> {
    let of_call = |thread: usize, n: usize, Call { op, outcome, .. }: &Call| {
        let mut covered = before[thread].get(n).filter(|_| op.is_sync() && outcome.is_ok())?.clone();
        if matches!(op, Op::MapCommit { .. }) {
            covered[thread] = first[thread][n + 1];
        }
        Some(covered)
    };
    let of_thread = |(thread, calls): (usize, &Vec<Call>)| {
        calls.iter().enumerate().map(|(n, call)| of_call(thread, n, call)).collect()
    };
    calls.iter().enumerate().map(of_thread).collect()
}

/// The number of each call's first step, and of all steps.
fn first_steps(calls: &[Call]) -> Vec<usize> {
    let mut next = 0;
    let mut first = vec![0];
    for call in calls {
        next += step::steps_of(&call.op);
        first.push(next);
    }
    first
}

/// Whether `less` has done no step that `more` has not.
pub(super) fn is_within(less: &Progress, more: &Progress) -> bool {
    less.iter().zip(more).all(|(less, more)| less <= more)
}

/// Every state that some order leads to, each before those that follow from it.
fn search(before: &Model, calls: &[Vec<Call>], history: &History) -> Result<Vec<State>, String> {
    let mut states = vec![State::new(vec![0; calls.len()], before.clone())];
    let mut known: BTreeMap<Progress, Vec<usize>> = BTreeMap::new();
    let mut at = 0;
    while at < states.len() {
        for thread in 0..calls.len() {
            let Some((progress, model)) = states[at].after_step_of(thread, calls, history) else { continue };
            let same = known.entry(progress.clone()).or_default();
            let found = same.iter().copied().find(|i| states[*i].model == model);
            let next = found.unwrap_or(states.len());
            if found.is_none() {
                same.push(next);
                states.push(State::new(progress, model));
            }
            states[at].next.push(next);
        }
        at += 1;
        if states.len() > MOST_STATES {
            return Err(format!("there are more than {MOST_STATES} models: too many calls at the same time"));
        }
    }
    Ok(states)
}

impl State {
    fn new(progress: Progress, model: Model) -> Self {
        Self { progress, shown: OnceLock::new(), model, next: Vec::new() }
    }

    /// What the model shows after a crash: nothing is open.
    pub(super) fn shown(&self) -> &Snapshot {
        self.shown.get_or_init(|| {
            let mut crashed = self.model.clone();
            crashed.drop_handles();
            crashed.snapshot()
        })
    }

    /// The step that leads from here to one of the `next` states, as thread and step.
    pub(super) fn step_to(&self, next: &Self) -> Option<(usize, usize)> {
        let thread = self.progress.iter().zip(&next.progress).position(|(one, next)| one != next)?;
        Some((thread, self.progress[thread]))
    }

    /// Where the next step of `thread` leads, if it may come next and the model then returns what the volume did.
    fn after_step_of(&self, thread: usize, calls: &[Vec<Call>], history: &History) -> Option<(Progress, Model)> {
        let (call, step) = history.next_step(&self.progress, thread)?;
        if step == 0 && !history.may_begin(&self.progress, thread, call) {
            return None;
        }
        let (mut progress, mut model) = (self.progress.clone(), self.model.clone());
        // Whatever the order, what a call makes has the same number.
        model.count_from((thread as u64 + 1) << 48 | (call as u64 + 1) << 16);
        let Call { op, outcome, .. } = &calls[thread][call];
        let explained = step::explains(&mut model, thread, op, step, *outcome);
        model.count_from(0);
        progress[thread] += 1;
        explained.then_some((progress, model))
    }
}

/// For each state, whether an order leads from it to one that `is_end`.
fn leading_to(states: &[State], is_end: impl Fn(&State) -> bool) -> Vec<bool> {
    let mut leads = vec![false; states.len()];
    for i in (0..states.len()).rev() {
        leads[i] = is_end(&states[i]) || states[i].next.iter().any(|next| leads[*next]);
    }
    leads
}

/// Drops the other states.
fn keep(states: &mut Vec<State>, kept: &[bool]) {
    let mut places = Vec::with_capacity(states.len());
    let mut count = 0;
    for kept in kept {
        places.push(count);
        count += usize::from(*kept);
    }
    let mut at = 0..;
    states.retain(|_| kept[at.next().unwrap_or_default()]);
    for state in states {
        state.next.retain(|next| kept[*next]);
        state.next.iter_mut().for_each(|next| *next = places[*next]);
    }
}

fn how_far(states: &[State], end: &Progress, after: &Snapshot, history: &History) -> String {
    let whole: Vec<&State> = states.iter().filter(|state| state.progress == *end).collect();
    if let Some(state) = whole.first() {
        let differences = state.model.snapshot().differences(after, Strictness::Whole).join("\n    ");
        return format!(
            "{} orders of the calls explain what they returned, none what they left; one of them:\n    {differences}",
            whole.len()
        );
    }
    let far = states.iter().max_by_key(|state| state.progress.iter().sum::<usize>());
    format!(
        "no order of the calls explains what they returned; one goes on to these numbers of calls by thread: {:?}",
        far.map(|state| history.calls_in(&state.progress)).unwrap_or_default()
    )
}
