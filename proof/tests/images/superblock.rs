//! What the superblock says of mounts and errors, its copies, and default mount options: written as ext4 writes them,
//! honoured as it honours them.

use ondol::{Options, Volume};
use ondol_block::{BlockStore, RamStore};
use ondol_env::Fixed;
use ondol_env::sync::Arc;
use ondol_format::superblock::{OFFSET, SIZE, STATE_ERROR};
use ondol_format::{RawSuperblock, Superblock};
use ondol_testkit::image::{self, Spec, debugfs, scratch_dir, write_sparse};
use ondol_volume::{Caller, ROOT};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

fn raw(store: &RamStore) -> RawSuperblock {
    let mut raw = RawSuperblock::new_zeroed();
    store.read(OFFSET, raw.as_mut_bytes()).unwrap();
    raw
}

fn open(store: &Arc<RamStore>, options: &Options) -> (Volume, Arc<Fixed>) {
    let clock = image::clock(1);
    (Volume::open_stepped(store.clone(), options, clock.clone()).unwrap(), clock)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned()
}

#[test]
fn mounts_are_counted_and_named_and_their_writes_summed() {
    let store = Arc::new(RamStore::from_bytes(Spec::new(16 << 20, 1024).make().unwrap()));
    let before = raw(&store);
    let (volume, _) = open(&store, &Options::default().with_mounted_on("/srv/data"));
    let mounted = raw(&store);
    assert_eq!(mounted.s_mnt_count.get(), before.s_mnt_count.get() + 1);
    assert_eq!((mounted.s_mtime.get(), mounted.s_wtime.get()), (1_700_000_000, 1_700_000_000));
    assert_eq!(text(&mounted.s_last_mounted), "/srv/data");
    volume.write("/a", vec![7; 3 << 20]).unwrap();
    volume.close().unwrap();
    let after = raw(&store);
    let written = after.s_kbytes_written.get() - before.s_kbytes_written.get();
    assert!((3 << 10..16 << 10).contains(&written), "{written} KiB");
    assert!(image::check(&store.to_bytes()).unwrap().is_clean());
    open(&store, &Options::default()).0.close().unwrap();
    assert_eq!(text(&raw(&store).s_last_mounted), "/srv/data", "who opens without mounting says nothing");
}

/// Damages the root directory's block and finds it.
fn volume_with_an_error(options: &str) -> (Arc<RamStore>, Volume) {
    let dir = scratch_dir().unwrap();
    let path = dir.path().join("image");
    Spec::new(16 << 20, 1024).make_file(&path).unwrap();
    let answer = debugfs(&path, "blocks /").unwrap();
    let block: u64 = answer.split_whitespace().find_map(|word| word.parse().ok()).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[block as usize * 1024 + 30] ^= 1;
    let store = Arc::new(RamStore::from_bytes(bytes));
    let (volume, _) = open(&store, &Options::parse(options).unwrap());
    volume.exists("/nothing").expect_err("a damaged directory");
    (store, volume)
}

#[test]
fn an_error_is_in_the_superblock_when_it_is_found_and_not_at_the_unmount() {
    let (store, volume) = volume_with_an_error("errors=remount-ro");
    assert!(volume.is_read_only());
    volume.step_until_idle().unwrap();
    // Power fails here: what was noted is in the journal.
    drop(volume);
    let crashed: Arc<dyn BlockStore> = store.clone();
    assert!(ondol::recover_media(&crashed).unwrap().transactions > 0);
    let found = raw(&store);
    assert_ne!(found.s_state.get() & STATE_ERROR, 0);
    assert_eq!((found.s_error_count.get(), found.s_first_error_time.get()), (1, 1_700_000_000));
    assert_eq!(text(&found.s_first_error_func), "directory block of inode 2");
    assert_eq!((found.s_first_error_errcode, found.s_last_error_errcode), (5, 5));
    assert_ne!(found.s_first_error_block.get(), 0);
    let verdict = image::check(&store.to_bytes()).unwrap();
    assert!(verdict.output.contains("contains a file system with errors") || verdict.code == 4, "{}", verdict.output);
}

#[test]
fn later_errors_keep_the_first_and_a_close_keeps_all() {
    let (store, volume) = volume_with_an_error("errors=continue");
    assert!(!volume.is_read_only());
    volume.exists("/more").expect_err("still damaged");
    volume.close().unwrap();
    let first = raw(&store);
    assert_eq!(first.s_error_count.get(), 2);
    let (volume, clock) = open(&store, &Options::parse("errors=continue").unwrap());
    clock.advance(3_000_000_000);
    volume.exists("/more").expect_err("still damaged");
    volume.close().unwrap();
    let then = raw(&store);
    assert_eq!((then.s_error_count.get(), then.s_first_error_time), (3, first.s_first_error_time));
    assert_eq!(then.s_last_error_time.get(), first.s_last_error_time.get() + 3);
    assert_ne!(then.s_state.get() & STATE_ERROR, 0);
}

