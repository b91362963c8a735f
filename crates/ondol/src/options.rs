//! Mount options: ext4's words with ext4's meaning, and few of our own.

use ondol_volume::{Atime, DataMode, OnError};

/// How a volume is opened. See `mount -o` in the README for the words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub(crate) read_only: bool,
    pub(crate) recovery: bool,
    pub(crate) data: Option<DataMode>,
    pub(crate) on_error: Option<OnError>,
    pub(crate) commit_seconds: u64,
    pub(crate) dirty_bytes: u64,
    pub(crate) cache_bytes: u64,
    /// What `cache_bytes` gives unless it is set.
    pub(crate) cached_inodes: Option<usize>,
    pub(crate) atime: Atime,
    pub(crate) nodiratime: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            read_only: false,
            recovery: true,
            data: None,
            on_error: None,
            commit_seconds: 5,
            dirty_bytes: 32 << 20,
            cache_bytes: 128 << 20,
            cached_inodes: None,
            atime: Atime::Relative,
            nodiratime: false,
        }
    }
}

/// An option that cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// There is no such option.
    #[error("unknown mount option `{0}`")]
    Unknown(String),
    /// The option does not take this value.
    #[error("mount option `{option}`: `{value}` is not one of {allowed}")]
    Value {
        /// The option's name.
        option: &'static str,
        /// What was given.
        value: String,
        /// What it takes.
        allowed: &'static str,
    },
    /// The option exists in the design and is not built yet.
    #[error("mount option `{0}` is not built yet")]
    NotBuilt(String),
}

/// The least memory that `cache=` takes, in bytes.
const MIN_CACHE: u64 = 4 << 20;

impl Options {
    /// Reads a comma-separated list of options over the defaults; later ones win.
    ///
    /// # Errors
    /// Unknown options, bad values, and options that are not built yet, by name.
    pub fn parse(list: &str) -> Result<Self, OptionError> {
        let mut options = Self::default();
        for word in list.split(',').map(str::trim).filter(|w| !w.is_empty()) {
            options.apply(word)?;
        }
        Ok(options)
    }

    /// Whether the volume is opened for reading only.
    pub fn read_only(&self) -> bool {
        self.read_only
    }

    /// Opens for reading only.
    #[must_use]
    pub fn with_read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// Chooses the data mode.
    #[must_use]
    pub fn with_data(mut self, data: DataMode) -> Self {
        self.data = Some(data);
        self
    }

    /// Chooses what happens when corruption is found.
    #[must_use]
    pub fn with_on_error(mut self, on_error: OnError) -> Self {
        self.on_error = Some(on_error);
        self
    }

    /// The data mode that was chosen; `None` for the image's own.
    pub fn data(&self) -> Option<DataMode> {
        self.data
    }

    /// Bounds the memory for cached and uncommitted blocks, in bytes. The option `cache=` takes 4 MiB or more; less makes
    /// sense where caches are to be left and entered often.
    #[must_use]
    pub fn with_cache(mut self, bytes: u64) -> Self {
        self.cache_bytes = bytes;
        self
    }

    /// Keeps up to `count` inodes in memory that nobody uses, instead of what the cache has room for.
    #[must_use]
    pub fn with_cached_inodes(mut self, count: usize) -> Self {
        self.cached_inodes = Some(count);
        self
    }

    /// Commits by itself what is `seconds` old.
    #[must_use]
    pub fn with_commit_seconds(mut self, seconds: u64) -> Self {
        self.commit_seconds = seconds;
        self
    }

    /// Whether reading changes access times, as `relatime`.
    #[must_use]
    pub fn with_atime(mut self, atime: bool) -> Self {
        self.atime = if atime { Atime::Relative } else { Atime::Never };
        self
    }

