//! How often each place that matters was passed, and how often power was lost right around it.

use ondol::{Durable, JournalEngine};
use ondol_env::reach::{Engines, Heard, Hit, Place};
use ondol_power::Event;
use std::collections::HashSet;

/// Figures of one place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// How often it was executed while events were recorded, or a state recovered.
    pub executed: u64,
    /// How often with crash states explored around it: power was lost before, and after the next event that can be lost.
    pub crashed: u64,
}

/// Figures of all places; they add up over runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally(Vec<Passed>);

impl Default for Tally {
    fn default() -> Self {
        Self(vec![Passed::default(); Place::ALL.len()])
    }
}

impl Tally {
    /// Those of one place.
    pub fn of(&self, place: Place) -> Passed {
        self.0[place as usize]
    }

    /// Adds what a run has passed, of whose `events` the cuts are explored that `cuts` has by their number of events.
    pub fn take(&mut self, heard: &[Hit], events: &[Event], cuts: &[bool]) {
        self.take_if(heard, |hit| {
            let later = events.iter().enumerate().skip(hit.at);
            let next = later.filter(|(_, event)| !matches!(event, Event::Mark(_))).map(|(i, _)| i + 1).next();
            next.is_some_and(|after| cuts[after])
        });
    }

    /// Adds what a run has passed; `is_around` says around what power was lost.
    pub(crate) fn take_if(&mut self, heard: &[Hit], is_around: impl Fn(&Hit) -> bool) {
        for hit in heard {
            let passed = &mut self.0[hit.place as usize];
            passed.executed += 1;
            passed.crashed += u64::from(is_around(hit));
        }
    }

    /// Adds what was passed where nothing was recorded.
    pub fn count(&mut self, heard: &Heard) {
        for (passed, times) in self.0.iter_mut().zip(&heard.counts) {
            passed.executed += times;
        }
    }

    /// Adds the figures of another run.
    pub fn add(&mut self, other: &Self) {
        for (passed, more) in self.0.iter_mut().zip(&other.0) {
            passed.executed += more.executed;
            passed.crashed += more.crashed;
        }
    }

    /// Places that this engine can reach and that no crash was explored around.
    pub fn missed(&self, engine: JournalEngine) -> Vec<Place> {
        self.missed_of(places(engine))
    }

    /// Those of these places that no crash was explored around.
    pub fn missed_of(&self, places: impl IntoIterator<Item = Place>) -> Vec<Place> {
        places.into_iter().filter(|place| self.of(*place).crashed == 0).collect()
    }
}

/// Places that an engine can reach.
pub fn places(engine: JournalEngine) -> impl Iterator<Item = Place> {
    Place::ALL.iter().copied().filter(move |place| match place.engines() {
        Engines::All => true,
        Engines::Logs => engine != JournalEngine::Batch,
        Engines::Images => !engine.logs_records() && engine != JournalEngine::Batch,
        Engines::Compressed => engine == JournalEngine::Compressed,
        Engines::Classic => engine == JournalEngine::Classic,
        Engines::Keeping => matches!(engine, JournalEngine::Classic | JournalEngine::Compressed),
        Engines::Records => engine.logs_records(),
        Engines::Scalable => engine == JournalEngine::Scalable,
        Engines::Remap => engine == JournalEngine::Remap,
        Engines::Swap => engine == JournalEngine::Swap,
        Engines::Jbd2 => engine.logs_as_jbd2(),
        Engines::Resize => false,
        Engines::Batch => engine == JournalEngine::Batch,
        Engines::Store | Engines::Remote | Engines::Redo => false,
    })
}

/// Places that a volume in object storage can reach, and with `durable=local` its log on this machine.
pub fn places_in_store(durable: Durable) -> Vec<Place> {
    let own = Place::ALL.iter().copied().filter(|place| match place.engines() {
        Engines::Store => true,
        Engines::Remote => durable == Durable::Remote,
        Engines::Redo => durable == Durable::Local,
        _ => false,
    });
    places(JournalEngine::Batch).chain(own).collect()
}

