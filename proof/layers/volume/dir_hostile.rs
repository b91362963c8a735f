//! Directories whose bytes lie: every operation ends, with an answer or with an error that names the directory.

use crate::dir_rig::{Fs, TOP, USER, debugfs, mkfs};
use ondol_testkit::{over_engines, over_two_engines};
use ondol_volume::{Error, Ino, Rename};

over_engines! {
    an_index_that_leads_nowhere,
    a_directory_larger_than_the_volume,
    a_circle_of_directories,
    parents_that_lead_in_a_circle,
}

over_two_engines! {
    random_bytes_in_directories,
}

/// A small random source.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

const NAMES: usize = 3000;

fn name(i: usize) -> String {
    format!("name {i:04} {}", "n".repeat(i % 60))
}

/// An image with an index of two levels, a linear directory, an empty one, and where their blocks are.
fn image() -> (Vec<u8>, Vec<usize>) {
    let fs = Fs::open(mkfs(8, &["-b", "1024", "-O", "^metadata_csum"]));
    let (large, file) = (fs.mkdir(TOP, "large"), fs.create(TOP, "file"));
    for i in 0..NAMES {
        fs.volume.names().link(file, large, name(i).as_bytes()).expect("link");
    }
    let small = fs.mkdir(TOP, "small");
    let inner = fs.mkdir(small, "inner");
    fs.mkdir(inner, "innermost");
    for i in 0..10 {
        fs.create(small, &name(i));
    }
    fs.mkdir(TOP, "empty");
    let bytes = fs.bytes();
    assert!(debugfs(&bytes, "htree_dump /large").contains("Indirect levels: 1"));
    let mut blocks = Vec::new();
    for dir in ["/", "/large", "/small", "/small/inner", "/small/inner/innermost", "/empty"] {
        let listed = debugfs(&bytes, &format!("blocks {dir}"));
        blocks.extend(listed.split_whitespace().filter_map(|b| b.parse::<usize>().ok()));
    }
    assert!(blocks.len() > 150);
    (bytes, blocks)
}

/// Lists at most a bounded number of entries.
fn list(fs: &Fs, dir: Ino) -> Result<usize, Error> {
    let (mut cookie, mut total) = (0, 0);
    loop {
        let mut n = 0;
        fs.volume.names().readdir(dir, cookie, &mut |e| {
            assert!(e.next != cookie || n == 0);
            n += 1;
            cookie = e.next;
            n < 50
        })?;
        total += n;
        assert!(total < 200_000, "an endless listing");
        if n < 50 {
            return Ok(total);
        }
    }
}

/// Everything that can be done with names; answers and errors are both fine.
fn everything(fs: &Fs, random: &mut Random) -> usize {
    let v = &fs.volume;
    let mut corrupt = 0;
    let mut note = |result: Result<(), Error>| {
        if let Err(Error::Corrupt(c)) = result {
            corrupt += 1;
            assert!(!c.structure.is_empty() && !c.what.is_empty());
        }
    };
    let mut dirs = vec![TOP];
    for path in [&["large"][..], &["small"], &["empty"], &["small", "inner"], &["small", "inner", "innermost"]] {
        let found = path.iter().try_fold(TOP, |dir, name| v.names().lookup(dir, name.as_bytes()).map(|a| a.ino));
        note(found.map(|dir| dirs.push(dir)));
    }
    for &dir in &dirs {
        note(list(fs, dir).map(drop));
        note(v.names().lookup(dir, b"..").map(drop));
        for _ in 0..8 {
            let (a, b) = (name(random.below(NAMES * 2)), name(random.below(NAMES * 2)));
            let other = dirs[random.below(dirs.len())];
            note(v.names().lookup(dir, a.as_bytes()).map(drop));
            note(v.names().create(dir, a.as_bytes(), 0o644, USER).map(drop));
            note(v.names().rename(dir, b.as_bytes(), other, a.as_bytes(), Rename::Replace));
            note(v.names().rename(dir, a.as_bytes(), other, b.as_bytes(), Rename::Exchange));
            note(v.names().unlink(dir, b.as_bytes()));
            note(v.names().mkdir(dir, b.as_bytes(), 0o755, USER).map(drop));
            note(v.names().rmdir(dir, b.as_bytes()));
        }
    }
    for (dir, name) in [(TOP, "empty"), (TOP, "small"), (TOP, "large")] {
        note(v.names().rename(dir, name.as_bytes(), dirs[random.below(dirs.len())], b"moved", Rename::Replace));
        note(v.names().rmdir(dir, name.as_bytes()));
        note(v.names().rmdir(TOP, b"moved"));
    }
    corrupt
}

