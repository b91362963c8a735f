//! The states that a crash may leave of a store and a log, and what becomes of them.

use super::judge;
use super::record::{Recording, requests_at};
use crate::coverage::Tally;
use crate::explore::{Limits, Report, Watch, is_turn};
use crate::judge::VolumeRun;
use crate::prey::caught;
use crate::run::Found;
use ondol_coverage::{Heard, Hit, listen};
use ondol_env::sync::atomic::Ordering::Relaxed;
use ondol_env::{Env, Fixed, System, Timestamp};
use ondol_power::{Cut, Event, Keep, Layer, Medium, Sampling};
use ondol_stores::unruly::{Event as Request, Objects, StoreCut};
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow::{self, Break, Continue};

/// What a crash has left.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) objects: Objects,
    /// The log on this machine; `None`: there is none, or it is lost.
    pub(super) log: Option<Layer>,
    pub(super) loss: Loss,
}

/// What is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Loss {
    /// The process.
    Process,
    /// What a disk has not flushed.
    Power,
    /// The machine, with its log.
    Machine,
}

impl State {
    fn fingerprint(&mut self) -> (u128, bool) {
        let log = self.log.as_mut().map_or(0, Layer::fingerprint);
        (self.objects.fingerprint() ^ log.rotate_left(1), self.loss == Loss::Machine)
    }

    /// In words.
    pub(super) fn told(&self) -> String {
        let log = match (&self.log, self.loss) {
            (Some(log), _) => format!(" and a log of {} bytes", log.len()),
            (None, Loss::Machine) => " and no log, which is lost".to_owned(),
            (None, _) => String::new(),
        };
        format!("{} objects{log}", self.objects.iter().count())
    }
}

/// What breaks the contract.
pub(super) struct Wrong {
    pub(super) what: String,
    pub(super) state: State,
    /// What the store was asked last.
    pub(super) events: String,
}

/// Requests of the store, and the log's events, in one sequence: of a run, or of an opening.
pub(super) struct Sequence {
    media: Vec<Medium>,
    events: Vec<Event>,
    requests: Vec<Request>,
    /// How many of these there were after each number of events.
    at: Vec<usize>,
    /// The store at the beginning.
    cut: StoreCut,
    /// Edges that were executed, with how many events there were then.
    heard: Heard,
    /// The machine was lost before.
    pub(super) is_lost: bool,
}

impl Sequence {
    /// `heard` knows only events that the same thread has made: those of the store are others'.
    pub(super) fn new(
        media: Vec<Medium>,
        events: Vec<Event>,
        requests: Vec<Request>,
        cut: StoreCut,
        mut heard: Heard,
    ) -> Self {
        let mut at = vec![cut.events()];
        for event in &events {
            at.push(requests_at(event).unwrap_or(at[at.len() - 1]).max(at[at.len() - 1]));
        }
        let own: Vec<usize> =
            (0..).zip(&events).filter(|(_, e)| requests_at(e).is_none()).map(|(n, _)| n + 1).collect();
        for hit in &mut heard.hits {
            hit.at = (hit.at as usize).checked_sub(1).and_then(|n| own.get(n)).map_or(0, |n| *n as u32);
        }
        Self { media, events, requests, at, cut, heard, is_lost: false }
    }

    fn has_log(&self) -> bool {
        !self.media.is_empty()
    }

    /// About.
    fn states_of_a_cut(&self) -> u64 {
        if self.has_log() { 4 } else { 2 }
    }

    /// Whether the store is another one with the `n`-th event, or fewer states are allowed, since a call returns. What
    /// happens to the log is seen anyway.
    fn is_cut(&self, n: usize) -> bool {
        matches!(&self.events[n - 1], Event::Mark(id) if id % 2 == 1)
    }

