//! Views and maps of files in a pool, held while the files change, against a model of them.

use crate::in_nvm::{attached, made};
use ondol::{Counters, Exchange, Fallocate, File, Map, MapStats, OpenOptions, Options, Prefault, View, Volume};
use ondol_testkit::image;
use std::collections::BTreeMap;

const BLOCK: usize = 4096;
const NAMES: [&str; 3] = ["/a", "/b", "/c"];

fn opened(media: &ondol::Media, options: &str) -> Volume {
    Volume::open_stepped(media, &Options::parse(options).unwrap(), image::clock(1)).unwrap()
}

/// A file that is made if there is none.
pub(crate) fn file(volume: &Volume, path: &str) -> File {
    OpenOptions::new().read(true).write(true).create(true).open(volume, path).unwrap()
}

/// Numbers that a seed decides.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

/// What was lent, and what it was.
enum Lent {
    View(View, Vec<u8>),
    Map(Map, Vec<u8>),
}

impl Lent {
    fn is_what_it_was(&self) -> bool {
        match self {
            Self::View(view, was) => view.to_vec() == *was && view.len() == was.len() as u64,
            Self::Map(map, was) => map[..] == was[..],
        }
    }
}

struct Run<'v> {
    volume: &'v Volume,
    files: BTreeMap<&'static str, Vec<u8>>,
    lent: Vec<Lent>,
    random: Random,
}

impl Run<'_> {
    fn step(&mut self, tag: u8) {
        let (name, random) = (NAMES[self.random.below(3)], &mut self.random);
        let (from, len) =
            (random.below(20 * BLOCK), 1 + random.below(if tag.is_multiple_of(5) { 30 * BLOCK } else { 9000 }));
        let (volume, bytes) = (self.volume, self.files.entry(name).or_default());
        let file = file(volume, name);
        match random.below(12) {
            0..=2 => {
                file.write_all_at(&vec![tag; len], from as u64).unwrap();
                bytes.resize(bytes.len().max(from + len), 0);
                bytes[from..from + len].fill(tag);
            }
            3 => {
                file.set_len(from as u64).unwrap();
                bytes.resize(from, 0);
            }
            4 => {
                drop(file);
                volume.remove_file(name).unwrap();
                bytes.clear();
            }
            5 => {
                let other = NAMES[random.below(3)];
                if other != name && !bytes.is_empty() && self.files.get(other).is_some_and(|other| !other.is_empty()) {
                    volume.exchange(name, 0, other, 0, &Exchange::default()).unwrap();
                    let (one, two) = (self.files[name].clone(), self.files[other].clone());
                    self.files.extend([(name, two), (other, one)]);
                }
            }
            6 => {
                let len = len.min(bytes.len().saturating_sub(from));
                if len > 0 {
                    file.fallocate(Fallocate::PunchHole, from as u64, len as u64).unwrap();
                    bytes[from..from + len].fill(0);
                }
            }
            7 => volume.sync().unwrap(),
            8 => drop(volume.checkpoint().unwrap()),
            9 => {
                let end = (from + len).min(bytes.len());
                let view = file.view(from as u64..(from + len) as u64).unwrap();
                self.lent.push(Lent::View(view, bytes.get(from..end).unwrap_or_default().to_vec()));
            }
            10 => self.lent.push(Lent::Map(file.map().unwrap(), bytes.clone())),
            _ => {
                if !self.lent.is_empty() {
                    self.lent.swap_remove(random.below(self.lent.len()));
                }
            }
        }
        assert!(self.lent.iter().all(Lent::is_what_it_was), "what was lent has changed with step {tag}");
        for (name, bytes) in &self.files {
            let found = volume.read(name).unwrap_or_default();
            assert!(found == *bytes, "{name} is not what was written: {} of {} bytes", found.len(), bytes.len());
        }
    }
}

fn run(options: &str, seed: u64) -> Counters {
    let (media, nvm) = attached(&made(), None);
    let mut files = BTreeMap::new();
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut counters = Counters::default();
    for _ in 0..3 {
        let volume = opened(&media, options);
        let mut run = Run { volume: &volume, files, lent: Vec::new(), random };
        (0..120).for_each(|n| run.step(n));
        // The process dies while it has views: nothing of them is on the medium.
        volume.sync().unwrap();
        let dead = nvm.to_bytes().unwrap();
        let (after, _) = attached(&dead, None);
        let recovered = opened(&after, "");
        for (name, bytes) in &run.files {
            assert!(recovered.read(name).unwrap_or_default() == *bytes, "{name} after a crash");
        }
        recovered.close().unwrap();
        assert!(ondol::check_media(&after).unwrap().is_clean());
        (files, random) = (run.files, run.random);
        drop(run.lent);
        counters = volume.state().counters();
        assert_eq!((counters.pages.pinned, counters.pages.held), (0, 0));
        volume.close().unwrap();
    }
    counters
}

