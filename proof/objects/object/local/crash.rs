//! Power is lost between any two events of the log's medium and the store.

use super::*;
use ondol_medium::{Area, AreaKind, Nvm};
use ondol_object_home::RedoNvm;
use ondol_power::{Kind, Layer, Medium, Sampling};

const CHUNKS: u64 = 48;

/// So many batches are acknowledged while the store is away.
const AWAY: u64 = 3;

/// The volume after each batch, by its number.
type States = BTreeMap<u64, Vec<u8>>;

/// Batches of several chunks that overwrite, discard and leave; some are acknowledged, and some of them shipped.
fn run(home: &Home, noted: &Noted, batches: u64) -> States {
    let size = home.chunk().bytes() as u64;
    let mut random = Random(batches);
    let mut model = vec![0; at(CHUNKS) as usize];
    let mut states = States::from([(home.newest().unwrap(), model.clone())]);
    noted.acknowledge(home.newest().unwrap());
    for n in 0..batches {
        // At first nothing can come to the bucket.
        noted.store.follow(if n < AWAY { away() } else { Plan::default() });
        let first = random.below(CHUNKS - 8);
        let bytes = [chunk(n), chunk(n + 1000)].concat();
        let discard = (at(first + 2), at(random.below(3) + 1));
        let number = home.submit(&[(at(first), &bytes)], &[discard]).unwrap();
        model[at(first) as usize..][..bytes.len()].copy_from_slice(&bytes);
        model[unused(size, discard.0, discard.1)].fill(0);
        states.insert(number, model.clone());
        if n < AWAY || random.below(3) > 0 {
            home.settle(number).unwrap();
            noted.acknowledge(number);
        }
        if n == batches / 2 {
            // Everything comes to the bucket.
            home.snapshot("half").unwrap();
            noted.acknowledge(number);
        }
    }
    states
}

/// The state that an open volume is in, by its number.
fn state(home: &Home, states: &States, what: &str) -> u64 {
    // The opening itself is a batch.
    let found = home.newest().unwrap() - 1;
    let (number, state) = states.range(..=found).next_back().unwrap_or_else(|| panic!("{what}: batch {found}"));
    assert!(read(home, 0, at(CHUNKS) as usize) == *state, "{what}: not the state after batch {number}");
    *number
}

struct Run {
    store: Vec<Event>,
    media: [Medium; 1],
    events: Vec<PowerEvent>,
    states: States,
    log: [u8; 16],
}

/// Cuts the run everywhere, and opens what is left: with the log, and without it. In how many states the bucket alone
/// had less than was acknowledged.
fn judge(run: &Run, most: u64, open: impl Fn(&Unruly, Vec<u8>) -> Result<Home, HomeError>) -> u64 {
    let is_mark = |n: usize| matches!(run.events[n - 1], PowerEvent::Mark(_));
    let sampling = Sampling::default().at_most(16).spread(&run.media, &run.events, is_mark, most);
    let (mut judged, mut longer, mut shorter) = (0, 0, 0);
    sampling.each(&run.media, &run.events, |layers, mark| {
        let (happened, acknowledged) = ((mark >> 32) as usize, mark & u64::from(u32::MAX));
        let objects = after(&Objects::new(), &run.store[..happened], judged % 2 == 0);
        if acknowledged == 0 {
            // The volume is being made.
            match open(&store_of(&objects), layers[0].to_bytes()) {
                Ok(_) | Err(HomeError::Missing { .. }) => return,
                Err(e) => panic!("after {happened} events of the store: {e}"),
            }
        }
        judged += 1;
        let what = format!("after {happened} events of the store, with {acknowledged} acknowledged");
        let home = open(&store_of(&objects), layers[0].to_bytes()).unwrap_or_else(|e| panic!("{what}: {e}"));
        let found = state(&home, &run.states, &what);
        assert!(found >= acknowledged, "{what}: only {found} is there");
        longer += u64::from(found > acknowledged);
        drop(home);
        let home = Home::open(&bucket(store_of(&objects)), &without(run.log)).unwrap();
        shorter += u64::from(state(&home, &run.states, &what) < acknowledged);
    });
    assert!(judged > most / 4 && longer > 0, "{judged} {longer}");
    shorter
}

