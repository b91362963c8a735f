//! A file for node_exporter's textfile collector, written anew at intervals and gone with the mount.

use super::Render;
use super::spot::{PATIENCE, Spot};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
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
    /// Writes it once, and then at intervals. A file system that does not answer is not waited for.
    ///
    /// # Errors
    /// It cannot be written, or there is no thread.
    pub(super) fn start(mut file: Target, render: Render) -> io::Result<Self> {
        let (stop, stopped) = channel::<()>();
        let (tell, told) = channel();
        let work = move || {
            let first = file.write(&render);
            let mut failing = first.is_err();
            // Nobody listens any more where it took long.
            let _ = tell.send(first);
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let written = file.write(&render);
                // A disk stays full for a while.
                if let Err(e) = written.as_ref()
                    && !failing
                {
                    tracing::warn!("no metrics: {e}");
                }
                failing = written.is_err();
            }
        };
        let thread = std::thread::Builder::new().name("ondol-metrics".into()).spawn(work)?;
        let writer = Self { stop: Some(stop), thread: Some(thread) };
        match told.recv_timeout(PATIENCE) {
            Ok(first) => first.map(|()| writer),
            Err(_) => {
                tracing::warn!("no metrics yet: the file system that they are written to does not answer");
                Ok(writer)
            }
        }
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

/// The file, which goes with this.
#[derive(Debug)]
pub(crate) struct Target {
    spot: Spot,
    /// What is there now. It is locked, so that no other mount takes the path.
    _now: File,
}

fn failed(e: &io::Error, path: &Path) -> io::Error {
    io::Error::new(e.kind(), format!("cannot write {}: {e}", path.display()))
}

impl Target {
    /// Puts an empty file there, which nobody else takes from then on.
    ///
    /// # Errors
    /// Nothing can be written there, or another mount writes there.
    pub(super) fn claim(path: &Path, point: Option<&Path>) -> io::Result<Self> {
        let mut spot = Spot::open(path, point).map_err(|e| failed(&e, path))?;
        let claimed = spot.create().and_then(|file| spot.claim().map(|()| file));
        let now = claimed.map_err(|e| {
            spot.discard();
            match e.kind() {
                io::ErrorKind::AddrInUse => {
                    io::Error::new(e.kind(), format!("another mount writes {}", path.display()))
                }
                _ => failed(&e, path),
            }
        })?;
        Ok(Self { spot, _now: now })
    }

    /// Puts the metrics of now in place of those of before, whole.
    fn write(&mut self, render: &Render) -> io::Result<()> {
        let Some(text) = render() else { return Ok(()) };
        let made = self.spot.create();
        let written = made.and_then(|mut file| file.write_all(text.as_bytes()).map(|()| file));
        let written = written.and_then(|file| self.spot.replace().map(|()| file));
        self._now = written.map_err(|e| {
            // Half of a file is of no use.
            self.spot.discard();
            failed(&e, self.spot.path())
        })?;
        Ok(())
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
        let target = Target::claim(&path, None).unwrap();
        let writer = Writer::start(target, Box::new(|| Some("text\n".into()))).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "text\n");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        let other = Target::claim(&path, None).unwrap_err().to_string();
        assert!(other.contains("another mount writes"), "{other}");
        drop(writer);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let absent = dir.path().join("absent/x.prom");
        let said = Target::claim(&absent, None).unwrap_err().to_string();
        assert!(said.contains("absent/x.prom"), "{said}");
    }
}
