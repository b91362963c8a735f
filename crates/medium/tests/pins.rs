//! Pages that are pinned: what is lent, what is refused, and that nobody sees a page change.

use ondol_medium::{AreaKind, Nvm, NvmError, Owned, Ownership, Pool, PoolSpec, Snapshot, Source};

const PAGE: u64 = 4096;
const SIZE: u64 = 16 * PAGE;

/// A pool with 5 pages that can be pinned, and where the first begins.
fn pinnable() -> (Pool, u64) {
    let areas = vec![(AreaKind::JOURNAL_LOG, 4096), (AreaKind::PAGE_DATA, 5 * PAGE)];
    let pool = Pool::create(Nvm::volatile(SIZE).unwrap(), &PoolSpec { areas, ..PoolSpec::default() }).unwrap();
    let start = pool.area(AreaKind::PAGE_DATA).unwrap().start;
    (pool, start)
}

fn fill(nvm: &Nvm, at: u64, byte: u8) -> Result<(), NvmError> {
    let mut batch = nvm.stored();
    batch.copy(at, &[byte; PAGE as usize])?;
    batch.write_back().fence()?;
    Ok(())
}

#[test]
fn a_pinned_page_is_the_stored_bytes_and_takes_no_store() {
    let (pool, at) = pinnable();
    let nvm = pool.nvm();
    fill(nvm, at, 1).unwrap();
    fill(nvm, at + PAGE, 2).unwrap();
    let before = nvm.stats();
    let pinned = nvm.pin(at, 2 * PAGE).unwrap().unwrap();
    assert_eq!((pinned.len(), pinned.place(), pinned[4095], pinned[4096]), (8192, at, 1, 2));
    assert_eq!(nvm.stats().read_bytes, before.read_bytes, "nothing was copied");
    let is_refused = |stored: Result<(), NvmError>| matches!(stored, Err(NvmError::Pinned { .. }));
    assert!(is_refused(fill(nvm, at, 9)) && is_refused(nvm.shared().store(at + PAGE + 100, b"word")));
    assert!(is_refused(nvm.shared().store_u64(at + 8, 1)) && is_refused(nvm.shared().fetch_add(at + 8, 1).map(drop)));
    // Also where only some of it is.
    assert!(is_refused(nvm.shared().store(at + 2 * PAGE - 4, &[9; 8])));
    assert_eq!((pinned[0], pinned[8191]), (1, 2));
    fill(nvm, at + 2 * PAGE, 3).unwrap();
    let again = nvm.pin(at, PAGE).unwrap().unwrap();
    drop(pinned);
    assert!(is_refused(fill(nvm, at, 9)) && nvm.is_pinned(at, 1) && !nvm.is_pinned(at + PAGE, PAGE));
    drop(again);
    fill(nvm, at, 4).unwrap();
    assert_eq!(nvm.pin(at, PAGE).unwrap().unwrap()[17], 4);
}

#[test]
fn other_places_are_not_pinned() {
    let (pool, at) = pinnable();
    let nvm = pool.nvm();
    let end = at + 5 * PAGE;
    for (offset, len) in [(0, PAGE), (at - PAGE, 2 * PAGE), (end - PAGE, 2 * PAGE), (at, 0)] {
        assert!(nvm.pin(offset, len).unwrap().is_none(), "{len} bytes at {offset}");
    }
    assert!(matches!(nvm.pin(at + 8, PAGE), Err(NvmError::Misaligned { .. })));
    assert!(matches!(nvm.pin(nvm.size(), PAGE), Err(NvmError::OutOfRange { .. })));
    nvm.poison().add_line(at + 100);
    assert!(matches!(nvm.pin(at, PAGE), Err(NvmError::Poisoned { .. })) && !nvm.is_pinned(at, PAGE));
    fill(nvm, at, 1).unwrap();
    assert!(nvm.pin(at, PAGE).unwrap().is_some(), "it is stored anew");
}

/// Which pages can be pinned is said while nobody else has the memory.
#[test]
fn an_area_that_is_allotted_beside_others_is_pinned_when_the_pool_is_opened_again() {
    let mut pool = Pool::create(Nvm::volatile(SIZE).unwrap(), &PoolSpec::default()).unwrap();
    let other = pool.nvm().clone();
    let area = pool.allot(AreaKind::PAGE_DATA, PAGE).unwrap();
    assert!(other.pin(area.start, PAGE).unwrap().is_none());
    let again = Pool::open(Nvm::from_bytes(&other.to_bytes().unwrap()).unwrap()).unwrap();
    assert!(again.nvm().pin(area.start, PAGE).unwrap().is_some());
    let mut alone = Pool::create(Nvm::volatile(SIZE).unwrap(), &PoolSpec::default()).unwrap();
    let area = alone.allot(AreaKind::PAGE_DATA, PAGE).unwrap();
    assert!(alone.nvm().pin(area.start, PAGE).unwrap().is_some());
    assert!(pool.nvm().pin(area.start, PAGE).unwrap().is_none());
}

