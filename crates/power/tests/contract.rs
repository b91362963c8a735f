//! The sentences of the crate documentation, one by one.

use ondol_power::{Case, Cut, Event, Kind, Layer, Medium};
use std::collections::BTreeSet;

fn medium(kind: Kind) -> Medium {
    Medium { base: Layer::new(vec![0; 8192]), kind, whole: None }
}

fn write(offset: u64, bytes: &[u8]) -> Event {
    Event::Write { medium: 0, offset, bytes: bytes.into() }
}

fn store(medium: u32, offset: u64, bytes: &[u8]) -> Event {
    Event::Store { medium, thread: 1, offset, bytes: bytes.into() }
}

fn write_back(thread: u32, offset: u64, len: u64) -> Event {
    Event::WriteBack { medium: 0, thread, offset, len }
}

fn bytes(case: &str, media: &[Medium], events: &[Event]) -> Vec<u8> {
    case.parse::<Case>().unwrap().build(media, events).unwrap()[0].to_bytes()
}

/// All states of the end of a run, torn ones left out, as the first bytes of the first medium.
fn outcomes(media: &[Medium], events: &[Event], len: usize) -> BTreeSet<Vec<u8>> {
    let cut = Cut::after(media, events);
    let state = |n: usize| cut.build(&cut.combination(n))[0].to_bytes()[..len].to_vec();
    (0..cut.combinations().unwrap()).map(state).collect()
}

#[test]
fn a_case_survives_being_text() {
    for text in ["0:", "57:++-[0110]-", "3:(2)(0,1,2,3,4,5,6,7)+"] {
        assert_eq!(text.parse::<Case>().unwrap().to_string(), text);
    }
    for text in ["57", "1:[01", "x:+", "1:(1,2)", "1:ä"] {
        assert!(text.parse::<Case>().is_err(), "{text}");
    }
}

#[test]
fn torn_writes_lose_units_of_512_aligned_bytes() {
    let media = [medium(Kind::Block)];
    let events = [write(0, &[9; 8]), Event::Flush { medium: 0 }, write(4000, &[1; 1000])];
    let found = bytes("3:[011]", &media, &events);
    assert_eq!((found[0], found[4000], found[4095], found[4096], found[4999]), (9, 0, 0, 1, 1));
    assert!("3:".parse::<Case>().unwrap().build(&media, &events).is_err());
    assert!("9:".parse::<Case>().unwrap().build(&media, &events).is_err());
}

#[test]
fn what_a_failed_flush_had_on_its_way_is_there_or_not_until_it_is_written_again() {
    let media = [medium(Kind::Block)];
    let flush = Event::Flush { medium: 0 };
    let failed = Event::FlushFailed { medium: 0 };
    let events = [write(0, &[1; 1024]), failed, flush.clone(), write(512, &[2; 512]), flush.clone()];
    // After the next flush it may still be lost.
    let first = |events: &[Event]| -> BTreeSet<(u8, u8)> {
        let found = outcomes(&media, events, 1024);
        found.iter().map(|bytes| (bytes[0], bytes[512])).collect()
    };
    assert_eq!(first(&events[..3]), BTreeSet::from([(0, 0), (1, 1)]));
    // What was written over it, and flushed, is there in any case.
    assert_eq!(first(&events), BTreeSet::from([(0, 2), (1, 2)]));
    // And not a part of what failed before.
    let torn = [Event::WriteFailed { medium: 0, offset: 0, bytes: [3; 1024].into() }, flush.clone()];
    assert_eq!(bytes("2:[10]", &media, &torn)[..1024], [[3; 512], [0; 512]].concat()[..]);
    // What is older than it, and flushed after it, does not cover it.
    let older = [write(0, &[4; 512]), Event::WriteFailed { medium: 0, offset: 0, bytes: [5; 512].into() }, flush];
    assert_eq!(first(&older).iter().map(|(byte, _)| *byte).collect::<BTreeSet<u8>>(), BTreeSet::from([4, 5]));
}

#[test]
fn a_range_that_is_whole_is_not_torn() {
    let media = [Medium { whole: Some(1024..2048), ..medium(Kind::Block) }];
    let found = bytes("1:[00010]", &media, &[write(0, &[1; 2560])]);
    assert!(found.iter().all(|b| *b == 0));
    let found = bytes("1:[00100]", &media, &[write(0, &[1; 2560])]);
    assert_eq!((found[1023], found[1024], found[2047], found[2048]), (0, 1, 1, 0));
}

