//! Maps that are stored to while their files change, against a model of both.

use crate::direct::{Random, file};
use crate::in_nvm::{attached, made};
use ondol::{Error, Exchange, Fallocate, FormatOptions, MapMut, Media, OpenOptions, Options, Volume};
use ondol_block::{BlockStore, RamStore};
use ondol_medium::Nvm;
use ondol_testkit::image;
use ondol_testkit::rig::Setup;
use std::sync::{Arc, LazyLock};

const BLOCK: usize = 4096;
const NAMES: [&str; 3] = ["/a", "/b", "/c"];
const EINVAL: i32 = 22;
const ENOSPC: i32 = 28;
/// As chattr(1) sets it.
const IMMUTABLE: u32 = 0x10;

/// An image of 16 MiB.
static IMAGE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    Volume::format(&path, &FormatOptions::new().size(16 << 20).inodes(32)).unwrap();
    std::fs::read(&path).unwrap()
});

/// What a volume lies on, so that it can be looked at as a crash would leave it.
enum Ground {
    Pool(Arc<Nvm>),
    Disk(Setup, Arc<RamStore>),
}

impl Ground {
    fn in_pool() -> (Media, Self) {
        let (media, nvm) = attached(&made(), None);
        (media, Self::Pool(nvm))
    }

    fn on_disk(setup: Setup) -> (Media, Self) {
        let store = Arc::new(RamStore::from_bytes(IMAGE.clone()));
        let media = setup.media(store.clone() as Arc<dyn BlockStore>);
        (media, Self::Disk(setup, store))
    }

    /// The volume as a crash leaves it now, recovered. Of a log in a pool beside the disk nobody has the bytes.
    fn crashed(&self) -> Option<(Media, Volume)> {
        let media: Media = match self {
            Self::Pool(nvm) => attached(&nvm.to_bytes().unwrap(), None).0,
            Self::Disk(setup, _) if setup.engine == ondol::JournalEngine::Scalable => return None,
            Self::Disk(_, store) => Arc::new(RamStore::from_bytes(store.to_bytes())).into(),
        };
        let options = match self {
            Self::Pool(_) => Options::default(),
            Self::Disk(setup, _) => setup.options(),
        };
        let volume = Volume::open_stepped(&media, &options, image::clock(1)).unwrap();
        Some((media, volume))
    }
}

fn opened(media: &Media, options: &Options) -> Volume {
    Volume::open_stepped(media, options, image::clock(1)).unwrap()
}

fn errno<T>(result: Result<T, Error>) -> i32 {
    result.err().expect("an error").errno()
}

/// A map, and what it must show.
struct Held {
    map: MapMut,
    /// Its file's place among all files, and where it begins in that.
    file: usize,
    from: usize,
    shows: Vec<u8>,
    stored: Vec<bool>,
}

struct Run<'v> {
    volume: &'v Volume,
    ground: &'v Ground,
    /// What each name leads to.
    names: [usize; 3],
    /// All files that there ever were.
    files: Vec<Vec<u8>>,
    held: Vec<Held>,
    random: Random,
    commits: usize,
    refused: usize,
}

