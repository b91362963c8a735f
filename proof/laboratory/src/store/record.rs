//! A run on a volume in a store.

use super::explore::Sequence;
use super::tape::Tape;
use super::{Terms, bucket};
use crate::log::Log;
use crate::prey::Prey;
use crate::run::{self, Run};
use crate::workload::Workload;
use ondol::{Access, Durable, Media};
use ondol_block::BlockStore;
use ondol_env::sync::Mutex;
use ondol_object_home::{ChunkSize, Home, LogMedium, Making};
use ondol_power::{Event, Kind, Layer, Medium, PowerDomain};
use ondol_stores::unruly::{Objects, Plan, StoreCut, Unruly};
use ondol_testkit::op::Op;
use ondol_testkit::target::{Library, Lockstep};
use std::sync::Arc;
use std::time::Duration;

/// A mark that says how much the store was asked and has answered. Marks of calls are below; this is none of a call
/// that began.
const STORE: u64 = 1 << 63;

/// How many events of the store a mark tells of.
pub(super) fn requests_at(event: &Event) -> Option<usize> {
    match event {
        Event::Mark(id) if id & STORE != 0 => Some((id ^ STORE) as usize >> 1),
        _ => None,
    }
}

/// Has everything that `store` is asked and answers noted, and told in `domain`.
pub(super) fn listen(store: &Unruly, domain: &Arc<PowerDomain>) {
    let domain = domain.clone();
    store.record_telling(move |events| domain.mark(STORE | (events as u64) << 1 | 1));
}

/// A recorded run.
pub(super) struct Recording {
    pub(super) run: Run,
    /// The same, with what is there at least if the machine is lost.
    pub(super) lost: Run,
    pub(super) sequence: Sequence,
    pub(super) terms: Terms,
}

/// How long a store takes to answer that has a log before it.
const AWAY: Duration = Duration::from_millis(3);

/// Bytes that are written at once.
const PIECE: usize = 256 << 10;

/// The objects of a volume that holds an image, which nobody has open.
fn made(image: &Layer, terms: &Terms) -> Result<Objects, String> {
    let (store, bytes) = (Objects::default().store(), image.to_bytes());
    let making = Making { size: bytes.len() as u64, chunk: ChunkSize::MIN };
    let home = Home::make(&bucket(&store), making, &terms.opening(None, None)).map_err(|e| e.to_string())?;
    for (at, piece) in (0..).step_by(PIECE).zip(bytes.chunks(PIECE)) {
        if piece.iter().any(|byte| *byte != 0) {
            home.write(at, piece).map_err(|e| e.to_string())?;
        }
    }
    home.flush().map_err(|e| e.to_string())?;
    home.close().map_err(|e| e.to_string())?;
    Ok(Objects::of(&store))
}

/// The volume that calls are made on, opened anew at each remount, and what it lies on then.
struct Opened {
    library: Library,
    media: Arc<Mutex<Option<Media>>>,
    tape: Option<Arc<Tape>>,
}

impl Opened {
    fn new(store: &Unruly, domain: &Arc<PowerDomain>, run: &run::Setup, terms: &Terms) -> Result<Self, String> {
        let zeros = (terms.durable == Durable::Local).then(|| Tape::zeros(terms.ring));
        let tape = zeros.map(|zeros| Tape::of(&zeros, Some(domain.clone())));
        let media = Arc::<Mutex<Option<Media>>>::default();
        let log = tape.clone().map(|tape| -> Arc<dyn LogMedium> { tape });
        let (bucket, terms, shared) = (bucket(store), terms.clone(), media.clone());
        let open = move || {
            let media = Media::at(&bucket, Access::Write, &terms.opening(log.clone(), None))?;
            *shared.lock() = Some(media.clone());
            Ok(media)
        };
        let library = Library::open_by(open, &run.options, run.seed).map_err(|e| e.to_string())?;
        Ok(Self { library, media, tape })
    }
}

