//! What stores do: to contents, to counters, to events, and to a crash.
#![allow(clippy::disallowed_methods, reason = "a test")]

use ondol_medium::{Domain, Nvm, NvmError, NvmStats};
use ondol_power::{Cut, Event, Kind, Layer, Medium, PowerDomain, Sampling};
use proptest::prelude::*;

fn memory() -> Nvm {
    Nvm::volatile(16384).unwrap()
}

fn in_domain(domain: Domain) -> Nvm {
    memory().with_domain(domain).unwrap()
}

#[test]
fn one_fence_serves_a_batch_and_a_line_is_written_back_once() {
    let nvm = memory();
    let mut batch = nvm.stored();
    for i in 0..8 {
        batch.store(64 + i * 8, &[i as u8; 8]).unwrap();
    }
    batch.store(1000, &[1; 100]).unwrap();
    batch.store(60, &[9; 8]).unwrap();
    batch.write_back().fence().unwrap();
    // Lines 0 and 1; the 100 bytes touch lines 15, 16 and 17.
    let expected = NvmStats { stored_bytes: 172, lines: 5, fences: 1, ..NvmStats::default() };
    assert_eq!(nvm.stats(), expected);
}

#[test]
fn whole_lines_of_a_copy_need_no_write_back() {
    let nvm = memory();
    let mut batch = nvm.stored();
    batch.copy(4000, &[5; 200]).unwrap();
    batch.write_back().fence().unwrap();
    // 32 bytes to the end of line 62, lines 63 and 64, 40 bytes of line 65.
    let expected = NvmStats { stored_bytes: 72, copied_bytes: 128, lines: 2, fences: 1, ..NvmStats::default() };
    assert_eq!(nvm.stats(), expected);
    assert_eq!(nvm.to_bytes().unwrap()[3999..4201], [&[0][..], &[5; 200], &[0]].concat());
}

#[test]
fn where_caches_survive_nothing_is_written_back_and_nothing_goes_past_them() {
    for domain in [Domain::Eadr, Domain::Gpf] {
        let nvm = in_domain(domain);
        let mut batch = nvm.stored();
        batch.copy(0, &[5; 4096]).unwrap();
        batch.write_back().fence().unwrap().publish(8192, 1).unwrap();
        let expected = NvmStats { stored_bytes: 4104, fences: 2, ..NvmStats::default() };
        assert_eq!(nvm.stats(), expected);
    }
}

#[test]
fn words_change_in_one_step() {
    let nvm = memory();
    let mut batch = nvm.stored();
    batch.store_u64(8, 5).unwrap();
    assert_eq!(batch.cas_u64(8, 4, 9).unwrap(), Err(5));
    assert_eq!(batch.cas_u64(8, 5, 9).unwrap(), Ok(()));
    assert_eq!(batch.fetch_add(8, u64::MAX).unwrap(), 9);
    assert_eq!(nvm.load_u64(8).unwrap(), 8);
    let mut bytes = [0; 8];
    nvm.read(8, &mut bytes).unwrap();
    assert_eq!(u64::from_le_bytes(bytes), 8, "little-endian");
    assert!(matches!(batch.store_u64(12, 0), Err(NvmError::Misaligned { offset: 12, .. })));
    let fenced = batch.write_back().fence().unwrap();
    assert_eq!(fenced.tell_if(8, 7, 1).unwrap(), Err(8));
    assert_eq!(fenced.tell_if(8, 8, 1).unwrap(), Ok(()));
    fenced.publish(16, 2).unwrap();
    assert_eq!((nvm.load_u64(8).unwrap(), nvm.load_u64(16).unwrap()), (1, 2));
}

#[test]
fn threads_lose_no_addition() {
    let nvm = memory();
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                let mut batch = nvm.stored();
                (0..1000).for_each(|_| {
                    batch.fetch_add(0, 1).unwrap();
                });
                batch.write_back().fence().unwrap();
            });
        }
    });
    assert_eq!(nvm.load_u64(0).unwrap(), 4000);
    assert_eq!((nvm.stats().fences, nvm.stats().lines), (4, 4));
}

