//! Kinds of workloads, and how they share the time: evenly, from the first second on.
//!
//! The next workload comes from the phase that had the least time of the processor for its weight. Data modes take
//! turns within a phase; `writeback`, which is carried out as `ordered`, less often than others. No workload has more
//! than a part of what its phase has had so far: what has more states than that is sampled all over its run. A phase
//! that comes to its end begins again, with the modes shifted by one and other samples; once every workload had every
//! mode, each further round counts for less. So a short hunt has seen something of everything, and a longer one goes
//! deeper everywhere.

use crate::explore::Limits;
use crate::faults::Faults;
use crate::image::Kind;
use crate::plants;
use crate::workload::{self, Corpus, Mount, Workload};
use ondol::{DataMode, JournalEngine};
use ondol_env::sync::{Arc, Mutex};
use ondol_medium::Domain;
use ondol_power::Sampling;

/// Workloads of a round.
type Round<'a> = Box<dyn Iterator<Item = Workload> + Send + 'a>;

/// One kind of workloads.
pub struct Phase<'a> {
    name: &'static str,
    /// Its share of the time, compared with that of others.
    weight: u64,
    /// How often it begins again; `None` for without end.
    rounds: Option<u64>,
    /// Of so many times more states recoveries are crashed and others are asked.
    closer: u64,
    /// The medium fails.
    fails: bool,
    /// One workload has at most such a part of what the phase has had; `None` for as much as it takes.
    breadth: Option<u64>,
    /// States of one workload, if there are few of them.
    few: Option<u64>,
    /// What learns from every workload of the hunt.
    pub(super) corpus: Option<Arc<Corpus>>,
    make: Box<dyn Fn(u64) -> Round<'a> + Send + 'a>,
}

