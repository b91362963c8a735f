//! Something that lies in the log is freed, and its place taken by something else: what is replayed must not come home
//! over it.

use super::{Kind, Mount, Scene, lines, scene};

/// Nothing is free. Once `/hole` is gone, whoever allocates as much gets every block that was freed.
fn full(image: Kind, hole: &str) -> String {
    let begin = format!("create /b 0644\ncreate /hole 0644\nwrite /hole 0 {hole} zeros\ncreate /full 0644\n");
    match image {
        // A block map has no unwritten blocks.
        Kind::BlockMap => {
            begin + &lines(0..64, |n| format!("write /full {} 60K zeros", (n * 60) << 10)) + "append /full 1000 zeros"
        }
        _ => {
            let halves = (0..13).map(|n| 8u64 << n).rev().flat_map(|kib| [kib, kib]);
            let grown = halves.enumerate().map(|(at, kib)| format!("fallocate-keep /full {}M {kib}K\n", at * 32));
            begin
                + &grown.collect::<String>()
                + "fallocate-keep /full 900M 4K\nfallocate-keep /full 901M 2K\nfallocate-keep /full 902M 1K"
        }
    }
}

/// What takes logged blocks, how it is made, and how it goes.
fn logged() -> Vec<(&'static str, Kind, String, &'static str)> {
    let small = Kind::Small;
    let target = "t".repeat(900);
    let names = lines(0..6, |n| format!("link /b /x/{n}{}", "n".repeat(240)));
    let pieces = lines(0..6, |n| format!("write /x {} 700 #{n}3", n * 5000));
    vec![
        ("directory", small, "mkdir /x 0755\n".into(), "rmdir /x"),
        ("directory-changed", small, "mkdir /x 0755\nlink /b /x/y\n".into(), "unlink /x/y\nrmdir /x"),
        (
            "htree",
            small,
            format!("mkdir /x 0755\n{names}{}", lines(0..6, |n| format!("unlink /x/{n}{}", "n".repeat(240)))),
            "rmdir /x",
        ),
        ("xattr", small, "setxattr /b user.v 500 #7\n".into(), "removexattr /b user.v"),
        ("xattr-of-file", small, "create /x 0644\nsetxattr /x user.v 500 #7\n".into(), "unlink /x"),
        ("symlink", small, format!("symlink /x {target}\n"), "unlink /x"),
        ("extent-node", small, format!("create /x 0644\n{pieces}"), "unlink /x"),
        ("extent-node-cut", small, format!("create /x 0644\n{pieces}"), "truncate /x 0"),
        ("journaled-data", small, "create /x 0644\nchattr /x j\nwrite /x 0 6000 #7\n".into(), "unlink /x"),
        ("journaled-data-cut", small, "create /x 0644\nchattr /x j\nwrite /x 0 6000 #7\n".into(), "truncate /x 100"),
        (
            "journaled-data-punched",
            small,
            "create /x 0644\nchattr /x j\nwrite /x 0 6000 #7\n".into(),
            "punch /x 0 5000",
        ),
        ("journaled-data-moved", small, "create /x 0644\nchattr /x j\nwrite /x 0 8K #7\n".into(), "collapse /x 0 4K"),
        ("indirect", Kind::BlockMap, "create /x 0644\nwrite /x 20K 700 #7\nwrite /x 300K 700 #8\n".into(), "unlink /x"),
        ("indirect-cut", Kind::BlockMap, "create /x 0644\nwrite /x 20K 700 #7\n".into(), "truncate /x 100"),
        ("directory-of-blocks", Kind::BlockMap, "mkdir /x 0755\n".into(), "rmdir /x"),
    ]
}

/// The same on other volumes, with room for a run that is written home at once.
const LARGE: [&str; 6] = ["directory", "xattr-of-file", "symlink", "extent-node", "journaled-data", "indirect"];

pub(super) fn scenes() -> Vec<Scene> {
    let mut all = Vec::new();
    for (name, image, make, free) in logged() {
        let made = format!("unlink /hole\nsync\n{make}sync");
        let refill = |len: &str| format!("{free}\nsync\nwrite /b 0 {len} #91\nfsync /b");
        let before = format!("{}\n{made}", full(image, "12K"));
        all.push(scene(name, before.clone(), format!("{}\nunlink /b\nsync", refill("12K"))).on(image));
        // Freed while it is in the running transaction, and taken before it is durable.
        let unsynced = format!("{}\nunlink /hole\nsync", full(image, "12K"));
        all.push(scene(name, unsynced, format!("{make}{free}\nwrite /b 0 12K #91\nfsync /b\nidle 6")).on(image));
        if LARGE.contains(&name) {
            all.push(scene(name, format!("{}\n{made}", full(image, "80K")), refill("80K")).on(image));
            // Free and taken twice in the life of one log, and the log then emptied.
            let again = format!("{}\nunlink /b\nsync\ncreate /b 0644\n{make}sync\nremount", refill("12K"));
            all.push(scene(name, before, again).on(image));
        }
    }
    // More than the revokes of one block of the log; each of these blocks is taken again.
    let much = |fills: [u32; 3]| lines(0..3, |n| format!("write /x {}K 60K #{}", n * 60, fills[n as usize]));
    for (name, free) in [("journaled-much", "unlink /x"), ("journaled-much-cut", "truncate /x 0")] {
        let made = format!("unlink /hole\nsync\ncreate /x 0644\nchattr /x j\n{}sync", much([1, 2, 3]));
        let refill = much([4, 5, 6]).replace("/x", "/b");
        all.push(
            scene(
                name,
                format!("{}\n{made}", full(Kind::Small, "184K")),
                format!("{free}\nsync\n{refill}fsync /b\nunlink /b\nsync"),
            )
            // With little memory the images would be home by then.
            .mount(Mount::Roomy),
        );
    }
    all.push(
        scene(
            "discarded",
            full(Kind::OrphanFile, "12K"),
            "unlink /hole\nsync\nmkdir /x 0755\nsync\nrmdir /x\ntrim\nsync\ntrim\nwrite /b 0 12K #91\nfsync /b",
        )
        .on(Kind::OrphanFile),
    );
    // Blocks of an inode table in which nobody lives any more, and whose bytes are at home alone. The first numbers
    // share a block with the system's own inodes.
    let live = lines(1..40, |n| format!("create /i{n} 0644\nsetxattr /i{n} user.v 60 #{n}"));
    let die = lines(2..40, |n| format!("unlink /i{n}"));
    all.push(
        scene("inodes-of-the-dead", live + &die, lines(0..6, |n| format!("create /n{n} 0600")) + "sync").remounted(),
    );
    all.push(scene(
        "inodes",
        lines(0..40, |n| format!("create /i{n} 0644")),
        "unlink /i3\nunlink /i4\nmkdir /d 0755\ncreate /d/n 0600\nsymlink /s x\nsync\nunlink /i5\nsync\n\
         mkfifo /p 0600\nsync",
    ));
    all
}
