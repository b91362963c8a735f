//! A violation is seen again by its command, told in words, made small, and not found any more once its cause is gone.

use ondol::pool::Domain;
use ondol::{DataMode, JournalEngine};
use ondol_faults::Defect;
use ondol_laboratory::explore::{After, CasePath, Limits, Then, Violation, Watch};
use ondol_laboratory::faults::Faults;
use ondol_laboratory::workload::{Mount, Others, Schedules, Workload};
use ondol_laboratory::{Image, Prey, Replayed};
use ondol_power::Keep;
use ondol_testkit::op::text;

const EARLY: Option<Defect> = Some(Defect::MissingFlushAfterCommit);

fn prey(plant: Option<Defect>, fault: Option<Faults>) -> Prey {
    let limits = Limits { recrash_every: 0, second_opinion_every: 0, use_every: 0, ..Limits::default() };
    Prey {
        engine: JournalEngine::Classic,
        data: DataMode::Ordered,
        plant,
        seed: 1,
        limits,
        fault,
        domain: Domain::Adr,
        store: None,
    }
}

fn workload(before: &str, calls: &str, others: &[&str]) -> Workload {
    let ops = |lines: &str| text::parse(lines).unwrap();
    let calls_of_others = others.iter().map(|lines| ops(lines)).collect();
    let schedules = Schedules::Search { seed: 1, count: 20 };
    let others = Others { calls: calls_of_others, schedules, background: None, lead: 0 };
    Workload {
        name: "a test".into(),
        image: Image::Small,
        mount: Mount::Tight,
        before: ops(before),
        remount: false,
        calls: ops(calls),
        others: (!others.calls.is_empty()).then_some(others),
    }
}

/// The violation that `workload` shows, made small.
fn found(prey: &Prey, workload: &Workload) -> Violation {
    let mut report = prey.explore(&workload.image.make().unwrap(), workload, &Watch::default()).unwrap();
    let violation = report.violations.pop().expect("a planted defect is found");
    prey.smallest(workload, violation, &Watch::default()).unwrap()
}

#[test]
fn a_replay_sees_it_again_or_says_that_it_is_gone() {
    let workload = workload("create /a 0644", "write /a 0 3000 #1\nfsync /a", &[]);
    let violation = found(&prey(EARLY, None), &workload);
    let path: CasePath = violation.path.to_string().parse().unwrap();
    assert_eq!(path, violation.path);
    let replay = |plant, path: &CasePath| prey(plant, None).replay(&workload, path).unwrap();
    let seen = prey(EARLY, None).explore(&Image::Small.make().unwrap(), &workload, &Watch::default()).unwrap();
    assert!(matches!(replay(EARLY, &seen.violations[0].path), Replayed::Seen(_)));
    assert!(matches!(replay(EARLY, &"999:+".parse().unwrap()), Replayed::Elsewhere(_)));
    assert!(matches!(replay(None, &path), Replayed::Gone));
    assert!(matches!(replay(None, &"999:+".parse().unwrap()), Replayed::Gone));
    assert!(matches!(replay(None, &"3:/@7".parse().unwrap()), Replayed::Gone));
}

