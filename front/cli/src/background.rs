//! A server in the background, without fork(2): the command starts itself anew and returns once the child serves.
//!
//! The child's standard output is a pipe to the parent, on which it says that it is ready. Until then its errors go to
//! the parent's standard error, and its exit code becomes the parent's.

use crate::called;
use crate::failure::{Failure, INTERRUPTED, Outcome, SYSTEM};
use crate::log::Log;
use rustix::process::{Pid, Signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitCode, Stdio};

/// Set in the child.
const VARIABLE: &str = "ONDOL_BACKGROUND";
const READY: &[u8] = b"ready\n";

/// Whether this process is such a child.
pub(crate) fn is_child() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// Starts the same command in the background and waits until it serves or gives up. Signals are passed on.
pub(crate) fn start() -> Outcome {
    let mut command = Command::new("/proc/self/exe");
    command.arg0(called::first_word()).args(std::env::args_os().skip(1)).env(VARIABLE, "1");
    // Before there is a child that could be left alone.
    let signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(Failure::with(SYSTEM))?;
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = child.map_err(|e| Failure::new(SYSTEM, format!("cannot start a server: {e}")))?;
    pass_on_signals(signals, Pid::from_child(&child))?;
    let mut said = Vec::new();
    if let Some(mut pipe) = child.stdout.take() {
        pipe.read_to_end(&mut said).map_err(Failure::with(SYSTEM))?;
    }
    if said == READY {
        return Ok(ExitCode::SUCCESS);
    }
    let status = child.wait().map_err(Failure::with(SYSTEM))?;
    if let Some(signal) = status.signal() {
        return Err(Failure::new(INTERRUPTED, format!("the server was ended by signal {signal} before it served")));
    }
    match status.code().and_then(|c| u8::try_from(c).ok()) {
        // It has said why.
        Some(code) if code != 0 => Ok(ExitCode::from(code)),
        _ => Err(Failure::new(SYSTEM, format!("the server ended before it served: {status}"))),
    }
}

/// The child has left the terminal's session, so it does not hear what its caller is told.
fn pass_on_signals(mut signals: Signals, child: Pid) -> Result<(), Failure> {
    let pass_on = move || {
        for _ in signals.forever() {
            // Without it, the child has ended by itself.
            let _ = rustix::process::kill_process(child, Signal::TERM);
        }
    };
    let thread = std::thread::Builder::new().name("ondol-signals".into()).spawn(pass_on);
    thread.map(drop).map_err(Failure::with(SYSTEM))
}

/// In the child, before anything else: leaves the terminal's session, so that its signals do not come here.
pub(crate) fn leave_session() -> io::Result<()> {
    rustix::process::setsid()?;
    Ok(())
}

/// In the child: tells the parent, and lets go of terminal and working directory. From here on messages go to `log`.
///
/// # Errors
/// The parent is gone, or `/dev/null` cannot be opened.
pub(crate) fn ready(log: &Log) -> io::Result<()> {
    std::env::set_current_dir("/")?;
    let mut pipe = io::stdout();
    pipe.write_all(READY)?;
    pipe.flush()?;
    log.take_over()
}
