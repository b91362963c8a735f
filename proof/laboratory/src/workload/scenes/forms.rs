//! What only some volumes have: block maps, contents in inodes, clusters, values in inodes, large inodes, few blocks, a
//! log on a disk of its own.

use super::{Scene, lines, log, scene};
use crate::image::Kind;

pub(super) fn scenes() -> Vec<Scene> {
    [block_map(), inline_data(), clusters(), values(), elsewhere()].into_iter().flatten().collect()
}

fn block_map() -> Vec<Scene> {
    let on = |name, before: &str, calls: &str| scene(name, before, calls).on(Kind::BlockMap);
    vec![
        on(
            "pointer-block",
            "create /a 0644\nwrite /a 0 12K #1",
            "append /a 3000 #2\nfsync /a\ntruncate /a 5000\nfsync /a",
        ),
        on(
            "pointer-blocks",
            "create /a 0644\nwrite /a 267K 1000 #1",
            "append /a 3000 #2\nfsync /a\npunch /a 268K 8K\nfsync /a\nunlink /a\nsync",
        ),
        on(
            "three-levels",
            "create /a 0644",
            "write /a 70M 2000 #1\nfsync /a\nwrite /a 71M 2000 #2\nfsync /a\ntruncate /a 0\nsync",
        ),
        on("map-deleted-open", "create /a 0644\nwrite /a 0 20000 #1\nopen @0 /a", "unlink /a\nsync\nclose @0\nsync"),
        on(
            "map-directory",
            "create /t 0644\nmkdir /d 0755",
            &lines(0..8, |n| format!("link /t /d/{n}{}", "n".repeat(200))),
        )
        .remounted(),
    ]
}

fn inline_data() -> Vec<Scene> {
    let on = |name, before: &str, calls: &str| scene(name, before, calls).on(Kind::InlineData);
    vec![
        on(
            "inline-grows",
            "create /a 0644\nwrite /a 0 40 #1",
            "append /a 30 #2\nfsync /a\nappend /a 100 #3\nfsync /a\ntruncate /a 20\nfsync /a",
        ),
        on(
            "inline-cut",
            "create /a 0644\nwrite /a 0 100 #1",
            "truncate /a 30\nfsync /a\ntruncate /a 90\nfsync /a\nwrite /a 5000 10 #2\nfsync /a",
        ),
        on(
            "inline-and-attributes",
            "create /a 0644\nwrite /a 0 80 #1",
            "setxattr /a user.a 40 #2\nfsync /a\nappend /a 60 #3\nsetxattr /a user.b 300 #4\nfsync /a",
        ),
        on(
            "inline-directory",
            "mkdir /d 0755\ncreate /d/a 0644",
            &(lines(0..8, |n| format!("create /d/name{n} 0644\n")) + "fsync /d\nunlink /d/a\nsync"),
        ),
        on(
            "inline-directory-moved",
            "mkdir /d 0755\nmkdir /e 0755\nmkdir /d/x 0755",
            "rename /d/x /e/x\nfsync /e\nrmdir /d\nsync",
        ),
        on(
            "inline-journaled",
            "create /a 0644\nchattr /a j\nwrite /a 0 50 #1",
            "append /a 3000 #2\nfsync /a\ntruncate /a 40\nfsync /a",
        ),
    ]
}

/// Blocks that leave a cluster which stays, and are filled again in another place of the file before anything is
/// committed.
fn clusters() -> Vec<Scene> {
    let on = |name, calls: &str| scene(name, "create /a 0644\nwrite /a 0 12288 #1", calls).on(Kind::Clusters);
    vec![
        on("cluster-punched", "punch /a 1024 1024\ninsert /a 0 4096\nwrite /a 5120 1024 #2\nsync"),
        on("cluster-moved", "punch /a 5120 2048\ncollapse /a 0 4096\nwrite /a 1500 700 #2\nsync"),
        on("cluster-cut", "truncate /a 5000\ncollapse /a 0 4096\nappend /a 3000 #2\nsync"),
        on(
            "cluster-zeroed",
            "punch /a 2048 1024\ninsert /a 0 8192\nzero /a 10240 1024\nwrite /a 10240 10 #2\ncollapse /a 4096 4096\n\
             write /a 6200 100 #3\nsync",
        ),
        on(
            "cluster-replaced",
            "punch /a 1024 1024\ninsert /a 0 4096\ncreate /b 0644\nwrite /b 0 3000 #4\ncopy /b 0 /a 5120 1024\n\
             rename /b /a\nsync",
        ),
        on("cluster-filled", "write /a 17000 500 #2\nfsync /a\nwrite /a 18000 3000 #3\nfsync /a\nunlink /a\nsync"),
    ]
}

