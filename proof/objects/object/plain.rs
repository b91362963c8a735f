//! What any block store must do, and what this one costs.

use super::*;
use ondol_block::BlockError;
use ondol_object_home::{BATCH, Border, What};
use ondol_stores::unruly::Plan;
use std::io::IoSlice;
use std::sync::Barrier;

/// Random writes, discards, batches and flushes against plain bytes; then the volume is closed or dropped, and opened
/// again.
fn against_model(chunk: u64, seed: u64, rounds: u64) {
    const SIZE: u64 = 1 << 20;
    let store = unruly();
    let mut random = Random(seed);
    let mut model = vec![0; SIZE as usize];
    let making = Making { size: SIZE, chunk: ChunkSize::new(chunk).unwrap() };
    let mut home = Home::make(&bucket(store.clone()), making, &opening()).unwrap();
    for round in 0..rounds {
        for _ in 0..40 {
            step(&home, chunk, &mut random, &mut model);
        }
        assert!(read(&home, 0, SIZE as usize) == model, "round {round}");
        match random.below(3) {
            0 => home.close().unwrap(),
            _ => home.flush().unwrap(),
        }
        drop(home);
        home = open(&store);
        assert!(read(&home, 0, SIZE as usize) == model, "round {round}, opened again");
        assert_eq!(home.epoch(), round + 2);
    }
}

fn step(home: &Home, chunk: u64, random: &mut Random, model: &mut [u8]) {
    let size = model.len() as u64;
    let bytes = |random: &mut Random, len: u64| -> Vec<u8> {
        let (value, is_empty) = (random.below(256) as u8, random.below(8) == 0);
        (0..len).map(|n| if is_empty { 0 } else { value.wrapping_add((n / 100) as u8) }).collect()
    };
    let mut put = |offset: u64, bytes: &[u8]| model[offset as usize..][..bytes.len()].copy_from_slice(bytes);
    match random.below(10) {
        0..4 => {
            let offset = random.below(size);
            let bytes = {
                let len = random.below((size - offset).min(5 * chunk)) + 1;
                bytes(random, len.min(size - offset))
            };
            let (a, b) = bytes.split_at(random.below(bytes.len() as u64) as usize);
            home.write_vectored(offset, &[IoSlice::new(a), IoSlice::new(b)]).unwrap();
            put(offset, &bytes);
        }
        4 => {
            let (first, n) = (random.below(size / chunk - 8), random.below(8) + 1);
            assert!(home.discard(first * chunk, n * chunk).unwrap());
            put(first * chunk, &vec![0; (n * chunk) as usize]);
        }
        5..8 => {
            // Two writes in blocks of 1 KiB, and a discard, none of which meet.
            let third = size / 3 / chunk * chunk;
            let mut one = |from: u64| {
                let offset = from + random.below(third / 1024 - 20) * 1024;
                let len = (random.below(19) + 1) * 1024;
                (offset, bytes(random, len))
            };
            let (a, b) = (one(0), one(third));
            let discard = (2 * third + random.below(third / chunk - 4) * chunk, 3 * chunk);
            let number = home.submit(&[(a.0, &a.1), (b.0, &b.1)], &[discard]).unwrap();
            [&a, &b].into_iter().for_each(|(offset, bytes)| put(*offset, bytes));
            put(discard.0, &vec![0; discard.1 as usize]);
            if random.below(2) == 0 {
                home.settle(number).unwrap();
            }
        }
        8 => home.flush().unwrap(),
        _ => {
            let offset = random.below(size);
            let len = random.below(size - offset) as usize;
            assert!(read(home, offset, len) == model[offset as usize..][..len]);
        }
    }
}

#[test]
fn a_volume_holds_what_was_written() {
    against_model(4096, 1, 6);
    against_model(16384, 2, 4);
    against_model(65536, 3, 3);
}

#[test]
fn what_was_never_written_and_what_was_discarded_costs_nothing() {
    let store = unruly();
    let terabyte = Making { size: 1 << 40, chunk: ChunkSize::MIN };
    let home = Home::make(&bucket(store.clone()), terabyte, &opening()).unwrap();
    store.record();
    assert!(home.discard(0, 1 << 40).unwrap());
    home.write(1 << 39, &[0; 64 * CHUNK]).unwrap();
    home.flush().unwrap();
    assert_eq!(read(&home, (1 << 39) - 1, 3 * CHUNK), [0; 3 * CHUNK]);
    let puts = log_puts(&store);
    assert!(puts.len() == 1 && puts[0] < 8192, "{puts:?}");
    // What is there is found and deleted, however long the range.
    let last = (1 << 40) - 4096;
    home.write(last, &chunk(1)).unwrap();
    home.write(0, &chunk(2)).unwrap();
    home.flush().unwrap();
    assert!(home.discard(4096, (1 << 40) - 4096).unwrap());
    assert_eq!(read(&home, last, CHUNK), [0; CHUNK]);
    assert_eq!(read_chunk(&home, 0), chunk(2));
    home.close().unwrap();
}

