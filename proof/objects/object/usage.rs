//! What a volume asks of its store, and what it takes there.

use super::*;
use ondol_object_home::Usage;
use ondol_stores::unruly::Plan;

#[test]
fn what_is_asked_is_counted_as_the_store_counts_it() {
    let store = unruly();
    let home = make(&store, 64);
    for n in 0..10 {
        let number = home.submit(&[(at(n), &chunk(n))], &[]).unwrap();
        home.settle(number).unwrap();
    }
    home.close().unwrap();
    let (ours, theirs) = (home.requests(), store.counts());
    assert_eq!((ours.puts + ours.copies, ours.uploads, ours.parts), (theirs.puts, theirs.uploads, theirs.parts));
    assert_eq!((ours.gets + ours.heads, ours.deletes, ours.lists), (theirs.gets, theirs.deletes, theirs.lists));
    // Of puts that are refused we count no bytes.
    let taken = theirs.put_bytes - theirs.refused_bytes;
    assert_eq!((ours.up, ours.failed, ours.throttled, ours.repeated), (taken, 0, 0, 0));
    assert!(ours.puts > 10 && ours.down > 0 && ours.up > 10 * CHUNK as u64 / 2, "{ours:?}");
}

#[test]
fn failures_of_the_store_are_counted() {
    let store = unruly();
    let home = make(&store, 64);
    store.follow(Plan { fail_before: 400, ..Plan::default() });
    for n in 0..10 {
        let number = home.submit(&[(at(n), &chunk(n))], &[]).unwrap();
        home.settle(number).unwrap();
    }
    store.follow(Plan::default());
    assert!(home.requests().failed > 0);
    home.close().unwrap();
}

#[test]
fn what_a_volume_takes_is_told_by_kind() {
    let store = unruly();
    let bucket = bucket(store.clone());
    assert_eq!(Usage::of(&bucket, None).unwrap(), Usage::default());
    let home = make(&store, 1024);
    (0..1000).for_each(|n| home.write(at(n), &chunk(n)).unwrap());
    home.flush().unwrap();
    home.snapshot("one").unwrap();
    for n in 0..10 {
        home.write(at(1000 + n), &chunk(n)).unwrap();
        home.flush().unwrap();
    }
    let usage = Usage::of(&bucket, None).unwrap();
    // Half of each chunk is noise. What is large goes up once, and not into the log.
    let (large, small) = (1000 * CHUNK as u64 / 2, 10 * CHUNK as u64 / 2);
    assert!(usage.data.bytes > large && usage.log.bytes > small && usage.log.bytes < large, "{usage:?}");
    assert!(usage.manifests.objects > 0 && usage.leases.objects == 1, "{usage:?}");
    home.close().unwrap();
}
