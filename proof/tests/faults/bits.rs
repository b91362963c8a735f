//! Single flipped bits: in every structure of a log that has to be replayed, and in all metadata of a clean volume.
//!
//! `ONDOL_FLIPS` says how many of them are tried (0 for all), `ONDOL_FSCK_EVERY` how often e2fsck is asked too.

use crate::common::{at_rest, check_and_read, read, store_of};
use ondol::{DataMode, JournalEngine};
use ondol_block::{BlockStats, BlockStore, Caps, LayerStore};
use ondol_env::sync::{Arc, Mutex};
use ondol_format::Place;
use ondol_format::jbd2::{BlockType, Descriptor, HEADER, Header, JournalSuperblock, TAIL};
use ondol_format::unit;
use ondol_journal::LogMap;
use ondol_laboratory::Image as Kind;
use ondol_power::Layer;
use ondol_testkit::dump::{Snapshot, Strictness};
use ondol_testkit::image;
use ondol_testkit::op::text;
use ondol_testkit::target::{Library, Lockstep};
use ondol_tests::{depth, parameter};
use ondol_volume::Image;
use std::collections::BTreeSet;
use std::io::IoSlice;
use std::ops::Range;

/// One line, one transaction: with revokes, blocks that look like the log's own, and whatever moves names.
const TRANSACTIONS: &[&str] = &[
    "mkdir /d 0755; create /a 0644; write /a 0 3000 #1",
    "create /d/b 0644; write /d/b 0 4096 jbd2#2",
    "unlink /a; rename /d/b /c; rmdir /d",
    "mkdir /e 0700; symlink /e/l target; setxattr /c user.k 300 #3; link /c /e/c",
    "create /f 0600; write /f 0 9000 #4; truncate /c 1000; rename-exchange /f /c",
    "unlink /c; write /f 100 200 jbd2#5",
];

/// A bit that may be flipped, and whether that can make the newest transaction look as if it had never been committed.
#[derive(Clone, Copy)]
struct Flip {
    byte: usize,
    bit: u32,
    of_last_commit: bool,
}

/// A volume that has to be recovered: its medium, and the states after each number of transactions.
struct Dirty {
    layer: Layer,
    states: Vec<Snapshot>,
}

fn dirty(kind: Kind, engine: JournalEngine) -> Dirty {
    let (medium, store) = store_of(&kind.make().unwrap()[0]);
    // Enough memory to leave everything in the log.
    let options = image::options(DataMode::Journal).with_journal(engine).with_cache(16 << 20);
    let mut lockstep = Lockstep::new(Library::open(store, &options, 1).unwrap()).unwrap();
    let mut states = vec![at_rest(lockstep.model())];
    for line in TRANSACTIONS {
        for op in text::parse(&format!("{line}; sync")).unwrap() {
            lockstep.step(&op).unwrap().unwrap_or_else(|e| panic!("{op}: {e:?}"));
        }
        states.push(at_rest(lockstep.model()));
    }
    Dirty { layer: medium.layer(), states }
}

/// The log of a volume, as bits to be flipped: all bits of what is in use in its own blocks, one in every other byte.
struct Log {
    flips: Vec<Flip>,
    transactions: usize,
    revokes: usize,
    escaped: usize,
}

fn log(layer: &Layer) -> Log {
    let (_, store) = store_of(layer);
    let image = Image::open(store.clone()).unwrap();
    let block_size = image.superblock().block_size() as usize;
    let map = LogMap::new(block_size as u32, image.journal_map().unwrap());
    let block = |n: u64| {
        let mut bytes = vec![0; block_size];
        let at = map.physical(n).unwrap() as usize * block_size;
        store.read(at as u64, &mut bytes).unwrap();
        (at, bytes)
    };
    let (at, bytes) = block(0);
    let sb = JournalSuperblock::parse(&bytes, block_size as u32, map.blocks()).unwrap();
    let mut log = Log { flips: Vec::new(), transactions: 0, revokes: 0, escaped: 0 };
    log.own(at, &bytes[..1024], false);
    let (mut n, mut sequence) = (u64::from(sb.start().expect("a log in use")), sb.sequence());
    loop {
        let (at, bytes) = block(n);
        let Some(header) = Header::parse(&bytes).filter(|h| h.sequence == sequence) else { break };
        n += 1;
        log.own(at, &bytes, header.kind == BlockType::Commit);
        match header.kind {
            BlockType::Descriptor => {
                for tag in Descriptor::new(&bytes, sb.format(), Place::NONE).unwrap() {
                    log.escaped += usize::from(tag.unwrap().escaped);
                    let (at, bytes) = block(n);
                    log.flips.extend((0..bytes.len()).map(|i| one_in(at + i)));
                    n += 1;
                }
            }
            BlockType::Revoke => log.revokes += 1,
            BlockType::Commit => {
                log.transactions += 1;
                sequence = sequence.wrapping_add(1);
            }
            _ => panic!("a superblock within the log"),
        }
    }
    log
}

