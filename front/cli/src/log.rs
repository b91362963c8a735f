//! Where messages go: standard error, which a server in the background turns into a log file or the system's log.

use std::fs::OpenOptions;
use std::io::{self, IsTerminal};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use tracing_subscriber::EnvFilter;

/// The variable that says how much is logged, as in `debug` or `ondol_fuse=trace`.
const VARIABLE: &str = "ONDOL_LOG";

/// Sends messages to standard error.
pub(crate) fn to_stderr() {
    let filter = EnvFilter::try_from_env(VARIABLE).unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .init();
}

/// Points standard error at `file`, or else at the system's log, or else at nothing; standard output and input at nothing.
///
/// # Errors
/// The log file or `/dev/null` cannot be opened.
pub(crate) fn leave_terminal(file: Option<&OwnedFd>) -> io::Result<()> {
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    match (file, system_log()) {
        (Some(file), _) => rustix::stdio::dup2_stderr(file)?,
        (None, Some(log)) => rustix::stdio::dup2_stderr(&log)?,
        (None, None) => rustix::stdio::dup2_stderr(&null)?,
    }
    Ok(())
}

/// Opens a log file to add to.
///
/// # Errors
/// It cannot be opened.
pub(crate) fn open(path: &Path) -> io::Result<OwnedFd> {
    Ok(OpenOptions::new().create(true).append(true).open(path)?.into())
}

/// Each line that is written becomes one message of syslog(3).
fn system_log() -> Option<OwnedFd> {
    let socket = UnixDatagram::unbound().ok()?;
    socket.connect("/dev/log").ok()?;
    Some(socket.into())
}
