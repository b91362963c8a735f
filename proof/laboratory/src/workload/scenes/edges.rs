//! Where a run of blocks, a ring or a cache comes to its end: the case that is one of many.

use super::super::random::full_log;
use super::{Kind, Mount, Scene, lines, scene};

pub(super) fn scenes() -> Vec<Scene> {
    let mut all = vec![
        scene(
            "last-block-unmapped",
            "create /a 0644\nwrite /a 0 7K #1\nsync\nbring-home",
            "write /a 0 8K #2\nfsync /a\nwrite /a 5K 4K #3\nfsync /a\nbring-home",
        ),
        scene(
            "first-block-unmapped",
            "create /a 0644\nwrite /a 4K 7K #1\nsync\nbring-home",
            "write /a 3K 8K #2\nfsync /a\nwrite /a 2K 3K #3\nsync",
        ),
        scene(
            "parts-of-one-block",
            "create /a 0644\nwrite /a 0 9000 #1\nsync\nbring-home",
            "map-commit /a 0 100 300 3 #2\nmap-commit /a 900 300 1024 4 #3\nmap-commit /a 0 1024 1024 3 #4\n\
             bring-home\nsync",
        ),
        scene(
            "evicted-between-write-and-fsync",
            lines(0..64, |n| format!("create /f{n} 0644")) + "mkdir /d 0755\ncreate /a 0644\nwrite /a 0 3000 #1",
            "write /a 500 4000 #2\n".to_owned()
                + &lines(0..64, |n| format!("chmod /f{n} 0600"))
                + "fdatasync /a\nappend /a 900 #3\n"
                + &lines(0..64, |n| format!("setxattr /f{n} user.v 300 #{n}9"))
                + "fsync /a",
        ),
        // Nothing else waits for what it wrote.
        scene(
            "evicted-before-its-fsync",
            lines(0..12, |n| format!("create /f{n} 0644")) + "create /a 0644\nwrite /a 0 3000 #1",
            "append /a 4000 #2\n".to_owned() + &lines(0..12, |n| format!("read /f{n} 0 10")) + "fsync /a",
        )
        .mount(Mount::File),
        scene(
            "grown-over-old-bytes",
            "create /a 0644\nwrite /a 0 8K #1\nsync",
            "truncate /a 1500\ntruncate /a 3000\nfsync /a\ntruncate /a 700\nsync\nwrite /a 5000 100 #2\nfsync /a\n\
             truncate /a 300\nfallocate /a 300 4000\nfsync /a\nbring-home",
        ),
        scene(
            "in-place-then-journaled",
            "create /a 0644\nwrite /a 0 9000 #1\nsync\nbring-home",
            "write /a 0 3000 #2\nchattr /a j\nwrite /a 1000 900 #3\nfsync /a\nchattr /a -\nwrite /a 0 3000 #4\n\
             write /a 4K 1K #5\nfsync /a\nbring-home\nchattr /a j\nwrite /a 0 5000 #6\nsync",
        ),
        scene(
            "kept-over-freed",
            super::super::scenarios::full!("12K").to_owned()
                + "\nunlink /hole\nsync\nmkdir /x 0755\ncreate /x/y 0644\nsync",
            "unlink /x/y\nrmdir /x\nsync\nwrite /b 0 12K #1\nunlink /b\nsync\ncreate /b 0644\nmkdir /n 0755\n\
             write /b 0 8K #2\nsync\nbring-home",
        )
        .mount(Mount::Kept),
    ];
    all.extend(views());
    all.extend(overwritten());
    all.extend(rings());
    all
}

/// Pages are lent while what they hold is written over, given back and used again.
fn views() -> Vec<Scene> {
    let seen = "view /a 0 16K\nwrite /a 3K 9K #2\nsync\nbring-home\nview /a 1K 20K\nunlink /a\nsync\nbring-home\n";
    let used = "create /b 0644\nwrite /b 0 64K #3\nsync\nbring-home\nview /b 0 8K\nscratch 900\n\
                write /b 5K 40K #4\nsync\nread /b 0 64K";
    let before = "create /a 0644\nwrite /a 0 16K #1\nsync\nbring-home";
    let other = "create /c 0644\nwrite /c 0 9000 #5\nsync\nview /c 0 9000\nbring-home\nunlink /c\nsync\nread /c 0 9000";
    vec![
        scene("views", before, [seen, used].concat()),
        scene("views-beside", before, [seen, "sync"].concat()).beside(other),
    ]
}

/// What is overwritten is partly at home, and partly new or promised.
fn overwritten() -> Vec<Scene> {
    vec![
        scene(
            "unseen-at-home-and-new",
            "create /a 0644\nwrite /a 0 1K #1\nsync\nbring-home",
            "write /a 1K 1K #2\nzero /a 0 2K\nwrite /a 0 2K #3\nfsync /a\nread /a 0 2K\nbring-home",
        ),
        scene("long-over-long", "create /a 0644", "write /a 0 100K #1\nfsync /a\nwrite /a 2K 90K #2\nfsync /a"),
    ]
}

/// A log in NVM that goes round its ring, and one that is nearly full.
fn rings() -> Vec<Scene> {
    let mut all = Vec::new();
    // The ring of a log in NVM ends in the midst of a record: of its head, of its contents, and behind them.
    for (n, len) in ["3000", "700", "20K", "60"].into_iter().enumerate() {
        let write = |at: u64| format!("write /a {} {len} #1{at}{n}\nfsync /a", at % 3 * 2048);
        let name = ["lap", "lap-of-short", "lap-of-long", "lap-of-bytes"][n];
        all.push(scene(name, "create /a 0644\ncreate /b 0644", lines(0..24, write)).mount(Mount::Lap));
        all.push(
            scene(name, "create /a 0644\ncreate /b 0644", lines(0..8, write))
                .mount(Mount::Lap)
                .beside(lines(0..8, |at| format!("write /b 0 {len} #2{at}{n}\nfsync /b"))),
        );
    }
    all.push(
        scene(
            "lap-and-home",
            "create /a 0644",
            lines(0..12, |n| format!("write /a 0 5000 #{n}8\nfsync /a\nbring-home")),
        )
        .mount(Mount::Lap)
        .on(Kind::OrphanFile),
    );
    let full = "create /a 0644\n".to_owned() + &full_log("/a", 0);
    let change = lines(0..6, |n| format!("setxattr /a user.x 800 #{n}7\nfsync /a"));
    all.push(scene("full-log", full, change).mount(Mount::Lap));
    all
}
