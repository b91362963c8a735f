//! Several threads: checkpoints beside commits, group commits, new data that others write home, locks in each other's
//! way.

use super::{Kind, Mount, Scene, lines, log, scene};

pub(super) fn scenes() -> Vec<Scene> {
    let mut all = checkpoints();
    all.extend(commits());
    all.extend(values());
    all.extend(maps());
    all
}

/// Commits of maps, and others who change the file, or make it durable, between the map and its commit and during that.
fn maps() -> Vec<Scene> {
    let before = "create /a 0644\nwrite /a 0 20000 #1\ncreate /b 0644\nsync";
    // More than one operation takes.
    let long = "create /a 0644\n".to_owned() + &lines(0..5, |n| format!("write /a {}K 60K #{n}1", 60 * n)) + "sync";
    vec![
        scene("stores-beside-sync", before, "map-commit /a 500 1000 4000 3 #2\nmap-commit /a 0 300 5000 4 #3")
            .beside("chmod /b 0600\nsync\nchmod /b 0640\nsync"),
        scene("stores-beside-writes", before, "map-commit /a 500 1000 4000 3 #2\nmap-commit /a 300 3000 0 1 #3")
            .beside("write /a 1500 3000 #4\nfsync /a\nwrite /a 0 9000 #5\nwrite /b 0 900 #6"),
        scene("stores-beside-stores", before, "map-commit /a 0 700 2000 4 #2\nmap-commit /a 100 50 1000 2 #3")
            .beside("map-commit /a 500 700 2000 4 #4\nmap-commit /a 6000 4096 0 1 #5")
            .beside("write /a 19000 3000 #6\nsync"),
        scene("stores-beside-truncate", before, "map-commit /a 500 1000 9000 2 #2\nmap-commit /a 10 9 300 2 #3")
            .beside("truncate /a 9000\nwrite /a 9000 6000 #4\nfsync /a"),
        scene("stores-beside-unlink", before, "map-commit /a 500 1000 9000 2 #2\nmap-commit /b 0 9 0 1 #3")
            .beside("rename /b /a\nwrite /a 0 3000 #4\nsync"),
        scene("stores-exchanged-beside-writes", long.clone(), "map-commit /a 100 140K 150K 2 #6\nwrite /a 1K 700 #7")
            .beside("write /a 139K 12K #8\nfsync /a\nwrite /a 0 3000 #9"),
        scene("stores-exchanged-beside-stores", long, "map-commit /a 100 140K 150K 2 #6\ntruncate /a 200K")
            .beside("map-commit /a 50 1000 145K 2 #7\nmap-commit /a 0 290K 0 1 #8"),
    ]
}

/// Values of attributes in inodes of their own, which go with what names them, and commits at that moment.
fn values() -> Vec<Scene> {
    let before = "create /a 0644\nsetxattr /a user.v 5000 #1\nsetxattr /a user.w 3000 #2\ncreate /b 0644";
    let beside = |name, calls: &str| scene(name, before, calls).beside("sync\nsync\nsync").on(Kind::Values).alone();
    let shared = |name, before: &str, calls: &str| scene(name, before, calls).on(Kind::Foreign);
    vec![
        // Two of four are left, and then nobody.
        shared("attributes-left-by-two", "unlink /d/b\nremovexattr /a user.one", "unlink /b\nsync")
            .beside("setxattr /d user.one 9 #1\nsync"),
        shared("attributes-left-by-three", "removexattr /a user.one", "unlink /b\nsync")
            .beside("setxattr /d user.one 9 #1\nsync")
            .beside("truncate /d/b 0\nunlink /d/b\nsync"),
        beside("value-replaced-beside-commit", "setxattr /a user.v 4000 #3\nremovexattr /a user.w"),
        beside("values-deleted-beside-commit", "unlink /a\ncreate /a 0600"),
        beside("values-moved-beside-commit", "rename /b /a\nchmod /a 0600"),
    ]
}

/// A log that is crowded.
fn checkpoints() -> Vec<Scene> {
    let crowded = |name, one: &str, other: &str| {
        let before = log(9) + "create /a 0644\nmkdir /d 0755\ncreate /b 0644\nwrite /b 0 9000 #88\nsync";
        scene(name, before, one).mount(Mount::Roomy).beside(other)
    };
    // Each of these writes asks for a checkpoint.
    let much = lines(0..6, |n| format!("write /log {}K 50K #{n}9\nsync", n % 3 * 60));
    let busy = |name, other: String| {
        scene(
            name,
            log(1) + "write /log 60K 60K #2\nwrite /log 120K 60K #3\ncreate /a 0644\nmkdir /d 0755\nsync",
            much.clone(),
        )
        .beside(other)
    };
    vec![
        busy("checkpoints-beside-changes", lines(0..12, |n| format!("chmod /a 06{n:02o}\nsync"))),
        busy("checkpoints-beside-freeing", lines(0..4, |n| format!("mkdir /d/x{n} 0755\nsync\nrmdir /d/x{n}\nsync"))),
        busy(
            "checkpoints-beside-new-data",
            lines(0..4, |n| format!("create /n{n} 0644\nwrite /n{n} 0 9000 #{n}1\nfsync /n{n}\nunlink /n{n}\nsync")),
        ),
        crowded(
            "checkpoint-beside-changes",
            "chmod /a 0600\nsync\nchmod /a 0640\nsync",
            "write /log 0 5000 #91\nsync\nutimens / 1 2\nfsync /",
        ),
        crowded(
            "checkpoint-beside-freeing",
            "rmdir /d\nsync\nwrite /b 9000 2000 #92\nsync",
            "unlink /log\nsync\ncreate /e 0644\nwrite /e 0 5000 #93\nfsync /e",
        ),
        crowded(
            "checkpoint-beside-truncate",
            "truncate /log 100\nfsync /log\nwrite /log 0 9000 #94\nfsync /log",
            "create /d/n 0644\nsync\nunlink /d/n\nsync",
        ),
    ]
}

