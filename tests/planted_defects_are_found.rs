//! Every planted defect that one thread is enough for is found, and where none is planted nothing is.
//!
//! `ONDOL_PLANT=name` picks one, and `ONDOL_SHOW=1` prints how it was found.

use ondol_env::plant::{self, Defect};
use ondol_env::sync::Arc;
use ondol_laboratory::Subject;
use ondol_laboratory::explore::{Limits, Watch, explore};
use ondol_laboratory::run::{Run, Setup, record};
use ondol_power::{Case, Cut, Event, Keep};
use ondol_testkit::image;
use ondol_testkit::op::text;
use ondol_testkit::plants::{CLASSIC, Planted, Shown};
use ondol_tests::parameter;

/// States in which a defect must have been found.
const WITHIN: u64 = 2_000;

/// What is wrong with these calls, crash or not, if anything.
fn look(planted: &Planted, image: &Arc<[u8]>, defect: Option<Defect>) -> Result<(), String> {
    let _planted = plant::set(defect).map_err(|e| e.to_string())?;
    let setup = Setup {
        image: image.clone(),
        options: image::options(planted.data),
        ops: text::parse(planted.before).unwrap(),
        remount: planted.remount,
        seed: 1,
    };
    let run = record(&setup, &text::parse(planted.calls).unwrap()).map_err(|e| e.to_string())?;
    let limits = Limits { samples: 6, torn: 6, extremes: 8, depth: 0, second_opinion_every: 0, ..Limits::default() };
    match planted.shown {
        Shown::Crash => crash(&run, &limits),
        Shown::Fsck => crash(&run, &Limits { second_opinion_every: 1, ..limits }),
        Shown::RecoveryCrash => crash(&run, &Limits { depth: 1, recrash_every: 1, ..limits }),
        Shown::BitFlip => flip(&run),
    }
}

fn crash(run: &Run, limits: &Limits) -> Result<(), String> {
    let report = explore(run, limits, &Watch::default());
    assert!(report.states <= WITHIN, "{} states are too many", report.states);
    report.violations.first().map_or(Ok(()), |violation| Err(violation.to_string()))
}

/// Changes a bit of each image that `run` has written to the log. Recovery may say so and give up, but not take it for what
/// it was.
fn flip(run: &Run) -> Result<(), String> {
    let mut cut = Cut::new(run.media());
    run.events.iter().for_each(|event| drop(cut.advance(event)));
    let keep = vec![Keep::All; cut.items().len()];
    let crashed = Case { events: run.events.len(), keep }.build(run.media(), &run.events)?;
    for at in images(run) {
        let mut layer = crashed[0].clone();
        let mut byte = [0];
        layer.read(at, &mut byte);
        layer.write(at, &[byte[0] ^ 1]);
        match run.recover(&[layer]) {
            Err(what) if what.contains("journal image") => {}
            recovered => drop(run.judge(&recovered?, run.events.len())?),
        }
    }
    Ok(())
}

/// A byte of each image in the log of a run that has only committed: the blocks between descriptor and commit block.
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
