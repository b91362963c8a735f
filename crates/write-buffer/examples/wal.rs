//! A program's own write-ahead log, on any file system: a record is durable when [`Wal::append`] returns, without a
//! system call if the pool lies in NVM. The log itself is an ordinary file, which gets its records later.
//!
//! ```sh
//! seq 1000 | cargo run -p ondol-write-buffer --example wal -- /dev/shm/wal.pool /var/tmp append
//! cargo run -p ondol-write-buffer --example wal -- /dev/shm/wal.pool /var/tmp list
//! ```
//!
//! Kill it at any moment: the next run finds every record of which the number was printed. In `/dev/shm` the pool
//! survives the program, on a DAX file system or a disk a power failure, too.

use ondol_env::sync::Arc;
use ondol_env::{Background, Env, System};
use ondol_medium::{Nvm, NvmOptions, Pool, PoolSpec, Whose, crc32c};
use ondol_write_buffer::{Buffer, BufferError, DirectoryHome, File, Identity, Options, Shape};
use std::error::Error;
use std::io::{BufRead, Write};
use std::path::Path;

/// Bytes of a pool that is made.
const POOL: u64 = 32 << 20;

/// Bytes before each record: its length and its checksum.
const HEAD: usize = 8;

/// What may go wrong.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// An open log.
pub(crate) struct Wal {
    // The threads end before the buffer that they work for.
    _stages: Background<BufferError>,
    buffer: Buffer,
    log: File,
    end: u64,
}

impl Wal {
    /// Opens the log `wal` in `dir`, which always has the same pool. Returns all records, too.
    ///
    /// # Errors
    /// The pool is in use or damaged; the directory cannot be written to.
    pub(crate) fn open(pool: &Path, dir: &Path) -> Result<(Self, Vec<Vec<u8>>)> {
        let options = Options::default();
        let pool = open_pool(pool, &options.shape)?;
        // What an earlier run has left in the pool goes to the file here.
        let (buffer, _) = Buffer::open(&pool, Arc::new(DirectoryHome::new(dir)?), Arc::new(System), &options)?;
        let mut stages = Background::default();
        for step in buffer.steps() {
            stages.run(step)?;
        }
        let log = buffer.open_file(&Identity::new(b"wal")?, true)?;
        let mut bytes = vec![0; usize::try_from(log.size())?];
        let len = log.read_at(0, &mut bytes)?;
        let mut rest = &bytes[..len];
        let mut records = Vec::new();
        while let Some((record, behind)) = first(rest) {
            records.push(record.to_vec());
            rest = behind;
        }
        // Behind the last whole record there is, at most, one of which the append had not returned.
        let end = (len - rest.len()) as u64;
        log.set_len(end)?;
        Ok((Self { _stages: stages, buffer, log, end }, records))
    }

    /// Appends a record. Durable when it returns.
    ///
    /// # Errors
    /// The buffer is full and cannot be emptied, say because the disk is full.
    pub(crate) fn append(&mut self, record: &[u8]) -> Result<()> {
        let mut bytes = u32::try_from(record.len())?.to_le_bytes().to_vec();
        bytes.extend(crc32c(!0, &[record]).to_le_bytes());
        bytes.extend(record);
        self.log.write_at(self.end, &bytes)?;
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// Brings all records to the file, so that the pool is not needed any more.
    ///
    /// # Errors
    /// The file cannot be written: its records stay in the pool.
    pub(crate) fn close(self) -> Result<()> {
        Ok(self.buffer.settle()?)
    }
}

fn open_pool(path: &Path, shape: &Shape) -> Result<Pool> {
    // A pool says which bytes go into which files: nobody else's is believed.
    let mine = NvmOptions { whose: Whose::Mine, ..NvmOptions::default() };
    if !path.exists() {
        let new = path.with_extension("new");
        let spec = PoolSpec { uuid: System.random_uuid(), force: true, ..PoolSpec::default() };
        drop(Pool::create(Nvm::create(&new, POOL, &mine)?, &spec)?);
        std::fs::rename(new, path)?;
        // Without its name, what the pool holds is not found.
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::File::open(dir)?.sync_all()?;
    }
    let mut pool = Pool::open(Nvm::open(path, &mine)?)?;
    shape.allot(&mut pool)?;
    Ok(pool)
}

/// The first record and what is behind it; none if it is not whole.
fn first(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let word = |at: usize| head.iter().skip(at).take(4).rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
    let (record, rest) = rest.split_at_checked(word(0) as usize)?;
    (crc32c(!0, &[record]) == word(4)).then_some((record, rest))
}

/// What the program does: `append` takes a record from each line of `input` and says the number of each that is
/// durable, `list` says all records.
///
/// # Errors
/// As for the log; `input` or `output` fail.
pub(crate) fn run(words: &[&str], input: impl BufRead, mut output: impl Write) -> Result<()> {
    let [pool, dir, what] = words else { return Err("usage: wal POOL DIR append|list".into()) };
    let (mut wal, records) = Wal::open(Path::new(pool), Path::new(dir))?;
    match *what {
        "append" => {
            for (line, number) in input.lines().zip(records.len() + 1..) {
                wal.append(line?.as_bytes())?;
                writeln!(output, "{number}")?;
            }
        }
        "list" => records.iter().try_for_each(|record| writeln!(output, "{}", String::from_utf8_lossy(record)))?,
        what => return Err(format!("{what}: neither `append` nor `list`").into()),
    }
    wal.close()
}

#[allow(dead_code, reason = "the test that shares this file has its own")]
fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    run(&words, std::io::stdin().lock(), std::io::stdout().lock())
}