/// Pages are filled, each time with another byte, by whoever finds them unpinned.
#[test]
#[allow(clippy::disallowed_methods, reason = "a test")]
fn nobody_sees_half_a_page() {
    let (pool, at) = pinnable();
    let nvm = pool.nvm();
    let (mut looked, mut stored) = (0, 0);
    std::thread::scope(|scope| {
        let storing = scope.spawn(|| (0..100_000u32).filter(|n| fill(nvm, at, *n as u8).is_ok()).count());
        while !storing.is_finished() {
            if let Some(pinned) = nvm.pin(at, PAGE).unwrap() {
                let first = pinned[0];
                assert!(pinned.iter().all(|byte| *byte == first) && pinned[..] == [first; PAGE as usize]);
                looked += 1;
            }
        }
        stored = storing.join().unwrap();
    });
    println!("{stored} stores, {looked} pages seen");
    fill(nvm, at, 77).unwrap();
    assert_eq!(nvm.pin(at, PAGE).unwrap().unwrap()[9], 77, "and nobody is left");
}

#[test]
fn a_snapshot_is_one_slice_that_stays_what_it_is() {
    let (pool, at) = pinnable();
    let nvm = pool.nvm();
    (0..5).for_each(|n| fill(nvm, at + n * PAGE, n as u8 + 1).unwrap());
    let bytes = [7; 5000];
    let parts =
        [(Source::Medium(at + 3 * PAGE), 2), (Source::Zeros, 1), (Source::Bytes(&bytes), 2), (Source::Medium(at), 1)];
    let snapshot = Snapshot::new(nvm, &parts).unwrap().unwrap();
    let page = |byte: u8| vec![byte; PAGE as usize];
    let mut whole = [page(4), page(5), page(0), page(7), page(7), page(1)].concat();
    whole[3 * PAGE as usize + 5000..5 * PAGE as usize].fill(0);
    assert!(snapshot[..] == whole);
    let read = nvm.stats().read_bytes;
    assert!(fill(nvm, at + 4 * PAGE, 99).is_err() && fill(nvm, at + PAGE, 98).is_ok());
    // Its second page gets memory of its own, and the medium has its page back.
    assert!(snapshot.part(1) && !snapshot.part(1) && !snapshot.part(2) && !snapshot.part(3) && !snapshot.part(100));
    fill(nvm, at + 4 * PAGE, 99).unwrap();
    assert!(fill(nvm, at + 3 * PAGE, 99).is_err() && snapshot[..] == whole);
    let of_first = nvm.pin(at, PAGE).unwrap().unwrap();
    drop(snapshot);
    fill(nvm, at + 3 * PAGE, 99).unwrap();
    assert!(fill(nvm, at, 99).is_err() && of_first[0] == 1);
    assert_eq!(nvm.stats().read_bytes, read);
}

/// Stores to a snapshot reach no page of the medium, and take pins only from the pages that they lie in.
#[test]
fn a_snapshot_can_be_stored_to() {
    let (pool, at) = pinnable();
    let nvm = pool.nvm();
    (0..5).for_each(|n| fill(nvm, at + n * PAGE, n as u8 + 1).unwrap());
    let parts = [(Source::Medium(at), 4), (Source::Zeros, 1), (Source::Bytes(&[7; 9]), 1)];
    let mut snapshot = Snapshot::new(nvm, &parts).unwrap().unwrap();
    let (parter, page) = (snapshot.parter(), PAGE as usize);
    let mut whole = snapshot.to_vec();
    assert!(parter.part(2) && !parter.part(2));
    for (range, parted) in [
        (page - 1..page + 1, vec![at, at + PAGE]),
        (page..2 * page, vec![]),
        (2 * page + 5..4 * page, vec![at + 3 * PAGE]),
        (4 * page..6 * page, vec![]),
    ] {
        let (bytes, places) = snapshot.bytes_mut(range.clone());
        bytes.unwrap().fill(99);
        whole[range].fill(99);
        assert_eq!((places, snapshot[..] == whole), (parted, true));
    }
    assert!(!nvm.is_pinned(at, 5 * PAGE) && !parter.part(0));
    assert!(snapshot.bytes_mut(6 * page - 1..6 * page + 1).0.is_none());
    let (from, to) = (9, 3);
    assert!(snapshot.bytes_mut(from..to).0.is_none() && snapshot.bytes_mut(9..9).0.unwrap().is_empty());
    (0..4).for_each(|n| assert_eq!(nvm.pin(at + n * PAGE, PAGE).unwrap().unwrap()[..], [n as u8 + 1; PAGE as usize]));
    (0..4).for_each(|n| fill(nvm, at + n * PAGE, 50).unwrap());
    assert!(snapshot[..] == whole);
}

