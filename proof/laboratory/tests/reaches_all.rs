//! With limits that are large enough the explorer builds the states that the contract of `ondol_power` allows: all, and
//! no others.
//!
//! What is allowed is worked out here once more, without items, lines or torn writes: a unit of a block medium holds
//! what some of the writes since the last flush made of it, a word of NVM what some number of the stores to its line
//! did, and each is independent of all others. Of a medium that takes batches, the first of those that are not settled
//! are there. What a failed write or flush has left behind is never durable, until it is written again.

use ondol_env::sync::{Arc, Mutex};
use ondol_laboratory::explore::{Limits, Watch, explore};
use ondol_laboratory::{Description, Subject, Told};
use ondol_power::{Event, Kind, LINE, Layer, Medium, PowerDomain, Sampling, UNIT, WORD};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const DISK: usize = 2 * UNIT;
const NVM: usize = 2 * LINE;
const BATCHES: usize = 8;

/// What both media hold.
type State = Vec<u8>;

/// Media without any contract: it only notes what they held when the power came back.
struct Looker {
    media: Vec<Medium>,
    events: Vec<Event>,
    seen: Mutex<BTreeSet<State>>,
}

impl Subject for Looker {
    type Matched = ();

    fn media(&self) -> &[Medium] {
        &self.media
    }

    fn events(&self) -> &[Event] {
        &self.events
    }

    fn recover(&self, layers: &[Layer]) -> Result<Vec<Layer>, String> {
        self.seen.lock().insert(layers.iter().flat_map(Layer::to_bytes).collect());
        Ok(layers.to_vec())
    }

    fn come_back(&self, _: &[Layer], _: &Arc<PowerDomain>) -> Result<(), String> {
        Ok(())
    }

    fn essence(&self, recovered: &mut [Layer]) -> u128 {
        recovered.iter_mut().fold(0, |all, layer| all.rotate_left(1) ^ layer.fingerprint())
    }

    fn judge(&self, _: &[Layer], _: usize) -> Result<(), String> {
        Ok(())
    }

    fn still_allowed(&self, _: &(), _: usize) -> bool {
        true
    }

    fn is_narrowed(&self, events: usize) -> bool {
        matches!(self.events[events - 1], Event::Mark(_))
    }

    fn second_opinion(&self, _: &[Layer], _: usize) -> Result<(), String> {
        Ok(())
    }
}

impl Told for Looker {
    fn describe(&self) -> Description {
        Description::default()
    }
}

/// What happened to a part of a medium since it was durable: where, what, the number of the event, and whether it has
/// failed.
type Changes = Vec<(usize, Vec<u8>, usize, bool)>;

/// Bytes of a batch, and where they are.
type Parts = Vec<(usize, Vec<u8>)>;

/// The states of all cuts.
#[derive(Default)]
struct Allowed {
    durable: State,
    /// By first byte of the part.
    changes: BTreeMap<usize, Changes>,
    /// By thread and line: the number of the event.
    begun: BTreeMap<(u32, usize), usize>,
    /// What waits on the medium that takes batches, with the numbers of batches.
    queue: Vec<(Option<u64>, Parts)>,
    states: BTreeSet<State>,
}

impl Allowed {
    fn of(events: &[Event]) -> BTreeSet<State> {
        let mut allowed = Self { durable: vec![0; DISK + NVM + BATCHES], ..Self::default() };
        allowed.cut();
        for (n, event) in events.iter().enumerate() {
            allowed.event(n, event);
            allowed.cut();
        }
        allowed.states
    }

