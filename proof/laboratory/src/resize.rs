//! A volume that is given another size as the subject of an exploration: grown or shrunk while nobody has it open, cut everywhere.
//!
//! After a crash it is whole, holds what it held, and has the size after the last step that had returned, or after the step that was under way.

use crate::after::record_after;
use crate::log::{self, Log};
use crate::run::Run;
use crate::subject::{Description, Subject};
use ondol::DataMode;
use ondol_block::{LayerStore, RamStore};
use ondol_coverage::{Heard, listen};
use ondol_env::sync::Arc;
use ondol_faults::Defect;
use ondol_power::{Event, Layer, Medium, PowerDomain};
use ondol_stores::Recorder;
use ondol_testkit::image;
use ondol_testkit::resizing::{Resizing, on};

/// A recorded resize.
#[derive(Clone, Debug)]
pub struct ResizeRun {
    of: Resizing,
    planted: Option<Defect>,
    seed: u64,
    media: Vec<Medium>,
    events: Vec<Event>,
    heard: Heard,
}

impl ResizeRun {
    /// Records a resize.
    ///
    /// # Errors
    /// It fails without any crash.
    pub fn record(of: Resizing, seed: u64) -> Result<Self, String> {
        let planted = ondol_faults::current();
        let (domain, base) = (PowerDomain::new(), Layer::new(of.bytes.clone()));
        let store = Arc::new(Recorder::new(LayerStore::new(base.clone()), 0, domain.clone()));
        let listening = listen(true);
        of.run(store, &mut |blocks| domain.mark(blocks)).map_err(|e| format!("it fails without any crash: {e}"))?;
        let (events, heard) = (domain.take(), listening.finish());
        Ok(Self { of, planted, seed, media: log::media(vec![base]), events, heard })
    }

    /// How many steps that change the size have returned after so many events.
    fn returned(&self, events: usize) -> usize {
        self.events.iter().take(events).filter(|e| matches!(e, Event::Mark(_))).count()
    }
}

fn ram(layers: &[Layer]) -> Arc<RamStore> {
    on(&layers[0].to_bytes())
}

impl Subject for ResizeRun {
    /// The size.
    type Matched = u64;

    fn media(&self) -> &[Medium] {
        &self.media
    }

    fn events(&self) -> &[Event] {
        &self.events
    }

    fn heard(&self) -> &Heard {
        &self.heard
    }

    fn recover(&self, layers: &[Layer]) -> Result<Vec<Layer>, String> {
        let store = Arc::new(LayerStore::new(layers[0].clone()));
        self.of.recover(store.clone()).map_err(|e| format!("cannot be recovered: {e}"))?;
        Ok(vec![store.layer()])
    }

    fn come_back(&self, layers: &[Layer], domain: &Arc<PowerDomain>) -> Result<(), String> {
        let store = Recorder::new(LayerStore::new(layers[0].clone()), 0, domain.clone());
        self.of.recover(Arc::new(store)).map_err(|e| format!("cannot be opened and closed: {e}"))
    }

    fn essence(&self, recovered: &mut [Layer]) -> u128 {
        match Log::of(recovered) {
            // Wherever it lies by now.
            Ok(log) => recovered[0].fingerprint_without(&log.pages),
            Err(_) => recovered[0].fingerprint(),
        }
    }

    fn judge(&self, recovered: &[Layer], events: usize) -> Result<u64, String> {
        let found = self.of.judge(&ram(recovered))?;
        if self.still_allowed(&found, events) {
            return Ok(found);
        }
        let done = self.returned(events);
        Err(format!("after {done} steps that returned it has {found} blocks, of the sizes {:?}", self.of.sizes))
    }

    fn still_allowed(&self, found: &u64, events: usize) -> bool {
        let done = self.returned(events);
        self.of.sizes.iter().skip(done).take(2).any(|size| size == found)
    }

    fn is_narrowed(&self, events: usize) -> bool {
        matches!(self.events[events - 1], Event::Mark(_))
    }

    fn second_opinion(&self, layers: &[Layer], _events: usize) -> Result<(), String> {
        if image::missing(&["e2fsck"]).is_some() {
            return Ok(());
        }
        let recovered = self.recover(layers)?;
        // What e2fsck alone makes of a crash is no rule where that crash came in a recovery: see the design.
        self.of.goes_on(&ram(&recovered)).map_err(|e| format!("resized again after the crash: {e}"))
    }

    fn use_after(&self, layers: &[Layer], seed: u64) -> Option<Result<Run, String>> {
        Some(record_after(layers, &image::options(DataMode::Ordered), seed))
    }

    fn describe(&self) -> Description {
        describe(&self.of, self.seed, self.planted)
    }
}

/// How the program is told to do this, and what a reader wants to know of it.
pub(crate) fn describe(of: &Resizing, seed: u64, planted: Option<Defect>) -> Description {
    let Resizing { name, sizes, .. } = of;
    let steps: Vec<String> = sizes.iter().map(u64::to_string).collect();
    let mut arguments = format!("--workload resize:{name} --seed {seed}");
    if let Some(defect) = planted {
        arguments += &format!(" --plant {defect}");
    }
    let text = format!("resize {name}: a volume of {} blocks\n", steps.join(", then "));
    Description { arguments, text, ..Description::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_from_before_a_step_that_returned_is_a_violation() {
        if let Some(tool) = image::missing(&["mke2fs"]) {
            eprintln!("resize: skipped: {tool}");
            return;
        }
        let run = ResizeRun::record(Resizing::make("grown").expect("a volume"), 1).expect("a run");
        let before = [Layer::new(run.of.bytes.clone())];
        assert_eq!(run.judge(&before, 0), Ok(run.of.sizes[0]));
        let all = run.events.len();
        assert!(
            run.returned(all) > 0 && run.judge(&before, all).is_err_and(|why| why.contains("that returned it has"))
        );
    }
}
