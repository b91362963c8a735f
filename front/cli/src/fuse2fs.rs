//! The command line of fuse2fs, for programs that call that: its options, and exit codes as e2fsprogs 1.47.4 has them.

use crate::failure::{Failure, MOUNT, Outcome, SYSTEM};
use crate::mount::Codes;
use crate::options::Wishes;
use crate::{background, called, mount};
use clap::{CommandFactory, Parser};
use ondol::parse_size;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The command line makes no sense, or was a question for help.
pub(crate) const USAGE: u8 = 1;

const CODES: Codes = Codes { image: 2, point: USAGE };

/// The version whose command line and exit codes these are, where callers look for it.
const VERSION: &str = "1.47.4";

const HELP: &str = "\
Options of fuse2fs:
    -o ro, rw              mount for reading only, or for writing
    -o offset=BYTES        the image begins with this byte of the device
    -o norecovery          do not replay the journal; for reading only
    -o fakeroot            nobody checks permissions
    -o kernel              allow_other,default_permissions,suid,dev
    -o minixdf, bsddf      whether statfs(2) counts the file system's own blocks
    -o cache_size=SIZE     memory for blocks
    -o lockfile=FILE       a file that is there as long as the mount
    -o uid=N, gid=N, umask=OCTAL
                           the owner, group and mode that files are shown with
All other options that `ondol mount --help` names are taken, too.";

/// Mount an ext4 image or device, as fuse2fs does
#[derive(Debug, Parser)]
#[command(name = "fuse2fs", disable_help_flag = true, disable_version_flag = true, args_override_self = true)]
#[command(max_term_width = 100, after_help = HELP)]
pub(crate) struct Fuse2fs {
    /// Mount options, separated by commas
    #[arg(short = 'o', value_name = "OPTIONS", allow_hyphen_values = true)]
    options: Vec<String>,
    /// Serve in the foreground
    #[arg(short = 'f')]
    foreground: bool,
    /// Serve in the foreground, and log more
    #[arg(short = 'd')]
    debug: bool,
    /// Serve with one thread
    #[arg(short = 's')]
    single: bool,
    /// Mount for reading only
    #[arg(short = 'r')]
    read_only: bool,
    /// Print help
    #[arg(short = 'h', long, alias = "helpfull")]
    help: bool,
    /// Print the version
    #[arg(short = 'V', long)]
    version: bool,
    /// Image file or block device
    device: Option<PathBuf>,
    /// Where to mount it
    point: Option<PathBuf>,
}

/// What an option means here, where that is something else than with `ondol mount`, or it means nothing there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// It stands for these.
    Means(&'static str),
    /// It is the size of the cache.
    Cache,
    /// It is the path of a lock file.
    LockFile,
    /// Nothing has to be done for it.
    Ignored,
}

/// All of them, in the order of `docs/commands.md`. A name that ends with `=` takes any value.
const OPTIONS: &[(&[&str], Answer)] = &[
    (&["norecovery", "noload"], Answer::Means("norecovery,ro")),
    (&["kernel"], Answer::Means(KERNEL)),
    (&["debug", "fuse2fs_debug"], Answer::Means("log_level=debug")),
    (&["errors=panic"], Answer::Means("errors=remount-ro")),
    (&["cache_size="], Answer::Cache),
    (&["lockfile="], Answer::LockFile),
    (&["noacl", "direct_io", "subtype=", "max_write="], Answer::Ignored),
];

/// What `kernel` means, before all that others say.
const KERNEL: &str = "allow_other,default_permissions,suid,dev";

/// Mounts, unless help or the version is asked for.
pub(crate) fn fuse2fs(args: &Fuse2fs) -> Outcome {
    if args.help {
        eprint!("{}", Fuse2fs::command().render_help());
        return Ok(ExitCode::from(USAGE));
    }
    if args.version {
        eprintln!("fuse2fs {VERSION} (its command line, taken by ondol {})", env!("CARGO_PKG_VERSION"));
        return Ok(ExitCode::SUCCESS);
    }
    let missing = |what: &str| Failure::new(USAGE, format!("{what} is missing: `fuse2fs -h` says more"));
    let device = args.device.as_deref().ok_or_else(|| missing("the device or image"))?;
    let point = args.point.as_deref().ok_or_else(|| missing("the mount point"))?;
    if let Some(offset) = preloaded(device) {
        return Err(again(&offset));
    }
    let list = args.options.join(",");
    let is_on = |option: &str| list.split(',').any(|word| word == option);
    let foreground = args.foreground || args.debug || is_on("debug");
    let mut flags = Vec::new();
    // Callers take what is on standard error for what went wrong.
    if foreground && !crate::log::is_told() {
        flags.push("log_level=warn");
    }
    for (given, word) in [(args.debug, "debug"), (args.single, "max_threads=1"), (args.read_only, "ro")] {
        flags.extend(given.then_some(word));
    }
    let (words, lock) = translated(flags.into_iter().chain(list.split(','))).map_err(Failure::with(USAGE))?;
    let wishes = Wishes::read(&[words], false)?;
    let serves = foreground || background::is_child();
    let _lock = lock.filter(|_| serves).map(LockFile::make).transpose()?;
    mount::in_place_of(device, point, wishes, foreground, CODES)
}

