//! Programs that work beside the bench: servers of mounts.

use crate::BenchError;
use crate::command::{Program, last_line};
use crate::error::Context;
use rustix::fs::MemfdFlags;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::process::{Child, ChildStdin, ChildStdout, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often a program is looked at.
const LOOK: Duration = Duration::from_millis(2);

/// A program that was started. What it says on standard error is kept.
#[derive(Debug)]
pub(crate) struct Background {
    child: Child,
    text: String,
    log: File,
}

impl Background {
    /// Starts `program`, which hears and says what `pipe` makes.
    pub(crate) fn start(program: Program, pipe: fn() -> Stdio) -> Result<Self, BenchError> {
        let (mut command, text) = program.into_parts();
        // A pipe would stop a program that says more than anybody reads.
        let log = rustix::fs::memfd_create("ondol-bench-log", MemfdFlags::CLOEXEC).context(|| "memfd")?;
        let log = File::from(log);
        let stderr = log.try_clone().context(|| "memfd")?;
        let child = command.stdin(pipe()).stdout(pipe()).stderr(stderr).spawn();
        let child = child.map_err(|e| BenchError::Command { command: text.clone(), what: e.to_string() })?;
        Ok(Self { child, text, log })
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its ends of the pipes, if it was started with some.
    pub(crate) fn take_pipes(&mut self) -> (Option<ChildStdin>, Option<ChildStdout>) {
        (self.child.stdin.take(), self.child.stdout.take())
    }

    /// An error if it has ended.
    pub(crate) fn must_run(&mut self) -> Result<(), BenchError> {
        match self.child.try_wait().context(|| self.text.clone())? {
            Some(status) => Err(self.failed(status)),
            None => Ok(()),
        }
    }

    /// How it ended, if it ends within `patience`.
    pub(crate) fn wait(&mut self, patience: Duration) -> Result<Option<ExitStatus>, BenchError> {
        let since = Instant::now();
        loop {
            match self.child.try_wait().context(|| self.text.clone())? {
                Some(status) => return Ok(Some(status)),
                None if since.elapsed() >= patience => return Ok(None),
                None => sleep(LOOK),
            }
        }
    }

    /// Waits for its end, which must be a good one; kills it after `patience`, which is an error that says `late`.
    pub(crate) fn end(&mut self, patience: Duration, late: &str) -> Result<(), BenchError> {
        match self.wait(patience)? {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(self.failed(status)),
            None => {
                self.kill()?;
                Err(self.failed(late))
            }
        }
    }

    /// Kills it.
    pub(crate) fn kill(&mut self) -> Result<(), BenchError> {
        self.child.kill().context(|| format!("killing {}", self.text))?;
        self.child.wait().map(|_: ExitStatus| ()).context(|| self.text.clone())
    }

    /// The error that it has `what`, with its last words.
    pub(crate) fn failed(&self, what: impl ToString) -> BenchError {
        let mut said = vec![0; 16 << 10];
        let len = self.log.read_at(&mut said, 0).unwrap_or(0);
        said.truncate(len);
        let said = String::from_utf8_lossy(&said);
        BenchError::Command { command: self.text.clone(), what: format!("{}: {}", what.to_string(), last_line(&said)) }
    }
}

/// Questions to a program that answers each line with a line.
#[derive(Debug)]
pub(crate) struct Questions {
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Questions {
    /// To a program that was started with both pipes.
    pub(crate) fn to(program: &mut Background) -> Option<Self> {
        let (to, from) = program.take_pipes();
        Some(Self { to: to?, from: BufReader::new(from?) })
    }

    /// Asks once.
    ///
    /// # Errors
    /// The program has ended.
    pub(crate) fn ask(&mut self) -> std::io::Result<String> {
        self.to.write_all(b"\n")?;
        let mut line = String::new();
        match self.from.read_line(&mut line)? {
            0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line),
        }
    }
}
