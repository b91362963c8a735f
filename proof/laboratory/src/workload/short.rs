//! Short workloads, for tests of what fails: few of their calls are sequences of atomic steps, of which some may be
//! done.

/// A name, the calls before, and the calls.
type Short = (&'static str, &'static str, &'static str);

/// All of them.
pub(super) const SHORT: &[Short] = &[
    ("create", "", "create /a 0644; fsync /a; create /b 0600; sync"),
    ("create in directories", "mkdir /d 0755", "create /d/a 0644; mkdir /d/e 0755; create /d/e/b 0644; sync"),
    ("mkfifo", "", "mkfifo /p 0600; sync; chmod /p 0644; sync"),
    (
        "symlinks",
        "",
        "symlink /s target; symlink /l aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggggggggg; sync",
    ),
    ("link", "create /a 0644; mkdir /d 0755", "link /a /d/b; fsync /d/b; unlink /a; sync"),
    ("unlink", "create /a 0644; write /a 0 9000 #1", "unlink /a; sync; create /b 0644; write /b 0 9000 #2; sync"),
    (
        "unlink open",
        "create /a 0644; write /a 0 3000 #1",
        "open @0 /a; unlink /a; sync; write @0 1000 4000 #2; fsync @0; close @0; sync",
    ),
    ("rmdir", "mkdir /d 0755; mkdir /e 0755; create /d/a 0644", "unlink /d/a; rmdir /d; sync; rmdir /e; sync"),
    ("rename over", "create /a 0644; write /a 0 2000 #1; create /b 0600; write /b 0 3000 #2", "rename /a /b; fsync /b"),
    (
        "rename a directory",
        "mkdir /d 0755; mkdir /d/x 0755; create /d/x/a 0644; mkdir /e 0755",
        "rename /d/x /e/y; sync; rmdir /d; sync",
    ),
    ("exchange", "create /a 0644; mkdir /d 0755; mkdir /d/b 0755", "rename-exchange /a /d/b; sync"),
    (
        "replace by rename",
        "create /a 0644; write /a 0 4000 #1",
        "create /t 0644; write /t 0 5000 #2; fsync /t; rename /t /a; fsync /a; create /t 0644; write /t 0 100 #3; \
         rename /t /a; sync",
    ),
    ("write new", "create /a 0644", "write /a 0 3000 #1; fsync /a; write /a 5000 3000 #2; fdatasync /a"),
    (
        "overwrite",
        "create /a 0644; write /a 0 8192 #1",
        "write /a 1024 4096 #2; fsync /a; write /a 1000 3333 #3; fdatasync /a",
    ),
    (
        "append",
        "create /a 0644; write /a 0 1500 #1",
        "append /a 700 #2; fsync /a; append /a 700 #3; fsync /a; append /a 700 #4; fsync /a",
    ),
    (
        "escaped",
        "create /a 0644",
        "write /a 0 3072 jbd2#1; fsync /a; write /a 0 1024 jbd2#2; fsync /a; unlink /a; sync",
    ),
    (
        "truncate",
        "create /a 0644; write /a 0 20000 #1",
        "truncate /a 5000; sync; truncate /a 9000; write /a 6000 100 #2; truncate /a 0; sync",
    ),
    (
        "sparse",
        "create /a 0644",
        "write /a 50000 100 #1; write /a 10000 100 #2; write /a 30000 100 #3; write /a 70000 100 #4; write /a 90000 \
         100 #5; sync; truncate /a 20000; sync",
    ),
    (
        "xattrs in the inode",
        "create /a 0644",
        "setxattr /a user.a 20 #1; fsync /a; setxattr /a user.a 10 #2; removexattr /a user.a; sync",
    ),
    (
        "xattrs in a block",
        "create /a 0644; create /b 0644",
        "setxattr /a user.a 600 #1; setxattr /b user.a 600 #2; sync; removexattr /a user.a; unlink /b; sync",
    ),
    ("attributes", "create /a 0644", "chmod /a 0600; chown /a 7 8; utimens /a 5 6; fsync /a; truncate /a 3000; sync"),
    (
        "a transaction",
        "create /a 0644; write /a 0 100 #1",
        "transaction { create /t 0644 ; write /t 0 3000 #2 ; rename /t /a }; sync; transaction { mkdir /d 0755 ; \
         rename /a /d/a }; sync",
    ),
    (
        "a transaction that is refused",
        "mkdir /d 0755",
        "transaction { create /t 0644 ; create /d 0644 }; sync; transaction { create /t 0644 ; link /t /u }; sync",
    ),
    (
        "checkpoints",
        "create /a 0644; write /a 0 3000 #1",
        "write /a 0 3000 #2; idle 6; create /b 0644; idle 6; unlink /a; idle 6; create /c 0644; idle 6; sync",
    ),
    (
        "a large directory",
        MANY_NAMES,
        "create /d/new 0644; sync; unlink \
         /d/11111111111111111111111111111111111111111111111111111111111111111111111111111111; sync",
    ),
    (
        "collapse and insert",
        "create /a 0644; write /a 0 2048 #1; write /a 4096 1024 #2; write /a 6144 1024 #3; write /a 8192 1024 #4",
        "insert /a 1024 1024; sync; collapse /a 0 2048; insert /a 4096 3072; fsync /a",
    ),
    (
        "copy",
        "create /a 0644; write /a 0 5000 #1; create /b 0644",
        "copy /a 100 /b 0 3000; fsync /b; copy /b 0 /b 4096 3000; sync",
    ),
    (
        "trim",
        "create /a 0644; write /a 0 9000 #1",
        "unlink /a; trim; sync; trim; create /b 0644; write /b 0 5000 #2; sync",
    ),
    (
        "without a sync",
        "create /a 0644; write /a 0 5000 #1",
        "write /a 2000 2000 #2; create /b 0644; rename /b /c; unlink /a",
    ),
    (
        "a file that grows",
        "create /a 0644",
        "append /a 3000 #1; append /a 3000 #2; append /a 3000 #3; fsync /a; append /a 9000 #4; sync",
    ),
    (
        "an extent tree that grows",
        "create /a 0644; write /a 0 100 #1; write /a 4K 100 #2; write /a 8K 100 #3; write /a 12K 100 #4",
        "write /a 16K 100 #5; write /a 20K 100 #6; sync; truncate /a 3000; sync; write /a 9K 3000 #7; sync",
    ),
    (
        "allocated ahead",
        "create /a 0644",
        "fallocate /a 0 6K; write /a 0 3000 #1; sync; punch /a 1K 2K; write /a 1K 2K #2; fallocate-keep /a 6K 4K; sync",
    ),
    (
        "freed and taken again",
        "create /a 0644; write /a 0 12000 #1; create /b 0644",
        "truncate /a 2000; write /b 0 9000 #2; sync; write /b 0 9000 #3; unlink /a; sync; append /b 5000 #4; sync",
    ),
    (
        "directories that grow",
        "mkdir /d 0755; create /a 0644",
        "link /a /d/1; mkdir /d/e 0755; symlink /d/s \
         aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggggggggg; transaction { mkdir /d/f 0755 ; \
         create /d/f/g 0644 ; write /d/f/g 0 3000 #1 }; rmdir /d/e; sync; mkdir /d/e 0755; sync",
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