/// The first time where they belong, and then on volumes of all kinds.
fn elsewhere(workloads: impl Iterator<Item = Workload> + Send + 'static, round: u64) -> Round<'static> {
    let moved = move |(n, workload): (u64, Workload)| match workload.image {
        Kind::Pool => workload,
        _ if round == 0 => workload,
        _ => Workload { image: Kind::in_turn(n + round), ..workload },
    };
    Box::new((0..).zip(workloads).map(moved).filter(|workload| workload.image.is_possible()))
}

impl<'a> Phase<'a> {
    /// Without end: round after round, of which `make` gives the workloads by number.
    pub fn endless(name: &'static str, weight: u64, make: impl Fn(u64) -> Round<'a> + Send + 'a) -> Self {
        Self {
            name,
            weight: weight.max(1),
            rounds: None,
            closer: 1,
            fails: false,
            breadth: Some(BREADTH),
            few: None,
            corpus: None,
            make: Box::new(make),
        }
    }

    /// Without end: variations of what has reached something new in this hunt.
    pub fn guided(weight: u64, seed: u64) -> Self {
        let corpus = Arc::new(Corpus::default());
        let learns = corpus.clone();
        let make = move |round: u64| -> Round<'a> {
            let corpus = corpus.clone();
            Box::new((0..).map(move |n| corpus.variation(seed ^ round.rotate_right(16), n)))
        };
        Self { corpus: Some(learns), ..Self::endless("guided", weight, make) }
    }

    /// These workloads in each of so many data modes.
    pub fn in_modes(name: &'static str, modes: usize, make: impl Fn() -> Round<'a> + Send + 'a) -> Self {
        Self {
            name,
            weight: 1,
            rounds: Some(modes as u64),
            closer: 1,
            fails: false,
            breadth: None,
            few: None,
            corpus: None,
            make: Box::new(move |_| make()),
        }
    }

    /// These workloads once.
    pub fn once(name: &'static str, workloads: impl Iterator<Item = Workload> + Send + 'a) -> Self {
        let workloads = Mutex::new(Some(workloads));
        let make = move |_| -> Round<'a> { Box::new(workloads.lock().take().into_iter().flatten()) };
        Self {
            name,
            weight: 1,
            rounds: Some(1),
            closer: 1,
            fails: false,
            breadth: None,
            few: None,
            corpus: None,
            make: Box::new(make),
        }
    }

    /// So wide that one workload has at most one part of `parts` of what the phase has had: many have their turn soon.
    #[must_use]
    pub fn wide(self, parts: u64) -> Self {
        Self { breadth: Some(parts.max(1)), ..self }
    }

    /// With a few states of each workload, so that all have their turn soon, and then no more.
    #[must_use]
    pub fn at_a_glance(self, rounds: usize) -> Self {
        Self { few: Some(GLANCE), rounds: Some(rounds as u64), ..self }
    }

    /// Only what can be done here, and all of it on this volume, mounted in this way, if that is asked for.
    #[must_use]
    pub fn on(self, image: Option<Kind>, mount: Option<Mount>) -> Self {
        let make = self.make;
        let moved = move |workload: Workload| {
            let (image, mount) = (image.unwrap_or(workload.image), mount.unwrap_or(workload.mount));
            Workload { image, mount, ..workload }
        };
        let make = move |round| -> Round<'a> { Box::new(make(round).map(moved).filter(|w| w.image.is_possible())) };
        Self { make: Box::new(make), ..self }
    }

    /// Only workloads of one thread.
    #[must_use]
    pub fn of_one_thread(self) -> Self {
        let make = self.make;
        let make = move |round| -> Round<'a> { Box::new(make(round).filter(|workload| workload.others.is_none())) };
        Self { make: Box::new(make), ..self }
    }

    /// Looked at more closely: of `times` as many states recoveries are crashed, and programs of others are asked.
    #[must_use]
    pub fn closer(self, times: u64) -> Self {
        Self { closer: times.max(1), ..self }
    }

    /// On a medium that fails: a few faults for each workload.
    #[must_use]
    pub fn failing(self) -> Self {
        Self { fails: true, ..self }
    }

    /// Everything, as a hunt of this engine without a workload of its own does it.
    pub fn all(engine: JournalEngine, seed: u64) -> Vec<Phase<'static>> {
        // What is random is random in another way in each round, should it ever end.
        let other = move |round: u64| seed ^ round.rotate_right(16);
        let phases = vec![
            Phase::endless("scenarios", 2, move |round| {
                let all = plants::workloads(engine, other(round)).chain(workload::scenarios()).chain(workload::short());
                elsewhere(all, round)
            })
            .closer(4)
            .wide(40),
            Phase::endless("glances", 3, move |round| {
                let scenes = workload::scattered(workload::scenes_of(engine), !other(round));
                Box::new(scenes.filter(|scene| scene.is_early(SCHEDULES)))
            })
            .at_a_glance(5),
            Phase::endless("places", 4, move |round| {
                let scattered = workload::scattered(workload::scenes_of(engine), other(round));
                // Further schedules of the same scene come when all scenes have had their turn.
                let (first, more): (Vec<_>, Vec<_>) = scattered.partition(|scene| scene.is_early(SCHEDULES));
                elsewhere(first.into_iter().chain(more), round)
            })
            .closer(5)
            .wide(100),
            Phase::endless("single calls", 2, |_| Box::new(workload::single())).wide(40),
            Phase::endless("pairs", 2, move |_| Box::new(workload::scattered(workload::exhaustive_2(), seed))).wide(40),
            Phase::endless("numbers", 2, move |round| {
                elsewhere(workload::scattered(workload::around(), other(round)), round)
            })
            .wide(100),
            Phase::endless("random", 3, move |round| Box::new(workload::random(other(round)))),
            Phase::endless("few blocks", 3, move |round| Box::new(workload::few_blocks(other(round)))).wide(40),
            Phase::endless("little space", 2, move |round| Box::new(workload::scarce(other(round)))),
            Phase::guided(3, seed),
            Phase::endless("threads", 8, move |round| Box::new(workload::threads(other(round)))),
            Phase::endless("faults", 3, move |round| {
                let single = workload::scattered(workload::exhaustive_1(), other(round));
                let of_one = single.zip(workload::random(other(round))).zip(workload::few_blocks(other(round)));
                let of_some = workload::apart(other(round)).zip(workload::in_place(other(round)));
                let read = workload::evicted(other(round));
                Box::new(of_one.zip(of_some).zip(read).flat_map(|((((a, b), c), (d, e)), f)| [a, b, c, d, e, f]))
            })
            .wide(100)
            .failing(),
        ];
        // What fails is a store: memory does not.
        phases
            .into_iter()
            .filter(|phase| !phase.fails || !matches!(engine, JournalEngine::Swap | JournalEngine::Remap))
            .collect()
    }

    /// The same of a volume in object storage: what one thread does on a medium that works.
    pub fn in_store(seed: u64) -> Vec<Phase<'static>> {
        let other = move |round: u64| seed ^ round.rotate_right(16);
        let of = move |round| plants::workloads(JournalEngine::Batch, other(round));
        vec![
            Phase::endless("scenarios", 2, move |round| {
                Box::new(plants::in_store().chain(of(round)).chain(workload::scenarios()).chain(workload::short()))
            })
            .wide(20),
            Phase::endless("single calls", 2, move |round| {
                Box::new(workload::scattered(workload::single(), other(round)))
            })
            .wide(20),
            Phase::endless("random", 4, move |round| Box::new(workload::random(other(round)))).wide(20),
            Phase::endless("little space", 1, move |round| Box::new(workload::scarce(other(round)))).wide(20),
        ]
    }
}