fn mutate(bytes: &mut [u8], blocks: &[usize], random: &mut Random) {
    for _ in 0..1 + random.below(4) {
        let block = blocks[random.below(blocks.len())] * 1024;
        // Headers, counts and the first entries are where it hurts.
        let at = block + if random.below(3) == 0 { random.below(1024) } else { random.below(64) };
        match random.below(4) {
            0 => bytes[at] = random.below(256) as u8,
            1 => bytes[at] ^= 1 << random.below(8),
            2 => bytes[at & !3..(at & !3) + 4].copy_from_slice(&(random.below(3000) as u32).to_le_bytes()),
            _ => {
                let from = blocks[random.below(blocks.len())] * 1024;
                bytes.copy_within(from..from + 1024, block);
            }
        }
    }
}

/// A volume that goes on after errors, so that one finding does not hide the others.
fn random_bytes_in_directories() {
    let (good, blocks) = image();
    let (mut corrupt, mut silent) = (0, 0);
    for seed in 0..400 {
        let mut random = Random(seed);
        let mut bytes = good.clone();
        mutate(&mut bytes, &blocks, &mut random);
        let fs = Fs::open_going_on(bytes);
        match everything(&fs, &mut random) {
            0 => silent += 1,
            n => corrupt += n,
        }
        fs.engine.checkpoint_all().expect("a checkpoint");
    }
    assert!(corrupt > 400, "{corrupt} findings, {silent} images without");
}

/// Index entries that lead in circles, to the root, past the end.
fn an_index_that_leads_nowhere() {
    let (good, _) = image();
    let root: usize = debugfs(&good, "bmap /large 0").trim().parse().expect("a block");
    let fs = Fs::open(good.clone());
    let large = fs.is(TOP, "large").expect("large");
    let size = fs.volume.getattr(large).expect("large").size as u32 / 1024;
    for target in [0, size, u32::MAX, 0x0fff_ffff] {
        let mut bytes = good.clone();
        let at = root * 1024 + 32 + 4;
        bytes[at..at + 4].copy_from_slice(&target.to_le_bytes());
        let fs = Fs::open(bytes);
        let found: Result<Vec<_>, _> = (0..200).map(|i| fs.volume.names().lookup(large, name(i).as_bytes())).collect();
        assert!(matches!(found, Err(Error::Corrupt(c)) if c.structure.contains(&format!("directory {large}"))));
        assert!(fs.volume.stopped().is_some());
        assert!(matches!(fs.volume.names().create(TOP, b"x", 0o644, USER), Err(Error::ReadOnly(_))));
    }
    // Every entry of the root leads to one node, all of whose names share one hash with the next.
    let mut bytes = good.clone();
    for i in 1..3 {
        let at = root * 1024 + 32 + i * 8;
        let first: [u8; 4] = bytes[root * 1024 + 36..root * 1024 + 40].try_into().expect("four bytes");
        bytes[at + 4..at + 8].copy_from_slice(&first);
        bytes[at] |= 1;
    }
    let fs = Fs::open(bytes);
    assert!(
        list(&fs, large).is_err() || (0..NAMES).any(|i| fs.volume.names().lookup(large, name(i).as_bytes()).is_err())
    );
}

