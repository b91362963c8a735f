//! Journals as other versions and options of jbd2 write them: no checksums, the first, second and third kind, 32- and
//! 64-bit block numbers, commits that do not wait for their blocks, superblocks without features. All are replayed, and
//! what is torn in them is seen.
#![allow(clippy::disallowed_methods, reason = "real programs run in real time")]

use ondol::{Options, Volume};
use ondol_block::{BlockStore, RamStore};
use ondol_env::sync::Arc;
use ondol_skips::skips;
use ondol_testkit::image::{self, KernelMount, Spec, read_sparse, run, scratch_dir, write_sparse};
use ondol_tests::no_kernel_mount;
use ondol_volume::Image;
use std::fs::File;
use std::path::Path;

fn recover(bytes: Vec<u8>) -> (Arc<RamStore>, ondol::Result<ondol::RecoverReport>) {
    let ram = Arc::new(RamStore::from_bytes(bytes));
    let store: Arc<dyn BlockStore> = ram.clone();
    let recovered = ondol::recover_media(&store);
    (ram, recovered)
}

fn must_be_clean(bytes: &[u8], what: &str) {
    let (verdict, after) = image::repair(bytes).expect("e2fsck");
    assert!(verdict.unexpected().is_empty(), "{what}: {}", verdict.output);
    assert!(image::check(&after).expect("e2fsck").is_clean(), "{what}");
}