/// The words in Ondol's terms, and the path of the lock file.
///
/// # Errors
/// A value makes no sense.
fn translated<'w>(words: impl Iterator<Item = &'w str>) -> Result<(String, Option<&'w Path>), String> {
    let (mut list, mut lock) = (Vec::new(), None);
    for word in words {
        let value = word.split_once('=').map_or("", |(_, value)| value);
        match answer(word) {
            None => list.push(word.to_owned()),
            Some(Answer::Means(KERNEL)) => list.insert(0, KERNEL.into()),
            Some(Answer::Means(words)) => list.push(words.into()),
            Some(Answer::Cache) => list.push(format!("cache={}", cache(value)?)),
            Some(Answer::LockFile) => lock = Some(Path::new(value)),
            Some(Answer::Ignored) => {}
        }
    }
    Ok((list.join(","), lock))
}

fn answer(word: &str) -> Option<Answer> {
    let with_any = word.find('=').and_then(|at| word.get(..=at));
    let find = |wanted: &str| OPTIONS.iter().find(|(names, _)| names.contains(&wanted)).map(|(_, answer)| *answer);
    find(word).or_else(|| with_any.and_then(find))
}

/// Bytes of the cache: as many as fuse2fs is told, but no fewer than a mount takes.
fn cache(value: &str) -> Result<u64, String> {
    const LEAST: u64 = 4 << 20;
    let size = parse_size(value).filter(|size| (1..1 << 31).contains(size));
    size.map(|size| size.max(LEAST)).ok_or_else(|| format!("cache_size={value}: it must be a size below 2G, as in 32M"))
}

/// A file that is there as long as the mount, so that others keep away.
struct LockFile(PathBuf);

impl LockFile {
    /// # Errors
    /// It is there already, or cannot be made.
    fn make(path: &Path) -> Result<Self, Failure> {
        let made = OpenOptions::new().read(true).write(true).create_new(true).mode(0o400).open(path);
        // A server in the background has another working directory in the end.
        let made = made.and_then(|_| path.canonicalize());
        made.map(Self).map_err(|e| Failure::new(MOUNT, format!("cannot make the lock file {}: {e}", path.display())))
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        if let Err(e) = std::fs::remove_file(&self.0) {
            tracing::warn!("the lock file {} stays: {e}", self.0.display());
        }
    }
}

/// Variables of a library that Apptainer puts before libc, which adds an offset wherever the device is read or written.
/// It does not know all the ways in which this program reads and writes.
const PRELOADED: [&str; 3] = ["LD_PRELOAD", "OFFSETPRELOAD_FILE", "OFFSETPRELOAD_OFFSET"];

/// The offset that such a library is to add, as an option.
fn preloaded(device: &Path) -> Option<OsString> {
    let [_, file, offset] = PRELOADED.map(std::env::var_os);
    let mut word = OsString::from("offset=");
    word.push(offset?);
    (file? == device).then_some(word)
}

/// Begins anew, without the library and with the option; answers only if that fails.
fn again(offset: &OsString) -> Failure {
    let mut command = Command::new("/proc/self/exe");
    command.arg0(called::first_word()).args(std::env::args_os().skip(1)).arg("-o").arg(offset);
    for name in PRELOADED {
        command.env_remove(name);
    }
    Failure::new(SYSTEM, command.exec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documents_have_the_same_table() {
        let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/commands.md")).unwrap();
        let (_, section) = text.split_once("\n### fuse2fs\n").expect("a section");
        let rows = section.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
        let listed: Vec<&str> = rows.map_while(|row| row.strip_prefix("| ")?.split(" | ").next()).collect();
        let names = OPTIONS.iter().map(|(names, _)| format!("`{}`", names.join("`, `")));
        assert_eq!(listed, names.collect::<Vec<_>>());
    }

    #[test]
    fn fuse2fs_words_become_ondols() {
        let told = |list: &str| translated(list.split(',')).map(|(words, lock)| (words, lock.map(Path::to_owned)));
        let words = |list: &str| told(list).unwrap().0;
        assert_eq!(words("rw,fakeroot,errors=continue"), "rw,fakeroot,errors=continue");
        assert_eq!(words("nosuid,kernel"), format!("{KERNEL},nosuid"));
        assert_eq!(words("noacl,noload,subtype=x"), "norecovery,ro");
        assert_eq!(words("cache_size=8k"), "cache=4194304");
        assert_eq!(words("cache_size=32M"), "cache=33554432");
        assert_eq!(told("lockfile=/a/b").unwrap().1.as_deref(), Some(Path::new("/a/b")));
        for wrong in ["cache_size=", "cache_size=0", "cache_size=2G", "cache_size=x"] {
            assert!(told(wrong).unwrap_err().contains(wrong), "{wrong}");
        }
    }
}