/// On a medium with writes and flushes. The ring holds few records: it wraps several times.
fn run_on_tape(size: u64, gather: Duration, batches: u64) -> Run {
    let store = unruly();
    store.record();
    let noted = Noted::new(&store);
    let zeros = vec![0; 8192 + 16 * size as usize];
    let tape = Tape::of(zeros.clone(), 4096, Some(noted.clone()));
    let home = Home::make(&bucket(store.clone()), making_of(size, CHUNKS), &with(&tape, gather)).unwrap();
    let log = home.log().unwrap();
    let states = run(&home, &noted, batches);
    drop(home);
    let media = [Medium { base: Layer::new(zeros), kind: Kind::Block, whole: None }];
    Run { store: store.events(), media, events: noted.domain.take(), states, log }
}

#[test]
fn every_cut_of_a_log_that_is_shipped_late_leaves_what_was_acknowledged() {
    for (size, most) in SIZES.into_iter().zip([120, 60, 60]) {
        assert!(judge(&run_on_tape(size, NEVER, 24), most, open_with) > 0, "chunks of {size}");
    }
}

#[test]
fn every_cut_of_a_log_that_is_shipped_at_once_leaves_what_was_acknowledged() {
    judge(&run_on_tape(4 << 10, Duration::from_millis(2), 24), 80, open_with);
}

fn area(len: u64) -> Area {
    Area { kind: AreaKind::HOME_LOG, start: 4096, len }
}

#[test]
fn every_cut_of_a_log_in_memory_that_loses_its_caches_leaves_what_was_acknowledged() {
    let store = unruly();
    store.record();
    let noted = Noted::new(&store);
    let len = 8192 + (32 << 10);
    let nvm = Nvm::volatile(4096 + len).unwrap().record(noted.domain.clone(), 0);
    let medium = Arc::new(Marked(RedoNvm::new(Arc::new(nvm), area(len)), noted.clone()));
    let home = make_with(&store, CHUNKS, &with(&medium, NEVER));
    let log = home.log().unwrap();
    let states = run(&home, &noted, 16);
    drop(home);
    let base = Layer::new(vec![0; 4096 + len as usize]);
    let media = [Medium { base, kind: Kind::Nvm, whole: None }];
    let run = Run { store: store.events(), media, events: noted.domain.take(), states, log };
    let shorter = judge(&run, 80, |store, bytes| {
        let medium = RedoNvm::new(Arc::new(Nvm::from_bytes(&bytes).unwrap()), area(len));
        Home::open(&bucket(store.clone()), &with(&Arc::new(medium), NEVER))
    });
    assert!(shorter > 0);
}

#[test]
fn a_replay_may_be_cut_and_repeated() {
    let store = unruly();
    let tape = Tape::new(1 << 20);
    let home = make_with(&store, CHUNKS, &with(&tape, NEVER));
    let first = home.newest().unwrap();
    (0..12).for_each(|n| _ = commit(&home, n, n));
    drop(home);
    let (objects, log) = (objects_of(&store), tape.bytes());
    let expected =
        |home: &Home| (0..CHUNKS).all(|n| read_chunk(home, n) == if n < 12 { chunk(n) } else { vec![0; CHUNK] });

    let store = store_of(&objects);
    store.record();
    let noted = Noted::new(&store);
    let tape = Tape::of(log.clone(), 4096, Some(noted.clone()));
    let home = Home::open(&bucket(store.clone()), &with(&tape, NEVER)).unwrap();
    assert!(expected(&home) && home.newest().unwrap() == first + 13 && home.lag().unwrap().batches == 0);
    drop(home);
    let (events, changes) = (store.events(), noted.domain.take());
    let media = [Medium { base: Layer::new(log.clone()), kind: Kind::Block, whole: None }];
    let mut cuts: Vec<(usize, Vec<u8>)> = Vec::new();
    // The log is changed when everything is in the bucket, and not before.
    let marks = changes
        .iter()
        .filter_map(|event| if let PowerEvent::Mark(mark) = event { Some((mark >> 32) as usize) } else { None });
    let marks: Vec<usize> = marks.collect();
    cuts.extend((0..=marks[0]).map(|cut| (cut, log.clone())));
    Sampling::default().at_most(8).each(&media, &changes, |layers, mark| {
        if mark > 0 {
            cuts.push(((mark >> 32) as usize, layers[0].to_bytes()));
        }
    });
    cuts.extend((marks[marks.len() - 1]..=events.len()).map(|cut| (cut, tape.bytes())));
    assert!(cuts.len() > 20, "{}", cuts.len());
    for (n, (cut, bytes)) in cuts.into_iter().enumerate() {
        let store = store_of(&after(&objects, &events[..cut], n % 2 == 0));
        let home = open_with(&store, bytes).unwrap_or_else(|e| panic!("cut {cut} of {}: {e}", events.len()));
        assert!(expected(&home), "cut {cut}");
    }
}
