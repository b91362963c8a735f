//! Building the states of a run, skipping those that were seen, recovering and judging the others.

mod kind;
mod reads;
mod replay;
mod report;
mod story;

pub use replay::{replay, smallest};
pub use report::{After, CasePath, Report, Then, Violation};

use crate::subject::Subject;
use ondol_coverage::{Heard, listen};
use ondol_env::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use ondol_env::sync::{Arc, Mutex};
use ondol_env::{Env, System};
use ondol_power::{Case, Cut, Event, Keep, Layer, Medium, PowerDomain, Sampling};
use std::collections::HashMap;

/// How far an exploration goes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Which states are built.
    pub sampling: Sampling,
    /// How many recoveries in a row may be crashed.
    pub depth: u32,
    /// Of every so many distinct states, the recovery of one is crashed; 0 for none.
    pub recrash_every: u64,
    /// Of every so many distinct states, one is judged by the programs of others too; 0 for none.
    pub second_opinion_every: u64,
    /// Of every so many distinct states, the kernel replays one itself, where it can; 0 for none.
    pub kernel_every: u64,
    /// Of every so many distinct states, one is used once it is recovered, and crashed again then; 0 for none.
    pub use_every: u64,
    /// Of every so many distinct states of the run itself, a bit of the log of one changes by itself; 0 for none.
    pub flip_every: u64,
    /// About so many states of the run itself, spread over all of it, if there are more; and not many more in crashed
    /// recoveries, and of what recovered volumes are used for.
    pub about: Option<u64>,
    /// Stop after so many distinct states of the run itself.
    pub states: Option<u64>,
    /// Stop after so many violations.
    pub violations: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sampling: Sampling::default(),
            depth: 2,
            recrash_every: 150,
            second_opinion_every: 50,
            kernel_every: 0,
            use_every: 600,
            flip_every: 100,
            about: None,
            states: None,
            violations: 1,
        }
    }
}

/// Events of a long recovery; the recovery of states is crashed the less often the more of these it has.
const LONG: usize = 100;

/// Where a run has few states, one of its crashed recoveries has such a part of that, but a few.
const PARTS: u64 = 4;
const FEW: u64 = 16;

impl Limits {
    /// Inside of a recovery that is crashed: there are many of them, so each is explored less, a long one at each event
    /// less than a short one.
    fn nested(self, events: usize) -> Self {
        let sampling = match events < LONG {
            true => Sampling { all_of: 4, samples: 2, torn: 3, extremes: 4, ..self.sampling },
            false => Sampling { all_of: 1, samples: 1, torn: 1, extremes: 2, ..self.sampling },
        };
        Self { sampling, depth: self.depth - 1, ..self }
    }

    /// Of what is done with a recovered volume.
    fn afterwards(self) -> Self {
        let sampling = Sampling { all_of: 8, samples: 2, torn: 4, extremes: 4, ..self.sampling };
        Self {
            sampling,
            depth: 0,
            second_opinion_every: 0,
            kernel_every: 0,
            use_every: 0,
            flip_every: 0,
            about: self.about.map(|about| (about / PARTS).max(FEW)),
            states: None,
            violations: 1,
            ..self
        }
    }
}

/// What somebody who waits may want to see, and how they can stop it.
#[derive(Debug, Default)]
pub struct Watch {
    /// States recovered so far.
    pub recovered: AtomicU64,
    /// States so far that differ from all others of their data mode.
    pub distinct: AtomicU64,
    /// Workloads explored so far.
    pub workloads: AtomicU64,
    /// Different violations so far.
    pub violations: AtomicU64,
    /// The phase of the newest workload.
    pub phase: Mutex<&'static str>,
    /// Ends the exploration early.
    pub stop: AtomicBool,
    /// So many violations are being made small.
    pub shrinking: AtomicU64,
    /// Ends everything early, and leaves a violation as large as it is by then.
    pub hurry: Arc<AtomicBool>,
}