#[test]
fn what_lies_outside_is_refused() {
    let nvm = memory();
    let mut batch = nvm.stored();
    for (offset, len) in [(16384, 1), (16000, 400), (u64::MAX, 1), (u64::MAX - 7, 8), (16320, 65)] {
        let bytes = vec![1; len];
        assert!(matches!(batch.store(offset, &bytes), Err(NvmError::OutOfRange { op: "store", .. })));
        assert!(matches!(batch.copy(offset, &bytes), Err(NvmError::OutOfRange { .. })));
        assert!(matches!(batch.zero(offset, len as u64), Err(NvmError::OutOfRange { .. })));
        assert!(matches!(nvm.read(offset, &mut vec![0; len]), Err(NvmError::OutOfRange { op: "read", .. })));
    }
    assert!(matches!(nvm.load_u64(16384), Err(NvmError::OutOfRange { .. })));
    assert!(batch.fetch_add(u64::MAX - 7, 1).is_err());
    assert!(nvm.to_bytes().unwrap().iter().all(|b| *b == 0), "a refused store stores nothing");
    assert_eq!(nvm.stats().stored_bytes, 0);
    batch.store(16384, &[]).unwrap();
}

#[test]
fn write_backs_of_two_media_are_not_one() {
    let (a, b) = (memory(), memory());
    let error = a.stored().write_back().and(b.stored().write_back()).unwrap_err();
    assert!(matches!(error, NvmError::OtherMedium { .. }));
    let (mut one, mut two) = (a.stored(), a.stored());
    one.store(0, &[1]).unwrap();
    two.store(1, &[1]).unwrap();
    one.write_back().and(two.write_back()).unwrap().fence().unwrap();
    assert_eq!(a.stats().fences, 1);
}

#[test]
fn a_poisoned_line_is_an_error_until_it_is_stored_anew() {
    let nvm = memory();
    nvm.poison().add_line(130);
    assert_eq!(nvm.poison().all(), [128]);
    let mut batch = nvm.stored();
    let lost = |e: NvmError| matches!(e, NvmError::Poisoned { offset: 128, .. });
    assert!(lost(nvm.read(100, &mut [0; 29]).unwrap_err()));
    assert!(lost(nvm.load_u64(184).unwrap_err()));
    assert!(lost(nvm.to_bytes().unwrap_err()));
    assert!(lost(batch.store(130, &[1]).unwrap_err()));
    assert!(lost(batch.store(64, &[1; 65]).unwrap_err()));
    assert!(lost(batch.store_u64(128, 1).unwrap_err()));
    assert!(lost(batch.cas_u64(128, 0, 1).unwrap_err()));
    nvm.read(0, &mut [0; 128]).unwrap();
    batch.copy(100, &[7; 100]).unwrap();
    assert_eq!(nvm.poison().all(), [0u64; 0]);
    assert_eq!(nvm.to_bytes().unwrap()[100..200], [7; 100]);
}

fn recorded(domain: Domain) -> Vec<Event> {
    let power = PowerDomain::new();
    let nvm = in_domain(domain).record(power.clone(), 3);
    let mut batch = nvm.stored();
    batch.store(10, &[1, 2]).unwrap();
    batch.copy(64, &[3; 64]).unwrap();
    batch.cas_u64(8, 7, 0).unwrap().unwrap_err();
    batch.write_back().fence().unwrap();
    let thread = ondol_env::thread_number();
    let mut events = power.take();
    for event in &mut events {
        // So that the expectation need not know it.
        if let Event::Store { thread: t, .. } | Event::WriteBack { thread: t, .. } | Event::Fence { thread: t } = event
        {
            assert_eq!(*t, thread);
            *t = 0;
        }
    }
    events
}

#[test]
fn events_say_what_was_done() {
    let store = |offset, bytes: &[u8]| Event::Store { medium: 3, thread: 0, offset, bytes: bytes.into() };
    let write_back = |offset, len| Event::WriteBack { medium: 3, thread: 0, offset, len };
    let fence = || Event::Fence { thread: 0 };
    let all = [store(10, &[1, 2]), store(64, &[3; 64]), write_back(64, 64), write_back(0, 64), fence()];
    assert_eq!(recorded(Domain::Adr), all);
    assert_eq!(recorded(Domain::Volatile), all);
    assert_eq!(recorded(Domain::Eadr), [store(10, &[1, 2]), store(64, &[3; 64]), fence()]);
}

