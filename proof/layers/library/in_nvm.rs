//! Volumes whose home is a page table in NVM: power cuts of the whole stack, and lines that the medium has lost.

use ondol::{
    Exchange, FormatOptions, JournalEngine, Media, Options, Volume, attach_table, check_media, export, recover_media,
};
use ondol_env::sync::{Arc, Mutex};
use ondol_env::{Env, System};
use ondol_medium::{Domain, Nvm, Pool};
use ondol_power::{Kind, Layer, Medium, PowerDomain, Sampling};
use ondol_testkit::image;
use std::collections::BTreeMap;

/// Contents of files by their paths.
type Files = BTreeMap<&'static str, Vec<u8>>;

/// One operation, on a volume and on a model of it.
#[derive(Clone, Copy, Debug)]
enum Op {
    Write(&'static str, u8, usize),
    Rename(&'static str, &'static str),
    Remove(&'static str),
    Sync,
}

impl Op {
    fn run(self, volume: &Volume) {
        match self {
            Self::Write(path, byte, len) => volume.write(path, vec![byte; len]).unwrap(),
            Self::Rename(from, to) => volume.rename(from, to).unwrap(),
            Self::Remove(path) => volume.remove_file(path).unwrap(),
            Self::Sync => volume.sync().unwrap(),
        }
    }

    /// What can be seen while it is under way, last of all what it leaves: writing a file truncates it first.
    fn model(self, files: &Files) -> Vec<Files> {
        let mut after = files.clone();
        match self {
            Self::Write(path, byte, len) => {
                let mut empty = files.clone();
                empty.insert(path, Vec::new());
                after.insert(path, vec![byte; len]);
                return vec![empty, after];
            }
            Self::Rename(from, to) => {
                let bytes = after.remove(from).unwrap();
                after.insert(to, bytes);
            }
            Self::Remove(path) => drop(after.remove(path)),
            Self::Sync => {}
        }
        vec![after]
    }
}

const OPS: [Op; 13] = [
    Op::Write("/a", 1, 9000),
    Op::Write("/b", 2, 100),
    Op::Sync,
    Op::Write("/a", 3, 5000),
    Op::Rename("/b", "/c"),
    Op::Sync,
    Op::Write("/d", 4, 20_000),
    Op::Remove("/c"),
    Op::Write("/b", 5, 4096),
    Op::Sync,
    Op::Rename("/a", "/b"),
    Op::Write("/a", 6, 12_288),
    Op::Sync,
];

/// The bytes of a pool with an empty volume.
pub(crate) fn made() -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let pool = dir.path().join("pool");
    let options = FormatOptions::new().size(8 << 20).inodes(32);
    Volume::format(format!("nvm:{}", pool.display()), &options).unwrap();
    std::fs::read(pool).unwrap()
}

/// An image in a pool, and the memory that it lies in.
pub(crate) fn attached(bytes: &[u8], power: Option<&Arc<PowerDomain>>) -> (Media, Arc<Nvm>) {
    let nvm = Nvm::from_bytes(bytes).unwrap().with_domain(Domain::Adr).unwrap();
    let nvm = match power {
        Some(power) => nvm.record(power.clone(), 0),
        None => nvm,
    };
    let pool = Pool::open(nvm).unwrap();
    let nvm = pool.nvm().clone();
    (Media::in_pool(Arc::new(attach_table(&pool).unwrap()), Arc::new(Mutex::new(pool))), nvm)
}

fn files(media: &Media) -> Files {
    let volume = Volume::open_stepped(media, &Options::parse("ro").unwrap(), image::clock(2)).unwrap();
    let there = ["/a", "/b", "/c", "/d"].into_iter().filter_map(|path| Some((path, volume.read(path).ok()?)));
    there.collect()
}

/// Wrong states of a run with these options; with `exact` data counts as metadata does.
fn explore(base: &[u8], options: &str, exact: bool) -> (usize, Vec<String>) {
    let power = PowerDomain::new();
    let (media, _) = attached(base, Some(&power));
    let volume = Volume::open_stepped(&media, &Options::parse(options).unwrap(), image::clock(1)).unwrap();
    // Everything that may be there, in its order, and how much of it there was after each operation.
    let mut seen = vec![Files::new()];
    for op in OPS {
        op.run(&volume);
        seen.extend(op.model(seen.last().unwrap()));
        if matches!(op, Op::Sync) {
            power.mark(seen.len() as u64 - 1);
        }
    }
    volume.close().unwrap();
    drop(media);
    let events = power.take();
    let memory = [Medium { base: Layer::new(base.to_vec()), kind: Kind::Nvm, whole: None }];
    let mut wrong = Vec::new();
    let most = std::env::var("TABLE_STATES").ok().and_then(|n| n.parse().ok()).unwrap_or(130);
    let sampling = Sampling::default().at_most(4).spread(&memory, &events, |_| false, most);
    let states = sampling.each(&memory, &events, |layers, synced| {
        let (media, _) = attached(&layers[0].to_bytes(), None);
        recover_media(&media).unwrap();
        // What has no name any more is for the next mount.
        let volume = Volume::open_stepped(&media, &Options::default(), image::clock(3)).unwrap();
        volume.close().unwrap();
        let report = check_media(&media).unwrap();
        if !report.is_clean() {
            wrong.push(format!("{:?}", report.problems));
        }
        let found = files(&media);
        let allowed = &seen[synced as usize..];
        let names = |files: &Files| files.keys().copied().collect::<Vec<_>>();
        if !allowed.iter().any(|then| if exact { *then == found } else { names(then) == names(&found) }) {
            wrong.push(format!(
                "after {synced}: {:?}",
                found.iter().map(|(path, bytes)| (path, bytes.len(), bytes.first())).collect::<Vec<_>>()
            ));
        }
    });
    (states, wrong)
}

#[test]
fn power_cuts_of_volumes_in_nvm() {
    let base = made();
    let engines = [
        ("", true),
        ("journal=remap,data=ordered", false),
        ("journal=compressed,data=journal", true),
        ("journal=classic,data=journal", true),
        ("journal=classic,data=ordered", false),
        ("journal=swap,data=journal", true),
        ("journal=swap,data=ordered", false),
        ("journal=swap,data=writeback", false),
    ];
    for (options, exact) in engines {
        let (states, wrong) = explore(&base, options, exact);
        println!("{options}: {states} states");
        assert!(wrong.is_empty(), "{options}: {} of {states}: {}", wrong.len(), wrong[0]);
        assert!(states > 40, "{states}");
    }
}

/// A checkpoint of a volume in a pool stores little more than the journal's superblock.
#[test]
fn swap_brings_home_without_copies_and_is_refused_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let [pool, image] = ["pool", "image"].map(|name| dir.path().join(name));
    let target = format!("nvm:{}", pool.display());
    let format = FormatOptions::new().size(8 << 20).inodes(32).journal(JournalEngine::Swap);
    Volume::format(&target, &format).unwrap();
    let refused = Volume::format(&image, &format).unwrap_err().to_string();
    assert!(refused.contains("engine swap needs an image in an NVM pool"), "{refused}");
    // So little memory that checkpoints come with the syncs.
    let volume = Volume::open_with(&target, &Options::default().with_cache(256 << 10)).unwrap();
    assert_eq!(volume.info().unwrap().mount.map(|mount| (mount.engine, mount.data)), Some(("swap", "journal")));
    for byte in 1..=7 {
        volume.write("/a", vec![byte; 100_000]).unwrap();
        volume.sync().unwrap();
    }
    let counted = volume.state().counters();
    assert!(counted.engine.swapped_blocks > 100 && counted.engine.checkpoint_blocks == 0, "{counted:?}");
    volume.close().unwrap();

