//! Every planted defect is found, and where none is planted nothing is.
//!
//! `ONDOL_PLANT=name` picks one, and `ONDOL_SHOW=1` prints how it was found.

use ondol::pool::Domain;
use ondol::{DataMode, JournalEngine};
use ondol_block::{BlockStore, LayerStore};
use ondol_faults::Defect;
use ondol_laboratory::Image;
use ondol_laboratory::Prey;
use ondol_laboratory::explore::{Limits, Watch, explore};
use ondol_laboratory::plants::{BATCH, CLASSIC, COMPRESSED, Planted, REMAP, SCALABLE, SWAP, Shown};
use ondol_laboratory::run::Run;
use ondol_laboratory::workload::{Mount, Others, Schedules, Workload};
use ondol_power::{Cut, Event, Layer, Medium, Sampling};
use ondol_testkit::op::text;
use ondol_tests::parameter;

/// Distinct states in which a defect must have been found.
const WITHIN: u64 = 5_000;

/// As many of a volume in a pool.
const IN_POOL: u64 = 400;

/// What is wrong with a run of these calls, crash or not, if anything.
fn look(planted: &Planted, defect: Option<Defect>) -> Result<(), String> {
    let _planted = ondol_faults::set(defect).map_err(|e| e.to_string())?;
    let sampling = Sampling { samples: 12, torn: 12, ..Sampling::default() };
    let limits = Limits { sampling, second_opinion_every: 0, recrash_every: 0, ..Limits::default() };
    // In a pool there are many states, and each is much memory: some of them, spread over the run.
    let about = matches!(planted.engine, JournalEngine::Swap | JournalEngine::Remap).then_some(IN_POOL);
    let limits = Limits { about, ..limits };
    let limits = match planted.shown {
        Shown::Fsck => Limits { second_opinion_every: 1, ..limits },
        Shown::RecoveryCrash => Limits { recrash_every: 1, depth: 1, ..limits },
        _ => limits,
    };
    let prey = Prey {
        engine: planted.engine,
        data: planted.data,
        plant: defect,
        seed: 1,
        limits,
        fault: None,
        domain: Domain::Adr,
        store: None,
    };
    let workload = planted.workload().unwrap();
    let run = prey.record(&workload.image.make()?, &workload)?;
    match planted.shown {
        Shown::BitFlip => flip(&run, &limits),
        _ => none(&run, &limits),
    }
}

fn none(run: &Run, limits: &Limits) -> Result<(), String> {
    let report = explore(run, limits, &Watch::default());
    assert!(report.distinct <= WITHIN, "{} states are too many", report.distinct);
    report.violations.first().map_or(Ok(()), |violation| Err(violation.to_string()))
}

/// Changes a bit of each image that `run` has written to the log. Recovery may say so and give up, but not take it for
/// what it was.
fn flip(run: &Run, limits: &Limits) -> Result<(), String> {
    let crashed = Cut::after(&run.media, &run.events).everything().remove(0);
    for at in images(run) {
        let mut byte = [0];
        LayerStore::new(crashed.clone()).read(at as u64, &mut byte).unwrap();
        let mut changed = crashed.clone();
        changed.write(at, &[byte[0] ^ 1]);
        match none(&after(run, changed), limits) {
            Err(what) if what.contains("cannot be recovered: journal image") => {}
            outcome => outcome?,
        }
    }
    Ok(())
}

/// A run without calls, which can only be found at the end of `run`.
fn after(run: &Run, base: Layer) -> Run {
    Run {
        media: vec![Medium { base, ..run.media[0].clone() }],
        ops: Vec::new(),
        events: Vec::new(),
        states: run.states[run.ops.len()..].to_vec(),
        expected: run.expected[run.ops.len()..].to_vec(),
        within: Vec::new(),
        synced: Vec::new(),
        allowed: vec![(0, 0)],
        ..run.clone()
    }
}

/// A byte of each image in the log of a run that has committed only: the blocks between descriptor and commit block.
fn images(run: &Run) -> impl Iterator<Item = usize> {
    let writes = run.events.iter().filter_map(|event| match event {
        Event::Write { offset, bytes, .. } => Some((*offset as usize, &bytes[..])),
        _ => None,
    });
    let is_log = |bytes: &[u8]| bytes.len() > 1024 && bytes.starts_with(&[0xC0, 0x3B, 0x39, 0x98, 0, 0, 0, 1]);
    writes.filter(move |(_, bytes)| is_log(bytes)).flat_map(|(at, bytes)| {
        let blocks = bytes.len() / 1024;
        (1..blocks - 1).map(move |block| at + block * 1024 + 100)
    })
}

/// A truncate that meets the commit of what it cuts off: two calls, seen in few interleavings of a hundred. Those that
/// are fitted to the program's length show it.
#[test]
fn early_forget_is_found_in_some_interleaving() {
    let calls = |lines: &str| text::parse(lines).unwrap();
    let found = |plant: Option<Defect>, schedules: Schedules| {
        let limits = Limits { second_opinion_every: 0, recrash_every: 0, ..Limits::default() };
        let prey = Prey {
            engine: JournalEngine::Classic,
            data: DataMode::Journal,
            plant,
            seed: 1,
            limits,
            fault: None,
            domain: Domain::Adr,
            store: None,
        };
        let workload = Workload {
            name: "truncate and fsync".into(),
            image: Image::Small,
            mount: Mount::Tight,
            before: calls("create /a 0644"),
            remount: false,
            calls: calls("truncate /a 700"),
            others: Some(Others {
                calls: vec![calls("write /a 2000 900 #1 ; fsync /a")],
                schedules,
                background: None,
                lead: 0,
            }),
        };
        let report = prey.explore(&Image::Small.make().unwrap(), &workload, &Watch::default()).unwrap();
        report.violations.first().map(ToString::to_string)
    };
    let count = parameter("ONDOL_SCHEDULES", 150) as u32;
    let searches = |seed| Schedules::Search { seed, count };
    let seen = (0..12).filter(|i| found(Some(Defect::EarlyForget), searches(1000 * i)).is_some()).count();
    assert!(seen >= 9, "seen in {seen} searches of 12, {count} schedules each");
    assert_eq!(found(None, searches(0)), None);
}

#[test]
fn each_and_nothing_else() {
    let only = std::env::var("ONDOL_PLANT").ok();
    let mut missed = Vec::new();
    let all = CLASSIC.iter().chain(COMPRESSED).chain(SWAP).chain(REMAP).chain(SCALABLE).chain(BATCH);
    for planted in all.filter(|p| only.as_deref().is_none_or(|o| o == p.defect.name())) {
        if let Err(what) = look(planted, None) {
            panic!("without {} in {}: {what}", planted.defect, planted.engine.name());
        }
        match look(planted, Some(planted.defect)) {
            Ok(()) => missed.push(format!("{} in {}", planted.defect, planted.engine.name())),
            Err(what) if parameter("ONDOL_SHOW", 0) > 0 => println!("{}: {what}", planted.defect),
            Err(_) => {}
        }
    }
    assert!(missed.is_empty(), "not found: {}", missed.join(", "));
}
