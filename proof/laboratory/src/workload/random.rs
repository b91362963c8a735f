//! Random sequences: equal seeds give equal ones.

use super::collisions::Names;
use super::{Mount, Others, Schedules, Workload, parse};
use crate::image::Kind;
use ondol_env::{Env, Fixed, Timestamp};
use ondol_testkit::op::Op;
use ondol_testkit::strategy::{self, Mix, number_fills_from};
use ondol_testkit::threads;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Calls before the recording.
const BEFORE: usize = 10;

/// Sequence after sequence, without end.
pub fn random(seed: u64) -> impl Iterator<Item = Workload> + Send {
    (0..).map(move |n| {
        let mut ops = sequence(seed, n);
        let mut calls = ops.split_off(ops.len().min(BEFORE));
        if n % 4 == 3 {
            calls.extend(in_few_blocks(seed ^ n.rotate_left(16)));
        }
        let image = Kind::in_turn(n);
        if n % 16 == 5 {
            ops.truncate(BEFORE / 2);
            calls = Names::of(image).calls(seed ^ n.rotate_left(16));
        }
        let (name, mount) = (format!("random {seed}/{n}"), Mount::in_turn(n / 3));
        Workload { name, image, mount, before: ops, remount: false, calls, others: None }
    })
}

/// Sequences on volumes that have little left, without end: calls find no space in their midst, and what is freed is
/// taken at once.
pub fn scarce(seed: u64) -> impl Iterator<Item = Workload> + Send {
    random(seed ^ 0x5CA4_CE00).zip(0u64..).map(move |(mut workload, n)| {
        let of_this = seed.rotate_left(32) ^ n;
        if n % 2 == 1 {
            workload.before = parse("create /b 0644");
            workload.calls = number_fills_from(parse(&generations(of_this)), REWRITES);
        }
        let left = if n % 2 == 1 { 1 + n / 2 % 12 } else { 1 + n * 7 % 48 };
        workload.before.extend(parse(&all_but(left)));
        // An allocation that found no space is taken back, which is no call of its own.
        workload.calls.retain(|op| !matches!(op, Op::Fallocate { .. }));
        workload.name = format!("little space {seed}/{n}");
        workload
    })
}

/// Takes all space but so many KiB.
fn all_but(left: u64) -> String {
    let sizes = ["8M", "4M", "2M", "1M", "512K", "256K", "128K", "64K", "32K", "16K", "8K", "4K", "2K", "1K", "1K"];
    let takes = sizes.iter().enumerate().map(|(i, size)| format!("fallocate-keep /full {}M {size}\n", 16 * i));
    let hole = format!("create /left 0644\nfallocate /left 0 {left}K\ncreate /full 0644\n");
    hole + &takes.collect::<String>() + "unlink /left\nsync"
}

/// Blocks go from owner to owner: each is made, changed and given back, and what was given back is taken by something
/// of another kind, with commits and checkpoints between any two of these.
fn generations(seed: u64) -> String {
    let random = Fixed::new(Timestamp::default(), seed);
    let below = |n: usize| random.random_u32() as usize % n;
    let between = || ["", "", "sync\n", "sync\n", "sync\nbring-home\n", "idle 6\n"][below(6)];
    let one = |n| {
        let path = format!("/o{n}");
        let [make, change, free] = OWNERS[below(OWNERS.len())].map(|calls| calls.replace('P', &path) + "\n");
        let (taker, left) = TAKERS[below(TAKERS.len())];
        let left = if below(3) > 0 { left } else { "" };
        let steps = [&make, between(), &change, between(), &free, between(), taker, "\n", between(), left, "\n"];
        steps.concat() + between()
    };
    (0..2 + below(3)).map(one).collect::<String>() + "sync"
}

/// Interleavings of each program of threads.
const SCHEDULES: u32 = 40;

