//! Power may fail anywhere while a volume grows or shrinks: it is whole afterwards, of a size between the old one and the new one, holds what it held, and
//! goes on from there. Planted defects are found so.

use ondol::{NewSize, OpenOptions, Options, Volume, check_media, resize_media};
use ondol_block::{BlockStore, FaultPlan, Faulty, RamStore, Recorder};
use ondol_env::plant::{self, Defect};
use ondol_env::sync::Arc;
use ondol_power::{Kind, Layer, Medium, PowerDomain, Sampling};
use ondol_testkit::dump::{self, Snapshot, Strictness};
use ondol_testkit::image::{self, Spec};
use ondol_volume::Image;
use std::collections::HashSet;

const MIB: u64 = 1 << 20;

/// A volume, how it is to change, and what it holds.
struct Case {
    name: &'static str,
    bytes: Vec<u8>,
    seen: Snapshot,
    to: u64,
    sizes: [u64; 2],
}

fn blocks(bytes: &[u8]) -> u64 {
    Image::open(Arc::new(RamStore::from_bytes(bytes.to_vec()))).expect("an image").superblock().blocks_count()
}

fn run(store: Arc<dyn BlockStore>, to: u64) -> ondol::Result<u64> {
    resize_media(&store.into(), NewSize::Bytes(to), image::clock(2), &mut |_, _| ()).map(|done| done.blocks)
}

impl Case {
    /// A volume of `from` MiB of which much lies at its end, in pieces, on a medium that has room for `to`.
    fn new(name: &'static str, args: &str, from: u64, to: u64) -> Self {
        let spec = Spec::new(from * MIB, 1024).journal(1).with("-N 512").with(args);
        let mut bytes = spec.make().expect("mke2fs");
        bytes.resize((from.max(to) * MIB) as usize, 0);
        let store = Arc::new(RamStore::from_bytes(bytes));
        let volume = Volume::open_stepped(store.clone(), &Options::default(), image::clock(1)).expect("open");
        volume.create_dir("/d").expect("mkdir");
        volume.create_dir("/d/e").expect("mkdir");
        let scatter = |name: &str, range: std::ops::Range<u64>| {
            let file = OpenOptions::new().write(true).create(true).open(&volume, name).expect("a file");
            for at in range {
                file.write_at(&[(at % 250) as u8 + 1; 1024], at * 4096).expect("write");
            }
        };
        // Its mapping lies at the beginning of the volume, and what it will have at the end is added.
        scatter("/z", 0..14);
        let mut n = 0;
        while volume.statfs().free > 1200 {
            volume.write(format!("/d/f{n:03}"), vec![n as u8; 300_000]).expect("write");
            n += 1;
        }
        // Two that grow by turns lie in many pieces.
        for at in 0..24 {
            ["/x", "/d/e/y"].into_iter().for_each(|name| scatter(name, at..at + 1));
        }
        scatter("/z", 14..30);
        volume.set_xattr("/d/e", "user.much", [8; 700], ondol::SetXattr::Any).expect("an attribute");
        volume.symlink("t".repeat(200), "/d/link").expect("symlink");
        (0..n - 1).for_each(|n| volume.remove_file(format!("/d/f{n:03}")).expect("remove"));
        let seen = dump::of_volume(volume.inodes()).expect("a dump");
        volume.close().expect("close");
        let bytes = store.to_bytes();
        let done = Arc::new(RamStore::from_bytes(bytes.clone()));
        let after = run(done, to * MIB).unwrap_or_else(|e| panic!("{name}: {e}"));
        Self { name, sizes: [blocks(&bytes), after], bytes, seen, to: to * MIB }
    }

    /// What an image cut short comes to; says how many blocks it has.
    fn judge(&self, bytes: Vec<u8>, to_the_end: bool) -> Result<u64, String> {
        let store = Arc::new(RamStore::from_bytes(bytes));
        let text = |e: ondol::Error| e.to_string();
        Volume::open_stepped(store.clone(), &Options::default(), image::clock(1))
            .map_err(text)?
            .close()
            .map_err(text)?;
        let found = blocks(&store.to_bytes());
        let [low, high] = [self.sizes[0].min(self.sizes[1]), self.sizes[0].max(self.sizes[1])];
        if !(low..=high).contains(&found) {
            return Err(format!("{found} blocks, not {low} to {high}"));
        }
        self.holds(&store)?;
        if to_the_end {
            run(store.clone(), self.to).map_err(text)?;
            if blocks(&store.to_bytes()) != self.sizes[1] {
                return Err("it does not go on".into());
            }
            self.holds(&store)?;
            let verdict = image::check(&store.to_bytes()).expect("e2fsck");
            if !verdict.is_clean() {
                return Err(verdict.output);
            }
        }
        Ok(found)
    }

