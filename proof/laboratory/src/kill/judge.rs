//! What may be found in a thread's directory after its server was killed: see `docs/crash-contract.md`.

use super::tree::{Call, Contents, Tree};
use ondol::DataMode;

/// What a thread did in a round.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// What was there before.
    pub(super) base: Tree,
    /// Its calls. The last may have failed when the server died, with or without having taken effect.
    pub(super) calls: Vec<Call>,
    /// How many of them an fsync covers that returned.
    pub(super) synced: usize,
}

impl Log {
    /// The states after each number of requests, from the synced one on.
    fn states(&self) -> Vec<Tree> {
        let mut tree = self.base.clone();
        let (synced, later) = self.calls.split_at(self.synced.min(self.calls.len()));
        synced.iter().for_each(|call| tree.apply(call));
        let mut states = vec![tree.clone()];
        states.extend(later.iter().flat_map(Call::requests).map(|request| {
            tree.apply(&request);
            tree.clone()
        }));
        states
    }

    /// Compares what was found with what the contract allows: metadata as after the synced calls and some of those
    /// behind them; file contents as the data mode says. Answers how many synced files were found as they were.
    ///
    /// # Errors
    /// What differs, from the allowed state that is nearest.
    pub(super) fn judge(&self, data: DataMode, found: &Tree) -> Result<u64, String> {
        let states = self.states();
        let reasons = states.iter().map(|state| faults(state, &states, data, found));
        let mut nearest: Option<(usize, Vec<String>)> = None;
        for (later, faults) in reasons.enumerate() {
            if faults.is_empty() {
                return Ok(unchanged(&states, found));
            }
            if nearest.as_ref().is_none_or(|(_, least)| faults.len() < least.len()) {
                nearest = Some((later, faults));
            }
        }
        let (later, faults) = nearest.unwrap_or_default();
        let calls = self.calls.get(self.synced..).unwrap_or_default();
        let calls: Vec<String> = calls.iter().map(Call::to_string).collect();
        Err(format!(
            "no state that is allowed; nearest is the one {later} requests after the last sync, where {}; calls after \
             that sync: {}",
            faults.iter().take(3).cloned().collect::<Vec<_>>().join(", "),
            if calls.is_empty() { "none".into() } else { calls.join("; ") }
        ))
    }
}

/// Why `found` is not `state`.
fn faults(state: &Tree, states: &[Tree], data: DataMode, found: &Tree) -> Vec<String> {
    if data == DataMode::Journal || !state.same_shape(found) {
        return state.differences(found);
    }
    let may_be = |path: &str| match (state.file(path), found.file(path)) {
        (Some(wanted), Some(found)) => wanted.bytes == found.bytes || is_own(data, wanted, states, &found.bytes),
        _ => true,
    };
    let wrong = state.paths(true).into_iter().filter(|path| !may_be(path));
    wrong.map(|path| format!("{path} has bytes that were never its own, or others than were synced")).collect()
}

/// Outside data=journal: whether each byte is one that the file had since the last sync. What was not changed since is
/// as it was.
fn is_own(data: DataMode, wanted: &Contents, states: &[Tree], found: &[u8]) -> bool {
    let mut versions: Vec<&Contents> = states.iter().filter_map(|state| state.by_id(wanted.id)).collect();
    versions.dedup_by(|a, b| a.bytes == b.bytes);
    if versions.len() > 1 && data == DataMode::Writeback {
        return true;
    }
    // Behind the end of a version there are zeros, which a longer one may show.
    found.iter().enumerate().all(|(at, byte)| versions.iter().any(|v| v.bytes.get(at).unwrap_or(&0) == byte))
}

/// Files of the synced state that no later call changed, found with their bytes.
fn unchanged(states: &[Tree], found: &Tree) -> u64 {
    let synced = states.first().map(|state| &state.nodes).into_iter().flatten();
    let files = synced.filter_map(|(path, node)| Some((path, node.as_ref()?)));
    files.filter(|(path, file)| found.file(path).is_some_and(|f| f.bytes == file.bytes)).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn log() -> Log {
        let bytes = |n: u8, len| Arc::from(vec![n; len]);
        let calls = vec![
            Call::Create("a".into()),
            Call::Write("a".into(), 0, bytes(1, 100)),
            Call::Create("b".into()),
            Call::Unlink("b".into()),
            Call::Write("a".into(), 0, bytes(2, 50)),
            Call::Mkdir("d".into()),
        ];
        Log { base: Tree::default(), calls, synced: 4 }
    }

    fn after(calls: usize, more: &[Call]) -> Tree {
        let mut tree = Tree::default();
        log().calls[..calls].iter().chain(more).for_each(|call| tree.apply(call));
        tree
    }

    #[test]
    fn what_was_synced_must_be_there_and_what_was_removed_must_not() {
        for data in [DataMode::Journal, DataMode::Ordered, DataMode::Writeback] {
            for calls in 4..=6 {
                assert!(log().judge(data, &after(calls, &[])).is_ok(), "{calls} calls");
            }
            let back = log().judge(data, &after(3, &[])).unwrap_err();
            assert!(back.contains("b is there and should not be"), "{back}");
            let lost = log().judge(data, &Tree::default()).unwrap_err();
            assert!(lost.contains("a is missing"), "{lost}");
            assert!(log().judge(data, &after(6, &[Call::Create("x".into())])).is_err());
        }
    }

    #[test]
    fn the_kernel_may_send_a_write_in_two() {
        let wide =
            Log { calls: vec![Call::Create("a".into()), Call::Append("a".into(), 0, [1; 9000].into())], ..log() };
        let create = wide.calls[..1].to_vec();
        let first = |len: usize| {
            let mut tree = after(0, &create);
            tree.apply(&Call::Write("a".into(), 0, vec![1; len].into()));
            tree
        };
        let log = Log { synced: 1, ..wide };
        assert!(
            log.judge(DataMode::Journal, &first(9000)).is_ok() && log.judge(DataMode::Journal, &first(4096)).is_err()
        );
        let calls = [&log.calls[..], &[Call::Append("a".into(), 9000, [2; 9000].into())]].concat();
        let log = Log { calls, synced: 2, ..log };
        let mut found = first(9000);
        found.apply(&Call::Append("a".into(), 9000, [2; 3 * 4096 - 9000].into()));
        assert_eq!(log.judge(DataMode::Journal, &found), Ok(0));
        found.apply(&Call::Truncate("a".into(), 10_000));
        assert!(log.judge(DataMode::Journal, &found).is_err());
    }

    #[test]
    fn the_data_mode_says_what_bytes_may_be() {
        let mixed = after(4, &[Call::Write("a".into(), 7, Arc::from(vec![2; 9]))]);
        assert!(log().judge(DataMode::Journal, &mixed).is_err());
        assert_eq!(log().judge(DataMode::Ordered, &mixed), Ok(0));
        let foreign = after(4, &[Call::Write("a".into(), 7, Arc::from(vec![3; 9]))]);
        assert!(log().judge(DataMode::Ordered, &foreign).is_err());
        assert!(log().judge(DataMode::Writeback, &foreign).is_ok());
        let synced = Log { synced: 6, ..log() };
        assert!(synced.judge(DataMode::Writeback, &after(4, &[Call::Mkdir("d".into())])).is_err());
        assert_eq!(synced.judge(DataMode::Writeback, &after(6, &[])), Ok(1));
    }
}
