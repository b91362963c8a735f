//! Parameterised calls on a small tree: every call of the grammar, with offsets at edges, names that get in each
//! other's way, and files that are open.

/// The tree that the calls meet.
pub(super) const BEFORE: &str = "\
mkdir /d 0755
mkdir /e 0755
mkdir /d/x 0700
create /a 0644
write /a 0 5000 #1
create /b 0600
write /b 0 300 #2
create /d/c 0644
write /d/c 0 2000 #3
create /o 0644
write /o 0 3000 #4
open @0 /o
symlink /s a
setxattr /a user.x 20 #5";

/// Ways to make calls durable; the last one does not.
pub(super) const SYNCS: &[&str] = &["sync", "fsync /", "idle 6", "checkpoint"];

/// The calls.
pub(super) const CALLS: &[&str] = &[
    "create /n 0644",
    "create /d/n 0644",
    "mkdir /n 0755",
    "mkfifo /n 0600",
    "symlink /n short",
    "symlink /d/n abcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghij",
    "link /a /d/n",
    "unlink /a",
    "unlink /o",
    "unlink /s",
    "rmdir /e",
    "rename /a /n",
    "rename /a /b",
    "rename /b /d/c",
    "rename /d/x /e",
    "rename /d /e/d",
    "rename-noreplace /b /e/b",
    "rename-exchange /a /d",
    "rename-whiteout /a /n",
    "rename-whiteout /b /d/c",
    "tmpfile @1 /d 0600",
    "link @0 /d/n",
    "write /a 0 4096 #1",
    "write /a 1000 3333 #1",
    "write /a 4000 5000 #1",
    "write /b 10000 100 #1",
    "write /b 0 1024 jbd2#1",
    "write @0 1000 4000 #1",
    "append /a 700 #1",
    "append /b 20000 #1",
    "truncate /a 3333",
    "truncate /a 0",
    "truncate /b 9000",
    "truncate @0 100",
    "fallocate /b 100 9000",
    "fallocate-keep /a 4000 9000",
    "punch /a 500 3000",
    "zero /a 1024 2048",
    "zero-keep /b 0 5000",
    "collapse /a 0 4096",
    "insert /a 4096 4096",
    "insert /d/c 0 8192",
    "copy /a 1000 /b 100 3000",
    "copy /b 0 /a 8192 300",
    "exchange-ends /a 0 /b 0",
    "exchange-ends /a 4096 /d/c 0",
    "exchange-ends @0 0 /a 0",
    "map-commit /a 1000 1500 2000 2 #1",
    "map-commit @0 0 3000 0 1 #1",
    "trim",
    "scratch 50",
    "setxattr /b user.y 40 #1",
    "setxattr /a user.z 400 #1",
    "removexattr /a user.x",
    "setacl /b u::rw-,u:7:rwx,g::r--,m::rw-,o::---",
    "setacl-default /d u::rwx,u:7:r-x,g::r-x,m::r-x,o::---",
    "chattr /a S",
    "chattr /b j",
    "chattr /d D",
    "chmod /a 0600",
    "chown /d 7 8",
    "utimens /a 5 6",
    "close @0",
    "fsync /a",
    "fdatasync /b",
    "fsync /d",
    "sync",
    "transaction { create /n 0644 ; write /n 0 1500 #1 ; rename /n /a ; unlink /b }",
];
