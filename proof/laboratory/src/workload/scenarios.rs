//! What single calls do not show: blocks that change their owner, the journal's laps, its checkpoints, full volumes.

/// Nothing is free. Once `/hole` is gone, whoever allocates eight blocks of 1 KiB gets every block that was freed. A
/// macro, so that `concat!` takes it.
macro_rules! full {
    () => {
        full!("8K")
    };
    ($hole:literal) => {
        concat!(
            "create /b 0644\ncreate /hole 0644\nfallocate /hole 0 ",
            $hole,
            "\ncreate /full 0644\nfallocate-keep /full 0 5M\nfallocate-keep /full 5M 1M\n\
             fallocate-keep /full 6M 512K\nfallocate-keep /full 8M 256K\nfallocate-keep /full 9M 128K\n\
             fallocate-keep /full 10M 64K\nfallocate-keep /full 11M 32K\nfallocate-keep /full 12M 16K\n\
             fallocate-keep /full 13M 8K\nfallocate-keep /full 14M 4K\nfallocate-keep /full 15M 2K\n\
             fallocate-keep /full 16M 1K\nfallocate-keep /full 17M 1K"
        )
    };
}
pub(crate) use full;

const FULL: &str = full!();

/// Names, what happens before, and the calls.
pub(super) const SCENARIOS: &[(&str, &str, &str)] = &[
    ("create", "", "create /a 0644\nfsync /a"),
    ("create-in-directory", "mkdir /d 0755", "create /d/a 0644\nfsync /d/a"),
    ("mkdir", "", "mkdir /d 0755\nfsync /d"),
    ("mkfifo", "", "mkfifo /p 0600\nsync"),
    ("symlink-short", "", "symlink /s target\nsync"),
    ("symlink-long", "", LONG_SYMLINK),
    ("link", "create /a 0644\nmkdir /d 0755", "link /a /d/b\nfsync /d/b"),
    ("unlink", "create /a 0644\nwrite /a 0 5000 #1", "unlink /a\nsync"),
    ("unlink-one-of-two", "create /a 0644\nlink /a /b", "unlink /a\nfsync /b"),
    (
        "unlink-open",
        "create /a 0644\nwrite /a 0 3000 #1\nopen @0 /a",
        "unlink /a\nwrite @0 1000 4000 #2\nfsync @0\nclose @0\nsync",
    ),
    (
        "unlink-large",
        "create /a 0644\nwrite /a 0 300000 #1\npunch /a 5000 5000\npunch /a 50000 5000",
        "unlink /a\nsync",
    ),
    ("rmdir", "mkdir /d 0755", "rmdir /d\nsync"),
    ("rename", "create /a 0644\nwrite /a 0 100 #1", "rename /a /b\nfsync /b"),
    ("rename-over", "create /a 0644\nwrite /a 0 2000 #1\ncreate /b 0600\nwrite /b 0 3000 #2", "rename /a /b\nfsync /b"),
    (
        "rename-directory",
        "mkdir /d 0755\nmkdir /d/x 0755\ncreate /d/x/a 0644\nmkdir /e 0755",
        "rename /d/x /e/y\nfsync /e",
    ),
    ("rename-exchange", "create /a 0644\nmkdir /d 0755\nmkdir /d/b 0755", "rename-exchange /a /d/b\nsync"),
    (
        "replace-by-rename",
        "create /a 0644\nwrite /a 0 4000 #1",
        "create /t 0644\nwrite /t 0 5000 #2\nfsync /t\nrename /t /a\nfsync /a",
    ),
    ("write-new", "create /a 0644", "write /a 0 3000 #1\nfsync /a"),
    ("write-overwrite", "create /a 0644\nwrite /a 0 8192 #1", "write /a 1024 4096 #2\nfsync /a"),
    ("write-unaligned", "create /a 0644\nwrite /a 0 8192 #1", "write /a 1000 3333 #2\nfdatasync /a"),
    ("write-beyond-end", "create /a 0644\nwrite /a 0 100 #1", "write /a 10000 100 #2\nfsync /a"),
    ("write-twice", "create /a 0644", "write /a 0 2000 #1\nwrite /a 1000 2000 #2\nfsync /a"),
    (
        "write-much",
        "create /a 0644\ncreate /b 0644",
        "write /a 0 300000 #1\nwrite /a 70000 3000 #2\ntruncate /a 200000\nwrite /b 0 65536 #3\nunlink /a\nfsync /b",
    ),
    ("write-escaped", "create /a 0644", "write /a 0 3072 jbd2#1\nfsync /a\nwrite /a 0 1024 jbd2#2\nfsync /a"),
    ("append", "create /a 0644\nwrite /a 0 1500 #1", "append /a 1000 #2\nfsync /a"),
    (
        "append-many",
        "create /a 0644",
        "append /a 700 #1\nfsync /a\nappend /a 700 #2\nfsync /a\nappend /a 700 #3\nfsync /a",
    ),
    ("truncate-down", "create /a 0644\nwrite /a 0 20000 #1", "truncate /a 3333\nfsync /a"),
    ("truncate-to-nothing", "create /a 0644\nwrite /a 0 20000 #1", "truncate /a 0\nwrite /a 0 1000 #2\nfsync /a"),
    ("truncate-up", "create /a 0644\nwrite /a 0 1500 #1", "truncate /a 1200\ntruncate /a 9000\nfsync /a"),
    ("fallocate", "create /a 0644\nwrite /a 0 1500 #1", "fallocate /a 1000 9000\nfsync /a"),
    (
        "fallocate-keep",
        "create /a 0644\nwrite /a 0 1500 #1",
        "fallocate-keep /a 1000 9000\nappend /a 3000 #2\nfsync /a",
    ),
    ("write-into-unwritten", "create /a 0644\nfallocate /a 0 10000", "write /a 2000 3000 #1\nfsync /a"),
    ("punch", "create /a 0644\nwrite /a 0 20000 #1", "punch /a 3000 9000\nfsync /a"),
    ("zero", "create /a 0644\nwrite /a 0 20000 #1", "zero /a 3000 9000\nfsync /a"),
    (
        "collapse",
        "create /a 0644\nwrite /a 0 20000 #1",
        "collapse /a 4096 8192\nfsync /a\nwrite /a 0 9000 #2\nfsync /a",
    ),
    (
        "collapse-of-runs",
        "create /a 0644\nwrite /a 0 4096 #1\nwrite /a 8192 4096 #2\nwrite /a 16384 4096 #3\n\
         fallocate-keep /a 24576 8192\nwrite /a 40960 4096 #4\nwrite /a 49152 4096 #5",
        "collapse /a 4096 12288\ncollapse /a 8192 4096\nfsync /a",
    ),
    (
        "insert",
        "create /a 0644\nwrite /a 0 20000 #1\nfallocate-keep /a 24576 8192",
        "insert /a 8192 4096\nfsync /a\ninsert /a 0 12288\nwrite /a 4096 5000 #2\nfsync /a",
    ),
    (
        "insert-and-overwrite",
        "create /a 0644\nwrite /a 0 8192 #1",
        "insert /a 0 4096\nwrite /a 4096 3000 #2\ncollapse /a 0 4096\nwrite /a 100 500 #3\nfsync /a",
    ),
    (
        "copy",
        "create /a 0644\nwrite /a 0 9000 #1\npunch /a 4096 4096\ncreate /b 0644\nwrite /b 0 6000 #2",
        "copy /a 100 /b 3000 8900\nfsync /b\ncopy /b 0 /b 20000 7000\nfsync /b",
    ),
    (
        "trim",
        "create /a 0644\nwrite /a 0 20000 #1",
        "unlink /a\ntrim\nsync\ntrim\ncreate /b 0644\nwrite /b 0 9000 #2\nfsync /b",
    ),
    (
        "memory",
        "create /a 0644\nwrite /a 0 20000 #1\nsync",
        "write /a 0 9000 #2\nsync\nunlink /a\nscratch 200\nsync\nscratch 200\ncreate /b 0644\nwrite /b 0 9000 #2\n\
         scratch 200\nfsync /b",
    ),
    (
        "trim-what-was-metadata",
        FULL,
        "unlink /hole\nsync\nmkdir /d 0755\nsync\nrmdir /d\ntrim\nsync\ntrim\nwrite /b 0 8192 #2\nfsync /b",
    ),
    (
        "reuse-of-blocks",
        "create /a 0644\nwrite /a 0 9000 #1\ncreate /b 0644",
        "unlink /a\nsync\nwrite /b 0 9000 #2\nfsync /b",
    ),
    (
        "revoke",
        FULL,
        "unlink /hole\nsync\nmkdir /d 0755\nsync\nrmdir /d\nsync\nwrite /b 0 8192 #2\nfsync /b\nunlink /b\nsync\n\
         mkdir /d 0755\nsync",
    ),
    (
        "revoke-of-what-dies",
        FULL,
        "unlink /hole\nsync\nmkdir /d 0755\nsync\ncreate /d/a 0644\nunlink /d/a\nrmdir /d\nsync\nwrite /b 0 8192 #2\n\
         fsync /b",
    ),
    ("reuse-when-full", FULL, "write /hole 0 8192 #1\nsync\nunlink /hole\nwrite /b 0 8192 #2\nfsync /b"),
    ("setxattr", "create /a 0644", "setxattr /a user.x 20 #1\nsetxattr /a user.y 300 #2\nfsync /a"),
    (
        "removexattr",
        "create /a 0644\nsetxattr /a user.x 20 #1\nsetxattr /a user.y 300 #2",
        "removexattr /a user.y\nfsync /a",
    ),
    ("chmod-chown-utimens", "create /a 0644", "chmod /a 0600\nchown /a 7 8\nutimens /a 5 6\nfsync /a"),
    (
        "unnamed",
        "mkdir /d 0755",
        "tmpfile @0 /d 0600\nwrite @0 0 5000 #1\nlink @0 /d/a\nfsync @0\nunlink /d/a\nclose @0\nsync",
    ),
    ("unnamed-and-closed", "mkdir /d 0755", "tmpfile @0 /d 0600\nwrite @0 0 300000 #1\nsync\nclose @0\nsync"),
    (
        "default-acl",
        "mkdir /d 0755\nsetacl-default /d u::rwx,u:7:rwx,g::r-x,g:8:r--,m::rwx,o::---",
        "create /d/a 0666\nmkdir /d/b 0777\ntmpfile @0 /d/b 0640\nlink @0 /d/b/c\nrename-whiteout /d/a /d/b/a\n\
         chmod /d/b/a 0600\nsync",
    ),
    (
        "whiteout",
        "create /a 0644\nwrite /a 0 2000 #1\nmkdir /d 0755\nmkdir /d/x 0755\ncreate /d/b 0600",
        "rename-whiteout /a /d/b\nrename-whiteout /d/x /y\nrename-whiteout-noreplace /y /d/z\nunlink /a\nsync",
    ),
    (
        "synchronous",
        "create /a 0644\nchattr /a S\nmkdir /d 0755\nchattr /d D\ncreate /b 0644",
        "write /a 0 3000 #1\nwrite /b 0 3000 #2\ncreate /d/c 0644\nappend /a 100 #3\nwrite /a 0 2000 #4\n\
         rename /b /d/b\nunlink /d/c\ntruncate /a 10",
    ),
    (
        "journaled-file",
        "create /a 0644\nwrite /a 0 5000 #1\ncreate /b 0644",
        "chattr /a j\nwrite /a 1000 3000 #2\nfsync /a\nchattr /a -\nwrite /a 0 4000 #3\nfsync /a\nunlink /a\n\
         write /b 0 9000 #4\nsync",
    ),
    ("remount", "create /a 0644\nwrite /a 0 5000 #1", "write /a 100 50 #2\nremount\nwrite /a 200 50 #3\nfsync /a"),
    (
        "second-lap",
        "create /a 0644\nwrite /a 0 9000 #1",
        "append /a 900 #2\nremount\ncreate /b 0644\nfsync /b\nlink /b /c\nfsync /b",
    ),
    (
        "checkpoint",
        "create /a 0644\nwrite /a 0 2000 #1",
        "write /a 0 3000 #2\nidle 6\ncreate /b 0644\nidle 6\nunlink /a\nidle 6",
    ),
];

const LONG_SYMLINK: &str = "symlink /s \
    abcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghij\nsync";
