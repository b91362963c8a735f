//! A volume that tools change while nobody has it open, as the subject of an exploration: cut everywhere.
//!
//! After a crash it is what it was after the last step that had returned, or the one that was under way; see
//! [`Tooled`].

mod fast;
pub(crate) mod starts;

use crate::after::record_after;
use crate::log::{self, Log};
use crate::run::Run;
use crate::subject::{Description, Subject, Told};
use ondol::DataMode;
use ondol_coverage::{Heard, listen};
use ondol_env::sync::Arc;
use ondol_faults::Defect;
use ondol_power::{Event, Layer, Medium, PowerDomain};
use ondol_testkit::tooled::{Place, Tooled};
use ondol_testkit::{disks, image};
pub use starts::{Family, make};

/// Recorded tools.
#[derive(Clone, Debug)]
pub struct ToolRun {
    of: Tooled,
    description: Description,
    media: Vec<Medium>,
    events: Vec<Event>,
    heard: Heard,
}

impl ToolRun {
    /// Records tools.
    ///
    /// # Errors
    /// One fails without any crash.
    pub fn record(of: Tooled, description: Description) -> Result<Self, String> {
        let domain = PowerDomain::new();
        let stores = disks::recorded(&of.disks, &domain);
        let listening = listen(true);
        let done = of.run_marked(&Place::on(&stores), &mut |stage| domain.mark(stage));
        done.and_then(|()| of.keeps_files()).map_err(|e| format!("without any crash: {e}"))?;
        let (events, heard) = (domain.take(), listening.finish());
        Ok(Self { media: log::media(of.disks.clone()), of, description, events, heard })
    }

    /// The last step that has returned after so many events.
    fn done(&self, events: usize) -> usize {
        let mark = |event: &Event| if let Event::Mark(stage) = event { Some(*stage as usize) } else { None };
        self.events.iter().take(events).rev().find_map(mark).unwrap_or(0)
    }
}

impl Subject for ToolRun {
    /// The step, of what is not refused.
    type Matched = Option<usize>;

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
        let stores = disks::stores(layers);
        match Place::on(&stores).recover() {
            Err(e) if !self.of.is_ever_refused() => Err(format!("cannot be recovered: {e}")),
            // Whether that is allowed, `judge` says.
            _ => Ok(stores.layers()),
        }
    }

    fn come_back(&self, layers: &[Layer], domain: &Arc<PowerDomain>) -> Result<(), String> {
        let stores = disks::recorded(layers, domain);
        match Place::on(&stores).recover() {
            Err(e) if !self.of.is_ever_refused() => Err(format!("cannot be opened and closed: {e}")),
            _ => Ok(()),
        }
    }

    fn essence(&self, recovered: &mut [Layer]) -> u128 {
        // Wherever it lies by now. What may be refused may still have something in it.
        let log = Log::of(recovered).ok().filter(|log| log.image.is_none() && !self.of.is_ever_refused());
        let one = |(n, layer): (usize, &mut Layer)| match &log {
            Some(log) if log.medium == n => layer.fingerprint_without(&log.pages),
            _ => layer.fingerprint(),
        };
        recovered.iter_mut().enumerate().map(one).fold(0, |all: u128, one| all.rotate_left(1) ^ one)
    }

    fn judge(&self, recovered: &[Layer], events: usize) -> Result<Option<usize>, String> {
        self.of.judge(recovered, &self.of.allowed(self.done(events)))
    }

    fn still_allowed(&self, found: &Option<usize>, events: usize) -> bool {
        let done = self.done(events);
        match found {
            Some(stage) => self.of.is_same_as_one_of(*stage, &self.of.allowed(done)),
            None => self.of.may_be_refused_after(done),
        }
    }

    fn is_narrowed(&self, events: usize) -> bool {
        matches!(self.events[events - 1], Event::Mark(_))
    }

    fn second_opinion(&self, layers: &[Layer], events: usize) -> Result<(), String> {
        if image::missing(&["e2fsck"]).is_some() {
            return Ok(());
        }
        // What e2fsck alone makes of a crash is no rule where that crash came in a recovery: see the design.
        let (how, disks) = match events % 2 {
            0 => ("recovered", self.recover(layers)?),
            _ => ("as the crash left it", layers.to_vec()),
        };
        self.of.ends_well(&disks, self.done(events)).map_err(|e| format!("done again, {how}: {e}"))
    }

    fn use_after(&self, layers: &[Layer], seed: u64) -> Option<Result<Run, String>> {
        let stores = disks::stores(layers);
        let is_sound = self.of.is_sound() && Place::on(&stores).recover().is_ok();
        is_sound.then(|| record_after(layers, &image::options(DataMode::Ordered), seed))
    }
}

impl Told for ToolRun {
    fn describe(&self) -> Description {
        self.description.clone()
    }
}

/// How the program is told to do this, and what a reader wants to know of it.
pub(crate) fn describe(family: Family, name: &str, seed: u64, planted: Option<Defect>) -> Description {
    let mut arguments = format!("--workload {}:{name} --seed {seed}", family.word());
    if let Some(defect) = planted {
        arguments += &format!(" --plant {defect}");
    }
    Description { arguments, text: format!("{} {name}, seed {seed}\n", family.word()), ..Description::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_before_a_step_that_returned_is_a_violation() {
        if let Some(tool) = image::missing(&["mke2fs"]) {
            eprintln!("tools: skipped: {tool}");
            return;
        }
        let of = make(Family::Resize, "grown", 1).expect("a volume");
        let run = ToolRun::record(of, Description::default()).expect("a run");
        let (before, all) = (run.of.disks.clone(), run.events.len());
        assert_eq!(run.judge(&before, 0), Ok(Some(0)));
        assert!(run.done(all) > 1 && run.judge(&before, all).is_err_and(|why| why.contains("blocks, expected")));
    }
}
