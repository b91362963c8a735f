//! A service that keeps its volume and an open file of it in one struct, and gives threads files of their own: no
//! lifetime ties a file to its volume. Who is still at work when the volume is to be closed is said by path.
//!
//! ```sh
//! cargo run -p ondol --example threads
//! ```
#![allow(clippy::disallowed_methods, reason = "threads as programs start them")]

use ondol::{Error, File, FormatOptions, OpenOptions, Result, Volume};
use std::io::Write;
use std::path::Path;
use std::sync::mpsc;
use std::thread;

/// Worker threads, and entries that each of them writes.
const WORKERS: usize = 4;
const ENTRIES: usize = 100;

/// A log that lies in a volume of its own.
struct Journal {
    volume: Volume,
    log: File,
}

impl Journal {
    fn open(image: &Path) -> Result<Self> {
        let volume = Volume::open(image)?;
        let log = OpenOptions::new().append(true).create(true).open(&volume, "/log")?;
        Ok(Self { volume, log })
    }

    /// Everything that was written is durable when this returns.
    fn close(self) -> Result<()> {
        drop(self.log);
        self.volume.close()
    }
}

fn worker(mut log: File, number: usize) -> std::io::Result<()> {
    for entry in 0..ENTRIES {
        // One write is one operation: lines of several threads never mix.
        log.write_all(format!("worker {number}, entry {entry}\n").as_bytes())?;
    }
    log.sync_all()?;
    Ok(())
}

/// Makes a volume in `dir`, and has threads write to it. Returns how many lines they have written.
///
/// # Errors
/// The image cannot be made or used.
pub(crate) fn run(dir: &Path) -> std::result::Result<usize, Box<dyn std::error::Error>> {
    let image = dir.join("journal.img");
    Volume::format(&image, &FormatOptions::new().size(64 << 20))?;

    let journal = Journal::open(&image)?;
    let mut workers = Vec::new();
    for number in 0..WORKERS {
        let log = journal.log.try_clone()?;
        workers.push(thread::spawn(move || worker(log, number)));
    }
    for worker in workers {
        worker.join().map_err(|_| "a worker has panicked")??;
    }
    let lines = journal.volume.read_to_string("/log")?.lines().count();
    println!("{lines} lines");

    // Somebody who is slow has a file open still.
    let (done, is_done) = mpsc::channel::<()>();
    let slow = journal.volume.create("/slow")?;
    let slow = thread::spawn(move || {
        let _ = is_done.recv();
        slow.write_all_at(b"the last word", 0)
    });
    match journal.close() {
        Err(Error::StillOpen(open)) => open.iter().for_each(|open| println!("waiting for {open}")),
        other => return Err(format!("a volume with an open file was closed: {other:?}").into()),
    }
    // With that file the volume is closed.
    drop(done);
    slow.join().map_err(|_| "a worker has panicked")??;

    let volume = Volume::open(&image)?;
    println!("{}", volume.read_to_string("/slow")?);
    volume.close()?;
    Ok(lines)
}

#[allow(dead_code)]
fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    run(dir.path()).map(drop)
}
