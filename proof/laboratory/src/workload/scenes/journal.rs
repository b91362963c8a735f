//! The ring, its tail, checkpoints, revokes, and what recovery makes of them.

use super::{Mount, Scene, lines, log, scene};
use crate::image::Kind;

pub(super) fn scenes() -> Vec<Scene> {
    let much = "write /log 0 60K #91\nwrite /log 60K 60K #92\nwrite /log 120K 60K #93\nsync";
    // Nearly all of a small ring, for each engine and data mode at one of these.
    let filled = |name, transactions, calls: &str| scene(name, log(transactions), calls).mount(Mount::Roomy);
    let more = "write /log 0 60K #91\nfsync /log\nchmod /log 0644\nsync";
    let many = lines(0..8, |n| format!("chmod /log 060{n}\nsync"));
    let mut all = Vec::new();
    for transactions in 13..=16 {
        let filled = |name, calls: &str| filled(name, transactions, calls);
        all.extend([
            filled("log-wraps", &format!("{more}\n{more}")),
            filled("log-wraps-small", &many),
            filled("log-wraps-zeroing", &format!("{more}\nremount")).mount(Mount::Zeroing),
            filled("log-wraps-and-is-emptied", &format!("{more}\nremount\ncreate /a 0644\nfsync /a")),
            filled("log-crowded", "create /a 0644\nidle 6\nwrite /log 0 9000 #91\nsync\nidle 6"),
            filled("no-room-for-new-data", &(new_runs(60) + "sync\nchmod /n 0600\nsync")),
        ]);
    }
    all.extend(others(much));
    all.extend(data());
    all.extend(unsynced());
    all.extend(much_dies());
    all.extend(home_alone());
    all
}

/// New data that compresses, in many runs of nine blocks each.
fn new_runs(count: u64) -> String {
    "create /n 0644\n".to_owned()
        + &lines(0..count, |n| format!("write /n {}K 9000 zeros\nwrite /n {}K 20 #{n}1", n * 16, n * 16 + 1))
}

/// A block at home that begins like one of the log, and is of the size of those in it.
pub(super) fn in_pages() -> Vec<Scene> {
    vec![
        scene(
            "lookalike-at-home",
            "create /a 0644\nchattr /a j\nwrite /a 0 4096 jbd2#1\nsync\nremount",
            "write /a 0 4096 #2\nsync\nbring-home\nwrite /a 0 4096 jbd2#3\nsync\nwrite /a 0 4096 #4\nsync\nbring-home",
        ),
        scene(
            "revokes-in-two-blocks",
            "create /x 0644\nchattr /x j\nwrite /x 0 1M #1\nwrite /x 1M 1M #2\nwrite /x 2M 900K #3\ncreate /b 0644\n\
             chattr /b j\nwrite /b 0 40000 #4",
            "unlink /x\nwrite /b 0 40000 #5\nsync\ncheckpoint\nremount\nread /b 0 4000",
        )
        .on(Kind::WideLog)
        .mount(Mount::Roomy),
    ]
}

fn others(much: &str) -> Vec<Scene> {
    // More than one checkpoint takes.
    let wide = |name, calls: &str| scene(name, log(30), calls).on(Kind::WideLog).mount(Mount::Roomy);
    vec![
        wide("wide-log-overrun", much),
        wide("wide-log-zeroing", much).mount(Mount::Zeroing),
        wide("wide-log-crowded", "create /a 0644\nidle 6\nchmod /a 0600\nsync\nidle 6"),
        wide("wide-log-left", "write /log 100 50 #91\nsync\nremount"),
        scene("little-memory", log(3), format!("write /log 0 60K #91\nsync\n{much}")),
        scene("small-transactions", "create /log 0600", lines(0..12, |n| format!("chmod /log 06{n:02o}\nsync"))),
        scene("same-block-again", "create /a 0644", "chmod /a 0600\nsync\nchmod /a 0640\nsync\nchmod /a 0644\nidle 6"),
        // So many records that a log in NVM of the smallest size goes on at its beginning.
        scene(
            "many-records",
            "create /a 0644\n".to_owned()
                + &lines(0..680, |n| format!("setxattr /a user.v {} #{}", 800 + n % 7, n + 1)),
            "setxattr /a user.v 800 #1001\nfsync /a\nsetxattr /a user.v 900 #1002\nfsync /a",
        ),
        scene("many-revokes", log(4), "truncate /log 0\nsync\nwrite /log 0 60K #92\nsync"),
        scene(
            "very-many-revokes",
            "create /log 0600\nchattr /log j\nwrite /log 0 60K #1\nwrite /log 60K 60K #2\nwrite /log 120K 60K #3\nsync",
            "unlink /log\nsync\ncreate /b 0644\nwrite /b 0 60K #4\nwrite /b 60K 60K #5\nfsync /b",
        )
        .mount(Mount::Roomy),
        scene("several-descriptors", log(0), format!("{much}\nwrite /log 10 10 #94\nsync")),
        scene(
            "flushed-by-itself",
            "create /a 0644",
            "write /a 0 70K #1\nidle 1\nwrite /a 1000 100 #2\nfsync /a\nidle 6",
        )
        .mount(Mount::Dirty),
        scene(
            "left-and-entered",
            lines(0..12, |n| format!("create /f{n} 0644\nwrite /f{n} 0 30K #{n}1\nsync")),
            lines(0..12, |n| format!("write /f{n} 100 20 #{n}2"))
                + "sync\nwrite /f0 0 20000 #98\nsync\nwrite /f0 5 5 #99\nsync",
        ),
        scene("committed-left-and-read", READ_AGAIN, "write /a 100 50 #91\nfsync /a\nwrite /b 5000 50 #92\nsync"),
        scene(
            "removed-and-made",
            "mkdir /d 0755\ncreate /d/a 0644",
            "unlink /d/a\ncreate /d/b 0600\nrmdir /d\nsync\nrename /d/b /c\nsync",
        ),
    ]
}