/// Explores a run.
pub fn explore<S: Subject>(subject: &S, limits: &Limits, watch: &Watch) -> Report {
    with(subject, limits, watch, |explorer, place| {
        explorer.run(place);
        explorer.directed(place);
    })
}

fn with<S: Subject>(
    subject: &S,
    limits: &Limits,
    watch: &Watch,
    run: impl FnOnce(&mut Explorer<'_, S>, &Place<'_>),
) -> Report {
    let mut explorer = Explorer {
        subject,
        watch,
        every: limits,
        seen: HashMap::new(),
        own: Vec::new(),
        crashed: HashMap::new(),
        weight: 1,
        happened: 0,
        narrowed: 0,
        matched: HashMap::new(),
        report: Report::default(),
        done: false,
    };
    let (media, events, heard) = (subject.media(), subject.events(), subject.heard());
    let place = Place { media, events, heard, limits, happened: None, path: &[] };
    run(&mut explorer, &place);
    explorer.report.seen = explorer.own;
    explorer.report.features = crate::coverage::features(heard).into_iter().collect();
    explorer.report
}

/// Explores a run only where fewer states are allowed than before, with all lost that need not be there: what was told
/// too early is not.
pub fn explore_told<S: Subject>(subject: &S, limits: &Limits, watch: &Watch) -> Report {
    let limits =
        Limits { second_opinion_every: 0, kernel_every: 0, recrash_every: 0, use_every: 0, flip_every: 0, ..*limits };
    with(subject, &limits, watch, |explorer, place| {
        let mut cut = Cut::new(place.media);
        for (n, event) in (1..).zip(place.events) {
            cut.advance(event);
            if subject.is_narrowed(n) && !explorer.state(place, &cut, vec![Keep::None; cut.items().len()]) {
                break;
            }
        }
    })
}

struct Explorer<'a, S: Subject> {
    subject: &'a S,
    watch: &'a Watch,
    every: &'a Limits,
    /// Distinct states, with the essence of what recovery made of them.
    seen: HashMap<u128, u128>,
    /// The states of the run itself among them.
    own: Vec<u128>,
    /// States whose recovery was crashed: after how many events of the run, and how many times in a row.
    crashed: HashMap<u128, (usize, u32)>,
    /// How long the last recovery was, in long ones: of so many times fewer states it is crashed.
    weight: u64,
    /// Events of the run that happened so far.
    happened: usize,
    /// After how many of them all that can be there had to be looked at again, the last time.
    narrowed: usize,
    /// What recovered states are.
    matched: HashMap<u128, S::Matched>,
    report: Report,
    done: bool,
}

/// The run itself, or a recovery after one of its states.
struct Place<'a> {
    media: &'a [Medium],
    events: &'a [Event],
    heard: &'a Heard,
    limits: &'a Limits,
    /// In a recovery: how many events of the run had happened.
    happened: Option<usize>,
    /// How one came here.
    path: &'a [Case],
}