/// Two or three threads after others, short programs and longer ones, without end. In one of eight, blocks change their
/// owners beside each other, in one files lose their names, and in two all make something durable.
pub fn threads(seed: u64) -> impl Iterator<Item = Workload> + Send {
    (0..).map(move |n: u64| {
        let of_this = seed.rotate_left(32) ^ n;
        match n % 8 {
            5 => return hands_on(format!("threads {seed}/{n}"), of_this, n / 8),
            1 | 6 => return syncs(format!("threads {seed}/{n}"), of_this, n / 8),
            3 => return nameless(format!("threads {seed}/{n}"), of_this, n / 8),
            _ => {}
        }
        let count = 2 + n as usize % 2;
        // A mistake that takes two calls is seen in few interleavings of ten.
        let calls = [1, 2, 4, 6][(n / 2 % 4) as usize];
        let mut calls = threads::random::random_calls(of_this, count, calls);
        if (n / 8).is_multiple_of(2) {
            calls[0].push(Op::Sync);
        }
        let (mut before, mut mount) = (threads::random::before(), Mount::in_turn(n / 3));
        if n % 16 == 4 {
            mount = Mount::Lap;
            before.extend(parse(&full_log("/d/c", of_this)));
        }
        Workload {
            name: format!("threads {seed}/{n}"),
            image: Kind::in_turn(n),
            mount,
            before,
            remount: false,
            calls: Vec::new(),
            others: None,
        }
        .of_threads(calls, of_this, (!n.is_multiple_of(4)).then_some(2))
    })
}

impl Workload {
    /// With the calls of each thread, in interleavings of this seed.
    fn of_threads(self, mut calls: Vec<Vec<Op>>, seed: u64, background: Option<u64>) -> Self {
        let schedules = Schedules::Search { seed, count: SCHEDULES };
        Self { calls: calls.remove(0), others: Some(Others { calls, schedules, background, lead: 0 }), ..self }
    }
}

/// Two or three threads for a medium that fails, without end: each makes, changes and removes files in a directory of
/// its own, and writes no byte twice.
pub fn apart(seed: u64) -> impl Iterator<Item = Workload> + Send {
    (0..).map(move |n: u64| {
        let random = Fixed::new(Timestamp::default(), seed.rotate_left(32) ^ n ^ 0xFA11);
        let below = |n: usize| random.random_u32() as usize % n;
        let count = 2 + below(2);
        let before =
            |at| format!("mkdir /{at} 0755\ncreate /{at}/a 0644\nwrite /{at}/a 0 2000 #1\nmkdir /{at}/d 0755\n");
        let calls = |at: usize| {
            let call = |step: usize| {
                let calls = [
                    format!("create /{at}/f{step} 0644\nwrite /{at}/f{step} 0 3000 #1\nfsync /{at}/f{step}"),
                    format!("write /{at}/a {}K 3K #1\nfdatasync /{at}/a", 4 * (step + 1)),
                    format!("setxattr /{at}/a user.v 300 #1\nfsync /{at}/a"),
                    format!("mkdir /{at}/d{step} 0755\nsync"),
                    format!("rename /{at}/a /{at}/d/a\nrename /{at}/d/a /{at}/a\nfsync /{at}/d"),
                    format!("create /{at}/g 0644\nwrite /{at}/g 0 5000 #1\nunlink /{at}/g"),
                    "sync".to_owned(),
                    "bring-home".to_owned(),
                ];
                calls[below(calls.len())].clone()
            };
            number_fills_from(parse(&(0..3 + below(4)).map(call).collect::<Vec<_>>().join("\n")), 100 * at as u32 + 10)
        };
        Workload {
            name: format!("apart {seed}/{n}"),
            image: Kind::in_turn(n),
            mount: Mount::in_turn(n / 3),
            before: number_fills_from(parse(&(0..count).map(before).collect::<String>()), 1),
            remount: false,
            calls: Vec::new(),
            others: None,
        }
        .of_threads((0..count).map(calls).collect(), seed ^ n, (!n.is_multiple_of(3)).then_some(6))
    })
}