/// The first schedules of a scene.
const SCHEDULES: u64 = 4;
/// Faults of one workload.
const FAULTS: u64 = 5;
/// The parts that one workload has one of, usually.
const BREADTH: u64 = 8;
/// States that every workload may have.
const LEAST: u64 = 64;
/// The same on a medium that fails: what matters is where it does.
const LEAST_FAILING: u64 = 16;
/// States of a workload at a glance.
const GLANCE: u64 = 6;
/// What the first workload of a phase is expected to cost, in nanoseconds of the processor.
const FIRST: u64 = 10_000_000;

/// What is explored next.
pub(super) struct Turn {
    /// Which phase.
    pub(super) phase: usize,
    /// Its name.
    pub(super) name: &'static str,
    /// Which data mode.
    pub(super) mode: usize,
    /// How often the phase had begun again.
    round: u64,
    pub(super) workload: Workload,
    /// What it was charged with, for now: what it is expected to cost.
    expected: u64,
    /// How many times its cost is charged.
    toll: u64,
    /// How many its phase had before.
    number: usize,
}

impl Turn {
    /// The persistence domain of pools, where nobody has said one: that of NVM mostly.
    pub(super) fn domain(&self) -> Domain {
        // Images, mounts and modes take turns by other numbers.
        match self.number % 11 {
            3 | 8 => Domain::Eadr,
            5 | 10 => Domain::Msync,
            _ => Domain::Adr,
        }
    }
}

/// What became of a phase.
#[derive(Clone, Copy, Debug, Default)]
pub struct Share {
    /// Its name.
    pub name: &'static str,
    /// Workloads explored.
    pub workloads: u64,
    /// States among theirs that differ from all others of their run: each was recovered.
    pub recovered: u64,
    /// Those among them that lie in no crashed recovery.
    pub explored: u64,
    /// Nanoseconds of the processor.
    pub spent: u64,
}

struct Track<'a> {
    phase: Phase<'a>,
    workloads: Round<'a>,
    round: u64,
    /// Workloads of this round so far.
    taken: usize,
    /// What counts when it is asked who comes next. Workloads that are under way are in it with what they are expected
    /// to cost.
    charged: u64,
    share: Share,
    is_over: bool,
}

/// All phases of a hunt, on their way.
pub(super) struct Course<'a> {
    tracks: Vec<Track<'a>>,
    modes: usize,
    /// The modes in turn, for phases without end.
    cycle: Vec<usize>,
}

