//! Which edges of the product's control flow were executed, and which power was lost right around.

use ondol_coverage::{Function, Heard, Hit, edges, functions, lines};
use ondol_power::Event;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Edges by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Edges(Vec<u64>);

impl Edges {
    fn insert(&mut self, edge: u32) {
        let (word, bit) = (edge as usize / 64, edge % 64);
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << bit;
    }

    fn has(&self, edge: u32) -> bool {
        self.0.get(edge as usize / 64).is_some_and(|word| word >> (edge % 64) & 1 == 1)
    }

    fn add(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(word, more)| *word |= more);
    }
}

/// Edges of a part of the product.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// All of them.
    pub edges: u64,
    /// Those that were executed while events were recorded, or a state recovered.
    pub executed: u64,
    /// Those with crash states explored around them: power was lost before, and after the next event that can be lost.
    pub crashed: u64,
}

/// Edges that were passed; they add up over runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    executed: Edges,
    crashed: Edges,
}

impl Tally {
    /// Adds what a run has passed, of whose `events` the cuts are explored that `cuts` has by their number of events.
    pub fn take(&mut self, heard: &Heard, events: &[Event], cuts: &[bool]) {
        let mut after = vec![None; events.len() + 1];
        for (i, event) in events.iter().enumerate().rev() {
            after[i] = if matches!(event, Event::Mark(_)) { after[i + 1] } else { Some(i + 1) };
        }
        self.take_if(heard, |hit| after.get(hit.at as usize).copied().flatten().is_some_and(|after| cuts[after]));
    }

    /// Adds what a run has passed; `is_around` says around what power was lost.
    pub(crate) fn take_if(&mut self, heard: &Heard, is_around: impl Fn(&Hit) -> bool) {
        self.count(heard);
        heard.hits.iter().filter(|hit| is_around(hit)).for_each(|hit| self.crashed.insert(hit.edge));
    }

    /// Adds what was passed where nothing was recorded.
    pub fn count(&mut self, heard: &Heard) {
        heard.counts.iter().for_each(|(edge, _)| self.executed.insert(*edge));
    }

    /// Adds the edges of another run.
    pub fn add(&mut self, other: &Self) {
        self.executed.add(&other.executed);
        self.crashed.add(&other.crashed);
    }

    /// The edges of all functions in this file or folder, as in `crates/journal/src/batch`.
    pub fn share(&self, path: &str) -> Share {
        let of = functions().iter().filter(|function| is_in(&function.file, path));
        of.fold(Share::default(), |sum, function| self.with(sum, function))
    }

    fn with(&self, sum: Share, function: &Function) -> Share {
        let edges = || function.edges.0..function.edges.1;
        Share {
            edges: sum.edges + edges().count() as u64,
            executed: sum.executed + edges().filter(|edge| self.executed.has(*edge)).count() as u64,
            crashed: sum.crashed + edges().filter(|edge| self.crashed.has(*edge)).count() as u64,
        }
    }

    /// By module: those of which anything was executed.
    fn shares(&self) -> BTreeMap<String, Share> {
        let mut shares: BTreeMap<String, Share> = BTreeMap::new();
        for function in functions() {
            if let Some(name) = module(function) {
                let share = shares.entry(name).or_default();
                *share = self.with(*share, function);
            }
        }
        shares.retain(|_, share| share.executed > 0);
        shares
    }