/// Commits and new data, without much in the log.
fn commits() -> Vec<Scene> {
    let new = lines(0..4, |n| format!("write /x {}K 60K #{n}1", n * 60));
    vec![
        scene(
            "group",
            "create /a 0644\ncreate /b 0644",
            "write /a 0 3000 #1\nfsync /a\nwrite /a 3000 700 #2\nfsync /a",
        )
        .beside("write /b 0 3000 #3\nfsync /b\nwrite /b 3000 700 #4\nfsync /b")
        .beside("create /c 0644\nfsync /c"),
        scene(
            "changed-beside-commit",
            "create /a 0644\nmkdir /d 0755",
            "create /d/a 0644\nsync\ncreate /d/b 0644\nsync",
        )
        .beside("create /d/c 0644\nwrite /a 0 3000 #1\nunlink /d/c\nchmod /a 0600\ntruncate /a 10"),
        scene("deleted-beside-commit", "create /a 0644", "truncate /a 700\nunlink /a\ncreate /a 0600")
            .beside("write /a 2000 900 #1\nfsync /a\nsync"),
        scene(
            "unwritten-beside-commit",
            "create /a 0644\nfallocate /a 0 9000",
            "write /a 0 9000 #1\nwrite /a 500 100 #2",
        )
        .beside("sync\nsync"),
        scene("new-data-beside-commit", "create /x 0644\ncreate /y 0644", new.clone() + "fsync /x")
            .beside("create /b 0644\nchmod /b 0600\nunlink /b\ncreate /c 0644\nchmod /c 0600\nwrite /y 0 3000 #5"),
        // Two files lie together and are a run that goes home, two in each of two places.
        scene(
            "new-data-in-pieces",
            "create /p 0644\nwrite /p 0 40K #9\ncreate /g 0644\nwrite /g 0 900 #8\nunlink /p\nsync",
            lines(0..12, |n| {
                format!("create /n{n} 0644\nwrite /n{n} 0 20K #{n}1{}", if n % 4 == 3 { "\nsync" } else { "" })
            }),
        )
        .beside(lines(0..60, |n| format!("chmod / 07{n:02o}")))
        .alone(),
        scene("new-data-of-two", "create /x 0644\ncreate /y 0644", new.clone() + "write /x 100 5000 #7\nfsync /x")
            .beside(new.replace("/x", "/y") + "fsync /y"),
        scene("new-data-deleted", "create /x 0644\ncreate /y 0644", new + "truncate /x 1000\nsync")
            .beside("sync\nwrite /y 0 40K #5\nfsync /y\nunlink /y"),
        scene(
            "crosswise",
            "create /a 0644\ncreate /b 0644\nmkdir /d 0755",
            "transaction { rename /a /d/a ; chmod /b 0600 ; write /b 0 2000 #1 }\nsync",
        )
        .beside("transaction { write /b 100 3000 #2 ; rename /b /d/b }\nwrite /a 0 1000 #3\nsync"),
        scene(
            "orphans-of-threads",
            "create /a 0644\ncreate /b 0644\nwrite /b 0 3000 #1",
            "open @0 /a\nunlink /a\nwrite @0 0 2000 #2\nclose @0\nsync",
        )
        .beside("open @1 /b\nunlink /b\nsync\nclose @1\nsync"),
        scene("orphans-of-threads-in-file", "create /a 0644\ncreate /b 0644", "open @0 /a\nunlink /a\nclose @0\nsync")
            .beside("open @1 /b\nunlink /b\nsync\nclose @1\ncreate /b 0600\nsync")
            .on(Kind::OrphanFile),
        // What both of them have to log does not fit into what is left.
        scene(
            "no-room-for-both",
            log(13) + "create /a 0644\nchattr /a j\ncreate /b 0644\nchattr /b j",
            "write /log 0 60K #91\nfsync /log\nchmod /log 0640\nsync",
        )
        .mount(Mount::Roomy)
        .beside("transaction { write /a 0 50K #92 ; write /b 0 40K #93 }\nfsync /a")
        .alone(),
        scene("no-room-together", log(14) + "create /a 0644\ncreate /b 0644", "write /log 0 60K #91\nfsync /log")
            .mount(Mount::Roomy)
            .beside("write /a 0 20000 #92\nfsync /a\nchmod /b 0600\nsync"),
    ]
}