    /// The states of one cut: what is chosen of the log, with some of what the store may have.
    fn states(&self, store: &StoreCut, cut: &Cut<'_>, keep: &[Keep], is_first: bool, seed: u64) -> Vec<State> {
        let open = store.open().len();
        let random = Fixed::new(Timestamp::default(), seed ^ (cut.events() as u64) << 20 ^ keep.len() as u64);
        let any = || (0..open).map(|_| random.random_u32() & 1 == 1).collect::<Vec<bool>>();
        let mut ways: Vec<Vec<bool>> = match open {
            _ if !is_first => vec![any()],
            0..=FEW => (0..1usize << open).map(|n| (0..open).map(|bit| n >> bit & 1 == 1).collect()).collect(),
            _ => {
                let extremes = [vec![false; open], vec![true; open]];
                extremes.into_iter().chain((0..SAMPLES).map(|_| any())).collect()
            }
        };
        ways.dedup();
        if !self.has_log() {
            let loss = if self.is_lost { Loss::Machine } else { Loss::Process };
            let of = |way: &Vec<bool>| State { objects: store.build(way), log: None, loss };
            return ways.iter().map(of).collect();
        }
        let log = |keep: &[Keep]| cut.build(keep).into_iter().next();
        let of = |way: &Vec<bool>| State { objects: store.build(way), log: log(keep), loss: Loss::Power };
        let mut states: Vec<State> = ways.iter().map(of).collect();
        if is_first {
            for way in [ways.first(), ways.last()].into_iter().flatten() {
                let objects = store.build(way);
                let whole = cut.everything().into_iter().next();
                states.push(State { objects: objects.clone(), log: whole, loss: Loss::Process });
                states.push(State { objects, log: None, loss: Loss::Machine });
            }
        }
        states
    }

    /// Adds what was passed here to `tally`: `cuts` says after which numbers of events it was looked what is left.
    fn tell(&self, tally: &mut Tally, cuts: &[bool]) {
        let is_around = |hit: &Hit| {
            let loses =
                |n: &usize| requests_at(&self.events[n - 1]).is_some() || !matches!(self.events[n - 1], Event::Mark(_));
            let next = (hit.at as usize + 1..=self.events.len()).find(loses);
            next.is_some_and(|after| cuts[after])
        };
        tally.take_if(&self.heard, is_around);
    }

    /// What the store was asked last.
    fn story(&self, events: usize) -> String {
        let requests = self.at.get(events).copied().unwrap_or_default();
        let lines = self.requests[..requests].iter().map(|event| format!("  {event}\n"));
        let last: Vec<String> = lines.rev().take(LAST).collect();
        let lines: String = last.into_iter().rev().collect();
        format!("what the store was asked and has answered before the crash (the last {LAST}):\n{lines}")
    }
}

/// So many requests are told of.
const LAST: usize = 24;

/// With so many changes that may be there or not, all combinations are tried.
const FEW: usize = 3;

/// Others are chosen so many times.
const SAMPLES: u32 = 4;

/// States of an opening that is crashed, about.
const OF_AN_OPENING: u64 = 24;

/// Tries the states of a run.
pub(super) fn explore(recording: &Recording, limits: &Limits, watch: &Watch) -> (Report, Vec<Wrong>) {
    let mut explorer = Explorer {
        recording,
        limits,
        watch,
        matched: HashMap::new(),
        distinct: HashSet::new(),
        own: HashSet::new(),
        report: Report::default(),
        wrong: Vec::new(),
    };
    let _end = explorer.run(&recording.sequence, None);
    let mut report = explorer.report;
    report.distinct = explorer.distinct.len() as u64;
    report.features = crate::coverage::features(&recording.sequence.heard).into_iter().collect();
    report.seen = explorer.own.into_iter().collect();
    (report, explorer.wrong)
}

struct Explorer<'a> {
    recording: &'a Recording,
    limits: &'a Limits,
    watch: &'a Watch,
    /// What states are, and after how many events that was found.
    matched: HashMap<(u128, bool), Found>,
    distinct: HashSet<(u128, bool)>,
    /// Those of the run itself.
    own: HashSet<u128>,
    report: Report,
    wrong: Vec<Wrong>,
}