impl Run<'_> {
    fn step(&mut self, tag: u8) {
        let (n, random) = (self.random.below(3), &mut self.random);
        let name = NAMES[n];
        let (from, len) =
            (random.below(20 * BLOCK), 1 + random.below(if tag.is_multiple_of(5) { 30 * BLOCK } else { 9000 }));
        let (volume, at) = (self.volume, self.names[n]);
        let bytes = &mut self.files[at];
        match random.below(18) {
            0 | 1 => {
                file(volume, name).write_all_at(&vec![tag; len], from as u64).unwrap();
                bytes.resize(bytes.len().max(from + len), 0);
                bytes[from..from + len].fill(tag);
            }
            2 => {
                // The maps of the file have it still.
                drop(file(volume, name));
                volume.remove_file(name).unwrap();
                self.names[n] = self.files.len();
                self.files.push(Vec::new());
            }
            4 => {
                let other = random.below(3);
                if other != n && !bytes.is_empty() && !self.files[self.names[other]].is_empty() {
                    volume.exchange(name, 0, NAMES[other], 0, &Exchange::default()).unwrap();
                    self.files.swap(at, self.names[other]);
                }
            }
            5 => {
                let len = len.min(bytes.len().saturating_sub(from));
                if len > 0 {
                    file(volume, name).fallocate(Fallocate::PunchHole, from as u64, len as u64).unwrap();
                    bytes[from..from + len].fill(0);
                }
            }
            6 => volume.sync().unwrap(),
            7 => drop(volume.checkpoint().unwrap()),
            8 | 9 => {
                let from = if random.below(2) == 0 { 0 } else { from / BLOCK * BLOCK };
                let shows = bytes.get(from..).unwrap_or_default().to_vec();
                let map = file(volume, name).map_mut_range(from as u64..).unwrap();
                if self.held.len() == 4 {
                    self.held.remove(0);
                }
                self.held.push(Held { map, file: at, from, stored: vec![false; shows.len()], shows });
            }
            10..=12 => self.store(tag, from, len),
            13 | 14 => self.commit(),
            15 => self.let_go(),
            // 3, 16 and 17.
            _ => {
                let size = random.below(6 * BLOCK);
                file(volume, name).set_len(size as u64).unwrap();
                bytes.resize(size, 0);
            }
        }
        for (name, at) in NAMES.iter().zip(self.names) {
            let found = volume.read(name).unwrap_or_default();
            assert!(found == self.files[at], "{name} is not what was written: step {tag}");
        }
        for held in &self.held {
            assert!(held.map[..] == held.shows[..], "a map is not what it was and what was stored to it: step {tag}");
        }
    }

    fn pick(&mut self) -> Option<usize> {
        (!self.held.is_empty()).then(|| self.random.below(self.held.len()))
    }

    fn store(&mut self, tag: u8, from: usize, len: usize) {
        let Some(at) = self.pick() else { return };
        let held = &mut self.held[at];
        let size = held.shows.len();
        if from + len > size {
            assert_eq!(errno(held.map.bytes_mut(from..from + len).map(drop)), EINVAL);
        }
        let range = from.min(size)..(from + len).min(size);
        held.map.bytes_mut(range.clone()).unwrap().fill(tag);
        held.shows[range.clone()].fill(tag);
        held.stored[range].fill(true);
        let stored = held.stored.iter().filter(|stored| **stored).count();
        assert_eq!(held.map.uncommitted(), stored as u64);
    }

    fn commit(&mut self) {
        let Some(at) = self.pick() else { return };
        let held = &mut self.held[at];
        let file = &mut self.files[held.file];
        let end = held.stored.iter().rposition(|stored| *stored).map_or(0, |last| held.from + last + 1);
        if end > file.len() {
            assert_eq!(errno(held.map.commit()), EINVAL);
            self.refused += 1;
            return;
        }
        held.map.commit().unwrap();
        for (at, stored) in held.stored.iter_mut().enumerate().filter(|(_, stored)| **stored) {
            (file[held.from + at], *stored) = (held.shows[at], false);
        }
        self.commits += 1;
        if self.commits % 16 == 1
            && let Some((_, recovered)) = self.ground.crashed()
        {
            for (name, at) in NAMES.iter().zip(self.names) {
                assert!(recovered.read(name).unwrap_or_default() == self.files[at], "{name} after a crash");
            }
            recovered.close().unwrap();
        }
    }

    fn let_go(&mut self) {
        let Some(at) = self.pick() else { return };
        if self.random.below(2) == 0 {
            self.held.swap_remove(at);
            return;
        }
        let held = &mut self.held[at];
        held.map.discard().unwrap();
        held.shows = self.files[held.file].get(held.from..).unwrap_or_default().to_vec();
        held.stored = vec![false; held.shows.len()];
    }
}

/// Commits of all runs, and those that were refused because files had become shorter.
fn run(media: Media, ground: &Ground, options: &Options, seed: u64) -> (usize, usize) {
    let (mut names, mut files) = ([0, 1, 2], vec![Vec::new(); 3]);
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let (mut commits, mut refused) = (0, 0);
    for _ in 0..2 {
        let volume = opened(&media, options);
        (names, files, random) = {
            let held = Vec::new();
            let mut run = Run { volume: &volume, ground, names, files, held, random, commits: 0, refused: 0 };
            (0..150).for_each(|n| run.step(n));
            (commits, refused) = (commits + run.commits, refused + run.refused);
            (run.names, run.files, run.random)
        };
        let counters = volume.state().counters();
        assert_eq!((counters.pages.pinned, counters.pages.held), (0, 0));
        volume.close().unwrap();
        assert!(ondol::check_media(&media).unwrap().is_clean());
    }
    (commits, refused)
}