#[test]
fn views_and_maps_stay_what_they_are_whatever_is_done_to_the_files() {
    let engines = [
        "remap,data=journal",
        "remap,data=ordered",
        "swap,data=journal",
        "classic,data=ordered",
        "compressed,data=journal",
    ];
    for engine in engines {
        for seed in 0..3 {
            let counters = run(&format!("journal={engine}"), seed);
            println!(
                "{engine}: {} bytes lent, {} copied",
                counters.files.view_lent_bytes, counters.files.view_copied_bytes
            );
            assert!(counters.files.view_lent_bytes > counters.files.view_copied_bytes, "{engine}");
        }
    }
}

#[test]
fn nothing_is_copied_whatever_state_the_data_is_in() {
    let (media, _) = attached(&made(), None);
    let volume = opened(&media, "journal=remap,data=journal");
    let meter = volume.state().nvm_meter();
    let file = file(&volume, "/a");
    let whole: Vec<u8> = (0..10 * BLOCK).map(|n| (n / 100) as u8).collect();
    file.write_all_at(&whole, 0).unwrap();
    file.set_len(40 * BLOCK as u64).unwrap();
    file.write_all_at(b"tail", 60 * BLOCK as u64 - 4).unwrap();
    let mut expected = whole.clone();
    expected.resize(60 * BLOCK - 4, 0);
    expected.extend_from_slice(b"tail");
    // In a record's page and not committed; committed; home.
    for stage in 0..3 {
        let before = meter.read().read_bytes;
        let (view, map) = (file.view(..).unwrap(), file.map().unwrap());
        let read = meter.read().read_bytes - before;
        assert_eq!((view.copied(), map.is_copied()), (0, false), "stage {stage}");
        assert_eq!((view.to_vec() == expected, map[..] == expected[..]), (true, true), "stage {stage}");
        assert!(read < BLOCK as u64, "{read} bytes were read at stage {stage}");
        assert!(view.slices().count() < 20, "{view:?}");
        match stage {
            0 => volume.sync().unwrap(),
            _ => while volume.checkpoint().unwrap() {},
        }
    }
    assert_eq!(volume.state().counters().files.view_copied_bytes, 0);
    let inside = file.view(5000..=5001).unwrap();
    assert_eq!(inside.to_vec(), whole[5000..5002]);
    assert!(file.view(1 << 40..).unwrap().is_empty() && file.view(7..7).unwrap().is_empty());
    let (from, to) = (9, 3);
    assert!(file.view(from..to).unwrap().is_empty());
    drop((inside, file));
    volume.close().unwrap();
}

/// What is unlinked and closed is still there for who has it, and its pages are free when they let go.
#[test]
fn a_file_that_is_gone_is_there_for_its_views() {
    let (media, _) = attached(&made(), None);
    let volume = opened(&media, "journal=remap");
    volume.write("/a", [7; 20 * BLOCK]).unwrap();
    let file = file(&volume, "/a");
    let (view, map) = (file.view(..).unwrap(), file.map().unwrap());
    drop(file);
    volume.remove_file("/a").unwrap();
    // Everything is used, and used again, until no page is as it was.
    for n in 0..40 {
        volume.write("/b", vec![n; 1 << 20]).unwrap();
        volume.sync().unwrap();
        while volume.checkpoint().unwrap() {}
    }
    let full = (0..).find(|n| volume.write(format!("/fill{n}"), vec![9; 256 << 10]).is_err()).unwrap();
    assert!(view.copied() == 0 && view.to_vec() == [7; 20 * BLOCK] && map[..] == [7; 20 * BLOCK]);
    (0..=full).for_each(|n| volume.remove_file(format!("/fill{n}")).unwrap());
    volume.sync().unwrap();
    assert!(view.to_vec() == [7; 20 * BLOCK] && map[..] == [7; 20 * BLOCK]);
    drop((view, map));
    assert_eq!(volume.state().counters().pages.held, 0);
    volume.close().unwrap();
}

