//! The lock-free core under a model checker: every interleaving, and every value that the memory model lets a load see.

use crate::ring::Ring;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering::Relaxed};

fn model(body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(body);
}

struct Shared {
    ring: Ring,
    /// What stands for records in NVM: written before they are complete, read by whoever sees them committed. Nothing
    /// but the ring orders the two: where it does not, a load sees an older value, too.
    cells: Vec<AtomicU64>,
    /// Commits so far: written by each before it is durable, and read by the next one.
    commits: AtomicU64,
}

const LINES: u64 = 8;
const FIRST: u64 = LINES;

impl Shared {
    fn new() -> Arc<Self> {
        let cells = (0..LINES).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Self { ring: Ring::new(LINES, FIRST, 0), cells, commits: AtomicU64::new(0) })
    }

    /// Appends until it counts. Its position, and how often it was voided.
    fn append(&self, value: u64) -> (u64, u64) {
        let mut claim = self.ring.claim(1, 0);
        loop {
            self.cell(claim.position).store(value, Relaxed);
            if self.ring.complete(&claim) {
                return (claim.position, claim.voided);
            }
            claim = self.ring.claim(1, claim.voided + 1);
        }
    }

    fn cell(&self, position: u64) -> &AtomicU64 {
        &self.cells[(position % LINES) as usize]
    }

    /// What was committed, if this thread did it: the values between the commits.
    fn commit(&self, through: u64, patience: u32) -> Option<Vec<u64>> {
        let turn = self.ring.turn(through).unwrap()?;
        let span = self.ring.gather(turn, patience).unwrap();
        let (records, gaps) = (self.records(span.from, span.at, &span.gaps), &span.gaps);
        assert_eq!(records.len() as u64, span.records, "{gaps:?}");
        assert_eq!(span.number, self.commits.load(Relaxed) + 1);
        self.commits.store(span.number, Relaxed);
        self.ring.committed(&span);
        Some(records)
    }

    fn records(&self, from: u64, at: u64, gaps: &[(u64, u64)]) -> Vec<u64> {
        let is_gap = |place: u64| gaps.iter().any(|(at, lines)| (*at..at + lines).contains(&place));
        (from..at).filter(|place| !is_gap(*place)).map(|place| self.cell(place).load(Relaxed)).collect()
    }
}

/// Two append and commit what they appended; whoever commits sees whole records, each once.
#[test]
fn what_is_committed_is_complete() {
    model(|| {
        let shared = Shared::new();
        let other = {
            let shared = shared.clone();
            loom::thread::spawn(move || {
                let (position, _) = shared.append(1);
                let committed = shared.commit(position, u32::MAX).unwrap_or_default();
                assert!(shared.ring.durable() > position);
                committed
            })
        };
        let (position, _) = shared.append(2);
        let mut all = shared.commit(position, u32::MAX).unwrap_or_default();
        assert!(shared.ring.durable() > position);
        all.extend(other.join().unwrap());
        all.sort_unstable();
        assert_eq!(all, [1, 2]);
    });
}

/// One commits without patience while another appends: a record is committed once, or appended again and not committed.
#[test]
fn what_is_voided_is_appended_again() {
    model(|| {
        let shared = Shared::new();
        let slow = {
            let shared = shared.clone();
            loom::thread::spawn(move || shared.append(1))
        };
        let (position, _) = shared.append(2);
        let mut all = shared.commit(position, 0).unwrap_or_default();
        let (slow, voided) = slow.join().unwrap();
        assert!(voided <= 1, "{voided}");
        all.extend(shared.commit(slow, 0).unwrap_or_default());
        all.sort_unstable();
        assert_eq!(all, [1, 2]);
    });
}

/// Whoever asks for all that there is gets what was complete before.
#[test]
fn everything_is_found() {
    model(|| {
        let shared = Shared::new();
        let other = {
            let shared = shared.clone();
            loom::thread::spawn(move || shared.append(1))
        };
        shared.append(2);
        let mut all = Vec::new();
        if let Some(position) = shared.ring.newest() {
            all.extend(shared.commit(position, 0).unwrap_or_default());
        }
        assert!(all.contains(&2), "{all:?}");
        other.join().unwrap();
        if let Some(position) = shared.ring.newest() {
            all.extend(shared.commit(position, 0).unwrap_or_default());
        }
        all.sort_unstable();
        assert_eq!(all, [1, 2]);
        assert_eq!(shared.ring.newest(), None);
    });
}

/// Somebody is voided and goes on writing; his lines are used again only when he has seen it.
#[test]
fn who_is_voided_writes_over_nobody() {
    model(|| {
        let shared = Shared::new();
        let slow = {
            let shared = shared.clone();
            loom::thread::spawn(move || shared.append(100))
        };
        let (mut from, mut end, mut values) = (FIRST, FIRST, Vec::new());
        for value in 1..=5 {
            // Room for this one, its commit, and all that the other may take.
            if end + 2 + 3 > from + LINES {
                break;
            }
            let (position, _) = shared.append(value);
            shared.commit(position, 0);
            values.push((position, value));
            end = position + 2;
            // All but the newest.
            while let Some((_, at)) = shared.ring.batch(from).filter(|(_, at)| *at < position) {
                from = at + 1;
            }
        }
        slow.join().unwrap();
        for (position, value) in values.into_iter().filter(|(position, _)| *position >= from) {
            assert_eq!(shared.cell(position).load(Relaxed), value, "at {position}");
        }
    });
}

/// Batches are read while others append and commit, and their lines are used again.
#[test]
fn lines_are_used_again() {
    model(|| {
        let shared = Shared::new();
        for n in 0..3 {
            let (position, _) = shared.append(n);
            shared.commit(position, 0);
        }
        // Six of eight lines are gone; two batches make room for four.
        let (first, at) = shared.ring.batch(FIRST).unwrap();
        let (second, end) = shared.ring.batch(at + 1).unwrap();
        assert_eq!((first.len(), second.len()), (1, 1));
        let other = {
            let shared = shared.clone();
            loom::thread::spawn(move || {
                let (position, _) = shared.append(7);
                shared.commit(position, u32::MAX);
            })
        };
        let (position, _) = shared.append(8);
        shared.commit(position, u32::MAX);
        other.join().unwrap();
        let (mut from, mut all) = (end + 1, Vec::new());
        while let Some((records, at)) = shared.ring.batch(from) {
            all.extend(records.iter().map(|place| shared.cell(*place).load(Relaxed)));
            from = at + 1;
        }
        all.sort_unstable();
        assert_eq!(all, [2, 7, 8]);
    });
}