impl<'a> Course<'a> {
    pub(super) fn new(phases: Vec<Phase<'a>>, modes: &[DataMode]) -> Self {
        let twice = (0..modes.len()).filter(|mode| modes[*mode] != DataMode::Writeback);
        let cycle = twice.chain(0..modes.len()).collect();
        let track = |phase: Phase<'a>| Track {
            workloads: (phase.make)(0),
            share: Share { name: phase.name, ..Share::default() },
            phase,
            round: 0,
            taken: 0,
            charged: 0,
            is_over: false,
        };
        Self { tracks: phases.into_iter().map(track).collect(), modes: modes.len(), cycle }
    }

    /// The next workload of the phase that is furthest behind; `None` when all are over.
    pub(super) fn next(&mut self) -> Option<Turn> {
        loop {
            let behind = |track: &(usize, &mut Track<'_>)| track.1.charged / track.1.phase.weight;
            let tracks = self.tracks.iter_mut().enumerate().filter(|(_, track)| !track.is_over);
            let (phase, track) = tracks.min_by_key(behind)?;
            if let Some((workload, at)) = track.next() {
                let (round, toll) = (track.round, 1 + track.round / self.cycle.len() as u64);
                let mode =
                    if track.phase.rounds.is_some() { at % self.modes } else { self.cycle[at % self.cycle.len()] };
                let expected = toll * track.share.spent.checked_div(track.share.workloads).unwrap_or(FIRST);
                track.charged += expected;
                let name = track.share.name;
                return Some(Turn { phase, name, mode, round, workload, expected, toll, number: at });
            }
        }
    }

    /// A turn is over: what it cost, how many states were recovered, and how many of these were of runs themselves.
    pub(super) fn took(&mut self, turn: &Turn, spent: u64, recovered: u64, explored: u64) {
        let track = &mut self.tracks[turn.phase];
        track.charged = (track.charged + turn.toll * spent).saturating_sub(turn.expected);
        track.share.workloads += 1;
        track.share.recovered += recovered;
        track.share.explored += explored;
        track.share.spent += spent;
    }

    /// How far a workload of this phase is explored.
    pub(super) fn limits(&self, turn: &Turn, limits: Limits) -> Limits {
        let Track { phase: Phase { closer, breadth, few, fails, .. }, share, .. } = &self.tracks[turn.phase];
        let least = if *fails { LEAST_FAILING } else { LEAST };
        let about = few.or(breadth.map(|parts| (share.explored / parts).max(least)));
        // Another round samples other states.
        let again = turn.round / self.cycle.len() as u64;
        let seed = limits.sampling.seed ^ again.rotate_right(8);
        Limits {
            second_opinion_every: limits.second_opinion_every.div_ceil(*closer),
            recrash_every: limits.recrash_every.div_ceil(*closer),
            kernel_every: limits.kernel_every.div_ceil(*closer),
            use_every: limits.use_every.div_ceil(*closer),
            flip_every: limits.flip_every.div_ceil(*closer),
            sampling: Sampling { seed, ..limits.sampling },
            about,
            ..limits
        }
    }

    /// How the medium fails in this turn.
    pub(super) fn faults(&self, turn: &Turn) -> Option<Faults> {
        let track = &self.tracks[turn.phase];
        let seed = turn.round << 32 | track.taken as u64;
        track.phase.fails.then_some(Faults::Search { seed, count: FAULTS })
    }

    /// What all phases together have had.
    pub(super) fn so_far(&self) -> Share {
        self.tracks.iter().fold(Share::default(), |sum, Track { share, .. }| Share {
            name: "all",
            workloads: sum.workloads + share.workloads,
            recovered: sum.recovered + share.recovered,
            explored: sum.explored + share.explored,
            spent: sum.spent + share.spent,
        })
    }

    pub(super) fn shares(&self) -> Vec<Share> {
        self.tracks.iter().map(|track| track.share).collect()
    }
}

