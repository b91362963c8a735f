//! Damage that keeps an image from being mounted: in every structure that opening reads, of clean images, of crashed
//! ones, and of one with orphans. What cannot be mounted stays an image that e2fsck can mend.

use ondol::{JournalEngine, Options, Volume};
use ondol_block::{BlockStore, RamStore};
use ondol_env::sync::Arc;
use ondol_format::group::GroupDesc;
use ondol_format::superblock::OFFSET;
use ondol_format::{Incompat, RawSuperblock, Superblock};
use ondol_testkit::image::{self, Spec};
use ondol_volume::Image;
use zerocopy::FromBytes;

const BLOCK: usize = 1024;
const ENGINES: [JournalEngine; 2] = [JournalEngine::Classic, JournalEngine::Compressed];

/// How an image was left.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Left {
    Clean,
    /// With an empty journal, and an orphan that nobody has deleted.
    Orphans,
    Crashed(JournalEngine),
}

const LEFT: [Left; 4] =
    [Left::Clean, Left::Orphans, Left::Crashed(JournalEngine::Classic), Left::Crashed(JournalEngine::Compressed)];

fn store(bytes: &[u8]) -> Arc<RamStore> {
    Arc::new(RamStore::from_bytes(bytes.to_vec()))
}

fn open(store: &Arc<RamStore>, engine: JournalEngine) -> ondol::Result<Volume> {
    Volume::open_stepped(store.clone(), &Options::default().with_journal(engine), image::clock(3))
}

/// An image with files, a directory of several blocks, and (but for a clean one) an orphan with an extent tree and the
/// last changes in the journal alone.
fn image(left: Left, features: &str) -> Vec<u8> {
    let store = store(&Spec::new(16 << 20, BLOCK as u32).with(features).make().unwrap());
    let engine = match left {
        Left::Crashed(engine) => engine,
        Left::Clean | Left::Orphans => JournalEngine::Classic,
    };
    let volume = open(&store, engine).unwrap();
    volume.write("/a", vec![1; 20_000]).unwrap();
    volume.create_dir("/d").unwrap();
    (0..100).for_each(|i| volume.write(format!("/d/a file with a long name {i}"), b"text").unwrap());
    let gone = volume.create("/gone").unwrap();
    (0..12).for_each(|i| gone.write_all_at(b"some text", i * 9000).unwrap());
    volume.sync().unwrap();
    match left {
        Left::Clean => {
            drop(gone);
            volume.close().unwrap();
            return store.to_bytes();
        }
        Left::Orphans | Left::Crashed(_) => volume.remove_file("/gone").unwrap(),
    }
    volume.sync().unwrap();
    let crashed = self::store(&store.to_bytes());
    if left == Left::Orphans {
        let crashed: Arc<dyn BlockStore> = crashed.clone();
        assert!(ondol::recover_media(&crashed).unwrap().transactions > 0);
    }
    crashed.to_bytes()
}

