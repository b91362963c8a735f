//! What reading asks of the store, and how much of it at once.

use super::*;
use ondol_object_home::What;
use ondol_stores::unruly::Plan;

/// Bytes of the volumes here.
const VOLUME: u64 = 48 << 20;

/// A volume full of bytes that LZ4 can do nothing with, with some blocks written again, opened anew while the store
/// follows a plan.
fn full(store: &Unruly, chunk: u64, plan: Plan) -> (Home, Vec<u8>) {
    let making = making_of(chunk, VOLUME / 4096);
    // What is read ahead is in this cache.
    let opening = Opening { object: 4 << 20, cache: 64 << 20, ..opening() };
    let home = Home::make(&bucket(store.clone()), making, &opening).unwrap();
    let mut random = Random(chunk);
    let mut bytes: Vec<u8> = (0..VOLUME / 8).flat_map(|_| random.below(u64::MAX).to_le_bytes()).collect();
    for (n, batch) in bytes.chunks(4 << 20).enumerate() {
        home.submit(&[((n as u64) << 22, batch)], &[]).unwrap();
    }
    home.flush().unwrap();
    // As metadata is: a few blocks with each object.
    for n in 0..8 {
        let (at, new) = ((n % 3) * 8192, vec![n as u8 + 1; 4096]);
        home.submit(&[(at, &new)], &[]).unwrap();
        bytes[at as usize..][..4096].copy_from_slice(&new);
    }
    home.close().unwrap();
    drop(home);
    store.follow(plan);
    let bucket = bucket(store.clone());
    (Home::view(&bucket, &What::Now, &opening).unwrap(), bytes)
}

/// Gets, and the most at once, of reads in order.
fn in_order(store: &Unruly, home: &Home, bytes: &[u8], len: usize) -> (u64, u64) {
    store.most_gets();
    let before = store.counts().gets;
    for (n, expected) in bytes.chunks(len).enumerate() {
        assert!(read(home, (n * len) as u64, expected.len()) == expected, "{n} of {len}");
    }
    (store.counts().gets - before, store.most_gets())
}

#[test]
fn reads_in_order_are_few_requests_and_several_at_once() {
    for chunk in SIZES {
        for len in [4 << 10, 128 << 10, 1 << 20] {
            let store = unruly();
            // Far enough that a busy machine asks many times before the first answer.
            let far = Plan { latency: Duration::from_millis(60), ..Plan::default() };
            let (home, bytes) = full(&store, chunk, far);
            let down = home.requests().down;
            let (gets, at_once) = in_order(&store, &home, &bytes, len);
            let down = home.requests().down - down;
            assert!(down <= VOLUME + VOLUME / 8, "chunks of {chunk}, reads of {len}: {down} bytes");
            // Up to 2 MiB each, which may lie in two objects; fewer while it is not sure yet that it goes on; indexes
            // and filters of twelve objects.
            assert!(gets <= 140, "chunks of {chunk}, reads of {len}: {gets} gets");
            assert!(at_once >= 4, "chunks of {chunk}, reads of {len}: {at_once} at once");
        }
    }
}

#[test]
fn a_read_here_and_there_takes_little_more_than_one_request() {
    let store = unruly();
    let (home, bytes) = full(&store, 4096, Plan::default());
    // Indexes and filters come first.
    (0..VOLUME).step_by(1 << 20).for_each(|at| drop(read(&home, at, 4096)));
    let mut random = Random(1);
    let before = store.counts();
    for _ in 0..200 {
        let at = random.below(VOLUME / 4096) * 4096;
        assert!(read(&home, at, 4096) == bytes[at as usize..][..4096], "{at}");
    }
    let gets = store.counts().gets - before.gets;
    assert!(gets <= 300, "{gets} gets for 200 reads");
}

/// What was asked for before a change is not what is read after it.
#[test]
fn what_is_written_ahead_of_a_reader_is_read() {
    for chunk in SIZES {
        let store = unruly();
        let making = making_of(chunk, VOLUME / 4096);
        let home = Home::make(&bucket(store.clone()), making, &Opening { object: 4 << 20, ..opening() }).unwrap();
        let mut model = vec![7u8; 16 << 20];
        home.submit(&[(0, &model)], &[]).unwrap();
        home.flush().unwrap();
        let (mut random, len) = (Random(chunk), 64 << 10);
        for n in 0..model.len() / len {
            let from = n * len;
            assert!(read(&home, from as u64, len) == model[from..][..len], "{n}");
            // Right before the reader, by each of the ways.
            let left = (model.len() - from - len) as u64;
            if left > 2 << 20 {
                let at = from as u64 + len as u64 + random.below((2 << 20) / chunk) * chunk;
                let new = vec![n as u8; 5000];
                match n % 3 {
                    0 => home.write(at, &new).unwrap(),
                    1 => drop(home.submit(&[(at, &new)], &[]).unwrap()),
                    _ => assert!(home.discard(at, chunk).unwrap()),
                }
                let (new, len) = if n % 3 == 2 { (vec![0; chunk as usize], chunk as usize) } else { (new, 5000) };
                model[at as usize..][..len].copy_from_slice(&new);
            }
        }
        home.close().unwrap();
    }
}

/// Parts of chunks are written again and again: what stays of them is asked for at once, and not again.
#[test]
fn parts_of_chunks_are_asked_for_at_once_and_once() {
    let store = unruly();
    let chunk = 64 << 10;
    let (home, mut bytes) = full(&store, chunk, Plan::default());
    drop(home);
    let home = Home::open(&bucket(store.clone()), &opening()).unwrap();
    (0..VOLUME).step_by(1 << 20).for_each(|at| drop(read(&home, at + chunk, 4096)));
    store.follow(Plan { latency: Duration::from_millis(30), ..Plan::default() });
    store.most_gets();
    let before = store.counts().gets;
    for round in 0..4u8 {
        let new = vec![round + 1; 4096];
        let writes: Vec<(u64, &[u8])> =
            (0..40).map(|n| (n * (1 << 20) + 2 * chunk + u64::from(round) * 4096, &new[..])).collect();
        let number = home.submit(&writes, &[]).unwrap();
        home.settle(number).unwrap();
        writes.iter().for_each(|(at, new)| bytes[*at as usize..][..4096].copy_from_slice(new));
    }
    let (gets, at_once) = (store.counts().gets - before, store.most_gets());
    // 40 of them, once, and what the compactor reads beside.
    assert!(gets <= 140 && at_once >= 16, "{gets} gets, up to {at_once} at once");
    assert!(read(&home, 0, VOLUME as usize) == bytes);
    home.close().unwrap();
}
