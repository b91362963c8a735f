//! What the contract's tests stand on: a client, a medium that fails as it is told, an engine on it.

pub(crate) use crate::{BLOCK, BLOCKS};
use ondol_block::{BlockStore, DeviceClass, RamStore};
use ondol_env::sync::{Arc, Mutex};
use ondol_env::{Env, Fixed, Timestamp};
use ondol_format::jbd2::JournalSuperblock;
use ondol_journal::{Client, Config, Corrupt, Engine, Extent, Handle, Images, Journal, Kind, LogMap, Patches, Ranges};
use ondol_medium::{Domain, Nvm, Pool};
use ondol_nvm_log::{Contents, Log, Options as LogOptions};
use ondol_page_table::PageTable;
use ondol_power::{Layer, Medium, PowerDomain, Sampling};
use ondol_stores::{FaultPlan, Faulty, Recorder};
use ondol_testkit::disks;

/// First block that tests use as home.
pub(crate) const HOME: u64 = 1100;
pub(crate) const META: Kind = Kind { class: 1, owner: 7, salt: 0 };
/// Blocks of this kind keep the sum of their first half in their last byte.
pub(crate) const SUMMED: Kind = Kind { class: 2, owner: 0, salt: 0 };

/// What an engine lies on here.
pub(crate) trait Below: BlockStore {
    /// Has it fail.
    fn arm(&self, plan: FaultPlan);
    /// What it holds now, as readers see it.
    fn bytes(&self) -> Vec<u8>;
}

impl Below for Recorder<Faulty<RamStore>> {
    fn arm(&self, plan: FaultPlan) {
        self.inner().arm(plan);
    }

    fn bytes(&self) -> Vec<u8> {
        self.inner().inner().to_bytes()
    }
}

impl Below for Faulty<PageTable> {
    fn arm(&self, plan: FaultPlan) {
        Faulty::arm(self, plan);
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.size() as usize];
        self.inner().read(0, &mut bytes).unwrap();
        bytes
    }
}

/// A client that seals a checksum byte and notes what may be reused.
#[derive(Default)]
pub(crate) struct TestClient {
    pub(crate) released: Mutex<Vec<Extent>>,
    /// Whether sealing panics.
    pub(crate) broken: ondol_env::sync::atomic::AtomicBool,
}

impl Client for TestClient {
    fn build(&self, _kind: Kind, _bytes: &mut [u8]) -> bool {
        false
    }

    fn verify(&self, block: u64, kind: Kind, bytes: &[u8]) -> Result<(), Corrupt> {
        if kind == SUMMED && bytes.iter().any(|b| *b != 0) && bytes[BLOCK - 1] != sum(bytes) {
            return Err(Corrupt { structure: "summed block".into(), block, what: "wrong sum".into() });
        }
        Ok(())
    }

    fn seal(&self, _block: u64, kind: Kind, image: &[u8], _dirty: &Ranges, _tx: &dyn Images) -> Patches {
        assert!(!self.broken.load(ondol_env::sync::atomic::Ordering::SeqCst), "a defect");
        let mut out = Patches::default();
        if kind == SUMMED {
            out.put(BLOCK - 1, &[sum(image)]);
        }
        out
    }

    fn may_tear(&self, kind: Kind) -> bool {
        kind == SUMMED
    }

    fn release(&self, freed: &[Extent]) {
        self.released.lock().extend_from_slice(freed);
    }
}

pub(crate) fn sum(bytes: &[u8]) -> u8 {
    bytes[..BLOCK / 2].iter().fold(0, |a, b| a.wrapping_add(*b))
}

/// One engine under test: how to lay out an empty log, open it, and recover bytes after a crash.
pub(crate) trait Rig {
    fn empty(&self) -> Vec<u8>;
    /// The bytes of its pool, if it needs one.
    fn pool(&self) -> Option<Vec<u8>> {
        None
    }
    /// The lines of the log of the page table that it lies under, if it does.
    fn lines(&self) -> Option<u64> {
        None
    }
    /// The bytes of the log that lies in the same pool, if one does.
    fn log(&self) -> u64 {
        0
    }
    fn open(&self, ground: Ground, c: Config) -> Box<dyn Engine>;
    fn recover(&self, store: Arc<dyn BlockStore>, pool: Option<Pool>);
    /// Flushes that one commit needs, alone.
    fn flushes_per_commit(&self) -> u64;
    /// Bytes of a batch, if its medium takes batches. They are its log then.
    fn batch(&self) -> Option<u64> {
        None
    }
    /// How many states a test finds at least that finds `torn` where single writes arrive, and are torn.
    fn least_states(&self, torn: usize) -> usize {
        torn
    }
}

