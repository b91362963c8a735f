//! Mappings that lie: whatever they say, the answer is an error, and nothing that belongs to the file system is
//! overwritten.

use crate::file_util::{Random, debugfs, ino_of, mkfs, mount};
use ondol_testkit::{over_engines, over_two_engines};
use ondol_volume::{Error, Exchange, Fallocate, Ino, Seek, Volume};

over_two_engines! {
    random_damage_of_a_mapping_is_survived,
}

over_engines! {
    pointers_to_the_file_systems_own_blocks_are_refused,
    more_blocks_than_the_volume_has_are_refused,
    a_size_that_no_file_has_is_not_exchanged,
}

/// A byte that no metadata of a small image repeats.
const FILL: u8 = 0xA7;

/// Byte offset of an inode's `i_block`.
fn mapping_of(bytes: &[u8], name: &str) -> usize {
    // "Inode 12 is part of block group 0\n\tlocated at block 37, offset 0x0b00"
    let (text, _) = debugfs(bytes, &format!("imap {name}"));
    let after = text.split("located at block ").nth(1).unwrap();
    let (block, offset) = after.split_whitespace().next().zip(after.split("offset 0x").nth(1)).unwrap();
    let (block, offset) = (block.trim_end_matches(','), offset.split_whitespace().next().unwrap());
    block.parse::<usize>().unwrap() * 1024 + usize::from_str_radix(offset, 16).unwrap() + 0x28
}

/// Everything that can be asked of a file; the errors that came.
fn use_it(vol: &Volume, ino: Ino) -> Vec<Error> {
    let mut buf = vec![0; 50_000];
    let fill = vec![FILL; 30_000];
    let mut results = vec![
        vol.files().read(ino, 0, &mut buf).map(|_| ()),
        vol.files().read(ino, 100_000, &mut buf).map(|_| ()),
        vol.files().seek(ino, 0, Seek::Data).map(|_| ()),
        vol.files().seek(ino, 0, Seek::Hole).map(|_| ()),
        vol.files().write(ino, 0, &fill).map(|_| ()),
        vol.files().write(ino, 150_000, &fill).map(|_| ()),
        vol.files().append(ino, &fill).map(|_| ()),
        vol.files().fallocate(ino, Fallocate::PunchHole, 5_000, 50_000),
        vol.files().fallocate(ino, Fallocate::ZeroRange, 60_000, 50_000),
        vol.files().fallocate(ino, Fallocate::Allocate, 0, 400_000),
        vol.files().write(ino, 200_000, &fill).map(|_| ()),
        vol.files().truncate(ino, 100_000),
        vol.files().truncate(ino, 0),
        vol.sync(),
    ];
    results.drain(..).filter_map(Result::err).collect()
}

fn a_size_that_no_file_has_is_not_exchanged() {
    let mut bytes = mkfs("8M", &["-b", "1024", "-O", "^metadata_csum,^flex_bg", "-N", "64"], 2);
    let (ino, other) = (ino_of(&bytes, "f0"), ino_of(&bytes, "f1"));
    let inode = mapping_of(&bytes, "f0") - 0x28;
    bytes[inode + 4..][..4].fill(0xFF);
    bytes[inode + 0x6C..][..4].fill(0xFF);
    let rig = mount(bytes);
    rig.vol.files().write(other, 0, &[FILL; 9000]).unwrap();
    for len in [None, Some(1024), Some(u64::MAX), Some(u64::MAX - 4096)] {
        let how = Exchange { len, ..Exchange::default() };
        for (one, two) in [((other, 1024), (ino, 0)), ((ino, 1024), (other, 0)), ((ino, 0), (ino, u64::MAX - 1023))] {
            // A part of it that is like any other's may change places.
            let done = rig.vol.ranges().exchange(one.0, one.1, two.0, two.1, &how);
            assert!(done.is_err() || len == Some(1024), "{one:?}, {two:?}, {len:?}");
        }
    }
}

/// First block of the inode table of an image with one group.
fn table_of(bytes: &[u8]) -> usize {
    let (stats, _) = debugfs(bytes, "stats");
    number_behind(&stats, "inode table at ") as usize
}

fn number_behind(text: &str, key: &str) -> u32 {
    let rest = text.split(key).nth(1).unwrap();
    rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
}

