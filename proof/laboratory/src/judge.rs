//! Recorded volumes as subjects of an exploration: recovered, checked and read by the code that ships.

use crate::after::record_after;
use crate::explore::is_turn;
use crate::kernel;
use crate::log::Log;
use crate::names::Names;
use crate::rot::Flip;
use crate::run::Run;
use crate::subject::{Description, Subject, Told};
use ondol::{DataMode, JournalEngine, OpenOptions, Options, RecoverReport, Volume};
use ondol_block::{BlockStore, LayerStore};
use ondol_coverage::{Heard, NOTHING};
use ondol_env::sync::Arc;
use ondol_power::{Cut, Event, Layer, Medium, PowerDomain};
use ondol_testkit::disks::{self, Disks};
use ondol_testkit::dump::{self, Snapshot};
use ondol_testkit::image::{self, clock};
use ondol_testkit::op::Fill;
use ondol_volume::{Caller, Error, FileType, ROOT, Volume as Inodes};
use std::io::ErrorKind;

/// A recorded run of a volume on its disks: what its calls were, and which snapshots they allow, are its own.
pub trait VolumeRun: Sync {
    /// What a recovered volume was found to be.
    type Found: Clone + Send;

    /// The disks when the recording began.
    fn media(&self) -> &[Medium];

    /// Everything since.
    fn events(&self) -> &[Event];

    /// Edges that were executed since, between the events.
    fn heard(&self) -> &Heard {
        &NOTHING
    }

    /// The log, which is scratch once it has been replayed; its superblock is not.
    fn log(&self) -> &Log;

    /// How the volume is opened, and the seed of its random numbers.
    fn opening(&self) -> (&Options, u64);

    /// Whether the volume may be found like this after `events` events, and if opening it had this to do.
    ///
    /// # Errors
    /// It may not; says what differs.
    fn compare(&self, found: &Snapshot, opening: &RecoverReport, events: usize) -> Result<Self::Found, String>;

    /// See [`Subject::still_allowed`].
    fn still_allowed(&self, found: &Self::Found, events: usize) -> bool;

    /// See [`Subject::is_narrowed`].
    fn is_narrowed(&self, events: usize) -> bool;

    /// See [`Subject::flip`].
    fn flip(&self, _events: usize, _seed: u64) -> Option<Flip> {
        None
    }

    /// See [`Told::describe`].
    fn describe(&self) -> Description;
}

impl<R: VolumeRun> Subject for R {
    type Matched = R::Found;

    fn media(&self) -> &[Medium] {
        VolumeRun::media(self)
    }

    fn events(&self) -> &[Event] {
        VolumeRun::events(self)
    }

    fn heard(&self) -> &Heard {
        VolumeRun::heard(self)
    }

    fn recover(&self, layers: &[Layer]) -> Result<Vec<Layer>, String> {
        let stores = disks::stores(layers);
        let recovered = stores.media().and_then(ondol::recover_media);
        recovered.map_err(|e| format!("cannot be recovered: {e}"))?;
        Ok(stores.layers())
    }

    fn come_back(&self, layers: &[Layer], domain: &Arc<PowerDomain>) -> Result<(), String> {
        let stores = disks::recorded(layers, domain);
        // Some are recovered by a tool first.
        if Layer::fingerprint_of(&mut layers.to_vec()).is_multiple_of(2) {
            let recovered = stores.media().and_then(ondol::recover_media);
            return recovered.map(drop).map_err(|e| format!("cannot be recovered: {e}"));
        }
        let volume = open(self, &stores).map_err(|e| format!("cannot be opened: {e}"))?;
        // What was done about orphans becomes durable. Dropped without being closed: the next crash comes before that,
        // or right then.
        volume.sync().map_err(|e| format!("cannot be synced after recovery: {e}"))
    }

    fn essence(&self, recovered: &mut [Layer]) -> u128 {
        let log = self.log();
        if let Some(Ok(mut image)) = log.image.as_ref().map(|base| base.of_state(&recovered[0])) {
            return image.fingerprint_without(&log.pages);
        }
        // What a pool holds that has been recovered does not count.
        let stores = recovered.iter_mut().filter(|layer| !disks::is_pool(layer));
        stores.enumerate().fold(0, |all: u128, (n, layer)| {
            let one = if n == log.medium { layer.fingerprint_without(&log.pages) } else { layer.fingerprint() };
            all.rotate_left(1) ^ one
        })
    }