/// Nobody syncs for long, and then much comes: new data, and what lies over stored bytes and new ones at once.
fn unsynced() -> [Scene; 2] {
    let commits = lines(0..16, |n| format!("chmod /a 06{n:02o}\nidle 12"));
    let much = "create /b 0644\nwrite /b 0 40K #1\nwrite /b 40K 20K #2\nwrite /b 45000 100 #3\ncreate /c 0644\n\
                write /c 0 9000 #4\nidle 6";
    let calls = format!("{commits}{much}\nwrite /c 0 100 #5\nfsync /c\nunlink /b\nsync");
    let over = "create /b 0644\nchattr /b j\nwrite /b 0 60K #2\nwrite /a 0 20K #3\nwrite /a 5K 40K #4\nidle 6\n\
                write /a 30K 30K #5\nfsync /a";
    let dirty = |name, before, calls| scene(name, before, calls).mount(Mount::Dirty);
    [
        dirty("unsynced-for-long", "create /a 0644", calls),
        dirty("unsynced-for-long-over-stored", "create /a 0644\nchattr /a j\nwrite /a 0 9K #1", commits + over),
    ]
}

/// As much is removed before its commit as stays, and what stays is more than a ring that is nearly full has room for;
/// and much more than stays.
fn much_dies() -> [Scene; 2] {
    // What stays is written over, and so in the log where data is journaled: new data could go home in need.
    let files = lines(0..7, |n| format!("create /f{n} 0644\nwrite /f{n} 0 60K #1{n}"));
    let calls = lines(0..7, |n| format!("write /f{n} 0 60K #{n}1\ncreate /t 0644\nwrite /t 0 60K #{n}2\nunlink /t"));
    let comes_and_goes = lines(0..12, |n| format!("create /t 0644\nwrite /t 0 60K #{n}2\nunlink /t"));
    let little = format!("create /f 0644\nwrite /f 0 9000 #1\n{comes_and_goes}write /f 9000 9000 #3\nsync");
    [
        scene("much-lives-much-dies", files + "remount\n" + &log(13), calls + "sync").mount(Mount::Roomy),
        scene("little-lives-much-dies", log(0), little).mount(Mount::Roomy),
    ]
}

/// Checkpoints of what is committed, without what came later of the same blocks.
fn home_alone() -> Vec<Scene> {
    let before = "create /a 0644\nwrite /a 0 8192 #1\nremount";
    let scene = |name, calls: &str| scene(name, before, calls);
    vec![
        scene(
            "short-home-before-long",
            "write /a 100 100 #2\nfsync /a\nwrite /a 0 2000 #3\nwrite /a 0 2000 #4\nbring-home\nfsync /a\nbring-home",
        ),
        scene(
            "short-home-before-short",
            "write /a 100 100 #2\nfsync /a\nwrite /a 0 2000 #3\nwrite /a 10 40 #4\nbring-home\nwrite /a 50 100 #5\n\
             fsync /a\nbring-home",
        ),
        scene(
            "long-home-before-short",
            "write /a 0 4096 #2\nfsync /a\nwrite /a 100 100 #3\nwrite /a 0 3000 #4\nbring-home\nwrite /a 0 30 #5\n\
             bring-home\nsync",
        ),
        scene(
            "truncated-before-home",
            "write /a 100 100 #2\nfsync /a\ntruncate /a 50\nwrite /a 0 3000 #3\nbring-home\nwrite /a 0 4096 #4\n\
             fsync /a\nbring-home",
        ),
        scene(
            "freed-before-home",
            "write /a 100 100 #2\nfsync /a\nunlink /a\ncreate /b 0644\nwrite /b 0 8192 #3\nbring-home\n\
             write /b 10 10 #4\nfsync /b\nbring-home",
        ),
        scene(
            "names-home-before-names",
            "create /b 0644\nfsync /b\nrename /b /c\nchmod /a 0600\nbring-home\nunlink /c\nsync\nbring-home",
        ),
    ]
}