#[test]
fn wrong_calls_are_refused_and_change_nothing() {
    let store = unruly();
    let home = make(&store, 16);
    let end = home.size();
    let out = |e| matches!(e, BlockError::OutOfRange { .. });
    assert!(out(home.write(end - 1, &[1; 2]).unwrap_err()));
    assert!(out(home.read(end, &mut [0]).unwrap_err()));
    assert!(out(home.discard(end, 1).unwrap_err()));
    assert!(out(home.submit(&[(0, &[1; CHUNK]), (end, &[1])], &[]).unwrap_err()));
    assert!(out(home.submit(&[(0, &[1; CHUNK])], &[(1, u64::MAX)]).unwrap_err()));
    let newest = home.newest().unwrap();
    home.settle(newest + 1).unwrap_err();
    home.settle(newest).unwrap();
    home.settle(0).unwrap();
    assert_eq!(read(&home, 0, end as usize), vec![0; end as usize]);
    assert!(!home.caps().read_only && home.caps().durable_flush);
    // A batch that is too large.
    let large = vec![1; BATCH as usize];
    let big = make(&unruly(), 8192);
    assert!(matches!(big.submit(&[(0, &large), (BATCH, &[1])], &[]).unwrap_err(), BlockError::Io { op: "submit", .. }));
    assert_eq!(read_chunk(&big, 0), [0; CHUNK]);
    let number = big.submit(&[(0, &large)], &[]).unwrap();
    big.settle(number).unwrap();
    home.close().unwrap();
    home.close().unwrap();
    assert!(matches!(home.write(0, &[1]), Err(BlockError::ReadOnly { .. })));
    assert!(matches!(home.submit(&[(0, &[1])], &[]), Err(BlockError::ReadOnly { .. })));
    let bucket = bucket(store);
    for size in [0, 4095, 4097] {
        let making = Making { size, chunk: ChunkSize::MIN };
        assert!(matches!(Home::make(&bucket, making, &opening()), Err(HomeError::Size { .. })));
    }
}

#[test]
fn a_volume_is_made_once_and_opened_only_where_one_is() {
    let store = unruly();
    let bucket = bucket(store.clone());
    assert!(matches!(Home::open(&bucket, &opening()), Err(HomeError::Missing { .. })));
    assert!(matches!(Home::view(&bucket, &What::Newest, &opening()), Err(HomeError::Missing { .. })));
    assert_eq!(store.counts().puts, 0);
    let home = make(&store, 16);
    home.write(0, &chunk(1)).unwrap();
    home.flush().unwrap();
    let taken = Home::make(&bucket, making(16), &opening()).unwrap_err();
    assert!(matches!(taken, HomeError::Exists { .. }), "{taken}");
    // Whoever was refused has fenced nobody.
    home.write(at(1), &chunk(2)).unwrap();
    home.flush().unwrap();
    drop(home);
    let home = open(&store);
    assert_eq!((read_chunk(&home, 0), read_chunk(&home, 1)), (chunk(1), chunk(2)));
}

#[test]
fn a_volume_can_be_made_longer_while_it_is_used() {
    let store = unruly();
    let home = make(&store, 4);
    home.write(at(3), &chunk(3)).unwrap();
    home.lengthen(at(8)).unwrap();
    home.lengthen(at(6)).unwrap();
    assert_eq!(home.size(), at(8));
    // A home is one of whole chunks.
    home.lengthen(at(8) + 1).unwrap();
    assert_eq!(home.size(), at(9));
    assert_eq!(read(&home, at(3), 6 * CHUNK), [chunk(3), vec![0; 5 * CHUNK]].concat());
    drop(home);
    let home = open(&store);
    assert_eq!(home.size(), at(9));
    home.write(at(7), &chunk(7)).unwrap();
    home.close().unwrap();
    let home = open(&store);
    assert_eq!((home.size(), read_chunk(&home, 7)), (at(9), chunk(7)));
}

