//! One option at a time, as it is written.

use super::{MIN_CACHE, OptionError, Options};
use crate::bucket::Durable;
use ondol_volume::{Atime, Fsync, OnError};

/// The most that `checkpoint_threads=` takes.
const MOST_THREADS: usize = 64;

/// The names of all options that are built, for those who look for the one that was meant; `=` follows a name that
/// takes a value.
pub const OPTION_NAMES: [&str; 33] = [
    "ro",
    "rw",
    "norecovery",
    "noload",
    "noatime",
    "relatime",
    "atime",
    "strictatime",
    "diratime",
    "nodiratime",
    "discard",
    "nodiscard",
    "grpid",
    "bsdgroups",
    "nogrpid",
    "sysvgroups",
    "journal_path=",
    "nvm=",
    "nvm_model=",
    "sb=",
    "data=",
    "errors=",
    "journal=",
    "journal_size=",
    "fsync=",
    "commit=",
    "dirty=",
    "device=",
    "cache=",
    "checkpoint_threads=",
    "buffer=",
    "zeroing",
    "nozeroing",
];

/// The names of those that only volumes in object storage have.
pub const BUCKET_OPTION_NAMES: [&str; 12] = [
    "take_over",
    "lease=",
    "store_timeout=",
    "store_cache=",
    "durable=",
    "redo=",
    "redo_size=",
    "lag=",
    "lag_seconds=",
    "give_up=",
    "disk_cache=",
    "disk_cache_size=",
];

impl Options {
    pub(super) fn apply(&mut self, word: &str) -> Result<(), OptionError> {
        let (name, value) = word.split_once('=').map_or((word, None), |(n, v)| (n, Some(v)));
        match (name, value) {
            ("ro", None) => self.image.read_only = true,
            ("rw", None) => self.image.read_only = false,
            ("norecovery" | "noload", None) => self.image.recovery = false,
            ("noatime", None) => self.image.atime = Some(Atime::Never),
            ("relatime" | "atime", None) => self.image.atime = Some(Atime::Relative),
            ("strictatime", None) => self.image.atime = Some(Atime::Always),
            ("nodiratime", None) => self.image.nodiratime = Some(true),
            ("diratime", None) => self.image.nodiratime = Some(false),
            ("discard", None) => self.image.discard = Some(true),
            ("nodiscard", None) => self.image.discard = Some(false),
            ("grpid" | "bsdgroups", None) => self.image.grpid = Some(true),
            ("nogrpid" | "sysvgroups", None) => self.image.grpid = Some(false),
            ("nvm", Some(v)) => self.pool.path = Some(v.into()),
            ("nvm_model", Some(v)) => {
                self.pool.model =
                    v.parse().map_err(|_| bad("nvm_model", v, "read=300ns+write=100ns+bandwidth=2G, or off"))?
            }
            ("journal_path", Some(v)) => self.image.journal_path = Some(v.into()),
            ("sb", Some(v)) => self.image.superblock = Some(copy_offset(v)?),
            ("data", Some(v)) => {
                self.journal.data = Some(v.parse().map_err(|_| bad("data", v, "writeback, ordered or journal"))?)
            }
            ("errors", Some(v)) => self.image.on_error = Some(on_error(v)?),
            ("journal", Some(v)) => {
                self.journal.engine = Some(
                    v.parse().map_err(|_| bad("journal", v, "classic, compressed, swap, scalable, remap or batch"))?,
                )
            }
            ("journal_size", Some(v)) => self.journal.size = Some(size("journal_size", v)?),
            ("zeroing", None) => self.journal.zeroing = Some(true),
            ("nozeroing", None) => self.journal.zeroing = Some(false),
            ("fsync", Some("prefix")) => self.journal.fsync = Fsync::Prefix,
            ("fsync", Some("file")) => self.journal.fsync = Fsync::File,
            ("fsync", Some(v)) => return Err(bad("fsync", v, "prefix or file")),
            ("commit", Some(v)) => self.journal.commit_seconds = Some(seconds(v)?),
            ("dirty", Some(v)) => self.journal.dirty_bytes = Some(size("dirty", v)?.max(64 << 10)),
            ("device", Some(v)) => {
                self.journal.device = Some(v.parse().map_err(|_| bad("device", v, "memory, ssd or disk"))?)
            }
            ("buffer", Some(v)) => self.pool.buffer = Some(size("buffer", v)?),
            ("checkpoint_threads", Some(v)) => self.journal.checkpoint_threads = Some(threads(v)?),
            ("take_over", None) => self.bucket.take_over = true,
            ("lease", Some(v)) => self.bucket.lease = Some(lease(v)?),
            ("store_timeout", Some(v)) => {
                self.bucket.timeout = Some(v.parse().map_err(|_| bad("store_timeout", v, "a number of seconds"))?)
            }
            ("store_cache", Some(v)) => self.bucket.cache = Some(size("store_cache", v)?),
            ("durable", Some("remote")) => self.bucket.durable = Some(Durable::Remote),
            ("durable", Some("local")) => self.bucket.durable = Some(Durable::Local),
            ("durable", Some(v)) => return Err(bad("durable", v, "remote or local")),
            ("redo", Some(v)) => self.bucket.redo = Some(v.into()),
            ("redo_size", Some(v)) => self.bucket.redo_size = Some(size("redo_size", v)?),
            ("lag", Some(v)) => self.bucket.lag = Some(size("lag", v)?),
            ("lag_seconds", Some(v)) => self.bucket.lag_seconds = Some(lag_seconds(v)?),
            ("give_up", Some(v)) => {
                self.bucket.give_up.push(uuid(v).ok_or_else(|| bad("give_up", v, "the UUID of a log"))?)
            }
            ("disk_cache", Some(v)) => self.bucket.disk_cache = Some(v.into()),
            ("disk_cache_size", Some(v)) => self.bucket.disk_cache_size = Some(size("disk_cache_size", v)?),
            ("cache", Some(v)) => self.image.cache_bytes = size("cache", v)?.max(MIN_CACHE),
            _ => return Err(OptionError::Unknown(word.into())),
        }
        Ok(())
    }
}