    fn is_same(&self, one: &[Layer], other: &[Layer]) -> Result<bool, String> {
        let snapshot = |layers: &[Layer]| {
            let volume = open(self, &disks::stores(layers)).map_err(|e| format!("cannot be mounted: {e}"))?;
            dump::of_volume(volume.inodes()).map_err(|e| format!("cannot be read: {e}"))
        };
        // Elsewhere overwritten bytes, and new ones, may be there in part.
        Ok(self.opening().0.data() != Some(DataMode::Journal) || snapshot(one)? == snapshot(other)?)
    }

    fn judge(&self, recovered: &[Layer], events: usize) -> Result<R::Found, String> {
        let stores = disks::stores(recovered);
        check(&stores).map_err(|e| format!("after recovery: {e}"))?;
        let volume = open(self, &stores).map_err(|e| format!("cannot be mounted after recovery: {e}"))?;
        let found = dump::of_volume(volume.inodes()).map_err(|e| format!("cannot be read after recovery: {e}"))?;
        let is = self.compare(&found, &volume.recovered(), events)?;
        if is_turn(GROWN_EVERY, Layer::fingerprint_of(&mut recovered.to_vec())) {
            grows(&volume, &found)?;
        }
        Ok(is)
    }

    fn still_allowed(&self, matched: &R::Found, events: usize) -> bool {
        VolumeRun::still_allowed(self, matched, events)
    }

    fn is_narrowed(&self, events: usize) -> bool {
        VolumeRun::is_narrowed(self, events)
    }

    fn second_opinion(&self, layers: &[Layer], events: usize) -> Result<(), String> {
        if image::missing(&["e2fsck"]).is_some() {
            return Ok(());
        }
        let tool = |e: image::ToolError| e.to_string();
        let recovered = recover_and_close(self, layers)?;
        let verdict = image::check(image::Disks::of(&bytes(&recovered)?)).map_err(tool)?;
        if !verdict.is_clean() {
            return Err(format!("e2fsck -fn after our recovery ended with {}:\n{}", verdict.code, verdict.output));
        }
        if layers.first().is_some_and(disks::takes_batches) {
            // Nobody else ever sees such a home.
            return Ok(());
        }
        let Some(mended) = image::judge_left(image::Disks::of(&bytes(layers)?)).map_err(tool)?? else { return Ok(()) };
        let mended = beside_pool(mended.into_iter().map(Layer::new), layers);
        let theirs = self.judge(&mended, events);
        theirs.map(|_| ()).map_err(|what| format!("replayed by e2fsck, {what}"))
    }

    fn kernel_opinion(&self, layers: &[Layer], events: usize) -> Result<bool, String> {
        if layers.first().is_some_and(disks::takes_batches) {
            return Ok(false);
        }
        let in_front = layers.len() > 1 && disks::is_home_pool(layers);
        let images = if in_front { layers.to_vec() } else { images(layers)? };
        let Some(replayed) = kernel::replay(&images)? else { return Ok(false) };
        let theirs = self.judge(&beside_pool(replayed, layers), events);
        theirs.map(|_| true).map_err(|what| format!("replayed by the kernel, {what}"))
    }

    fn use_after(&self, layers: &[Layer], seed: u64) -> Option<Result<Run, String>> {
        Some(record_after(layers, self.opening().0, seed))
    }

    fn flip(&self, events: usize, seed: u64) -> Option<Flip> {
        VolumeRun::flip(self, events, seed)
    }

    fn judge_flipped(&self, layers: &[Layer], flip: Flip, events: usize) -> Result<(), String> {
        let log = self.log();
        let is_in_map = log.map.as_ref().is_some_and(|map| map.contains(&flip.byte));
        let names = if is_in_map {
            "page table"
        } else if log.nvm.is_some() {
            "the log of"
        } else {
            "journal"
        };
        let wrong = |what| format!("a bit of the log has changed: {what}");
        match self.recover(&flip.of(layers, self.log())) {
            Ok(recovered) => self.judge(&recovered, events).map(drop).map_err(wrong),
            Err(refusal) if refusal.contains(names) => Ok(()),
            Err(refusal) => Err(wrong(format!("the refusal does not name the log: {refusal}"))),
        }
    }
}

impl<R: VolumeRun> Told for R {
    fn names(&self) -> Names {
        // Of what was there at the begin, and of what is there at the end.
        let media = VolumeRun::media(self);
        let base: Vec<Layer> = media.iter().map(|medium| medium.base.clone()).collect();
        // Where blocks lie in a pool, changes from one event to the next.
        if self.log().image.is_some() {
            return Names::default();
        }
        let last = Cut::after(media, VolumeRun::events(self)).everything();
        Names::new(&base, self.log(), &[&last, &base], |disks| open(self, &disks::stores(disks)).ok())
    }

    fn describe(&self) -> Description {
        VolumeRun::describe(self)
    }
}

