//! Files in many pieces: trees of extents that grow, split, shrink and move, and work that takes several operations.

use super::{Scene, lines, scene};
use crate::image::Kind;

/// `/a` in so many pieces of one block, each `step` KiB behind the last.
fn pieces(count: u64, step: u64) -> String {
    "create /a 0644\n".to_owned() + &lines(0..count, |n| format!("write /a {}K 700 #{}", n * step, n + 1))
}

/// More of them.
fn more(from: u64, count: u64, step: u64, skip: u64) -> String {
    lines(from..from + count, |n| format!("write /a {}K 900 #{}", n * step + skip, n + 501))
}

/// Entries of a leaf in blocks of 1 KiB and in pages, and of the root.
const LEAF: u64 = 84;
const PAGE_LEAF: u64 = 340;
const ROOT: u64 = 4;

/// Trees that are as wide as blocks that are pages have it, and what takes more groups and blocks there.
pub(super) fn in_pages() -> Vec<Scene> {
    let spread = "create /b 0644\nwrite /b 0 240K #1\ncreate /a 0644\nfallocate /a 0 60M\nfallocate /a 60M 20M\n\
                  write /a 70M 4K #3";
    let groups = |name, before: &str, calls: &str| scene(name, before, calls).on(Kind::ManyGroups);
    let leaf = PAGE_LEAF;
    vec![
        scene("leaf-split-behind", pieces(leaf - 1, 8), more(leaf - 1, 3, 8, 0) + "fsync /a"),
        scene("leaf-split-inside", pieces(leaf - 1, 16), more(40, 3, 16, 8) + "fsync /a\npunch /a 640K 16K\nfsync /a"),
        scene("tree-shrinks", pieces(leaf + 6, 8), "truncate /a 20K\nfsync /a\nappend /a 700 #91\nfsync /a"),
        scene("pieces-deleted-open", pieces(leaf + 6, 8) + "open @0 /a", "unlink /a\nsync\nclose @0\nsync"),
        groups("truncated-in-steps", spread, "truncate /a 0\nsync\nwrite /b 0 40K #4\nfsync /b"),
        groups("deleted-in-steps", spread, "unlink /a\nsync\nwrite /b 0 9000 #4\nfsync /b"),
        groups("deleted-in-steps-open", spread, "open @0 /a\nunlink /a\nsync\nclose @0\nidle 6"),
        groups(
            "allocated-in-steps",
            "create /a 0644\nwrite /a 20M 4K #1",
            "fallocate /a 0 80M\nfsync /a\nwrite /a 12M 5000 #2\nfsync /a",
        ),
    ]
}

pub(super) fn scenes() -> Vec<Scene> {
    let spread = "create /b 0644\nwrite /b 0 60K #1\nwrite /b 60K 60K #2\ncreate /a 0644\nfallocate /a 0 10M\n\
                  fallocate /a 10M 8M\nwrite /a 17M 1K #3";
    let groups = |name, calls: &str| scene(name, spread, calls).on(Kind::ManyGroups);
    let mut all = vec![
        scene("tree-grows", pieces(ROOT, 2), more(ROOT, 2, 2, 0) + "fsync /a\ntruncate /a 3K\nfsync /a"),
        scene("tree-grows-and-goes", pieces(ROOT + 2, 2), "unlink /a\ncreate /b 0644\nwrite /b 0 9000 #91\nsync"),
        scene("leaf-split-behind", pieces(LEAF - 1, 2), more(LEAF - 1, 3, 2, 0) + "fsync /a"),
        scene("leaf-split-inside", pieces(LEAF - 1, 4), more(40, 3, 4, 2) + "fsync /a\npunch /a 160K 4K\nfsync /a"),
        scene("second-level", pieces(ROOT * LEAF, 2), more(ROOT * LEAF, 2, 2, 0) + "fsync /a"),
        scene("tree-shrinks", pieces(LEAF + 6, 2), "truncate /a 5000\nfsync /a\nappend /a 700 #91\nfsync /a"),
        scene("leaf-goes", pieces(2 * LEAF + 6, 2), "punch /a 0 168K\nfsync /a\nwrite /a 1K 100 #91\nfsync /a"),
        scene("pieces-deleted", pieces(LEAF + 6, 2), "unlink /a\nsync"),
        scene("pieces-deleted-open", pieces(LEAF + 6, 2) + "open @0 /a", "unlink /a\nsync\nclose @0\nsync"),
        scene("pieces-moved", pieces(LEAF + 6, 4), "collapse /a 4K 8K\nfsync /a\ninsert /a 8K 4K\nfsync /a"),
        scene(
            "second-level-moved",
            pieces(ROOT * LEAF + 2, 4),
            "collapse /a 4K 8K\nfsync /a\ninsert /a 8K 4K\nfsync /a",
        ),
        scene(
            "pieces-joined",
            pieces(12, 2),
            lines(0..6, |n| format!("write /a {}K 1K #{}", 2 * n + 1, n + 601)) + "fsync /a",
        ),
        scene(
            "unwritten-in-pieces",
            "create /a 0644\nfallocate /a 0 40K",
            "write /a 10K 1K #1\nwrite /a 20K 3000 #2\nfsync /a\nwrite /a 11K 1K #3\nzero /a 20K 1K\nfsync /a",
        ),
        scene(
            "made-unwritten",
            "create /a 0644\nwrite /a 0 40000 #1",
            "zero /a 4K 8K\nfsync /a\nwrite /a 5K 1K #2\npunch /a 20K 4K\nfsync /a",
        ),
        groups(
            "truncated-in-steps",
            "write /b 0 60K #3\nwrite /b 60K 60K #4\nwrite /b 120K 40K #4\ntruncate /a 0\nsync",
        ),
        groups("deleted-in-steps", "unlink /a\nsync\nwrite /b 0 9000 #4\nfsync /b"),
        groups("deleted-in-steps-open", "open @0 /a\nunlink /a\nsync\nclose @0\nidle 6"),
        // Where a commit comes only with a sync, another thread's lies between two steps.
        groups("truncated-beside-commits", "truncate /a 100\nfsync /a").beside(
            "chmod /b 0600\nfsync /b\nchmod /b 0640\nfsync /b\nchmod /b 0600\nfsync /b\nchmod /b 0640\nfsync /b",
        ),
        groups("punched-in-steps", "punch /a 1M 15M\nfsync /a"),
        scene(
            "allocated-in-steps",
            "create /a 0644\nwrite /a 5M 1K #1",
            "fallocate /a 0 12M\nfsync /a\nwrite /a 3M 5000 #2\nfsync /a",
        )
        .on(Kind::ManyGroups),
        scene("groups", "create /a 0644", "write /a 0 300000 #1\nfsync /a\ntruncate /a 1000\nsync")
            .on(Kind::ManyGroups),
        scene("written-in-steps", "create /a 0644", "write /a 0 300000 #1\nfsync /a\nwrite /a 100 250000 #2\nfsync /a"),
        scene(
            "copied",
            pieces(12, 2) + "create /b 0644",
            "copy /a 0 /b 1000 20000\nfsync /b\ncopy /b 0 /a 500 20000\nfsync /a",
        ),
    ];
    all.extend(exchanges());
    all.extend(commits());
    all
}

