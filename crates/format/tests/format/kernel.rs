//! Images that the kernel filled or left dirty: htrees, deep extent trees, attributes, and its journal.
//!
//! They need root and a loop device; without them each is noted as skipped.

use crate::common::image::Image;
use crate::common::{assert_clean, have, must, run};
use ondol_format::jbd2::{
    self, BlockType, Commit, Descriptor, Header, JournalIncompat, JournalSuperblock, Revoke, tag_checksum_matches,
};
use ondol_format::{Place, xattr};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};

const MIB: u64 = 1 << 20;

/// A kernel mount that goes away with its value.
struct Mount {
    dir: PathBuf,
}

impl Mount {
    /// Mounts `image` on `dir`; `None`, noted as skipped, where that is not possible.
    fn new(image: &Path, dir: &Path, options: &str) -> Option<Mount> {
        fs::create_dir_all(dir).unwrap();
        let options = format!("loop,{options}");
        let args = ["-t", "ext4", "-o", &options, image.to_str().unwrap(), dir.to_str().unwrap()];
        let (code, text) = run("mount", &args);
        if code != 0 {
            ondol_skips::skip(format!("the kernel cannot mount here: {}", text.trim()));
            return None;
        }
        Some(Mount { dir: dir.to_owned() })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // A child that another test is starting holds copies of all files until it runs its program.
        for _ in 0..250 {
            let (code, text) = run("umount", &[self.dir.to_str().unwrap()]);
            if code == 0 {
                return;
            }
            println!("umount: {text}");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

fn set_xattr(path: &Path, name: &str, value: &str) {
    rustix::fs::setxattr(path, name, value.as_bytes(), rustix::fs::XattrFlags::empty()).unwrap();
}

/// Many names in one directory, a file of scattered blocks, one of unwritten blocks, attributes.
fn fill(mount: &Mount, names: usize) {
    fs::create_dir(mount.path("big")).unwrap();
    for i in 0..names {
        symlink("t", mount.path(&format!("big/{}", name(i)))).unwrap();
    }
    let scattered = File::create(mount.path("scattered")).unwrap();
    for i in 0..2000 {
        scattered.write_all_at(b"x", i * 8192).unwrap();
        if i % 100 == 0 {
            // Allocation happens at writeback: now and then, so that blocks of other files come between.
            scattered.sync_all().unwrap();
        }
    }
    let unwritten = mount.path("unwritten");
    must("fallocate", &["-l", "1M", unwritten.to_str().unwrap()]);
    let path = mount.path("attributes");
    fs::write(&path, "x").unwrap();
    for i in 0..12 {
        set_xattr(&path, &format!("user.attribute{i}"), &"v".repeat(i * 7));
    }
    set_xattr(&path, "trusted.t", "trust");
    set_xattr(&mount.path("big"), "user.small", "s");
}

fn name(i: usize) -> String {
    format!("name-{i}-{}", "y".repeat(i % 150))
}

fn fill_and_check(image: &Path, dir: &Path, names: usize, least_dx: usize) {
    let Some(mount) = Mount::new(image, &dir.join("mnt"), "noatime") else { return };
    fill(&mount, names);
    drop(mount);
    assert_clean(image, "after the kernel");
    let image = Image::open(image);
    let seen = image.check();
    assert!(seen.dx_blocks >= least_dx && seen.deepest >= 1 && seen.unwritten >= 1, "{seen:?}");
    let root = image.list(2);
    let big = root[&b"big"[..]].0;
    let listed = image.list(big);
    assert_eq!(listed.len(), names);
    for i in 0..names {
        let name = name(i).into_bytes();
        assert_eq!(image.lookup_indexed(big, &name), Some(listed[&name].0), "{i}");
    }
    assert_eq!(image.lookup_indexed(big, b"not there"), None);
    assert!(seen.hashed_xattr_blocks >= 1, "{seen:?}");
    let list = image.xattrs(root[&b"attributes"[..]].0);
    assert_eq!(list.len(), 13);
    for i in 0..12usize {
        let full = format!("user.attribute{i}");
        let found = list.iter().find(|x| xattr::join_name(x.name_index, &x.name).unwrap() == full.as_bytes());
        assert_eq!(found.unwrap().value, "v".repeat(i * 7).into_bytes());
    }
}

#[test]
fn images_filled_by_the_kernel_are_read() {
    if !have("mke2fs") {
        return;
    }
    for (options, names, least_dx) in [
        ("-b 1024 -N 12000", 8000, 3),
        ("-b 4096", 2500, 1),
        ("-b 2048 -O ^metadata_csum", 2500, 1),
        ("-b 4096 -O orphan_file,metadata_csum_seed,^64bit", 2500, 1),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("image");
        crate::common::sparse(&image, 100 * MIB);
        let mut args = vec!["-F", "-q", "-t", "ext4"];
        args.extend(options.split(' '));
        args.push(image.to_str().unwrap());
        must("mke2fs", &args);
        fill_and_check(&image, dir.path(), names, least_dx);
    }
}

#[test]
fn the_kernel_fills_our_images() {
    for (block_size, list) in [
        (1024, ""),
        (2048, "^resize_inode,meta_bg"),
        (4096, ""),
        (4096, "^64bit,^flex_bg,^metadata_csum_seed,^orphan_file"),
        (4096, "^metadata_csum,^metadata_csum_seed,uninit_bg"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("image");
        let mut options = crate::common::options();
        options.block_size = Some(block_size);
        options.features = options.features.apply(list).unwrap();
        options.inodes = Some(12_000);
        crate::common::make(&image, 100 * MIB, &options);
        fill_and_check(&image, dir.path(), 2500, 1);
    }
}

/// What a walk over a log met.
#[derive(Debug, Default, PartialEq)]
struct Log {
    transactions: u32,
    tags: usize,
    escaped: usize,
    revoked: usize,
}

/// Walks the log of `image` from its start to its end, checking every checksum.
fn walk_log(image: &Image) -> Log {
    let ino = image.sb.journal_inum().unwrap();
    let blocks = image.file_blocks(ino, &image.inode(ino), &mut Default::default());
    let read = |at: u32| image.block(blocks[&u64::from(at)]);
    let journal = JournalSuperblock::parse(&read(0), image.sb.block_size(), blocks.len() as u64).unwrap();
    journal.require_incompat(JournalIncompat::REVOKE | JournalIncompat::BIT64 | JournalIncompat::CSUM_V3).unwrap();
    let format = journal.format();
    let mut log = Log::default();
    let mut at = journal.start().expect("a dirty journal");
    let mut sequence = journal.sequence();
    let next = |at: u32| if at + 1 >= journal.end() { journal.first() } else { at + 1 };
    loop {
        let bytes = read(at);
        let place = Place::inode(ino).in_block(u64::from(at));
        match Header::parse(&bytes) {
            Some(header) if header.sequence == sequence => match header.kind {
                BlockType::Descriptor => {
                    for tag in Descriptor::new(&bytes, format, place).unwrap() {
                        let tag = tag.unwrap();
                        at = next(at);
                        let stored = read(at);
                        assert!(tag_checksum_matches(&format, sequence, &tag, &stored), "block {}", tag.block);
                        assert!(tag.block < image.sb.blocks_count());
                        log.tags += 1;
                        log.escaped += usize::from(tag.escaped);
                    }
                }
                BlockType::Revoke => log.revoked += Revoke::new(&bytes, format, place).unwrap().count(),
                BlockType::Commit => {
                    assert_eq!(Commit::parse(&bytes, &format, place).unwrap().sequence, sequence);
                    log.transactions += 1;
                    sequence = sequence.wrapping_add(1);
                }
                kind => panic!("{kind:?} in the log"),
            },
            _ => return log,
        }
        at = next(at);
    }
}

#[test]
fn the_kernels_log_is_read() {
    if !have("debugfs") {
        return;
    }
    for block_size in [1024, 4096] {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("image");
        let mut options = crate::common::options();
        options.block_size = Some(block_size);
        crate::common::make(&image, 64 * MIB, &options);
        let Some(mount) = Mount::new(&image, &dir.path().join("mnt"), "data=journal,commit=1000") else { return };
        for i in 0..20 {
            // The magic number of jbd2 at the beginning of a data block.
            let file = File::create(mount.path(&format!("file{i}"))).unwrap();
            file.write_all_at(&[&jbd2::MAGIC.to_be_bytes()[..], &[7; 20_000]].concat(), 0).unwrap();
            file.sync_all().unwrap();
        }
        let dirty = dir.path().join("dirty");
        fs::copy(&image, &dirty).unwrap();
        drop(mount);
        let log = walk_log(&Image::open(&dirty));
        assert!(log.transactions >= 20 && log.tags > 100 && log.escaped >= 20, "{log:?}");
        let text = must("debugfs", &["-R", "logdump", dirty.to_str().unwrap()]);
        let count = |word: &str| text.lines().filter(|line| line.contains(word)).count();
        assert_eq!(count("commit block"), log.transactions as usize, "{text}");
    }
}

#[test]
fn e2fsck_replays_our_log() {
    if !have("e2fsck") || !have("debugfs") {
        return;
    }
    for block_size in [1024u32, 4096] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        let mut options = crate::common::options();
        options.block_size = Some(block_size);
        let plan = crate::common::make(&path, 64 * MIB, &options);
        // Free blocks near the end of the volume, whose content no check looks at.
        let last = plan.superblock().blocks_count() - 1;
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let expected = write_log(&Image::open(&path), &file, last);
        let log = walk_log(&Image::open(&path));
        assert_eq!(log, Log { transactions: 2, tags: 4, escaped: 1, revoked: 1 });
        let text = must("debugfs", &["-R", "logdump -a", path.to_str().unwrap()]);
        assert!(text.contains("Revoke FS block") && text.contains("flags 0x3"), "{text}");
        let (code, text) = run("e2fsck", &["-fy", path.to_str().unwrap()]);
        assert!(code <= 1, "{text}");
        assert_clean(&path, "after replay");
        let image = Image::open(&path);
        for (block, byte) in expected {
            let bytes = image.block(block);
            assert!(bytes[4..].iter().all(|b| *b == byte), "block {block}: {:?}", &bytes[..8]);
            if byte == 2 {
                assert_eq!(bytes[..4], jbd2::MAGIC.to_be_bytes());
            }
        }
    }
}

/// Writes two transactions: blocks last, last-1, last-2 filled with 1, 2, 3; then last with 4, and last-2 revoked.
/// Returns what replay must leave.
fn write_log(image: &Image, file: &File, last: u64) -> Vec<(u64, u8)> {
    let size = image.sb.block_size();
    let ino = image.sb.journal_inum().unwrap();
    let blocks = image.file_blocks(ino, &image.inode(ino), &mut Default::default());
    let put = |at: u32, bytes: &[u8]| file.write_all_at(bytes, blocks[&u64::from(at)] * u64::from(size)).unwrap();
    let first = image.block(blocks[&0]);
    let mut journal = JournalSuperblock::parse(&first, size, blocks.len() as u64).unwrap();
    journal.set_incompat(JournalIncompat::REVOKE | JournalIncompat::BIT64 | JournalIncompat::CSUM_V3);
    // The log wraps in the middle of the first transaction.
    let mut at = journal.end() - 2;
    journal.set_start(Some(at), u32::MAX);
    put(0, &journal.encode());
    let format = journal.format();
    let mut bytes = vec![0; size as usize];
    for (sequence, writes, revoked) in
        [(u32::MAX, vec![(last, 1u8), (last - 1, 2), (last - 2, 3)], None), (0, vec![(last, 4)], Some(last - 2))]
    {
        let mut put_next = |bytes: &[u8]| {
            put(at, bytes);
            at = if at + 1 >= journal.end() { journal.first() } else { at + 1 };
        };
        if let Some(block) = revoked {
            let mut revoke = jbd2::RevokeWriter::new(&mut bytes, format, sequence);
            assert!(revoke.is_empty() && revoke.push(block));
            revoke.finish();
            put_next(&bytes);
        }
        let mut copies = Vec::new();
        let mut descriptor = jbd2::DescriptorWriter::new(&mut bytes, format, sequence, journal.uuid());
        for (block, byte) in writes {
            let mut copy = vec![byte; size as usize];
            if byte == 2 {
                copy[..4].copy_from_slice(&jbd2::MAGIC.to_be_bytes());
            }
            let escaped = jbd2::escape(&mut copy);
            let checksum = jbd2::tag_checksum(&format, sequence, &copy);
            assert!(descriptor.push(&jbd2::Tag { block, escaped, checksum }));
            copies.push(copy);
        }
        descriptor.finish();
        put_next(&bytes);
        copies.iter().for_each(|copy| put_next(copy));
        let time = ondol_format::Time { sec: 1_700_000_000, nsec: 5 };
        Commit { sequence, time, old_checksum: jbd2::OldChecksum::None }.write(&mut bytes, &format);
        put_next(&bytes);
    }
    let mut raw = image.sb.raw().clone();
    let mut features = raw.features();
    features.incompat.insert(ondol_format::Incompat::RECOVER);
    raw.set_features(features);
    raw.seal();
    let mut sb = [0; ondol_format::superblock::SIZE];
    sb.copy_from_slice(zerocopy::IntoBytes::as_bytes(&raw));
    file.write_all_at(&sb, ondol_format::superblock::OFFSET).unwrap();
    file.write_all_at(&vec![9; size as usize], (last - 2) * u64::from(size)).unwrap();
    vec![(last, 4), (last - 1, 2), (last - 2, 9)]
}

#[test]
fn a_full_descriptor_block_is_read_back() {
    for csum in [jbd2::LogCsum::V3, jbd2::LogCsum::V2, jbd2::LogCsum::None] {
        for bit64 in [false, true] {
            let format = jbd2::LogFormat { block_size: 1024, bit64, csum, has_old_csum: false, seed: 77 };
            let mut bytes = vec![0; 1024];
            let mut writer = jbd2::DescriptorWriter::new(&mut bytes, format, 9, &[5; 16]);
            let tag = |i: u64| jbd2::Tag {
                block: if bit64 { i << 33 | i } else { i },
                escaped: i.is_multiple_of(3),
                checksum: if csum == jbd2::LogCsum::None { 0 } else { i as u32 + 1 },
            };
            let mut pushed = 0;
            while writer.push(&tag(pushed)) {
                pushed += 1;
            }
            assert_eq!(pushed as usize, jbd2::DescriptorWriter::capacity(&format), "{format:?}");
            writer.finish();
            let read: Vec<_> = Descriptor::new(&bytes, format, Place::NONE).unwrap().map(Result::unwrap).collect();
            assert_eq!(read, (0..pushed).map(tag).collect::<Vec<_>>());
            let mut writer = jbd2::RevokeWriter::new(&mut bytes, format, 9);
            let mut pushed = 0;
            while writer.push(tag(pushed).block) {
                pushed += 1;
            }
            assert_eq!(pushed as usize, jbd2::revoke_capacity(&format));
            writer.finish();
            let read: Vec<_> = Revoke::new(&bytes, format, Place::NONE).unwrap().collect();
            assert_eq!(read, (0..pushed).map(|i| tag(i).block).collect::<Vec<_>>());
            bytes[500] ^= 1;
            assert_eq!(Revoke::new(&bytes, format, Place::NONE).is_err(), format.has_csum());
        }
    }
}
