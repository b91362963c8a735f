use super::*;

const CHUNK: u64 = 4096;
const SIZE: u64 = 1 << 30;

/// As long as it comes: it is not given up.
fn comes(wanted: Wanted) -> Range<u64> {
    let chunks = wanted.chunks.clone();
    std::mem::forget(wanted);
    chunks
}

/// What is asked for while somebody reads `count` times `len` bytes in order.
fn in_order(ahead: &Arc<Ahead>, from: u64, len: u64, count: u64) -> Vec<Range<u64>> {
    (0..count).flat_map(|n| ahead.read(from + n * len, len, SIZE)).map(comes).collect()
}

/// What was asked for of these chunks.
fn find(ahead: &Ahead, chunks: Range<u64>) -> Vec<Part> {
    ahead.find(chunks.start * CHUNK, (chunks.end - chunks.start) * CHUNK)
}

fn held(ahead: &Ahead) -> u64 {
    ahead.inner.lock().pieces.iter().map(|piece| (piece.chunks.end - piece.chunks.start) * CHUNK).sum()
}

#[test]
fn whoever_reads_in_order_finds_everything_asked_for_once_and_never_more_than_was_read() {
    for (chunk, len) in
        [(4096, 4096), (4096, 128 << 10), (16384, 4096), (65536, 4096), (65536, 1 << 20), (4096, 3 << 20)]
    {
        let ahead = Arc::new(Ahead::new(chunk as usize));
        let (mut asked, mut most) = (0, 0);
        for n in 0..(64 << 20) / len {
            let end = (n + 1) * len;
            for chunks in ahead.read(n * len, len, SIZE).into_iter().map(comes) {
                let (from, to) = (chunks.start * chunk, chunks.end * chunk);
                assert!(asked == 0 || from == asked, "{chunk} {len}: {from} after {asked}");
                asked = to;
            }
            let beyond = asked.saturating_sub(end);
            assert!(beyond <= end + chunk && beyond <= BEYOND + chunk, "{chunk} {len}: {beyond} beyond {end}");
            most = most.max(beyond);
            ahead.find(n * len, len);
        }
        assert!(most >= BEYOND - MOST, "{chunk} {len}: {most}");
    }
}

#[test]
fn whoever_reads_here_and_there_asks_for_nothing() {
    let ahead = Arc::new(Ahead::new(4096));
    let mut at = 1u64;
    for _ in 0..1000 {
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let offset = (at >> 20) % (SIZE / CHUNK) * CHUNK;
        assert!(ahead.read(offset, CHUNK, SIZE).is_empty());
    }
    // The same again and again is not in order either.
    for _ in 0..1000 {
        assert!(ahead.read(0, CHUNK, SIZE).is_empty());
    }
}

#[test]
fn several_readers_and_reads_out_of_turn_are_told_apart() {
    let ahead = Arc::new(Ahead::new(4096));
    let len = 128 << 10;
    for n in 0..64u64 {
        for reader in 0..4u64 {
            // Neighbours change places.
            let turn = n ^ 1;
            let from = reader * (SIZE / 4) + turn * len;
            ahead.read(from, len, SIZE).into_iter().map(comes).for_each(drop);
            ahead.find(from, len);
        }
    }
    let inner = ahead.inner.lock();
    assert_eq!(inner.readers.len(), 4);
    for reader in &inner.readers {
        assert!(reader.asked > reader.end && reader.read == 32 * len, "{}", reader.read);
    }
    drop(inner);
    assert!(held(&ahead) <= HELD);
}

#[test]
fn what_is_held_is_bounded_and_goes_with_whoever_wanted_it() {
    let ahead = Arc::new(Ahead::new(4096));
    for reader in 0..40u64 {
        // Asks for more than it ever takes.
        assert!(!in_order(&ahead, reader * (24 << 20), 1 << 20, 20).is_empty(), "{reader}");
        assert!(held(&ahead) <= HELD);
    }
    let found = in_order(&ahead, 0, 1 << 20, 20);
    assert!(!found.is_empty());
}

#[test]
fn what_has_changed_is_not_found_any_more() {
    let ahead = Arc::new(Ahead::new(4096));
    let asked = in_order(&ahead, 0, 1 << 20, 8);
    let (first, last) = (asked[asked.len() - 2].clone(), asked[asked.len() - 1].clone());
    assert_eq!(find(&ahead, first.start..first.start + 1).len(), 1);
    ahead.change(&[first.end - 1]);
    assert!(find(&ahead, first).is_empty());
    assert_eq!(find(&ahead, last.clone()).len(), 1);
    // What was read to the end is gone.
    assert!(find(&ahead, last).is_empty());
}

#[test]
fn values_come_to_whoever_waits_and_so_do_errors() {
    let ahead = Arc::new(Ahead::new(4096));
    ahead.read(0, 1 << 20, SIZE);
    let wanted = ahead.read(1 << 20, 1 << 20, SIZE).remove(0);
    let range = wanted.chunks.clone();
    let part = find(&ahead, range.start + 1..range.start + 3).remove(0);
    let mut values: Values = vec![None; (range.end - range.start) as usize];
    values[2] = Some(Bytes::from_static(b"two"));
    let waits = std::thread::scope(|scope| {
        let waits = scope.spawn(|| part.of(&part.wait().unwrap()).to_vec());
        wanted.put(Ok(values));
        waits.join().unwrap()
    });
    assert_eq!(waits, [None, Some(Bytes::from_static(b"two"))]);
    let next = ahead.read(2 << 20, 1 << 20, SIZE).remove(0);
    let part = find(&ahead, next.chunks.clone()).remove(0);
    let chunks = next.chunks.clone();
    next.put(Err(HomeError::Missing { name: "x".into() }));
    assert!(matches!(part.wait().err(), Some(HomeError::Missing { .. })));
    assert!(find(&ahead, chunks).is_empty());
    // Nobody waits for what was given up.
    let given_up = ahead.read(3 << 20, 1 << 20, SIZE).remove(0);
    let part = find(&ahead, given_up.chunks.clone()).remove(0);
    drop(given_up);
    assert!(part.wait().is_err());
}
