//! Random operations that get in each other's way: few names, few offsets, all of them at edges.

use crate::op::{Acl, Fallocate, File, Fill, Op, Path, Rename, SetXattr};
use crate::thresholds;
use ondol_env::Timestamp;
use ondol_volume::Caller;
use proptest::collection::{SizeRange, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use proptest::strategy::Union;
use rustix::thread::CapabilitySet;

/// Which calls a sequence may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// `open`, `close`, and calls on handles.
    pub handles: bool,
    /// `remount`.
    pub remounts: bool,
    /// `fsync`, `fdatasync`, `sync`, `idle`, `bring-home`.
    pub syncs: bool,
    /// Transactions; mounts have none.
    pub transactions: bool,
    /// `collapse` and `insert`; the kernel lets no FUSE server have them.
    pub shifts: bool,
    /// `exchange` and `exchange-ends`, which are an ioctl of their own on a mount, and `map-commit`, which is the
    /// library's.
    pub exchanges: bool,
    /// ACLs, flags, setgid bits, whiteouts, and files without a name.
    pub extended: bool,
    /// Data journaling of single files, which not even every root may ask the kernel for.
    pub journaled_files: bool,
    /// `trim`; a mount has it as an ioctl only.
    pub trims: bool,
    /// Calls that write, allocate or clear more bytes at once than this are left out.
    pub max_len: u64,
}

impl Default for Mix {
    fn default() -> Self {
        Self {
            handles: true,
            remounts: true,
            syncs: true,
            transactions: true,
            shifts: true,
            exchanges: true,
            extended: true,
            journaled_files: true,
            trims: true,
            max_len: 1 << 20,
        }
    }
}

impl Mix {
    /// What a mount by the kernel's ext4 has.
    pub fn kernel() -> Self {
        Self { transactions: false, exchanges: false, journaled_files: false, trims: false, ..Self::default() }
    }

    /// What a mount by FUSE has for this process: its server looks what the caller may do.
    pub fn mount() -> Self {
        let own = rustix::thread::capabilities(None);
        let journaled_files = own.is_ok_and(|own| own.effective.contains(CapabilitySet::SYS_RESOURCE));
        Self { shifts: false, journaled_files, ..Self::kernel() }
    }
}

/// Sequences of any calls.
pub fn ops(len: impl Into<SizeRange>) -> impl Strategy<Value = Vec<Op>> {
    ops_of(Mix::default(), len)
}

/// Sequences of the calls that `mix` allows, behind some that make a few directories and files. Every write has a fill
/// of its own.
pub fn ops_of(mix: Mix, len: impl Into<SizeRange>) -> impl Strategy<Value = Vec<Op>> {
    let first = ["mkdir /d 0755", "mkdir /e 0755", "mkdir /d/e 0700", "create /a 0644", "create /d/a 0644"];
    let first = first.map(|line| line.parse::<Op>().expect("a call")).to_vec();
    let count = 0..=first.len();
    let first = prop_oneof![3 => Just(first.clone()), 1 => subsequence(first, count)];
    (first, vec(op(mix), len)).prop_map(|(mut ops, more)| {
        ops.extend(more);
        number_fills(ops)
    })
}

/// Gives every fill that is not zeros its own number, in order.
pub fn number_fills(ops: Vec<Op>) -> Vec<Op> {
    number_fills_from(ops, 1)
}

/// As [`number_fills`], beginning with `next`.
pub fn number_fills_from(mut ops: Vec<Op>, mut next: u32) -> Vec<Op> {
    number_from(&mut next, &mut ops);
    ops
}

fn number_from(next: &mut u32, ops: &mut [Op]) {
    for op in ops {
        match op {
            Op::Write { fill, .. }
            | Op::WriteBack { fill, .. }
            | Op::Append { fill, .. }
            | Op::MapCommit { fill, .. }
            | Op::SetXattr { fill, .. }
                if fill.id != 0 =>
            {
                fill.id = *next;
                *next += 1;
            }
            Op::Transaction(steps) => number_from(next, steps),
            _ => {}
        }
    }
}

