//! The disks that a volume lies on, as whoever cuts their power has them: the image, and behind it the device of its journal
//! where that is another.

use ondol::Media;
use ondol_block::{BlockStore, LayerStore, Recorder};
use ondol_env::sync::Arc;
use ondol_power::{Layer, PowerDomain};

/// A store for each layer.
pub fn stores(layers: &[Layer]) -> Vec<Arc<LayerStore>> {
    layers.iter().map(|layer| Arc::new(LayerStore::new(layer.clone()))).collect()
}

/// The same, each recorded as the medium whose place it has.
pub fn recorded(layers: &[Layer], domain: &Arc<PowerDomain>) -> Vec<Arc<Recorder<LayerStore>>> {
    let record = |(layer, n): (&Layer, u32)| Recorder::new(LayerStore::new(layer.clone()), n, domain.clone());
    layers.iter().zip(0..).map(|one| Arc::new(record(one))).collect()
}

/// What is on them now.
pub fn layers(stores: &[Arc<LayerStore>]) -> Vec<Layer> {
    stores.iter().map(|store| store.layer()).collect()
}

/// What is on recorded ones now, all of it durable.
///
/// # Errors
/// A flush fails.
pub fn at_rest(stores: &[Arc<Recorder<LayerStore>>]) -> ondol::Result<Vec<Layer>> {
    stores.iter().map(|store| store.flush().map(|()| store.inner().layer()).map_err(ondol::Error::from)).collect()
}

/// The volume on them: on an image, or on an image and its journal's device.
///
/// # Errors
/// As [`Media::with_journal`].
pub fn media<S: BlockStore + 'static>(stores: &[Arc<S>]) -> ondol::Result<Media> {
    match stores {
        [image, journal] => Media::with_journal(image.clone(), journal.clone()),
        stores => Ok(Media::image(stores[0].clone())),
    }
}