/// Overwrites in place, and syncs that have nothing else to make durable, for a medium that fails. Without end.
pub fn in_place(seed: u64) -> impl Iterator<Item = Workload> + Send {
    (0..).map(move |n: u64| {
        let random = Fixed::new(Timestamp::default(), seed.rotate_left(32) ^ n ^ 0x1A);
        let below = |n: u64| u64::from(random.random_u32()) % n;
        let mount = if n % 5 == 4 { Mount::File } else { Mount::in_turn(n / 3) };
        // With `fsync=file` bytes in place are durable without calls before them on other files, which no number tells.
        let files = if mount == Mount::File { 1 } else { 2 };
        let one = |step: u64| {
            let (file, at, len) = (below(files), below(8) * 1024, 1 + below(8000));
            let change = match below(6) {
                0 => format!("write /{file} {at} {len} #{}", step + 10),
                _ => format!("write-back /{file} {at} {len} #{}", step + 10),
            };
            let then = ["fdatasync", "fdatasync", "fsync", "fsync", "read"][below(5) as usize];
            let then = if then == "read" { format!("read /{file} 0 20000") } else { format!("{then} /{file}") };
            format!("{change}\n{then}\n")
        };
        Workload {
            name: format!("in place {seed}/{n}"),
            image: Kind::in_turn(n),
            mount,
            before: parse("create /0 0644\nwrite /0 0 20000 #1\ncreate /1 0644\nwrite /1 0 20000 #2"),
            remount: false,
            calls: parse(&(0..2 + below(4)).map(one).collect::<String>()),
            others: None,
        }
    })
}

/// Changes, and between them reads of more than a small cache holds, for a medium that fails: what could not be made
/// durable is not at home when it is asked for again. Without end.
pub fn evicted(seed: u64) -> impl Iterator<Item = Workload> + Send {
    (0..).map(move |n: u64| {
        let random = Fixed::new(Timestamp::default(), seed.rotate_left(32) ^ n ^ 0xE1C7);
        let below = |n: u64| u64::from(random.random_u32()) % n;
        let one = |step: u64| {
            let change = match below(6) {
                0 => format!("setxattr /d/{} user.v 300 #{}", below(6), step + 10),
                1 => format!("create /d/n{step} 0644"),
                2 => format!("unlink /d/{}", below(6)),
                3 => format!("rename /d/{} /d/m{step}", below(6)),
                _ => format!("write /d/{} {} {} #{}", below(6), below(8) * 1024, 1 + below(12_000), step + 10),
            };
            let sync = ["sync", "fsync /d", "bring-home", "idle 6", "chmod /d 0700"][below(5) as usize];
            format!("{change}\n{sync}\nread /much 0 300K\n")
        };
        let files: String = (0..6).map(|n| format!("create /d/{n} 0644\nwrite /d/{n} 0 5000 #{}\n", n + 1)).collect();
        Workload {
            name: format!("evicted {seed}/{n}"),
            image: Kind::in_turn(n),
            mount: if below(4) == 0 { Mount::Tight } else { Mount::Dirty },
            before: parse(&("mkdir /d 0755\ncreate /much 0644\nwrite /much 0 300K #9\n".to_owned() + &files)),
            remount: false,
            calls: parse(&(0..3 + below(4)).map(one).collect::<String>()),
            others: None,
        }
    })
}

/// A block of metadata each, or some: how it is made at a path, changed, and given back.
const OWNERS: [[&str; 3]; 8] = [
    ["mkdir P 0755", "create P/x 0644\nunlink P/x", "rmdir P"],
    ["create P 0644\nsetxattr P user.x 600 #1", "setxattr P user.x 500 #2", "removexattr P user.x"],
    ["create P 0644\nsetxattr P user.x 700 #3", "setxattr P user.x 600 #4", "unlink P"],
    ["create P 0644\nchattr P j\nwrite P 0 1000 #5", "write P 10 90 #6", "truncate P 0"],
    ["create P 0644\nchattr P j\nwrite P 0 3000 #7", "punch P 1K 1K", "unlink P"],
    [
        "create P 0644\nwrite P 0 700 #8\nwrite P 5K 700 #9\nwrite P 10K 700 #10\nwrite P 15K 700 #11\n\
         write P 20K 700 #12",
        "punch P 5K 4K",
        "truncate P 1000",
    ],
    ["symlink P aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggggggggg", "utimens P 5 6", "unlink P"],
    ["create P 0644\nsetxattr P user.v 1500 #13", "setxattr P user.v 1400 #14", "setxattr P user.v 20 #15"],
];

/// The first so many owners and takers also meet each other on several threads: more would make each pair rare there.
const BESIDE: usize = 4;

/// What takes a block that is free, and gives it back.
const TAKERS: [(&str, &str); 6] = [
    ("write /b 0 1K #90", "truncate /b 0"),
    ("mkdir /n 0755\ncreate /n/x 0644", "unlink /n/x\nrmdir /n"),
    ("setxattr /b user.x 600 #91", "removexattr /b user.x"),
    ("write /b 0 3000 #92", "truncate /b 1000"),
    ("chattr /b j\nwrite /b 1K 2000 #93", "truncate /b 0\nchattr /b -"),
    ("create /c 0644\nwrite /c 0 12K #94\nfsync /c", "unlink /c"),
];

