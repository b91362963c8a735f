//! Commands that may have to ask another user's server, which may never answer.
//!
//! A process that waits for such a server cannot even be killed while the server lives. So a child asks, and is left
//! alone when it takes too long.

use crate::failure::{FAILED, Failure, Outcome, SYSTEM};
use ondol::machine::mountinfo;
use std::io::Write;
use std::process::{Command, ExitCode, ExitStatus, Output, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Set in the child.
const VARIABLE: &str = "ONDOL_BOUNDED";

/// How long the child may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Does `work` in a child of the same command line, if there is anybody on this machine whom it could have to wait for.
/// The child's words come when it has ended.
pub(crate) fn bounded(work: impl FnOnce() -> Outcome) -> Outcome {
    let served = mountinfo::read().is_ok_and(|table| table.iter().any(mountinfo::Entry::is_fuse));
    if !served || std::env::var_os(VARIABLE).is_some() {
        return work();
    }
    let mut command = this_program();
    let out = outcome(command.args(std::env::args_os().skip(1)))?;
    // Who does not read to the end does not want the rest.
    let _ = std::io::stderr().write_all(&out.stderr);
    let _ = std::io::stdout().write_all(&out.stdout);
    Ok(exit_code(out.status))
}

/// Standard output of `ondol ARGS…`; its own words where it fails.
pub(crate) fn ask(args: &[&std::ffi::OsStr]) -> Result<Vec<u8>, Failure> {
    let mut command = this_program();
    let out = outcome(command.args(args).stdin(Stdio::null()))?;
    let said = String::from_utf8_lossy(&out.stderr);
    if out.status.success() { Ok(out.stdout) } else { Err(Failure::new(FAILED, said.trim_start_matches("ondol: "))) }
}

fn this_program() -> Command {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new("/proc/self/exe");
    command.arg0("ondol").env(VARIABLE, "1");
    command
}

/// What became of the child, unless it takes too long. The child does not get our own output: what reads that waits
/// until nobody has it open, and the child may stay behind.
fn outcome(command: &mut Command) -> Result<Output, Failure> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().map_err(|e| Failure::new(SYSTEM, format!("cannot start a process: {e}")))?;
    let id = rustix::process::Pid::from_child(&child);
    let (tell, told) = channel();
    let waiting = move || {
        // Nobody listens any more when it took too long.
        let _ = tell.send(child.wait_with_output());
    };
    std::thread::Builder::new().name("ondol-ask".into()).spawn(waiting).map_err(Failure::with(SYSTEM))?;
    match told.recv_timeout(PATIENCE) {
        Ok(done) => done.map_err(Failure::with(SYSTEM)),
        Err(_) => {
            // It goes when its server lets it.
            let _ = rustix::process::kill_process(id, rustix::process::Signal::KILL);
            Err(Failure::new(FAILED, format!("no answer within {} seconds; the server hangs", PATIENCE.as_secs())))
        }
    }
}

fn exit_code(status: ExitStatus) -> ExitCode {
    ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILED))
}
