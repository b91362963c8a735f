//! What a volume lies on, as whoever cuts the power has it: the image; behind it the device of its journal where that is another; behind those
//! its NVM pool, if it has one.

use ondol::Media;
use ondol_block::{BlockStore, LayerStore, Recorder};
use ondol_env::sync::{Arc, Mutex};
use ondol_medium::{AreaKind, Domain, Nvm, Pool, PoolError, PoolSpec};
use ondol_power::{Layer, PowerDomain};

/// Stores, and a pool.
pub struct Disks<S> {
    /// The image, and its journal's device.
    pub stores: Vec<Arc<S>>,
    pool: Option<Memory>,
}

/// NVM that holds a pool, or what was one.
struct Memory {
    /// As it was found.
    layer: Layer,
    pool: Result<Arc<Mutex<Pool>>, PoolError>,
}

impl Memory {
    fn new(layer: &Layer, recorded: Option<(&Arc<PowerDomain>, u32)>) -> Self {
        let nvm = Nvm::from_bytes(&layer.to_bytes()).map(|nvm| match recorded {
            Some((domain, n)) => nvm.record(domain.clone(), n),
            None => nvm,
        });
        let pool = nvm.map_err(PoolError::from).and_then(Pool::open);
        Self { layer: layer.clone(), pool: pool.map(|pool| Arc::new(Mutex::new(pool))) }
    }

    fn now(&self) -> Layer {
        let bytes = self.pool.as_ref().ok().and_then(|pool| pool.lock().nvm().to_bytes().ok());
        bytes.map_or_else(|| self.layer.clone(), Layer::new)
    }
}

/// How every pool begins.
const SIGNATURE: &[u8; 8] = b"ONDOLPL\0";

/// Whether a layer is NVM that holds a pool.
pub fn is_pool(layer: &Layer) -> bool {
    let mut bytes = [0; 8];
    if layer.len() >= bytes.len() {
        layer.read(0, &mut bytes);
    }
    &bytes == SIGNATURE
}

/// A pool in front of a volume, with a log of so many bytes and half as many for file data, on memory of this persistence domain.
///
/// # Panics
/// There is no memory for it, or it is too small for a pool.
pub fn pool(log: u64, domain: Domain) -> Layer {
    let areas = vec![(AreaKind::JOURNAL_LOG, log), (AreaKind::JOURNAL_PAGES, log / 2)];
    let spec = PoolSpec { uuid: *b"laboratory pool.", areas, domain, ..PoolSpec::default() };
    let nvm = Nvm::volatile(log + log / 2 + (16 << 10));
    let pool = nvm.map_err(PoolError::from).and_then(|nvm| Pool::create(nvm, &spec));
    let bytes = pool.and_then(|pool| Ok(pool.nvm().to_bytes()?));
    Layer::new(bytes.expect("a pool in memory"))
}

/// The layers of stores, and the pool's.
fn split(layers: &[Layer]) -> (&[Layer], Option<&Layer>) {
    match layers.split_last() {
        Some((last, others)) if is_pool(last) => (others, Some(last)),
        _ => (layers, None),
    }
}

/// Those of `layers`, each store made by `make` with its number among the media.
pub fn of<S>(layers: &[Layer], recorded: Option<&Arc<PowerDomain>>, make: impl Fn(Layer, u32) -> S) -> Disks<S> {
    let (stores, pool) = split(layers);
    let n = stores.len() as u32;
    let stores = stores.iter().zip(0..).map(|(layer, n)| Arc::new(make(layer.clone(), n))).collect();
    Disks { stores, pool: pool.map(|layer| Memory::new(layer, recorded.map(|domain| (domain, n)))) }
}

/// A store for each layer.
pub fn stores(layers: &[Layer]) -> Disks<LayerStore> {
    of(layers, None, |layer, _| LayerStore::new(layer))
}

/// The same, each recorded as the medium whose place it has.
pub fn recorded(layers: &[Layer], domain: &Arc<PowerDomain>) -> Disks<Recorder<LayerStore>> {
    of(layers, Some(domain), |layer, n| Recorder::new(LayerStore::new(layer), n, domain.clone()))
}

impl Disks<LayerStore> {
    /// What is on them now.
    pub fn layers(&self) -> Vec<Layer> {
        self.stores.iter().map(|store| store.layer()).chain(self.pool.iter().map(Memory::now)).collect()
    }
}

impl Disks<Recorder<LayerStore>> {
    /// What is on them now, all of it durable.
    ///
    /// # Errors
    /// A flush fails.
    pub fn at_rest(&self) -> ondol::Result<Vec<Layer>> {
        let rest = |store: &Arc<Recorder<LayerStore>>| store.flush().map(|()| store.inner().layer());
        let layers = self.stores.iter().map(|store| rest(store).map_err(ondol::Error::from));
        layers.chain(self.pool.iter().map(|pool| Ok(pool.now()))).collect()
    }
}

impl<S: BlockStore + 'static> Disks<S> {
    /// The volume on them.
    ///
    /// # Errors
    /// As [`Media::with_journal`]; the pool is damaged.
    pub fn media(&self) -> ondol::Result<Media> {
        let media = match self.stores.as_slice() {
            [image, journal] => Media::with_journal(image.clone(), journal.clone())?,
            stores => Media::image(stores[0].clone()),
        };
        Ok(match self.pool.as_ref().map(|memory| &memory.pool) {
            None => media,
            Some(Ok(pool)) => media.with_shared_pool(pool.clone()),
            Some(Err(e)) => {
                let what = e.to_string();
                return Err(ondol::Error::State { target: "the pool".into(), what });
            }
        })
    }
}