/// Every state of every cut, torn ones by sample; the first 256 bytes of each.
fn states(events: &[Event], kind: Kind) -> Vec<Vec<u8>> {
    let media = [Medium { base: Layer::new(vec![0; 16384]), kind, whole: None }];
    let all = Sampling { all_of: 4096, ..Sampling::default() };
    let mut found = Vec::new();
    all.states(&media, events, |_| false, &mut |cut, keep| {
        found.push(cut.build(&keep)[0].to_bytes()[..256].to_vec());
        true
    });
    found
}

/// The commit word at byte 0 is there only with the three lines that it commits.
fn committed_without_data(states: &[Vec<u8>]) -> bool {
    states.iter().any(|s| s[0] == 1 && s[64..256] != [7; 192])
}

#[test]
fn a_published_word_is_never_there_without_its_data() {
    let run = |domain: Domain, copy: bool| {
        let power = PowerDomain::new();
        let nvm = in_domain(domain).record(power.clone(), 0);
        let mut batch = nvm.stored();
        if copy { batch.copy(64, &[7; 192]) } else { batch.store(64, &[7; 192]) }.unwrap();
        batch.write_back().fence().unwrap().publish(0, 1).unwrap();
        power.take()
    };
    for (domain, kind) in [(Domain::Adr, Kind::Nvm), (Domain::Eadr, Kind::PersistentCaches)] {
        for copy in [false, true] {
            let found = states(&run(domain, copy), kind);
            assert!(!committed_without_data(&found));
            assert_eq!(found.last().unwrap()[0], 1, "in the end it is there");
        }
    }
    // What was made for surviving caches is not enough where they do not.
    assert!(committed_without_data(&states(&run(Domain::Eadr, false), Kind::Nvm)));
}

#[test]
fn a_word_stored_with_its_data_is_found_without_it() {
    let power = PowerDomain::new();
    let nvm = in_domain(Domain::Adr).record(power.clone(), 0);
    let mut batch = nvm.stored();
    batch.copy(64, &[7; 192]).unwrap();
    batch.store_u64(0, 1).unwrap();
    batch.write_back().fence().unwrap();
    assert!(committed_without_data(&states(&power.take(), Kind::Nvm)));
}

#[test]
fn events_lead_to_the_contents_whatever_threads_did() {
    let power = PowerDomain::new();
    let nvm = memory().record(power.clone(), 0);
    std::thread::scope(|s| {
        for t in 0..3u8 {
            let nvm = &nvm;
            s.spawn(move || {
                for i in 0..200u64 {
                    let mut batch = nvm.stored();
                    batch.store(i * 7 % 500, &[t; 13]).unwrap();
                    batch.copy(i * 64 % 1024, &[i as u8; 128]).unwrap();
                    batch.fetch_add(4096, 1).unwrap();
                    batch.write_back().fence().unwrap();
                }
            });
        }
    });
    let media = [Medium { base: Layer::new(vec![0; 16384]), kind: Kind::Nvm, whole: None }];
    assert_eq!(Cut::after(&media, &power.take()).everything()[0].to_bytes(), nvm.to_bytes().unwrap());
}

proptest! {
    #[test]
    fn stores_and_copies_at_any_offset(
        steps in proptest::collection::vec((0u64..16384, 1usize..700, any::<u8>(), any::<bool>()), 1..20)
    ) {
        let nvm = memory();
        let mut model = vec![0; 16384];
        for (offset, len, byte, copy) in steps {
            let len = len.min(16384 - offset as usize);
            let bytes: Vec<u8> = (0..len).map(|i| byte.wrapping_add(i as u8)).collect();
            let mut batch = nvm.stored();
            if copy { batch.copy(offset, &bytes) } else { batch.store(offset, &bytes) }.unwrap();
            batch.write_back().fence().unwrap();
            model[offset as usize..offset as usize + len].copy_from_slice(&bytes);
        }
        prop_assert_eq!(nvm.to_bytes().unwrap(), model);
    }
}