/// What an engine is given.
pub(crate) struct Ground {
    pub(crate) store: Arc<dyn BlockStore>,
    pub(crate) pool: Option<Pool>,
    pub(crate) client: Arc<TestClient>,
    pub(crate) env: Arc<dyn Env>,
}

impl Ground {
    /// The engine over a log.
    pub(crate) fn open(self, journal: Journal, config: Config) -> Box<dyn Engine> {
        let Self { store, client, env, .. } = self;
        ondol_journal::open(ondol_journal::Ground { store, block_size: BLOCK, client, env, config }, journal).unwrap()
    }

    /// The log of an engine of records, over what it was found to have.
    pub(crate) fn log(&self, contents: Contents) -> Log {
        Log::start(contents, self.env.clone(), &LogOptions::default()).unwrap()
    }
}

/// A journal in two pieces, so that the ring crosses from one to the other.
pub(crate) fn map() -> LogMap {
    LogMap::new(BLOCK as u32, [(40, 24), (70, 1000)])
}

/// A medium with an empty journal where [`map`] says.
pub(crate) fn empty_journal() -> Vec<u8> {
    let mut bytes = vec![0; BLOCK * BLOCKS as usize];
    let sb = JournalSuperblock::new(BLOCK as u32, 1024, [9; 16]);
    bytes[40 * BLOCK..40 * BLOCK + 1024].copy_from_slice(&sb.encode());
    bytes
}

pub(crate) struct Bench {
    pub(crate) store: Arc<dyn Below>,
    pub(crate) domain: Arc<PowerDomain>,
    pub(crate) client: Arc<TestClient>,
    pub(crate) env: Arc<Fixed>,
    pub(crate) engine: Box<dyn Engine>,
    pub(crate) base: Vec<u8>,
    pool_base: Option<Vec<u8>>,
    pub(crate) nvm: Option<Arc<Nvm>>,
}

pub(crate) fn config() -> Config {
    Config {
        commit_interval: 5,
        dirty_bytes: 1 << 20,
        kept_bytes: Some(1 << 20),
        device: DeviceClass::Disk,
        cache_bytes: 1 << 20,
        pending_bytes: 1 << 20,
        journaled_data: true,
        discard: false,
        zeroing: false,
        checkpoint_threads: None,
    }
}

pub(crate) fn bench(rig: &dyn Rig) -> Bench {
    bench_with(rig, config())
}

pub(crate) fn bench_with(rig: &dyn Rig, config: Config) -> Bench {
    let domain = PowerDomain::new();
    let mut home = None;
    let (base, store): (Vec<u8>, Arc<dyn Below>) = match rig.lines() {
        Some(lines) => {
            let base = disks::in_pool(&Layer::new(rig.empty()), lines, rig.log(), Domain::Adr).to_bytes();
            let pool = Pool::open(Nvm::from_bytes(&base).unwrap().record(domain.clone(), 0)).unwrap();
            let table = PageTable::attach(&pool).unwrap();
            home = (rig.log() > 0).then_some(pool);
            (base, Arc::new(Faulty::new(table)))
        }
        None => {
            let ram = RamStore::from_bytes(rig.empty());
            let ram = rig.batch().into_iter().fold(ram, RamStore::with_batches);
            (rig.empty(), Arc::new(Recorder::new(Faulty::new(ram), 0, domain.clone())))
        }
    };
    let client = Arc::new(TestClient::default());
    let env = Arc::new(Fixed::new(Timestamp { sec: 1_000_000, nsec: 0 }, 1));
    let pool_base = rig.pool();
    let recorded = |bytes: &Vec<u8>| Nvm::from_bytes(bytes).unwrap().record(domain.clone(), 1);
    let pool = home.or_else(|| pool_base.as_ref().map(|bytes| Pool::open(recorded(bytes)).unwrap()));
    let nvm = pool.as_ref().map(|pool| pool.nvm().clone());
    let ground = Ground { store: store.clone(), pool, client: client.clone(), env: env.clone() };
    let engine = rig.open(ground, config);
    Bench { store, domain, client, env, engine, base, pool_base, nvm }
}

