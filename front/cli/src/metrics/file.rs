//! A file for node_exporter's textfile collector, written anew at intervals and gone with the mount.

use super::Render;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Between two writes: Prometheus scrapes every 15 s to a minute.
const INTERVAL: Duration = Duration::from_secs(15);

/// Writes the file until it is dropped.
pub(super) struct Writer {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Writes it once, and then at intervals.
    ///
    /// # Errors
    /// It cannot be written, or there is no thread.
    pub(super) fn start(path: PathBuf, render: Render) -> io::Result<Self> {
        let file = Target { path };
        file.write(&render)?;
        let (stop, stopped) = channel::<()>();
        let mut told = false;
        let work = move || {
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let written = file.write(&render);
                // A disk stays full for a while.
                if let Err(e) = written.as_ref()
                    && !told
                {
                    tracing::warn!("no metrics: {e}");
                }
                told = written.is_err();
            }
        };
        let thread = std::thread::Builder::new().name("ondol-metrics".into()).spawn(work)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::warn!("the writer of metrics has panicked");
        }
    }
}

struct Target {
    path: PathBuf,
}

impl Target {
    /// Puts the metrics of now in place of those of before, whole.
    fn write(&self, render: &Render) -> io::Result<()> {
        let Some(text) = render() else { return Ok(()) };
        let failed =
            |e: io::Error, path: &Path| io::Error::new(e.kind(), format!("cannot write {}: {e}", path.display()));
        // What does not end in .prom is passed over by who reads.
        let mut beside = self.path.clone().into_os_string();
        beside.push(format!(".{}", std::process::id()));
        let beside = PathBuf::from(beside);
        // A new one: what somebody has laid there, as a link, is not written to.
        let _ = std::fs::remove_file(&beside);
        let made = OpenOptions::new().write(true).create_new(true).open(&beside);
        let written = made.and_then(|mut file| file.write_all(text.as_bytes()));
        let written = written.and_then(|()| std::fs::rename(&beside, &self.path));
        written.map_err(|e| {
            // Half of a file is of no use; what went wrong is the thing to tell.
            let _ = std::fs::remove_file(&beside);
            failed(e, &self.path)
        })
    }
}

impl Drop for Target {
    /// A mount that has ended must not go on looking alive.
    fn drop(&mut self) {
        match std::fs::remove_file(&self.path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => tracing::warn!("{}: {e}", self.path.display()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_there_as_long_as_its_writer_and_nothing_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.prom");
        std::fs::write(&path, "of a mount that died").unwrap();
        let writer = Writer::start(path.clone(), Box::new(|| Some("text\n".into()))).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "text\n");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        drop(writer);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let absent = dir.path().join("absent/x.prom");
        let said = Writer::start(absent, Box::new(|| Some(String::new()))).err().unwrap().to_string();
        assert!(said.contains("absent/x.prom"), "{said}");
    }
}