#[test]
fn a_line_is_there_after_any_of_its_stores() {
    let media = [medium(Kind::Nvm)];
    let events = [store(0, 0, &[1]), store(0, 1, &[2]), store(0, 64, &[3])];
    let found = outcomes(&media, &events, 65);
    let heads: BTreeSet<(u8, u8, u8)> = found.iter().map(|b| (b[0], b[1], b[64])).collect();
    let lines = [(0, 0), (1, 0), (1, 2)];
    assert_eq!(heads, lines.iter().flat_map(|&(a, b)| [(a, b, 0), (a, b, 3)]).collect());
}

#[test]
fn a_fence_makes_durable_what_its_own_thread_wrote_back_and_nothing_else() {
    let media = [medium(Kind::Nvm)];
    let run = |fence| {
        let events = [store(0, 0, &[1]), write_back(7, 0, 1), store(0, 1, &[2]), Event::Fence { thread: fence }];
        let found = outcomes(&media, &events, 2);
        found.into_iter().map(|b| (b[0], b[1])).collect::<Vec<_>>()
    };
    assert_eq!(run(7), [(1, 0), (1, 2)], "the later store is not covered");
    assert_eq!(run(8), [(0, 0), (1, 0), (1, 2)], "another thread's fence");
}

#[test]
fn two_threads_that_write_back_one_line_each_need_their_fence() {
    let media = [medium(Kind::Nvm)];
    let events = [
        store(0, 0, &[1]),
        write_back(1, 0, 1),
        store(0, 0, &[2]),
        write_back(2, 0, 1),
        Event::Fence { thread: 2 },
        store(0, 0, &[3]),
        Event::Fence { thread: 1 },
    ];
    let found: Vec<u8> = outcomes(&media, &events, 1).into_iter().map(|b| b[0]).collect();
    assert_eq!(found, [2, 3]);
}

#[test]
fn words_of_a_line_are_torn_apart_and_not_further() {
    let media = [medium(Kind::Nvm)];
    let events = [store(0, 0, &[1; 64]), store(0, 4, &[2; 8])];
    let found = bytes("2:(2,0,1,1,0,0,0,1)", &media, &events);
    assert_eq!(found[..12], [1, 1, 1, 1, 2, 2, 2, 2, 0, 0, 0, 0], "the second store, but only its first word");
    assert_eq!((found[16], found[32], found[63]), (1, 0, 1));
}

#[test]
fn surviving_caches_keep_the_order_of_stores() {
    let media = [medium(Kind::PersistentCaches)];
    let events = [store(0, 0, &[1]), store(0, 200, &[2]), store(0, 1, &[3])];
    let bytes = |events: &[Event]| -> Vec<(u8, u8, u8)> {
        outcomes(&media, events, 201).into_iter().map(|b| (b[0], b[200], b[1])).collect()
    };
    assert_eq!(bytes(&events), [(1, 2, 0), (1, 2, 3)]);
    let fenced = [&events[..], &[Event::Fence { thread: 1 }]].concat();
    assert_eq!(bytes(&fenced), [(1, 2, 3)]);
    let by_another = [&events[..], &[Event::Fence { thread: 2 }]].concat();
    assert_eq!(bytes(&by_another), [(1, 2, 0), (1, 2, 3)]);
}

#[test]
fn copies_past_surviving_caches_wait_for_a_fence() {
    let media = [medium(Kind::PersistentCaches)];
    let events = [store(0, 0, &[1]), write_back(1, 0, 1), store(0, 200, &[2]), store(0, 300, &[3])];
    let found: Vec<(u8, u8, u8)> = outcomes(&media, &events, 301).into_iter().map(|b| (b[0], b[200], b[300])).collect();
    assert_eq!(found, [(0, 2, 0), (0, 2, 3), (1, 2, 0), (1, 2, 3)]);
}

#[test]
fn media_of_one_domain_are_cut_at_one_instant() {
    let media = [medium(Kind::Block), medium(Kind::Nvm)];
    let events = [write(0, &[1]), store(1, 0, &[2]), Event::Flush { medium: 0 }];
    let mut cut = Cut::new(&media);
    assert_eq!(cut.advance(&events[0]), 0..1);
    assert_eq!(cut.advance(&events[1]), 1..2);
    assert_eq!(cut.advance(&events[2]), 1..1);
    let layers = cut.build(&[]);
    assert_eq!((layers[0].to_bytes()[0], layers[1].to_bytes()[0]), (1, 0), "a flush of one medium settles no other");
    let layers = cut.build(&[cut.items()[0].choice(1)]);
    assert_eq!((layers[0].to_bytes()[0], layers[1].to_bytes()[0]), (1, 2));
}
