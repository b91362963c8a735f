//! One state: recovered, checked and compared with the model.

use super::{CowStore, Layer, Run, contract};
use crate::dump;
use crate::image::{self, ToolError};
use crate::op::Fill;
use ondol_block::BlockStore;
use ondol_env::sync::Arc;
use ondol_volume::{Caller, Error, ROOT, Volume};

/// The numbers of calls that a state may be the state of.
pub(super) type Judged = Vec<usize>;

pub(super) struct Judge<'a> {
    run: &'a Run,
}

impl<'a> Judge<'a> {
    pub(super) fn new(run: &'a Run) -> Self {
        Self { run }
    }

    /// Recovers with our own code, checks the image, reads everything, and compares.
    pub(super) fn ours(&mut self, layer: &Layer, allowed: (usize, usize)) -> Result<Judged, String> {
        let store: Arc<dyn BlockStore> = Arc::new(CowStore::new(layer.clone()));
        ondol::recover_store(&store).map_err(|e| format!("cannot be recovered: {e}"))?;
        check(&store).map_err(|e| format!("after recovery: {e}"))?;
        let volume = self.run.mount(store).map_err(|e| format!("cannot be mounted after recovery: {e}"))?;
        let found = dump::of_volume(volume.inodes()).map_err(|e| format!("cannot be read after recovery: {e}"))?;
        contract::judge(self.run, allowed.0, allowed.1, &found)
    }

    /// The same through e2fsck: our recovered and closed volume must leave it nothing to mend, and what it makes of the
    /// crash state itself must keep the contract too.
    pub(super) fn e2fsck(&mut self, layer: &Layer, allowed: (usize, usize)) -> Result<Result<(), String>, ToolError> {
        let recovered = match self.recover_and_close(layer) {
            Ok(recovered) => recovered,
            Err(what) => return Ok(Err(what)),
        };
        let verdict = image::check(&recovered.to_bytes())?;
        if !verdict.is_clean() {
            return Ok(Err(format!("e2fsck -fn after our recovery ended with {}:\n{}", verdict.code, verdict.output)));
        }
        let mended = match image::judge_replay(&layer.to_bytes())? {
            Ok(mended) => mended,
            Err(what) => return Ok(Err(what)),
        };
        let theirs = self.ours(&Layer::new(mended.into()), allowed);
        Ok(theirs.map(|_| ()).map_err(|what| format!("replayed by e2fsck, {what}")))
    }

    /// Recovers, uses the volume a little, because it must still be good for that, and closes it.
    fn recover_and_close(&self, layer: &Layer) -> Result<Layer, String> {
        let store = Arc::new(CowStore::new(layer.clone()));
        let volume = self.run.mount(store.clone()).map_err(|e| format!("cannot be recovered: {e}"))?;
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
