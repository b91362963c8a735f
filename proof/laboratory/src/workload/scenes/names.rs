//! Directories of several blocks, and inodes without names.

use super::super::collisions::{LEN, Names};
use super::{Scene, lines, scene};
use crate::image::Kind;

/// A name of `len` bytes.
fn name(n: u64, len: usize) -> String {
    format!("/d/{n:0len$}")
}

/// A directory with so many names of one file.
fn names(count: u64, len: usize) -> String {
    "create /t 0644\nmkdir /d 0755\n".to_owned() + &link(0, count, len)
}

fn link(from: u64, count: u64, len: usize) -> String {
    lines(from..from + count, |n| format!("link /t {}", name(n, len)))
}

fn unlink(numbers: impl IntoIterator<Item = u64>, len: usize) -> String {
    lines(numbers, |n| format!("unlink {}", name(n, len)))
}

/// Names of 24 bytes that fill a block of so many bytes but for one or two.
fn block_of(bytes: u64) -> u64 {
    (bytes - 36) / 32 - 1
}

pub(super) fn scenes() -> Vec<Scene> {
    let mut all = directories(1024);
    all.extend([
        scene("htree-raised", names(HTREE - 14, LONG), link(HTREE - 14, 28, LONG) + "fsync /d"),
        scene("htree-node-split", names(NODES - 14, LONG), link(NODES - 14, 28, LONG) + "fsync /d"),
    ]);
    all.extend([Kind::Small, Kind::BlockMap, Kind::Pages].map(|kind| of_one_hash(kind, kind.block_size())));
    all.extend(inodes());
    all.extend(ways());
    all
}

/// A leaf splits between two names of one hash, each of which is then looked for, removed and replaced.
fn of_one_hash(image: Kind, bytes: u64) -> Scene {
    let (names, entry) = (Names::of(image), LEN as u64 + 8);
    // In the upper part goes what takes about half of a block.
    let (all, upper) = ((bytes - 36) / entry, (bytes + entry) / 2 / entry);
    let [one, other] = names.pair();
    let around = names.around((all - upper - 1) as usize, upper as usize);
    let linked = |names: &[String]| names.iter().map(|name| format!("link /t {name}\n")).collect::<String>();
    let (last, first) = around.split_last().map_or((&one, &around[..]), |(last, first)| (last, first));
    let before = format!("create /t 0644\nmkdir /d 0755\nlink /t {one}\nlink /t {other}\n{}", linked(first));
    let replaced = format!("create {other} 0600\nsync\nrename {other} {one}\nsync\nlink /t {other}\nunlink {one}\n");
    let calls = format!("link /t {last}\nlink /t {other}\nlink /t {one}\nsync\nunlink {other}\nsync\n{replaced}");
    scene("htree-one-hash", before, calls + &format!("sync\nrename {last} /x\nunlink {other}\nfsync /d")).on(image)
}

/// Where ways to names have led once, and where they must not lead.
fn ways() -> Vec<Scene> {
    vec![
        // Who goes up from a directory must not believe what led there before it was moved.
        scene(
            "above-what-moved",
            "mkdir /a 0755\nmkdir /a/b 0755\nmkdir /c 0755\nmkdir /d 0755",
            "rename /d /a/b/d\nrename /a/b /c/b\nrename /a /c/b/a\nsync",
        ),
        scene(
            "transaction-through-symlink",
            "create /a 0644\nsymlink /s a\nmkdir /d 0755\nsymlink /t d",
            "transaction { chmod /a 0600 ; chmod /s 0600 }\ntransaction { write /a 0 3000 #1 ; create /t/x 0644 }\n\
             sync",
        ),
    ]
}

/// Those whose directories are as long as their blocks have it, in blocks that are pages.
pub(super) fn in_pages() -> Vec<Scene> {
    let mut all = directories(4096);
    all.push(of_one_hash(Kind::Small, 4096));
    all
}

/// Bytes of a long name.
const LONG: usize = 240;