    fn apply(&mut self, word: &str) -> Result<(), OptionError> {
        let (name, value) = word.split_once('=').map_or((word, None), |(n, v)| (n, Some(v)));
        match (name, value) {
            ("ro", None) => self.read_only = true,
            ("rw", None) => self.read_only = false,
            ("norecovery" | "noload", None) => self.recovery = false,
            ("noatime", None) => self.atime = Atime::Never,
            ("relatime" | "atime", None) => self.atime = Atime::Relative,
            ("strictatime", None) => self.atime = Atime::Always,
            ("nodiratime", None) => self.nodiratime = true,
            ("diratime", None) => self.nodiratime = false,
            ("data", Some(v)) => self.data = Some(data_mode(v)?),
            ("errors", Some(v)) => self.on_error = Some(on_error(v)?),
            ("journal", Some(v)) => journal(v)?,
            ("fsync", Some("prefix")) => {}
            ("fsync", Some("file")) => return Err(OptionError::NotBuilt("fsync=file".into())),
            ("fsync", Some(v)) => return Err(bad("fsync", v, "prefix, file")),
            ("nvm" | "buffer" | "checkpoint_threads", Some(_)) => return Err(OptionError::NotBuilt(name.into())),
            ("commit", Some(v)) => self.commit_seconds = seconds(v)?,
            ("dirty", Some(v)) => self.dirty_bytes = size("dirty", v)?.max(64 << 10),
            ("cache", Some(v)) => self.cache_bytes = size("cache", v)?.max(MIN_CACHE),
            _ => return Err(OptionError::Unknown(word.into())),
        }
        Ok(())
    }
}

fn bad(option: &'static str, value: &str, allowed: &'static str) -> OptionError {
    OptionError::Value { option, value: value.into(), allowed }
}

fn data_mode(v: &str) -> Result<DataMode, OptionError> {
    match v {
        "writeback" => Ok(DataMode::Writeback),
        "ordered" => Ok(DataMode::Ordered),
        "journal" => Ok(DataMode::Journal),
        _ => Err(bad("data", v, "writeback, ordered, journal")),
    }
}

fn on_error(v: &str) -> Result<OnError, OptionError> {
    match v {
        "continue" => Ok(OnError::Continue),
        "remount-ro" => Ok(OnError::RemountReadOnly),
        _ => Err(bad("errors", v, "continue, remount-ro")),
    }
}

fn journal(v: &str) -> Result<(), OptionError> {
    match v {
        "classic" => Ok(()),
        "compressed" | "swap" | "scalable" | "remap" => Err(OptionError::NotBuilt(format!("journal={v}"))),
        _ => Err(bad("journal", v, "classic, compressed, swap, scalable, remap")),
    }
}

/// ext4 reads `commit=0` as its default.
fn seconds(v: &str) -> Result<u64, OptionError> {
    let n: u64 = v.parse().map_err(|_| bad("commit", v, "a number of seconds"))?;
    Ok(if n == 0 { 5 } else { n })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_options_win_and_ext4_words_keep_their_meaning() {
        let o = Options::parse("data=journal,ro,rw,commit=0,dirty=1M,errors=continue,noload,noatime").unwrap();
        assert_eq!(
            (o.data, o.read_only, o.commit_seconds, o.dirty_bytes),
            (Some(DataMode::Journal), false, 5, 1 << 20)
        );
        assert_eq!((o.on_error, o.recovery, o.atime), (Some(OnError::Continue), false, Atime::Never));
    }

    #[test]
    fn what_cannot_be_taken_is_refused_by_name() {
        assert_eq!(Options::parse("sparkle"), Err(OptionError::Unknown("sparkle".into())));
        assert_eq!(Options::parse("journal=remap"), Err(OptionError::NotBuilt("journal=remap".into())));
        assert!(Options::parse("data=fast").unwrap_err().to_string().contains("ordered"));
        assert!(Options::parse("nvm=/dev/shm/p").unwrap_err().to_string().contains("nvm"));
    }

    #[test]
    fn sizes_have_binary_suffixes() {
        assert_eq!(parse_size("4G"), Some(4 << 30));
        assert_eq!(parse_size("512"), Some(512));
        assert_eq!(parse_size("1MiB"), Some(1 << 20));
        assert_eq!(parse_size("99999999T"), None);
        assert_eq!(parse_size("x"), None);
    }
}