/// One call.
pub fn op(mix: Mix) -> BoxedStrategy<Op> {
    let mut choices = names(mix);
    choices.extend(contents(mix));
    choices.extend(attributes(mix));
    if mix.handles {
        choices.push((6, (0..3u8, file_path()).prop_map(|(handle, path)| Op::Open { handle, path }).boxed()));
        choices.push((3, (0..3u8).prop_map(|handle| Op::Close { handle }).boxed()));
        if mix.extended {
            let tmpfile =
                (0..3u8, dir_path(), mode()).prop_map(|(handle, dir, mode)| Op::Tmpfile { handle, dir, mode });
            choices.push((3, tmpfile.boxed()));
            let link = (0..3u8, file_path()).prop_map(|(handle, to)| Op::Link { from: File::Handle(handle), to });
            choices.push((2, link.boxed()));
        }
    }
    if mix.syncs {
        let fsync = (file(mix), any::<bool>()).prop_map(|(file, data_only)| Op::Fsync { file, data_only });
        choices.push((5, fsync.boxed()));
        choices.push((2, Just(Op::Sync).boxed()));
        choices.push((2, select(&[1u64, 6, 40][..]).prop_map(|seconds| Op::Idle { seconds }).boxed()));
        choices.push((2, Just(Op::BringHome).boxed()));
    }
    if mix.transactions {
        choices.push((10, transaction(mix)));
    }
    if mix.trims {
        choices.push((2, Just(Op::Trim).boxed()));
        // More than most volumes have, too.
        choices.push((2, select(&[1u64, 30, 400, 100_000][..]).prop_map(|pages| Op::Scratch { pages }).boxed()));
    }
    if mix.remounts {
        choices.push((2, Just(Op::Remount).boxed()));
    }
    Union::new_weighted(choices).boxed()
}

/// A few calls that can be steps: any, changes of files that are mostly there, and what programs do to replace files
/// and directories as a whole.
fn transaction(mix: Mix) -> BoxedStrategy<Op> {
    let mix = Mix { handles: false, max_len: mix.max_len.min(LONGEST_STEP), ..mix };
    let choices: Vec<Choice> = names(mix).into_iter().chain(contents(mix)).chain(attributes(mix)).collect();
    let any = vec(Union::new_weighted(choices).prop_filter("a step", Op::is_step), 2..=4);
    let write = move |path: Path| {
        (offset(), length(mix), fill()).prop_map(move |(at, len, fill)| Op::Write {
            file: path.clone().into(),
            at,
            len,
            fill,
        })
    };
    let here = select(&["/a", "/d/a"][..]).prop_map(|text| Path::new(text).expect("a path"));
    let change = here.prop_flat_map(move |path| {
        let (one, other) = (path.clone(), path.clone());
        let cut = offset().prop_map(move |size| Op::Truncate { file: one.clone().into(), size });
        let chmod = mode().prop_map(move |mode| Op::Chmod { file: other.clone().into(), mode });
        prop_oneof![4 => write(path), 2 => cut, 1 => chmod]
    });
    let new = || Path::root().join("new");
    let replace = (write(new()), file_path(), mode()).prop_map(move |(write, to, mode)| {
        vec![Op::Create { path: new(), mode }, write, Op::Rename { from: new(), to, how: Rename::Replace }]
    });
    let tree = (write(new().join("f")), dir_path(), mode()).prop_map(move |(write, to, mode)| {
        let file = Op::Create { path: new().join("f"), mode };
        vec![Op::Mkdir { path: new(), mode }, file, write, Op::Rename { from: new(), to, how: Rename::NoReplace }]
    });
    let steps = prop_oneof![2 => any, 3 => vec(change, 2..=4), 3 => replace, 2 => tree];
    steps.prop_map(Op::Transaction).boxed()
}

/// The most that one call changes, in bytes: beyond the thresholds of data, and short of what runs for long.
const LONGEST: u64 = 600_000;
/// The same for a step of a transaction: most often, four of them fit into a small journal.
const LONGEST_STEP: u64 = 150_000;
/// Where changes mostly begin, at most.
const FARTHEST: u64 = 300_000;

type Choice = (u32, BoxedStrategy<Op>);