/// New data, data that is overwritten, and data that nobody journals.
fn data() -> Vec<Scene> {
    vec![
        scene(
            "overwritten-long",
            "create /a 0644\nwrite /a 0 64K #1\nwrite /a 64K 64K #2\nremount",
            "write /a 0 64K #3\nchmod /a 0600\nfsync /a",
        ),
        scene(
            "new-and-changed",
            "create /a 0644",
            "write /a 0 60K #1\nwrite /a 60K 60K #2\nwrite /a 100 100 #3\nchmod /a 0600\nfsync /a\n\
             write /a 200 100 #4\nfsync /a",
        ),
        scene(
            "new-and-changed-much",
            "create /a 0644",
            lines(0..4, |n| format!("append /a 48K #{n}1"))
                + "write /a 40K 30K #9\nchmod /a 0600\nfsync /a\nwrite /a 0 64K #8\nfsync /a",
        ),
        scene(
            "new-deleted",
            "create /a 0644",
            "write /a 0 60K #1\nwrite /a 60K 60K #2\nunlink /a\ncreate /b 0644\nwrite /b 0 64K #3\nfsync /b",
        ),
        // Much of it compresses, and one transaction fills more than a chunk.
        scene(
            "compressed-much",
            "create /a 0644\nfallocate /a 0 600K",
            lines(0..10, |n| format!("write /a {}K 60K zeros", n * 60)) + "write /a 5 5 #1\nfsync /a",
        )
        .on(Kind::WideLog)
        .mount(Mount::Roomy),
        scene(
            "flushed-by-itself-in-place",
            "create /a 0644\nwrite /a 0 64K #1\nwrite /a 64K 64K #2\nremount",
            "write /a 0 64K #3\nidle 1\nwrite /a 64K 64K #4\nidle 1\nfsync /a",
        )
        .mount(Mount::Dirty),
        scene(
            "escaped",
            "create /a 0644\nchattr /a j\ncreate /b 0644",
            "write /a 0 3072 jbd2#1\nwrite /b 0 2048 jbd2#2\nsync\nwrite /a 0 1024 jbd2#3\nfsync /a",
        ),
        // No metadata changes: the times have no parts of seconds.
        scene(
            "same-second",
            "create /a 0644\nwrite /a 0 9000 #1",
            "write /a 0 9000 #2\nfsync /a\nwrite /a 1000 3000 #3\nfdatasync /a",
        )
        .on(Kind::WholeSeconds),
        scene(
            "same-second-at-once",
            "create /a 0644\nwrite /a 0 9000 #1\nchattr /a S\nmkdir /d 0755\nchattr /d D\ncreate /d/a 0644",
            "write /a 0 3000 #2\nwrite /a 88 27 #3\ncreate /d/b 0644\nrename /d/b /d/c\nunlink /d/a",
        )
        .on(Kind::WholeSeconds),
        scene(
            "same-second-long",
            "create /a 0644\nwrite /a 0 64K #1\nwrite /a 64K 64K #2\nremount",
            "write /a 0 64K #3\nwrite /a 64K 64K #4\nsync\nwrite /a 5 5 #5\nfsync /a",
        )
        .on(Kind::WholeSeconds),
        scene(
            "empty-log",
            "create /a 0644\nwrite /a 0 9000 #1",
            "write /a 100 900 #2\nfsync /a\nremount\nunlink /a\nsync",
        )
        .remounted(),
    ]
}

/// More than the cache holds, committed.
const READ_AGAIN: &str = "create /a 0644\ncreate /b 0644\nchattr /a j\nchattr /b j\nwrite /a 0 60K #1\nsync\n\
                          write /b 0 60K #2\nwrite /b 60K 60K #3\nsync\ncreate /c 0644\nwrite /c 0 60K #4\n\
                          write /c 60K 60K #5\nsync";