/// A pool as these bytes have it.
pub(crate) fn pool_of(bytes: &[u8]) -> Pool {
    Pool::open(Nvm::from_bytes(bytes).unwrap()).unwrap()
}

/// A pool as these bytes have it, but for the line that has one of them, which is lost.
pub(crate) fn pool_without(bytes: &[u8], lost: u64) -> Pool {
    let nvm = Nvm::from_bytes(bytes).unwrap();
    nvm.poison().add_line(lost);
    Pool::open(nvm).unwrap()
}

impl Bench {
    pub(crate) fn handle(&self, blocks: u32) -> Handle<'_> {
        Handle::begin(&*self.engine, blocks).expect("journal space")
    }

    /// Closes a handle that fills `block` with `byte`.
    pub(crate) fn fill(&self, block: u64, byte: u8) {
        let mut h = self.handle(1);
        h.write(block, META, 0, &[byte; BLOCK]).unwrap();
        h.close();
    }

    pub(crate) fn sync(&self) {
        self.engine.wait(self.engine.tid()).unwrap();
    }

    pub(crate) fn first_byte(&self, block: u64) -> u8 {
        self.engine.read(block, META).unwrap()[0]
    }

    /// The medium as a crash right now would leave it if everything that was written had arrived.
    pub(crate) fn crashed(&self, rig: &dyn Rig) -> Arc<RamStore> {
        if rig.log() > 0 {
            return recovered(rig, pool_of(&self.nvm.as_ref().unwrap().to_bytes().unwrap()));
        }
        let after = Arc::new(RamStore::from_bytes(self.store.bytes()));
        rig.recover(after.clone(), self.nvm.as_ref().map(|nvm| pool_of(&nvm.to_bytes().unwrap())));
        after
    }

    /// What medium and pool hold now.
    pub(crate) fn now(&self) -> (Vec<u8>, Vec<u8>) {
        let pool = self.nvm.as_ref().map(|nvm| nvm.to_bytes().unwrap()).unwrap_or_default();
        (self.store.bytes(), pool)
    }

    /// Has `judge` look at media as cuts of power leave them, after recovery, with the last mark before. Returns how
    /// many.
    pub(crate) fn explore(&self, rig: &dyn Rig, sampling: Sampling, judge: impl Fn(&RamStore, u64)) -> usize {
        let medium = |bytes: &Vec<u8>, kind| Medium { base: Layer::new(bytes.clone()), kind, whole: None };
        let home = match (rig.lines(), rig.batch()) {
            (Some(_), _) => ondol_power::Kind::Nvm,
            (None, Some(_)) => ondol_power::Kind::Batches,
            (None, None) => ondol_power::Kind::Block,
        };
        let mut media = vec![medium(&self.base, home)];
        media.extend(self.pool_base.iter().map(|bytes| medium(bytes, ondol_power::Kind::Nvm)));
        let events = self.domain.take();
        // Records come to many events, and a pool to many bytes.
        let about = if rig.lines().is_some() { 600 } else { 2_000 };
        let is_nvm = media.len() > 1 || rig.lines().is_some();
        let sampling = if is_nvm { sampling.spread(&media, &events, |_| false, about) } else { sampling };
        sampling.each(&media, &events, |layers, synced| {
            if rig.log() > 0 {
                judge(&recovered(rig, pool_of(&layers[0].to_bytes())), synced);
                return;
            }
            let home = disks::images(&layers[..1]).unwrap().remove(0);
            let after = Arc::new(RamStore::from_bytes(home.to_bytes()));
            rig.recover(after.clone(), layers.get(1).map(|layer| pool_of(&layer.to_bytes())));
            judge(&after, synced);
        })
    }
}

/// The image in a pool, after recovery from the log in the same pool.
pub(crate) fn recovered(rig: &dyn Rig, pool: Pool) -> Arc<RamStore> {
    let table = Arc::new(PageTable::attach(&pool).unwrap());
    rig.recover(table.clone(), Some(pool));
    let mut image = vec![0; table.size() as usize];
    table.read(0, &mut image).unwrap();
    Arc::new(RamStore::from_bytes(image))
}

pub(crate) fn byte_at(store: &dyn BlockStore, block: u64) -> u8 {
    let mut b = [0];
    store.read(block * BLOCK as u64, &mut b).unwrap();
    b[0]
}
