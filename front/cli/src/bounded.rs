//! Commands that may have to ask another user's server, which may never answer.
//!
//! A process that waits for such a server cannot even be killed while the server lives. So a child asks, and is left alone when it takes
//! too long.

use crate::failure::{FAILED, Failure, Outcome, SYSTEM};
use ondol::machine::mountinfo;
use std::process::{Child, Command, ExitCode, ExitStatus, Output, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Set in the child.
const VARIABLE: &str = "ONDOL_BOUNDED";

/// How long the child may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Does `work` in a child of the same command line, if there is anybody on this machine whom it could have to wait for.
pub(crate) fn bounded(work: impl FnOnce() -> Outcome) -> Outcome {
    let served = mountinfo::read().is_ok_and(|table| table.iter().any(mountinfo::Entry::is_fuse));
    if !served || std::env::var_os(VARIABLE).is_some() {
        return work();
    }
    let mut command = this_program();
    command.args(std::env::args_os().skip(1));
    let child = command.spawn().map_err(|e| Failure::new(SYSTEM, format!("cannot start a process: {e}")))?;
    let status = in_time(child, |mut child: Child| child.wait())?;
    Ok(exit_code(status))
}

/// Standard output of `ondol ARGS…`; its own words where it fails.
pub(crate) fn ask(args: &[&std::ffi::OsStr]) -> Result<Vec<u8>, Failure> {
    let mut command = this_program();
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().map_err(|e| Failure::new(SYSTEM, format!("cannot start a process: {e}")))?;
    let out: Output = in_time(child, Child::wait_with_output)?;
    let said = String::from_utf8_lossy(&out.stderr);
    if out.status.success() { Ok(out.stdout) } else { Err(Failure::new(FAILED, said.trim_start_matches("ondol: "))) }
}

fn this_program() -> Command {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new("/proc/self/exe");
    command.arg0("ondol").env(VARIABLE, "1");
    command
}

/// What `wait` tells of the child, unless that takes too long.
fn in_time<T: Send + 'static>(
    child: Child,
    wait: impl FnOnce(Child) -> std::io::Result<T> + Send + 'static,
) -> Result<T, Failure> {
    let id = rustix::process::Pid::from_child(&child);
    let (tell, told) = channel();
    let waiting = move || {
        // Nobody listens any more when it took too long.
        let _ = tell.send(wait(child));
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
