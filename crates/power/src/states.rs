//! Which states of a run are built: all of a cut while they are few, chosen ones otherwise.

use crate::{Cut, Event, Item, Keep, Layer, Medium};
use ondol_env::{Env, Fixed, Timestamp};
use std::collections::HashSet;
use std::ops::Range;

/// How many states of a run are built.
#[derive(Clone, Copy, Debug)]
pub struct Sampling {
    /// With at most so many combinations of what may have survived, all of them are built: with torn writes and lines
    /// if these are so few, too, without them otherwise.
    pub all_of: usize,
    /// Random states, torn ones among them, for each event with more.
    pub samples: u32,
    /// States with a torn newest write or line for each event.
    pub torn: u32,
    /// Before a barrier and where fewer states are allowed, with more combinations: so many items each alone, and all
    /// without each.
    pub extremes: usize,
    /// Of so many states that are chosen like this one is built, spread over the run by the seed.
    pub one_of: u64,
    /// Seed of the random ones.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { all_of: 256, samples: 48, torn: 96, extremes: 64, one_of: 1, seed: 1 }
    }
}

impl Sampling {
    /// With about so many states for each event, if there are more.
    #[must_use]
    pub fn at_most(self, states: usize) -> Self {
        let few = states as u32 / 4;
        Self {
            all_of: self.all_of.min(states),
            samples: self.samples.min(few),
            torn: self.torn.min(few),
            extremes: self.extremes.min(states / 4),
            ..self
        }
    }
}

/// States for each event, about, that [`Sampling::spread`] tries.
const LEVELS: [usize; 6] = [128, 64, 32, 16, 8, 4];

impl Sampling {
    /// With about `most` states of this run, spread over all of it, if there are more: fewer for each event at first,
    /// and then not for every event. `is_narrowed` is [`Sampling::states`]'s.
    #[must_use]
    pub fn spread(self, media: &[Medium], events: &[Event], is_narrowed: impl Fn(usize) -> bool, most: u64) -> Self {
        let levels: Vec<Self> = [self].into_iter().chain(LEVELS.map(|level| self.at_most(level))).collect();
        let mut counts = vec![0u64; levels.len()];
        let mut cut = Cut::new(media);
        for (i, event) in events.iter().enumerate() {
            let newest = cut.advance(event);
            let narrowed = is_narrowed(i + 1);
            let is_cut = narrowed || !newest.is_empty() || is_barrier(event);
            let is_gathered = narrowed || events.get(i + 1).is_none_or(is_barrier);
            let (all, whole) = (cut.all_combinations(), cut.combinations());
            for (level, count) in levels.iter().zip(&mut counts) {
                *count += if is_cut { level.about(all, whole) } else { 0 };
                if is_gathered && whole.is_none_or(|n| n > level.all_of) {
                    *count += 2 + 2 * cut.items().len().min(level.extremes) as u64;
                }
            }
        }
        let chosen = counts.iter().position(|count| *count <= most.max(1));
        let chosen = chosen.unwrap_or(levels.len() - 1);
        Self { one_of: counts[chosen].div_ceil(most.max(1)).max(1) * self.one_of, ..levels[chosen] }
    }

    /// States of a cut with so many combinations, with and without torn ones.
    fn about(&self, all: Option<usize>, whole: Option<usize>) -> u64 {
        let few = |n: Option<usize>| n.filter(|n| *n <= self.all_of);
        match few(all) {
            Some(n) => n as u64,
            None => few(whole).unwrap_or(1) as u64 + u64::from(self.samples) + u64::from(self.torn),
        }
    }

    /// Whether the `n`-th state that is chosen is built.
    fn is_built(&self, n: u64) -> bool {
        // Multiplied and folded, neighbours have nothing to do with each other.
        let mixed = (n ^ self.seed.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.one_of <= 1 || (mixed ^ mixed >> 32).is_multiple_of(self.one_of)
    }
}

/// Something becomes durable, or cannot any more.
fn is_barrier(event: &Event) -> bool {
    matches!(event, Event::Flush { .. } | Event::FlushFailed { .. } | Event::Fence { .. } | Event::Settled { .. })
}

/// How far it came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Built {
    /// Events after which power was cut.
    pub cuts: u64,
    /// Cuts among them of which all states were built, torn ones left out.
    pub exhausted: u64,
}

