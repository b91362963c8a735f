//! Programs from a seed: threads that meet at few names.

use super::Program;
use crate::op::{File, Fill, Op, Path, Rename, SetXattr};
use ondol_schedule::Random;

/// The names that they meet at; the directory stays.
const NAMES: [&str; 5] = ["/a", "/b", "/d/a", "/d/b", "/d/c"];

/// The calls that a random program begins with: all names but one name a file.
pub fn before() -> Vec<Op> {
    let path = |text: &str| Path::new(text).expect("it is a path");
    let mut ops = vec![Op::Mkdir { path: path("/d"), mode: 0o755 }];
    for (id, name) in (1..).zip(&NAMES[1..]) {
        ops.push(Op::Create { path: path(name), mode: 0o644 });
        ops.push(Op::Write { file: path(name).into(), at: 0, len: 3000, fill: Fill::unique(id) });
    }
    ops
}

/// A program of `threads` threads with `calls` calls each. Equal arguments give equal programs.
pub fn random(seed: u64, threads: usize, calls: usize) -> Program {
    Program::new(random_calls(seed, threads, calls)).expect("these calls are for several threads")
}

/// The calls of [`random`], by thread.
pub fn random_calls(seed: u64, threads: usize, calls: usize) -> Vec<Vec<Op>> {
    let mut random = Random::new(seed);
    let mut fills = 100;
    let one = |_| (0..calls).map(|_| op(&mut random, &mut fills)).collect();
    (0..threads).map(one).collect()
}

fn op(random: &mut Random, fills: &mut u32) -> Op {
    *fills += 1;
    let fill = Fill { id: *fills, magic: random.below(8) == 0 };
    let path = name(random);
    let file = if random.below(6) == 0 { File::Handle(random.below(2) as u8) } else { path.clone().into() };
    match random.below(29) {
        0..2 => Op::Create { path, mode: 0o600 + random.below(64) as u16 },
        2 => Op::Unlink { path },
        3..6 => Op::Rename { from: path, to: name(random), how: how(random) },
        6 => Op::Link { from: path.into(), to: name(random) },
        7 => Op::Symlink { path, target: format!("to {fills}") },
        8..12 => Op::Write {
            file,
            at: random.below(4) * 1500 + random.below(4) / 3 * 900_000,
            len: 1 + random.below(3000),
            fill,
        },
        12 => Op::Truncate { file, size: random.below(3) * 1700 },
        13 => Op::SetXattr { file, name: "user.x".into(), len: 1 + random.below(200), fill, how: SetXattr::Any },
        14 => Op::Chmod { file: path.into(), mode: 0o600 + random.below(64) as u16 },
        15 => Op::Open { handle: random.below(2) as u8, path },
        16 => Op::Fsync { file: path.into(), data_only: random.below(2) == 0 },
        17 => Op::Sync,
        18 => Op::Mkdir { path, mode: 0o755 },
        19 => Op::Rmdir { path },
        20 => Op::BringHome,
        21 => Op::Scratch { pages: 1 + random.below(300) },
        26.. => Op::Read { file, at: random.below(4) * 1500, len: 1 + random.below(6000), kept: random.below(2) == 0 },
        22..24 => map_commit(random, file, fill),
        _ => Op::Transaction(vec![
            Op::Write { file: path.clone().into(), at: 0, len: 1200, fill },
            Op::Rename { from: path, to: name(random), how: Rename::Replace },
            Op::Create { path: name(random), mode: 0o640 },
        ]),
    }
}

/// Stores in a few blocks.
fn map_commit(random: &mut Random, file: File, fill: Fill) -> Op {
    let (at, len) = (random.below(3) * 500, 1 + random.below(600));
    Op::MapCommit { file, at, len, step: len + random.below(900), count: 1 + random.below(3), fill }
}

fn name(random: &mut Random) -> Path {
    Path::new(NAMES[random.below(NAMES.len() as u64) as usize]).expect("it is a path")
}

fn how(random: &mut Random) -> Rename {
    match random.below(4) {
        0 => Rename::NoReplace,
        1 => Rename::Exchange,
        _ => Rename::Replace,
    }
}