    export(&target, &image, false).unwrap();
    let asked = Options::default().with_journal(JournalEngine::Swap);
    let refused = Volume::open_with(&image, &asked).expect_err("a refusal").to_string();
    assert!(refused.contains("`journal=swap` needs an image in an NVM pool"), "{refused}");
    // It asks for what it cannot have here.
    let volume = Volume::open(&image).unwrap();
    assert_eq!(volume.info().unwrap().mount.map(|mount| mount.engine), Some("classic"));
    assert_eq!(volume.read("/a").unwrap(), vec![7; 100_000]);
    volume.close().unwrap();
}

/// Bytes that reach NVM, and fences, for a durable exchange of two files of so many blocks.
fn exchanged(engine: &str, blocks: usize) -> (u64, u64) {
    let (media, _) = attached(&made(), None);
    let options = Options::parse(&format!("journal={engine},data=journal")).unwrap();
    let volume = Volume::open_stepped(&media, &options, image::clock(1)).unwrap();
    volume.write("/a", vec![1; blocks * 4096]).unwrap();
    volume.write("/b", vec![2; blocks * 4096]).unwrap();
    volume.sync().unwrap();
    let meter = volume.state().nvm_meter();
    let before = meter.read();
    volume.exchange("/a", 0, "/b", 0, &Exchange { durable: true, ..Exchange::default() }).unwrap();
    let after = meter.read();
    assert_eq!(volume.read("/a").unwrap(), vec![2; blocks * 4096]);
    assert_eq!(volume.read("/b").unwrap(), vec![1; blocks * 4096]);
    volume.close().unwrap();
    let reached = 64 * (after.lines - before.lines) + after.copied_bytes - before.copied_bytes;
    (reached, after.fences - before.fences)
}