#[test]
fn the_error_of_a_given_up_journal_moves_to_the_superblock() {
    let mut bytes = Spec::new(16 << 20, 1024).make().unwrap();
    let sb = Superblock::parse(bytes[1024..2048].try_into().unwrap(), bytes.len() as u64).unwrap();
    let image = ondol_volume::Image::open(Arc::new(RamStore::from_bytes(bytes.clone()))).unwrap();
    assert_eq!(sb.raw().s_error_count.get(), 0);
    let at = image.journal_map().unwrap()[0].0 as usize * 1024;
    bytes[at + 0x20..at + 0x24].copy_from_slice(&(-5i32).to_be_bytes());
    let store = Arc::new(RamStore::from_bytes(bytes));
    open(&store, &Options::default()).0.close().unwrap();
    let found = raw(&store);
    assert_ne!(found.s_state.get() & STATE_ERROR, 0);
    assert_eq!((found.s_error_count.get(), text(&found.s_first_error_func)), (1, "journal".into()));
    assert_eq!(store.to_bytes()[at + 0x20..at + 0x24], [0; 4], "the journal is used again");
}

#[test]
fn copies_are_compared_and_serve_when_the_primary_superblock_is_lost() {
    for (spec, size) in
        [(Spec::new(32 << 20, 1024), 1024u64), (Spec::new(300 << 20, 4096).with("-O meta_bg,^resize_inode"), 4096)]
    {
        let bytes = spec.make().unwrap();
        let sb = Superblock::parse(bytes[1024..2048].try_into().unwrap(), bytes.len() as u64).unwrap();
        let (_, block) = sb.backups().next().unwrap();
        let at = (block * size) as usize;
        let store: Arc<dyn BlockStore> = Arc::new(RamStore::from_bytes(bytes.clone()));
        assert!(ondol::check_media(&store).unwrap().is_clean());

        let mut damaged = bytes.clone();
        damaged[at + 4] ^= 1;
        let store: Arc<dyn BlockStore> = Arc::new(RamStore::from_bytes(damaged));
        let report = ondol::check_media(&store).unwrap();
        assert!(
            report.problems.iter().any(|p| p.contains(&format!("backup superblock of group 1 in block {block}"))),
            "{report:?}"
        );

        let mut damaged = bytes.clone();
        damaged[at + size as usize] ^= 1;
        let store: Arc<dyn BlockStore> = Arc::new(RamStore::from_bytes(damaged));
        let report = ondol::check_media(&store).unwrap();
        assert!(report.problems.iter().any(|p| p.contains("copy of group descriptors")), "{report:?}");

        // The beginning is lost: the primary superblock, and with small blocks the descriptors too.
        let mut lost = bytes.clone();
        lost[..4096].fill(0);
        let store: Arc<dyn BlockStore> = Arc::new(RamStore::from_bytes(lost.clone()));
        let why = Volume::open_stepped(store.clone(), &Options::default(), image::clock(1)).err().unwrap().to_string();
        let (k, here) = (block * size / 1024, format!("e2fsck -b {block} -B {size}"));
        assert!(why.contains(&format!("sb={k}`")) && why.contains(&here), "{why}");
        let by_copy = Options::parse(&format!("ro,sb={k}")).unwrap();
        let volume = Volume::open_stepped(store.clone(), &by_copy, image::clock(1)).unwrap();
        assert!(volume.exists("/lost+found").unwrap());
        drop(volume);
        let writing = Options::parse(&format!("sb={k}")).unwrap();
        let why = Volume::open_stepped(store, &writing, image::clock(1)).err().unwrap().to_string();
        assert!(why.contains("reading only"), "{why}");
        let dir = scratch_dir().unwrap();
        let path = dir.path().join("lost");
        write_sparse(&path, &lost).unwrap();
        ondol::check(&path).expect_err("no superblock");
        let report = ondol::check_by_copy(&path, block).unwrap();
        assert_eq!(report.inodes, 11, "{report:?}");
        ondol::check_by_copy(&path, block + 1).expect_err("no superblock there");
    }
}

#[test]
fn default_mount_options_of_the_superblock_are_honoured_and_overruled() {
    let mut bytes = Spec::new(16 << 20, 1024).make().unwrap();
    let mut raw = RawSuperblock::read_from_bytes(&bytes[1024..1024 + SIZE]).unwrap();
    raw.s_default_mount_opts.set(0x2 | 0x20);
    raw.s_mount_opts[..26].copy_from_slice(b"errors=continue,sparkling,");
    raw.s_errors.set(3);
    raw.seal();
    bytes[1024..1024 + SIZE].copy_from_slice(raw.as_bytes());
    let store = Arc::new(RamStore::from_bytes(bytes));
    let group_of_new = |options: &str| {
        let (volume, _) = open(&store, &Options::parse(options).unwrap());
        let inodes = volume.inodes();
        let name = format!("d{}", options.len());
        let dir = inodes.names().mkdir(ROOT, name.as_bytes(), 0o755, Caller::new(5, 6)).unwrap();
        let file = inodes.names().create(dir.ino, b"f", 0o644, Caller::new(7, 8)).unwrap();
        let found = (volume.info().unwrap().mount.unwrap().data, file.gid, file.perm);
        volume.close().unwrap();
        found
    };
    // The root directory is root's.
    assert_eq!(group_of_new(""), ("journal", 0, 0o644));
    assert_eq!(group_of_new("data=ordered,nogrpid"), ("ordered", 8, 0o644));
}