impl Track<'_> {
    /// The next workload and which turn it is; `None` if there is none any more, or none in this round.
    fn next(&mut self) -> Option<(Workload, usize)> {
        if let Some(workload) = self.workloads.next() {
            let at = self.taken + self.round as usize;
            self.taken += 1;
            return Some((workload, at));
        }
        self.round += 1;
        self.is_over = self.taken == 0 || self.phase.rounds.is_some_and(|most| self.round >= most);
        self.taken = 0;
        if !self.is_over {
            self.workloads = (self.phase.make)(self.round);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Image;

    const MODES: [DataMode; 3] = [DataMode::Ordered, DataMode::Journal, DataMode::Writeback];

    fn workloads(count: usize) -> Round<'static> {
        let one = |i: usize| workload::from_text(&i.to_string(), "sync", Image::Small).expect("a call");
        Box::new((0..count).map(one))
    }

    #[test]
    fn phases_share_the_time_by_weight_from_the_first_workloads_on() {
        let heavy = Phase::endless("heavy", 3, |_| workloads(1000));
        let light = Phase::endless("light", 1, |_| workloads(1000));
        let mut course = Course::new(vec![heavy, light], &MODES[..1]);
        for done in 1..=400 {
            let turn = course.next().expect("a workload");
            // A workload of the heavy phase costs ten times as much.
            let cost = if turn.phase == 0 { 1000 } else { 100 };
            course.took(&turn, cost, 5, 5);
            let [heavy, light] = course.shares()[..] else { panic!() };
            assert!(heavy.spent.abs_diff(3 * light.spent) <= 3300, "after {done}: {heavy:?} {light:?}");
        }
        assert_eq!(course.shares().iter().map(|share| share.workloads).sum::<u64>(), 400);
    }

    #[test]
    fn every_workload_meets_every_mode_before_a_phase_of_so_many_rounds_is_over() {
        let mut course = Course::new(vec![Phase::in_modes("all", 3, || workloads(4))], &MODES);
        let mut met = std::collections::BTreeSet::new();
        while let Some(turn) = course.next() {
            assert!(met.insert((turn.workload.name.clone(), turn.mode)));
            course.took(&turn, 1, 1, 1);
        }
        assert_eq!(met.len(), 12);
    }

    #[test]
    fn modes_take_turns_in_endless_phases_and_writeback_comes_less_often() {
        let mut course = Course::new(vec![Phase::endless("all", 1, |_| workloads(4))], &MODES);
        let mut met = std::collections::BTreeMap::new();
        for _ in 0..4 * 5 {
            let turn = course.next().expect("a workload");
            *met.entry((turn.workload.name.clone(), turn.mode)).or_insert(0) += 1;
            course.took(&turn, 1, 1, 1);
        }
        let times =
            |mode| (0..4).map(|i: usize| met.get(&(i.to_string(), mode)).copied().unwrap_or(0)).collect::<Vec<_>>();
        assert_eq!([times(0), times(1), times(2)], [vec![2; 4], vec![2; 4], vec![1; 4]]);
    }

    #[test]
    fn no_workload_has_more_than_its_part_of_what_the_phase_has_had() {
        let phases = || vec![Phase::endless("all", 1, |_| workloads(1000)).wide(10), Phase::once("once", workloads(1))];
        let mut course = Course::new(phases(), &MODES[..1]);
        for _ in 0..50 {
            let turn = course.next().expect("a workload");
            let about = course.limits(&turn, Limits::default()).about;
            if turn.phase == 1 {
                assert_eq!(about, None);
                continue;
            }
            let had = course.shares()[0].explored;
            assert_eq!(about, Some((had / 10).max(LEAST)));
            course.took(&turn, 1_000_000, 500, 500);
        }
    }

    #[test]
    fn several_processors_begin_with_several_phases() {
        let phases = (0..4).map(|_| Phase::endless("all", 1, |_| workloads(9))).collect();
        let mut course = Course::new(phases, &MODES[..1]);
        let first: std::collections::BTreeSet<usize> = (0..4).filter_map(|_| Some(course.next()?.phase)).collect();
        assert_eq!(first.len(), 4);
    }

    #[test]
    fn a_phase_without_workloads_is_over_at_once() {
        let mut course = Course::new(vec![Phase::endless("none", 1, |_| workloads(0))], &MODES);
        assert!(course.next().is_none());
        let mut once = Course::new(vec![Phase::once("once", workloads(2))], &MODES[..1]);
        assert_eq!(std::iter::from_fn(|| once.next()).count(), 2);
    }
}