fn one_of(pool: &[&'static str]) -> impl Strategy<Value = Path> + use<> {
    select(pool.to_vec()).prop_map(|text| Path::new(text).expect("the pool holds paths"))
}

/// Names that are mostly files.
fn file_path() -> impl Strategy<Value = Path> {
    prop_oneof![12 => one_of(&["/a", "/b", "/d/a", "/e/a", "/d/e/a"]), 1 => path()]
}

/// Names that are mostly directories.
fn dir_path() -> impl Strategy<Value = Path> {
    prop_oneof![8 => one_of(&["/d", "/e", "/d/e"]), 1 => path()]
}

/// Any name of a tree that is three levels deep, with one that is as long as a name may be and one that is too long.
pub fn path() -> impl Strategy<Value = Path> {
    let long = |c: &str, n| Path::root().join(&c.repeat(n));
    prop_oneof![
        8 => one_of(&["/a", "/b", "/c", "/d", "/e", "/d/a", "/d/b", "/d/e", "/e/a", "/e/d", "/d/e/a", "/d/e/b"]),
        1 => Just(long("n", 255)),
        1 => Just(long("m", 256)),
    ]
}

/// What calls that take an open file act on.
fn file(mix: Mix) -> BoxedStrategy<File> {
    let path = prop_oneof![6 => file_path(), 1 => dir_path()].prop_map(File::Path);
    if mix.handles { prop_oneof![7 => path, 1 => (0..3u8).prop_map(File::Handle)].boxed() } else { path.boxed() }
}

/// Two names for `link` and `rename`.
fn two_paths() -> impl Strategy<Value = (Path, Path)> {
    prop_oneof![6 => (file_path(), file_path()), 3 => (dir_path(), dir_path()), 1 => (path(), path())]
}

fn mode() -> impl Strategy<Value = u16> {
    select(&[0o644u16, 0o600, 0o755, 0o700, 0o400][..])
}

fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => select(&[0u64, 1, 511, 512, 1000, 1023, 1024, 1025, 2048, 4095, 4096, 4097, 8192, 12_288, 20_000][..]),
        2 => select(thresholds::bytes(FARTHEST)),
        1 => select(&[65_536u64, 100_000, 1 << 20, (1 << 20) + 7, 12 << 20, 1 << 32][..]),
    ]
}

fn length(mix: Mix) -> impl Strategy<Value = u64> {
    let all = [1u64, 7, 100, 512, 1000, 1024, 1025, 3000, 4096, 5000, 8192, 12_288, 20_000, 65_536, 300_000];
    let fit: Vec<u64> = all.into_iter().filter(|len| *len <= mix.max_len).collect();
    let crossing = select(thresholds::bytes(mix.max_len.min(LONGEST)));
    prop_oneof![1 => Just(0u64), 14 => select(fit), 6 => crossing]
}

fn fill() -> impl Strategy<Value = Fill> {
    prop_oneof![
        8 => Just(Fill::unique(1)),
        1 => Just(Fill { id: 1, magic: true }),
        1 => Just(Fill::ZEROS),
    ]
}

fn names(mix: Mix) -> Vec<Choice> {
    let whiteout = |replace| Rename::Whiteout { owner: Caller::default(), replace };
    let mut how = vec![Rename::Replace; 6];
    how.extend([Rename::NoReplace, Rename::NoReplace, Rename::Exchange, Rename::Exchange]);
    if mix.extended {
        how.extend([whiteout(true), whiteout(false)]);
    }
    let how = select(how);
    let mut targets = vec!["x".to_owned(), "w".repeat(900)];
    targets.extend(thresholds::targets(1000).iter().map(|&len| "y".repeat(len as usize)));
    let target = select(targets);
    vec![
        (14, (file_path(), mode()).prop_map(|(path, mode)| Op::Create { path, mode }).boxed()),
        (7, (dir_path(), mode()).prop_map(|(path, mode)| Op::Mkdir { path, mode }).boxed()),
        (1, (file_path(), mode()).prop_map(|(path, mode)| Op::Mkfifo { path, mode }).boxed()),
        (2, (file_path(), target).prop_map(|(path, target)| Op::Symlink { path, target }).boxed()),
        (5, two_paths().prop_map(|(from, to)| Op::Link { from: from.into(), to }).boxed()),
        (5, file_path().prop_map(|path| Op::Unlink { path }).boxed()),
        (2, dir_path().prop_map(|path| Op::Rmdir { path }).boxed()),
        (8, (two_paths(), how).prop_map(|((from, to), how)| Op::Rename { from, to, how }).boxed()),
    ]
}

