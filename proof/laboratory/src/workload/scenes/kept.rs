//! New data that waits for its commit, in memory or at home: deleted, cut, written over, beside the commit that writes
//! it.

use super::super::scenarios::full;
use super::{Mount, Scene, lines, scene};

pub(super) fn scenes() -> Vec<Scene> {
    // All of it is written by commits, or nearly all before.
    let both = |name: [&'static str; 2], before: &str, calls: &str| {
        let [kept, early] = name;
        [scene(kept, before, calls).mount(Mount::Kept), scene(early, before, calls).mount(Mount::Early)]
    };
    let mut all = Vec::new();
    all.extend(both(
        ["kept-removed", "early-removed"],
        "create /b 0644",
        "create /a 0644\nwrite /a 0 40K #1\nunlink /a\ncreate /a 0644\nwrite /a 0 30K #2\nsync\nunlink /a\n\
         write /b 0 9000 #3\nfsync /b",
    ));
    all.extend(both(
        ["kept-cut", "early-cut"],
        "create /a 0644",
        "write /a 0 40K #1\ntruncate /a 17000\nappend /a 9000 #2\nfsync /a\ntruncate /a 5000\nappend /a 3000 #3\nsync",
    ));
    all.extend(both(
        ["kept-written-over", "early-written-over"],
        "create /a 0644",
        "write /a 0 40K #1\nwrite /a 500 3000 #2\nwrite /a 39K 4000 #3\nfsync /a\nwrite /a 100 5000 #4\nfsync /a",
    ));
    all.extend(both(
        ["kept-unseen", "early-unseen"],
        "create /a 0644\nfallocate /a 0 20K",
        "write /a 0 9000 #1\nzero /a 2048 4096\nwrite /a 3000 2000 #2\npunch /a 0 4096\nwrite /a 1000 2000 #3\n\
         fsync /a",
    ));
    all.extend(both(
        ["kept-moved", "early-moved"],
        "create /a 0644\ncreate /b 0644\nwrite /b 0 9000 #9",
        "write /a 0 20000 #1\nexchange /a 4096 /b 0 4096\nrename /a /b\nwrite /b 0 3000 #2\ncollapse /b 4096 4096\n\
         sync",
    ));
    all.extend(both(
        ["kept-full", "early-full"],
        full!(),
        "unlink /hole\nsync\nwrite /b 0 8192 #1\ntruncate /b 2048\nappend /b 1000 #2\nsync\nappend /b 4000 #3\n\
         fsync /b",
    ));
    all.extend(both(
        ["kept-journaled", "early-journaled"],
        "create /a 0644",
        "write /a 0 9000 #1\nchattr /a j\nwrite /a 1000 3000 #2\nfsync /a\nmap-commit /a 0 300 1500 2 #3\nunlink /a\n\
         sync",
    ));
    all.extend(together());
    all.extend(through());
    all.push(scene(
        "kept-where-the-log-had-data",
        full!("12K").to_owned() + "\nunlink /hole\nsync\ncreate /x 0644\nchattr /x j\nwrite /x 0 12K #7\nsync",
        "unlink /x\nsync\nwrite /b 0 12K #91\nfsync /b\nbring-home\nsync",
    ));
    all
}

/// New data that is written through is changed, freed, and written again.
fn through() -> [Scene; 2] {
    let passes = "write /a 0 40K #1\nsync\nwrite /b 0 12K #2\nfsync /b\ntruncate /a 0\nsync\nappend /b 900 #3\nsync\n";
    let again =
        "write /a 0 20K #4\nwrite /a 30K 9K #5\nchmod /b 0600\ntruncate /a 7000\nwrite /a 1000 9000 #6\nfsync /a";
    let late = lines(0..11, |n| format!("append /b 7K #{n}7\nidle 6"));
    let before = "create /a 0644\ncreate /b 0644\nsync";
    [
        scene("written-through", before, passes.to_owned() + again).mount(Mount::Through),
        scene(
            "written-through-where-nobody-syncs",
            before.to_owned() + "\n" + passes.trim_end(),
            late + "write /a 0 30K #8\nsync",
        )
        .mount(Mount::Through),
    ]
}

/// What a commit is writing is changed, freed, and written again.
fn together() -> Vec<Scene> {
    let before = "create /a 0644\ncreate /b 0644\nsync";
    let commits = "write /a 0 12K #1\nsync\nwrite /b 0 6K #2\nsync\nsync";
    let beside = |name, other: &str| scene(name, before, commits).mount(Mount::Kept).beside(other);
    vec![
        beside(
            "kept-written-over-beside-commit",
            "write /a 1000 6000 #3\nwrite /a 0 3000 #4\nfsync /a\nwrite /a 500 900 #5",
        ),
        beside("kept-cut-beside-commit", "truncate /a 3000\nwrite /a 3000 5000 #3\nfsync /a\ntruncate /a 0"),
        beside("kept-removed-beside-commit", "unlink /a\ncreate /c 0644\nwrite /c 0 9000 #3\nfsync /c"),
        beside("early-written-over-beside-commit", "write /a 1000 6000 #3\nwrite /a 0 3000 #4\nfsync /a")
            .mount(Mount::Early),
        beside("early-much-beside-commit", &lines(0..4, |n| format!("write /b {}K 4K #{n}3", 6 + 4 * n)))
            .mount(Mount::Early),
    ]
}
