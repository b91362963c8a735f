//! A recorded volume as the subject of an exploration: recovered, checked and compared with the model.

use crate::contract;
use crate::run::Run;
use crate::store::LayerStore;
use crate::subject::{Description, Subject};
use ondol::DataMode;
use ondol_block::{BlockStore, Recorder};
use ondol_env::sync::Arc;
use ondol_power::{Event, Layer, Medium, PowerDomain};
use ondol_testkit::op::Fill;
use ondol_testkit::{dump, image};
use ondol_volume::{Caller, Error, ROOT, Volume};

/// What a recovered volume was found to be.
#[derive(Clone, Debug)]
pub struct Matched {
    /// Numbers of calls that it is the state of.
    calls: Vec<usize>,
    /// The least number that was allowed when it was looked at.
    least: usize,
}

impl Subject for Run {
    type Matched = Matched;

    fn media(&self) -> &[Medium] {
        &self.media
    }

    fn events(&self) -> &[Event] {
        &self.events
    }

    fn recover(&self, layers: &[Layer]) -> Result<Vec<Layer>, String> {
        let (store, shared) = store(layers);
        ondol::recover_store(&shared).map_err(|e| format!("cannot be recovered: {e}"))?;
        Ok(vec![store.layer()])
    }

    fn come_back(&self, layers: &[Layer], domain: &Arc<PowerDomain>) -> Result<(), String> {
        let store = LayerStore::new(layers[0].clone());
        let recorded: Arc<dyn BlockStore> = Arc::new(Recorder::new(store, 0, domain.clone()));
        // Dropped without being closed: the next crash comes before that, or right then.
        self.open(recorded).map(drop).map_err(|e| format!("cannot be opened: {e}"))
    }

    fn essence(&self, recovered: &mut [Layer]) -> u128 {
        recovered[0].fingerprint_without(&self.log)
    }

    fn judge(&self, recovered: &[Layer], events: usize) -> Result<Matched, String> {
        let (_, store) = store(recovered);
        check(&store).map_err(|e| format!("after recovery: {e}"))?;
        let volume = self.open(store).map_err(|e| format!("cannot be mounted after recovery: {e}"))?;
        let found = dump::of_volume(volume.inodes()).map_err(|e| format!("cannot be read after recovery: {e}"))?;
        let (least, most) = self.allowed[events];
        Ok(Matched { calls: contract::judge(self, least, most, &found)?, least })
    }

    fn still_allowed(&self, matched: &Matched, events: usize) -> bool {
        let (least, most) = self.allowed[events];
        // What is stale counts from the last sync on in `writeback` alone: elsewhere a state that was right for some number of
        // calls is right for as long as that number is possible.
        (self.setup.data() != DataMode::Writeback || matched.least == least)
            && matched.calls.iter().any(|calls| (least..=most).contains(calls))
    }

    fn is_narrowed(&self, events: usize) -> bool {
        self.allowed[events].0 > self.allowed[events - 1].0
    }

    fn second_opinion(&self, layers: &[Layer], events: usize) -> Result<(), String> {
        if image::missing(&["e2fsck"]).is_some() {
            return Ok(());
        }
        let tool = |e: image::ToolError| e.to_string();
        let recovered = self.recover_and_close(&layers[0])?;
        let verdict = image::check(&recovered.to_bytes()).map_err(tool)?;
        if !verdict.is_clean() {
            return Err(format!("e2fsck -fn after our recovery ended with {}:\n{}", verdict.code, verdict.output));
        }
        let mended = image::judge_replay(&layers[0].to_bytes()).map_err(tool)??;
        let theirs = self.judge(&[Layer::new(mended)], events);
        theirs.map(|_| ()).map_err(|what| format!("replayed by e2fsck, {what}"))
    }

    fn describe(&self) -> Description {
        self.description.clone()
    }
}

fn store(layers: &[Layer]) -> (Arc<LayerStore>, Arc<dyn BlockStore>) {
    let store = Arc::new(LayerStore::new(layers[0].clone()));
    (store.clone(), store)
}

impl Run {
    /// Recovers, uses the volume a little, because it must still be good for that, and closes it.
    fn recover_and_close(&self, layer: &Layer) -> Result<Layer, String> {
        let store = Arc::new(LayerStore::new(layer.clone()));
        let volume = self.open(store.clone()).map_err(|e| format!("cannot be opened: {e}"))?;
        match use_it(volume.inodes()) {
            Ok(()) | Err(Error::NoSpace(_)) => {}
            Err(e) => return Err(format!("cannot be used after recovery: {e}")),
        }
        volume.close().map_err(|e| format!("cannot be closed after recovery: {e}"))?;
        check(&(store.clone() as Arc<dyn BlockStore>)).map_err(|e| format!("recovered and closed: {e}"))?;
        Ok(store.layer())
    }
}

/// Takes inodes and blocks, gives some back, and leaves others.
fn use_it(volume: &Volume) -> ondol_volume::Result<()> {
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