/// Does what comes before, then records the calls of a workload.
///
/// # Errors
/// The volume fails, or does not agree with the model.
pub(super) fn record(prey: &Prey, image: &Layer, workload: &Workload, terms: Terms) -> Result<Recording, String> {
    let (base, setup) = (made(image, &terms)?, prey.setup_in_store(workload));
    let (store, domain) = (base.store(), PowerDomain::new());
    listen(&store, &domain);
    let listening = ondol_coverage::listen(true);
    let Opened { library, media, tape } = Opened::new(&store, &domain, &setup, &terms)?;
    let atomic = library.atomic_bytes();
    let mut lockstep = Lockstep::new(library)?;
    let last = if setup.remount { Op::Remount } else { Op::Sync };
    for op in setup.ops.iter().chain([&last]) {
        let _outcome = lockstep.step(op).map_err(|e| e.to_string())?;
    }
    if tape.is_some() {
        // What came before the recording is in the store, too.
        snapshot(lockstep.target(), "begun")?;
        // As far away as makes the log run ahead.
        store.follow(Plan { latency: AWAY, ..Plan::default() });
    }
    let begun = store.events().len();
    drop(domain.take());
    listening.begin_anew();
    let media_before = tape.iter().map(|tape| Medium { base: tape.layer(), kind: Kind::Block, whole: None }).collect();
    let mut run = Run::new(&setup, &workload.calls, atomic, Log::default(), media_before);
    let mut shipped = Vec::new();
    let mut beside = |call: usize, target: &Library| -> Result<(), String> {
        // The database has more than its log then, and says so in a manifest.
        if matches!(workload.calls[call], Op::BringHome | Op::Checkpoint) {
            snapshot(target, &format!("call-{call}"))?;
        }
        let lag = media.lock().as_ref().and_then(Media::lag);
        shipped.push(lag.is_none_or(|lag| lag.transactions == 0));
        Ok(())
    };
    run.go(&mut lockstep, &domain, &mut beside).map_err(|e| e.to_string())?;
    (run.events, run.heard) = (domain.take(), listening.finish());
    let requests = store.events();
    lockstep.compare().map_err(|e| e.to_string())?;
    let covered = run::covered(&run);
    run.end(&covered);
    run.description = prey.describe(workload);
    let mut lost = run.clone();
    lost.end(&shipped_by(&covered, &shipped));
    let mut cut = StoreCut::new(base);
    requests.iter().take(begun).for_each(|event| cut.advance(event));
    let sequence = Sequence::new(run.media.clone(), run.events.clone(), requests, cut, run.heard.clone());
    Ok(Recording { run, lost, sequence, terms })
}

fn snapshot(library: &Library, name: &str) -> Result<(), String> {
    let volume = library.volume().map_err(|e| format!("{e:?}"))?;
    volume.snapshots().create(name).map_err(|e| e.to_string())
}

/// For each call, how many calls from the first on are certainly in the store when it has returned: those that were
/// durable, if nothing waited.
fn shipped_by(covered: &[usize], shipped: &[bool]) -> Vec<usize> {
    let mut durable = 0;
    let one = |(covered, shipped): (&usize, &bool)| {
        durable = durable.max(*covered);
        if *shipped { durable } else { 0 }
    };
    covered.iter().zip(shipped).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shipped_is_what_was_durable_when_nothing_waited() {
        let covered = [0, 2, 0, 4, 0];
        assert_eq!(shipped_by(&covered, &[true, false, true, false, true]), [0, 0, 2, 0, 4]);
    }

    #[test]
    fn marks_of_the_store_are_no_calls() {
        let events = [Event::Mark(4), Event::Mark(5), Event::Mark(STORE | 7 << 1 | 1), Event::Flush { medium: 0 }];
        assert_eq!(events.iter().map(requests_at).collect::<Vec<_>>(), [None, None, Some(7), None]);
        // They begin no call, and none that they could end made anything durable.
        let allowed = run::allowed(&events, &[0, 0, 3]);
        assert_eq!(allowed, [(0, 0), (0, 3), (3, 3), (3, 3), (3, 3)]);
    }

    #[test]
    fn an_image_in_a_store_is_read_as_it_was() {
        let bytes: Vec<u8> = (0..64u32 << 10).map(|n| (n >> 8) as u8).collect();
        let image = Layer::new(bytes);
        let terms = Terms::of(Durable::Remote, crate::workload::Mount::Tight);
        let objects = made(&image, &terms).unwrap();
        let media = Media::at(&bucket(&objects.store()), Access::Write, &terms.opening(None, None)).unwrap();
        assert_eq!(media.size(), 64 << 10);
        assert!(objects.iter().all(|(name, _)| name.starts_with(super::super::PREFIX)));
    }
}
