//! What the tests of faults share: volumes in layers of memory, and their judges.

use ondol::{DataMode, Volume};
use ondol_block::{BlockStore, LayerStore};
use ondol_env::sync::Arc;
use ondol_power::Layer;
use ondol_testkit::dump::{self, Snapshot};
use ondol_testkit::image;
use ondol_testkit::model::Model;

/// What is seen of a model's volume that is opened anew.
pub(crate) fn at_rest(model: &Model) -> Snapshot {
    let mut model = model.clone();
    model.drop_handles();
    model.snapshot()
}

/// Checks the recovered and unused volume on `store`, opens it and reads everything.
pub(crate) fn check_and_read(store: &Arc<dyn BlockStore>, data: DataMode) -> Result<Snapshot, String> {
    must_be_clean(store)?;
    read(store, data).map_err(|e| format!("cannot be read: {e}"))
}

/// Opens the volume on `store` and reads everything.
pub(crate) fn read(store: &Arc<dyn BlockStore>, data: DataMode) -> ondol::Result<Snapshot> {
    let volume = Volume::open_stepped(store.clone(), &image::options(data), image::clock(9))?;
    Ok(dump::of_volume(volume.inodes())?)
}

/// A layer as a medium.
pub(crate) fn store_of(layer: &Layer) -> (Arc<LayerStore>, Arc<dyn BlockStore>) {
    let store = Arc::new(LayerStore::new(layer.clone()));
    (store.clone(), store)
}

/// Our own check of a volume that nobody has open.
pub(crate) fn must_be_clean(store: &Arc<dyn BlockStore>) -> Result<(), String> {
    let report = ondol::check_media(store).map_err(|e| format!("cannot be checked: {e}"))?;
    if report.is_clean() { Ok(()) } else { Err(format!("our check: {report:?}")) }
}
