//! `ondol bench write`: the program of paper 2's table: threads that each write a new file from its beginning, with `O_SYNC`.
//!
//! It goes by libc's calls, as programs do, so that `ondol run` finds them.

use crate::BenchError;
use crate::args::WriteArgs;
use crate::error::Context;
use crate::rng::Rng;
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
    thread::scope(|scope| {
        let threads: Vec<_> =
            (0..args.threads).map(|number| scope.spawn(move || write(&args.dir, number, writes, args.unit))).collect();
        let failed = || Err(BenchError::Unfit("a writing thread panicked".into()));
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| failed()))
    })
}

/// One thread's file.
fn write(dir: &Path, number: u32, writes: u64, unit: u64) -> Result<(), BenchError> {
    let path = dir.join(format!("file{number:03}"));
    let place = || path.display().to_string();
    let flags = i32::try_from(OFlags::SYNC.bits()).unwrap_or(0);
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).custom_flags(flags).open(&path).context(place)?;
    let mut data = vec![0; usize::try_from(unit).unwrap_or(usize::MAX)];
    Rng::new(1, number.into()).fill(&mut data);
    (0..writes).try_for_each(|_| file.write_all(&data)).context(place)
}
