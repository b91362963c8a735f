//! Positions in listings: small enough for 32-bit programs, and each the same whatever happens to other names
//! meanwhile.

use crate::rig::{Fs, ImageFile, mkfs};
use ondol_format::hash::{DxHash, HashVersion};
use ondol_volume::{Image, Ino, ROOT};
use std::collections::{BTreeMap, BTreeSet};

/// The first position that 32-bit programs cannot have.
const TOO_FAR: u64 = 1 << 31;

/// An image whose directories have this hash.
fn image(version: HashVersion) -> Vec<u8> {
    let image = ImageFile::new(&mkfs(32, &["-b", "1024", "-E", "hash_seed=fedcba98-7654-3210-fedc-ba9876543210"]));
    let name = ["legacy", "half_md4", "tea"][version as usize];
    image.debugfs(&format!("ssv def_hash_version {name}\n"));
    image.bytes()
}

fn hasher(fs: &Fs) -> DxHash {
    Image::open(fs.store.clone()).expect("an image").superblock().dx_hash()
}

/// So many numbered names, and of a hundred times as many those that share their hash with another.
fn names(hasher: &DxHash, count: u32) -> Vec<Vec<u8>> {
    let name = |n: u32| format!("name-{n:07}").into_bytes();
    let mut by_hash: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for n in 0..count * 100 {
        by_hash.entry(hasher.hash(&name(n)).major).or_default().push(n);
    }
    let mut numbers: BTreeSet<u32> = (0..count).collect();
    by_hash.retain(|_, equals| equals.len() > 1);
    numbers.extend(by_hash.into_values().take(200).flatten());
    numbers.into_iter().map(name).collect()
}

fn link_all(fs: &Fs, file: Ino, dir: Ino, names: &[Vec<u8>]) {
    for name in names {
        fs.volume.names().link(file, dir, name).expect("a link");
    }
}

fn fill(fs: &Fs, names: &[Vec<u8>]) -> Ino {
    let (file, dir) = (fs.create(ROOT, "file"), fs.mkdir(ROOT, "dir"));
    link_all(fs, file, dir, names);
    dir
}

/// Names from `cookie` on, each with where a listing goes on behind it; at most so many.
fn listed(fs: &Fs, dir: Ino, cookie: u64, most: usize) -> Vec<(Vec<u8>, u64)> {
    let mut all = Vec::new();
    let each = &mut |e: ondol_volume::DirEntry<'_>| {
        all.push((e.name.to_vec(), e.next));
        all.len() < most
    };
    fs.volume.names().readdir(dir, cookie, each).expect("a listing");
    all
}

const VERSIONS: [HashVersion; 3] = [HashVersion::Legacy, HashVersion::HalfMd4, HashVersion::Tea];

#[test]
fn positions_have_31_bits_but_between_names_of_one_hash() {
    for version in VERSIONS {
        let fs = Fs::open(image(version));
        let hasher = hasher(&fs);
        assert_eq!(hasher.version, version);
        let dir = fill(&fs, &names(&hasher, 3000));
        let all = listed(&fs, dir, 0, usize::MAX);
        let cookies: BTreeSet<u64> = all.iter().map(|(_, next)| *next).collect();
        assert_eq!(cookies.len(), all.len(), "{version:?}: names share a position");
        let mut far = 0;
        for pair in all[2..].windows(2) {
            let shares = hasher.hash(&pair[0].0).major == hasher.hash(&pair[1].0).major;
            assert_eq!(pair[0].1 >= TOO_FAR, shares, "{version:?}: {:#x}", pair[0].1);
            far += u32::from(shares);
        }
        assert!(far > 5 && all.last().is_some_and(|(_, next)| *next < TOO_FAR), "{version:?}: {far} share a hash");
        // As after seekdir(3).
        for (i, (_, next)) in all.iter().enumerate() {
            let rest = listed(&fs, dir, *next, 3);
            assert_eq!(rest, all[i + 1..(i + 4).min(all.len())], "{version:?}: from {next:#x}");
        }
        for cookie in [TOO_FAR - 1, TOO_FAR, u64::from(u32::MAX), i64::MAX as u64] {
            assert_eq!(listed(&fs, dir, cookie, 1), [], "{version:?}: from {cookie:#x}");
        }
    }
}

/// Names that are there all the while come once each, though around them others go and come: also those of their own
/// hash.
#[test]
fn a_listing_goes_on_where_it_was_while_names_come_and_go() {
    for version in VERSIONS {
        let fs = Fs::open(image(version));
        let all = names(&hasher(&fs), 2000);
        // Every other one comes later; every third goes as soon as it has been listed, the other way round too.
        let (first, later): (Vec<_>, Vec<_>) = all.iter().cloned().enumerate().partition(|(i, _)| i % 2 == 0);
        let first: Vec<Vec<u8>> = first.into_iter().map(|(_, name)| name).collect();
        let mut later = later.into_iter().map(|(_, name)| name);
        let dir = fill(&fs, &first);
        let file = fs.lookup("file");
        let (mut cookie, mut seen, mut n) = (0, BTreeMap::<Vec<u8>, u32>::new(), 0);
        while let Some((name, next)) = listed(&fs, dir, cookie, 1).pop() {
            *seen.entry(name.clone()).or_default() += 1;
            cookie = next;
            n += 1;
            if n > 2 && n % 3 == 0 {
                fs.volume.names().unlink(dir, &name).expect("unlink");
            }
            if let Some(name) = later.next() {
                fs.volume.names().link(file, dir, &name).expect("a link");
            }
        }
        for name in &first {
            assert_eq!(seen.get(name), Some(&1), "{version:?}: {:?}", String::from_utf8_lossy(name));
        }
        assert!(seen.values().all(|times| *times == 1), "{version:?}: a name was listed twice");
    }
}

/// rm(1) lists a part, removes it, and goes on: nothing stays.
#[test]
fn what_is_removed_while_it_is_listed_is_removed_whole() {
    for version in VERSIONS {
        let fs = Fs::open(image(version));
        let all = names(&hasher(&fs), 1000);
        for chunk in [1, 2, 7] {
            let dir = match fs.volume.names().lookup(ROOT, b"dir") {
                Ok(attr) => attr.ino,
                Err(_) => fs.mkdir(ROOT, "dir"),
            };
            let file =
                fs.volume.names().lookup(ROOT, b"file").map_or_else(|_| fs.create(ROOT, "file"), |attr| attr.ino);
            link_all(&fs, file, dir, &all);
            let mut cookie = 2;
            loop {
                let part = listed(&fs, dir, cookie, chunk);
                let Some((_, next)) = part.last() else { break };
                cookie = *next;
                part.iter().for_each(|(name, _)| fs.volume.names().unlink(dir, name).expect("unlink"));
            }
            assert_eq!(listed(&fs, dir, 2, 1), [], "{version:?}, {chunk} at a time");
        }
    }
}