/// Directories that come to a second block and an index, and go, in blocks of so many bytes.
fn directories(bytes: u64) -> Vec<Scene> {
    let (block, long) = (block_of(bytes), LONG);
    // Two blocks and a part of the third; long names that leave room for one or two more.
    let (two, few) = (2 * block + 2, bytes / 256 + bytes / 512);
    let emptied = names(two, 24) + &unlink(0..two, 24);
    let linear = |name, before: String, calls: String| scene(name, before, calls).on(Kind::Linear);
    vec![
        scene("index-made", names(block, 24), link(block, 4, 24) + "fsync /d\n" + &unlink(0..2, 24) + "fsync /d"),
        scene("htree-leaf-split", names(few, long), link(few, 6, long) + "fsync /d"),
        scene(
            "htree-leaf-split-each",
            names(few, long),
            lines(few..few + 6, |n| format!("link /t {}\nsync", name(n, long))),
        ),
        scene(
            "htree-removed",
            names(two, 24),
            unlink([3, block, two - 3], 24) + "sync\n" + &link(two + 10, 3, 24) + "sync",
        ),
        scene(
            "htree-renamed",
            names(two, 24),
            format!("rename {} {}\nsync\nrename {} /x\nsync", name(1, 24), name(2, 200), name(3, 24)),
        ),
        scene("htree-deleted", emptied.clone(), "rmdir /d\ncreate /b 0644\nwrite /b 0 5000 #1\nsync"),
        scene("htree-deleted-open", emptied, "open @0 /d\nrmdir /d\nsync\nclose @0\nsync"),
        scene(
            "entries-packed",
            names(block, 24) + &unlink((0..block).step_by(3), 24),
            link(2 * block + 32, 4, 60) + "fsync /d",
        ),
        linear("linear-grows", names(block, 24), link(block, 4, 24) + "fsync /d\n" + &unlink(0..2, 24) + "fsync /d"),
        linear("linear-deleted", names(block + 11, 24) + &unlink(0..block + 11, 24), "rmdir /d\nsync".into()),
    ]
}

/// Inodes that lose and get their names, and directories that move.
fn inodes() -> Vec<Scene> {
    vec![
        scene("orphans", format!("{OPENED}\nopen @2 /c"), ORPHANS),
        scene("orphans-in-file", format!("{OPENED}\nopen @2 /c"), ORPHANS).on(Kind::OrphanFile),
        scene(
            "orphans-of-several",
            OPENED,
            "unlink /a\nunlink /b\nsync\nclose @1\nsync\ntmpfile @1 / 0600\nsync\nclose @0\nsync",
        ),
        scene(
            "orphan-named-again",
            "mkdir /d 0755",
            "tmpfile @0 /d 0600\ntmpfile @1 /d 0600\ntmpfile @2 /d 0600\nwrite @1 0 3000 #1\nsync\nlink @1 /d/n\n\
             fsync @1\nclose @0\nsync\nclose @2\nidle 6",
        ),
        scene("orphan-replaced", OPENED, "rename /a /b\nsync\nwrite @1 0 2000 #3\nsync\nclose @1\nsync"),
        scene(
            "moved-directory",
            "mkdir /d 0755\nmkdir /e 0755\nmkdir /d/x 0755\ncreate /d/x/y 0644",
            "rename /d/x /e/z\nsync\nrename-exchange /d /e/z\nsync\nrename-whiteout /d /w\nsync",
        ),
        scene(
            "deep",
            "mkdir /d 0755\nmkdir /d/e 0755\nmkdir /d/e/f 0755",
            "create /d/e/f/a 0644\nfsync /d/e/f/a\nrename /d/e/f/a /a\nrmdir /d/e/f\nfsync /a\nrmdir /d/e\nsync",
        ),
    ]
}

/// Long names at which the root of an htree is full, and at which the node below it is.
const HTREE: u64 = 330;
const NODES: u64 = 350;

const OPENED: &str =
    "create /a 0644\nwrite /a 0 3000 #1\ncreate /b 0644\nwrite /b 0 2000 #2\ncreate /c 0644\nopen @0 /a\nopen @1 /b";

const ORPHANS: &str =
    "unlink /a\nunlink /b\nsync\nunlink /c\nclose @1\nsync\nclose @0\nsync\ncreate /n 0644\nclose @2\nsync";