/// A size that no directory can have, although all of it may be mapped, again and again to the same block.
fn a_directory_larger_than_the_volume() {
    let (mut bytes, _) = image();
    let place = debugfs(&bytes, "imap /small");
    let number = |from: &str| place.split_once(from).map(|(_, rest)| rest.trim_start_matches("0x"));
    let digits = |text: &str| text.chars().take_while(char::is_ascii_hexdigit).collect::<String>();
    let block: usize = digits(number("at block ").expect("a block")).parse().expect("a number");
    let offset = usize::from_str_radix(&digits(number("offset ").expect("an offset")), 16).expect("a number");
    let inode = block * 1024 + offset;
    let blocks = bytes.len() as u32 / 1024;
    for (size, possible) in [(blocks + 1, false), (u32::MAX / 1024, false), (blocks, true)] {
        bytes[inode + 4..inode + 8].copy_from_slice(&(size * 1024).to_le_bytes());
        let fs = Fs::open(bytes.clone());
        let small = fs.is(TOP, "small").expect("small");
        let found = fs.volume.names().lookup(small, b"no such name");
        let corrupt = matches!(&found, Err(Error::Corrupt(c)) if c.what.contains("a size of"));
        assert!(if possible { matches!(found, Err(Error::NotFound)) } else { corrupt }, "{size}: {found:?}");
    }
}

/// Directories whose ".." name each other: nobody finds the way up, and all say so.
fn parents_that_lead_in_a_circle() {
    let fs = Fs::open(mkfs(8, &["-b", "1024", "-O", "^metadata_csum"]));
    let a = fs.mkdir(TOP, "a");
    let b = fs.mkdir(a, "b");
    fs.create(b, "file");
    fs.mkdir(b, "c");
    fs.mkdir(TOP, "d");
    let mut bytes = fs.bytes();
    let block: usize = debugfs(&bytes, "bmap /a 0").trim().parse().expect("a block");
    bytes[block * 1024 + 12..block * 1024 + 16].copy_from_slice(&b.to_le_bytes());
    let fs = Fs::open_going_on(bytes);
    let d = fs.is(TOP, "d").expect("d");
    for (from, name, to) in [(b, "file", d), (b, "c", d), (TOP, "d", b)] {
        for how in [Rename::Replace, Rename::NoReplace] {
            let moved = fs.volume.names().rename(from, name.as_bytes(), to, b"new", how);
            let way = matches!(&moved, Err(Error::Corrupt(c)) if c.what.contains("below itself"));
            assert!(way, "{name}: {moved:?}");
        }
    }
}

/// A directory that contains the directory that contains it.
fn a_circle_of_directories() {
    let fs = Fs::open(mkfs(8, &["-b", "1024", "-O", "^metadata_csum"]));
    let a = fs.mkdir(TOP, "a");
    let b = fs.mkdir(a, "b");
    let c = fs.mkdir(b, "c");
    fs.create(c, "file");
    let mut bytes = fs.bytes();
    let block: usize = debugfs(&bytes, "bmap /a/b 0").trim().parse().expect("a block");
    let at = (0..1024).find(|i| bytes[block * 1024 + i..].starts_with(b"\x01\x02c")).expect("the entry");
    bytes[block * 1024 + at - 6..block * 1024 + at - 2].copy_from_slice(&a.to_le_bytes());
    let fs = Fs::open_going_on(bytes);
    std::thread::scope(|s| {
        for t in 0..4u64 {
            let fs = &fs;
            s.spawn(move || {
                let mut random = Random(t);
                for _ in 0..500 {
                    let v = &fs.volume;
                    let (x, y) = ([TOP, a, b][random.below(3)], [TOP, a, b][random.below(3)]);
                    let (m, n) =
                        ([&b"a"[..], b"b", b"c"][random.below(3)], [&b"a"[..], b"b", b"c", b"d"][random.below(4)]);
                    drop(v.names().lookup(x, m));
                    drop(v.names().rmdir(x, m));
                    drop(v.names().rename(x, m, y, n, Rename::Replace));
                    drop(v.names().rename(x, m, y, n, Rename::Exchange));
                }
            });
        }
    });
}
