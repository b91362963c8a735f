//! Transactions of many threads over the same files, among other operations: nothing hangs, and each is seen whole.

use crate::file_util::{Random, Rig, mkfs, mount};
use crate::transaction_util::*;
use ondol_testkit::{SetWhenDropped, over_engines};
use ondol_volume::{Error, ROOT, Rename, Step};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

over_engines! {
    transactions_take_effect_in_one_order,
    a_listing_sees_a_transaction_whole,
}

const FILES: usize = 6;
const WORD: usize = 8;

/// Where the files lie: in directories whose names change places while transactions look for them.
fn path(file: usize) -> String {
    format!("/d{}/sub/log{file}", file % 3)
}

/// The words that each file holds, in order.
fn logs(rig: &Rig) -> Vec<Vec<u64>> {
    let read = |file| rig.read_all(find(&rig.vol, &path(file)));
    let words =
        |bytes: Vec<u8>| bytes.chunks(WORD).map(|w| u64::from_le_bytes(w.try_into().expect("8 bytes"))).collect();
    (0..FILES).map(|file| words(read(file))).collect()
}

/// One order of all transactions that every log agrees with; there must be one.
fn serial_order(logs: &[Vec<u64>]) -> usize {
    let mut waits_for: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    for log in logs {
        for (i, word) in log.iter().enumerate() {
            let before = waits_for.entry(*word).or_default();
            before.extend(i.checked_sub(1).map(|i| log[i]));
        }
    }
    let total = waits_for.len();
    let mut done = BTreeSet::new();
    while done.len() < total {
        let next = waits_for.iter().find(|(word, before)| !done.contains(*word) && before.is_subset(&done));
        done.insert(*next.expect("a circle: the transactions have no order").0);
    }
    total
}

fn transactions_take_effect_in_one_order() {
    let rig = mount(mkfs("32M", &["-b", "1024", "-J", "size=2"], 0));
    let mut steps: Vec<Step> =
        (0..3).flat_map(|d| [create_dir(&format!("/d{d}")), create_dir(&format!("/d{d}/sub"))]).collect();
    steps.extend((0..FILES).map(|file| create(&path(file))));
    steps.push(create_dir("/side"));
    apply(&rig.vol, &steps);
    let (threads, rounds) = (4u64, 500u64);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let until = SetWhenDropped(&done);
        let rig = &rig;
        let workers: Vec<_> = (0..threads)
            .map(|t| {
                scope.spawn(move || {
                    let mut random = Random(t);
                    for round in 0..rounds {
                        transact(rig, &mut random, t * rounds + round + 1);
                    }
                })
            })
            .collect();
        let done = &done;
        scope.spawn(move || disturb(rig, done));
        scope.spawn(move || watch(rig, done));
        for worker in workers {
            worker.join().expect("a worker");
        }
        drop(until);
    });
    let logs = logs(&rig);
    assert_eq!(serial_order(&logs), (threads * rounds) as usize);
    rig.unmount_checked();
}

/// Appends `id` to some files, in some order, and sometimes moves directories or fails.
fn transact(rig: &Rig, random: &mut Random, id: u64) {
    let mut steps = Vec::new();
    for _ in 0..1 + random.below(4) {
        let at = path(random.below(FILES as u64) as usize);
        let step = append(&at, &id.to_le_bytes());
        if !steps.contains(&step) {
            steps.push(step);
        }
    }
    if random.below(4) == 0 {
        let (a, b) = (format!("/d{}/sub", random.below(3)), format!("/side/moved{id}"));
        let at = random.below(steps.len() as u64 + 1) as usize;
        steps.splice(at..at, [rename(&a, &b), create(&a), remove_file(&a), rename(&b, &a)]);
    }
    if random.below(5) == 0 {
        let mut failing = steps.clone();
        failing.push(remove_dir("/side/never"));
        let e = rig.vol.apply(&failing, USER).expect_err("a refusal");
        assert!(matches!(e.error, Error::NotFound), "{e}");
    }
    apply(&rig.vol, &steps);
}

/// Ordinary operations on the same inodes and directories.
fn disturb(rig: &Rig, done: &AtomicBool) {
    let mut random = Random(99);
    let mut round = 0;
    while !done.load(Relaxed) {
        round += 1;
        let dir = find(&rig.vol, &format!("/d{}", random.below(3)));
        let name = format!("other{}", random.below(3));
        let created = rig.vol.names().create(dir, name.as_bytes(), 0o600, USER);
        assert!(matches!(created, Ok(_) | Err(Error::Exists)));
        let side = find(&rig.vol, "/side");
        let moved = rig.vol.names().rename(dir, name.as_bytes(), side, b"here", Rename::Replace);
        assert!(moved.is_ok());
        rig.vol.names().unlink(side, b"here").expect("its name");
        if round % 5 == 0 {
            rig.vol.sync().expect("a sync");
        }
    }
}

/// While a transaction moves "sub" away and back, nobody sees it away.
fn watch(rig: &Rig, done: &AtomicBool) {
    while !done.load(Relaxed) {
        for d in 0..3 {
            let dir = find(&rig.vol, &format!("/d{d}"));
            let seen = names(&rig.vol, dir);
            assert!(seen.contains_key("sub"), "{seen:?}");
        }
        let side = names(&rig.vol, find(&rig.vol, "/side"));
        assert!(side.keys().all(|name| name == "here"), "{side:?}");
    }
}

/// Two names in one directory that always appear and vanish together.
fn a_listing_sees_a_transaction_whole() {
    let rig = mount(mkfs("8M", &["-b", "1024"], 0));
    apply(&rig.vol, &[create("/a1"), create("/a2")]);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let (rig, done) = (&rig, &done);
        scope.spawn(move || {
            let _until = SetWhenDropped(done);
            for _ in 0..2000 {
                apply(&rig.vol, &[rename("/a1", "/b1"), remove_file("/a2"), create("/b2")]);
                apply(&rig.vol, &[rename("/b1", "/a1"), rename("/b2", "/a2")]);
            }
        });
        let mut seen = BTreeSet::new();
        while !done.load(Relaxed) {
            let mut names = names(&rig.vol, ROOT);
            names.remove("lost+found");
            seen.insert(names.into_keys().collect::<Vec<_>>());
        }
        let allowed = [vec!["a1", "a2"], vec!["b1", "b2"]];
        assert!(seen.iter().all(|names| allowed.iter().any(|a| a == names)), "{seen:?}");
    });
    rig.unmount_checked();
}