/// Maps keep pages as long as nobody else needs them: who holds more of them than the pool has pages has copies, and
/// writers never fail.
#[test]
fn maps_give_back_what_writers_need() {
    let (media, _) = attached(&made(), None);
    let volume = opened(&media, "journal=remap");
    let file = file(&volume, "/a");
    let bytes = |n: u8| vec![n; 256 * BLOCK];
    let maps: Vec<Map> = (0..60)
        .map(|n| {
            file.write_all_at(&bytes(n), 0).unwrap();
            volume.sync().unwrap();
            file.map().unwrap()
        })
        .collect();
    let counters = volume.state().counters();
    assert!(counters.pages.parted > 0, "{counters:?}");
    assert!((0..).zip(&maps).all(|(n, map)| map[..] == bytes(n)[..] && !map.is_copied()));
    drop(maps);
    assert_eq!(volume.state().counters().pages.held, 0);
    drop(file);
    volume.close().unwrap();
}

#[test]
fn pins_run_out_and_what_goes_beyond_is_a_copy() {
    let (media, _) = attached(&made(), None);
    let volume = opened(&media, "journal=remap");
    let most = volume.state().counters().pages.pinnable as usize;
    assert!(most > 50, "{most}");
    let whole: Vec<u8> = (0..2 * most * BLOCK).map(|n| (n / BLOCK) as u8).collect();
    volume.write("/a", &whole).unwrap();
    volume.sync().unwrap();
    while volume.checkpoint().unwrap() {}
    let file = file(&volume, "/a");
    let first = file.view(..).unwrap();
    let (lent, copied) = (most * BLOCK, first.copied() as usize);
    assert_eq!((first.len() as usize - copied, volume.state().counters().pages.pinned), (lent, most as u64));
    let second = file.view(..).unwrap();
    assert_eq!(second.copied(), second.len());
    let map = file.map().unwrap();
    assert!(!map.is_copied() && map[..] == whole[..]);
    // As much as ever is written, and nothing of it shows.
    (0..20).for_each(|n| file.write_all_at(&vec![n; whole.len()], 0).unwrap());
    volume.sync().unwrap();
    assert!(first.to_vec() == whole && second.to_vec() == whole && map[..] == whole[..]);
    let counters = volume.state().counters();
    // Pages abound, so that the map need not give any back.
    assert!(counters.pages.parted == 0 && counters.pages.held >= most as u64, "{counters:?}");
    drop((first, second, map));
    assert_eq!((volume.state().counters().pages.held, file.view(..BLOCK as u64).unwrap().copied()), (0, 0));
    drop(file);
    volume.close().unwrap();
}

/// Elsewhere everything is a copy, and the same.
#[test]
fn a_volume_in_a_file_is_viewed_by_copies() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.img");
    Volume::format(&path, &ondol::FormatOptions::new().size(16 << 20)).unwrap();
    let volume = Volume::open(&path).unwrap();
    volume.write("/a", [3; 10_000]).unwrap();
    volume.write("/empty", []).unwrap();
    let file = volume.open_file("/a").unwrap();
    let (view, map) = (file.view(100..).unwrap(), file.map().unwrap());
    assert!(map.is_copied() && map[..] == [3; 10_000] && view.to_vec() == [3; 9_900]);
    assert!(volume.open_file("/empty").unwrap().map().unwrap().is_empty());
    assert!(volume.open_file("/").is_ok_and(|dir| dir.view(..).is_err() && dir.map().is_err()));
    let closed = OpenOptions::new().write(true).open(&volume, "/a").unwrap();
    assert!(closed.view(..).is_err() && closed.map().is_err(), "not open for reading");
    drop((view, map, file, closed));
    volume.close().unwrap();
}

/// Whoever reads beside whoever writes sees all of a write or nothing of it, and never another file's bytes.
#[test]
#[allow(clippy::disallowed_methods, reason = "a test")]
fn readers_never_see_half_a_write() {
    let dir = tempfile::tempdir().unwrap();
    let pool = format!("nvm:{}", dir.path().join("pool").display());
    Volume::format(&pool, &ondol::FormatOptions::new().size(16 << 20)).unwrap();
    let volume = Volume::open(&pool).unwrap();
    NAMES.iter().for_each(|name| volume.write(name, [0; 16 * BLOCK]).unwrap());
    std::thread::scope(|scope| {
        let writing = NAMES.map(|name| {
            let volume = &volume;
            scope.spawn(move || {
                let file = file(volume, name);
                for n in 1..=200u8 {
                    file.write_all_at(&[n; 16 * BLOCK], 0).unwrap();
                    if n.is_multiple_of(20) {
                        file.sync_all().unwrap();
                    }
                }
            })
        });
        let files = NAMES.map(|name| file(&volume, name));
        let mut seen = 0u64;
        while writing.iter().any(|writer| !writer.is_finished()) {
            for file in &files {
                let (view, map) = (file.view(..).unwrap(), file.map().unwrap());
                let (first, of_map) = (view.to_vec(), map.to_vec());
                for (bytes, again) in [(&first, view.to_vec()), (&of_map, map.to_vec())] {
                    assert!(bytes.iter().all(|byte| *byte == bytes[0]), "half a write");
                    assert!(*bytes == again, "what was lent has changed");
                }
                seen += 1;
            }
        }
        println!("{seen} views and maps beside 600 writes");
    });
    let counters = volume.state().counters();
    assert_eq!((counters.pages.pinned, counters.pages.held), (0, 0));
    volume.close().unwrap();
}

