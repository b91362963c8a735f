//! Calls on a sound image: the answers are the model's, and after a power cut anywhere recovery leaves a sound image.

use crate::guard::Guard;
use crate::image::{Kind, Seed};
use crate::input::Input;
use crate::ops;
use crate::walk::Walk;
use ondol::{DataMode, JournalEngine, Volume};
use ondol_block::BlockStore;
use ondol_env::sync::Arc;
use ondol_testkit::image;
use ondol_testkit::target::{Library, Lockstep};

/// Most calls of an input.
const CALLS: usize = 40;

pub(super) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let kind = Kind::one_of(&Kind::SMALL, input.u8());
    let data = input.pick(&[DataMode::Ordered, DataMode::Journal, DataMode::Writeback]);
    let word = input.u8();
    // Power fails at one of the writes, or not at all.
    let power = if word & 1 == 0 { u64::MAX } else { u64::from(input.u16() % 600) };
    let guard = Arc::new(Guard::new(Seed::of(kind).layer.clone(), true));
    let store: Arc<dyn BlockStore> = guard.clone();
    let engine = if word & 2 == 0 { JournalEngine::Classic } else { JournalEngine::Compressed };
    let options = image::options(data).with_journal(engine);
    let library = Library::open(store.clone(), &options, 1).expect("a seed is sound");
    let mut lockstep = Lockstep::new(library).expect("a seed can be read");
    guard.fail_after(power);
    for _ in 0..CALLS {
        if input.is_empty() || guard.is_dark() {
            break;
        }
        let op = ops::op(&mut input);
        guard.begin("a call");
        let result = lockstep.step(&op);
        if let Err(e) = result {
            // What is read back after power has failed need not be what was written.
            assert!(guard.is_dark(), "{e}");
            break;
        }
    }
    if !guard.is_dark()
        && let Err(e) = lockstep.compare()
    {
        panic!("{e}");
    }
    guard.fail_after(0);
    drop(lockstep);
    recover(&guard);
}

/// What is left is recovered, and sound in every way.
fn recover(left: &Guard) {
    let guard = Arc::new(Guard::new(left.layer(), true));
    let store: Arc<dyn BlockStore> = guard.clone();
    guard.begin("recovery");
    let volume = Volume::open_stepped(store.clone(), &image::options(DataMode::Ordered), image::clock(2));
    let volume = volume.unwrap_or_else(|e| panic!("after a power cut: {e}"));
    Walk { volume: volume.inodes(), guard: &guard }.tree();
    assert!(volume.inodes().stopped().is_none(), "{:?}", volume.inodes().stopped());
    guard.begin("closing");
    volume.close().unwrap_or_else(|e| panic!("closing after a power cut: {e}"));
    guard.begin("the check");
    let report = ondol::check_media(&store).unwrap_or_else(|e| panic!("checking after a power cut: {e}"));
    assert!(report.is_clean(), "after a power cut: {:#?}", report.problems);
}
