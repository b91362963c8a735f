//! What a volume lies on, as whoever cuts the power has it: the image, or the pool that it is in; behind it the device
//! of its journal where that is another; behind those its NVM pool, if it has one in front.

use crate::batching;
use ondol::Media;
use ondol_block::{BlockStore, LayerStore};
use ondol_env::sync::{Arc, Mutex};
use ondol_env::{Fixed, Timestamp};
use ondol_format::Superblock;
use ondol_format::superblock::{OFFSET, SIZE};
use ondol_medium::{AreaKind, Domain, Frozen, Nvm, NvmError, Pool, PoolError, PoolSpec, crc32c};
use ondol_nvm_log::{Contents, OnDamage};
use ondol_page_table::{PageTable, TableSpec};
use ondol_power::{Event, Layer, PowerDomain};
use ondol_stores::Recorder;

/// Stores, and a pool.
pub struct Disks<S> {
    /// The image, and its journal's device; nothing of an image in a pool.
    pub stores: Vec<Arc<S>>,
    home: Option<Home>,
    pool: Option<Memory>,
}

/// NVM with an image under a page table.
struct Home {
    memory: Memory,
    /// With the pages lent that its log names, if it has one.
    table: ondol::Result<Arc<PageTable>>,
}

impl Home {
    fn new(layer: &Layer, recorded: Option<(&Arc<PowerDomain>, u32)>) -> Self {
        let memory = Memory::new(layer, recorded);
        let attach = |pool: &Arc<Mutex<Pool>>| Ok(Arc::new(ondol::attach_table(&pool.lock())?));
        let table = memory.opened().and_then(attach);
        Self { memory, table }
    }

    fn table(&self) -> ondol::Result<Arc<PageTable>> {
        self.table.as_ref().map(Arc::clone).map_err(|e| damaged(e.to_string()))
    }
}

pub(crate) fn damaged(what: String) -> ondol::Error {
    ondol::Error::State { target: "the pool".into(), what, remedy: None }
}

/// NVM that holds a pool, or what was one.
struct Memory {
    /// As it was when it was last asked.
    layer: Mutex<Layer>,
    /// What was stored since, where nobody else records it.
    written: Option<Arc<PowerDomain>>,
    pool: Result<Arc<Mutex<Pool>>, PoolError>,
}

impl Memory {
    fn new(layer: &Layer, recorded: Option<(&Arc<PowerDomain>, u32)>) -> Self {
        let written = recorded.is_none().then(PowerDomain::new);
        let nvm = nvm(layer).map(|nvm| match (recorded, &written) {
            (Some((domain, n)), _) => nvm.record(domain.clone(), n),
            (None, Some(domain)) => nvm.record(domain.clone(), 0),
            (None, None) => nvm,
        });
        let pool = nvm.map_err(PoolError::from).and_then(Pool::open);
        Self { layer: Mutex::new(layer.clone()), written, pool: pool.map(|pool| Arc::new(Mutex::new(pool))) }
    }

    fn opened(&self) -> ondol::Result<&Arc<Mutex<Pool>>> {
        self.pool.as_ref().map_err(|e| damaged(e.to_string()))
    }

    /// What it holds now; what it held when it was last asked, if some of it cannot be read.
    fn now(&self) -> Layer {
        let mut layer = self.layer.lock();
        if let Ok(pool) = &self.pool {
            let pool = pool.lock();
            let now = match &self.written {
                Some(written) => {
                    let events = written.take();
                    let now = with_stores(&layer, pool.nvm(), &events);
                    if now.is_err() {
                        // For the next time.
                        events.into_iter().for_each(|event| written.push(event));
                    }
                    now
                }
                None => pool.nvm().to_bytes().map(|bytes| over(&layer, &bytes)),
            };
            if let Ok(now) = now {
                *layer = now;
            }
        }
        layer.clone()
    }
}

