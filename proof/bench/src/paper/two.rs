//! Paper 2, the NVM write buffer. Its table shows how long threads take that each write a new file with `O_SYNC`: to a
//! disk, and with a buffer in NVM in front of it. Here the program writes through the buffer itself, as the paper's
//! does, and runs unchanged under `ondol run`, on a directory of a real disk.

mod table;
#[cfg(test)]
mod tests;

use super::frame::rounds;
use crate::BenchError;
use crate::args::PaperArgs;
use crate::command::{Program, last_line};
use crate::error::Context;
use crate::interrupt::Interrupt;
use crate::machine::{Machine, commit};
use crate::series::{self, Book, Outcome, Part, Parts};
use crate::stats::{Spread, ratio, spread};
use crate::target::{self, WorkDir};
use crate::units::MIB;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Serialize;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Bytes that are written for each byte of the buffer, as in the paper: 80 GiB and 8 GiB.
const TIMES: u64 = 10;
/// How often a program is looked for that may have ended: far below what one takes.
const LOOK: Duration = Duration::from_millis(2);

/// What the paper's table says of some threads, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Paper {
    sync_16k: f64,
    buffer_16k: f64,
    buffer_1k: f64,
}

/// A line of the table, as the paper has it.
#[derive(Clone, Copy, Debug)]
struct Line {
    threads: u32,
    paper: Paper,
}

const fn line(threads: u32, sync_16k: f64, buffer_16k: f64, buffer_1k: f64) -> Line {
    Line { threads, paper: Paper { sync_16k, buffer_16k, buffer_1k } }
}

/// Table 1.
const LINES: [Line; 6] = [
    line(1, 730.7, 72.0, 81.2),
    line(2, 397.9, 33.7, 42.4),
    line(4, 221.1, 30.9, 40.8),
    line(8, 104.2, 29.6, 44.7),
    line(16, 77.3, 28.3, 44.8),
    line(32, 87.8, 29.9, 47.8),
];

/// Where the writes of a program end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Through {
    /// On the disk, with `O_SYNC`.
    Disk,
    /// In the write buffer, which the program calls: the paper's module.
    Buffer,
    /// In the log of `ondol run`, of which the program knows nothing.
    Run,
}

/// How a program writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Way {
    through: Through,
    /// Bytes in a write.
    unit: u64,
}

/// The columns of the table: they take turns.
const WAYS: [Way; 5] = [
    Way { through: Through::Disk, unit: 16 << 10 },
    Way { through: Through::Buffer, unit: 16 << 10 },
    Way { through: Through::Buffer, unit: 1 << 10 },
    Way { through: Through::Run, unit: 16 << 10 },
    Way { through: Through::Run, unit: 1 << 10 },
];

/// A line, measured.
#[derive(Clone, Debug, Serialize)]
struct Measured {
    name: String,
    /// One for each column: seconds from the program's start until everything is on the disk and the program has ended,
    /// of each way; then, for the buffer and for `ondol run`, how many times as fast it is with 16 KiB, and how many
    /// times as long 1 KiB takes as 16 KiB, by round.
    values: [Spread; COLUMNS],
    paper: Paper,
}

/// Numbers in a line.
const COLUMNS: usize = 9;

impl Measured {
    fn of(line: &Line, seconds: &[Vec<f64>; WAYS.len()]) -> Self {
        let [sync, buffer, buffer_1k, run, run_1k] = seconds;
        let name = ondol::counted(line.threads.into(), "thread");
        let [a, b, c, d, e] = seconds.each_ref().map(|seconds| spread(seconds));
        let [faster, longer] = [ratio(buffer, sync), ratio(buffer, buffer_1k)];
        let [run_faster, run_longer] = [ratio(run, sync), ratio(run, run_1k)];
        Self { name, values: [a, b, c, d, e, faster, longer, run_faster, run_longer], paper: line.paper }
    }
}