impl<S: Subject> Explorer<'_, S> {
    fn run(&mut self, place: &Place<'_>) {
        // Recoveries of different states are sampled differently.
        let mix = |seed: u64, case: &Case| seed.rotate_left(13) ^ case.events as u64;
        let seed = place.path.iter().fold(self.every.sampling.seed, mix);
        let (mut sampling, subject) = (Sampling { seed, ..place.limits.sampling }, self.subject);
        let is_narrowed = |events| place.happened.is_none() && subject.is_narrowed(events);
        if let Some(about) = self.every.about {
            let part = if place.happened.is_some() { (about / PARTS).max(FEW) } else { about };
            sampling = sampling.spread(place.media, place.events, is_narrowed, part);
        }
        let mut cuts = vec![false; place.events.len() + 1];
        let mut state = |cut: &Cut<'_>, keep| {
            cuts[cut.events()] = true;
            self.state(place, cut, keep)
        };
        let built = sampling.states(place.media, place.events, is_narrowed, &mut state);
        self.report.coverage.take(place.heard, place.events, &cuts);
        if place.happened.is_none() {
            self.report.crash_points += built.cuts;
            self.report.exhausted += built.exhausted;
        }
    }

    /// Returns whether to go on.
    fn state(&mut self, place: &Place<'_>, cut: &Cut<'_>, keep: Vec<Keep>) -> bool {
        if self.done || self.watch.stop.load(Relaxed) || self.watch.hurry.load(Relaxed) {
            self.done = true;
            return false;
        }
        self.report.states += 1;
        let mut layers = cut.build(&keep);
        let happened = place.happened.unwrap_or(cut.events());
        self.narrowed = (self.happened + 1..=happened).rfind(|n| self.subject.is_narrowed(*n)).unwrap_or(self.narrowed);
        self.happened = happened;
        let fingerprint = Layer::fingerprint_of(&mut layers);
        let is_new = !self.seen.contains_key(&fingerprint);
        let outcome = self.look(&layers, fingerprint, happened);
        let mut path = place.path.to_vec();
        path.push(Case { events: cut.events(), keep });
        if is_new && outcome.is_ok() {
            match place.happened {
                None => self.own.push(fingerprint),
                Some(_) => self.report.nested += 1,
            }
        }
        let outcome = outcome
            .and_then(|()| if is_new { self.ask_others(&layers, happened, fingerprint) } else { Ok(()) })
            .and_then(|()| self.recrash(place, &layers, happened, &path, fingerprint));
        match outcome {
            Ok(()) if is_new => {
                self.use_it(&layers, &path, fingerprint);
                if place.happened.is_none() {
                    self.flip_it(&layers, &path, fingerprint);
                }
            }
            Ok(()) => {}
            Err(what) => self.found(what, CasePath(path, None)),
        }
        self.done |= self.every.states.is_some_and(|most| self.own.len() as u64 >= most);
        !self.done
    }

    fn found(&mut self, what: String, path: CasePath) {
        self.report.violations.push(violation(self.subject, what, path));
        self.done = self.report.violations.len() >= self.every.violations;
    }

    /// Uses what recovery has made of some states, and crashes that.
    fn use_it(&mut self, layers: &[Layer], path: &[Case], fingerprint: u128) {
        let has_enough = self.every.about.is_some_and(|about| self.report.used_states >= about);
        if self.done || has_enough || !is_turn(self.every.use_every, fingerprint >> 32) {
            return;
        }
        let seed = (fingerprint >> 96) as u64;
        let Some(used) = self.subject.use_after(layers, seed) else { return };
        self.report.used += 1;
        let at = |case| CasePath(path.to_vec(), Some(Then::Used(After { seed, case })));
        match used {
            Err(what) => self.found(what, at(None)),
            Ok(run) => {
                let watch = Watch { hurry: Arc::clone(&self.watch.hurry), ..Watch::default() };
                let mut report = explore(&run, &self.every.afterwards(), &watch);
                self.report.states += report.states;
                self.report.distinct += report.distinct;
                self.report.used_states += report.distinct;
                self.watch.recovered.fetch_add(report.distinct, Relaxed);
                if let Some(violation) = report.violations.pop() {
                    let case = violation.path.0.into_iter().next();
                    self.found(format!("used after recovery and crashed again: {}", violation.what), at(case));
                }
            }
        }
    }

    /// Changes a bit of the log of some states.
    fn flip_it(&mut self, layers: &[Layer], path: &[Case], fingerprint: u128) {
        if self.done || !is_turn(self.every.flip_every, fingerprint >> 16) {
            return;
        }
        let Some(flip) = self.subject.flip(self.happened, (fingerprint >> 48) as u64) else { return };
        self.report.flipped += 1;
        if let Err(what) = self.subject.judge_flipped(layers, flip, self.happened) {
            self.found(what, CasePath(path.to_vec(), Some(Then::Flipped(flip))));
        }
    }

    /// Recovers and judges, unless that is known.
    fn look(&mut self, layers: &[Layer], fingerprint: u128, happened: usize) -> Result<(), String> {
        if let Some(essence) = self.seen.get(&fingerprint)
            && self.matched.get(essence).is_some_and(|matched| self.subject.still_allowed(matched, happened))
        {
            return Ok(());
        }
        let listening = listen(false);
        let recovered = self.subject.recover(layers);
        self.report.coverage.count(&listening.finish());
        let mut recovered = recovered?;
        let essence = self.subject.essence(&mut recovered);
        if self.seen.insert(fingerprint, essence).is_none() {
            self.report.distinct += 1;
            self.watch.recovered.fetch_add(1, Relaxed);
        }
        if self.matched.get(&essence).is_none_or(|matched| !self.subject.still_allowed(matched, happened)) {
            self.report.judged += 1;
            self.matched.insert(essence, self.subject.judge(&recovered, happened)?);
        }
        Ok(())
    }

    fn ask_others(&mut self, layers: &[Layer], happened: usize, fingerprint: u128) -> Result<(), String> {
        let began = System.monotonic_ns();
        if is_turn(self.every.second_opinion_every, fingerprint) {
            self.report.second_opinions += 1;
            self.subject.second_opinion(layers, happened)?;
        }
        if is_turn(self.every.kernel_every, fingerprint) {
            self.report.by_kernel += u64::from(self.subject.kernel_opinion(layers, happened)?);
        }
        self.report.waited += System.monotonic_ns() - began;
        Ok(())
    }

    /// Crashes the recovery of some states, and again once less is allowed of them than the last time.
    fn recrash(
        &mut self,
        place: &Place<'_>,
        layers: &[Layer],
        happened: usize,
        path: &[Case],
        fingerprint: u128,
    ) -> Result<(), String> {
        let depth = place.limits.depth;
        let was = self.crashed.get(&fingerprint);
        let is_known = was.is_some_and(|(events, to)| *events >= self.narrowed && *to >= depth);
        let has_enough = self.every.about.is_some_and(|about| self.report.nested >= about);
        if depth == 0 || is_known || has_enough || !is_turn(self.every.recrash_every * self.weight, fingerprint >> 64) {
            return Ok(());
        }
        self.crashed.insert(fingerprint, (happened, depth));
        let Recovery { media, events, heard } = recovery(self.subject, layers)?;
        self.weight = (events.len() / LONG).max(1) as u64;
        let limits = place.limits.nested(events.len());
        let happened = Some(happened);
        self.run(&Place { media: &media, events: &events, heard: &heard, limits: &limits, happened, path });
        Ok(())
    }
}

/// Whether something that is done for one of `every` states is done for this one: its contents decide, so that the
/// order does not matter.
pub(crate) fn is_turn(every: u64, bits: u128) -> bool {
    every > 0 && (bits as u64).is_multiple_of(every)
}

fn violation<S: Subject>(subject: &S, what: String, path: CasePath) -> Violation {
    let events = story::of(subject, &path);
    Violation { what, path, run: subject.describe(), state: None, events, times: 1 }
}

/// The power coming back.
struct Recovery {
    /// The media it begins with.
    media: Vec<Medium>,
    events: Vec<Event>,
    /// Edges that were executed between them.
    heard: Heard,
}

/// Records the coming back from a state.
fn recovery<S: Subject>(subject: &S, layers: &[Layer]) -> Result<Recovery, String> {
    let (domain, listening) = (PowerDomain::new(), listen(true));
    subject.come_back(layers, &domain)?;
    let heard = listening.finish();
    let media = subject.media().iter().zip(layers);
    let media = media.map(|(medium, layer)| Medium { base: layer.clone(), ..medium.clone() }).collect();
    Ok(Recovery { media, events: Arc::clone(&domain).take(), heard })
}
