//! Programs that make, mount and unmount targets.

use crate::BenchError;
use crate::error::Context;
use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// A program with arguments, to be run to its end.
pub(crate) struct Program {
    command: Command,
    text: String,
}

impl Program {
    /// `program`, looked for in `PATH` and where system programs are. Without input, and in a process group of its own:
    /// a Ctrl-C must not kill the umount that cleans up after it.
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Result<Self, BenchError> {
        let program = program.as_ref();
        let path = ondol_skips::find(&program.to_string_lossy()).ok_or_else(|| BenchError::Command {
            command: program.to_string_lossy().into_owned(),
            what: "not found; install the package that has it".into(),
        })?;
        let mut command = Command::new(path);
        command.stdin(Stdio::null()).process_group(0);
        Ok(Self { command, text: program.to_string_lossy().into_owned() })
    }

    /// This program itself, to run in another process what a command of it does.
    pub(crate) fn own() -> Result<Self, BenchError> {
        Self::new(std::env::current_exe().context(|| "finding this program")?)
    }

    /// Adds an argument.
    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.text = format!("{} {}", self.text, arg.as_ref().to_string_lossy());
        self.command.arg(arg);
        self
    }

    /// Adds arguments.
    pub(crate) fn args<A: AsRef<OsStr>>(self, args: impl IntoIterator<Item = A>) -> Self {
        args.into_iter().fold(self, Self::arg)
    }

    /// Runs it to its end; an exit code other than 0 is an error with the last line it printed.
    pub(crate) fn run(self) -> Result<(), BenchError> {
        self.output().map(drop)
    }

    /// The same, and what it printed.
    pub(crate) fn output(mut self) -> Result<String, BenchError> {
        let output = match self.command.output() {
            Ok(output) => output,
            Err(e) => return Err(self.failed(e)),
        };
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let said = if said.trim().is_empty() { String::from_utf8_lossy(&output.stdout).into_owned() } else { said };
        Err(self.failed(format!("{}: {}", output.status, last_line(&said))))
    }

    /// The command, to be started and watched by the caller, and its text.
    pub(crate) fn into_parts(self) -> (Command, String) {
        (self.command, self.text)
    }

    fn failed(self, what: impl ToString) -> BenchError {
        BenchError::Command { command: self.text, what: what.to_string() }
    }
}

/// The last line that says something.
pub(crate) fn last_line(text: &str) -> &str {
    text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it said nothing")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_carry_command_and_last_words() {
        let error = Program::new("sh").expect("sh").args(["-c", "echo first; echo last >&2; exit 3"]).run();
        let text = error.expect_err("exit 3").to_string();
        assert!(text.starts_with("sh -c ") && text.ends_with("exit status: 3: last"), "{text}");
        let error = Program::new("no-such-program-at-all").err().expect("missing");
        assert!(error.to_string().starts_with("no-such-program-at-all: not found"), "{error}");
    }
}