#[test]
fn what_cannot_be_mapped_is_no_snapshot() {
    let (pool, at) = pinnable();
    let nvm = pool.nvm();
    let none = |parts: &[(Source<'_>, u64)]| Snapshot::new(nvm, parts).unwrap().is_none();
    assert!(none(&[]) && none(&[(Source::Medium(at + 4 * PAGE), 2)]) && none(&[(Source::Medium(0), 1)]));
    assert!(!nvm.is_pinned(at, 5 * PAGE));
    // More mappings than the process may have.
    let many = vec![(Source::Medium(at), 1); ondol_medium::most_mappings() as usize];
    assert!(none(&many) && !nvm.is_pinned(at, 5 * PAGE));
    nvm.poison().add_line(at);
    assert!(matches!(Snapshot::new(nvm, &[(Source::Medium(at), 1)]), Err(NvmError::Poisoned { .. })));
    let thawed =
        Pool::open(Nvm::thawed(&ondol_medium::Frozen::new(&pinnable().0.nvm().to_bytes().unwrap()).unwrap()).unwrap())
            .unwrap();
    let start = thawed.area(AreaKind::PAGE_DATA).unwrap().start;
    assert!(Snapshot::new(thawed.nvm(), &[(Source::Medium(start), 1)]).unwrap().is_none());
    assert_eq!(thawed.nvm().pin(start, PAGE).unwrap().unwrap()[..3], [0; 3], "it has pins all the same");
}

fn own(nvm: &std::sync::Arc<Nvm>, runs: &[std::ops::Range<u64>]) -> Option<Owned> {
    Ownership::new(nvm, runs).unwrap()?.map()
}

#[test]
fn an_owned_page_is_memory_and_nothing_to_others() {
    let (pool, at) = pinnable();
    let nvm = pool.nvm();
    (0..5).for_each(|page| fill(nvm, at + page * PAGE, 7).unwrap());
    nvm.poison().add_line(at + 3 * PAGE + 64);
    let runs = [at + 3 * PAGE..at + 4 * PAGE, at..at + 2 * PAGE];
    let mut ownership = Ownership::new(nvm, &runs).unwrap().unwrap();
    ownership.clear();
    let mut owned = ownership.map().unwrap();
    assert!(owned.len() == 3 * PAGE as usize && owned.iter().all(|byte| *byte == 0));
    assert!(nvm.poison().all().is_empty(), "what is owned is whole");
    owned.iter_mut().enumerate().for_each(|(n, byte)| *byte = (n % 251) as u8);
    assert!(matches!(fill(nvm, at, 9), Err(NvmError::Pinned { .. })));
    assert!(nvm.pin(at, PAGE).unwrap().is_none() && own(nvm, &runs[1..]).is_none());
    let parts = [(Source::Medium(at), 1)];
    assert!(Snapshot::new(nvm, &parts).unwrap().is_none());
    fill(nvm, at + 2 * PAGE, 9).unwrap();
    // The last page of the memory is the second of the medium.
    let mut there = [0; 3];
    nvm.read(at + PAGE, &mut there).unwrap();
    assert_eq!(there, [8192, 8193, 8194].map(|n| (n % 251) as u8));
    assert!(owned.iter().enumerate().all(|(n, byte)| *byte == (n % 251) as u8));
    drop(owned);
    fill(nvm, at, 9).unwrap();
    let pin = nvm.pin(at + PAGE, PAGE).unwrap().unwrap();
    assert!(own(nvm, &runs).is_none(), "one of them is pinned");
    assert_eq!(pin[0], (8192 % 251) as u8);
    fill(nvm, at, 1).unwrap();
}

#[test]
fn what_cannot_be_owned_is_refused() {
    let (pool, at) = pinnable();
    let nvm = pool.nvm();
    let end = at + 5 * PAGE;
    for run in [0..PAGE, at - PAGE..at + PAGE, end - PAGE..end + PAGE] {
        assert!(own(nvm, std::slice::from_ref(&run)).is_none(), "{run:?}");
    }
    assert!(own(nvm, &[]).is_none());
    for run in [at + 8..at + PAGE, at..at + 100, at..at] {
        assert!(matches!(Ownership::new(nvm, &[run]), Err(NvmError::Misaligned { .. })));
    }
    let beyond = nvm.size()..nvm.size() + PAGE;
    assert!(matches!(Ownership::new(nvm, &[beyond]), Err(NvmError::OutOfRange { .. })));
    // A page twice is not two pages.
    assert!(own(nvm, &[at..at + PAGE, at..at + PAGE]).is_none());
    assert!(!nvm.is_pinned(at, 5 * PAGE), "nothing stays behind a refusal");
}
