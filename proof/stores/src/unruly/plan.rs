//! What is done to which request.

use super::Request;
use std::hash::{Hash, Hasher};
use std::time::Duration;

/// How often and how a store misbehaves. Shares are of a thousand requests. The default behaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// What decides, together with the request.
    pub seed: u64,
    /// Each request takes so much longer.
    pub latency: Duration,
    /// Requests wait up to so many turns of the runtime before they do what they do, and again before they are
    /// answered.
    pub turns: u32,
    /// Puts that wait until others that came later are done, or until it is plain that none come.
    pub held: u32,
    /// Requests that fail and do nothing.
    pub fail_before: u32,
    /// Requests that do what they should, and whose answer is an error.
    pub fail_after: u32,
    /// What becomes of the condition of creates.
    pub creates: Conditions,
    /// What becomes of the condition of updates.
    pub updates: Conditions,
    /// Puts that are acknowledged and do nothing.
    pub dropped: u32,
    /// Reads that return what was there before the last put, or nothing.
    pub stale: u32,
    /// Deletes that are acknowledged and do nothing.
    pub undeleted: u32,
    /// Lists that are empty.
    pub unlisted: u32,
    /// Lists without what was put last.
    pub behind: u32,
}

/// What a store makes of a condition of puts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Conditions {
    /// It holds.
    #[default]
    Kept,
    /// It is ignored: the put overwrites.
    Ignored,
    /// The store looks first and puts later, and others may come between.
    Racy,
    /// The put overwrites, and the answer is that of a store that keeps the condition.
    Feigned,
    /// The put is refused, whatever is there.
    Refused,
    /// The put is refused if another one with a condition is under way.
    Contended,
    /// The store has no such condition, and says so.
    Missing,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fate {
    pub(super) latency: Duration,
    pub(super) turns_before: u32,
    pub(super) turns_after: u32,
    pub(super) held: bool,
    pub(super) fail_before: bool,
    pub(super) fail_after: bool,
    pub(super) creates: Conditions,
    pub(super) updates: Conditions,
    pub(super) dropped: bool,
    pub(super) stale: bool,
    pub(super) unlisted: bool,
    pub(super) behind: bool,
}

impl Plan {
    /// Of the `nth` such request.
    pub(super) fn fate(&self, request: &Request, nth: u64) -> Fate {
        let (kind, path) = request.name();
        let mut state = Fnv(0xcbf2_9ce4_8422_2325);
        (self.seed, kind, path, nth).hash(&mut state);
        let mut random = Random(state.finish());
        let (is_put, is_list) = (request.put().is_some(), matches!(request, Request::List { .. }));
        // All are drawn for each request, so that one share does not change what another decides.
        let turns_before = random.below(self.turns.saturating_add(1));
        let turns_after = random.below(self.turns.saturating_add(1));
        let mut share = |share: u32| random.below(1000) < share;
        let (dropped, undeleted) = (share(self.dropped), share(self.undeleted));
        let (held, fail_before, fail_after) = (share(self.held), share(self.fail_before), share(self.fail_after));
        Fate {
            latency: self.latency,
            turns_before,
            turns_after,
            held: held && is_put,
            fail_before,
            fail_after,
            creates: self.creates,
            updates: self.updates,
            dropped: dropped && is_put || undeleted && matches!(request, Request::Delete { .. }),
            stale: share(self.stale) && matches!(request, Request::Get { .. }),
            unlisted: share(self.unlisted) && is_list,
            behind: share(self.behind) && is_list,
        }
    }
}

/// FNV-1a.
struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `bound`, which is above 0.
    fn below(&mut self, bound: u32) -> u32 {
        (self.next() % u64::from(bound)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::super::Mode;
    use super::*;
    use object_store::path::Path;

    fn get(path: &str) -> Request {
        Request::Get { path: Path::from(path) }
    }

    #[test]
    fn the_same_request_has_the_same_fate() {
        let plan = Plan { seed: 7, turns: 9, fail_before: 300, stale: 300, ..Plan::default() };
        for n in 0..100 {
            assert_eq!(plan.fate(&get("a"), n), plan.fate(&get("a"), n));
        }
        let fates = |plan: Plan, path: &str| (0..100).map(|n| plan.fate(&get(path), n)).collect::<Vec<_>>();
        assert_ne!(fates(plan, "a"), fates(plan, "b"));
        assert_ne!(fates(plan, "a"), fates(Plan { seed: 8, ..plan }, "a"));
    }

    #[test]
    fn shares_are_of_a_thousand() {
        let plan = Plan { fail_before: 250, fail_after: 1000, ..Plan::default() };
        let fates: Vec<Fate> = (0..4000).map(|n| plan.fate(&get("a"), n)).collect();
        let failing = fates.iter().filter(|fate| fate.fail_before).count();
        assert!((900..1100).contains(&failing), "{failing}");
        assert!(fates.iter().all(|fate| fate.fail_after && !fate.stale && !fate.dropped && !fate.held));
    }

    #[test]
    fn only_puts_are_held_or_dropped_and_only_reads_are_stale() {
        let plan = Plan { held: 1000, dropped: 1000, stale: 1000, ..Plan::default() };
        let read = plan.fate(&get("a"), 0);
        assert!(read.stale && !read.held && !read.dropped);
        let put =
            plan.fate(&Request::Put { path: Path::from("a"), bytes: bytes::Bytes::new(), mode: Mode::Overwrite }, 0);
        assert!(!put.stale && put.held && put.dropped);
    }
}