impl Explorer<'_> {
    /// `happened`: in an opening, the events of the run before.
    fn run(&mut self, sequence: &Sequence, happened: Option<usize>) -> ControlFlow<()> {
        let (media, events) = (&sequence.media, &sequence.events);
        let is_cut = |n: usize| sequence.is_cut(n);
        let about = match happened {
            Some(_) => Some(OF_AN_OPENING),
            None => self.limits.about,
        };
        let seed = self.limits.sampling.seed ^ happened.map_or(0, |events| (events as u64).rotate_left(17));
        let mut sampling = Sampling { seed, ..self.limits.sampling };
        if let Some(about) = about {
            sampling = sampling.spread(media, events, is_cut, (about / sequence.states_of_a_cut()).max(1));
        }
        let (mut store, mut last, mut go_on) = (sequence.cut.clone(), None, Continue(()));
        let mut cuts = vec![false; events.len() + 1];
        let built = sampling.states(media, events, is_cut, &mut |cut, keep| {
            let n = cut.events();
            sequence.requests[store.events()..sequence.at[n]].iter().for_each(|event| store.advance(event));
            let is_first = last.replace(n) != Some(n);
            cuts[n] = true;
            for state in sequence.states(&store, cut, &keep, is_first, seed) {
                go_on = self.state(sequence, n, state, happened);
                if go_on.is_break() {
                    break;
                }
            }
            go_on.is_continue()
        });
        sequence.tell(&mut self.report.coverage, &cuts);
        if happened.is_none() {
            self.report.crash_points += built.cuts;
            self.report.exhausted += built.exhausted;
        }
        go_on
    }

    fn state(
        &mut self,
        sequence: &Sequence,
        events: usize,
        mut state: State,
        happened: Option<usize>,
    ) -> ControlFlow<()> {
        if self.watch.stop.load(Relaxed) || self.watch.hurry.load(Relaxed) {
            return Break(());
        }
        self.report.states += 1;
        let (fingerprint, at) = (state.fingerprint(), happened.unwrap_or(events));
        let run = if state.loss == Loss::Machine { &self.recording.lost } else { &self.recording.run };
        if self.matched.get(&fingerprint).is_some_and(|found| VolumeRun::still_allowed(run, found, at)) {
            return Continue(());
        }
        let is_new = self.distinct.insert(fingerprint);
        if is_new {
            self.watch.recovered.fetch_add(1, Relaxed);
            match happened {
                None => drop(self.own.insert(fingerprint.0)),
                Some(_) => self.report.nested += 1,
            }
        }
        let found = self.look(&state, fingerprint.0, at);
        if let Err(what) = found.map(|found| self.matched.insert(fingerprint, found)) {
            let what = match state.loss {
                Loss::Machine => format!("without the machine and its log: {what}"),
                Loss::Process | Loss::Power => what,
            };
            let opening = happened.map(|_| format!("and while it was opened again, {}", sequence.story(events)));
            let events = self.recording.sequence.story(at) + &opening.unwrap_or_default();
            self.wrong.push(Wrong { what, state, events });
            let enough = self.wrong.len() >= self.limits.violations;
            return if enough { Break(()) } else { Continue(()) };
        }
        let enough = self.limits.states.is_some_and(|most| self.own.len() as u64 >= most);
        if enough {
            return Break(());
        }
        if is_new && happened.is_none() { self.crash_opening(&state, at, fingerprint.0) } else { Continue(()) }
    }

    fn look(&mut self, state: &State, fingerprint: u128, at: usize) -> Result<Found, String> {
        let run = if state.loss == Loss::Machine { &self.recording.lost } else { &self.recording.run };
        let terms = &self.recording.terms;
        let asks = is_turn(self.limits.second_opinion_every, fingerprint);
        if asks {
            let began = System.monotonic_ns();
            self.report.second_opinions += 1;
            caught(|| judge::as_left(state, terms))?;
            self.report.waited += System.monotonic_ns() - began;
        }
        self.report.judged += 1;
        let listening = listen(false);
        let found = caught(|| judge::judge(run, terms, state, at, asks));
        self.report.coverage.count(&listening.finish());
        found
    }

    /// Crashes the opening of some states.
    fn crash_opening(&mut self, state: &State, at: usize, fingerprint: u128) -> ControlFlow<()> {
        let has_enough = self.limits.about.is_some_and(|about| self.report.nested >= about);
        if self.limits.depth == 0 || has_enough || !is_turn(self.limits.recrash_every, fingerprint >> 64) {
            return Continue(());
        }
        match caught(|| judge::come_back(&self.recording.run, &self.recording.terms, state)) {
            Ok(sequence) => self.run(&sequence, Some(at)),
            Err(what) => {
                let events = self.recording.sequence.story(at);
                self.wrong.push(Wrong { what, state: state.clone(), events });
                Break(())
            }
        }
    }
}