fn superblock(bytes: &[u8]) -> Superblock {
    Superblock::parse(bytes[1024..2048].try_into().unwrap(), bytes.len() as u64).unwrap()
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn inode_at(bytes: &[u8], ino: u32) -> usize {
    let sb = superblock(bytes);
    let (g, index) = sb.group_of_inode(ino).unwrap();
    let (block, offset) = sb.gdt().location(g);
    let at = block as usize * BLOCK + offset;
    let desc = GroupDesc::parse(&bytes[at..at + usize::from(sb.gdt().desc_size())]).unwrap();
    let (block, offset) = sb.inode_location(desc.inode_table, index);
    block as usize * BLOCK + offset
}

/// The block that the first entry of an inode's extent tree points to.
fn first_block(bytes: &[u8], ino: u32) -> usize {
    let root = inode_at(bytes, ino) + 40;
    let depth = u16::from_le_bytes([bytes[root + 6], bytes[root + 7]]);
    // An index entry has the block behind the logical one, a leaf's entry at its end.
    word(bytes, root + if depth > 0 { 16 } else { 20 }) as usize * BLOCK
}

/// The first orphan at home, if there is one.
fn orphan(bytes: &[u8]) -> Option<u32> {
    let sb = superblock(bytes);
    let in_file = sb.orphan_file_inum().map_or(0, |ino| word(bytes, first_block(bytes, ino)));
    [sb.raw().s_last_orphan.get(), in_file].into_iter().find(|&ino| ino != 0)
}

/// The bytes of every structure that opening reads, or that somebody might think it reads.
fn structures(bytes: &[u8]) -> Vec<(&'static str, usize)> {
    let sb = superblock(bytes);
    let desc = |g| {
        let (block, offset) = sb.gdt().location(g);
        block as usize * BLOCK + offset
    };
    let parsed = GroupDesc::parse(&bytes[desc(0)..desc(0) + usize::from(sb.gdt().desc_size())]).unwrap();
    let (_, backup) = sb.backups().next().unwrap();
    let journal = Image::open(store(bytes)).unwrap().journal_map().unwrap()[0].0 as usize * BLOCK;
    let mut all = vec![
        ("superblock", OFFSET as usize + 0x78),
        ("superblock's label, in a copy", backup as usize * BLOCK + 0x78),
        ("descriptor of group 0", desc(0) + 0x0c),
        ("descriptor of group 1", desc(1) + 0x0c),
        ("block bitmap", parsed.block_bitmap as usize * BLOCK + 700),
        ("inode bitmap", parsed.inode_bitmap as usize * BLOCK + 1),
        ("root inode", inode_at(bytes, 2) + 0x08),
        ("root directory", first_block(bytes, 2) + 8),
        ("resize inode", inode_at(bytes, 7) + 0x08),
        ("journal inode", inode_at(bytes, 8) + 0x08),
        ("journal superblock", journal + 0x30),
        ("inode after the reserved ones", inode_at(bytes, 11) + 0x08),
    ];
    if let Some(ino) = sb.orphan_file_inum() {
        all.push(("orphan file inode", inode_at(bytes, ino) + 0x08));
        all.push(("orphan file", first_block(bytes, ino) + 800));
    }
    if let Some(ino) = orphan(bytes) {
        all.push(("orphan's inode", inode_at(bytes, ino) + 0x08));
        all.push(("orphan's extent tree", first_block(bytes, ino) + 20));
    }
    all
}

/// What lies in the journal: only crashed images have something there.
fn log_blocks(bytes: &[u8]) -> Vec<(&'static str, usize)> {
    let journal = Image::open(store(bytes)).unwrap().journal_map().unwrap()[0].0 as usize * BLOCK;
    let start = u32::from_be_bytes(bytes[journal + 0x1c..journal + 0x20].try_into().unwrap()) as usize;
    vec![
        ("log's first block", journal + start * BLOCK + 20),
        ("log's second block", journal + (start + 1) * BLOCK + 300),
    ]
}

fn is_marked(bytes: &[u8]) -> bool {
    let raw = RawSuperblock::read_from_bytes(&bytes[1024..2048]).unwrap();
    raw.features().incompat.contains(Incompat::ONDOL_JOURNAL)
}

fn mends(bytes: &[u8]) -> Result<(), String> {
    let (first, after) = image::repair(bytes).unwrap();
    let second = image::check(&after).unwrap();
    match first.code & 12 == 0 && second.is_clean() {
        true => Ok(()),
        false => Err(format!("e2fsck -fy ended with {}: {}\nthen: {}", first.code, first.output, second.output)),
    }
}

#[derive(Default)]
struct Counts {
    refused: u32,
    mounted: u32,
    forced: u32,
}

/// Tries a mount of a damaged image, and what can be done after it.
fn try_mount(damaged: &[u8], left: Left, engine: JournalEngine, counts: &mut Counts) -> Result<(), String> {
    let store = store(damaged);
    if let Ok(volume) = open(&store, engine) {
        counts.mounted += 1;
        let _ = volume.exists("/a");
        // Fails where the damage is in its way; then, too, nothing but what e2fsck can mend is left.
        let _ = volume.close();
    } else {
        counts.refused += 1;
        if left == Left::Clean && store.to_bytes() != damaged {
            return Err("a refused mount of a clean image wrote".into());
        }
    }
    let bytes = store.to_bytes();
    if is_marked(&bytes) {
        if left != Left::Crashed(JournalEngine::Compressed) {
            return Err("it is marked, though nobody needs to recover it".into());
        }
        counts.forced += 1;
        return mends(&forced(store)?);
    }
    match mends(&bytes) {
        // An orphan on the list that e2fsck cannot read is the end of it, whoever made the list.
        Err(e) if e.contains("release_orphan_inode") => {
            counts.forced += 1;
            mends(&forced(store)?)
        }
        other => other,
    }
}

/// What `recover --force` leaves: something was given up, by name, or is for e2fsck to mend, or all was mended.
fn forced(store: Arc<RamStore>) -> Result<Vec<u8>, String> {
    let damaged: Arc<dyn BlockStore> = store.clone();
    let report = ondol::recover_store_by_force(&damaged, image::clock(4)).map_err(|e| e.to_string())?;
    let bytes = store.to_bytes();
    if report.given_up.is_empty() && report.damage.is_none() {
        // What was damaged was in the log, too.
        let verdict = image::check(&bytes).unwrap();
        return if verdict.is_clean() { Ok(bytes) } else { Err(format!("{report:?}: {}", verdict.output)) };
    }
    // By a copy of the superblock its marks stay; e2fsck goes by the copy, too.
    let copied = report.damage.as_ref().is_some_and(|damage| damage.contains("its copy in block"));
    if is_marked(&bytes) && !copied {
        return Err(format!("still marked: {report:?}"));
    }
    Ok(bytes)
}

fn every_structure(features: &str) -> Counts {
    let (mut counts, mut wrong) = (Counts::default(), Vec::new());
    for left in LEFT {
        let whole = image(left, features);
        let logs = if matches!(left, Left::Crashed(_)) { log_blocks(&whole) } else { Vec::new() };
        for (name, at) in structures(&whole).into_iter().chain(logs) {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            for engine in ENGINES {
                if let Err(e) = try_mount(&damaged, left, engine, &mut counts) {
                    wrong.push(format!("{left:?}, {name} (byte {at}), mounted with {engine:?}: {e}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{features}: {}", wrong.join("\n"));
    println!("{features}: {} refused, {} mounted, {} forced", counts.refused, counts.mounted, counts.forced);
    counts
}

#[test]
fn with_an_orphan_file() {
    let counts = every_structure("-O orphan_file");
    assert!(counts.refused > 30 && counts.mounted > 10, "{} {}", counts.refused, counts.mounted);
}

#[test]
fn with_an_orphan_list() {
    let counts = every_structure("-O ^orphan_file");
    assert!(counts.refused > 20 && counts.mounted > 10, "{} {}", counts.refused, counts.mounted);
}

#[test]
fn a_damaged_journal_inode_is_refused_by_name() {
    let mut bytes = image(Left::Clean, "");
    let at = inode_at(&bytes, 8) + 0x08;
    bytes[at] ^= 0x10;
    let why = open(&store(&bytes), JournalEngine::Classic).expect_err("a refusal").to_string();
    assert!(why.contains("journal (inode 8)") && why.contains("checksum"), "{why}");
    let volume = Volume::open_stepped(store(&bytes), &Options::parse("ro").unwrap(), image::clock(3)).unwrap();
    assert_eq!(volume.read("/a").unwrap(), [1; 20_000]);
}

#[test]
fn a_check_says_what_the_journal_holds() {
    for engine in ENGINES {
        let store = store(&image(Left::Clean, "-O orphan_file"));
        // Nothing is written, and nobody closes it.
        drop(open(&store, engine).unwrap());
        let marked: Arc<dyn BlockStore> = store.clone();
        let report = ondol::check_media(&marked).unwrap();
        assert!(report.unclean && !report.needs_recovery && report.problems.is_empty(), "{report:?}");
        assert!(!report.is_clean() && report.inodes > 100, "{report:?}");
        ondol::recover_media(&marked).unwrap();
        assert!(ondol::check_media(&marked).unwrap().is_clean());
        let crashed: Arc<dyn BlockStore> = self::store(&image(Left::Crashed(engine), "-O orphan_file"));
        assert!(ondol::check_media(&crashed).unwrap().needs_recovery);
    }
}

/// The files `/n0` to `/n9`, each with a transaction of its own in the log.
fn numbered(engine: JournalEngine) -> Vec<u8> {
    let store = store(&Spec::new(16 << 20, BLOCK as u32).make().unwrap());
    let volume = open(&store, engine).unwrap();
    (0..10).for_each(|i| {
        volume.write(format!("/n{i}"), vec![i; 3000]).unwrap();
        volume.sync().unwrap();
    });
    store.to_bytes()
}

#[test]
fn what_is_sound_before_the_damage_is_kept_and_the_rest_named() {
    for engine in ENGINES {
        let whole = numbered(engine);
        let journal = Image::open(store(&whole)).unwrap().journal_map().unwrap()[0].0 as usize * BLOCK;
        let log = (journal + BLOCK..journal + 200 * BLOCK).step_by(BLOCK);
        // The blocks of the log, one after the other: whatever is lost, it is the end.
        let (mut kept_before, mut lost_some) = (0, 0);
        for at in log {
            let mut damaged = whole.clone();
            damaged[at + 30] ^= 0x10;
            let store = store(&damaged);
            let image: Arc<dyn BlockStore> = store.clone();
            let report = ondol::recover_store_by_force(&image, image::clock(4)).unwrap();
            let volume = open(&store, engine).unwrap();
            let kept = (0..10).take_while(|i| volume.exists(format!("/n{i}")).unwrap()).count();
            for i in 0..10 {
                let found = volume.exists(format!("/n{i}")).unwrap();
                assert_eq!(found, i < kept, "{engine:?}, byte {at}: /n{i} of the first {kept}");
                assert!(!found || volume.read(format!("/n{i}")).unwrap() == vec![i as u8; 3000], "{engine:?}: /n{i}");
            }
            volume.close().unwrap();
            if report.given_up.is_empty() == (kept < 10) || lost_some % 8 == 1 {
                mends(&store.to_bytes()).unwrap();
            }
            match &report.given_up[..] {
                [] => assert!(kept >= 9, "{engine:?}, byte {at}: {kept} kept without a word"),
                [lost] => {
                    lost_some += 1;
                    assert!(lost.starts_with("transaction") && lost.contains("journal"), "{lost}");
                    assert!(kept < 10 && kept >= kept_before, "{engine:?}, byte {at}: {kept} kept, {lost}");
                }
                more => panic!("{more:?}"),
            }
            kept_before = if report.given_up.is_empty() { kept_before } else { kept };
        }
        assert!(lost_some >= 9, "{engine:?}: {lost_some}");
    }
}

/// Of a protected volume the block that says who has it is read first of all.
pub(crate) fn a_damaged_mmp_block_is_refused_and_mended() {
    let whole = Spec::new(16 << 20, BLOCK as u32).with("-O mmp -E mmp_update_interval=1").make().unwrap();
    let at = superblock(&whole).mmp_block().unwrap() as usize * BLOCK;
    let damage = &|byte: usize| {
        let mut damaged = whole.clone();
        damaged[at + byte] ^= 0x10;
        let store = store(&damaged);
        let why = open(&store, JournalEngine::Compressed).expect_err("a refusal").to_string();
        assert!(why.contains("MMP") || why.contains("multiple mount protection"), "byte {byte}: {why}");
        assert!(store.to_bytes() == damaged, "byte {byte}: a refused mount wrote");
        let image: Arc<dyn BlockStore> = store.clone();
        let report = ondol::recover_store_by_force(&image, image::clock(4)).unwrap();
        assert!(report.damage.is_some() || !report.given_up.is_empty(), "byte {byte}: {report:?}");
        mends(&store.to_bytes()).unwrap_or_else(|e| panic!("byte {byte}: {e}"));
    };
    // Its magic number, its sequence, and who had it; e2fsck waits each time.
    std::thread::scope(|scope| {
        for byte in [0, 4, 16] {
            scope.spawn(move || damage(byte));
        }
    });
}
