//! Injected damage: what e2fsck finds, the check finds too, and says where it is.

use crate::rig::{BLOCK, CHECKSUMMED, ImageFile, PLAIN, assert_clean, base, checked};
use ondol_format::{Place, dirent, htree};

/// What is done to the image.
enum Harm {
    /// Requests of debugfs, which keeps checksums right.
    Debugfs(&'static str),
    /// Bytes of the first block that the second request of debugfs names.
    Poke(&'static str, fn(&mut [u8])),
}
use Harm::{Debugfs, Poke};

/// The block that debugfs prints for a request, such as `bmap`.
fn block(file: &ImageFile, request: &str) -> usize {
    let answer = file.ask(request);
    let digits = answer.split(|c: char| !c.is_ascii_digit()).find(|part| !part.is_empty());
    digits.and_then(|d| d.parse().ok()).unwrap_or_else(|| panic!("{request}: {answer}"))
}

fn inflict(bytes: &[u8], harm: &Harm) -> Vec<u8> {
    let file = ImageFile::new(bytes);
    match harm {
        Debugfs(requests) => {
            let said = file.debugfs(requests);
            assert!(!["not found", "invalid", "Usage"].iter().any(|w| said.contains(w)), "{requests}: {said}");
            file.bytes()
        }
        Poke(request, change) => {
            let at = block(&file, request) * BLOCK;
            let mut bytes = file.bytes();
            let before = bytes.clone();
            change(&mut bytes[at..at + BLOCK]);
            assert!(bytes != before, "{request}: nothing was changed");
            bytes
        }
    }
}

/// Fails unless e2fsck and the check both find it, and the check says `word`.
fn assert_found(bytes: &[u8], what: &str, word: &str) {
    let (code, words) = ImageFile::new(bytes).e2fsck("-fn");
    // A wrong checksum of a descriptor alone is told and does not count.
    assert!(code & 12 != 0 || words.contains("? no"), "{what}: e2fsck finds nothing ({code}): {words}");
    let report = checked(bytes);
    let told: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
    assert!(told.iter().any(|p| p.contains(word)), "{what}: no '{word}' in {told:#?}\ne2fsck: {words}");
}

#[test]
fn the_base_is_clean() {
    assert_clean(&base(PLAIN), "plain");
    assert_clean(&base(CHECKSUMMED), "with checksums");
}

/// Damage that debugfs can do to either image.
const LOGICAL: &[(&str, &str, &str)] = &[
    ("links", "sif f links_count 3\n", "it has 3 links, but 1 names"),
    ("a name too many", "ln f f2\n", "it has 1 links, but 2 names"),
    ("no name", "unlink f\n", "it has no name, but 1 links"),
    ("unconnected directory", "unlink d\n", "no directory has an entry for it"),
    ("second name of a directory", "ln d d2\n", "second name of directory"),
    ("small size", "sif f size 1000\n", "is stored"),
    ("size of a directory", "sif d size 2048\n", "a directory of 2048 bytes with 1 blocks"),
    ("space used", "sif f blocks 4\n", "i_blocks is 4, but 10"),
    ("a fragment", "sif f faddr 7\n", "the address of a fragment"),
    ("no type", "sif f mode 0777\n", "no file type"),
    ("other type", "sif f mode 0140644\n", "directory entry"),
    ("deletion time", "sif f dtime 1234567\n", "has a deletion time"),
    ("cleared file", "clri f\n", "which is not in use"),
    ("cleared directory", "clri d\n", "which is not in use"),
    ("cleared inode in bitmap", "freei f\n", "in use, but marked free"),
    ("xattr block", "sif x file_acl 3\n", "in use by something else"),
    ("xattr block off the volume", "sif x file_acl 999999999\n", "does not lie on the volume"),
    ("extent magic", "sif f block[0] 0\n", "magic number"),
    ("extent entries", "sif f block[0] 0x0009f30a\n", "exceed the maximum"),
    ("extent off the volume", "sif f block[5] 99999999\n", "does not lie on the volume"),
    ("extent without length", "sif f block[4] 0\n", "length 0"),
    ("extent in metadata", "sif f block[5] 3\n", "the file system itself"),
    ("index off the volume", "sif frag block[4] 99999999\n", "does not lie on the volume"),
    ("index begins elsewhere", "sif frag block[3] 1\n", "its index at 1"),
    ("fast symlink", "sif fast size 3\n", "whose target has 6"),
    ("slow symlink", "sif slow size 299\n", "whose target has 300"),
    ("pipe with size", "sif pipe size 5\n", "a special file of 5 bytes"),
    ("inline data", "sif f flags 0x10000000\n", "inline data"),
    ("directory unwritten", "sif d block[4] 0x8001\n", "holes"),
    ("free blocks", "set_bg 0 free_blocks_count 5\nset_bg 0 checksum calc\n", "5 free blocks, counted"),
    ("free inodes", "set_bg 0 free_inodes_count 5\nset_bg 0 checksum calc\n", "5 free inodes, counted"),
    ("directories", "set_bg 0 used_dirs_count 77\nset_bg 0 checksum calc\n", "77 directories, counted"),
    ("unused inodes", "set_bg 0 itable_unused 2040\nset_bg 0 checksum calc\n", "which is not in use"),
    ("descriptor checksum", "set_bg 0 checksum 1\n", "checksum 0x00000001"),
    ("inode table elsewhere", "set_bg 0 inode_table 99999999\nset_bg 0 checksum calc\n", "cannot lie there"),
    ("journal inode", "clri <8>\n", "journal"),
    ("resize inode", "sif <7> block[DIND] 9000\n", "resize inode"),
    ("root", "sif <2> mode 0100755\n", "the root is not a directory"),
];

#[test]
fn damage_to_inodes_counts_and_names() {
    for options in [PLAIN, CHECKSUMMED] {
        let bytes = base(options);
        for (what, requests, word) in LOGICAL {
            assert_found(&inflict(&bytes, &Debugfs(requests)), what, word);
        }
    }
}

#[test]
fn blocks_claimed_twice_or_not_at_all() {
    for options in [PLAIN, CHECKSUMMED] {
        let bytes = base(options);
        let file = ImageFile::new(&bytes);
        let (f, free) = (block(&file, "bmap f 0"), block(&file, "ffb"));
        let file = ImageFile::new(&bytes);
        file.debugfs(&format!("sif g block[5] {f}\n"));
        assert_found(&file.bytes(), "two files", "another file, or twice here");
        for (request, word) in
            [(format!("freeb {f}\n"), "in use, but marked free"), (format!("setb {free}\n"), "marked used")]
        {
            let file = ImageFile::new(&bytes);
            file.debugfs(&request);
            assert_found(&file.bytes(), &request, word);
        }
    }
}

fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
}

fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// Where the entry with this name begins.
fn entry(block: &[u8], name: &[u8]) -> usize {
    let view = dirent::DirBlock::new(block, false, Place::NONE).expect("a block");
    view.find(name).expect("entries").expect("the entry").offset
}

/// Bytes changed in a block: what is wrong, the block, the change, and what the check says.
const POKES: &[(&str, Harm, &str)] = &[
    ("dot", Poke("bmap d 0", |b| put_u32(b, 0, 12)), "where '.' must be"),
    ("dotdot", Poke("bmap d/sub 0", |b| put_u32(b, 12, 2)), "its '..' is inode 2"),
    ("no dotdot", Poke("bmap d 0", |b| b[20] = b'x'), "where '..' must be"),
    (
        "slash",
        Poke("bmap d 0", |b| {
            let at = entry(b, b"one");
            b[at + 8] = b'/'
        }),
        "is no name",
    ),
    (
        "twice",
        Poke("bmap d 0", |b| {
            let at = entry(b, b"two");
            b[at + 8..at + 11].copy_from_slice(b"one")
        }),
        "twice",
    ),
    (
        "a second dot",
        Poke("bmap d 0", |b| {
            let at = entry(b, b"one");
            b[at + 6] = 1;
            b[at + 8] = b'.'
        }),
        "is no name",
    ),
    (
        "inode past the end",
        Poke("bmap d 0", |b| {
            let at = entry(b, b"one");
            put_u32(b, at, 7_000_000)
        }),
        "no name may have",
    ),
    (
        "reserved inode",
        Poke("bmap d 0", |b| {
            let at = entry(b, b"one");
            put_u32(b, at, 5)
        }),
        "no name may have",
    ),
    (
        "the root",
        Poke("bmap d 0", |b| {
            let at = entry(b, b"one");
            put_u32(b, at, 2)
        }),
        "the root",
    ),
    (
        "free inode",
        Poke("bmap d 0", |b| {
            let at = entry(b, b"one");
            put_u32(b, at, 3000)
        }),
        "not in use",
    ),
    (
        "type",
        Poke("bmap d 0", |b| {
            let at = entry(b, b"one");
            b[at + 7] = 2
        }),
        "has type 2",
    ),
    (
        "record length",
        Poke("bmap d 0", |b| {
            let at = entry(b, b"one");
            put_u16(b, at + 4, 6000)
        }),
        "record length 6000",
    ),
    (
        "odd record length",
        Poke("bmap d 0", |b| {
            let at = entry(b, b"one");
            put_u16(b, at + 4, 13)
        }),
        "record length 13",
    ),
    ("hash version", Poke("bmap big 0", |b| b[28] = 9), "unknown hash version 9"),
    ("levels", Poke("bmap big 0", |b| b[30] = 7), "7 levels"),
    ("limit", Poke("bmap big 0", |b| put_u16(b, 32, 7)), "limit of 7"),
    ("count", Poke("bmap big 0", |b| put_u16(b, 34, 5000)), "5000 entries"),
    ("order", Poke("bmap big 0", |b| put_u32(b, 48, 1)), "out of order"),
    (
        "a leaf twice",
        Poke("bmap big 0", |b| {
            let leaf = b[44];
            b[52] = leaf
        }),
        "named twice",
    ),
    (
        "a leaf lost",
        Poke("bmap big 0", |b| {
            let n = u16::from_le_bytes([b[34], b[35]]);
            put_u16(b, 34, n - 1)
        }),
        "htree",
    ),
    ("the wrong leaf", Poke("bmap big 2", |b| b[12] ^= 3), "wrong leaf"),
    ("leaf past the end", Poke("bmap big 0", |b| put_u32(b, 44, 5000)), "points to block 5000"),
    ("slow symlink", Poke("bmap slow 0", |b| b[10] = 0), "whose target has 10"),
    ("extent node", Poke("index", |b| put_u16(b, 0, 0)), "magic number 0x0000"),
    ("order of extents", Poke("index", |b| put_u32(b, 12, 5000)), "out of order"),
    (
        "extents twice",
        Poke("index", |b| {
            let first: Vec<u8> = b[20..24].to_vec();
            b[32..36].copy_from_slice(&first)
        }),
        "twice here",
    ),
    ("xattr magic", Poke("xattrs", |b| put_u32(b, 0, 0)), "magic number 0x0"),
    ("xattr count", Poke("xattrs", |b| put_u32(b, 4, 2)), "reference count 2, but 1"),
    ("xattr hash", Poke("xattrs", |b| b[44] ^= 1), "has hash"),
    ("xattr value", Poke("xattrs", |b| put_u16(b, 34, 1020)), "cannot lie there"),
    ("xattr name", Poke("xattrs", |b| b[32] = 250), "extended attributes"),
    ("padding", Poke("block bitmap", |b| b[BLOCK - 1] = 0), "behind its end"),
    ("inode padding", Poke("inode bitmap", |b| b[BLOCK - 1] = 0), "behind its end"),
    ("resize inode", Poke("reserved", |b| put_u32(b, 0, 4321)), "not linked rightly"),
    ("journal", Poke("bmap <8> 0", |b| b[0] = 0), "journal"),
];

/// The block that a name in [`POKES`] stands for, as a request to debugfs has no such thing.
fn named(file: &ImageFile, name: &str) -> Option<usize> {
    let number = |text: &str, from: &str| -> Option<usize> {
        let rest = text.split(from).nth(1)?.trim_start();
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    match name {
        "index" => number(&file.ask("stat frag"), "(ETB0):"),
        "xattrs" => number(&file.ask("stat x"), "File ACL:"),
        // The last group is short, so its block bitmap has padding.
        "block bitmap" => {
            number(file.ask("stats").rsplit("block bitmap at").next().map(|t| format!("@{t}"))?.as_str(), "@")
        }
        "inode bitmap" => number(&file.ask("stats"), "inode bitmap at"),
        "reserved" => Some(3),
        _ => None,
    }
}

#[test]
fn damage_to_bytes() {
    let plain = base(PLAIN);
    for (what, harm, word) in POKES {
        assert_found(&poked(&plain, harm), what, word);
    }
}

/// With checksums nothing can change unnoticed, whatever it means.
#[test]
fn damage_to_checksummed_bytes() {
    let bytes = base(CHECKSUMMED);
    for (what, harm, _) in POKES.iter().filter(|(what, ..)| !what.contains("padding") && *what != "resize inode") {
        let report = checked(&poked(&bytes, harm));
        let symlink = *what == "slow symlink";
        let told = report.problems.iter().any(|p| symlink || p.text.contains("checksum") || p.structure == "journal");
        assert!(told, "{what}: {:#?}", report.problems);
    }
}

fn poked(bytes: &[u8], harm: &Harm) -> Vec<u8> {
    let Poke(request, change) = harm else { unreachable!("a list of pokes") };
    match named(&ImageFile::new(bytes), request) {
        None => inflict(bytes, harm),
        Some(at) => {
            let mut after = bytes.to_vec();
            change(&mut after[at * BLOCK..(at + 1) * BLOCK]);
            assert!(after != bytes, "{request}: nothing was changed");
            after
        }
    }
}

/// Damage with a checksum that was made right again.
#[test]
fn sealed_damage() {
    let bytes = base(CHECKSUMMED);
    let image = ondol_volume::Image::open(std::sync::Arc::new(ondol_block::RamStore::from_bytes(bytes.clone())));
    let sb = image.expect("an image").superblock().clone();
    let file = ImageFile::new(&bytes);
    let ino_of = |name: &str| -> (u32, u32) {
        let text = file.ask(&format!("stat {name}"));
        let word = |from: &str| text.split(from).nth(1).and_then(|t| t.split_whitespace().next()?.parse().ok());
        (word("Inode:").expect("a number"), word("Generation:").expect("a number"))
    };
    type Case = (&'static str, &'static str, fn(&mut [u8]), fn(&mut [u8], u32), &'static str);
    let cases: [Case; 4] = [
        (
            "d",
            "bmap d 0",
            |b| {
                let at = entry(b, b"one");
                b[at + 7] = 2
            },
            dirent::seal,
            "has type 2",
        ),
        ("big", "bmap big 0", |b| put_u32(b, 48, 1), htree::seal, "out of order"),
        ("big", "bmap big 2", |b| b[12] ^= 3, dirent::seal, "wrong leaf"),
        ("frag", "index", |b| put_u32(b, 12, 5000), ondol_format::extent::seal, "out of order"),
    ];
    for (name, request, change, seal, word) in cases {
        let (ino, generation) = ino_of(name);
        let seed = sb.inode_seed(ino, generation).expect("a seed");
        let at = named(&file, request).unwrap_or_else(|| block(&file, request)) * BLOCK;
        let mut after = bytes.clone();
        change(&mut after[at..at + BLOCK]);
        seal(&mut after[at..at + BLOCK], seed);
        assert_found(&after, request, word);
    }
}

/// Whatever the bytes are, the check ends and does not panic.
#[test]
fn noise() {
    let mut state = 7u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    let (plain, sealed) = (base(PLAIN), base(CHECKSUMMED));
    for round in 0..150 {
        let mut bytes = if round % 2 == 0 { plain.clone() } else { sealed.clone() };
        // Metadata lies in front: hit it often, but leave the superblock, without which there is no image.
        for _ in 0..1 + next() % 200 {
            let at = 2 * BLOCK + next() % (if round % 3 == 0 { bytes.len() - 2 * BLOCK } else { 800 * BLOCK });
            bytes[at] = if next() % 2 == 0 { next() as u8 } else { 0 };
        }
        let report = checked(&bytes);
        assert!(report.problems.len() < 20_000);
    }
}

/// Fields that mean something on other volumes alone, the files of quotas, and whose journal it is.
#[test]
fn what_only_other_volumes_have() {
    let narrow = crate::rig::mkfs(16, &["-b", "1024", "-O", "^64bit,^metadata_csum,^huge_file", "-J", "size=1"]);
    let quota = crate::rig::mkfs(16, &["-b", "1024", "-O", "quota,^metadata_csum", "-J", "size=1"]);
    let harm = |bytes: &[u8], requests: &'static str| inflict(bytes, &Debugfs(requests));
    for (what, bytes, word) in [
        ("xattr block", harm(&narrow, "write /dev/null f\nsif f file_acl 0x200000000\n"), "without 64bit"),
        ("blocks", harm(&narrow, "write /dev/null f\nsif f blocks 0x200000000\n"), "without huge_file"),
        ("no inode", harm(&quota, "ssv usr_quota_inum 808464432\n"), "no inode that may hold user quotas"),
        ("a reserved inode", harm(&quota, "ssv grp_quota_inum 8\n"), "no inode that may hold group quotas"),
        ("no file", harm(&quota, "ssv prj_quota_inum 11\n"), "is no regular file"),
        ("a journal of two", inflict(&narrow, &Poke("bmap <8> 0", |b| b[0x43] = 2)), "that of 2 file systems"),
    ] {
        assert_found(&bytes, what, word);
    }
    // Without the feature nobody looks at the numbers.
    let bytes = harm(&narrow, "ssv usr_quota_inum 808464432\n");
    assert_clean(&bytes, "numbers of quota files without quota");
}