fn contents(mix: Mix) -> Vec<Choice> {
    let how = select(
        &[
            Fallocate::Allocate,
            Fallocate::KeepSize,
            Fallocate::PunchHole,
            Fallocate::PunchHole,
            Fallocate::ZeroRange,
            Fallocate::ZeroRangeKeepSize,
        ][..],
    );
    let shift = select(&[Fallocate::CollapseRange, Fallocate::InsertRange][..]);
    // In whole blocks of 1 KiB or 4 KiB, mostly.
    let place = select(&[0u64, 0, 1024, 4096, 4096, 8192, 12_288, 1000, 65_536][..]);
    let size = select(&[4096u64, 4096, 1024, 8192, 12_288, 65_536, 0, 512][..]);
    let shift = (file(mix), shift, place, size);
    let copy = (file(mix), offset(), file(mix), offset(), length(mix));
    let write = (file(mix), offset(), length(mix), fill());
    let back = (file(mix), offset(), length(mix), fill());
    let read = ((file(mix), offset(), length(mix)), any::<bool>());
    let fallocate = (file(mix), how, offset(), length(mix));
    let mut choices = vec![
        (14, write.prop_map(|(file, at, len, fill)| Op::Write { file, at, len, fill }).boxed()),
        (5, back.prop_map(|(file, at, len, fill)| Op::WriteBack { file, at, len, fill }).boxed()),
        (6, (file(mix), length(mix), fill()).prop_map(|(file, len, fill)| Op::Append { file, len, fill }).boxed()),
        (6, (file(mix), offset()).prop_map(|(file, size)| Op::Truncate { file, size }).boxed()),
        (7, fallocate.prop_map(|(file, how, at, len)| Op::Fallocate { file, how, at, len }).boxed()),
        (4, read.prop_map(|((file, at, len), kept)| Op::Read { file, at, len, kept }).boxed()),
        (4, copy.prop_map(|(from, at, to, to_at, len)| Op::Copy { from, at, to, to_at, len }).boxed()),
    ];
    if mix.shifts {
        let shift = shift.prop_map(|(file, how, at, len)| Op::Fallocate { file, how, at, len });
        choices.push((8, shift.boxed()));
    }
    if mix.exchanges {
        let there = select(&[("/a", "/d/a"), ("/d/a", "/a"), ("/a", "/b"), ("/a", "/a")][..]);
        let there =
            there.prop_map(|(one, other)| [one, other].map(|text| File::Path(Path::new(text).expect("a path"))));
        let files = prop_oneof![5 => there, 1 => [file(mix), file(mix)]];
        let place = || select(&[0u64, 0, 0, 0, 1024, 4096, 8192, 1000][..]);
        let lens = select(&[1024u64, 4096, 4096, 8192, 12_288, 0, 1000][..]);
        let exchange = (files, place(), place(), option::weighted(0.5, lens));
        let exchange =
            exchange.prop_map(|([file, other], at, other_at, len)| Op::Exchange { file, at, other, other_at, len });
        choices.push((5, exchange.boxed()));
        choices.push((7, map_commit(mix)));
    }
    choices
}

/// A few stores, mostly in what files have: bytes, parts of blocks, whole ones, and what goes beyond one operation.
fn map_commit(mix: Mix) -> BoxedStrategy<Op> {
    let at = select(&[0u64, 0, 10, 1000, 1024, 4095, 4096, 6000, 20_000][..]);
    let lens: Vec<u64> =
        [1u64, 100, 1024, 3000, 4096, 9000, 70_000, 300_000].into_iter().filter(|len| *len <= mix.max_len).collect();
    let step = select(&[50u64, 1024, 3000, 4096, 10_000, 100_000][..]);
    let commit = (file(mix), at, select(lens), step, 0..4u64, fill());
    commit.prop_map(|(file, at, len, step, count, fill)| Op::MapCommit { file, at, len, step, count, fill }).boxed()
}

