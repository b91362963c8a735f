//! Volumes with `fsync=file`: what a crash must have kept, and that it has.

use ondol::pool::Domain;
use ondol::{DataMode, JournalEngine};
use ondol_faults::Defect;
use ondol_laboratory::explore::{Limits, Watch};
use ondol_laboratory::run::Run;
use ondol_laboratory::workload::{Mount, Others, Schedules, Workload, from_text};
use ondol_laboratory::{Image, Prey, Subject};
use ondol_power::{Cut, Event, Sampling};
use ondol_testkit::op::text;

const MODES: [DataMode; 3] = [DataMode::Ordered, DataMode::Journal, DataMode::Writeback];

fn workload(before: &str, calls: &str) -> Workload {
    let workload = from_text("fsync of a file", calls, Image::Small).unwrap();
    Workload { mount: Mount::File, before: text::parse(before).unwrap(), ..workload }
}

fn prey(engine: JournalEngine, data: DataMode, plant: Option<Defect>) -> Prey {
    let sampling = Sampling { samples: 12, torn: 12, ..Sampling::default() };
    let limits = Limits { sampling, second_opinion_every: 0, recrash_every: 0, about: Some(120), ..Limits::default() };
    Prey { engine, data, plant, seed: 1, limits, fault: None, domain: Domain::Adr, store: None }
}

/// Two other files are changed all the time.
const BEFORE: &str =
    "create /x 0644\nwrite /x 0 9000 #1\ncreate /a 0644\nwrite /a 0 70000 #2\nmkdir /d 0755\nmkdir /e 0755";

/// Each is done to `/a`, or to what is `/a` then.
const CHANGES: &[&str] = &[
    "write /a 0 3000 #3 ; chmod /x 0600 ; fsync /a",
    "write /a 0 3000 #3 ; chmod /x 0600 ; fdatasync /a",
    "write /a 0 66000 #3 ; write /x 0 66000 #4 ; fsync /a",
    "append /a 3000 #3 ; write /x 0 5000 #4 ; fsync /a",
    "rename /a /d/a ; chmod /x 0600 ; fsync /d/a",
    "rename /a /d/a ; chmod /x 0600 ; fsync /d",
    "rename /x /a ; chmod /d 0700 ; fsync /a",
    "rename-exchange /a /x ; chmod /d 0700 ; fsync /x",
    "link /a /d/b ; chmod /x 0600 ; fsync /d/b",
    "link /a /d/b ; unlink /a ; chmod /x 0600 ; fsync /d/b",
    "truncate /a 500 ; chmod /x 0600 ; fsync /a",
    "setxattr /a user.y 400 #5 ; chmod /x 0600 ; fsync /a",
    "create /d/n 0644 ; write /x 0 400 #4 ; fsync /d/n",
    "mkdir /d/n 0755 ; create /d/n/m 0644 ; chmod /x 0600 ; fsync /d/n/m",
    "unlink /a ; write /x 0 400 #4 ; fsync /",
    "rename /d /e/d ; chmod /x 0600 ; fsync /e/d",
    "transaction { create /n 0644 ; write /n 0 1500 #6 ; rename /n /a } ; chmod /x 0600 ; fsync /a",
];

#[test]
fn what_was_done_to_a_file_is_there_after_its_fsync() {
    for (n, calls) in CHANGES.iter().enumerate() {
        let workload = workload(BEFORE, calls);
        let disks = workload.image.make().unwrap();
        for (i, engine) in JournalEngine::ALL.into_iter().enumerate() {
            let data = MODES[(n + i) % MODES.len()];
            let report = prey(engine, data, None).explore(&disks, &workload, &Watch::default()).unwrap();
            let found = report.violations.first().map(ToString::to_string);
            assert_eq!(found, None, "{} {data:?}: {calls}", engine.name());
        }
    }
}

#[test]
fn a_crash_must_keep_what_was_done_to_the_file_and_may_lose_the_rest() {
    let least = |calls: &str, mount| {
        let workload = Workload { mount, ..workload(BEFORE, calls) };
        let disks = workload.image.make().unwrap();
        let run = prey(JournalEngine::Classic, DataMode::Ordered, None).record(&disks, &workload).unwrap();
        run.allowed.last().map(|(least, _)| *least)
    };
    for (calls, by_file, prefix) in [
        ("write /a 0 9 #3 ; chmod /x 0600 ; fsync /a", 1, 3),
        ("chmod /x 0600 ; write /a 0 9 #3 ; fsync /a", 3, 3),
        ("chmod /x 0600 ; fsync /a", 0, 2),
        ("rename /a /d/a ; chmod /x 0600 ; fsync /d", 1, 3),
        ("chmod /a 0600 ; rename /d /e/d ; fsync /a", 1, 3),
        ("write /a 0 9 #3 ; sync ; chmod /x 0600 ; fsync /a", 2, 4),
    ] {
        assert_eq!((least(calls, Mount::File), least(calls, Mount::Tight)), (Some(by_file), Some(prefix)), "{calls}");
    }
}

/// The product makes use of what the contract lets it lose.
#[test]
fn what_was_done_to_others_may_be_gone() {
    for engine in JournalEngine::ALL {
        let workload = workload(BEFORE, "write /a 0 9 #3 ; fsync /a ; chmod /x 0600 ; fsync /a ; checkpoint");
        let disks = workload.image.make().unwrap();
        let run = prey(engine, DataMode::Journal, None).record(&disks, &workload).unwrap();
        // When the second fsync has returned.
        let events = 1 + run.events.iter().position(|event| *event == Event::Mark(7)).unwrap();
        let crashed = Cut::after(&run.media, &run.events[..events]).everything();
        let recovered = run.recover(&crashed).unwrap();
        assert!(run.judge(&recovered, events).is_ok(), "{}", engine.name());
        let whole = Run { allowed: vec![(4, 4); run.allowed.len()], ..run };
        let lost = whole.judge(&recovered, events).unwrap_err();
        assert!(lost.contains("/x"), "{}: {lost}", engine.name());
    }
}

#[test]
fn a_name_that_is_not_noted_is_found_between_threads_too() {
    let threads = |plant| {
        let calls = |lines: &str| text::parse(lines).unwrap();
        let workload = Workload {
            others: Some(Others {
                calls: vec![calls("chmod /x 0600 ; write /x 0 100 #4")],
                schedules: Schedules::Search { seed: 1, count: 12 },
                background: None,
                lead: 0,
            }),
            ..workload(BEFORE, "rename /a /d/a ; fsync /d/a ; fsync /x")
        };
        let disks = workload.image.make().unwrap();
        let report =
            prey(JournalEngine::Classic, DataMode::Journal, plant).explore(&disks, &workload, &Watch::default());
        report.unwrap().violations.first().map(|violation| violation.what.clone())
    };
    assert_eq!(threads(None), None);
    let found = threads(Some(Defect::UnnotedName)).expect("a violation");
    assert!(found.contains("no beginning of an order"), "{found}");
}
