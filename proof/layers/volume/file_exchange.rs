//! Exchanging ranges of files: what changes places, what is refused before anything has, and trees of every shape.

use crate::file_util::{Random, Rig, dump, mkfs, mount};
use ondol_format::inode::InodeFlags;
use ondol_testkit::over_setups;
use ondol_testkit::rig::Setup;
use ondol_volume::{Caller, DataMode, Error, Exchange, Fallocate, Ino, ROOT, Result, Seek, SetAttr, Volume};

over_setups! {
    ranges_change_places,
    what_is_wrong_is_refused_and_nothing_has_changed,
    deep_trees_change_places_as_one,
    what_the_journal_cannot_hold_is_refused_and_nothing_has_changed,
    clusters_change_owners,
    contents_of_inodes_change_places,
    a_full_volume_refuses_before_anything_has_changed,
    attributes_follow_a_change_of_contents,
    data_that_is_written_in_place_waits_for_the_commit,
}

const USER: Caller = Caller { uid: 0, gid: 0, umask: 0 };
const BLOCK: u64 = 1024;

fn range(len: u64) -> Exchange {
    Exchange { len: Some(len), ..Exchange::default() }
}

fn to_eof() -> Exchange {
    Exchange::default()
}

fn file(vol: &Volume, name: &str) -> Ino {
    vol.names().create(ROOT, name.as_bytes(), 0o644, USER).unwrap().ino
}

fn add_flag(vol: &Volume, ino: Ino, flag: InodeFlags) {
    vol.inode_ops().set_flags(ino, vol.inode_ops().flags(ino).unwrap() | flag.bits(), u32::MAX).unwrap();
}

/// Exchanges ranges of two contents, as the volume is asked to.
fn exchange_bytes(a: &mut Vec<u8>, at: u64, b: &mut Vec<u8>, to: u64, len: Option<u64>) {
    let (at, to) = (at as usize, to as usize);
    match len {
        Some(len) => a[at..at + len as usize].swap_with_slice(&mut b[to..to + len as usize]),
        None => {
            let (rest_a, rest_b) = (a.split_off(at), b.split_off(to));
            a.extend(rest_b);
            b.extend(rest_a);
        }
    }
}

/// Writes, holes, unwritten blocks, in random places.
fn scramble(vol: &Volume, random: &mut Random, ino: Ino, content: &mut Vec<u8>) {
    let at = random.below(120) * 700;
    match random.below(4) {
        0 | 1 => {
            let bytes = {
                let len = 1 + random.below(6000);
                random.bytes(len as usize)
            };
            vol.files().write(ino, at, &bytes).unwrap();
            let end = at as usize + bytes.len();
            content.resize(content.len().max(end), 0);
            content[at as usize..end].copy_from_slice(&bytes);
        }
        2 => {
            let len = 1 + random.below(9000);
            vol.files().fallocate(ino, Fallocate::Allocate, at, len).unwrap();
            content.resize(content.len().max((at + len) as usize), 0);
        }
        _ => {
            let len = 1 + random.below(9000);
            vol.files().fallocate(ino, Fallocate::PunchHole, at, len).unwrap();
            let end = content.len().min((at + len) as usize);
            if let Some(hole) = content.get_mut(at as usize..end) {
                hole.fill(0);
            }
        }
    }
}

/// Two files, and what they hold.
struct Pair {
    rig: Rig,
    inos: [Ino; 2],
    contents: [Vec<u8>; 2],
    random: Random,
}

impl Pair {
    /// Two ranges of the first file; false if they are refused.
    fn within(&mut self, at: u64, to: u64, len: u64) -> bool {
        let a = &mut self.contents[0];
        let outcome = self.rig.vol.ranges().exchange(self.inos[0], at, self.inos[0], to, &range(len));
        if at.abs_diff(to) < len || at.max(to) + len > a.len() as u64 {
            assert!(matches!(outcome, Err(Error::Invalid(_))), "{outcome:?}");
            return false;
        }
        outcome.unwrap();
        let (first, second) = (at.min(to) as usize, at.max(to) as usize);
        let (before, after) = a.split_at_mut(second);
        before[first..first + len as usize].swap_with_slice(&mut after[..len as usize]);
        true
    }