    fn holds(&self, store: &Arc<RamStore>) -> Result<(), String> {
        let shared: Arc<dyn BlockStore> = store.clone();
        let checked = check_media(&shared).map_err(|e| e.to_string())?;
        if !checked.is_clean() || !checked.notes.is_empty() {
            return Err(format!("{:?} {:?}", checked.problems, checked.notes));
        }
        let reading = Options::default().with_read_only(true);
        let volume = Volume::open_stepped(store.clone(), &reading, image::clock(1)).map_err(|e| e.to_string())?;
        let seen = dump::of_volume(volume.inodes()).map_err(|e| e.to_string())?;
        let lines = self.seen.differences(&seen, Strictness::Whole);
        if lines.is_empty() { Ok(()) } else { Err(lines.join("\n")) }
    }

    /// Cuts the power everywhere; what is wrong, if anything is, and the sizes that were found.
    fn explore(&self, sampling: &Sampling, defect: Option<Defect>) -> (usize, Vec<u64>, Option<String>) {
        let (media, events) = record(&self.bytes, defect, &|store| {
            run(store, self.to).expect("a resize");
        });
        let (mut n, mut sizes, mut wrong) = (0u64, Vec::new(), None);
        // Of short runs all.
        let few = if ondol_tests::hunting() { 1 } else { 3 };
        let one_of = if events.len() < 150 { 1 } else { few * sampling.one_of };
        let sampling = Sampling { one_of, ..*sampling };
        let mut met = HashSet::new();
        let states = sampling.each(&media, &events, |layers, _| {
            if wrong.is_some() || !met.insert(layers[0].clone().fingerprint()) {
                return;
            }
            n += 1;
            let _planted = plant::set(defect).expect("a build with defects");
            let left = layers[0].to_bytes();
            match self.judge(left.clone(), n.is_multiple_of(16)) {
                Ok(found) => sizes.push(found),
                Err(e) => wrong = Some(format!("{}, state {n}: {e}", self.name)),
            }
            if wrong.is_none() && n.is_multiple_of(8) {
                wrong = self.by_e2fsck(&left).map_err(|e| format!("{}, state {n}, by e2fsck: {e}", self.name)).err();
            }
            if wrong.is_none() && n.is_multiple_of(24) {
                wrong = self.again(&left, n).err();
            }
        });
        sizes.sort_unstable();
        sizes.dedup();
        (states, sizes, wrong)
    }

    /// What is left to e2fsck, which knows nothing of resizing, is whole and holds all.
    fn by_e2fsck(&self, left: &[u8]) -> Result<(), String> {
        match image::judge_left(left).expect("e2fsck")? {
            Some(mut after) => self.holds(&Arc::new(RamStore::from_bytes(after.swap_remove(0)))),
            None => Ok(()),
        }
    }

    /// Power fails a second time, while that is recovered.
    fn again(&self, left: &[u8], n: u64) -> Result<(), String> {
        let (media, events) = record(left, None, &|store| {
            let opened = Volume::open_stepped(store, &Options::default(), image::clock(1));
            opened.and_then(Volume::close).expect("recovery");
        });
        let few = Sampling { all_of: 4, samples: 1, torn: 1, extremes: 2, one_of: 2, seed: n };
        let mut wrong = Ok(());
        few.each(&media, &events, |layers, _| {
            if wrong.is_ok() {
                let judged = self.judge(layers[0].to_bytes(), false);
                wrong = judged.map(drop).map_err(|e| format!("{}, state {n}, again: {e}", self.name));
            }
        });
        wrong
    }
}

/// What a run over an image leaves on its way to the medium.
fn record(
    bytes: &[u8],
    defect: Option<Defect>,
    run: &dyn Fn(Arc<dyn BlockStore>),
) -> ([Medium; 1], Vec<ondol_power::Event>) {
    let _planted = plant::set(defect).expect("a build with defects");
    let domain = PowerDomain::new();
    run(Arc::new(Recorder::new(RamStore::from_bytes(bytes.to_vec()), 0, domain.clone())));
    ([Medium { base: Layer::new(bytes.to_vec()), kind: Kind::Block, whole: Some(1024..2048) }], domain.take())
}

/// Name, arguments of mke2fs, MiB before and afterwards.
const CASES: [(&str, &str, u64, u64); 6] = [
    ("grown", "-g 1024", 6, 9),
    ("grown beyond its descriptors", "-O ^resize_inode,^64bit,^metadata_csum -g 256 -G 1", 8, 10),
    ("grown into its reserve", "-O ^flex_bg -g 512 -E resize=65536", 7, 10),
    ("shrunk", "-g 2048", 9, 6),
    ("shrunk in many groups", "-O ^metadata_csum,^extent,^64bit -g 512", 9, 5),
    ("shrunk with orphans", "-O orphan_file,inline_data -I 256 -g 1024", 9, 5),
];

