//! Directories of several blocks, and inodes without names.

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

/// Names of 24 bytes that fill a block of 1 KiB but for two.
const BLOCK: u64 = 29;

pub(super) fn scenes() -> Vec<Scene> {
    let long = 240;
    let emptied = names(60, 24) + &unlink(0..60, 24);
    let linear = |name, before: String, calls: String| scene(name, before, calls).on(Kind::Linear);
    vec![
        scene("index-made", names(BLOCK, 24), link(BLOCK, 4, 24) + "fsync /d\n" + &unlink(0..2, 24) + "fsync /d"),
        scene("htree-leaf-split", names(6, long), link(6, 6, long) + "fsync /d"),
        scene("htree-leaf-split-each", names(6, long), lines(6..12, |n| format!("link /t {}\nsync", name(n, long)))),
        scene("htree-raised", names(HTREE - 14, long), link(HTREE - 14, 28, long) + "fsync /d"),
        scene("htree-node-split", names(NODES - 14, long), link(NODES - 14, 28, long) + "fsync /d"),
        scene("htree-removed", names(60, 24), unlink([3, 30, 57], 24) + "sync\n" + &link(70, 3, 24) + "sync"),
        scene(
            "htree-renamed",
            names(60, 24),
            format!("rename {} {}\nsync\nrename {} /x\nsync", name(1, 24), name(2, 200), name(3, 24)),
        ),
        scene("htree-deleted", emptied.clone(), "rmdir /d\ncreate /b 0644\nwrite /b 0 5000 #1\nsync"),
        scene("htree-deleted-open", emptied, "open @0 /d\nrmdir /d\nsync\nclose @0\nsync"),
        scene("entries-packed", names(BLOCK, 24) + &unlink((0..BLOCK).step_by(3), 24), link(90, 4, 60) + "fsync /d"),
        linear("linear-grows", names(BLOCK, 24), link(BLOCK, 4, 24) + "fsync /d\n" + &unlink(0..2, 24) + "fsync /d"),
        linear("linear-deleted", names(40, 24) + &unlink(0..40, 24), "rmdir /d\nsync".into()),
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
            "tmpfile @0 /d 0600\ntmpfile @1 /d 0600\ntmpfile @2 /d 0600\nwrite @1 0 3000 #1\nsync\nlink @1 /d/n\nfsync @1\nclose @0\nsync\nclose @2\nidle 6",
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