    /// Ranges of both, or their ends without a length; false if they are refused.
    fn between(&mut self, at: u64, to: u64, how: &Exchange) -> bool {
        let [a, b] = &mut self.contents;
        let v = &self.rig.vol;
        let is_written =
            |block: &u64| v.files().seek(self.inos[0], at + block * BLOCK, Seek::Data).ok() == Some(at + block * BLOCK);
        let written: Vec<u64> = (0..how.len.unwrap_or(0) / BLOCK).filter(is_written).collect();
        let outcome = v.ranges().exchange(self.inos[0], at, self.inos[1], to, how);
        let len = how.len.unwrap_or(0);
        if at + len > a.len() as u64 || to + len > b.len() as u64 {
            assert!(matches!(outcome, Err(Error::Invalid(_))), "{outcome:?}");
            return false;
        }
        outcome.unwrap();
        match how.written_only {
            _ if how.dry_run => {}
            true => written.iter().for_each(|n| exchange_bytes(a, at + n * BLOCK, b, to + n * BLOCK, Some(BLOCK))),
            false => exchange_bytes(a, at, b, to, how.len),
        }
        true
    }
}

fn ranges_change_places() {
    let rig = mount(mkfs("32M", &["-b", "1024"], 0));
    let inos = [file(&rig.vol, "a"), file(&rig.vol, "b")];
    let mut pair = Pair { rig, inos, contents: [Vec::new(), Vec::new()], random: Random(5) };
    let (mut done, mut within) = (0, 0);
    for _ in 0..400 {
        for (ino, content) in inos.iter().zip(&mut pair.contents) {
            scramble(&pair.rig.vol, &mut pair.random, *ino, content);
        }
        let mut below = |n| pair.random.below(n);
        let (at, to, len) = (below(60) * BLOCK, below(60) * BLOCK, below(80) * BLOCK);
        let how = Exchange { dry_run: below(6) == 0, ..to_eof() };
        let written_only = below(3) == 0;
        match below(5) {
            0 => within += u32::from(pair.within(at, to, (len / 4).next_multiple_of(BLOCK).max(BLOCK))),
            1 => done += u32::from(pair.between(at, to, &how)),
            _ => done += u32::from(pair.between(at, to, &Exchange { len: Some(len), written_only, ..how })),
        }
        for (ino, content) in inos.iter().zip(&pair.contents) {
            assert!(pair.rig.read_all(*ino) == *content);
        }
    }
    assert!(done > 100 && within > 5, "{done} between files, {within} within one");
    let image = pair.rig.unmount_checked();
    assert!(dump(&image, "a") == pair.contents[0] && dump(&image, "b") == pair.contents[1]);
}

/// What would show that something has changed.
fn seen(rig: &Rig, inos: &[Ino]) -> Vec<(ondol_volume::Attr, Vec<u8>)> {
    inos.iter().map(|&ino| (rig.vol.getattr(ino).unwrap(), rig.read_all(ino))).collect()
}