#[test]
fn an_exchange_in_nvm_costs_the_same_for_any_length() {
    for engine in ["remap", "swap"] {
        let (short, long) = (exchanged(engine, 1), exchanged(engine, 256));
        println!("{engine}: {short:?} for a block, {long:?} for 256 (bytes, fences)");
        assert!(short.0 > 0 && long.0 <= short.0 * 2, "{engine}: {short:?}, {long:?}");
        // As entries of the map, of 8 bytes in records of 64 that undo two, it would be more.
        assert!(engine != "remap" || long.0 < 256 * (64 + 2 * 8), "{long:?}");
        assert!(long.1 <= short.1 + 2, "{engine}: {short:?}, {long:?}");
    }
}

#[test]
fn a_lost_line_is_an_error_of_its_file_alone() {
    const EIO: i32 = 5;
    let (media, nvm) = attached(&made(), None);
    let volume = Volume::open_stepped(&media, &Options::default(), image::clock(1)).unwrap();
    volume.write("/lost", vec![0xC4; 4096]).unwrap();
    volume.write("/kept", vec![0xC5; 4096]).unwrap();
    volume.close().unwrap();
    let bytes = nvm.to_bytes().unwrap();
    let pages = bytes.chunks(4096).zip((0..).step_by(4096));
    let at = pages.filter(|(page, _)| page.iter().all(|byte| *byte == 0xC4)).map(|(_, at)| at);
    // Journal and home have it; of both a line is lost.
    at.for_each(|at| nvm.poison().add_line(at + 128));
    let volume = Volume::open_stepped(&media, &Options::default(), image::clock(1)).unwrap();
    assert_eq!(volume.read("/lost").unwrap_err().errno(), EIO);
    assert_eq!(volume.read("/kept").unwrap(), vec![0xC5; 4096]);
    volume.write("/lost", vec![0xC6; 4096]).unwrap();
    volume.sync().unwrap();
    assert_eq!(volume.read("/lost").unwrap(), vec![0xC6; 4096]);
    volume.close().unwrap();
}

#[test]
fn an_image_in_a_pool_can_be_as_slow_as_a_device() {
    let dir = tempfile::tempdir().unwrap();
    let pool = dir.path().join("pool");
    std::fs::write(&pool, made()).unwrap();
    let target = format!("nvm:{}", pool.display());
    let options = Options::parse("data=journal,nvm_model=read=20ms").unwrap();
    let volume = Volume::open_with(&target, &options).unwrap();
    volume.write("/a", [7; 9000]).unwrap();
    volume.sync().unwrap();
    let begun = System.monotonic_ns();
    assert_eq!(volume.read("/a").unwrap(), [7; 9000]);
    // The model never waits less than it says.
    assert!(System.monotonic_ns() - begun >= 20_000_000);
    volume.close().unwrap();
    let image = dir.path().join("image");
    Volume::format(&image, &FormatOptions::new().size(8 << 20)).unwrap();
    let refused = Volume::open_with(&image, &options).err().unwrap().to_string();
    assert!(refused.contains("nvm_model") && refused.contains("nvm=POOL"), "{refused}");
}