fn case(i: usize) -> Case {
    let (name, args, from, to) = CASES[i];
    Case::new(name, args, from, to)
}

#[test]
fn power_may_fail_anywhere_in_a_resize() {
    for (i, case) in (0..CASES.len()).map(case).enumerate() {
        let sampling = Sampling { all_of: 8, samples: 2, torn: 2, extremes: 2, one_of: 4, seed: i as u64 };
        let (states, sizes, wrong) = case.explore(&sampling, None);
        assert_eq!(wrong, None);
        assert!(states > 50, "{}: {states} states", case.name);
        assert!(sizes.first() != sizes.last(), "{}: {sizes:?}", case.name);
    }
}

#[test]
fn planted_defects_of_a_resize_are_found() {
    let planted = [(Defect::ResizeEarlySize, 1), (Defect::ResizeReused, 4), (Defect::ResizeOneLog, 5)];
    assert_eq!(planted.len(), Defect::ALL.iter().filter(|d| d.subject() == plant::Subject::Resize).count());
    for (defect, i) in planted {
        let sampling = Sampling { all_of: 8, samples: 3, torn: 3, extremes: 3, one_of: 1, seed: 7 };
        assert!(case(i).explore(&sampling, Some(defect)).2.is_some(), "{defect} is not found");
    }
}

/// A medium that fails for good at any write leaves the same.
#[test]
fn every_write_of_a_resize_may_be_the_last() {
    for case in [0, 4, 5].map(case) {
        every_write_may_be_the_last(&case);
    }
}

fn every_write_may_be_the_last(case: &Case) {
    let mut writes = 0;
    loop {
        let faulty = Arc::new(Faulty::new(RamStore::from_bytes(case.bytes.clone())));
        faulty.arm(FaultPlan { writes: Some(writes), ..FaultPlan::default() });
        let store: Arc<dyn BlockStore> = faulty.clone();
        let done = run(store, case.to).is_ok();
        let judged = case.judge(faulty.inner().to_bytes(), writes % 5 == 0);
        assert!(judged.is_ok(), "{}, {writes} writes: {judged:?}", case.name);
        if done {
            assert!(writes > 20, "{}: nothing was cut short", case.name);
            break;
        }
        writes += 1 + writes / 16;
    }
}

/// Two files of which a part lies behind the new end. The groups before the last that stays have room for the first alone, so the second goes where the first one's
/// mapping was, in a group that nothing was taken from before.
fn one_after_the_other() -> Case {
    let (from, to) = (10, 7);
    let spec = Spec::new(from * MIB, 1024).journal(1).with("-N 512 -g 1024");
    let store = Arc::new(RamStore::from_bytes(spec.make().expect("mke2fs")));
    let sb = Image::open(store.clone()).expect("an image").superblock().clone();
    let volume = Volume::open_stepped(store.clone(), &Options::default(), image::clock(1)).expect("open");
    // Files lie near their directories, and those are spread.
    let mut places = Vec::new();
    for n in 0..40 {
        volume.create_dir(format!("/d{n}")).expect("mkdir");
        places.push((volume.metadata(format!("/d{n}")).expect("its number").ino() - 1) / sb.inodes_per_group());
    }
    let directory_in = |group: u32| places.iter().position(|&g| g == group).expect("a directory in each group");
    let (a, b) = (format!("/d{}/a", directory_in(6)), format!("/d{}/b", directory_in(8)));
    for n in 0.. {
        if volume.statfs().free < 3700 {
            break;
        }
        volume.write(format!("/f{n:03}"), vec![n as u8; 20_000]).expect("write");
    }
    let scatter = |name: &str, range: std::ops::Range<u64>| {
        let file = OpenOptions::new().write(true).create(true).open(&volume, name).expect("a file");
        for at in range {
            file.write_at(&[(at % 250) as u8 + 1; 1024], at * 4096).expect("write");
        }
    };
    scatter(&a, 0..14);
    scatter(&a, 300..316);
    scatter(&b, 0..400);
    let seen = dump::of_volume(volume.inodes()).expect("a dump");
    volume.close().expect("close");
    let bytes = store.to_bytes();
    let after = run(Arc::new(RamStore::from_bytes(bytes.clone())), to * MIB).expect("a smaller volume");
    Case { name: "one after the other", sizes: [blocks(&bytes), after], bytes, seen, to: to * MIB }
}

/// What a transaction frees is not used again before it is durable, not even by what the same transaction moves afterwards.
#[test]
fn blocks_are_not_used_again_within_a_transaction() {
    every_write_may_be_the_last(&one_after_the_other());
}