impl Log {
    fn own(&mut self, at: usize, bytes: &[u8], commit: bool) {
        if commit {
            self.flips.iter_mut().for_each(|flip| flip.of_last_commit = false);
        }
        for (i, byte) in bytes.iter().enumerate() {
            let of_last_commit = commit && i < HEADER;
            let in_use = *byte != 0 || i < HEADER || i >= bytes.len() - TAIL;
            if in_use {
                self.flips.extend((0..8).map(|bit| Flip { byte: at + i, bit, of_last_commit }));
            } else {
                self.flips.push(Flip { of_last_commit, ..one_in(at + i) });
            }
        }
    }
}

/// As [`log`], of a log of units: every bit of the last, which alone may go unseen, and of all the others.
fn units(layer: &Layer) -> Log {
    let (_, store) = store_of(layer);
    let image = Image::open(store.clone()).unwrap();
    let block_size = image.superblock().block_size() as usize;
    let map = LogMap::new(block_size as u32, image.journal_map().unwrap());
    let at = |n: u64| map.physical(n).unwrap() as usize * block_size;
    let read = |at: usize, len: usize| {
        let mut bytes = vec![0; len];
        store.read(at as u64, &mut bytes).unwrap();
        bytes
    };
    let sb = read(at(0), 1024);
    let parsed = JournalSuperblock::parse(&sb, block_size as u32, map.blocks()).unwrap();
    let mut log = Log { flips: Vec::new(), transactions: 0, revokes: 0, escaped: 0 };
    log.own(at(0), &sb, false);
    let mut n = u64::from(parsed.start().expect("a log in use"));
    while let Some(header) = unit::Header::parse(&read(at(n), unit::HEADER), 1 << 30) {
        let bytes = read(at(n), header.size);
        let source = |at: usize, into: &mut [u8]| {
            into.copy_from_slice(&bytes[at..at + into.len()]);
            Ok::<_, ()>(())
        };
        log.revokes += unit::Unit::open(&header, block_size, source).unwrap().revokes();
        log.flips.iter_mut().for_each(|flip| flip.of_last_commit = false);
        let bits = |byte: usize| (0..8).map(move |bit| Flip { byte, bit, of_last_commit: true });
        log.flips.extend((at(n)..at(n) + header.size).flat_map(bits));
        log.transactions += 1;
        n += header.size.div_ceil(block_size) as u64;
    }
    log
}

fn one_in(byte: usize) -> Flip {
    Flip { byte, bit: (byte.wrapping_mul(0x9E37_79B1) >> 13) as u32 % 8, of_last_commit: false }
}

fn flipped(layer: &Layer, flip: Flip) -> Layer {
    let mut byte = [0];
    layer.read(flip.byte, &mut byte);
    let mut layer = layer.clone();
    layer.write(flip.byte, &[byte[0] ^ 1 << flip.bit]);
    layer
}

/// Evenly spread, as many as `ONDOL_FLIPS` says, another choice for every `ONDOL_SEED`.
fn chosen(flips: &[Flip], default: u64) -> impl Iterator<Item = Flip> {
    let wanted = match depth("ONDOL_FLIPS", default / 2, default) {
        0 => flips.len(),
        n => (n as usize).min(flips.len()),
    };
    let step = flips.len() / wanted.max(1);
    flips.iter().skip(parameter("ONDOL_SEED", 1) as usize % step.max(1)).step_by(step.max(1)).copied()
}

