//! `ondol bench write`: the program of paper 2's table: threads that each write a new file from its beginning, with
//! `O_SYNC` or through a write buffer.
//!
//! With `O_SYNC` it goes by libc's calls, as programs do, so that `ondol run` finds them.

use crate::BenchError;
use crate::args::WriteArgs;
use crate::error::Context;
use crate::rng::Rng;
use ondol::buffer::WriteBuffer;
use rustix::fs::OFlags;
use rustix::process::{Signal, set_parent_process_death_signal};
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread;

/// Writes all files.
///
/// # Errors
/// The first thread's that failed.
pub(crate) fn run(args: &WriteArgs) -> Result<(), BenchError> {
    // Whoever started it may be killed.
    set_parent_process_death_signal(Some(Signal::TERM)).context(|| "prctl")?;
    let each = args.bytes / u64::from(args.threads);
    let writes = each / args.unit;
    if writes == 0 {
        let (bytes, unit) = (args.bytes, args.unit);
        return Err(BenchError::Usage(format!("--bytes {bytes}: less than --unit {unit} for each thread")));
    }
    let Some(pool) = &args.pool else {
        return on_threads(args.threads, |number| synchronous(&args.dir, number, writes, args.unit));
    };
    let (buffer, _) = WriteBuffer::open(pool, args.size, &args.dir, false).context(|| pool.display().to_string())?;
    on_threads(args.threads, |number| buffered(&buffer, number, writes, args.unit))?;
    // With `O_SYNC` everything is on the disk, too.
    buffer.settle().map_err(ondol::Error::from).context(|| args.dir.display().to_string())
}

/// The first failure of any.
fn on_threads(threads: u32, write: impl Fn(u32) -> Result<(), BenchError> + Sync) -> Result<(), BenchError> {
    thread::scope(|scope| {
        let write = &write;
        let threads: Vec<_> = (0..threads).map(|number| scope.spawn(move || write(number))).collect();
        let failed = || Err(BenchError::Unfit("a writing thread panicked".into()));
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| failed()))
    })
}

fn name(number: u32) -> String {
    format!("file{number:03}")
}

fn data(number: u32, unit: u64) -> Vec<u8> {
    let mut data = vec![0; usize::try_from(unit).unwrap_or(usize::MAX)];
    Rng::new(1, number.into()).fill(&mut data);
    data
}

/// One thread's file, through a buffer.
fn buffered(buffer: &WriteBuffer, number: u32, writes: u64, unit: u64) -> Result<(), BenchError> {
    let place = || name(number);
    let identity = ondol::buffer::name(name(number)).context(place)?;
    let file = buffer.open_file(&identity, true).map_err(ondol::Error::from).context(place)?;
    let data = data(number, unit);
    (0..writes).try_for_each(|n| file.write_at(n * unit, &data)).map_err(ondol::Error::from).context(place)
}

/// One thread's file, with `O_SYNC`.
fn synchronous(dir: &Path, number: u32, writes: u64, unit: u64) -> Result<(), BenchError> {
    let path = dir.join(name(number));
    let place = || path.display().to_string();
    let flags = i32::try_from(OFlags::SYNC.bits()).unwrap_or(0);
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).custom_flags(flags).open(&path).context(place)?;
    let data = data(number, unit);
    (0..writes).try_for_each(|_| file.write_all(&data)).context(place)
}
