//! Recorded volumes as subjects of an exploration: recovered, checked and read by the code that ships.

use crate::after::record_after;
use crate::kernel;
use crate::names::Names;
use crate::run::Run;
use crate::subject::{Description, Subject};
use ondol::{Options, RecoverReport, Volume};
use ondol_block::{BlockStore, LayerStore, Recorder};
use ondol_env::reach::Hit;
use ondol_env::sync::Arc;
use ondol_power::{Cut, Event, Layer, Medium, Pages, PowerDomain};
use ondol_testkit::dump::{self, Snapshot};
use ondol_testkit::image::{self, clock};
use ondol_testkit::op::Fill;
use ondol_volume::{Caller, Error, ROOT, Volume as Inodes};

/// A recorded run of a volume on one block medium: what its calls were, and which snapshots they allow, are its own.
pub trait VolumeRun: Sync {
    /// What a recovered volume was found to be.
    type Found: Clone + Send;

    /// The medium when the recording began.
    fn media(&self) -> &[Medium];

    /// Everything since.
    fn events(&self) -> &[Event];

    /// Places that were passed since, between the events.
    fn heard(&self) -> &[Hit] {
        &[]
    }

    /// The blocks of the log, which are scratch once it has been replayed; its superblock is not.
    fn log(&self) -> &Pages;

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

    /// See [`Subject::describe`].
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

    fn heard(&self) -> &[Hit] {
        VolumeRun::heard(self)
    }

    fn recover(&self, layers: &[Layer]) -> Result<Vec<Layer>, String> {
        let (store, shared) = store(layers);
        ondol::recover_store(&shared).map_err(|e| format!("cannot be recovered: {e}"))?;
        Ok(vec![store.layer()])
    }

    fn come_back(&self, layers: &[Layer], domain: &Arc<PowerDomain>) -> Result<(), String> {
        let store = LayerStore::new(layers[0].clone());
        let recorded: Arc<dyn BlockStore> = Arc::new(Recorder::new(store, 0, domain.clone()));
        let volume = open(self, recorded).map_err(|e| format!("cannot be opened: {e}"))?;
        // What was done about orphans becomes durable. Dropped without being closed: the next crash comes before that, or right then.
        volume.sync().map_err(|e| format!("cannot be synced after recovery: {e}"))
    }

    fn essence(&self, recovered: &mut [Layer]) -> u128 {
        recovered[0].fingerprint_without(self.log())
    }

    fn judge(&self, recovered: &[Layer], events: usize) -> Result<R::Found, String> {
        let (_, store) = store(recovered);
        check(&store).map_err(|e| format!("after recovery: {e}"))?;
        let volume = open(self, store).map_err(|e| format!("cannot be mounted after recovery: {e}"))?;
        let found = dump::of_volume(volume.inodes()).map_err(|e| format!("cannot be read after recovery: {e}"))?;
        self.compare(&found, &volume.recovered(), events)
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
        let recovered = recover_and_close(self, &layers[0])?;
        let verdict = image::check(&recovered.to_bytes()).map_err(tool)?;
        if !verdict.is_clean() {
            return Err(format!("e2fsck -fn after our recovery ended with {}:\n{}", verdict.code, verdict.output));
        }
        let Some(mended) = image::judge_left(&layers[0].to_bytes()).map_err(tool)?? else { return Ok(()) };
        let theirs = self.judge(&[Layer::new(mended)], events);
        theirs.map(|_| ()).map_err(|what| format!("replayed by e2fsck, {what}"))
    }

    fn kernel_opinion(&self, layers: &[Layer], events: usize) -> Result<bool, String> {
        let Some(replayed) = kernel::replay(&layers[0])? else { return Ok(false) };
        let theirs = self.judge(&[replayed], events);
        theirs.map(|_| true).map_err(|what| format!("replayed by the kernel, {what}"))
    }

    fn use_after(&self, layers: &[Layer], seed: u64) -> Option<Result<Run, String>> {
        Some(record_after(&layers[0], self.opening().0, seed))
    }

    fn names(&self) -> Names {
        // Of what was there at the begin, and of what is there at the end.
        let media = VolumeRun::media(self);
        let base = media[0].base.clone();
        let last = Cut::after(media, VolumeRun::events(self)).everything().remove(0);
        Names::new(&base, &[last, base.clone()], |layer| open(self, Arc::new(LayerStore::new(layer))).ok())
    }

    fn describe(&self) -> Description {
        VolumeRun::describe(self)
    }
}

/// Opens a state of a run, as after the power is back: with other random numbers, and without threads.
fn open<R: VolumeRun>(run: &R, store: Arc<dyn BlockStore>) -> ondol::Result<Volume> {
    let (options, seed) = run.opening();
    Volume::open_stepped(store, options, clock(seed ^ 0xFFFF))
}

/// Recovers, uses the volume a little, because it must still be good for that, and closes it.
fn recover_and_close<R: VolumeRun>(run: &R, layer: &Layer) -> Result<Layer, String> {
    let store = Arc::new(LayerStore::new(layer.clone()));
    let volume = open(run, store.clone()).map_err(|e| format!("cannot be opened: {e}"))?;
    match use_it(volume.inodes()) {
        Ok(()) | Err(Error::NoSpace(_)) => {}
        Err(e) => return Err(format!("cannot be used after recovery: {e}")),
    }
    volume.close().map_err(|e| format!("cannot be closed after recovery: {e}"))?;
    check(&(store.clone() as Arc<dyn BlockStore>)).map_err(|e| format!("recovered and closed: {e}"))?;
    Ok(store.layer())
}

fn store(layers: &[Layer]) -> (Arc<LayerStore>, Arc<dyn BlockStore>) {
    let store = Arc::new(LayerStore::new(layers[0].clone()));
    (store.clone(), store)
}

/// Takes inodes and blocks, gives some back, and leaves others.
fn use_it(volume: &Inodes) -> ondol_volume::Result<()> {
    let dir = volume.mkdir(ROOT, b"after the crash", 0o755, Caller::default())?;
    for (name, len) in [(&b"stays"[..], 5000), (b"goes", 3000)] {
        let file = volume.create(dir.ino, name, 0o644, Caller::default())?;
        volume.write(file.ino, 0, &Fill::unique(1).bytes(0, len))?;
    }
    volume.sync()?;
    volume.unlink(dir.ino, b"goes")
}

/// Our own check of an image that nobody has mounted.
fn check(store: &Arc<dyn BlockStore>) -> Result<(), String> {
    let report = ondol::check_store(store).map_err(|e| e.to_string())?;
    match () {
        () if report.is_clean() => Ok(()),
        () if report.needs_recovery => Err("the journal still holds transactions".into()),
        () => Err(format!("our check finds\n  {}", report.problems.join("\n  "))),
    }
}