/// Of so many results of recovery, the files of one grow.
const GROWN_EVERY: u64 = 4;

/// Files become longer, and have zeros there: whatever was stored behind their ends.
fn grows(volume: &Volume, found: &Snapshot) -> Result<(), String> {
    const MORE: usize = 5000;
    for (path, entry) in found.entries().filter(|(_, entry)| entry.kind == FileType::Regular) {
        let (size, mut more) = (entry.content.len(), [0; MORE]);
        let opened = OpenOptions::new().read(true).write(true).open(volume, path.as_str());
        let grown = opened.and_then(|file| file.set_len(size + MORE as u64).map(|()| file));
        // Some may not be changed, are as large as files can be, or find no space.
        let refusals = [ErrorKind::PermissionDenied, ErrorKind::FileTooLarge, ErrorKind::StorageFull];
        let file = match grown {
            Err(e) if refusals.contains(&e.kind()) => continue,
            grown => grown.map_err(|e| format!("{path}: cannot grow after recovery: {e}"))?,
        };
        let read = file.read_at(&mut more, size).map_err(|e| format!("{path}: grown, and cannot be read: {e}"))?;
        if let Some(at) = more.iter().position(|byte| *byte != 0) {
            return Err(format!("{path}: grown after recovery, it has {} at byte {at} of {read} new ones", more[at]));
        }
        file.set_len(size).map_err(|e| format!("{path}: cannot be cut: {e}"))?;
    }
    Ok(())
}

/// Opens a state of a run, as after the power is back: with other random numbers, and without threads.
fn open<R: VolumeRun, S: BlockStore + 'static>(run: &R, disks: &Disks<S>) -> ondol::Result<Volume> {
    let (options, seed) = run.opening();
    // What has been taken out of its pool has the same log.
    let needs_pool = matches!(options.journal(), Some(JournalEngine::Swap | JournalEngine::Remap));
    let is_out = !disks.has_home_pool() && needs_pool;
    let options = if is_out { &options.clone().with_journal(JournalEngine::Classic) } else { options };
    Volume::open_stepped(disks.media()?, options, clock(seed ^ 0xFFFF))
}

/// Recovers, uses the volume a little, because it must still be good for that, and closes it.
fn recover_and_close<R: VolumeRun>(run: &R, layers: &[Layer]) -> Result<Vec<Layer>, String> {
    let stores = disks::stores(layers);
    let volume = open(run, &stores).map_err(|e| format!("cannot be opened: {e}"))?;
    match use_it(volume.inodes()) {
        Ok(()) | Err(Error::NoSpace(_)) => {}
        Err(e) => return Err(format!("cannot be used after recovery: {e}")),
    }
    volume.close().map_err(|e| format!("cannot be closed after recovery: {e}"))?;
    check(&stores).map_err(|e| format!("recovered and closed: {e}"))?;
    Ok(stores.layers())
}

/// What others made of the stores of `layers`, and the pool in front of them, which they do not know.
fn beside_pool(made: impl IntoIterator<Item = Layer>, layers: &[Layer]) -> Vec<Layer> {
    let pool = layers.iter().skip(1).filter(|layer| disks::is_pool(layer)).cloned();
    made.into_iter().chain(pool).collect()
}

/// Of the stores, as others take them.
fn bytes(layers: &[Layer]) -> Result<Vec<Vec<u8>>, String> {
    Ok(images(layers)?.iter().map(Layer::to_bytes).collect())
}

fn images(layers: &[Layer]) -> Result<Vec<Layer>, String> {
    disks::images(layers).map_err(|e| format!("cannot be exported: {e}"))
}

/// Takes inodes and blocks, gives some back, and leaves others.
pub(crate) fn use_it(volume: &Inodes) -> ondol_volume::Result<()> {
    let dir = volume.names().mkdir(ROOT, b"after the crash", 0o755, Caller::default())?;
    for (name, len) in [(&b"stays"[..], 5000), (b"goes", 3000)] {
        let file = volume.names().create(dir.ino, name, 0o644, Caller::default())?;
        volume.files().write(file.ino, 0, &Fill::unique(1).bytes(0, len))?;
    }
    volume.sync()?;
    volume.names().unlink(dir.ino, b"goes")
}

/// Our own check of an image that nobody has mounted.
fn check(disks: &Disks<LayerStore>) -> Result<(), String> {
    let report = disks.media().and_then(ondol::check_media).map_err(|e| e.to_string())?;
    match () {
        () if report.is_clean() => Ok(()),
        () if report.needs_recovery => Err("the journal still holds transactions".into()),
        () => Err(format!("our check finds\n  {}", report.problems.join("\n  "))),
    }
}