/// Memory that holds what `layer` does, and costs what that has of its own and what is stored.
///
/// # Errors
/// The system has no memory.
pub fn nvm(layer: &Layer) -> Result<Nvm, NvmError> {
    let frozen = layer.of_base(|base| Frozen::new(base).ok());
    let Some(frozen) = frozen.as_deref().and_then(Option::as_ref) else { return Nvm::from_bytes(&layer.to_bytes()) };
    let nvm = Nvm::thawed(frozen)?;
    layer.changed().try_for_each(|(at, bytes)| nvm.shared().store(at as u64, bytes))?;
    Ok(nvm)
}

/// What `nvm` holds, which held `before` before these stores.
fn with_stores(before: &Layer, nvm: &Nvm, events: &[Event]) -> Result<Layer, NvmError> {
    let (mut layer, mut now) = (before.clone(), Vec::new());
    for event in events {
        if let Event::Store { offset, bytes, .. } = event {
            now.resize(bytes.len(), 0);
            nvm.read(*offset, &mut now)?;
            layer.write(*offset as usize, &now);
        }
    }
    Ok(layer)
}

/// A layer of `bytes` that shares with `base`, which is as long, what is the same.
fn over(base: &Layer, bytes: &[u8]) -> Layer {
    const PART: usize = 1024;
    let mut layer = base.clone();
    let mut there = [0; PART];
    for (at, part) in (0..).step_by(PART).zip(bytes.chunks(PART)) {
        let there = &mut there[..part.len()];
        base.read(at, there);
        if there != part {
            layer.write(at, part);
        }
    }
    layer
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

/// How an image begins that lies on a store that takes batches: ext4 leaves these bytes alone.
const BATCHES: &[u8; 8] = b"ONDOLBT\0";

/// The same image on a store that takes batches.
#[must_use]
pub fn in_batches(image: &Layer) -> Layer {
    let mut layer = image.clone();
    layer.write(0, BATCHES);
    layer
}

/// Whether a layer is that of a store that takes batches.
pub fn takes_batches(layer: &Layer) -> bool {
    let mut bytes = [0; 8];
    if layer.len() >= bytes.len() {
        layer.read(0, &mut bytes);
    }
    &bytes == BATCHES
}

/// The store of a layer.
pub fn store(layer: Layer) -> LayerStore {
    if !takes_batches(&layer) {
        return LayerStore::new(layer);
    }
    let mut raw = [0; SIZE];
    layer.read(OFFSET as usize, &mut raw);
    let block = Superblock::parse(&raw, layer.len() as u64).map_or(1024, |sb| sb.block_size());
    LayerStore::new(layer).with_batches(batching::MOST * u64::from(block))
}

/// A pool in front of a volume, with a log of so many bytes and half as many for file data, on memory of this
/// persistence domain.
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

/// The same pool, with a log that is empty and whose next records take the last so many lines of its ring, and then
/// the first.
///
/// # Panics
/// It is no pool with room for a log.
pub fn near_end(pool: &Layer, lines: u64) -> Layer {
    const TAIL_AT: usize = 2048;
    let nvm = nvm(pool).expect("memory");
    let pool = Pool::open(nvm).expect("a pool");
    drop(Contents::open(&pool, &Fixed::new(Timestamp::default(), 9), OnDamage::Refuse).expect("a log"));
    let area = pool.area(AreaKind::JOURNAL_LOG).expect("an area for the log");
    let (mut bytes, start) = (pool.nvm().to_bytes().expect("bytes of memory"), area.start as usize);
    let seal = crc32c(!0, &[&bytes[start + 16..start + 32]]);
    for copy in [0, PAGE] {
        let tail = &mut bytes[start + copy + TAIL_AT..][..64];
        let first = u64::from_le_bytes(tail[8..16].try_into().expect("a word"));
        // A log begins with a lap that is as long as its ring.
        tail[8..16].copy_from_slice(&(2 * first - lines.min(first)).to_le_bytes());
        let sum = crc32c(seal, &[&tail[4..]]);
        tail[..4].copy_from_slice(&sum.to_le_bytes());
    }
    Layer::new(bytes)
}

/// Bytes of a page of a page table.
const PAGE: usize = 4096;

/// Pages beyond the blocks of an image in a pool: few, so that writers come to their end.
const RESERVE: u64 = 96;

/// The same image in a pool of its own on memory of this persistence domain. One transaction of its page table has room
/// for `lines` lines, in units of 64. Beside the table there is a log of `log` bytes, if it is to have one.
///
/// # Panics
/// There is no memory for it, or no table is so large.
pub fn in_pool(image: &Layer, lines: u64, log: u64, domain: Domain) -> Layer {
    let blocks = (image.len() / PAGE) as u64;
    let page = PAGE as u64;
    let data = (blocks + RESERVE) * page;
    let map = (blocks * 8).next_multiple_of(page);
    let mut areas = vec![
        (AreaKind::PAGE_CONFIG, 2 * page),
        (AreaKind::PAGE_MAP, map),
        (AreaKind::PAGE_LOG, (lines * 64 + page).next_multiple_of(page)),
        (AreaKind::PAGE_DATA, data),
    ];
    areas.extend((log > 0).then_some((AreaKind::JOURNAL_LOG, log)));
    let size = 2 * page + areas.iter().map(|(_, len)| len).sum::<u64>();
    let spec = PoolSpec { uuid: *b"laboratory home.", areas, domain, ..PoolSpec::default() };
    let mut pool = Pool::create(Nvm::volatile(size).expect("memory"), &spec).expect("a pool in memory");
    let table = TableSpec { uuid: *b"laboratory table", blocks: Some(blocks), reserve: Some(RESERVE) };
    table.make(&mut pool).expect("a table in a pool");
    let table = PageTable::attach(&pool).expect("a table");
    let bytes = image.to_bytes();
    for (at, page) in bytes.chunks_exact(PAGE).enumerate().filter(|(_, page)| page.iter().any(|byte| *byte != 0)) {
        table.write((at * PAGE) as u64, page).expect("room for the image");
    }
    table.flush().expect("a flush");
    Layer::new(pool.nvm().to_bytes().expect("bytes of memory"))
}

/// Whether these are disks of which the first is a pool with the image in it.
pub fn is_home_pool(layers: &[Layer]) -> bool {
    layers.first().is_some_and(is_pool)
}

/// What lies on the disks without a pool: of an image in a pool that image, as an export has it.
///
/// # Errors
/// There is no table that can be attached in the pool.
pub fn images(layers: &[Layer]) -> ondol::Result<Vec<Layer>> {
    if !is_home_pool(layers) {
        return Ok(layers.iter().filter(|layer| !is_pool(layer)).cloned().collect());
    }
    Ok(vec![Exported::of(&layers[0])?.image])
}

/// The image in a pool, from which those of other states of the pool are made.
#[derive(Clone, Debug)]
pub struct Exported {
    pool: Layer,
    /// The page of each block.
    pages: Vec<Option<u32>>,
    /// The image.
    pub image: Layer,
}

impl Exported {
    /// The image in a pool.
    ///
    /// # Errors
    /// As [`images`].
    pub fn of(pool: &Layer) -> ondol::Result<Self> {
        let home = Home::new(pool, None);
        let table = home.table()?;
        let mut bytes = vec![0; table.size() as usize];
        table.read(0, &mut bytes)?;
        Ok(Self { pages: pages(&table)?, pool: home.memory.now(), image: Layer::new(bytes) })
    }

    /// The image in another state of the pool, which shares with this one what is the same.
    ///
    /// # Errors
    /// As [`images`].
    pub fn of_state(&self, pool: &Layer) -> ondol::Result<Layer> {
        let home = Home::new(pool, None);
        let table = home.table()?;
        let data = home.memory.opened()?.lock().area(AreaKind::PAGE_DATA).map_or(0, |area| area.start as usize);
        let (now, pages) = (home.memory.now(), pages(&table)?);
        let is_same = |block: usize| {
            let page = |page: u32| data + page as usize * PAGE..data + (page as usize + 1) * PAGE;
            pages[block] == self.pages[block] && pages[block].is_none_or(|n| now.shares(&self.pool, page(n)))
        };
        let (mut image, mut bytes) = (self.image.clone(), [0; PAGE]);
        for block in (0..pages.len()).filter(|block| !is_same(*block)) {
            table.read((block * PAGE) as u64, &mut bytes)?;
            image.write(block * PAGE, &bytes);
        }
        Ok(image)
    }
}

/// The page of each block.
fn pages(table: &PageTable) -> ondol::Result<Vec<Option<u32>>> {
    let page = |block| table.page(block).map_err(|e| damaged(e.to_string()));
    (0..table.size() / PAGE as u64).map(page).collect()
}

/// The layers of stores, and the pool's in front of them.
fn split(layers: &[Layer]) -> (&[Layer], Option<&Layer>) {
    match layers.split_last() {
        Some((last, others)) if is_pool(last) && !others.is_empty() => (others, Some(last)),
        _ => (layers, None),
    }
}

/// Those of `layers`, each store made by `make` with its number among the media.
pub fn of<S>(layers: &[Layer], recorded: Option<&Arc<PowerDomain>>, make: impl Fn(Layer, u32) -> S) -> Disks<S> {
    let (stores, pool) = split(layers);
    let n = stores.len() as u32;
    let on = |n| recorded.map(|domain| (domain, n));
    let (home, stores) = match is_home_pool(stores) {
        true => (Some(Home::new(&stores[0], on(0))), &[][..]),
        false => (None, stores),
    };
    let stores = stores.iter().zip(0..).map(|(layer, n)| Arc::new(make(layer.clone(), n))).collect();
    Disks { stores, home, pool: pool.map(|layer| Memory::new(layer, on(n))) }
}

/// A store for each layer.
pub fn stores(layers: &[Layer]) -> Disks<LayerStore> {
    of(layers, None, |layer, _| store(layer))
}

/// The same, each recorded as the medium whose place it has.
pub fn recorded(layers: &[Layer], domain: &Arc<PowerDomain>) -> Disks<Recorder<LayerStore>> {
    of(layers, Some(domain), |layer, n| Recorder::new(store(layer), n, domain.clone()))
}

impl Disks<LayerStore> {
    /// What is on them now.
    pub fn layers(&self) -> Vec<Layer> {
        let home = self.home.iter().map(|home| home.memory.now());
        home.chain(self.stores.iter().map(|store| store.layer())).chain(self.pool.iter().map(Memory::now)).collect()
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
        let home = self.home.iter().map(|home| {
            home.table()?.flush()?;
            Ok(home.memory.now())
        });
        home.chain(layers).chain(self.pool.iter().map(|pool| Ok(pool.now()))).collect()
    }
}

impl<S: BlockStore + 'static> Disks<S> {
    /// Whether the image lies in a pool.
    pub fn has_home_pool(&self) -> bool {
        self.home.is_some()
    }

    /// The pool that the image lies in.
    pub fn home_pool(&self) -> Option<Arc<Mutex<Pool>>> {
        self.home.as_ref().and_then(|home| home.memory.opened().ok()).cloned()
    }

    /// The image, where there is one.
    pub fn image(&self) -> Option<Arc<dyn BlockStore>> {
        match &self.home {
            Some(home) => home.table().ok().map(|table| table as Arc<dyn BlockStore>),
            None => self.stores.first().map(|store| store.clone() as Arc<dyn BlockStore>),
        }
    }

    /// The volume on them.
    ///
    /// # Errors
    /// As [`Media::with_journal`]; the pool is damaged.
    pub fn media(&self) -> ondol::Result<Media> {
        let media = match (&self.home, self.stores.as_slice()) {
            (Some(home), _) => Media::in_pool(home.table()?, home.memory.opened()?.clone()),
            (None, [image, journal]) => Media::with_journal(image.clone(), journal.clone())?,
            (None, stores) => Media::image(stores[0].clone()),
        };
        Ok(match &self.pool {
            None => media,
            Some(memory) => media.with_shared_pool(memory.opened()?.clone()),
        })
    }
}