/// Takes a state; whether to go on.
type Visit<'v> = &'v mut dyn FnMut(&Cut<'_>, Vec<Keep>) -> bool;

impl Sampling {
    /// Calls `state` for states of every cut, until it says `false`. After an event that changes nothing on the media
    /// they are the same as before it, and left out unless it is a barrier, or `is_narrowed` says of the number of
    /// events that fewer states are allowed now.
    pub fn states(
        &self,
        media: &[Medium],
        events: &[Event],
        is_narrowed: impl Fn(usize) -> bool,
        state: &mut dyn FnMut(&Cut<'_>, Vec<Keep>) -> bool,
    ) -> Built {
        let (mut cut, mut built, mut go_on) = (Cut::new(media), Built::default(), true);
        let mut chosen = 0;
        let mut state = |cut: &Cut<'_>, keep: Vec<Keep>| {
            chosen += 1;
            go_on = go_on && (!self.is_built(chosen) || state(cut, keep));
            go_on
        };
        let mut go_on = self.of_cut(&cut, 0..0, &mut built, &mut state);
        for (i, event) in events.iter().enumerate() {
            if !go_on {
                break;
            }
            let newest = cut.advance(event);
            let narrowed = is_narrowed(i + 1);
            if is_barrier(event) || narrowed {
                go_on = self.of_cut(&cut, 0..0, &mut built, &mut state);
            } else if !newest.is_empty() {
                go_on = self.of_cut(&cut, newest, &mut built, &mut state);
            }
            if go_on && (narrowed || events.get(i + 1).is_none_or(is_barrier)) {
                go_on = self.extremes(&cut, &mut state);
            }
        }
        built
    }

    /// Calls `judge` with the media in every state that [`Sampling::states`] builds and the last mark before it, and
    /// never twice with equal ones. Returns how many there were.
    pub fn each(&self, media: &[Medium], events: &[Event], mut judge: impl FnMut(&[Layer], u64)) -> usize {
        let mark = |happened: &[Event]| {
            happened
                .iter()
                .rev()
                .find_map(|event| if let Event::Mark(id) = event { Some(*id) } else { None })
                .unwrap_or(0)
        };
        let mut seen = HashSet::new();
        let is_narrowed = |n: usize| matches!(events[n - 1], Event::Mark(_));
        self.states(media, events, is_narrowed, &mut |cut, keep| {
            let (mut layers, mark) = (cut.build(&keep), mark(&events[..cut.events()]));
            if seen.insert((Layer::fingerprint_of(&mut layers), mark)) {
                judge(&layers, mark);
            }
            true
        });
        seen.len()
    }

    /// `newest` are the items that the last event made or changed: a state in which nothing of that is there belongs to
    /// an earlier cut. An empty range asks for all states.
    fn of_cut(&self, cut: &Cut<'_>, newest: Range<usize>, built: &mut Built, state: Visit<'_>) -> bool {
        // Each cut has samples of its own, whatever was built before it.
        let random = Fixed::new(Timestamp::default(), self.seed ^ (cut.events() as u64) << 32);
        let chosen = Chosen { sampling: self, cut, newest, random };
        let count = cut.combinations().filter(|n| *n <= self.all_of);
        built.cuts += 1;
        built.exhausted += u64::from(count.is_some() && self.one_of <= 1);
        if let Some(count) = cut.all_combinations().filter(|n| *n <= self.all_of) {
            return chosen.all(count, |n| cut.any_combination(n), state);
        }
        let go_on = match count {
            Some(count) => chosen.all(count, |n| cut.combination(n), state),
            None => state(cut, vec![Keep::All; cut.items().len()]),
        };
        go_on && chosen.sampled(state) && chosen.torn(state)
    }

    /// The extremes of what has gathered: nothing, all, each alone, all but each.
    fn extremes(&self, cut: &Cut<'_>, state: Visit<'_>) -> bool {
        let n = cut.items().len();
        if cut.combinations().is_some_and(|n| n <= self.all_of) {
            // All were built.
            return true;
        }
        // Of thousands of lines a regular choice: each alone would be quadratic in time.
        let one_of = |i: usize, one: Keep, others: Keep| {
            let mut keep = vec![others; n];
            keep[i] = one;
            keep
        };
        state(cut, vec![Keep::None; n])
            && state(cut, vec![Keep::All; n])
            && (0..n)
                .step_by(n.div_ceil(self.extremes.max(1)).max(1))
                .all(|i| state(cut, one_of(i, Keep::All, Keep::None)) && state(cut, one_of(i, Keep::None, Keep::All)))
    }
}

/// The states of one cut.
struct Chosen<'c, 'e> {
    sampling: &'c Sampling,
    cut: &'c Cut<'e>,
    newest: Range<usize>,
    random: Fixed,
}

impl Chosen<'_, '_> {
    fn all(&self, count: usize, combination: impl Fn(usize) -> Vec<Keep>, state: Visit<'_>) -> bool {
        let items = self.cut.items();
        let is_new =
            |keep: &[Keep]| self.newest.is_empty() || self.newest.clone().any(|i| items[i].has_newest(&keep[i]));
        (0..count).map(combination).filter(|keep| is_new(keep)).all(|keep| state(self.cut, keep))
    }

    fn sampled(&self, state: Visit<'_>) -> bool {
        let items = self.cut.items();
        (0..self.sampling.samples).all(|_| {
            let mut keep: Vec<Keep> = items.iter().map(|item| self.any(item)).collect();
            if !self.newest.is_empty() {
                keep[self.newest.start + self.below(self.newest.len())] = Keep::All;
            }
            state(self.cut, keep)
        })
    }

    /// The newest item in parts, the others all there or all lost.
    fn torn(&self, state: Visit<'_>) -> bool {
        let Some(at) = self.newest.clone().last() else { return true };
        let item = &self.cut.items()[at];
        let parts = item.parts();
        if parts < 2 {
            return true;
        }
        let others = |i: u32, part: Keep| {
            let mut keep = vec![if i & 1 == 0 { Keep::All } else { Keep::None }; self.cut.items().len()];
            keep[at] = part;
            keep
        };
        // Two kinds of neighbours for each way to be torn.
        if item.choices() == 2 && parts < 31 && 2 << parts <= self.sampling.torn {
            let part = |i: u32| item.torn(|part| (i >> (part + 1) & 1) as usize);
            return (0..2 << parts).all(|i| state(self.cut, others(i, part(i))));
        }
        (0..self.sampling.torn).all(|i| {
            let (edge, most) = (1 + self.below(parts - 1), item.choices() - 1);
            let part = item.torn(|part| match i % 3 {
                0 => most - usize::from(part >= edge),
                1 => most - usize::from(part < edge),
                _ => self.below(most + 1),
            });
            state(self.cut, others(i, part))
        })
    }

    fn any(&self, item: &Item<'_>) -> Keep {
        match self.below(5) {
            0 | 1 => Keep::None,
            2 => Keep::All,
            3 => item.choice(self.below(item.choices())),
            _ => item.torn(|_| self.below(item.choices())),
        }
    }

    fn below(&self, n: usize) -> usize {
        self.random.random_u32() as usize % n.max(1)
    }
}