/// Byte offsets of the journal's blocks, in order.
fn log_blocks(bytes: &[u8]) -> Vec<usize> {
    let image = Image::open(Arc::new(RamStore::from_bytes(bytes.to_vec()))).expect("an image");
    let size = image.superblock().block_size() as usize;
    let runs = image.journal_map().expect("a journal");
    runs.into_iter().flat_map(|(start, len)| start..start + len).map(|block| block as usize * size).collect()
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The image that follows the descriptor of the latest transaction: sequence, place.
fn last_image(bytes: &[u8]) -> usize {
    let blocks = log_blocks(bytes);
    let is_descriptor = |at: usize| word(bytes, at) == 0xc03b_3998 && word(bytes, at + 4) == 1;
    let descriptors = (1..blocks.len() - 1).filter(|&i| is_descriptor(blocks[i]));
    let last = descriptors.max_by_key(|&i| word(bytes, blocks[i] + 8)).expect("a descriptor");
    blocks[last + 1]
}

/// Debugfs writes a transaction with tags and checksums of a chosen kind: the block is replayed, and a flipped bit is
/// seen.
#[test]
fn tags_of_every_kind() {
    for (features, size) in
        [("", 1024), ("-O ^64bit", 1024), ("-O ^metadata_csum", 4096), ("-O ^64bit,^metadata_csum", 4096)]
    {
        for open in ["jo", "jo -c -v 2", "jo -c -v 3"] {
            let what = format!("{features} {open}");
            let dir = scratch_dir().expect("scratch");
            let (path, content, script) =
                (dir.path().join("image"), dir.path().join("block"), dir.path().join("script"));
            Spec::new(16 << 20, size).with(features).make_file(&path).expect("mke2fs");
            // It begins as a block of the log does, and so is escaped there.
            let mut block: Vec<u8> = (0..size).map(|i| (i % 253) as u8).collect();
            block[..4].copy_from_slice(&0xc03b_3998u32.to_be_bytes());
            std::fs::write(&content, &block).expect("write");
            let home = (16 << 20) / size as usize - 5;
            std::fs::write(&script, format!("{open}\njw -b {home} {}\njc\n", content.display())).expect("write");
            let args = ["-w".as_ref(), "-f".as_ref(), script.as_os_str(), path.as_os_str()];
            assert!(run("debugfs", args).expect("debugfs").status.success(), "{what}");
            let dirty = read_sparse(&path).expect("read");
            let (store, recovered) = recover(dirty.clone());
            assert_eq!(recovered.unwrap_or_else(|e| panic!("{what}: {e}")).transactions, 1, "{what}");
            let at = home * size as usize;
            assert!(store.to_bytes()[at..at + size as usize] == block, "{what}: another block was replayed");
            if open != "jo" && !features.contains("^metadata_csum") {
                let mut torn = dirty;
                let place = last_image(&torn) + 100;
                torn[place] ^= 1;
                let e = recover(torn).1.expect_err("a torn image");
                assert!(e.to_string().contains("checksum"), "{what}: {e}");
            }
        }
    }
}

/// What the kernel left, with `options`.
fn kernel_dirty(path: &Path, options: &str) -> Vec<u8> {
    let mount = KernelMount::new(path, options).expect("kernel mount");
    for i in 0..6 {
        let name = mount.dir().join(format!("f{i}"));
        std::fs::write(&name, [i; 3000]).expect("write");
        File::open(&name).and_then(|f| f.sync_all()).expect("fsync");
    }
    let dirty = read_sparse(path).expect("read");
    mount.close().expect("umount");
    dirty
}

fn features(bytes: &[u8]) -> Vec<String> {
    let dir = scratch_dir().expect("scratch");
    let path = dir.path().join("image");
    write_sparse(&path, bytes).expect("write");
    ondol::info(&path).expect("info").journal.expect("a journal").features
}

/// The kernel's own: the first checksums, of whole transactions, and commits that do not wait.
#[test]
fn checksums_of_transactions_and_commits_that_do_not_wait() {
    if skips(no_kernel_mount()) {
        return;
    }
    for (made, options, expected) in [
        ("-O ^metadata_csum", "journal_checksum,data=journal", "checksum"),
        ("-O ^metadata_csum", "journal_async_commit,data=writeback", "async_commit"),
        ("", "journal_async_commit,data=writeback", "async_commit"),
        ("-O ^metadata_csum,^64bit", "data=journal", ""),
    ] {
        let what = format!("{made} -o {options}");
        let dir = scratch_dir().expect("scratch");
        let path = dir.path().join("image");
        Spec::new(32 << 20, 1024).with(made).make_file(&path).expect("mke2fs");
        let dirty = kernel_dirty(&path, options);
        let found = features(&dirty);
        assert!(expected.is_empty() || found.iter().any(|f| f == expected), "{what}: {found:?}");

        let store = Arc::new(RamStore::from_bytes(dirty.clone()));
        let volume = Volume::open_stepped(store.clone(), &Options::default(), image::clock(1)).expect("open");
        for i in 0..6 {
            assert_eq!(volume.read(format!("/f{i}")).expect("what was synced"), [i; 3000], "{what}");
        }
        volume.write("/ours", [9; 10_000]).expect("write");
        volume.sync().expect("sync");
        let ours = store.to_bytes();
        volume.close().expect("close");
        must_be_clean(&ours, &what);

        if expected.is_empty() {
            continue;
        }
        // The last transaction is torn: with commits in order that is damage, without it is where the log ends.
        let mut torn = dirty;
        let place = last_image(&torn) + 40;
        torn[place] ^= 4;
        let (store, recovered) = recover(torn);
        if options.contains("async") {
            let recovered = recovered.unwrap_or_else(|e| panic!("{what}: {e}"));
            assert!(recovered.transactions > 0, "{what}");
            must_be_clean(&store.to_bytes(), &what);
        } else {
            let e = recovered.expect_err("a torn transaction");
            assert!(e.to_string().contains("checksum"), "{what}: {e}");
        }
    }
}

/// A journal from before there were features gets a superblock that can have them.
#[test]
fn a_superblock_of_version_1_is_taken_over() {
    let mut bytes = Spec::new(16 << 20, 1024).make().expect("mke2fs");
    let at = log_blocks(&bytes)[0];
    bytes[at + 7] = 3;
    bytes[at + 0x24..at + 1024].fill(0);
    let store = Arc::new(RamStore::from_bytes(bytes));
    let volume = Volume::open_stepped(store.clone(), &Options::default(), image::clock(1)).expect("open");
    volume.write("/a", [1; 5000]).expect("write");
    volume.sync().expect("sync");
    must_be_clean(&store.to_bytes(), "crashed");
    volume.close().expect("close");
    assert!(image::check(&store.to_bytes()).expect("e2fsck").is_clean());
}

/// A feature of the journal that nobody knows is refused by its number.
#[test]
fn unknown_features_of_a_journal_are_refused() {
    for (offset, bit, name) in [(0x28, 0x80, "FEATURE_I7"), (0x2c, 0x01, "FEATURE_R0")] {
        let mut bytes = Spec::new(16 << 20, 1024).make().expect("mke2fs");
        let at = log_blocks(&bytes)[0] + offset;
        bytes[at + 3] |= bit;
        let e = Volume::open_stepped(Arc::new(RamStore::from_bytes(bytes)), &Options::default(), image::clock(1)).err();
        let e = e.expect("a refusal").to_string();
        assert!(e.contains(name), "{e}");
    }
}