fn random_damage_of_a_mapping_is_survived() {
    let base = mkfs("8M", &["-b", "1024", "-O", "^metadata_csum,^flex_bg", "-N", "64"], 1);
    let ino = ino_of(&base, "f0");
    let rig = mount(base);
    for block in 0..120 {
        rig.vol.files().write(ino, block * 3 * 1024, &[FILL; 1024]).unwrap();
    }
    let base = rig.unmount_checked();
    let root = mapping_of(&base, "f0");
    let leaf = |i: usize| {
        let at = root + 12 + i * 12 + 4;
        u32::from_le_bytes(base[at..at + 4].try_into().unwrap()) as usize * 1024
    };
    let tables_end = (table_of(&base) + 16) * 1024;
    assert!(tables_end <= leaf(0).min(leaf(1)));
    let mut random = Random(77);
    let mut refused = 0;
    for _ in 0..1500 {
        let mut bytes = base.clone();
        for _ in 0..=random.below(3) {
            let at = match random.below(3) {
                0 => root + random.below(60) as usize,
                1 => leaf(0) + random.below(12 * 20) as usize,
                _ => leaf(1) + random.below(12 * 20) as usize,
            };
            bytes[at] = match random.below(4) {
                0 => 0,
                1 => 0xFF,
                2 => bytes[at] ^ (1 << random.below(8)),
                _ => random.below(256) as u8,
            };
        }
        let rig = mount(bytes);
        let errors = use_it(&rig.vol, ino);
        refused += usize::from(errors.iter().any(|e| matches!(e, Error::Corrupt(_))));
        // Superblock, descriptors, bitmaps and inodes lie before every block that the file ever had.
        let seen = rig.store.to_bytes()[..tables_end].windows(64).any(|w| w.iter().all(|b| *b == FILL));
        assert!(!seen, "file data lies over metadata");
    }
    assert!(refused > 300, "only {refused} were noticed");
}

fn pointers_to_the_file_systems_own_blocks_are_refused() {
    let base = mkfs("8M", &["-b", "1024", "-O", "^metadata_csum", "-N", "64"], 1);
    let ino = ino_of(&base, "f0");
    let rig = mount(base);
    rig.vol.files().write(ino, 0, &[FILL; 4096]).unwrap();
    let base = rig.unmount_checked();
    let root = mapping_of(&base, "f0");
    let (stats, _) = debugfs(&base, "stats");
    let (journal, _) = debugfs(&base, "blocks <8>");
    let journal: u32 = journal.lines().next().unwrap().split_whitespace().next().unwrap().parse().unwrap();
    let own = [
        0,
        1,
        2,
        number_behind(&stats, "block bitmap at "),
        number_behind(&stats, "inode bitmap at "),
        number_behind(&stats, "inode table at "),
        number_behind(&stats, "inode table at ") + 3,
        journal,
        journal + 500,
        8191,
        8192,
        u32::MAX,
    ];
    for block in own {
        let mut bytes = base.clone();
        bytes[root + 12 + 8..root + 12 + 12].copy_from_slice(&block.to_le_bytes());

        let rig = mount(bytes.clone());
        assert!(matches!(rig.vol.files().write(ino, 0, b"x"), Err(Error::Corrupt(_))), "block {block}");
        assert!(matches!(rig.vol.files().read(ino, 0, &mut [0; 10]), Err(Error::Corrupt(_))), "block {block}");
        assert!(rig.vol.files().truncate(ino, 0).is_err());
        assert!(rig.vol.is_read_only());
    }
}

/// Extents that name the same blocks again and again: a search for a hole ends.
fn more_blocks_than_the_volume_has_are_refused() {
    let base = mkfs("8M", &["-b", "1024", "-O", "^metadata_csum", "-N", "64"], 1);
    let ino = ino_of(&base, "f0");
    let rig = mount(base);
    rig.vol.files().write(ino, 0, &[FILL; 1024]).unwrap();
    let mut bytes = rig.unmount_checked();
    let root = mapping_of(&bytes, "f0");
    // i_size_lo, and a leaf of three extents of 3,000 blocks from block 5,000 on.
    bytes[root - 0x24..root - 0x20].copy_from_slice(&(9000 * 1024u32).to_le_bytes());
    bytes[root + 2] = 3;
    for i in 0..3u32 {
        let extent = [i * 3000, 3000, 5000].map(u32::to_le_bytes).concat();
        bytes[root + 12 + i as usize * 12..][..12].copy_from_slice(&extent);
    }
    let rig = mount(bytes);
    let found = rig.vol.files().extents(ino, 0, u64::MAX).map(|extents| extents.len());
    assert!(matches!(&found, Err(Error::Corrupt(c)) if c.what.contains("more blocks")), "{found:?}");
    let found = rig.vol.files().seek(ino, 0, Seek::Hole);
    assert!(matches!(&found, Err(Error::Corrupt(c)) if c.what.contains("more blocks")), "{found:?}");
}
