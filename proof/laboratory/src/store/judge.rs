//! What the code that ships makes of a state.

use super::explore::{Loss, Sequence, State};
use super::record::listen;
use super::tape::Tape;
use super::{Terms, bucket};
use crate::judge::{VolumeRun, use_it};
use crate::run::{Found, Run};
use ondol::{Access, Media, Remedy, Volume};
use ondol_block::RamStore;
use ondol_object_home::LogMedium;
use ondol_power::{Kind, Layer, Medium, PowerDomain};
use ondol_stores::unruly::{StoreCut, Unruly};
use ondol_testkit::dump;
use ondol_testkit::image::{self, clock};
use ondol_volume::Error;
use std::sync::Arc;

/// The log of a state.
fn log(state: &State, domain: Option<&Arc<PowerDomain>>) -> Option<Arc<dyn LogMedium>> {
    let tape = |layer: &Layer| -> Arc<dyn LogMedium> { Tape::of(layer, domain.cloned()) };
    state.log.as_ref().map(tape)
}

/// The volume in `store`, read by who leaves everything as it is.
fn read(store: &Unruly, terms: &Terms) -> Result<Media, String> {
    Media::at(&bucket(store), Access::Read, &terms.opening(None, None)).map_err(|e| format!("cannot be read: {e}"))
}

/// e2fsck says nothing against an export.
fn ask_e2fsck(media: Media, when: &str) -> Result<(), String> {
    if image::missing(&["e2fsck"]).is_some() {
        return Ok(());
    }
    let exported = RamStore::new(media.size() as usize);
    media.export(&exported).map_err(|e| format!("{when}: cannot be exported: {e}"))?;
    let verdict = image::check(image::Disks::of(&[exported.to_bytes()])).map_err(|e| e.to_string())?;
    match verdict.is_clean() {
        true => Ok(()),
        false => Err(format!("{when}: e2fsck -fn of an export ended with {}:\n{}", verdict.code, verdict.output)),
    }
}

/// The state itself, which nobody has taken over yet.
pub(super) fn as_left(state: &State, terms: &Terms) -> Result<(), String> {
    ask_e2fsck(read(&state.objects.store(), terms)?, "as the crash left it")
}

/// Takes the volume over, which must be one of those that are allowed after `events` events, and closes it. `closely`:
/// it is used, too, and e2fsck judges what is left then.
pub(super) fn judge(run: &Run, terms: &Terms, state: &State, events: usize, closely: bool) -> Result<Found, String> {
    let store = state.objects.store();
    let volume = open(run, terms, state, &store, None)?;
    let found = dump::of_volume(volume.inodes()).map_err(|e| format!("cannot be read after recovery: {e}"))?;
    let found = run.compare(&found, &volume.recovered(), events)?;
    if closely {
        match use_it(volume.inodes()) {
            Ok(()) | Err(Error::NoSpace(_)) => {}
            Err(e) => return Err(format!("cannot be used after recovery: {e}")),
        }
    }
    volume.close().map_err(|e| format!("cannot be closed after recovery: {e}"))?;
    let media = read(&store, terms)?;
    let report = ondol::check_media(&media).map_err(|e| format!("recovered and closed: {e}"))?;
    if !report.is_clean() {
        return Err(format!("recovered and closed: our check finds\n  {}", report.problems.join("\n  ")));
    }
    if closely {
        ask_e2fsck(media, "recovered, used and closed")?;
    }
    Ok(found)
}

/// A UUID as people write it.
fn uuid(text: &str) -> Option<[u8; 16]> {
    let number = u128::from_str_radix(&text.replace('-', ""), 16).ok()?;
    Some(number.to_be_bytes())
}

fn open(
    run: &Run,
    terms: &Terms,
    state: &State,
    store: &Unruly,
    domain: Option<&Arc<PowerDomain>>,
) -> Result<Volume, String> {
    let at = |given_up| Media::at(&bucket(store), Access::Write, &terms.opening(log(state, domain), given_up));
    let media = match at(None) {
        // As a user whose machine is lost: the log is given up by the name that is told.
        Err(e) if state.loss == Loss::Machine => match e.remedy() {
            Some(Remedy::LocalLog { log }) => at(uuid(&log)),
            _ => Err(e),
        },
        opened => opened,
    };
    let media = media.map_err(|e| format!("cannot be opened: {e}"))?;
    let volume = Volume::open_stepped(media, &run.setup.options, clock(run.setup.seed ^ 0xFFFF));
    volume.map_err(|e| format!("cannot be mounted after recovery: {e}"))
}

/// Records how the volume is taken over, until calls are taken again.
pub(super) fn come_back(run: &Run, terms: &Terms, state: &State) -> Result<Sequence, String> {
    let (store, domain) = (state.objects.store(), PowerDomain::new());
    let listening = ondol_coverage::listen(true);
    listen(&store, &domain);
    let volume = open(run, terms, state, &store, Some(&domain))?;
    // What was done about orphans becomes durable.
    volume.sync().map_err(|e| format!("cannot be synced after recovery: {e}"))?;
    let (events, requests, heard) = (domain.take(), store.events(), listening.finish());
    let log = state.log.iter().map(|layer| Medium { base: layer.clone(), kind: Kind::Block, whole: None });
    let cut = StoreCut::new(state.objects.clone());
    let mut sequence = Sequence::new(log.collect(), events, requests, cut, heard);
    sequence.is_lost = state.loss == Loss::Machine;
    Ok(sequence)
}
