//! The NVM log alone: a tiny ring that is full most of the time, with power cut after each event.
#![allow(clippy::unwrap_used, reason = "what a rig cannot have is a panic, as in a test")]

pub mod rig;

use crate::run_log::Shown;
use ondol_env::sync::Arc;
use ondol_env::{Env, Fixed, Timestamp};
use ondol_medium::Domain;
use ondol_power::Sampling;
use ondol_schedule::{Schedule, Task};
use rig::{Id, LINES, Op, Rig, record, run_alone};

/// Appends records one after the other; commits after each `every`-th.
pub fn appender(rig: &Arc<Rig>, who: u8, count: u32, every: u32, len: usize) -> Task {
    let rig = rig.clone();
    Box::new(move || {
        let mut open: Vec<Id> = Vec::new();
        for n in 0..count {
            let id = (who, n);
            let bytes = record(id, len + n as usize * 13);
            let promise = rig.promise(bytes.len() as u64);
            rig.appends(id);
            let position = promise.claim(bytes.len() as u64).complete(&bytes).unwrap();
            open.push(id);
            if n % every == every - 1 {
                rig.commit(position, &std::mem::take(&mut open));
            }
        }
    })
}

/// Commits whatever there is.
pub fn committer(rig: &Arc<Rig>, times: u32) -> Task {
    let rig = rig.clone();
    Box::new(move || {
        for _ in 0..times {
            rig.log.commit_all().unwrap();
            ondol_env::sync::thread::yield_now();
        }
    })
}

/// Takes home what is committed.
fn releaser(rig: &Arc<Rig>, times: u32) -> Task {
    let rig = rig.clone();
    Box::new(move || {
        for _ in 0..times {
            rig.release();
            ondol_env::sync::thread::yield_now();
        }
    })
}

fn shown(run: &rig::Run, sampling: Sampling, again: usize, about: u64) -> Shown {
    let found = run.explore(sampling, again, about);
    Shown { states: found.states, fast: 0, wrong: found.wrong.into_iter().next() }
}

fn domain(seed: u64) -> Domain {
    match seed % 8 {
        3 => Domain::Eadr,
        7 => Domain::Msync,
        _ => Domain::Adr,
    }
}

/// What one caller does, by a seed, and about so many cuts of it. For one of 17 states the log goes on, and is cut
/// again.
pub fn operations(seed: u64, about: u64) -> Shown {
    let random = Fixed::new(Timestamp::default(), seed);
    let below = |n: u32| random.random_u32() % n;
    let ops: Vec<Op> = (0..30)
        .map(|_| match below(12) {
            0..=3 => Op::Append(9 + below(140) as usize),
            4 => Op::Append(250 + below(200) as usize),
            5 => Op::Hold(9 + below(100) as usize),
            6 => Op::Finish,
            7 => Op::GiveUp,
            8..=9 => Op::Commit,
            _ => Op::Release,
        })
        .collect();
    let sampling = Sampling { seed, ..Sampling::default().at_most(32) };
    shown(&run_alone(domain(seed), LINES + seed % 7, &ops), sampling, 17, about)
}

/// Several callers in an interleaving, both by a number, and about so many cuts of it.
pub fn threads(number: u64, about: u64) -> Shown {
    // Eight interleavings of each crowd.
    let random = Fixed::new(Timestamp::default(), number / 8);
    let below = |n: u32| random.random_u32() % n;
    let lines = match below(8) {
        // Longer than what a scan reads at once.
        0 => 1100 + below(500),
        1 => 256,
        _ => LINES as u32 + below(7),
    };
    let patience = below(4).min(2);
    let appenders: Vec<_> = (0..2 + below(3))
        .map(|who| (who as u8, 2 + below(6), 1 + below(4) / 2, [9, 60, 100, 200, 300][below(5) as usize]))
        .collect();
    let (commits, releases) = (below(4), below(6));
    let crowd = |rig: &Arc<Rig>| -> Vec<Task> {
        let mut all: Vec<Task> =
            appenders.iter().map(|(who, count, every, len)| appender(rig, *who, *count, *every, *len)).collect();
        all.extend([committer(rig, commits), releaser(rig, releases)]);
        all
    };
    let (free, first) = (u64::from(below(24)), below(5));
    let new = || Arc::new(Rig::nearly_full(domain(number), lines.into(), patience, free, first));
    let stats = Schedule::in_turn(number / 8).run(crowd(&new())).unwrap();
    let (rig, schedule) = (new(), Schedule::fitted_to(&stats, number));
    schedule.run(crowd(&rig)).unwrap_or_else(|e| panic!("{e}"));
    let rig = Arc::into_inner(rig).expect("no task has it any more");
    let sampling = Sampling { seed: number, ..Sampling::default().at_most(16) };
    let mut shown = shown(&rig.run(domain(number)), sampling, 17, about);
    shown.wrong = shown.wrong.map(|wrong| format!("{schedule}: {wrong}"));
    shown
}
