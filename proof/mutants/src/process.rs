//! Programs that may crash, hang, or want all memory.

use rustix::process::{Pid, Resource, Rlimit, Signal};
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes of addresses that a program may have.
const MEMORY: u64 = 12 << 30;

/// A program that works less than this many seconds in so long a time hangs, and only looks whether it still does.
const STILL: (f64, Duration) = (0.5, Duration::from_secs(40));

/// When a program hangs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    /// It has had so many seconds of processors, or none for a while: it works alone.
    Processor(f64),
    /// After so many seconds.
    Clock(f64),
}

/// How a program ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// None: it hung.
    pub(crate) status: Option<ExitStatus>,
    /// Seconds of processors, about.
    pub(crate) spent: f64,
    pub(crate) seconds: f64,
    pub(crate) told: String,
    /// From standard error.
    pub(crate) complained: String,
}

/// Runs a program until it ends or hangs. What it prints is in `dir` meanwhile.
///
/// # Errors
/// It cannot be started.
pub(crate) fn run(command: &mut Command, bound: Bound, dir: &Path) -> Result<Ended, String> {
    let program = command.get_program().to_owned();
    let failed = |e: &dyn std::fmt::Display| format!("{}: {e}", program.display());
    let files = ["told", "complained"].map(|name| dir.join(name));
    let [told, complained] = [&files[0], &files[1]].map(File::create);
    let (told, complained) = (told.map_err(|e| failed(&e))?, complained.map_err(|e| failed(&e))?);
    // A group of its own, so that all that it starts ends with it.
    command.stdin(Stdio::null()).stdout(told).stderr(complained).process_group(0);
    let began = Instant::now();
    let mut child = command.spawn().map_err(|e| failed(&e))?;
    let pid = Pid::from_child(&child);
    let limit = Rlimit { current: Some(MEMORY), maximum: Some(MEMORY) };
    let _ended = rustix::process::prlimit(Some(pid), Resource::As, limit);
    let (mut spent, mut worked, mut moved) = (0.0, 0.0, Instant::now());
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|e| failed(&e))? {
            break Some(status);
        }
        spent = processor_seconds(pid).unwrap_or(spent);
        if spent > worked + STILL.0 {
            (worked, moved) = (spent, Instant::now());
        }
        let hangs = match bound {
            Bound::Processor(most) => spent > most || moved.elapsed() > STILL.1,
            Bound::Clock(most) => began.elapsed().as_secs_f64() > most,
        };
        if hangs {
            let _gone = rustix::process::kill_process_group(pid, Signal::KILL);
            child.wait().map_err(|e| failed(&e))?;
            break None;
        }
        thread::sleep(Duration::from_millis(50));
    };
    let text = |file: &Path| fs::read(file).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ok(Ended {
        status,
        spent,
        seconds: began.elapsed().as_secs_f64(),
        told: text(&files[0]).unwrap_or_default(),
        complained: text(&files[1]).unwrap_or_default(),
    })
}

/// What a process, and those of its children that have ended, have had.
fn processor_seconds(pid: Pid) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks = fields.split_whitespace().skip(11).take(4).map(str::parse::<f64>);
    Some(ticks.sum::<Result<f64, _>>().ok()? / rustix::param::clock_ticks_per_second() as f64)
}
