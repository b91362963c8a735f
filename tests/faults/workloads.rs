//! Short workloads: what happens before the medium begins to fail, and what happens then.

/// A name, the calls before, and the calls.
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) before: &'static str,
    pub(crate) calls: &'static str,
}

const fn workload(name: &'static str, before: &'static str, calls: &'static str) -> Workload {
    Workload { name, before, calls }
}

/// All of them. No call is a sequence of atomic steps: what fails has not been done.
pub(crate) const WORKLOADS: &[Workload] = &[
    workload("create", "", "create /a 0644; fsync /a; create /b 0600; sync"),
    workload("create in directories", "mkdir /d 0755", "create /d/a 0644; mkdir /d/e 0755; create /d/e/b 0644; sync"),
    workload("mkfifo", "", "mkfifo /p 0600; sync; chmod /p 0644; sync"),
    workload(
        "symlinks",
        "",
        "symlink /s target; symlink /l aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggggggggg; sync",
    ),
    workload("link", "create /a 0644; mkdir /d 0755", "link /a /d/b; fsync /d/b; unlink /a; sync"),
    workload(
        "unlink",
        "create /a 0644; write /a 0 9000 #1",
        "unlink /a; sync; create /b 0644; write /b 0 9000 #2; sync",
    ),
    workload(
        "unlink open",
        "create /a 0644; write /a 0 3000 #1",
        "open @0 /a; unlink /a; sync; write @0 1000 4000 #2; fsync @0; close @0; sync",
    ),
    workload("rmdir", "mkdir /d 0755; mkdir /e 0755; create /d/a 0644", "unlink /d/a; rmdir /d; sync; rmdir /e; sync"),
    workload(
        "rename over",
        "create /a 0644; write /a 0 2000 #1; create /b 0600; write /b 0 3000 #2",
        "rename /a /b; fsync /b",
    ),
    workload(
        "rename a directory",
        "mkdir /d 0755; mkdir /d/x 0755; create /d/x/a 0644; mkdir /e 0755",
        "rename /d/x /e/y; sync; rmdir /d; sync",
    ),
    workload("exchange", "create /a 0644; mkdir /d 0755; mkdir /d/b 0755", "rename-exchange /a /d/b; sync"),
    workload(
        "replace by rename",
        "create /a 0644; write /a 0 4000 #1",
        "create /t 0644; write /t 0 5000 #2; fsync /t; rename /t /a; fsync /a; create /t 0644; write /t 0 100 #3; rename /t /a; sync",
    ),
    workload("write new", "create /a 0644", "write /a 0 3000 #1; fsync /a; write /a 5000 3000 #2; fdatasync /a"),
    workload(
        "overwrite",
        "create /a 0644; write /a 0 8192 #1",
        "write /a 1024 4096 #2; fsync /a; write /a 1000 3333 #3; fdatasync /a",
    ),
    workload(
        "append",
        "create /a 0644; write /a 0 1500 #1",
        "append /a 700 #2; fsync /a; append /a 700 #3; fsync /a; append /a 700 #4; fsync /a",
    ),
    workload(
        "escaped",
        "create /a 0644",
        "write /a 0 3072 jbd2#1; fsync /a; write /a 0 1024 jbd2#2; fsync /a; unlink /a; sync",
    ),
    workload(
        "truncate",
        "create /a 0644; write /a 0 20000 #1",
        "truncate /a 5000; sync; truncate /a 9000; write /a 6000 100 #2; truncate /a 0; sync",
    ),
    workload(
        "sparse",
        "create /a 0644",
        "write /a 50000 100 #1; write /a 10000 100 #2; write /a 30000 100 #3; write /a 70000 100 #4; write /a 90000 100 #5; sync; truncate /a 20000; sync",
    ),
    workload(
        "xattrs in the inode",
        "create /a 0644",
        "setxattr /a user.a 20 #1; fsync /a; setxattr /a user.a 10 #2; removexattr /a user.a; sync",
    ),
    workload(
        "xattrs in a block",
        "create /a 0644; create /b 0644",
        "setxattr /a user.a 600 #1; setxattr /b user.a 600 #2; sync; removexattr /a user.a; unlink /b; sync",
    ),
    workload(
        "attributes",
        "create /a 0644",
        "chmod /a 0600; chown /a 7 8; utimens /a 5 6; fsync /a; truncate /a 3000; sync",
    ),
    workload(
        "a transaction",
        "create /a 0644; write /a 0 100 #1",
        "transaction { create /t 0644 ; write /t 0 3000 #2 ; rename /t /a }; sync; transaction { mkdir /d 0755 ; rename /a /d/a }; sync",
    ),
    workload(
        "a transaction that is refused",
        "mkdir /d 0755",
        "transaction { create /t 0644 ; create /d 0644 }; sync; transaction { create /t 0644 ; link /t /u }; sync",
    ),
    workload(
        "checkpoints",
        "create /a 0644; write /a 0 3000 #1",
        "write /a 0 3000 #2; idle 6; create /b 0644; idle 6; unlink /a; idle 6; create /c 0644; idle 6; sync",
    ),
    workload(
        "a large directory",
        MANY_NAMES,
        "create /d/new 0644; sync; unlink /d/11111111111111111111111111111111111111111111111111111111111111111111111111111111; sync",
    ),
    workload(
        "collapse and insert",
        "create /a 0644; write /a 0 2048 #1; write /a 4096 1024 #2; write /a 6144 1024 #3; write /a 8192 1024 #4",
        "insert /a 1024 1024; sync; collapse /a 0 2048; insert /a 4096 3072; fsync /a",
    ),
    workload(
        "copy",
        "create /a 0644; write /a 0 5000 #1; create /b 0644",
        "copy /a 100 /b 0 3000; fsync /b; copy /b 0 /b 4096 3000; sync",
    ),
    workload(
        "trim",
        "create /a 0644; write /a 0 9000 #1",
        "unlink /a; trim; sync; trim; create /b 0644; write /b 0 5000 #2; sync",
    ),
    workload(
        "without a sync",
        "create /a 0644; write /a 0 5000 #1",
        "write /a 2000 2000 #2; create /b 0644; rename /b /c; unlink /a",
    ),
];

/// More names than a block holds.
const MANY_NAMES: &str = "mkdir /d 0755
    create /d/11111111111111111111111111111111111111111111111111111111111111111111111111111111 0644
    create /d/22222222222222222222222222222222222222222222222222222222222222222222222222222222 0644
    create /d/33333333333333333333333333333333333333333333333333333333333333333333333333333333 0644
    create /d/44444444444444444444444444444444444444444444444444444444444444444444444444444444 0644
    create /d/55555555555555555555555555555555555555555555555555555555555555555555555555555555 0644
    create /d/66666666666666666666666666666666666666666666666666666666666666666666666666666666 0644
    create /d/77777777777777777777777777777777777777777777777777777777777777777777777777777777 0644
    create /d/88888888888888888888888888888888888888888888888888888888888888888888888888888888 0644
    create /d/99999999999999999999999999999999999999999999999999999999999999999999999999999999 0644
    create /d/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 0644
    create /d/bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb 0644
    create /d/cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc 0644";