    /// By file, the lines at which a branch begins that was never executed, in no copy that the compiler has made of
    /// it.
    pub fn unexecuted(&self) -> BTreeMap<&'static str, BTreeSet<u32>> {
        let mut found: [BTreeMap<&str, BTreeSet<u32>>; 2] = Default::default();
        for (place, edge) in lines().iter().zip(1..) {
            if let Some((file, line)) = place {
                found[usize::from(self.executed.has(edge))].entry(file).or_default().insert(*line);
            }
        }
        let [mut never, executed] = found;
        never.iter_mut().for_each(|(file, lines)| {
            lines.retain(|line| executed.get(file).is_none_or(|executed| !executed.contains(line)))
        });
        never.retain(|_, lines| !lines.is_empty());
        never
    }

    /// For `--json`: by module, how many edges there are, were executed, and were crashed around; and by file, the
    /// lines of branches that were not executed. Nothing where the build has no edges.
    pub fn json(&self) -> Option<serde_json::Value> {
        if edges() == 0 {
            return None;
        }
        let entry = |(name, Share { edges, executed, crashed }): (&String, &Share)| {
            (name.clone(), serde_json::json!({ "edges": edges, "executed": executed, "crashed": crashed }))
        };
        let modules: serde_json::Map<_, _> = self.shares().iter().map(entry).collect();
        Some(serde_json::json!({ "modules": modules, "unexecuted": self.unexecuted() }))
    }

    /// For readers: by file, the lines of branches that were never executed. Nothing where the build has no edges.
    pub fn told(&self) -> Option<String> {
        if edges() == 0 {
            return None;
        }
        let of_file = |(file, lines): (&str, BTreeSet<u32>)| {
            let lines: Vec<String> = lines.iter().map(u32::to_string).collect();
            format!("\n    {file}: {}", lines.join(" "))
        };
        Some(self.unexecuted().into_iter().map(of_file).collect())
    }
}

/// The file or folder of a function below its crate's `src`.
fn module(function: &Function) -> Option<String> {
    let parts: Vec<&str> = function.file.split('/').take(4).collect();
    (parts.len() == 4).then(|| parts.join("/").trim_end_matches(".rs").to_owned())
}

/// Whether a file is this one, but for its ending, or in this folder.
fn is_in(file: &str, path: &str) -> bool {
    file.strip_prefix(path).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

/// Fails unless so many percent of the edges of a part of the product were executed.
///
/// # Panics
/// They were not.
pub fn is_executed(tally: &Tally, path: &str, percent: u64) {
    let Share { edges, executed, crashed } = tally.share(path);
    println!("{path}: {executed} of {edges} edges are executed, {crashed} are crashed around");
    assert!(edges > 0, "{path} has no edges: `cargo xtask proof` builds these tests");
    assert!(100 * executed >= percent * edges, "{executed} of {edges} edges of {path} are executed");
}

/// What a run has shown that can be new: how often it passed each edge, by powers of two.
pub fn features(heard: &Heard) -> HashSet<u32> {
    heard.counts.iter().map(|(edge, times)| edge << 5 | times.max(&1).ilog2()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edge_is_crashed_around_when_the_next_event_that_can_be_lost_was_cut_away() {
        let mut tally = Tally::default();
        let events = [Event::Flush { medium: 0 }, Event::Mark(1), Event::Flush { medium: 0 }];
        let hit = |edge, at| Hit { edge, at };
        let heard =
            Heard { hits: vec![hit(70, 0), hit(70, 1), hit(7, 1), hit(9, 3)], counts: vec![(70, 2), (7, 1), (9, 1)] };
        tally.take(&heard, &events, &[true, true, false, false]);
        assert!([70, 7, 9].iter().all(|edge| tally.executed.has(*edge)) && !tally.executed.has(8));
        assert_eq!([70, 7, 9].map(|edge| tally.crashed.has(edge)), [true, false, false]);
        let mut other = Tally::default();
        other.take(&heard, &events, &[true, false, false, true]);
        tally.add(&other);
        assert_eq!([70, 7, 9].map(|edge| tally.crashed.has(edge)), [true, true, false]);
        let file = "crates/journal/src/batch/commit.rs".to_owned();
        let function = Function { file, edges: (7, 10), ..Function::default() };
        assert_eq!(tally.with(Share::default(), &function), Share { edges: 3, executed: 2, crashed: 1 });
        assert_eq!(module(&function).as_deref(), Some("crates/journal/src/batch"));
        assert_eq!(module(&Function::default()), None);
        assert!(is_in(&function.file, "crates/journal") && is_in("crates/x/src/y.rs", "crates/x/src/y"));
        assert!(!is_in(&function.file, "crates/journal/src/bat"));
    }

    #[test]
    fn more_of_the_same_is_a_feature_by_powers_of_two() {
        let of = |counts: &[(u32, u32)]| features(&Heard { hits: vec![], counts: counts.to_vec() });
        assert_ne!(of(&[(1, 1)]), of(&[(2, 1)]));
        assert_eq!(of(&[(1, 2)]), of(&[(1, 3)]));
        assert_ne!(of(&[(1, 3)]), of(&[(1, 4)]));
    }
}
