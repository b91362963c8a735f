//! What is sampled of a run that has too many states.

use ondol_power::{Event, Kind, Layer, Medium, Sampling};
use std::collections::BTreeSet;

/// Bursts of writes, each made durable by a flush.
fn run(bursts: u64, writes: u64) -> ([Medium; 1], Vec<Event>) {
    let media = [Medium { base: Layer::new(vec![0; 1 << 20]), kind: Kind::Block, whole: None }];
    let write = |n: u64| Event::Write {
        medium: 0,
        offset: n * 2048 % (1 << 20),
        bytes: [(n % 255) as u8 + 1; 2048][..].into(),
    };
    let burst = |n: u64| (n * writes..(n + 1) * writes).map(write).chain([Event::Flush { medium: 0 }]);
    (media, (0..bursts).flat_map(burst).collect())
}

/// The cuts at which states are built, and how many there are in all.
fn built(sampling: Sampling, media: &[Medium], events: &[Event]) -> (BTreeSet<usize>, u64) {
    let (mut cuts, mut count) = (BTreeSet::new(), 0);
    sampling.states(media, events, |n| matches!(events[n - 1], Event::Mark(_)), &mut |cut, _| {
        cuts.insert(cut.events());
        count += 1;
        true
    });
    (cuts, count)
}

/// [`built`], of about `most` states spread over the run.
fn spread(all: Sampling, media: &[Medium], events: &[Event], most: u64) -> (BTreeSet<usize>, u64) {
    built(all.spread(media, events, |n| matches!(events[n - 1], Event::Mark(_)), most), media, events)
}

#[test]
fn few_states_are_spread_over_the_whole_run() {
    let (media, events) = run(30, 12);
    let all = Sampling::default();
    let (_, natural) = built(all, &media, &events);
    assert!(natural > 20_000, "{natural}");
    for most in [60, 250, 1000, 5000] {
        let (cuts, count) = spread(all, &media, &events, most);
        assert!((most / 4..=most * 3 / 2).contains(&count), "{count} states for {most}");
        // Every third of a burst, and with more states nearly every event, has its share.
        let seen = |part: usize| cuts.iter().any(|cut| cut * 30 / events.len() == part);
        assert!(cuts.len() as u64 > most.min(events.len() as u64) / 3, "{most}: {} cuts", cuts.len());
        assert!((0..30).filter(|part| seen(*part)).count() >= 24, "{most}: {cuts:?}");
    }
}

#[test]
fn what_has_fewer_states_is_built_as_it_was_and_another_seed_builds_others() {
    let (media, events) = run(3, 4);
    let all = Sampling::default();
    assert_eq!(spread(all, &media, &events, 1 << 20), built(all, &media, &events));
    let (media, events) = run(30, 12);
    let some = |seed| spread(Sampling { seed, ..all }, &media, &events, 60);
    assert_eq!(some(1), some(1));
    assert_ne!(some(1), some(2));
}

#[test]
fn events_that_allow_fewer_states_are_counted() {
    let (media, events) = run(30, 12);
    // As programs of many calls do: each returns, and promises something.
    let promising: Vec<Event> =
        events.into_iter().enumerate().flat_map(|(i, event)| [event, Event::Mark(i as u64)]).collect();
    for most in [60, 250, 1000, 5000] {
        let (_, count) = spread(Sampling::default(), &media, &promising, most);
        assert!((most / 4..=most * 3 / 2).contains(&count), "{count} states for {most}");
    }
}
