//! Volumes with a local log: what is acknowledged is there with the log, and the bucket alone is a prefix.

mod bounds;
mod crash;
mod damage;
mod refuse;
mod takeover;

use super::*;
use ondol_env::sync::Mutex;
use ondol_object_home::object_store::ObjectStoreExt;
use ondol_object_home::{Border, Local, LogContents, LogMedium};
use ondol_power::{Event as PowerEvent, PowerDomain};
use ondol_stores::unruly::{Answer, Plan};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// Nothing is shipped unless somebody asks, or more than an eighth of the bound waits.
pub(super) const NEVER: Duration = Duration::from_secs(36000);

/// Every request fails.
fn away() -> Plan {
    Plan { fail_before: 1000, ..Plan::default() }
}

/// A log in memory. It notes what happens to it in a power domain, and how far the store and the driver were then.
#[derive(Debug)]
pub(super) struct Tape {
    bytes: Mutex<Vec<u8>>,
    unit: u64,
    noted: Option<Noted>,
    fails: AtomicBool,
}

#[derive(Clone, Debug)]
struct Noted {
    domain: Arc<PowerDomain>,
    store: Unruly,
    /// The newest batch that was acknowledged.
    acknowledged: Arc<AtomicU64>,
}

impl Noted {
    fn new(store: &Unruly) -> Self {
        Self { domain: PowerDomain::new(), store: store.clone(), acknowledged: Arc::default() }
    }

    /// So many changes of the store were asked for or answered, and so much is acknowledged.
    fn mark(&self) {
        self.domain.mark((self.store.events().len() as u64) << 32 | self.acknowledged.load(SeqCst));
    }

    fn acknowledge(&self, number: u64) {
        self.acknowledged.store(number, SeqCst);
        self.mark();
    }
}

impl Tape {
    fn of(bytes: Vec<u8>, unit: u64, noted: Option<Noted>) -> Arc<Self> {
        Arc::new(Self { bytes: Mutex::new(bytes), unit, noted, fails: AtomicBool::new(false) })
    }

    /// With a ring of so many bytes.
    pub(super) fn new(ring: usize) -> Arc<Self> {
        Self::of(vec![0; 8192 + ring], 4096, None)
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().clone()
    }

    fn note(&self, event: impl FnOnce() -> PowerEvent) {
        if let Some(noted) = &self.noted {
            noted.mark();
            noted.domain.push(event());
        }
    }
}

impl LogMedium for Tape {
    fn name(&self) -> &str {
        "the log"
    }

    fn size(&self) -> u64 {
        self.bytes.lock().len() as u64
    }

    fn unit(&self) -> u64 {
        self.unit
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<()> {
        buf.copy_from_slice(&self.bytes.lock()[offset as usize..][..buf.len()]);
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
        self.bytes.lock()[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        self.note(|| PowerEvent::Write { medium: 0, offset, bytes: bytes.into() });
        Ok(())
    }

    fn persist(&self) -> std::io::Result<()> {
        if self.fails.load(SeqCst) {
            return Err(std::io::Error::other("on purpose"));
        }
        self.note(|| PowerEvent::Flush { medium: 0 });
        Ok(())
    }
}

/// Another medium, of which it is noted how far the store is before something happens to it.
#[derive(Debug)]
struct Marked<M>(M, Noted);

impl<M: LogMedium> LogMedium for Marked<M> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn size(&self) -> u64 {
        self.0.size()
    }

    fn unit(&self) -> u64 {
        self.0.unit()
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<()> {
        self.0.read(offset, buf)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
        self.1.mark();
        self.0.write(offset, bytes)
    }

    fn persist(&self) -> std::io::Result<()> {
        self.1.mark();
        self.0.persist()
    }
}

fn local(medium: &Arc<impl LogMedium + 'static>, gather: Duration) -> Local {
    Local { gather, lag_time: NEVER, ..Local::new(medium.clone()) }
}

pub(super) fn with(medium: &Arc<impl LogMedium + 'static>, gather: Duration) -> Opening {
    Opening { local: Some(local(medium, gather)), ..opening() }
}

/// Opens with a log that holds `bytes`.
pub(super) fn open_with(store: &Unruly, bytes: Vec<u8>) -> Result<Home, HomeError> {
    Home::open(&bucket(store.clone()), &with(&Tape::of(bytes, 4096, None), NEVER))
}

/// A log whose contents may be lost.
pub(super) fn without(log: [u8; 16]) -> Opening {
    Opening { give_up: vec![log], ..opening() }
}

pub(super) fn make_with(store: &Unruly, chunks: u64, opening: &Opening) -> Home {
    Home::make(&bucket(store.clone()), making(chunks), opening).unwrap()
}

/// Writes a chunk and has it acknowledged.
pub(super) fn commit(home: &Home, number: u64, seed: u64) -> u64 {
    let batch = home.submit(&[(at(number), &chunk(seed))], &[]).unwrap();
    home.settle(batch).unwrap();
    batch
}

fn contents(bytes: Vec<u8>) -> LogContents {
    let medium: Arc<dyn LogMedium> = Tape::of(bytes, 4096, None);
    LogContents::of(&medium).unwrap().unwrap()
}

/// Waits until everything is in the bucket.
fn await_shipped(home: &Home) {
    while home.lag().unwrap().batches > 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The objects of a store.
type Objects = BTreeMap<Path, Vec<u8>>;

fn objects_of(store: &Unruly) -> Objects {
    let (store, border) = (store.clone(), Border::new(1).unwrap());
    border.wait(async move {
        let mut objects = Objects::new();
        let inner = store.inner().clone();
        let mut folders = vec![None];
        while let Some(folder) = folders.pop() {
            let listed = inner.list_with_delimiter(folder.as_ref()).await.unwrap();
            folders.extend(listed.common_prefixes.into_iter().map(Some));
            for meta in listed.objects {
                let got = inner.get(&meta.location).await.unwrap();
                objects.insert(meta.location, got.bytes().await.unwrap().to_vec());
            }
        }
        objects
    })
}

/// A store that holds these objects.
fn store_of(objects: &Objects) -> Unruly {
    let (objects, border) = (objects.clone(), Border::new(1).unwrap());
    let inner = border.wait(async move {
        let store = InMemory::new();
        for (path, bytes) in objects {
            store.put(&path, bytes.into()).await.unwrap();
        }
        store
    });
    Unruly::new(Arc::new(inner))
}

/// What becomes of `base` by the first events: what was answered is there, and of what was asked and not answered all
/// or nothing.
fn after(base: &Objects, events: &[Event], with_open: bool) -> Objects {
    let (mut objects, mut asked) = (base.clone(), BTreeMap::new());
    let apply = |objects: &mut Objects, request: &Request| match request {
        Request::Put { path, bytes, .. } => drop(objects.insert(path.clone(), bytes.to_vec())),
        Request::Delete { path } => drop(objects.remove(path)),
        other => panic!("{other:?} cannot be done again"),
    };
    for event in events {
        match event {
            Event::Asked { id, request } => drop(asked.insert(*id, request)),
            Event::Answered { id, answer } => {
                let request = asked.remove(id).unwrap();
                if *answer == Answer::Done {
                    apply(&mut objects, request);
                }
            }
        }
    }
    for request in asked.into_values().filter(|_| with_open) {
        // A put that is there already would be refused: all of ours are creates, or of a name that is new.
        if !matches!(request, Request::Put { path, .. } if objects.contains_key(path)) {
            apply(&mut objects, request);
        }
    }
    objects
}