/// The lines so far, as `bench compare` compares them.
#[derive(Debug, Serialize)]
struct Table {
    /// With the sizes: with others it is another table.
    title: String,
    unit: &'static str,
    columns: [&'static str; COLUMNS],
    rows: Vec<Measured>,
    /// What the paper says.
    paper: &'static str,
}

/// The table, for the JSON.
#[derive(Debug, Serialize)]
struct Drawing {
    paper: u32,
    quick: bool,
    /// Lines are missing: the run was interrupted, or one failed.
    partial: bool,
    machine: Machine,
    commit: &'static str,
    /// Bytes of the buffer.
    buffer: u64,
    /// Bytes that are written in each turn, by all threads.
    total: u64,
    rounds: u32,
    table: Table,
}

pub(super) fn run(args: &PaperArgs, book: &mut Book<'_>) -> Result<(), BenchError> {
    if args.figure.is_some_and(|n| n != 1) {
        return Err(BenchError::Usage("bench paper 2: there is table 1".into()));
    }
    if !args.dir.is_dir() {
        return Err(BenchError::Usage(format!("--dir {}: not a directory", args.dir.display())));
    }
    let dir = target::on_disk(&args.dir)?;
    if let Some(why) = ondol::run::why_not(&dir) {
        let dir = dir.display();
        return Err(BenchError::Unfit(format!(
            "{dir}: `ondol run` leaves fsync as it is there: {why}; name another directory with --dir"
        )));
    }
    let memory = target::in_memory(&args.dir)?;
    let interrupt = Interrupt::catch()?;
    let buffer = buffer(args.quick);
    draw(args, book, |line| line.measure(rounds(args), buffer, &dir, &memory, &interrupt))
}

/// Bytes of the buffer.
fn buffer(quick: bool) -> u64 {
    if quick { 16 * MIB } else { 64 * MIB }
}

/// Measures line after line and keeps what was measured, whatever becomes of the rest.
fn draw(
    args: &PaperArgs,
    book: &mut Book<'_>,
    mut measure: impl FnMut(&Line) -> Result<Measured, BenchError>,
) -> Result<(), BenchError> {
    let buffer = buffer(args.quick);
    let mut drawing = Drawing {
        paper: 2,
        quick: args.quick,
        partial: true,
        machine: Machine::here(),
        commit: commit(),
        buffer,
        total: buffer * TIMES,
        rounds: rounds(args),
        table: table::of(buffer, buffer * TIMES),
    };
    let head = |line: &Line| format!("table 1, {}", ondol::counted(line.threads.into(), "thread"));
    series::run(
        book,
        &Parts { called: "line", all: &LINES, head: &head },
        &mut drawing,
        |line| measure(line),
        |drawing, _, line, partial| {
            drawing.table.rows.push(line);
            drawing.partial = partial;
        },
    )
}

impl Outcome for Drawing {
    fn terminal(&self) -> String {
        table::terminal(self)
    }

    fn is_empty(&self) -> bool {
        self.table.rows.is_empty()
    }
}

impl Part for Measured {
    fn terminal(&self) -> String {
        table::line(self)
    }

    fn is_partial(&self) -> bool {
        false
    }
}

impl Line {
    /// All ways of a line in turn, so often.
    fn measure(
        &self,
        rounds: u32,
        buffer: u64,
        dir: &Path,
        memory: &Path,
        interrupt: &Interrupt,
    ) -> Result<Measured, BenchError> {
        let mut seconds: [Vec<f64>; WAYS.len()] = Default::default();
        for _ in 0..rounds {
            for (seconds, way) in seconds.iter_mut().zip(WAYS) {
                interrupt.check()?;
                let (files, pool) = (WorkDir::create_in(dir)?, WorkDir::create_in(memory)?);
                let pool_file = pool.path().join("buffer.pool");
                let program = match way.through {
                    Through::Run => under_run(buffer, files.path(), &pool_file)?,
                    Through::Disk | Through::Buffer => Program::own()?,
                };
                let words = words(way, self.threads, buffer, files.path(), &pool_file);
                let took = timed(program.args(words), interrupt)?;
                files.remove().and(pool.remove())?;
                seconds.push(took.as_secs_f64());
            }
        }
        Ok(Measured::of(self, &seconds))
    }
}

/// This program, under `ondol run`.
fn under_run(buffer: u64, dir: &Path, pool: &Path) -> Result<Program, BenchError> {
    let program = std::env::current_exe().context(|| "finding this program")?;
    Ok(Program::new(ondol_skips::ondol())?.args(run_words(buffer, dir, pool)).arg("--").arg(program))
}

/// What `ondol` is told, to run a program with a buffer.
fn run_words(buffer: u64, dir: &Path, pool: &Path) -> Vec<String> {
    let pool = pool.display().to_string();
    let words = ["run", "--quiet", "--buffer", &pool, "--size", &buffer.to_string(), "--dir"].map(str::to_owned);
    words.into_iter().chain([dir.display().to_string()]).collect()
}

/// What the program is told, to write in a way.
fn words(way: Way, threads: u32, buffer: u64, dir: &Path, pool: &Path) -> Vec<String> {
    let mut words = ["bench", "write", "--dir"].map(str::to_owned).to_vec();
    words.extend([dir.display().to_string(), "--threads".into(), threads.to_string()]);
    words.extend(["--bytes".into(), (buffer * TIMES).to_string(), "--unit".into(), way.unit.to_string()]);
    if way.through == Through::Buffer {
        words.extend(["--pool".into(), pool.display().to_string(), "--size".into(), buffer.to_string()]);
    }
    words
}

/// Runs a program to its end, or ends it when a signal comes.
fn timed(program: Program, interrupt: &Interrupt) -> Result<Duration, BenchError> {
    let (mut command, text) = program.into_parts();
    let failed = |what: String| BenchError::Command { command: text.clone(), what };
    let begun = Instant::now();
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().map_err(|e| failed(e.to_string()))?;
    let status = loop {
        if let Some(status) = child.try_wait().context(|| "waiting for a program")? {
            break status;
        }
        if interrupt.came() {
            // With what it has started. It may have ended just now.
            let _ = kill_process_group(Pid::from_child(&child), Signal::TERM);
            child.wait().context(|| "waiting for a program")?;
            return Err(BenchError::Interrupted);
        }
        sleep(LOOK);
    };
    let took = begun.elapsed();
    let mut said = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_string(&mut said).context(|| "reading a program's messages")?;
    }
    if status.success() { Ok(took) } else { Err(failed(format!("{status}: {}", last_line(&said)))) }
}
