//! Each planted defect is found by power cuts, and nothing is where none is planted.

use crate::common::Op::{self, FailingSettle, Flush, Reclaim, SetLen, Settle, Sync, Write};
use crate::common::cuts::Run;
use ondol_faults::Defect;
use ondol_power::{Kind, Sampling};

fn write(file: usize, offset: u64, len: usize) -> Op {
    Write { file, offset, len }
}

/// Short scenes in which each rule matters, and the blocks that they have.
fn scenes() -> Vec<(u64, Vec<Op>)> {
    let overwritten = vec![write(0, 0, 300), Flush(0), Flush(1), write(0, 20, 60), Settle, write(0, 100, 9)];
    let shared = vec![write(0, 0, 200), write(0, 50, 200), write(0, 0, 512), write(0, 100, 5)];
    let cut = vec![write(0, 0, 900), SetLen { file: 0, len: 100 }, write(0, 600, 40)];
    let mut full = Vec::new();
    for n in 0..8u64 {
        full.extend([write((n % 2) as usize, n * 300 % 1200, 400), Flush(0), Flush(1), Reclaim, write(1, n * 50, 30)]);
        if n % 3 == 2 {
            full.push(Sync);
        }
    }
    let failed = vec![write(0, 0, 700), FailingSettle, Settle, write(0, 5, 5)];
    vec![(16, overwritten), (16, shared), (16, cut), (8, full), (16, failed)]
}

/// Wrong states of each scene, with a rule broken while it runs and while it is recovered.
fn found(defect: Option<Defect>) -> Vec<usize> {
    let _planted = ondol_faults::set(defect).unwrap();
    let sampling = Sampling::default().at_most(48);
    let explore =
        |(blocks, ops): &(u64, Vec<Op>)| Run::record(*blocks, Kind::Nvm, ops).explore(sampling, 5).wrong.len();
    scenes().iter().map(explore).collect()
}

#[test]
fn nothing_is_found_where_nothing_is_planted() {
    assert_eq!(found(None), [0, 0, 0, 0, 0]);
}

#[test]
fn each_is_found() {
    let by_interleavings = [Defect::BufferLateSyncPoint, Defect::BufferForgottenOverwrite];
    let planted = |d: &&Defect| d.subject() == ondol_faults::Subject::Buffer && !by_interleavings.contains(d);
    let mut missed = Vec::new();
    for defect in Defect::ALL.iter().filter(planted) {
        let wrong = found(Some(*defect));
        println!("{defect}: {wrong:?}");
        if wrong.iter().sum::<usize>() == 0 {
            missed.push(*defect);
        }
    }
    assert!(missed.is_empty(), "{missed:?}");
}