/// What is wrong, the two places, how, and whether the error says so.
type Refused = (&'static str, (Ino, u64), (Ino, u64), Exchange, fn(&Error) -> bool);

fn what_is_wrong_is_refused_and_nothing_has_changed() {
    let rig = mount(mkfs("16M", &["-b", "1024"], 0));
    let v = &rig.vol;
    let mut random = Random(6);
    let inos = ["a", "b", "i", "p"].map(|name| file(v, name));
    let [a, b, immutable, append] = inos;
    for (n, ino) in (0..).zip(inos) {
        v.files().write(ino, 0, &random.bytes(9000 + 100 * n)).unwrap();
    }
    add_flag(v, immutable, InodeFlags::IMMUTABLE);
    add_flag(v, append, InodeFlags::APPEND);
    let dir = v.names().mkdir(ROOT, b"d", 0o755, USER).unwrap().ino;
    let link = v.names().symlink(ROOT, b"s", b"a", USER).unwrap().ino;
    let before = seen(&rig, &inos);
    let invalid = |e: &Error| matches!(e, Error::Invalid(_));
    let forbidden = |e: &Error| matches!(e, Error::NotPermitted(_));
    let cases: [Refused; 18] = [
        ("an offset in a block", (a, 10), (b, 0), range(BLOCK), invalid),
        ("the other offset in a block", (a, 0), (b, 1000), range(BLOCK), invalid),
        ("a length in a block", (a, 0), (b, 0), range(1000), invalid),
        ("the end of one file alone", (a, 0), (b, 0), range(9000), invalid),
        ("a range behind an end", (a, 8 * BLOCK), (b, 0), range(BLOCK), invalid),
        ("an offset behind an end", (a, 9 * BLOCK), (b, 0), to_eof(), invalid),
        ("the largest offset", (a, u64::MAX / BLOCK * BLOCK), (b, 0), range(BLOCK), invalid),
        ("the largest length", (a, 0), (b, 0), range(u64::MAX), invalid),
        ("ranges that overlap", (a, 0), (a, BLOCK), range(2 * BLOCK), invalid),
        ("one range", (a, 0), (a, 0), range(BLOCK), invalid),
        ("written parts and sizes", (a, 0), (b, 0), Exchange { written_only: true, ..to_eof() }, invalid),
        ("two ends of one file", (a, 0), (a, BLOCK), to_eof(), invalid),
        ("an immutable file", (a, 0), (immutable, 0), range(BLOCK), forbidden),
        ("an append-only file", (append, 0), (b, 0), to_eof(), forbidden),
        ("a directory", (a, 0), (dir, 0), range(BLOCK), |e| matches!(e, Error::IsDirectory(_))),
        ("a directory first", (dir, 0), (a, 0), to_eof(), |e| matches!(e, Error::IsDirectory(_))),
        ("a symbolic link", (link, 0), (a, 0), range(BLOCK), invalid),
        ("no file", (a, 0), (4000, 0), range(BLOCK), |e| matches!(e, Error::NotFound)),
    ];
    for (what, one, other, how, fits) in cases {
        for how in [how, Exchange { dry_run: true, ..how }] {
            let refused = v.ranges().exchange(one.0, one.1, other.0, other.1, &how).unwrap_err();
            assert!(fits(&refused), "{what}: {refused:?}");
        }
    }
    // Nothing to do is no error.
    v.ranges().exchange(a, 0, b, 0, &range(0)).unwrap();
    assert_eq!(seen(&rig, &inos), before);
    rig.unmount_checked();

    // A file with a block map on a volume whose new files have extents, and the other way round.
    let rig = mount(mkfs("16M", &["-b", "1024", "-O", "^extent,^64bit"], 0));
    let (a, b) = (file(&rig.vol, "a"), file(&rig.vol, "b"));
    rig.vol.files().write(a, 0, &[1; 5000]).unwrap();
    let refused = rig.vol.ranges().exchange(a, 0, b, 0, &to_eof()).unwrap_err();
    assert!(matches!(refused, Error::Unsupported(_)), "{refused:?}");
    rig.unmount_checked();
}

/// A file in which every other block of so many is stored.
fn every_other_block(vol: &Volume, ino: Ino, blocks: u64, seed: u64) -> Vec<u8> {
    let mut content = vec![0; (blocks * BLOCK) as usize];
    let mut random = Random(seed);
    for at in (0..blocks).step_by(2) {
        let bytes = random.bytes(100);
        vol.files().write(ino, at * BLOCK, &bytes).unwrap();
        content[(at * BLOCK) as usize..][..bytes.len()].copy_from_slice(&bytes);
    }
    vol.files().truncate(ino, blocks * BLOCK).unwrap();
    content
}

fn deep_trees_change_places_as_one() {
    let rig = mount(mkfs("64M", &["-b", "1024", "-J", "size=4"], 0));
    let inos = [file(&rig.vol, "a"), file(&rig.vol, "b")];
    // Three levels, two levels; later whatever they become.
    let mut a = every_other_block(&rig.vol, inos[0], 14_000, 3);
    let mut b = every_other_block(&rig.vol, inos[1], 500, 4);
    let mut random = Random(12);
    let handles = rig.engine.stats().handles;
    for n in 0..40 {
        let (end_a, end_b) = (a.len() as u64 / BLOCK, b.len() as u64 / BLOCK);
        let (at, to) = (random.below(end_a) * BLOCK, random.below(end_b) * BLOCK);
        if n % 4 == 0 {
            let (at, to) = if n % 8 == 0 { (0, 0) } else { (at, to) };
            rig.vol.ranges().exchange(inos[0], at, inos[1], to, &to_eof()).unwrap();
            exchange_bytes(&mut a, at, &mut b, to, None);
        } else {
            let most = (a.len() as u64 - at).min(b.len() as u64 - to) / BLOCK;
            let len = (1 + random.below(most.max(1))) * BLOCK;
            rig.vol.ranges().exchange(inos[0], at, inos[1], to, &range(len)).unwrap();
            exchange_bytes(&mut a, at, &mut b, to, Some(len));
        }
        assert!(rig.read_all(inos[0]) == a && rig.read_all(inos[1]) == b, "exchange {n}");
    }
    assert_eq!(rig.engine.stats().handles - handles, 40, "one operation each");
    let image = rig.unmount_checked();
    assert!(dump(&image, "a") == a && dump(&image, "b") == b);
}

fn what_the_journal_cannot_hold_is_refused_and_nothing_has_changed() {
    let rig = mount(mkfs("64M", &["-b", "1024", "-J", "size=1"], 0));
    let inos = [file(&rig.vol, "a"), file(&rig.vol, "b")];
    every_other_block(&rig.vol, inos[0], 23_000, 5);
    rig.vol.files().write(inos[1], 0, &[7; 3000]).unwrap();
    let before = seen(&rig, &inos);
    for how in [to_eof(), Exchange { dry_run: true, ..to_eof() }] {
        let refused = rig.vol.ranges().exchange(inos[0], 0, inos[1], 0, &how).unwrap_err();
        assert!(matches!(refused, Error::TooBig { need, max } if need > max), "{refused:?}");
    }
    assert!(seen(&rig, &inos) == before);
    // A part of it fits.
    rig.vol.ranges().exchange(inos[0], 22_000 * BLOCK, inos[1], 0, &range(2 * BLOCK)).unwrap();
    rig.unmount_checked();
}

fn clusters_change_owners() {
    const CLUSTER: u64 = 8192;
    let rig = mount(mkfs("32M", &["-b", "1024", "-O", "bigalloc", "-C", "8192", "-m", "0"], 0));
    let v = &rig.vol;
    let inos = [file(v, "a"), file(v, "b")];
    let mut random = Random(9);
    let mut contents = [Vec::new(), Vec::new()];
    let mut done = 0;
    for _ in 0..200 {
        for (ino, content) in inos.iter().zip(&mut contents) {
            scramble(v, &mut random, *ino, content);
        }
        let [a, b] = &mut contents;
        let (at, to) = (random.below(8) * CLUSTER, random.below(8) * CLUSTER);
        if random.below(2) == 0 && at <= a.len() as u64 && to <= b.len() as u64 {
            v.ranges().exchange(inos[0], at, inos[1], to, &to_eof()).unwrap();
            exchange_bytes(a, at, b, to, None);
        } else {
            let len = CLUSTER * (1 + random.below(4));
            if at + len > a.len() as u64 || to + len > b.len() as u64 {
                continue;
            }
            assert!(matches!(
                v.ranges().exchange(inos[0], at + BLOCK, inos[1], to, &range(BLOCK)),
                Err(Error::Invalid(_))
            ));
            v.ranges().exchange(inos[0], at, inos[1], to, &range(len)).unwrap();
            exchange_bytes(a, at, b, to, Some(len));
        }
        done += 1;
        assert!(rig.read_all(inos[0]) == contents[0] && rig.read_all(inos[1]) == contents[1]);
    }
    assert!(done > 50, "{done}");
    rig.unmount_checked();
}

fn contents_of_inodes_change_places() {
    let rig = mount(mkfs("16M", &["-b", "1024", "-O", "inline_data"], 0));
    let v = &rig.vol;
    let mut random = Random(10);
    let inos = ["a", "b", "c"].map(|name| file(v, name));
    let [mut a, mut b, mut c] = [random.bytes(50), random.bytes(20_000), random.bytes(50)];
    for (ino, bytes) in inos.iter().zip([&a, &b, &c]) {
        v.files().write(*ino, 0, bytes).unwrap();
    }
    let dry = Exchange { dry_run: true, ..to_eof() };
    v.ranges().exchange(inos[0], 0, inos[1], 0, &dry).unwrap();
    assert_eq!(v.getattr(inos[0]).unwrap().blocks, 1, "still in its inode");
    v.ranges().exchange(inos[0], 0, inos[1], 0, &to_eof()).unwrap();
    exchange_bytes(&mut a, 0, &mut b, 0, None);
    v.ranges().exchange(inos[2], 0, inos[1], 0, &Exchange { written_only: true, ..range(50) }).unwrap();
    exchange_bytes(&mut c, 0, &mut b, 0, Some(50));
    for (ino, bytes) in inos.iter().zip([&a, &b, &c]) {
        assert!(rig.read_all(*ino) == *bytes);
    }
    rig.unmount_checked();
}

fn a_full_volume_refuses_before_anything_has_changed() {
    let rig = mount(mkfs("16M", &["-b", "1024", "-m", "0"], 0));
    let v = &rig.vol;
    let inos = [file(v, "a"), file(v, "b")];
    every_other_block(v, inos[0], 40, 5);
    v.files().write(inos[1], 0, &[7; 3000]).unwrap();
    let filler = file(v, "filler");
    while v.files().append(filler, &[1; 4096]).is_ok() {}
    while v.files().append(filler, &[1; 1024]).is_ok() {}
    v.sync().unwrap();
    let before = seen(&rig, &inos);
    let refused = v.ranges().exchange(inos[0], 0, inos[1], 0, &to_eof()).unwrap_err();
    assert!(matches!(refused, Error::NoSpace(_)), "{refused:?}");
    assert!(seen(&rig, &inos) == before);
    v.names().unlink(ROOT, b"filler").unwrap();
    v.ranges().exchange(inos[0], 0, inos[1], 0, &to_eof()).unwrap();
    let after = seen(&rig, &inos);
    assert!(after[0].1 == before[1].1 && after[1].1 == before[0].1);
    rig.unmount_checked();
}

fn attributes_follow_a_change_of_contents() {
    let rig = mount(mkfs("16M", &["-b", "1024"], 0));
    let v = &rig.vol;
    let inos = [file(v, "a"), file(v, "b")];
    v.files().write(inos[0], 0, &[1; 5000]).unwrap();
    v.files().write(inos[1], 0, &[2; 700]).unwrap();
    let set = SetAttr { perm: Some(0o6755), ..SetAttr::default() };
    for ino in inos {
        v.inode_ops().setattr(ino, &set).unwrap();
    }
    let times = |ino| v.getattr(ino).map(|a| (a.mtime, a.ctime)).unwrap();
    rig.env.advance(5_000_000_000);
    let before = inos.map(times);
    let swapped = |how: &Exchange| -> Result<()> { v.ranges().exchange(inos[0], 0, inos[1], 0, how) };
    swapped(&Exchange { dry_run: true, kill_suid: true, ..to_eof() }).unwrap();
    assert_eq!((inos.map(times), v.getattr(inos[0]).unwrap().perm), (before, 0o6755));
    swapped(&to_eof()).unwrap();
    let after = inos.map(times);
    assert!((0..2).all(|i| after[i].0 > before[i].0 && after[i].1 > before[i].1), "{before:?} {after:?}");
    assert_eq!(inos.map(|ino| v.getattr(ino).unwrap().perm), [0o6755; 2]);
    assert_eq!(inos.map(|ino| v.getattr(ino).unwrap().size), [700, 5000]);
    assert_eq!(inos.map(|ino| v.getattr(ino).unwrap().blocks), [2, 10]);
    swapped(&Exchange { kill_suid: true, ..to_eof() }).unwrap();
    assert_eq!(inos.map(|ino| v.getattr(ino).unwrap().perm), [0o755; 2]);
    rig.unmount_checked();
}

/// What is written in place after an exchange must not be found in the file that had the blocks before it.
fn data_that_is_written_in_place_waits_for_the_commit() {
    let rig = mount(mkfs("16M", &["-b", "1024"], 0));
    let v = &rig.vol;
    let inos = [file(v, "a"), file(v, "b")];
    for ino in inos {
        assert_eq!(v.files().write(ino, 0, &[1; 5000]).unwrap(), 5000);
    }
    let commits = || rig.engine.stats().commits;
    v.sync().unwrap();
    let before = commits();
    v.ranges().exchange(inos[0], 0, inos[1], 0, &to_eof()).unwrap();
    let waits = Setup::current().data != DataMode::Journal;
    assert_eq!(commits() > before, waits);
    // The data of one goes through the journal by its flag: that of the other does, too, from now on.
    add_flag(v, inos[0], InodeFlags::JOURNAL_DATA);
    v.sync().unwrap();
    let before = commits();
    v.ranges().exchange(inos[0], 0, inos[1], 0, &to_eof()).unwrap();
    assert_eq!(commits(), before);
    v.ranges().exchange(inos[0], 0, inos[1], 0, &Exchange { durable: true, ..to_eof() }).unwrap();
    assert!(commits() > before);
    rig.unmount_checked();
}