/// What [`threads()`] has of programs in which blocks are handed on, without end.
pub fn handed_on(seed: u64) -> impl Iterator<Item = Workload> + Send {
    (0..).map(move |n: u64| hands_on(format!("handed on {seed}/{n}"), seed.rotate_left(32) ^ n, n))
}

/// Two threads give back blocks of metadata, of which the log has changes, and one of them hands its block on, while
/// checkpoints bring home what is older.
fn hands_on(name: String, seed: u64, n: u64) -> Workload {
    let random = Fixed::new(Timestamp::default(), seed);
    let below = |n: usize| random.random_u32() as usize % n;
    // In directories of their own, so that neither waits for the other's lock.
    let owners = ["/p/o", "/q/o"].map(|path| OWNERS[below(BESIDE)].map(|calls| calls.replace('P', path)));
    let [[make, change, free], [make_other, change_other, free_other]] = owners;
    let first = "create /b 0644\ncreate /f 0644\nmkdir /p 0755\nmkdir /q 0755";
    // As much as a checkpoint takes, and more: what is freed is freed behind it.
    let much: String = (0..40).map(|n| format!("setxattr /f user.x 600 #{}\n", REWRITES + n)).collect();
    let before = [first, &make, &make_other, &change, &change_other, &much].join("\n");
    let one = [&free, ["sync", "sync\nbring-home", "idle 6", "fsync /f"][below(4)]].join("\n");
    let ends = ["idle 6", "sync", "bring-home", "fsync /b"][below(4)];
    let other = [&free_other, ["sync", "idle 6"][below(2)], TAKERS[below(BESIDE)].0, ends].join("\n");
    Workload {
        name,
        image: Kind::USUAL[n as usize % 3],
        mount: [Mount::Dirty, Mount::Tight][n as usize / 3 % 2],
        before: parse(&before),
        remount: false,
        calls: Vec::new(),
        others: None,
    }
    .of_threads(vec![parse(&one), parse(&other)], seed, (n % 4 == 3).then_some(2))
}

/// Commits that fill a log in NVM nearly: as soon as it is full, each checkpoint takes an eighth of it. So many more
/// by the seed.
pub(super) fn full_log(path: &str, seed: u64) -> String {
    let one = |n: u64| {
        let commit = if n.is_multiple_of(20) { "sync\n" } else { "" };
        format!("setxattr {path} user.x {} #{}\n{commit}", 900 + n % 2, u64::from(REWRITES) + n)
    };
    (0..580 + seed % 40).map(one).collect()
}