fn many(mut once: impl FnMut(u64) -> (usize, usize), what: &str) {
    let (commits, refused) = (0..2).map(&mut once).fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
    println!("{what}: {commits} commits, {refused} refused");
    assert!(commits > 20 && refused > 0, "{what}: {commits} commits, {refused} refused");
}

#[test]
fn maps_in_a_pool_are_what_they_were_and_what_is_stored_and_commits_are_whole() {
    let engines = [
        "remap,data=journal",
        "remap,data=ordered",
        "swap,data=journal",
        "swap,data=ordered",
        "classic,data=ordered",
        "compressed,data=journal",
    ];
    for engine in engines {
        let options = Options::parse(&format!("journal={engine}")).unwrap();
        let once = |seed| {
            let (media, ground) = Ground::in_pool();
            run(media, &ground, &options, seed)
        };
        many(once, engine);
    }
}

#[test]
fn maps_of_files_on_a_disk_are_copies_and_commit_in_the_same_way() {
    // A home that takes batches is no disk.
    let is_on_disk = |setup: &Setup| !setup.lies_in_pool() && setup.engine != ondol::JournalEngine::Batch;
    for setup in Setup::ALL.into_iter().filter(is_on_disk) {
        let once = |seed| {
            let (media, ground) = Ground::on_disk(setup);
            run(media, &ground, &setup.options(), seed)
        };
        many(once, &format!("{setup:?}"));
    }
}

/// More than one operation holds: new blocks change places with the file's, and what others have written beside the
/// stores stays.
#[test]
fn a_large_commit_is_one() {
    for (media, options) in [
        (Ground::in_pool().0, "journal=remap,data=journal"),
        (Ground::in_pool().0, "journal=remap,data=ordered"),
        (Ground::on_disk(Setup::CLASSIC_ORDERED).0, "journal=classic,data=ordered"),
        (Ground::on_disk(Setup::COMPRESSED_JOURNAL).0, "journal=compressed,data=journal"),
    ] {
        let volume = opened(&media, &Options::parse(options).unwrap());
        let len = 600 * BLOCK + 100;
        volume.write("/a", vec![1; len]).unwrap();
        let file = file(&volume, "/a");
        file.fallocate(Fallocate::PunchHole, 0, 200 * BLOCK as u64).unwrap();
        let mut map = file.map_mut().unwrap();
        let mut expected = map.to_vec();
        // Whole pages, parts of pages, several parts of one page, holes, and the end of the file.
        for range in
            [100..110, 300..5000, 5000..5001, 9000..400 * BLOCK, 401 * BLOCK..402 * BLOCK + 7, 500 * BLOCK..len]
        {
            map.bytes_mut(range.clone()).unwrap().fill(2);
            expected[range].fill(2);
        }
        for at in [50, 200, 5001, 8999, 402 * BLOCK + 8, 450 * BLOCK] {
            file.write_all_at(&[3], at as u64).unwrap();
            expected[at] = 3;
        }
        let (free, inodes) = (volume.statfs().free, volume.inodes());
        // No matter to a file that is there.
        let flags = inodes.inode_ops().flags(ondol::ROOT).unwrap();
        inodes.inode_ops().set_flags(ondol::ROOT, flags | IMMUTABLE, u32::MAX).unwrap();
        map.commit().unwrap();
        inodes.inode_ops().set_flags(ondol::ROOT, flags, u32::MAX).unwrap();
        assert!(volume.read("/a").unwrap() == expected, "{options}");
        let counters = volume.state().counters();
        assert_eq!((counters.files.batches, counters.files.batch_exchanges, map.uncommitted()), (1, 1, 0), "{options}");
        assert!(map[50] != 3, "the map shows what it was made of");
        map.discard().unwrap();
        assert!(map[..] == expected[..] && file.metadata().unwrap().len() == len as u64);
        // A small one comes after it, and one that has nothing.
        map.store(0, &[4; 10]).unwrap();
        map.commit().unwrap();
        map.commit().unwrap();
        expected[..10].fill(4);
        assert!(volume.read("/a").unwrap() == expected);
        assert_eq!(volume.state().counters().files.batches, 2);
        assert!(volume.statfs().free <= free, "holes were stored to");
        drop((map, file));
        volume.close().unwrap();
        assert!(ondol::check_media(&media).unwrap().is_clean(), "{options}");
    }
}

