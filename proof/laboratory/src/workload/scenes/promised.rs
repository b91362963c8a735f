//! What is durable when a call returns: by `chattr +S` and `+D`, and by an fsync of one file. Every kind of call on
//! every kind of volume, since what a call changes (an inode, a block of attributes, contents alone) is another thing
//! on each.

use super::{Mount, Scene, lines, scene};
use crate::image::Kind;

/// Those whose inodes and contents change in ways of their own.
const KINDS: [Kind; 11] = [
    Kind::WholeSeconds,
    Kind::InlineData,
    Kind::Values,
    Kind::Small,
    Kind::OrphanFile,
    Kind::BlockMap,
    Kind::Clusters,
    Kind::LargeInodes,
    Kind::Linear,
    Kind::JournalDevice,
    Kind::Pool,
];

/// Files and directories with something in them. The attribute of `/a` is in its inode, in a block, or in an inode of
/// its own.
const BEFORE: &str = "mkdir /d 0755\ncreate /d/a 0644\nwrite /d/a 0 50 #1\ncreate /a 0644\nwrite /a 0 9000 #2\n\
                      setxattr /a user.v 300 #3\ncreate /b 0644\nwrite /b 0 9000 #4\ncreate /c 0644\n\
                      write /c 0 40 #5\nsetxattr /c user.v 2000 #6\n";

/// Of files.
const CONTENTS: [&str; 12] = [
    "write /a 100 27 #11",
    "write /a 0 3000 #12",
    "append /a 50 #13",
    "write /c 5 20 #14",
    "append /c 30 #15",
    "truncate /a 2000",
    "write /a 2500 5000 #16",
    "zero /a 100 500",
    "copy /b 0 /a 100 3000",
    "copy /b 100 /c 0 20",
    "truncate /c 10",
    "write /a 0 64K #17",
];

/// Of a directory.
const NAMES: [&str; 13] = [
    "create /d/n 0644",
    "mkdir /d/e 0755",
    "link /b /d/l",
    "symlink /d/s t",
    "rename /d/n /d/m",
    "rename /b /d/b",
    "rename /d/b /b",
    "unlink /d/l",
    "rmdir /d/e",
    "rename-exchange /d/m /d/a",
    "tmpfile @0 /d 0600",
    "link @0 /d/t",
    "rename-whiteout /d/m /w",
];

/// Of inodes.
const ATTRIBUTES: [&str; 10] = [
    "chmod /a 0600",
    "setxattr /a user.v 310 #21",
    "setxattr /a user.v 310 #22",
    "setxattr /c user.v 2000 #23",
    "setxattr /a user.w 20 #24",
    "removexattr /a user.v",
    "removexattr /c user.v",
    "utimens /a 5 6",
    "chown /a 7 8",
    "setacl /a u::rw-,u:7:rwx,g::r--,m::rw-,o::---",
];

pub(super) fn scenes() -> Vec<Scene> {
    KINDS.into_iter().flat_map(|kind| at_once(kind).into_iter().chain(by_file(kind))).collect()
}

/// Without any sync.
fn at_once(kind: Kind) -> Vec<Scene> {
    let with = |name, attributes: &str, calls: &[&str]| {
        scene(name, format!("{BEFORE}{attributes}"), calls.join("\n")).on(kind)
    };
    let (file, directory) = ("chattr /a S\nchattr /c S", "chattr /d S");
    vec![
        with("contents-at-once", file, &CONTENTS),
        with("journaled-contents-at-once", "chattr /a jS\nchattr /c jS", &CONTENTS),
        with("attributes-at-once", file, &ATTRIBUTES),
        with("names-at-once", "chattr /d D", &NAMES),
        with("names-of-synchronous-at-once", directory, &NAMES),
        // Where an fsync covers its file alone, what is synchronous covers all before it.
        with("contents-at-once-by-file", file, &CONTENTS).mount(Mount::File),
        with("names-at-once-by-file", "chattr /d D", &NAMES).mount(Mount::File),
    ]
}

/// An fsync of each file that was changed, which covers that one alone.
fn by_file(kind: Kind) -> Vec<Scene> {
    let with = |name, of: fn(&str) -> &'static str, calls: &[&str]| {
        let synced = lines(0..calls.len() as u64, |n| {
            let call = calls[n as usize];
            let sync = if n.is_multiple_of(2) { "fsync" } else { "fdatasync" };
            format!("{call}\n{sync} {}", of(call))
        });
        scene(name, BEFORE, synced).on(kind).mount(Mount::File)
    };
    let of_file = |call: &str| if call.contains("/c ") { "/c" } else { "/a" };
    vec![
        with("contents-by-file", of_file, &CONTENTS),
        with("attributes-by-file", of_file, &ATTRIBUTES),
        with("names-by-file", |_| "/d", &NAMES),
        left_by_file(kind),
    ]
}

/// Inodes leave memory between a change and its fsync, while somebody has them open, and while nobody has.
fn left_by_file(kind: Kind) -> Scene {
    let others = lines(0..40, |n| format!("create /f{n} 0644\nwrite /f{n} 0 20 #4{n}"));
    // What changed and leaves memory hides what is forgotten of others.
    let read = lines(0..40, |n| format!("read /f{n} 0 20"));
    let calls = ["remount\nopen @0 /a\nwrite @0 100 400 #31\n", "fsync @0\nclose @0\nchmod /a 0611\n", "fsync /a"];
    scene("left-by-file", format!("{BEFORE}{others}"), calls.join(&read)).on(kind).mount(Mount::File)
}
