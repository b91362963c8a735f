//! Calls of the test grammar, from bytes: few names and offsets, all of them at edges.

use crate::input::Input;
use ondol_env::Timestamp;
use ondol_testkit::op::{Fallocate, File, Fill, Op, Path, Rename, SetXattr};
use ondol_volume::Caller;

const PATHS: [&str; 20] = [
    "/a", "/b", "/c", "/d", "/d/a", "/d/b", "/d/sub", "/d/sub/x", "/d/one", "/file", "/frag", "/pre", "/sparse",
    "/attrs", "/big", "/flat", "/flat/a", "/slow", "/fast", "/tiny",
];

const EDGES: [u64; 20] = [
    0,
    1,
    511,
    512,
    1000,
    1023,
    1024,
    1025,
    2048,
    4095,
    4096,
    4097,
    8192,
    12_288,
    20_000,
    65_536,
    100_000,
    1 << 20,
    12 << 20,
    1 << 32,
];

const ACLS: [Option<&str>; 3] = [
    None,
    Some("u::rw-,u:7:rwx,g::r--,m::rw-,o::---"),
    Some("u::rwx,u:7:r--,u:100000:rwx,g::rwx,g:7:r-x,m::r-x,o::--x"),
];

/// Without `i`: as in the kernel, an immutable directory with an index refuses to become it again, which the model does
/// not know.
const FLAGS: [&str; 9] = ["-", "-", "-", "a", "dA", "S", "DT", "t", "j"];

const LENGTHS: [u64; 14] = [0, 1, 7, 100, 512, 1024, 1025, 3000, 4096, 5000, 8192, 12_288, 20_000, 65_536];

fn path(input: &mut Input<'_>) -> Path {
    let text = match input.u8() {
        n @ 0..=199 => PATHS[usize::from(n) % PATHS.len()].to_owned(),
        n @ 200..=229 => format!("/big/name {:04} {}", n - 200, "n".repeat(60 - usize::from(n - 200) % 50)),
        n @ 230..=249 => format!("/flat/{}", "l".repeat(usize::from(n) + 6)),
        n => format!("/{n}"),
    };
    Path::new(&text).unwrap_or_else(|_| Path::root())
}

fn file(input: &mut Input<'_>) -> File {
    if input.one_in(8) { File::Handle(input.u8() % 3) } else { File::Path(path(input)) }
}

fn fill(input: &mut Input<'_>) -> Fill {
    match input.u8() {
        0 => Fill::ZEROS,
        n => Fill { id: u32::from(n), magic: n % 16 == 15 },
    }
}

fn offset(input: &mut Input<'_>) -> u64 {
    if input.one_in(8) { u64::from(input.u32()) } else { input.pick(&EDGES) }
}

/// Calls that a byte below [`HOME`] chooses from; those from there on bring home what is committed, commit maps, or
/// take memory.
const CALLS: u8 = 42;
const HOME: u8 = u8::MAX / CALLS * CALLS;

/// One call.
pub(crate) fn op(input: &mut Input<'_>) -> Op {
    let n = input.u8();
    match n {
        u8::MAX => return Op::Scratch { pages: 60 },
        254 => {
            let (at, len, step) = (offset(input), input.pick(&LENGTHS), input.pick(&EDGES));
            let count = u64::from(input.u8() % 4);
            return Op::MapCommit { file: file(input), at, len, step, count, fill: fill(input) };
        }
        HOME.. => return Op::BringHome,
        _ => {}
    }
    match n % CALLS {
        41 => Op::Tmpfile { handle: input.u8() % 3, dir: path(input), mode: 0o640 },
        40 => {
            let acl = input.pick(&ACLS).map(|text| text.parse().expect("an ACL"));
            Op::SetAcl { file: file(input), default: input.one_in(2), acl }
        }
        38..=39 => Op::Chattr { file: file(input), flags: input.pick(&FLAGS).parse().expect("flags") },
        36..=37 => {
            let (from, to) = (file(input), file(input));
            if input.one_in(3) {
                let len = if input.one_in(2) { None } else { Some(input.pick(&LENGTHS)) };
                return Op::Exchange { file: from, at: offset(input), other: to, other_at: offset(input), len };
            }
            Op::Copy { from, at: offset(input), to, to_at: offset(input), len: input.pick(&LENGTHS) }
        }
        35 => {
            let steps: Vec<Op> = (0..2 + input.below(3)).map(|_| step(input)).collect();
            if steps.iter().all(Op::is_step) { Op::Transaction(steps) } else { Op::Sync }
        }
        34 => Op::Remount,
        33 => Op::Sync,
        32 => Op::Idle { seconds: input.pick(&[1, 6, 40]) },
        31 => Op::Fsync { file: file(input), data_only: input.one_in(2) },
        30 => Op::Open { handle: input.u8() % 3, path: path(input) },
        29 => Op::Close { handle: input.u8() % 3 },
        28 => {
            let time = Timestamp { sec: input.pick(&[0, 1, 1_000_000_000, 4_000_000_000, -5]), nsec: 123_456_789 };
            Op::Utimens { file: file(input), atime: time, mtime: time }
        }
        27 => Op::Chown { file: file(input), uid: input.u16().into(), gid: input.u16().into() },
        n => change(n, input),
    }
}

/// A call that can be part of a transaction, if its file is named.
fn step(input: &mut Input<'_>) -> Op {
    let n = input.u8() % 24;
    match change(n, input) {
        Op::Write { file, at, len, fill } => Op::Write { file, at, len: len.min(20_000), fill },
        other => other,
    }
}

fn change(n: u8, input: &mut Input<'_>) -> Op {
    let mode = 0o644;
    match n {
        0..=2 => Op::Create { path: path(input), mode },
        3 => Op::Mkdir { path: path(input), mode: 0o755 },
        4 => Op::Link { from: file(input), to: path(input) },
        5..=6 => Op::Unlink { path: path(input) },
        7 => Op::Rmdir { path: path(input) },
        8..=9 => {
            let whiteout = |replace| Rename::Whiteout { owner: Caller::default(), replace };
            let how =
                input.pick(&[Rename::Replace, Rename::NoReplace, Rename::Exchange, whiteout(true), whiteout(false)]);
            Op::Rename { from: path(input), to: path(input), how }
        }
        10 => {
            let target = "t".repeat(input.pick(&[1, 59, 60, 900]));
            Op::Symlink { path: path(input), target }
        }
        11..=14 => Op::Write { file: file(input), at: offset(input), len: input.pick(&LENGTHS), fill: fill(input) },
        15..=17 => Op::Truncate { file: file(input), size: offset(input) },
        18..=19 => {
            let name = input.pick(&["user.a", "user.large", "user.small", "trusted.t"]).to_owned();
            let how = input.pick(&[SetXattr::Any, SetXattr::Create, SetXattr::Replace]);
            let len = input.pick(&[0, 1, 20, 60, 200, 500]);
            Op::SetXattr { file: file(input), name, len, fill: fill(input), how }
        }
        20 => {
            let name = input.pick(&["user.a", "user.large", "user.small", "trusted.t"]).to_owned();
            Op::RemoveXattr { file: file(input), name }
        }
        21 => Op::Chmod { file: file(input), mode: input.pick(&[0o600, 0o755, 0o700, 0o400, 0o2775]) },
        22 => Op::Mkfifo { path: path(input), mode },
        23..=24 => Op::Append { file: file(input), len: input.pick(&LENGTHS), fill: fill(input) },
        _ => {
            let how = input.pick(&Fallocate::ALL);
            Op::Fallocate { file: file(input), how, at: offset(input), len: input.pick(&LENGTHS) }
        }
    }
}