/// Two or three threads that each change a file and make it durable, while the others are at the same: what one of
/// them is told holds by its own flush, fence or commit, or by another's that began late enough.
fn syncs(name: String, seed: u64, n: u64) -> Workload {
    let random = Fixed::new(Timestamp::default(), seed);
    let below = |n: u64| u64::from(random.random_u32()) % n;
    let count = 2 + below(2);
    let longest = [600, 600, 3000, 3000, 5000, 60_000][below(6) as usize];
    // Every second one changes stored bytes and no times, and so in place where it may. In some, ranges change places
    // meanwhile.
    let (is_plain, exchanges) = (below(2) == 0, below(3) == 0);
    let sizes = if is_plain || exchanges { [9000; 3] } else { [1000, 9000, longest] };
    let creates: String = (0..count).map(|at| format!("create /{at} 0644\n")).collect();
    let writes = |at: u64| format!("write /{at} 0 {} #{}\n", sizes[below(3) as usize], at + 1);
    let before = creates + &(0..count).map(writes).collect::<String>();
    let is_one = below(3) == 0;
    let change = |at: u64, fill: u64| match below(13) {
        _ if exchanges && below(2) == 0 => {
            ["exchange @0 0 @1 0 4096", "exchange @0 4096 @1 0 4096", "exchange-ends @0 0 @1 0"][below(3) as usize]
                .to_owned()
        }
        _ if is_plain || exchanges => format!("write-back /{at} {} {} #{fill}", below(5) * 1024, 1 + below(4000)),
        0..7 => format!("write /{at} {} {} #{fill}", below(3) * 1024, 1 + below(longest)),
        7 => format!("write /{at} 0 {longest} #{fill}"),
        8 => format!("setxattr /{at} user.x {} #{fill}", 1 + below(600)),
        9 => format!("create /{at}n 0644"),
        12 => format!("mkdir /{at}d{fill} 0755"),
        10 => format!("truncate /{at} {}", below(3) * 700),
        _ => format!("read /{at} 0 {longest}"),
    };
    let durable = |at: u64| match below(8) {
        0..3 => format!("fdatasync /{at}"),
        3..5 => format!("fsync /{at}"),
        5 => "sync".to_owned(),
        _ => "bring-home".to_owned(),
    };
    let calls = |at: u64| {
        // Now and then it is another's file, and in some programs the same for all.
        let file = match below(4) {
            _ if is_one => 0,
            0 => (at + 1) % count,
            _ => at,
        };
        let line = |n: u64| {
            // What is new by then may be on its way home when the next change comes.
            let first = if below(3) == 0 { change(file, 100 * at + 50 + n) + "\n" } else { String::new() };
            first + &change(file, 100 * at + 10 + n) + "\n" + &durable(file)
        };
        let lines = (0..1 + below(2)).map(line);
        let opens = if exchanges { "open @0 /0\nopen @1 /1\n" } else { "" };
        parse(&(opens.to_owned() + &lines.collect::<Vec<_>>().join("\n")))
    };
    let images = [Kind::WholeSeconds, Kind::Pool, Kind::Small, Kind::OrphanFile, Kind::WholeSeconds, Kind::Pages];
    Workload {
        name,
        image: images[n as usize % images.len()],
        mount: [Mount::Tight, Mount::Dirty, Mount::Early, Mount::in_turn(2 * n + 1)][n as usize / 2 % 4],
        before: parse(&before),
        remount: false,
        calls: Vec::new(),
        others: None,
    }
    .of_threads((0..count).map(calls).collect(), seed, (n % 4 >= 2).then_some(2))
}

/// Two or three threads whose files lose their names, get some, and are closed beside each other, and which make
/// directories.
fn nameless(name: String, seed: u64, n: u64) -> Workload {
    let random = Fixed::new(Timestamp::default(), seed);
    let below = |n: u64| u64::from(random.random_u32()) % n;
    let count = 2 + below(2);
    let before: String = (0..2 * count)
        .map(|at| format!("create /{at} 0644\nwrite /{at} 0 {} #{}\n", 1 + below(9000), at + 1))
        .collect();
    let life = |file: u64, fill: u64| match below(8) {
        6 => format!("mkdir /d{file} 0755\n"),
        7 => format!("mkdir /d{file} 0755\nrmdir /d{file}\n"),
        0..3 => format!("open @0 /{file}\nunlink /{file}\n{}close @0\n", ["", "sync\n"][below(2) as usize]),
        3 => format!("open @0 /{file}\nunlink /{file}\ntruncate @0 100\nclose @0\n"),
        4 => format!("tmpfile @1 / 0600\nwrite @1 0 3000 #{fill}\nclose @1\n"),
        _ => format!("tmpfile @1 / 0600\nlink @1 /n{file}\nunlink /{file}\n"),
    };
    let calls = |at: u64| {
        let ends = ["sync\n", "sync\n", "bring-home\n", ""][below(4) as usize];
        let lines = (0..1 + below(2)).map(|n| life(2 * at + n, 100 * at + 10 + n));
        parse(&(lines.collect::<String>() + ends))
    };
    let images = [Kind::OrphanFile, Kind::Pages, Kind::Small, Kind::Foreign];
    Workload {
        name,
        image: images[n as usize % images.len()],
        mount: Mount::in_turn(n),
        before: parse(&before),
        remount: false,
        calls: Vec::new(),
        others: None,
    }
    .of_threads((0..count).map(calls).collect(), seed, None)
}

/// Numbers of the fills of what is rewritten begin here.
const REWRITES: u32 = 3000;

