//! Readings of a mount. A child asks its server: one that waits for a server that never answers cannot be killed.
//!
//! The child writes a line for each that it reads: what the server says, or why it does not.

use super::reading::Reading;
use crate::failure::{FAILED, Failure, Outcome, SYSTEM};
use crate::info;
use crate::log::now;
use crate::passed::source;
use ondol::machine::locks::shown;
use ondol_fuse::{ClientError, client};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Set in the child.
const VARIABLE: &str = "ONDOL_TOP_ASKS";

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn is_child() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// In the child: answers each line with one, until there are no more.
pub(super) fn answer(target: &Path) -> Outcome {
    let mut point: Option<PathBuf> = None;
    for line in std::io::stdin().lock().lines() {
        line.map_err(Failure::with(FAILED))?;
        let read = match &point {
            Some(point) => read(point),
            None => find(target).and_then(|found| read(point.insert(found))),
        };
        let answer = match &read {
            Ok(stats) => json!({ "stats": stats }),
            Err(failure) => json!({ "failed": failure.message }),
        };
        let mut out = std::io::stdout().lock();
        writeln!(out, "{answer}").and_then(|()| out.flush()).map_err(Failure::with(FAILED))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn read(point: &Path) -> Result<Value, Failure> {
    let stats = client::stats(point).map_err(|e| match e {
        ClientError::NotOurs(_) => Failure::new(FAILED, format!("{} is not mounted any more", shown(point))),
        ClientError::Dead { point, image } => {
            let (point, image) = (shown(&point), shown(&image));
            Failure::new(
                FAILED,
                format!("{point}, where {image} was mounted, has lost its server (`ondol umount {point}` removes it)"),
            )
        }
        e => Failure::new(FAILED, e),
    })?;
    let mut stats: Value = serde_json::from_slice(&stats).map_err(Failure::with(FAILED))?;
    if let Some(fields) = stats.as_object_mut() {
        fields.insert("mount_point".into(), shown(point).into());
    }
    Ok(stats)
}

/// The mount that is meant.
fn find(target: &Path) -> Result<PathBuf, Failure> {
    if let Some(dir) = info::mounted(target) {
        let entry = client::find(&dir).map_err(Failure::with(FAILED))?;
        return Ok(entry.point);
    }
    let number = target.to_str().and_then(|text| text.parse().ok()).filter(|_| !target.exists());
    if let Some(pid) = number {
        let served = client::served_by(pid);
        let none = || Failure::new(FAILED, format!("process {pid} serves no mount, or none that this user may see"));
        return Ok(served.ok_or_else(none)?.point);
    }
    source(target)?;
    Err(Failure::new(FAILED, format!("{} is not mounted: there is nothing to watch", shown(target))))
}

/// The parent's side.
pub(super) struct Asker {
    child: Child,
    questions: ChildStdin,
    answers: Receiver<String>,
    /// When it was last asked, by the monotonic clock.
    asked: Duration,
}

impl Asker {
    pub(super) fn start() -> Result<Self, Failure> {
        let mut command = Command::new("/proc/self/exe");
        command.arg0("ondol").args(std::env::args_os().skip(1)).env(VARIABLE, "1");
        // Keys are not for it, nor is what ends its parent: that ends its input. It holds nothing open that someone
        // reads to its end, since it may stay behind.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        let started = command.spawn();
        let mut child = started.map_err(|e| Failure::new(SYSTEM, format!("cannot start a process: {e}")))?;
        let (Some(questions), Some(lines)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure::new(SYSTEM, "cannot start a process: it has no pipes"));
        };
        let (tell, answers) = channel();
        let read = move || {
            for line in BufReader::new(lines).lines().map_while(Result::ok) {
                if tell.send(line).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("ondol-top".into()).spawn(read).map_err(Failure::with(SYSTEM))?;
        Ok(Self { child, questions, answers, asked: now() })
    }

    /// Asks for a reading.
    pub(super) fn begin(&mut self) -> Result<(), Failure> {
        self.asked = now();
        self.questions
            .write_all(b"\n")
            .map_err(|e| Failure::new(FAILED, format!("whoever asks the server has ended: {e}")))
    }

    /// When it was last asked, by the monotonic clock.
    pub(super) fn asked(&self) -> Duration {
        self.asked
    }

    /// The time up to now does not count: nobody could look.
    pub(super) fn forgive(&mut self) {
        self.asked = now();
    }

    /// The reading, if it is there within this time.
    pub(super) fn look(&mut self, time: Duration) -> Result<Option<Reading>, Failure> {
        match self.answers.recv_timeout(time) {
            Ok(line) => Reading::parse(&line).map(Some),
            Err(RecvTimeoutError::Timeout) => {
                if now().saturating_sub(self.asked) < PATIENCE {
                    return Ok(None);
                }
                Err(Failure::new(FAILED, format!("no answer within {} seconds; the server hangs", PATIENCE.as_secs())))
            }
            Err(RecvTimeoutError::Disconnected) => Err(Failure::new(FAILED, "whoever asks the server has ended")),
        }
    }

    /// Waits for a reading.
    pub(super) fn ask(&mut self) -> Result<Reading, Failure> {
        self.begin()?;
        loop {
            let left = PATIENCE.saturating_sub(now().saturating_sub(self.asked));
            if let Some(reading) = self.look(left)? {
                return Ok(reading);
            }
        }
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        // One that waits for a server goes when that lets it. Nobody waits for it.
        let _ = self.child.kill();
    }
}