/// Places where a volume is given another size.
pub fn places_of_resizes() -> Vec<Place> {
    Place::ALL.iter().copied().filter(|place| place.engines() == Engines::Resize).collect()
}

/// What a run has shown that can be new: how often it passed each place, by powers of two, and which place came after which.
pub fn features(heard: &[Hit]) -> HashSet<u32> {
    let mut counts = vec![0u32; Place::ALL.len()];
    let mut features = HashSet::new();
    let mut before = Place::ALL.len();
    for hit in heard {
        let here = hit.place as usize;
        counts[here] += 1;
        features.insert(((before as u32) << 8 | here as u32) << 8);
        before = here;
    }
    let buckets = counts.iter().enumerate().filter(|(_, n)| **n > 0);
    features.extend(buckets.map(|(place, n)| (place as u32) << 8 | 1 | n.ilog2() << 1));
    features
}

impl Tally {
    /// For `--json`: by name, how often executed and how often crashed around.
    pub fn json(&self, places: &[Place]) -> serde_json::Value {
        let entry = |place: &Place| {
            let Passed { executed, crashed } = self.of(*place);
            (place.name().to_owned(), serde_json::json!({ "executed": executed, "crashed": crashed }))
        };
        serde_json::Value::Object(places.iter().map(entry).collect())
    }

    /// For readers: what an engine has not reached, and the figures of all its places.
    pub fn told(&self, engine: JournalEngine) -> String {
        self.told_of(&places(engine).collect::<Vec<_>>())
    }

    /// The same of these places.
    pub fn told_of(&self, all: &[Place]) -> String {
        let names = |places: Vec<Place>| places.iter().map(|place| place.name()).collect::<Vec<_>>().join(", ");
        let (never, around): (Vec<Place>, Vec<Place>) =
            self.missed_of(all.iter().copied()).into_iter().partition(|place| self.of(*place).executed == 0);
        let mut text = format!("  places reached {} of {}", all.len() - never.len(), all.len());
        if !never.is_empty() {
            text += &format!("; never executed: {}", names(never));
        }
        if !around.is_empty() {
            text += &format!("; executed and never crashed around: {}", names(around));
        }
        let figures = all.iter().map(|place| {
            let Passed { executed, crashed } = self.of(*place);
            format!("{place} {executed}/{crashed}")
        });
        text += "\n  how often each was executed, and crashed around:";
        for line in figures.collect::<Vec<_>>().chunks(4) {
            text += &format!("\n    {}", line.join("  "));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_crashed_around_when_the_next_event_that_can_be_lost_was_cut_away() {
        let mut tally = Tally::default();
        let events = [Event::Flush { medium: 0 }, Event::Mark(1), Event::Flush { medium: 0 }];
        let hit = |place, at| Hit { place, at };
        let heard = [hit(Place::LogWraps, 0), hit(Place::LogWraps, 1), hit(Place::TreeGrows, 3)];
        tally.take(&heard, &events, &[true, false, false, true]);
        assert_eq!(tally.of(Place::LogWraps), Passed { executed: 2, crashed: 1 });
        assert_eq!(tally.of(Place::TreeGrows), Passed { executed: 1, crashed: 0 });
        let engine = JournalEngine::Classic;
        assert!(!tally.missed(engine).contains(&Place::LogWraps) && tally.missed(engine).contains(&Place::TreeGrows));
        assert!(
            tally.told(engine).contains("executed and never crashed around: tree-grows\n"),
            "{}",
            tally.told(engine)
        );
        assert!(tally.json(&places(engine).collect::<Vec<_>>()).get(Place::StagedRun.name()).is_none());
    }

    #[test]
    fn more_of_the_same_is_a_feature_by_powers_of_two() {
        let hit = |place| Hit { place, at: 0 };
        let (a, b) = (hit(Place::LogWraps), hit(Place::TreeGrows));
        let two = features(&[a, b]);
        assert_ne!(features(&[b, a]), two);
        assert_eq!(features(&[a, a]), features(&[a, a, a]));
        assert_ne!(features(&[a, a]), features(&[a, a, a, a]));
    }
}
