//! Every planted defect is found, and where none is planted nothing is.
//!
//! `ONDOL_PLANT=name` picks one, and `ONDOL_SHOW=1` prints how it was found.

use ondol_block::{BlockStore, Recorder};
use ondol_env::plant::{self, Defect};
use ondol_env::sync::Arc;
use ondol_power::{Event, PowerDomain};
use ondol_testkit::crash::{self, Case, CowStore, Keep, Layer, Limits, Run, Setup};
use ondol_testkit::image::{self, MountOptions};
use ondol_testkit::op::text;
use ondol_testkit::plants::{CLASSIC, Planted, Shown};
use ondol_tests::parameter;

/// States in which a defect must have been found.
const WITHIN: u64 = 1_000;

/// What is wrong with a run of these calls, crash or not, if anything.
fn look(planted: &Planted, image: &Arc<[u8]>, defect: Option<Defect>) -> Result<(), String> {
    let _planted = plant::set(defect).map_err(|e| e.to_string())?;
    let setup = Setup {
        image: image.clone(),
        options: MountOptions::new(planted.data),
        ops: text::parse(planted.before).unwrap(),
        remount: planted.remount,
        seed: 1,
    };
    let run = crash::record(&setup, &text::parse(planted.calls).unwrap()).map_err(|e| e.to_string())?;
    match planted.shown {
        Shown::Crash => explore(&run, 0),
        Shown::Fsck => explore(&run, 1),
        Shown::RecoveryCrash => explore(&recovery_of(&run), 0),
        Shown::BitFlip => flip(&run),
        Shown::Threads(_) => Err("one thread cannot show it".into()),
    }
}

fn explore(run: &Run, fsck_every: u64) -> Result<(), String> {
    let limits = Limits { samples: 6, torn: 6, fsck_every, ..Limits::default() };
    let report = crash::explore(run, &limits).map_err(|e| e.to_string())?;
    assert!(report.states <= WITHIN, "{} states are too many", report.states);
    report.violations.first().map_or(Ok(()), |violation| Err(violation.to_string()))
}

/// The state at the end of a run, where everything written is there.
fn end_of(run: &Run) -> Layer {
    let unflushed = run.events.iter().rev().take_while(|e| !matches!(e, Event::Flush { .. }));
    let writes = unflushed.filter(|e| matches!(e, Event::Write { .. })).count();
    Case { events: run.events.len(), keep: vec![Keep::All; writes] }.build(&run.base, &run.events).unwrap()
}

/// A run without calls, which can only be found at the end of `run`.
fn after(run: &Run, base: Layer, events: Vec<Event>) -> Run {
    let (states, expected) = (run.states[run.ops.len()..].to_vec(), run.expected[run.ops.len()..].to_vec());
    Run { setup: run.setup.clone(), ops: Vec::new(), base, events, states, expected, synced: Vec::new() }
}

/// The recovery from a crash at the end of `run`.
fn recovery_of(run: &Run) -> Run {
    let (domain, crashed) = (PowerDomain::new(), end_of(run));
    let store: Arc<dyn BlockStore> = Arc::new(Recorder::new(CowStore::new(crashed.clone()), 0, domain.clone()));
    image::recover(&store).unwrap();
    after(run, crashed, domain.take())
}

/// Changes a bit of each image that `run` has written to the log. Recovery may say so and give up, but not take it for what
/// it was.
fn flip(run: &Run) -> Result<(), String> {
    let crashed = end_of(run);
    for at in images(run) {
        let mut byte = [0];
        CowStore::new(crashed.clone()).read(at as u64, &mut byte).unwrap();
        let mut changed = crashed.clone();
        changed.write(at, &[byte[0] ^ 1]);
        match explore(&after(run, changed, Vec::new()), 0) {
            Err(what) if what.contains("cannot be recovered: journal image") => {}
            outcome => outcome?,
        }
    }
    Ok(())
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

#[test]
fn each_and_nothing_else() {
    let only = std::env::var("ONDOL_PLANT").ok();
    let mut missed = Vec::new();
    for planted in CLASSIC.iter().filter(|p| only.as_deref().is_none_or(|o| o == p.defect.name())) {
        let image: Arc<[u8]> = (planted.image)().make().unwrap().into();
        if let Err(what) = look(planted, &image, None) {
            panic!("without {}: {what}", planted.defect);
        }
        match look(planted, &image, Some(planted.defect)) {
            Ok(()) => missed.push(planted.defect.name()),
            Err(what) if parameter("ONDOL_SHOW", 0) > 0 => println!("{}: {what}", planted.defect),
            Err(_) => {}
        }
    }
    assert!(missed.is_empty(), "not found: {}", missed.join(", "));
}