    fn event(&mut self, n: usize, event: &Event) {
        match event {
            Event::Write { medium: 2, offset, bytes } => {
                self.queue.push((None, vec![(*offset as usize, bytes.to_vec())]));
            }
            Event::Discard { medium: 2, offset, len } => {
                self.queue.push((None, vec![(*offset as usize, vec![0; *len as usize])]));
            }
            Event::Batch { number, writes, discards, .. } => {
                let written = writes.iter().map(|(offset, bytes)| (*offset as usize, bytes.to_vec()));
                let discarded = discards.iter().map(|(offset, len)| (*offset as usize, vec![0; *len as usize]));
                self.queue.push((Some(*number), written.chain(discarded).collect()));
            }
            Event::Settled { number, .. } => {
                let last = self.queue.iter().rposition(|(of, _)| of.is_some_and(|of| of <= *number));
                self.settle_first(last.map_or(0, |last| last + 1));
            }
            Event::Flush { medium: 2 } => self.settle_first(self.queue.len()),
            Event::Write { offset, bytes, .. } => self.change(n, *offset as usize, bytes, UNIT),
            Event::Discard { offset, len, .. } => self.change(n, *offset as usize, &vec![0; *len as usize], UNIT),
            Event::Store { offset, bytes, .. } => self.change(n, DISK + *offset as usize, bytes, WORD),
            Event::WriteFailed { offset, bytes, .. } => {
                self.change(n, *offset as usize, bytes, UNIT);
                self.fail(|at| at == n);
            }
            Event::FlushFailed { .. } => self.fail(|_| true),
            Event::Flush { .. } => self.settle(|part, _| part < DISK),
            Event::WriteBack { thread, offset, len, .. } => {
                for line in *offset as usize / LINE..(*offset + *len).div_ceil(LINE as u64) as usize {
                    self.begun.insert((*thread, line), n);
                }
            }
            Event::Fence { thread } => {
                for line in 0..NVM / LINE {
                    let begun = self.begun.remove(&(*thread, line)).unwrap_or(0);
                    self.settle(|part, at| part >= DISK && (part - DISK) / LINE == line && at < begun);
                }
            }
            Event::Mark(_) => {}
        }
    }

    fn change(&mut self, n: usize, at: usize, bytes: &[u8], unit: usize) {
        for (i, byte) in bytes.iter().enumerate() {
            let part = (at + i) / unit * unit;
            let changes = self.changes.entry(part).or_default();
            match changes.last_mut() {
                Some((_, last, event, _)) if *event == n => last.push(*byte),
                _ => changes.push((at + i, vec![*byte], n, false)),
            }
        }
    }

    /// What these events did to the disk has failed.
    fn fail(&mut self, which: impl Fn(usize) -> bool) {
        let changes = self.changes.iter_mut().filter(|(part, _)| **part < DISK).flat_map(|(_, changes)| changes);
        changes.filter(|change| which(change.2)).for_each(|change| change.3 = true);
    }

    /// The first of what waits on the medium that takes batches is durable.
    fn settle_first(&mut self, count: usize) {
        for (at, bytes) in self.queue.drain(..count).flat_map(|(_, changes)| changes) {
            self.durable[DISK + NVM + at..][..bytes.len()].copy_from_slice(&bytes);
        }
    }

    fn settle(&mut self, which: impl Fn(usize, usize) -> bool) {
        for (part, changes) in &mut self.changes {
            let mut left = Changes::new();
            for change in std::mem::take(changes) {
                let (at, bytes, n, failed) = &change;
                if *failed || !which(*part, *n) {
                    left.push(change);
                    continue;
                }
                self.durable[*at..*at + bytes.len()].copy_from_slice(bytes);
                // Of what failed before it, what it covers is gone.
                let covered = *at..*at + bytes.len();
                let is_left = |(at, bytes, n, failed): (usize, Vec<u8>, usize, bool)| -> Changes {
                    if !failed {
                        return vec![(at, bytes, n, failed)];
                    }
                    let mut pieces = Changes::new();
                    for (byte, place) in bytes.into_iter().zip(at..).filter(|(_, place)| !covered.contains(place)) {
                        match pieces.last_mut() {
                            Some((from, piece, ..)) if *from + piece.len() == place => piece.push(byte),
                            _ => pieces.push((place, vec![byte], n, true)),
                        }
                    }
                    pieces
                };
                left = left.into_iter().flat_map(is_left).collect();
            }
            *changes = left;
        }
    }

    fn cut(&mut self) {
        let mut states = BTreeSet::from([self.durable.clone()]);
        for (part, changes) in &self.changes {
            let there = |i: usize, way: usize| if *part < DISK { way >> i & 1 == 1 } else { i < way };
            let ways = if *part < DISK { 1 << changes.len() } else { changes.len() + 1 };
            let with = |state: &State, way: usize| {
                let mut state = state.clone();
                let kept = changes.iter().enumerate().filter(|(i, _)| there(*i, way)).map(|(_, change)| change);
                kept.for_each(|(at, bytes, ..)| state[*at..*at + bytes.len()].copy_from_slice(bytes));
                state
            };
            states = states.iter().flat_map(|state| (0..ways).map(move |way| with(state, way))).collect();
        }
        for there in 0..=self.queue.len() {
            let changes = || self.queue[..there].iter().flat_map(|(_, changes)| changes);
            self.states.extend(states.iter().cloned().map(|mut state| {
                changes().for_each(|(at, bytes)| state[DISK + NVM + at..][..bytes.len()].copy_from_slice(bytes));
                state
            }));
        }
    }
}

