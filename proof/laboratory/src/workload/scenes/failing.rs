//! Calls that fail, alone and as the last step of a transaction, and writes that find no more room on their way.

use super::{Kind, Scene, lines, scene};

pub(super) fn scenes() -> Vec<Scene> {
    let mut all = once();
    all.extend(often());
    all
}

/// What fails again and again keeps nothing of what it was promised: what comes afterwards has the room that it needs.
fn often() -> Vec<Scene> {
    let before = "create /a 0644\nwrite /a 0 9000 #1\nmkdir /d 0755\ncreate /d/x 0644";
    let then = "write /a 0 9000 #3\nfsync /a\nmkdir /e 0755\ncreate /e/b 0644\nwrite /e/b 0 60K #4\nsync";
    let often = |name, calls: &str| scene(name, before, lines(0..50, |_| calls.to_owned()) + then);
    let taken_back = |name, steps: &str| often(name, &format!("transaction {{ {steps} ; rmdir /d }}"));
    vec![
        taken_back("taken-back-often", "chmod /d 0700"),
        taken_back("taken-back-often-long", "create /n 0644 ; write /n 0 60K #2"),
        taken_back("taken-back-often-deleted", "unlink /a ; mkdir /n 0755").on(Kind::OrphanFile),
        often(
            "refused-often",
            "rmdir /d\ncreate /a 0644\nmkdir /d 0755\nrename /a /d\nrename-noreplace /a /d/x\nlink /a /d/x\nunlink /d\n\
             setxattr-replace /a user.v 10 #2\nremovexattr /a user.v\nsymlink /a t",
        ),
    ]
}

fn once() -> Vec<Scene> {
    let opened = "create /a 0644\nwrite /a 0 9000 #1\nmkdir /d 0755\ncreate /d/x 0644\nopen @0 /a";
    let fails = |name, steps: &str| {
        let calls =
            format!("transaction {{ {steps} ; rmdir /d }}\nsync\ntransaction {{ {steps} }}\nsync\nclose @0\nsync");
        scene(name, opened, calls)
    };
    let hole = "create /hole 0644\nfallocate /hole 0 300K\ncreate /full 0644\n".to_owned()
        + &lines(0..13, |n| format!("fallocate-keep /full {}M {}K", n * 8, 4096 >> n))
        + "fallocate-keep /full 300M 1K\nfallocate-keep /full 301M 1K\ncreate /b 0644\nmkdir /d 0755";
    let no_room = |name, calls: &str| scene(name, hole.clone(), format!("unlink /hole\nsync\n{calls}"));
    vec![
        fails("made-and-taken-back", "create /n 0644 ; write /n 0 3000 #2"),
        fails("deleted-and-taken-back", "unlink /a"),
        fails("replaced-and-taken-back", "create /n 0644 ; write /n 0 12000 #2 ; rename /n /a"),
        fails("overwritten-and-taken-back", "write /a 100 500 #2 ; truncate /a 4000 ; write /a 3000 9000 #3"),
        fails("directory-and-taken-back", "mkdir /n 0755 ; create /n/f 0644 ; rename /n /m ; unlink /a"),
        fails(
            "attributes-and-taken-back",
            "setxattr /a user.v 500 #2 ; chmod /a 0600 ; unlink /d/x ; create /d/y 0600",
        ),
        fails("taken-back-from-file", "unlink /a ; create /n 0644").on(Kind::OrphanFile),
        scene(
            "overwritten-late",
            "create /a 0644\nwrite /a 0 9000 #1\ncreate /b 0644\nwrite /b 0 5000 #2",
            "transaction { write /a 100 5000 #3 ; write /b 0 2000 #4 }\nsync\n\
             transaction { truncate /a 3000 ; write /a 2000 3000 #5 ; rename /a /b }\nsync",
        ),
        scene(
            "overwritten-late-long",
            "create /a 0644\nwrite /a 0 64K #1\nwrite /a 64K 64K #2\nremount",
            "transaction { write /a 0 70K #3 ; chmod /a 0600 }\nsync\ntransaction { write /a 10K 90K #4 ; rmdir /d }\n\
             sync",
        ),
        no_room(
            "write-stopped",
            "write /b 0 700000 #1\nfsync /b\nappend /b 900000 #2\nfsync /b\ntruncate /b 100\nsync",
        ),
        no_room(
            "no-room-for-parts",
            "write /b 0 280000 #1\nsync\nmkdir /d/e 0755\nsetxattr /b user.v 500 #2\n\
             symlink /s 0123456789012345678901234567890123456789012345678901234567890123456789\n\
             write /b 290000 40000 #3\nfallocate /b 400K 100K\nsync\ninsert /b 4K 8K\nunlink /b\nsync",
        ),
        no_room(
            "transaction-without-room",
            "transaction { create /n 0644 ; write /n 0 200K #1 ; create /m 0644 ; write /m 0 200K #2 }\nsync\n\
             transaction { create /n 0644 ; write /n 0 20K #3 ; unlink /b }\nsync",
        ),
        scene(
            "no-inodes",
            lines(0..130, |n| format!("create /i{n} 0644")),
            "create /n 0644\nmkdir /d 0755\ntransaction { unlink /i5 ; create /x 0644 ; create /y 0644 }\nsync\n\
             unlink /i7\ncreate /n 0600\nsync",
        ),
        scene(
            "nothing-changed",
            "create /a 0644\nmkdir /d 0755\ncreate /d/x 0644\nsync",
            "rmdir /d\ncreate /a 0600\nrename /a /d\nsync\nrename-noreplace /a /d/x\nlink /d /e\nunlink /d\nfsync /a\n\
             setxattr-replace /a user.v 10 #1\nsync\ntruncate /d 5\nremovexattr /a user.v\nsync",
        ),
        scene(
            "tried-again",
            "create /a 0644\nwrite /a 0 60K #1\ncreate /b 0644\nwrite /b 0 60K #2\nmkdir /d 0755",
            "transaction { write /a 0 20000 #3 ; write /b 0 20000 #4 ; unlink /b ; truncate /a 100 ; create /d/x 0644 \
             ; write /d/x 0 20000 #5 }\nsync",
        ),
        // More blocks than such steps usually take.
        scene(
            "more-space",
            "create /a 0644\nfallocate /a 0 10M\nfallocate /a 10M 8M\ncreate /b 0644",
            "transaction { truncate /a 0 ; chmod /b 0600 }\nsync\ntransaction { unlink /a ; chmod /b 0640 }\nsync",
        )
        .on(Kind::ManyGroups),
    ]
}