/// What cannot be committed changes nothing, and can be committed later.
#[test]
fn a_commit_that_fails_keeps_its_stores() {
    for (large, media) in [(false, Ground::in_pool().0), (true, Ground::in_pool().0)] {
        let volume = opened(&media, &Options::parse("journal=remap,data=ordered").unwrap());
        let file = file(&volume, "/a");
        file.set_len(700 * BLOCK as u64).unwrap();
        let filling = self::file(&volume, "/full");
        (0..).find(|n| filling.write_all_at(&[9; 64 << 10], n * (64 << 10)).is_err()).unwrap();
        drop(filling);
        let mut map = file.map_mut().unwrap();
        let stored = if large { 700 * BLOCK } else { 20 * BLOCK };
        map.bytes_mut(0..stored).unwrap().fill(7);
        for _ in 0..2 {
            assert_eq!(errno(map.commit()), ENOSPC, "every block of a hole needs one");
            assert!(volume.read("/a").unwrap().iter().all(|byte| *byte == 0));
            assert!(map[..stored].iter().all(|byte| *byte == 7) && map.uncommitted() == stored as u64);
        }
        volume.remove_file("/full").unwrap();
        map.commit().unwrap();
        assert!(volume.read("/a").unwrap() == map[..]);
        assert_eq!(volume.state().counters().files.batch_exchanges, u64::from(large));
        // Shorter, and long enough again.
        map.store(stored - 1, &[8]).unwrap();
        file.set_len(stored as u64 - 1).unwrap();
        let error = map.commit().unwrap_err();
        assert_eq!(error.errno(), EINVAL);
        assert!(error.to_string().contains(&format!("ends at byte {}", stored - 1)), "{error}");
        file.set_len(stored as u64).unwrap();
        map.commit().unwrap();
        assert_eq!(volume.read("/a").unwrap()[stored - 1], 8);
        drop((map, file));
        volume.close().unwrap();
    }
}

#[test]
fn who_may_not_write_may_not_map_so() {
    let (media, _) = Ground::in_pool();
    let volume = opened(&media, &Options::default());
    volume.write("/a", [1; 10_000]).unwrap();
    assert!(volume.open_file("/a").unwrap().map_mut().is_err());
    let written = OpenOptions::new().write(true).open(&volume, "/a");
    assert!(written.unwrap().map_mut().is_err());
    let appended = OpenOptions::new().read(true).append(true).open(&volume, "/a");
    assert_eq!(errno(appended.unwrap().map_mut()), 1);
    let file = file(&volume, "/a");
    assert_eq!(errno(file.map_mut_range(100..)), EINVAL);
    let mut map = file.map_mut_range(4096..9000).unwrap();
    assert_eq!((map.len(), map.offset(), map.is_copied()), (9000 - 4096, 4096, false));
    assert!(file.map_mut_range(1 << 30..).unwrap().is_empty());
    map.store(0, &[2; 5]).unwrap();
    // Another opener of the same inode, by number, and one that made it immutable.
    let again = OpenOptions::new().read(true).write(true).reopen(&volume, file.ino()).unwrap();
    let inodes = volume.inodes();
    let flags = inodes.inode_ops().flags(file.ino()).unwrap();
    inodes.inode_ops().set_flags(file.ino(), flags | IMMUTABLE, u32::MAX).unwrap();
    assert_eq!(errno(map.commit()), 1);
    inodes.inode_ops().set_flags(file.ino(), flags, u32::MAX).unwrap();
    map.commit().unwrap();
    let mut bytes = [0; 6];
    again.read_at(&mut bytes, 4096).unwrap();
    assert_eq!(bytes, [2, 2, 2, 2, 2, 1]);
    drop((map, file, again));
    volume.close().unwrap();
}