fn bad(option: &'static str, value: &str, expected: &'static str) -> OptionError {
    OptionError::Value { option, value: value.into(), expected }
}

fn on_error(v: &str) -> Result<OnError, OptionError> {
    match v {
        "continue" => Ok(OnError::Continue),
        "remount-ro" => Ok(OnError::RemountReadOnly),
        _ => Err(bad("errors", v, "remount-ro or continue; a server cannot make the machine panic")),
    }
}

/// ext4's `sb=` counts in units of 1 KiB.
fn copy_offset(v: &str) -> Result<u64, OptionError> {
    let n: Option<u64> = v.parse().ok();
    n.and_then(|n| n.checked_mul(1024))
        .ok_or_else(|| bad("sb", v, "the place of a copy of the superblock, in units of 1 KiB"))
}

/// ext4 reads `commit=0` as its default.
fn seconds(v: &str) -> Result<u64, OptionError> {
    let n: u64 = v.parse().map_err(|_| bad("commit", v, "a number of seconds"))?;
    Ok(if n == 0 { 5 } else { n })
}

/// A shorter lease would run out between two renewals that the store answers slowly.
fn lease(v: &str) -> Result<u64, OptionError> {
    let n: Option<u64> = v.parse().ok();
    n.filter(|n| (3..=86400).contains(n)).ok_or_else(|| bad("lease", v, "a number of seconds from 3 to 86400"))
}

fn lag_seconds(v: &str) -> Result<u64, OptionError> {
    let n: Option<u64> = v.parse().ok();
    n.filter(|n| (1..=86400).contains(n)).ok_or_else(|| bad("lag_seconds", v, "a number of seconds from 1 to 86400"))
}

fn uuid(v: &str) -> Option<[u8; 16]> {
    let digits: Vec<u32> = v.chars().filter(|c| *c != '-').map(|c| c.to_digit(16)).collect::<Option<_>>()?;
    let bytes: Vec<u8> = digits.chunks_exact(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect();
    if digits.len() == 32 { bytes.try_into().ok() } else { None }
}

fn threads(v: &str) -> Result<usize, OptionError> {
    let n: Option<usize> = v.parse().ok();
    n.filter(|n| (1..=MOST_THREADS).contains(n)).ok_or_else(|| bad("checkpoint_threads", v, "a number from 1 to 64"))
}

fn size(option: &'static str, v: &str) -> Result<u64, OptionError> {
    parse_size(v).ok_or_else(|| bad(option, v, "a size such as 64M"))
}

/// Reads a size in bytes: a number with an optional binary suffix K, M, G or T (or KiB, MiB, …).
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, suffix) = text.split_at(digits);
    let shift = match suffix.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}