/// What recovery made of a flipped bit.
enum Outcome {
    Refused,
    Right,
    /// The newest transaction is gone.
    Earlier,
}

fn recovered(dirty: &Dirty, flip: Flip) -> Result<Outcome, String> {
    let (_, store) = store_of(&flipped(&dirty.layer, flip));
    if let Err(e) = ondol::recover_media(&store) {
        let text = e.to_string();
        let names = text.contains("journal") && (text.contains("block") || text.contains("feature"));
        return if names { Ok(Outcome::Refused) } else { Err(format!("an error that says too little: {text}")) };
    }
    let found = check_and_read(&store, DataMode::Journal)?;
    let is = |state: Option<&Snapshot>| state.is_some_and(|state| state.accepts(&found, Strictness::Whole));
    match &dirty.states[..] {
        [.., last] if is(Some(last)) => Ok(Outcome::Right),
        [.., before, _] if flip.of_last_commit && is(Some(before)) => Ok(Outcome::Earlier),
        [.., last] => Err(format!("a wrong state: {}", last.differences(&found, Strictness::Whole).join("; "))),
        [] => Err("no states".into()),
    }
}

fn log_of(kind: Kind, default: u64) {
    let dirty = dirty(kind, JournalEngine::Classic);
    let log = log(&dirty.layer);
    assert!(log.revokes > 0 && log.escaped > 1, "{} revoke blocks, {} escaped blocks", log.revokes, log.escaped);
    let [right, _] = every_flip_is_seen(kind, &dirty, &log, default);
    assert!(right > 0, "padding does not count");
}

fn units_of(kind: Kind, default: u64) {
    let dirty = dirty(kind, JournalEngine::Compressed);
    let log = units(&dirty.layer);
    assert!(log.revokes > 0, "no revokes");
    // Nothing in a unit is without meaning; only the last may go, for it may never have been told to be durable.
    let [right, earlier] = every_flip_is_seen(kind, &dirty, &log, default);
    assert!(right == 0 && earlier > 0, "{right}, {earlier}");
}

/// Flips bits. How many had no effect, and how many cost the last transaction.
fn every_flip_is_seen(kind: Kind, dirty: &Dirty, log: &Log, default: u64) -> [u64; 2] {
    assert_eq!(log.transactions, TRANSACTIONS.len());
    let (mut refused, mut right, mut earlier) = (0u64, 0, 0);
    for flip in chosen(&log.flips, default) {
        match recovered(dirty, flip) {
            Ok(Outcome::Refused) => refused += 1,
            Ok(Outcome::Right) => right += 1,
            Ok(Outcome::Earlier) => earlier += 1,
            Err(what) => panic!("{kind}: bit {} of byte {}: {what}", flip.bit, flip.byte),
        }
    }
    println!(
        "log of {kind}: {} flipped bits of {}: {refused} refused, {right} without effect, {earlier} (where the \
         last transaction counts by) recovered without the last transaction",
        refused + right + earlier,
        log.flips.len()
    );
    assert!(refused > 0);
    [right, earlier]
}

#[test]
fn log_of_small_blocks() {
    log_of(Kind::Small, 20_000);
}

#[test]
fn units_of_small_blocks() {
    units_of(Kind::Small, 20_000);
}

#[test]
fn units_of_pages() {
    units_of(Kind::Pages, 10_000);
}

#[test]
fn log_of_pages() {
    log_of(Kind::Pages, 10_000);
}

/// A store that notes which bytes are read.
struct Noting<S> {
    inner: S,
    read: Mutex<BTreeSet<u64>>,
}

/// What it notes by, in bytes.
const GRAIN: u64 = 1024;

impl<S: BlockStore> BlockStore for Noting<S> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn caps(&self) -> Caps {
        self.inner.caps()
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> ondol_block::Result<()> {
        self.read.lock().extend(offset / GRAIN..(offset + buf.len() as u64).div_ceil(GRAIN));
        self.inner.read(offset, buf)
    }