/// The log is on one disk, what it names on another: neither is flushed by the other's flush.
fn elsewhere() -> Vec<Scene> {
    let on = |name, before: &str, calls: &str| scene(name, before, calls).on(Kind::JournalDevice);
    vec![
        on(
            "log-elsewhere",
            "create /a 0644\nwrite /a 0 3000 #1",
            "write /a 1000 5000 #2\nfsync /a\nrename /a /b\nidle 6\nappend /b 4000 #3\nfsync /b\nunlink /b\nsync",
        ),
        on(
            "log-elsewhere-reused",
            "mkdir /d 0755\ncreate /d/a 0644\nwrite /d/a 0 9000 #1",
            "unlink /d/a\nrmdir /d\nsync\ncreate /b 0644\nwrite /b 0 30K #2\nfsync /b\nidle 6\nwrite /b 2000 3000 #3\n\
             fsync /b",
        ),
        on(
            "log-elsewhere-wraps",
            &log(14),
            "create /a 0644\nwrite /a 0 60K #15\nfsync /a\nwrite /log 0 60K #16\nsync\nwrite /log 0 60K #17\nsync",
        ),
        on(
            "log-elsewhere-emptied",
            "create /a 0644\nwrite /a 0 3000 #1",
            "remount\nwrite /a 500 3000 #2\nfsync /a\nremount\nappend /a 100 #3\nfsync /a",
        )
        .remounted(),
    ]
}

/// Values of attributes that lie in inodes: set, replaced, removed, and gone with their owners.
fn values() -> Vec<Scene> {
    let on = |name, calls: &str| scene(name, "", calls).on(Kind::Values);
    let acl = |users: u32| {
        let named: String = (1..=users).map(|uid| format!("u:{uid}:r-x,")).collect();
        format!("u::rwx,{named}g::r-x,m::rwx,o::---")
    };
    let (small, large) = (acl(200), acl(400));
    vec![
        on(
            "value-replaced",
            "create /a 0644\nsetxattr /a user.v 3000 #1\nsync\nsetxattr /a user.v 9000 #2\nsync\n\
             removexattr /a user.v\nsync",
        ),
        on(
            "value-of-directory",
            "mkdir /d 0755\nsetxattr /d user.v 2000 #1\nsetxattr /d user.s 300 #2\nsync\nsetxattr /d user.v 10 #3\n\
             sync\nrmdir /d\nsync",
        ),
        on(
            "values-and-owner",
            "create /a 0644\nsetxattr /a user.v 20000 #1\nsetxattr /a user.w 5000 #2\nsync\nunlink /a\nsync",
        ),
        on(
            "value-and-opener",
            "create /a 0644\nsetxattr /a user.v 5000 #1\nsync\nopen @1 /a\nunlink /a\nsync\nclose @1\nsync",
        ),
        on(
            "value-and-successor",
            "create /a 0644\nsetxattr /a user.v 5000 #1\ncreate /b 0644\nsync\nrename /b /a\nsync\nidle 6",
        ),
        on(
            "acl-in-inode",
            &format!(
                "create /a 0644\nsetacl /a {large}\nsync\nchmod /a 0640\nchmod /a 0600\nsync\nsetacl /a {small}\nsync"
            ),
        ),
        on(
            "acl-inherited",
            &format!(
                "mkdir /d 0755\nsetacl-default /d {small}\nsync\ncreate /d/f 0640\nmkdir /d/s 0750\nsync\n\
                 chmod /d/s 0700"
            ),
        ),
        scene(
            "attributes",
            "create /a 0644\nsetxattr /a user.v 300 #1",
            "setxattr /a user.w 200 #2\nsync\nsetxattr /a user.v 310 #3\nfsync /a\nremovexattr /a user.v\n\
             removexattr /a user.w\nfsync /a",
        ),
        scene(
            "attributes-in-inode",
            "create /a 0644",
            "setxattr /a user.a 20 #1\nsetxattr /a user.b 200 #2\nfsync /a\nremovexattr /a user.a\n\
             setxattr /a user.c 150 #3\nfsync /a",
        )
        .on(Kind::LargeInodes),
    ]
}