/// Page faults of this thread that needed no disk.
fn faults() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    stat.rsplit_once(')').unwrap().1.split_whitespace().nth(7).unwrap().parse().unwrap()
}

/// A map of a file whose pages all lie apart, so that a fault enters one; read page by page. Faults, and what was
/// entered before.
fn read_mapped(file: &File, prefault: Prefault, pages: impl Iterator<Item = usize>) -> (u64, MapStats) {
    let map = file.map_with(prefault).unwrap();
    assert!(!map.is_copied());
    let mut taken = 0;
    // The first time, what counts takes faults of its own: its code comes in.
    faults();
    for page in pages {
        let at = page * BLOCK;
        let bytes = map.get(at..at + 8).unwrap();
        let before = faults();
        assert_eq!(std::hint::black_box(bytes)[0], (page / 2) as u8);
        taken += faults() - before;
    }
    (taken, map.stats())
}

/// Real faults are counted: each page costs one, and none that was entered before.
#[test]
fn pages_that_were_entered_take_no_fault() {
    let (media, _) = attached(&made(), None);
    let volume = opened(&media, "journal=remap");
    let (file, beside) = (file(&volume, "/a"), file(&volume, "/b"));
    for page in 0..256 {
        file.write_all_at(&[(page / 2) as u8; BLOCK], (page * BLOCK) as u64).unwrap();
        beside.write_all_at(&[9; BLOCK], (page * BLOCK) as u64).unwrap();
    }
    let (plain, nothing) = read_mapped(&file, Prefault::Plain, 0..256);
    assert_eq!((plain, nothing), (256, MapStats::default()));
    let populated = read_mapped(&file, Prefault::Populate, 0..256);
    assert_eq!(populated, (0, MapStats { windows: 1, pages: 256 }));
    let windows = read_mapped(&file, Prefault::PAPER, 0..256);
    assert_eq!(windows, (0, MapStats { windows: 18, pages: 256 }));
    let worst = read_mapped(&file, Prefault::PAPER, (0..256).step_by(16));
    assert_eq!(worst, (0, MapStats { windows: 16, pages: 64 }));
    // 16, 32, 64, 128 and 16 that are left.
    let long = read_mapped(&file, Prefault::LONG, 0..256);
    assert_eq!(long, (0, MapStats { windows: 5, pages: 256 }));
    let fixed = read_mapped(&file, Prefault::Windows { least: 32, most: 32 }, (0..256).rev().step_by(2));
    assert_eq!((fixed.0, fixed.1.pages), (0, 255));
    drop((file, beside));
    volume.close().unwrap();
}

/// However long holes are, they take no memory.
#[test]
fn a_hole_of_terabytes_is_mapped() {
    let (media, _) = attached(&made(), None);
    let volume = opened(&media, "journal=remap");
    let (file, size) = (file(&volume, "/a"), 8usize << 40);
    file.write_all_at(b"head", 0).unwrap();
    file.write_all_at(b"end", size as u64 - 3).unwrap();
    for prefault in [Prefault::Plain, Prefault::Populate, Prefault::PAPER, Prefault::LONG] {
        let map = file.map_with(prefault).unwrap();
        assert!(!map.is_copied() && map.len() == size);
        let parts = [0..4, size / 2..size / 2 + 4, size - 4..size].map(|range| map.get(range).unwrap().to_vec());
        assert_eq!(parts, [b"head".to_vec(), vec![0; 4], b"\0end".to_vec()]);
        assert!(map.get(size - 1..size + 1).is_none());
    }
    assert_eq!(file.map_with(Prefault::Populate).unwrap().stats(), MapStats { windows: 2, pages: 2 });
    assert_eq!(file.view(size as u64 / 2..size as u64 / 2 + 200_000).unwrap().slices().count(), 4);
    drop(file);
    volume.close().unwrap();
}