#[test]
fn many_who_settle_at_once_share_a_put() {
    const THREADS: u64 = 16;
    let store = unruly();
    let home = make(&store, THREADS);
    store.follow(Plan { latency: Duration::from_millis(300), ..Plan::default() });
    store.record();
    let barrier = Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        for n in 0..THREADS {
            let (home, barrier) = (&home, &barrier);
            scope.spawn(move || {
                barrier.wait();
                let number = home.submit(&[(at(n), &chunk(n + 1))], &[]).unwrap();
                home.settle(number).unwrap();
            });
        }
    });
    let puts = log_puts(&store).len() as u64;
    assert!(puts <= THREADS / 2, "{puts}");
    store.follow(Plan::default());
    drop(home);
    let home = open(&store);
    assert!((0..THREADS).all(|n| read_chunk(&home, n) == chunk(n + 1)));
}

#[test]
fn one_put_makes_a_batch_durable_and_nothing_to_settle_costs_nothing() {
    let store = unruly();
    let home = make(&store, 64);
    store.record();
    for n in 0..10 {
        let number = home.submit(&[(at(n), &chunk(n)), (at(n + 20), &chunk(n))], &[(at(40), at(2))]).unwrap();
        home.settle(number).unwrap();
        home.settle(number).unwrap();
        home.flush().unwrap();
    }
    assert_eq!(log_puts(&store).len(), 10);
    home.close().unwrap();
}

#[test]
fn calls_may_come_from_threads_of_another_runtime() {
    let (store, other) = (unruly(), Border::new(1).unwrap());
    let found = other.wait(async move {
        let home = make(&store, 4);
        home.write(0, &chunk(1)).unwrap();
        home.flush().unwrap();
        let found = read_chunk(&home, 0);
        home.close().unwrap();
        found
    });
    assert_eq!(found, chunk(1));
}

#[test]
fn what_is_written_in_a_directory_is_there_for_the_next_process() {
    let dir = tempfile::tempdir().unwrap();
    let place = ondol_object_home::Place::parse(&format!("file://{}/volume", dir.path().display())).unwrap().unwrap();
    let home = Home::make(&place.bucket(true).unwrap(), making(600), &opening()).unwrap();
    for n in 0..600 {
        home.write(at(n), &chunk(n)).unwrap();
        if n % 50 == 0 {
            home.flush().unwrap();
        }
    }
    home.close().unwrap();
    // It was given back: nobody is taken over from.
    let polite = Opening { take_over: false, ..opening() };
    let home = Home::open(&place.bucket(false).unwrap(), &polite).unwrap();
    assert!((0..600).all(|n| read_chunk(&home, n) == chunk(n)));
    home.close().unwrap();
}

#[test]
fn damage_is_an_error_that_says_where() {
    let store = unruly();
    let home = make(&store, 8);
    home.write(at(5), &chunk(5)).unwrap();
    home.close().unwrap();
    let spoil = |key: Vec<u8>, value: &'static [u8]| {
        let store: Arc<dyn ObjectStore> = Arc::new(store.clone());
        Border::new(1).unwrap().wait(async move {
            let db = slatedb::Db::open("some/volume/db", store).await.unwrap();
            db.put(key, value).await.unwrap();
            db.close().await.unwrap();
        });
    };
    spoil(ondol_object_home::ChunkFormat::key(5).to_vec(), b"not a chunk");
    let home = open(&store);
    let e = home.read(at(4), &mut [0; 2 * CHUNK]).unwrap_err();
    assert!(matches!(cause(&e), HomeError::Chunk { .. }) && e.to_string().contains("chunk 5"), "{e}");
    assert_eq!(read_chunk(&home, 4), [0; CHUNK]);
    home.close().unwrap();
    spoil(b"t".to_vec(), b"not a record");
    let e = Home::open(&bucket(store.clone()), &opening()).unwrap_err();
    assert!(matches!(e, HomeError::Damaged { .. }) && e.to_string().contains("newest batch"), "{e}");
    spoil(b"h".to_vec(), b"not a header");
    for e in [
        Home::open(&bucket(store.clone()), &opening()).unwrap_err(),
        Home::view(&bucket(store.clone()), &What::Newest, &opening()).unwrap_err(),
    ] {
        assert!(matches!(e, HomeError::Damaged { .. }) && e.to_string().contains("header"), "{e}");
    }
}