/// The file is gone, and its openers, but for the map.
#[test]
fn a_map_keeps_its_file() {
    let (media, _) = Ground::in_pool();
    let volume = opened(&media, &Options::default());
    volume.write("/a", [1; 3 * BLOCK]).unwrap();
    let mut map = file(&volume, "/a").map_mut().unwrap();
    volume.remove_file("/a").unwrap();
    for n in 0..10 {
        volume.write(format!("/b{n}"), [5; 3 * BLOCK]).unwrap();
    }
    map.store(BLOCK, &[2; 10]).unwrap();
    map.commit().unwrap();
    map.discard().unwrap();
    assert_eq!((map[BLOCK - 1], map[BLOCK], map[BLOCK + 10]), (1, 2, 1));
    (0..10).for_each(|n| assert_eq!(volume.read(format!("/b{n}")).unwrap(), [5; 3 * BLOCK]));
    drop(map);
    volume.close().unwrap();
    assert!(ondol::check_media(&media).unwrap().is_clean());
}

/// Threads that read, view and map while others commit see each commit whole.
#[test]
fn readers_see_commits_whole() {
    let (media, _) = Ground::in_pool();
    let volume = opened(&media, &Options::parse("journal=remap,data=ordered").unwrap());
    volume.write("/a", vec![0; 400 * BLOCK]).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    let whole = |bytes: &[u8]| {
        let places = [0, 3 * BLOCK + 5, 100 * BLOCK, 399 * BLOCK + 9];
        assert!(places.windows(2).all(|two| bytes[two[0]] == bytes[two[1]]), "half a commit is seen");
    };
    std::thread::scope(|threads| {
        for how in 0..3 {
            let (volume, done) = (&volume, &done);
            threads.spawn(move || {
                let file = volume.open_file("/a").unwrap();
                while !done.load(std::sync::atomic::Ordering::SeqCst) {
                    match how {
                        0 => whole(&volume.read("/a").unwrap()),
                        1 => whole(&file.view(..).unwrap().to_vec()),
                        _ => whole(&file.map().unwrap()),
                    }
                }
            });
        }
        let mut map = file(&volume, "/a").map_mut().unwrap();
        for n in 0..60 {
            for at in [0, 3 * BLOCK + 5, 100 * BLOCK, 399 * BLOCK + 9] {
                map.bytes_mut(at..at + 1).unwrap()[0] = n;
            }
            if n % 10 == 0 {
                map.bytes_mut(BLOCK..3 * BLOCK).unwrap().fill(n);
                map.bytes_mut(4 * BLOCK..399 * BLOCK).unwrap().fill(n);
            }
            map.commit().unwrap();
        }
        done.store(true, std::sync::atomic::Ordering::SeqCst);
    });
    assert!(volume.state().counters().files.batch_exchanges > 0);
    volume.close().unwrap();
}

/// A page that is committed is stored to the pool once, where it stays, and others are not touched.
#[test]
fn a_commit_stores_each_page_once() {
    for data in ["journal", "ordered"] {
        let (media, _) = Ground::in_pool();
        let volume = opened(&media, &Options::parse(&format!("journal=remap,data={data}")).unwrap());
        volume.write("/a", vec![1; 60 * BLOCK]).unwrap();
        volume.sync().unwrap();
        while volume.checkpoint().unwrap() {}
        let mut map = file(&volume, "/a").map_mut().unwrap();
        let pages = [3, 4, 5, 20, 40, 59];
        let stored = volume.state().counters();
        pages.iter().for_each(|page| map.bytes_mut(page * BLOCK..(page + 1) * BLOCK).unwrap().fill(2));
        assert_eq!(
            volume.state().counters().nvm.all_bytes(),
            stored.nvm.all_bytes(),
            "nothing of a store reaches the pool"
        );
        map.commit().unwrap();
        let committed = volume.state().counters();
        assert_eq!(committed.nvm.copied_bytes - stored.nvm.copied_bytes, (pages.len() * BLOCK) as u64, "{data}");
        let beside = committed.nvm.all_bytes() - stored.nvm.all_bytes() - (pages.len() * BLOCK) as u64;
        assert!(beside < 2048, "{beside} bytes beside the pages");
        while volume.checkpoint().unwrap() {}
        let home = volume.state().counters();
        assert!(home.nvm.copied_bytes - committed.nvm.copied_bytes < BLOCK as u64, "a checkpoint copies no page");
        drop(map);
        volume.close().unwrap();
    }
}