/// Calls on a few blocks of one file or two, which are what calls before have left of them: at home, new in the running
/// transaction, in the log, on their way, preallocated, or nowhere. Volume after volume, without end.
pub fn few_blocks(seed: u64) -> impl Iterator<Item = Workload> + Send {
    (0..).map(move |n| {
        let image = Kind::in_turn(n);
        let mut before = in_few_blocks(seed ^ n.rotate_left(16));
        let calls = before.split_off(before.len() / 3);
        let (name, mount) = (format!("few blocks {seed}/{n}"), Mount::in_turn(n / 3));
        Workload { name, image, mount, before, remount: n % 5 == 4, calls, others: None }
    })
}

/// The calls of [`few_blocks`], by seed.
pub(super) fn in_few_blocks(seed: u64) -> Vec<Op> {
    let random = Fixed::new(Timestamp::default(), seed);
    let below = |n: u64| u64::from(random.random_u32()) % n;
    let (block, blocks) = ([1024, 1024, 1024, 4096, 4096, 40 << 10][below(6) as usize], 1 + below(6));
    // Most begin and end where blocks do.
    let part = || if below(3) == 0 { below(block) } else { 0 };
    let line = |_| {
        let file = ["/a", "/a", "/a", "/b"][below(4) as usize];
        let (at, len) = (below(blocks) * block + part(), ((1 + below(3)) * block).saturating_sub(part()).max(1));
        let whole = (below(blocks) * block, (1 + below(3)) * block);
        match below(32) {
            0..5 => format!("write {file} {at} {len} #1"),
            5..8 => format!("write-back {file} {at} {len} #1"),
            8 => format!("append {file} {len} #1"),
            9 => format!("zero {file} {at} {len}"),
            10 => format!("punch {file} {at} {len}"),
            11 => format!("fallocate {file} {at} {len}"),
            12 => format!("fallocate-keep {file} {at} {len}"),
            13 => format!("truncate {file} {at}"),
            14..17 => format!("fsync {file}"),
            17 => format!("fdatasync {file}"),
            18 => "sync".to_owned(),
            19..22 => "bring-home".to_owned(),
            22 => format!("chattr {file} {}", ["j", "-"][below(2) as usize]),
            23 => format!("exchange /a {} /b {} {}", whole.0, below(blocks) * block, whole.1),
            24 => format!("copy /a {at} /b {} {len}", below(blocks) * block),
            25 => format!("map-commit {file} {at} {} {block} {} #1", 1 + below(block), 1 + below(3)),
            26 => format!("{} {file} {} {}", ["collapse", "insert"][below(2) as usize], whole.0, whole.1),
            27 => format!("view {file} 0 {}", blocks * block),
            28 => format!("transaction {{ write {file} {at} {len} #1 ; write /b {} {block} #1 }}", whole.0),
            29 => "idle 6".to_owned(),
            30 => format!("unlink {file}\ncreate {file} 0644"),
            _ => "rename /b /a\ncreate /b 0644".to_owned(),
        }
    };
    let lines: Vec<String> = (0..8 + below(16)).map(line).collect();
    number_fills_from(parse(&format!("create /a 0644\ncreate /b 0644\n{}", lines.join("\n"))), REWRITES)
}

pub(super) fn sequence(seed: u64, n: u64) -> Vec<Op> {
    let bytes: Vec<u8> = [seed, n, seed, n].iter().flat_map(|word| word.to_le_bytes()).collect();
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mix = Mix { max_len: 20_000, ..Mix::default() };
    // Only a filter that refuses everything makes this fail, and there is none.
    strategy::ops_of(mix, 5..40).new_tree(&mut runner).map_or_else(|_| Vec::new(), |tree| tree.current())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondol_testkit::model::Model;

    #[test]
    fn most_calls_on_few_blocks_succeed_and_each_seed_has_its_own() {
        let (mut kinds, mut done, mut all) = (std::collections::BTreeSet::new(), 0, 0);
        for seed in 0..20 {
            let mut model = Model::empty();
            for op in in_few_blocks(seed) {
                (done, all) = (done + usize::from(model.apply(&op).is_ok()), all + 1);
            }
            kinds.insert(in_few_blocks(seed).iter().map(Op::to_string).collect::<Vec<_>>());
        }
        assert!(kinds.len() > 15 && done * 4 > all * 3, "{} kinds, {done} of {all}", kinds.len());
        let tail = |seed| random(seed).nth(3).map(|workload| workload.calls.last_chunk::<5>().cloned());
        assert_ne!(tail(1), tail(999));
    }
}