    fn write_vectored(&self, offset: u64, bufs: &[IoSlice<'_>]) -> ondol_block::Result<()> {
        self.inner.write_vectored(offset, bufs)
    }

    fn flush(&self) -> ondol_block::Result<()> {
        self.inner.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> ondol_block::Result<bool> {
        self.inner.discard(offset, len)
    }

    fn stats(&self) -> BlockStats {
        self.inner.stats()
    }
}

/// A clean volume with some of every kind of metadata block: extent trees, attribute blocks, hashed directories.
fn clean(kind: Kind) -> Layer {
    let (medium, store) = store_of(&kind.make().unwrap()[0]);
    let mut lockstep = Lockstep::new(Library::open(store, &image::options(DataMode::Ordered), 1).unwrap()).unwrap();
    let mut lines = String::from(
        "mkdir /d 0755; mkdir /d/e 0700; create /a 0644; write /a 0 20000 #1; link /a /d/a; symlink /d/l target
         create /x 0600; setxattr /x user.long 700 #2; setxattr /x user.short 5 #3; mkfifo /d/p 0644; create /sparse \
         0644\n",
    );
    (0..12).for_each(|i| lines += &format!("write /sparse {} 100 #{}\n", i * 9000, i + 4));
    (0..50).for_each(|i| lines += &format!("link /x /d/e/{i:0>60}\n"));
    for op in text::parse(&lines).unwrap() {
        lockstep.step(&op).unwrap().unwrap_or_else(|e| panic!("{op}: {e:?}"));
    }
    lockstep.into_target().close().unwrap();
    medium.layer()
}

/// All bytes that the check reads, one bit in each.
fn metadata(layer: &Layer) -> Vec<Flip> {
    let noting = Arc::new(Noting { inner: LayerStore::new(layer.clone()), read: Mutex::default() });
    assert!(ondol::check_media(&(noting.clone() as Arc<dyn BlockStore>)).unwrap().is_clean());
    let bytes = |grain: u64| -> Range<usize> { (grain * GRAIN) as usize..((grain + 1) * GRAIN) as usize };
    noting.read.lock().iter().copied().flat_map(bytes).map(one_in).collect()
}

fn metadata_of(kind: Kind, default: u64) {
    let layer = clean(kind);
    let (_, store) = store_of(&layer);
    let right = read(&store, DataMode::Ordered).unwrap();
    let flips = metadata(&layer);
    let fsck_every = parameter("ONDOL_FSCK_EVERY", 200);
    let (mut tried, mut refused, mut found, mut judged, mut theirs) = (0, 0, 0, 0, 0);
    for flip in chosen(&flips, default) {
        tried += 1;
        let damaged = flipped(&layer, flip);
        let (_, store) = store_of(&damaged);
        let where_ = format!("{kind}: bit {} of byte {} of the image", flip.bit, flip.byte);
        match read(&store_of(&damaged).1, DataMode::Ordered) {
            Err(_) => refused += 1,
            Ok(snapshot) => {
                let differences = right.differences(&snapshot, Strictness::Whole);
                assert!(differences.is_empty(), "{where_}: read without an error: {}", differences.join("; "));
            }
        }
        let ours = !ondol::check_media(&store).is_ok_and(|report| report.is_clean());
        found += u64::from(ours);
        if fsck_every > 0 && u64::is_multiple_of(tried, fsck_every) {
            let verdict = image::check(&damaged.to_bytes()).unwrap();
            let told = verdict.code & 12 != 0 || verdict.output.contains("? no");
            (judged, theirs) = (judged + 1, theirs + u64::from(told));
            assert!(ours || !told, "{where_}: e2fsck finds what our check does not: {}", verdict.output);
        }
    }
    println!(
        "metadata of {kind}: {tried} flipped bits of {}: {refused} keep the volume from being read, all others leave \
         it right; the check finds {found}; e2fsck finds {theirs} of {judged}",
        flips.len()
    );
    assert!(refused > 0 && found >= refused);
}

#[test]
fn metadata_of_small_blocks() {
    metadata_of(Kind::Small, 8000);
}

#[test]
fn metadata_of_inline_data() {
    metadata_of(Kind::InlineData, 3000);
}

#[test]
fn metadata_of_clusters() {
    metadata_of(Kind::Clusters, 3000);
}

#[test]
fn metadata_of_pages() {
    metadata_of(Kind::Pages, 5000);
}