fn attributes(mix: Mix) -> Vec<Choice> {
    let name = || select(&["user.a", "user.bb", "trusted.c"][..]).prop_map(str::to_owned);
    let how = select(&[SetXattr::Any, SetXattr::Any, SetXattr::Create, SetXattr::Replace][..]);
    let mut lens = vec![0u64, 1, 20, 60, 200];
    lens.extend(thresholds::values(200));
    let len = select(lens);
    let set = (file(mix), name(), len, how);
    let owner = select(&[0u32, 7, 65_534, 100_000][..]);
    let time = |sec: i64| Timestamp { sec, nsec: 123_456_789 };
    let times = select(&[0i64, 1, 1_000_000_000, 4_000_000_000, -5][..]);
    let mut choices = if mix.extended { access(mix) } else { Vec::new() };
    choices.extend([
        (
            5,
            set.prop_map(|(file, name, len, how)| Op::SetXattr { file, name, len, fill: Fill::unique(1), how }).boxed(),
        ),
        (2, (file(mix), name()).prop_map(|(file, name)| Op::RemoveXattr { file, name }).boxed()),
        (2, (file(mix), mode()).prop_map(|(file, mode)| Op::Chmod { file, mode }).boxed()),
        (1, (file(mix), owner.clone(), owner).prop_map(|(file, uid, gid)| Op::Chown { file, uid, gid }).boxed()),
        (
            1,
            (file(mix), times)
                .prop_map(move |(file, t)| Op::Utimens { file, atime: time(t + 1), mtime: time(t) })
                .boxed(),
        ),
    ]);
    choices
}

/// ACLs, flags and setgid bits. What may not be changed is set free more often than it is made so.
fn access(mix: Mix) -> Vec<Choice> {
    let acl = |text: &str| text.parse::<Acl>().expect("an ACL");
    let acls = select(vec![
        None,
        Some(acl("u::rwx,g::r-x,o::r-x")),
        Some(acl("u::rw-,u:7:rwx,g::r--,m::rw-,o::---")),
        Some(acl("u::rwx,u:7:r--,u:100000:rwx,g::rwx,g:7:r-x,m::r-x,o::--x")),
    ]);
    let set = (file(mix), any::<bool>(), acls);
    let mut flags = vec!["-", "-", "-", "i", "a", "dA", "S", "D", "DT", "t"];
    if mix.journaled_files {
        flags.push("j");
    }
    let flags = select(flags);
    let chattr = (file(mix), flags).prop_map(|(file, text)| Op::Chattr { file, flags: text.parse().expect("flags") });
    let setgid = (prop_oneof![3 => dir_path(), 1 => file_path()], select(&[0o2775u16, 0o2755, 0o6711][..]));
    vec![
        (5, set.prop_map(|(file, default, acl)| Op::SetAcl { file, default, acl }).boxed()),
        (4, chattr.boxed()),
        (2, setgid.prop_map(|(path, mode)| Op::Chmod { file: path.into(), mode }).boxed()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Model;
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    #[test]
    fn many_calls_and_some_of_every_kind_succeed() {
        let mut runner = TestRunner::deterministic();
        let (mut done, mut failed) = (std::collections::BTreeMap::new(), 0);
        for _ in 0..300 {
            let mut model = Model::empty();
            for op in ops(100..101).new_tree(&mut runner).unwrap().current() {
                let word = op.to_string().split(' ').next().unwrap().to_owned();
                match model.apply(&op) {
                    Ok(_) => *done.entry(word).or_insert(0) += 1,
                    Err(_) => failed += 1,
                }
            }
        }
        let total: u32 = done.values().sum();
        assert!(total * 3 > failed * 2, "{total} of {} calls succeed: {done:?}", total + failed);
        assert_eq!(done.len(), 51, "{done:?}");
    }
}