/// Stores to maps that are committed: by one operation, into holes and the inode, and by an exchange.
fn commits() -> Vec<Scene> {
    vec![
        scene(
            "stores-committed",
            "create /a 0644\nwrite /a 0 20000 #1\nsync\npunch /a 4096 4096",
            "map-commit /a 100 3000 9000 2 #2\nwrite /a 50 100 #3\nmap-commit /a 0 20000 0 1 #4\nwrite /a 0 9000 #5\n\
             sync",
        ),
        scene(
            "stores-exchanged",
            "create /a 0644\nwrite /a 0 60K #1\nwrite /a 60K 60K #2\nwrite /a 120K 60K #3\nwrite /a 180K 60K #4\n\
             write /a 240K 60K #5\nsync",
            "map-commit /a 100 140K 150K 2 #6\nwrite /a 3K 700 #7\nmap-commit /a 10 10 20 2 #8\nfsync /a",
        ),
        scene(
            "stores-exchanged-unnamed",
            "create /a 0644\nwrite /a 0 60K #1\ntruncate /a 400K\nopen @0 /a\nunlink /a\nsync",
            "map-commit @0 1000 390K 0 1 #2\nlink @0 /b\nclose @0\nsync",
        ),
        scene(
            "stores-committed-inline",
            "create /a 0644\nwrite /a 0 50 #1",
            "map-commit /a 5 3 20 3 #2\ntruncate /a 5000\nmap-commit /a 5 3 2000 3 #3",
        )
        .on(Kind::InlineData),
    ]
}

/// Two files, one of which has its data in the log.
const ONE_JOURNALED: &str = "create /a 0644\ncreate /b 0644\nchattr /a j\nwrite /a 0 4096 #1\nwrite /b 0 4096 #2\n\
                             sync\nwrite /a 0 4096 #3\nfsync /a";

/// Extents of two files that change places.
fn exchanges() -> Vec<Scene> {
    vec![
        scene(
            "exchanged",
            pieces(12, 2) + "create /b 0644\nwrite /b 0 9000 #91\nfallocate /b 16K 8K",
            "exchange /a 2K /b 4K 4K\nwrite /a 3K 700 #92\nfsync /a\nexchange-ends /a 0 /b 1K\nwrite /b 0 3000 #93\n\
             fsync /b",
        ),
        scene(
            "exchanged-trees",
            pieces(LEAF + 6, 2) + &pieces(2, 2).replace("/a", "/b"),
            "exchange-ends /a 4K /b 2K\nwrite /b 5K 3000 #91\nsync\nexchange /a 0 /b 100K 2K\ntruncate /b 3K\nsync",
        ),
        scene(
            "exchanged-journaled",
            "create /a 0644\nwrite /a 0 9000 #1\ncreate /b 0644\nwrite /b 0 7000 #2\nchattr /a j\nwrite /a 0 9000 #3\n\
             sync",
            "exchange-ends /a 0 /b 0\nwrite /b 0 5000 #4\nwrite /a 0 5000 #5\nfsync /b\nchattr /a -\n\
             write /a 100 3000 #6\nfsync /a",
        ),
        scene("exchanged-once-journaled", ONE_JOURNALED, "exchange /a 0 /b 0 4K\nwrite /b 0 4096 #4\nfsync /b"),
        scene("exchanged-once-journaled-back", ONE_JOURNALED, "exchange /b 0 /a 0 4K\nwrite /b 0 4096 #4\nfsync /b"),
        scene(
            "exchanged-unnamed",
            "create /a 0644\nwrite /a 0 9000 #1\ntmpfile @0 / 0600\nwrite @0 0 5000 #2",
            "exchange-ends @0 0 /a 0\nclose @0\nwrite /a 0 2000 #3\nsync\ncreate /b 0644\nwrite /b 0 20000 #4\n\
             fsync /b",
        ),
    ]
}