#[test]
fn a_violation_tells_what_was_written_and_what_was_lost() {
    let workload = workload("create /a 0644", "write /a 0 3000 #1\nfsync /a", &[]);
    let told = found(&prey(EARLY, None), &workload).to_string();
    for words in [
        "LOST: medium 0",
        "commit of transaction",
        "descriptor of transaction",
        "image of inodes 9..=12",
        "block 0 of inode 12, /a",
        "events of the recovery:",
        "(superblock)",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
}

#[test]
fn on_a_medium_that_fails_it_is_told_how() {
    let workload = workload("create /a 0644", "write /a 0 3000 #1\nfsync /a\ncreate /b 0644\nfsync /b", &[]);
    let many = Some(Faults::Search { seed: 3, count: 30 });
    // What the judge of the log cannot see: it reads no earlier lap.
    let violation = found(&prey(Some(Defect::StaleRing), many), &workload);
    let fault = violation.run.fault.expect("it says how the medium fails");
    assert!(violation.run.arguments.contains(&format!("--fault {fault}")), "{}", violation.run.arguments);
    // Where nothing is planted, a failing medium does no harm.
    let report = prey(None, many).explore(&Image::Small.make().unwrap(), &workload, &Watch::default()).unwrap();
    assert!(report.violations.is_empty() && report.distinct > 100, "{:?}", report.violations);
}

#[test]
fn calls_of_threads_that_are_not_needed_go_in_whatever_interleaving() {
    let others = ["mkdir /d 0755\ncreate /d/x 0644\nchmod /d/x 0600", "symlink /s target\nsetxattr /a user.x 9 #2"];
    let workload = workload("create /a 0644\ncreate /b 0644", "write /a 0 3000 #1\nchmod /b 0600\nfsync /a", &others);
    let violation = found(&prey(EARLY, None), &workload);
    assert!(violation.run.schedule.is_some());
    // The judge of the log needs one change and no sync.
    let counted = ["--calls", "--before", ";"].map(|word| violation.run.arguments.matches(word).count());
    assert_eq!(counted, [1, 0, 0], "{}", violation.run.arguments);
}

/// What recovery leaves is used: a defect of what comes after it is found there and nowhere else.
#[test]
fn what_is_done_after_a_recovery_is_crashed_too() {
    let workload = workload("", "create /a 0644", &[]);
    let with = |plant, use_every| {
        let mut prey = prey(plant, None);
        prey.limits.use_every = use_every;
        prey.explore(&Image::Small.make().unwrap(), &workload, &Watch::default()).unwrap()
    };
    // No call of the run itself is synced: the lost flush can only be seen in what is done afterwards.
    assert!(with(EARLY, 0).violations.is_empty());
    let report = with(EARLY, 1);
    let violation = report.violations.first().expect("it is found");
    assert!(violation.path.1.is_some() && violation.to_string().contains("recovered, and then these calls"));
    // What was lost then is made small: the commit block is enough.
    let mut prey = prey(EARLY, None);
    prey.limits.use_every = 1;
    let small = prey.smallest(&workload, violation.clone(), &Watch::default()).unwrap();
    let Some(Then::Used(After { case: Some(case), .. })) = small.path.1 else { panic!("a crash of what is done then") };
    let lost = case.keep.iter().filter(|keep| **keep != Keep::All).count();
    assert_eq!(lost, 1, "{case}");
    let sound = with(None, 1);
    assert!(sound.violations.is_empty() && sound.used > 0 && sound.used_states > sound.used, "{:?}", sound.violations);
}

/// A bit of the log changes where a later sync shows that it is not the log's end: it is refused, or not needed any
/// more.
#[test]
fn damage_in_the_midst_of_the_log_is_noticed() {
    let calls = "create /a 0644; write /a 0 3000 #1; fsync /a; create /b 0644; fsync /b; write /a 0 3000 #2; chmod /a \
                 0600; sync";
    let workload = workload("", calls, &[]);
    for (engine, defect, said) in [
        (JournalEngine::Classic, Defect::UncheckedChecksum, "log slot"),
        (JournalEngine::Compressed, Defect::SilentDamage, "log slot"),
        (JournalEngine::Scalable, Defect::LogSilentDamage, "of the log in the NVM pool"),
    ] {
        let with = |plant, flip_every| {
            let mut prey = Prey { engine, ..prey(plant, None) };
            prey.limits.flip_every = flip_every;
            // States with a pool cost more.
            prey.limits.about = (engine == JournalEngine::Scalable).then_some(150);
            (prey.explore(&Image::Small.make().unwrap(), &workload, &Watch::default()).unwrap(), prey)
        };
        let (unflipped, _) = with(Some(defect), 0);
        assert!(unflipped.violations.is_empty(), "no crash shows it: {:?}", unflipped.violations);
        let (report, prey) = with(Some(defect), 1);
        let violation = report.violations.first().unwrap_or_else(|| panic!("{defect:?}: {} flips", report.flipped));
        let small = prey.smallest(&workload, violation.clone(), &Watch::default()).unwrap();
        assert!(matches!(small.path.1, Some(Then::Flipped(_))), "{small}");
        assert!(small.to_string().contains(said), "it says what has changed: {small}");
        let path: CasePath = small.path.to_string().parse().unwrap();
        assert_eq!(path, small.path);
        let (sound, _) = with(None, 1);
        assert!(sound.violations.is_empty() && sound.flipped > 20, "{:?}", sound.violations);
    }
}

/// A synchronous write over stored bytes fails as its medium does: its times may be there, and the old bytes, whatever
/// comes next.
#[test]
fn a_synchronous_write_that_failed_may_have_left_the_old_bytes() {
    let calls = "write /a 0 3000 #1; write /a 0 2000 #4; chmod /d 0700; rename /b /d/b";
    let workload = workload("create /a 0644; chattr /a S; mkdir /d 0755; create /b 0644", calls, &[]);
    for engine in [JournalEngine::Classic, JournalEngine::Compressed] {
        for fault in (0..16).map(|n| format!("write:{n}:1").parse().unwrap()) {
            let prey = Prey { engine, ..prey(None, Some(Faults::One(fault))) };
            let report = prey.explore(&Image::Small.make().unwrap(), &workload, &Watch::default()).unwrap();
            assert!(report.violations.is_empty(), "{}", report.violations[0]);
        }
    }
}

/// A step of a transaction puts its bytes over stored ones outside of it: a write of them that failed may have left any
/// of them, also where a later step of the transaction has removed the file.
#[test]
fn a_transaction_that_failed_may_have_left_what_it_led_through() {
    let calls = "transaction { truncate /a 1500; write /b 100 300 #5; write /b 150 300 #6; chmod /b 0755; unlink /a }";
    let workload = workload("create /a 0644; write /a 0 3000 #1; create /b 0644; write /b 0 2000 #2", calls, &[]);
    for engine in [JournalEngine::Classic, JournalEngine::Compressed] {
        for fault in (0..16).flat_map(|n| [1, 2].map(|times| format!("write:{n}:{times}").parse().unwrap())) {
            let prey = Prey { engine, ..prey(None, Some(Faults::One(fault))) };
            let report = prey.explore(&Image::Small.make().unwrap(), &workload, &Watch::default()).unwrap();
            assert!(report.violations.is_empty(), "{fault}: {}", report.violations[0]);
        }
    }
}
