//! Directories under many threads: listings while others change, and renames that cross each other.

use crate::dir_rig::{Fs, TOP, USER, mkfs};
use ondol_testkit::{SetWhenDropped, over_engines};
use ondol_volume::{Error, Ino, Rename};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

over_engines! {
    listed_while_it_becomes_an_index,
    listed_while_linear,
    renames_that_cross,
    each_below_the_other,
}

/// A small random source.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

/// Lists in small steps; every name in `kept` must come exactly once.
fn list(fs: &Fs, dir: Ino, kept: &BTreeSet<String>, chunk: usize) {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut cookie = 0;
    loop {
        let mut n = 0;
        let listed = fs.volume.names().readdir(dir, cookie, &mut |e| {
            if n == chunk {
                return false;
            }
            n += 1;
            cookie = e.next;
            let name = String::from_utf8_lossy(e.name).into_owned();
            let again = !seen.insert(name.clone());
            assert!(!(again && kept.contains(&name)), "{name} twice");
            true
        });
        listed.expect("a listing");
        if n < chunk {
            break;
        }
    }
    let missed: Vec<_> = kept.difference(&seen).collect();
    assert!(missed.is_empty(), "missed {missed:?}");
}

/// A directory grows from nothing to an index of two levels and shrinks again under its readers.
fn listed_while_changing(args: &[&str], rounds: u32) {
    let fs = Fs::open(mkfs(64, args));
    let dir = fs.mkdir(TOP, "dir");
    let kept: BTreeSet<String> = (0..6).map(|i| format!("kept {i}")).collect();
    for name in &kept {
        fs.create(dir, name);
    }
    let target = fs.create(TOP, "target");
    let done = AtomicBool::new(false);
    thread::scope(|s| {
        for w in 0..2 {
            let (fs, done) = (&fs, &done);
            s.spawn(move || {
                let _until = SetWhenDropped(done);
                for round in 0..rounds {
                    let name = |i: u32| format!("changing {w} {round} {i} {}", "x".repeat(i as usize % 100));
                    for i in 0..1500 {
                        fs.volume.names().link(target, dir, name(i).as_bytes()).expect("link");
                    }
                    for i in 0..1500 {
                        fs.volume.names().unlink(dir, name(i).as_bytes()).expect("unlink");
                    }
                }
            });
        }
        for r in 0..2 {
            let (fs, done, kept) = (&fs, &done, &kept);
            s.spawn(move || {
                let mut random = Random(r);
                while !done.load(Relaxed) {
                    list(fs, dir, kept, 1 + random.below(40));
                }
            });
        }
    });
    assert_eq!(fs.names(dir, 9).len(), kept.len());
    fs.check("after listings");
}

fn listed_while_it_becomes_an_index() {
    listed_while_changing(&["-b", "1024"], 3);
}

fn listed_while_linear() {
    listed_while_changing(&["-b", "4096", "-O", "^dir_index"], 1);
}

/// Two threads each try to put one of two directories below the other, over and over: never are both below each other,
/// and what has moved is known by its new place at once.
fn each_below_the_other() {
    let fs = Fs::open(mkfs(8, &["-b", "1024"]));
    let deep = (0..20).fold(TOP, |dir, n| fs.mkdir(dir, &format!("level {n}")));
    let (a, b) = (fs.mkdir(deep, "a"), fs.mkdir(deep, "b"));
    let below = [fs.mkdir(a, "below"), fs.mkdir(b, "below")];
    thread::scope(|s| {
        for (name, into) in [(&b"a"[..], below[1]), (b"b", below[0])] {
            let fs = &fs;
            s.spawn(move || {
                for _ in 0..3000 {
                    match fs.volume.names().rename(deep, name, into, name, Rename::NoReplace) {
                        Ok(()) => {
                            fs.volume.names().rename(into, name, deep, name, Rename::NoReplace).expect("the way back")
                        }
                        Err(Error::Invalid(_)) => {}
                        Err(e) => panic!("{e}"),
                    }
                }
            });
        }
    });
    fs.volume.names().rename(deep, b"a", below[1], b"a", Rename::Replace).expect("nobody is below another now");
    assert!(matches!(fs.volume.names().rename(deep, b"b", below[0], b"b", Rename::Replace), Err(Error::Invalid(_))));
    assert!(matches!(fs.volume.names().rename(deep, b"b", a, b"b", Rename::Replace), Err(Error::Invalid(_))));
    fs.check("after the two");
}

/// Moves directories about, into and over each other, from many threads; nothing may hang, get lost or form a circle.
fn renames_that_cross() {
    let fs = Fs::open(mkfs(32, &["-b", "1024"]));
    let dirs: Vec<Ino> = (0..6).map(|i| fs.mkdir(TOP, &format!("d{i}"))).collect();
    // Never empty, so never removed nor replaced.
    for &dir in &dirs {
        fs.create(dir, "keeps it");
    }
    let moved: Vec<Ino> = dirs.iter().copied().chain([TOP]).collect();
    thread::scope(|s| {
        for t in 0..6u64 {
            let (fs, moved) = (&fs, &moved);
            s.spawn(move || {
                let mut random = Random(t * 7919);
                for _ in 0..12_000 {
                    storm(fs, moved, &mut random);
                }
            });
        }
    });
    fs.check("after the storm");
    // Every directory is still reachable from the root.
    let mut tree = std::collections::BTreeMap::new();
    fs.tree(TOP, "", &mut tree);
    let reached: BTreeSet<Ino> = tree.values().map(|(a, _)| a.ino).collect();
    assert!(dirs.iter().all(|d| reached.contains(d)));
}

fn storm(fs: &Fs, dirs: &[Ino], random: &mut Random) {
    let v = &fs.volume;
    let (from, to) = (dirs[random.below(dirs.len())], dirs[random.below(dirs.len())]);
    let name = |random: &mut Random| format!("{}{}", ["n", "d"][random.below(2)], random.below(6));
    let (a, b) = (name(random), name(random));
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let result = match random.below(12) {
        0 => v.names().rename(from, a, to, b, Rename::NoReplace),
        1 | 2 => v.names().rename(from, a, to, b, Rename::Replace),
        3 => v.names().rename(from, a, to, b, Rename::Exchange),
        4 => v.names().mkdir(from, a, 0o755, USER).map(drop),
        5 => v.names().create(from, a, 0o644, USER).map(drop),
        6 => v.names().lookup(from, a).and_then(|found| v.names().link(found.ino, to, b)).map(drop),
        7 => v.names().lookup(from, b"..").and_then(|up| v.names().lookup(up.ino, a)).map(drop),
        8 | 9 => v.names().unlink(from, a),
        10 => v.names().rmdir(from, a),
        _ => v.names().readdir(from, 0, &mut |_| true),
    };
    match result {
        Ok(()) => {}
        Err(
            Error::NotFound
            | Error::Exists
            | Error::NotEmpty(_)
            | Error::Invalid(_)
            | Error::IsDirectory(_)
            | Error::NotPermitted(_)
            | Error::NotDirectory(_),
        ) => {}
        Err(e) => panic!("{e}"),
    }
}