fn event() -> impl Strategy<Value = Event> {
    let bytes = |most: usize| proptest::collection::vec(1..=255u8, 1..=most).prop_map(Arc::<[u8]>::from);
    let write =
        (0..DISK - 600, bytes(600)).prop_map(|(at, bytes)| Event::Write { medium: 0, offset: at as u64, bytes });
    let failed =
        (0..DISK - 600, bytes(600)).prop_map(|(at, bytes)| Event::WriteFailed { medium: 0, offset: at as u64, bytes });
    let discard = (0..DISK / UNIT - 1, 1..3usize).prop_map(|(unit, units)| Event::Discard {
        medium: 0,
        offset: (unit * UNIT) as u64,
        len: (units * UNIT) as u64,
    });
    let store = (0..NVM - 10, bytes(10), 1..3u32).prop_map(|(at, bytes, thread)| Event::Store {
        medium: 1,
        thread,
        offset: at as u64,
        bytes,
    });
    let back = (0..NVM as u64 - 64, 1..64u64, 1..3u32).prop_map(|(offset, len, thread)| Event::WriteBack {
        medium: 1,
        thread,
        offset,
        len,
    });
    let part = || (0..BATCHES - 3, 1..3usize);
    let parts = || proptest::collection::vec(part(), 0..3);
    // A batch's number is its place among the events.
    let batch = (parts(), part(), 1..=255u8).prop_map(|(writes, (at, len), byte)| Event::Batch {
        medium: 2,
        number: 0,
        writes: writes.into_iter().map(|(at, len)| (at as u64, Arc::<[u8]>::from(vec![byte; len]))).collect(),
        discards: Arc::from([(at as u64, len as u64)]),
    });
    let beside = prop_oneof![
        3 => batch,
        1 => part().prop_map(|(at, len)| Event::Discard { medium: 2, offset: at as u64, len: len as u64 }),
        1 => (0..BATCHES - 3, bytes(3))
            .prop_map(|(at, bytes)| Event::Write { medium: 2, offset: at as u64, bytes }),
        2 => (0..6u64).prop_map(|number| Event::Settled { medium: 2, number }),
        1 => Just(Event::Flush { medium: 2 }),
    ];
    prop_oneof![
        5 => beside,
        3 => write,
        1 => discard,
        4 => store,
        2 => back,
        2 => (1..3u32).prop_map(|thread| Event::Fence { thread }),
        2 => Just(Event::Flush { medium: 0 }),
        1 => Just(Event::FlushFailed { medium: 0 }),
        1 => failed,
        1 => (0..9u64).prop_map(Event::Mark),
    ]
}

/// With the numbers of batches growing.
fn events(most: usize) -> impl Strategy<Value = Vec<Event>> {
    proptest::collection::vec(event(), 1..most).prop_map(|mut events| {
        for (at, event) in (1..).zip(&mut events) {
            if let Event::Batch { number, .. } = event {
                *number = at;
            }
        }
        events
    })
}

fn explored(events: &[Event], limits: &Limits) -> BTreeSet<State> {
    let medium = |len, kind| Medium { base: Layer::new(vec![0; len]), kind, whole: None };
    let media = vec![medium(DISK, Kind::Block), medium(NVM, Kind::Nvm), medium(BATCHES, Kind::Batches)];
    let looker = Looker { media, events: events.to_vec(), seen: Mutex::default() };
    let report = explore(&looker, limits, &Watch::default());
    let seen = looker.seen.into_inner();
    assert_eq!((report.distinct, report.violations.len()), (seen.len() as u64, 0));
    seen
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn exactly_the_states_of_the_contract(events in events(8)) {
        let sampling = Sampling { all_of: usize::MAX, ..Sampling::default() };
        let limits = Limits { sampling, ..Limits::default() };
        prop_assert!(explored(&events, &limits) == Allowed::of(&events));
    }

    #[test]
    fn with_few_samples_no_others(events in events(6), seed in 0..9u64) {
        let sampling = Sampling { all_of: 8, seed, ..Sampling::default() };
        let limits = Limits { sampling, ..Limits::default() };
        prop_assert!(explored(&events, &limits).is_subset(&Allowed::of(&events)));
    }
}
