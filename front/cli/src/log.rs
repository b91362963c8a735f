//! Where messages go: standard error; or, from a server in the background, the file that `log=` names, the system's
//! log, the kernel's, or a file of the user's. Never to nowhere: where none of them can be opened, there is no such
//! server.

mod limit;

use limit::Limit;
use ondol::printable;
use std::fmt::{self, Write as _};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, PoisonError};
use std::time::Duration;
use tracing::callsite::Identifier;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::{DefaultFields, Format, Writer};
use tracing_subscriber::fmt::{self as shown, FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

/// The variable that says how much is logged, as in `debug` or `ondol_fuse=trace`.
const VARIABLE: &str = "ONDOL_LOG";

/// What a server logs unless somebody says otherwise: errors and warnings, how mounts begin and end, and whom a volume
/// in object storage was taken from.
const OF_SERVERS: &str = "warn,ondol::mount=info,ondol_object_home=info";
/// What other commands do: what went wrong they say themselves, in one line.
const OF_COMMANDS: &str = "off";

/// Messages go to a log that knows priorities and adds the time itself.
static FOR_SYSTEM: AtomicBool = AtomicBool::new(false);
/// Messages are for who has just called a command.
static FOR_CALLER: AtomicBool = AtomicBool::new(false);

/// How much is said
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Verbosity {
    /// Log more, to standard error or where a server logs: what is done (-v), how (-vv), everything (-vvv)
    #[arg(short = 'v', long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// How much is logged: error, warn, info, debug or trace; or by part, as in warn,ondol_fuse=debug
    #[arg(long, global = true, value_name = "LEVEL", value_parser = level)]
    pub(crate) log_level: Option<String>,
}

impl Verbosity {
    /// What was asked for, if anything was.
    pub(crate) fn asked(&self) -> Option<String> {
        let by_count = match self.verbose {
            0 => None,
            1 => Some("info"),
            2 => Some("debug"),
            _ => Some("trace"),
        };
        self.log_level.clone().or_else(|| by_count.map(str::to_owned))
    }
}

/// Reads what `--log-level` or the mount option `log_level=` says: a level, or levels of parts.
///
/// # Errors
/// A sentence for the user.
pub(crate) fn level(text: &str) -> Result<String, String> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    let is_part =
        |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"_:".contains(&b));
    let is_known = |word: &str| match word.split_once('=') {
        Some((part, level)) => is_part(part) && LEVELS.contains(&level),
        None => LEVELS.contains(&word),
    };
    if text.split(',').all(is_known) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "`{text}` is no log level: choose error, warn, info, debug or trace, or levels of parts, as in \
         warn,ondol_fuse=debug"
    ))
}

/// Sends messages of a server to standard error: as many as were asked for, or as the variable says.
pub(crate) fn to_stderr(asked: Option<String>) {
    begin(asked, OF_SERVERS);
}

/// The same of a command that serves nothing.
pub(crate) fn to_caller(asked: Option<String>) {
    FOR_CALLER.store(true, Ordering::Relaxed);
    begin(asked, OF_COMMANDS);
}

/// Whether the variable says how much is logged.
pub(crate) fn is_told() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

fn begin(asked: Option<String>, usual: &str) {
    let asked = asked.or_else(|| std::env::var(VARIABLE).ok()).unwrap_or_else(|| usual.to_owned());
    let filter = asked.parse::<Targets>();
    let wrong = filter.as_ref().err().map(ToString::to_string);
    let filter = filter.unwrap_or_else(|_| usual.parse().unwrap_or_default());
    let lines = shown::layer().with_writer(io::stderr).with_ansi(false).event_format(Lines).fmt_fields(Shown);
    tracing_subscriber::registry().with(filter).with(lines).init();
    if let Some(wrong) = wrong {
        // The usual filter of a command would pass over a warning, too.
        failure("ondol", &printable(format!("warning: {VARIABLE}={asked} is passed over: {wrong}").as_bytes()));
    }
}

/// Says why the program ends, in one write: to a log each write is a message.
pub(crate) fn failure(name: &str, message: &str) {
    if FOR_SYSTEM.load(Ordering::Relaxed) {
        tracing::error!("{message}");
    } else {
        // Nothing is left to do where even this cannot be written.
        let _ = io::stderr().write_all(format!("{name}: {message}\n").as_bytes());
    }
}

/// An open log of a server in the background.
#[derive(Debug)]
pub(crate) struct Log {
    to: OwnedFd,
    /// It is the system's or the kernel's.
    of_system: bool,
}

impl Log {
    /// Opens the file `named`, to add to it, or else the first of the usual places that can be opened.
    ///
    /// # Errors
    /// A sentence for the user.
    pub(crate) fn open(named: Option<&Path>) -> Result<Self, String> {
        match named {
            Some(path) => {
                let file = OpenOptions::new().create(true).append(true).open(path);
                let file = file.map_err(|e| format!("cannot open the log {}: {e}", path.display()))?;
                Ok(Self { to: file.into(), of_system: false })
            }
            None => Places::here().open(),
        }
    }

    /// Points standard error at the log; standard output and input at nothing.
    ///
    /// # Errors
    /// `/dev/null` cannot be opened.
    pub(crate) fn take_over(&self) -> io::Result<()> {
        let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
        rustix::stdio::dup2_stdin(&null)?;
        rustix::stdio::dup2_stdout(&null)?;
        rustix::stdio::dup2_stderr(&self.to)?;
        FOR_SYSTEM.store(self.of_system, Ordering::Relaxed);
        Ok(())
    }
}

/// Where messages can go when no file is named, best first.
struct Places {
    /// syslog(3)'s socket; the journal listens there, too.
    system: PathBuf,
    /// The kernel's log, which root may write to.
    kernel: PathBuf,
    /// The user's own files.
    files: Vec<PathBuf>,
}

impl Places {
    fn here() -> Self {
        let directory = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let state = directory("XDG_STATE_HOME");
        let homes = state.into_iter().chain(directory("HOME").map(|home| home.join(".local/state")));
        let mut files: Vec<PathBuf> = homes.map(|home| home.join("ondol/log")).collect();
        let user = rustix::process::geteuid().as_raw();
        files.push(std::env::temp_dir().join(format!("ondol-{user}.log")));
        Self { system: "/dev/log".into(), kernel: "/dev/kmsg".into(), files }
    }

    fn open(&self) -> Result<Log, String> {
        let system = socket(&self.system).or_else(|_| Ok(OpenOptions::new().write(true).open(&self.kernel)?.into()));
        if let Ok(to) = system.map_err(|_: io::Error| ()) {
            return Ok(Log { to, of_system: true });
        }
        let file = self.files.iter().find_map(|path| own_file(path).ok());
        let tried: Vec<String> = self.files.iter().map(|path| path.display().to_string()).collect();
        let (system, kernel, tried) = (self.system.display(), self.kernel.display(), tried.join(", "));
        let none = || format!("there is no log for messages ({system}, {kernel}, {tried}): name one with -o log=FILE");
        Ok(Log { to: file.ok_or_else(none)?.into(), of_system: false })
    }
}

/// Each write becomes one message.
fn socket(path: &Path) -> io::Result<OwnedFd> {
    let socket = UnixDatagram::unbound()?;
    socket.connect(path)?;
    Ok(socket.into())
}

/// A file that belongs to this user, which others may not have put there.
fn own_file(path: &Path) -> io::Result<File> {
    if let Some(dir) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    let no_link = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let file = OpenOptions::new().create(true).append(true).mode(0o600).custom_flags(no_link).open(path)?;
    let found = file.metadata()?;
    let own = found.is_file() && found.uid() == rustix::process::geteuid().as_raw();
    if own { Ok(file) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

/// What is said, on one line and as text: names and paths in it may hold anything.
struct Shown;

impl<'w> FormatFields<'w> for Shown {
    fn format_fields<R: RecordFields>(&self, mut to: Writer<'w>, fields: R) -> fmt::Result {
        let mut text = String::new();
        DefaultFields::new().format_fields(Writer::new(&mut text), fields)?;
        write!(to, "{}", printable(text.as_bytes()))
    }
}

/// How often each place in the program has said something.
#[allow(clippy::disallowed_types, reason = "messages are no part of what is scheduled")]
static LIMIT: LazyLock<std::sync::Mutex<Limit<Identifier>>> = LazyLock::new(Default::default);

/// How many messages like this one were left out before it; none if it is to be left out, too. What is said for who
/// looks for a mistake is never too much.
fn left_out(event: &Event<'_>) -> Option<u64> {
    if *event.metadata().level() > Level::INFO {
        return Some(0);
    }
    LIMIT.lock().unwrap_or_else(PoisonError::into_inner).admits(event.metadata().callsite(), now())
}

/// The monotonic clock.
pub(crate) fn now() -> Duration {
    Duration::try_from(rustix::time::clock_gettime(rustix::time::ClockId::Monotonic)).unwrap_or_default()
}

/// Lines with time and level; for the system's log with a priority and a name instead.
struct Lines;

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let level = *event.metadata().level();
        if FOR_CALLER.load(Ordering::Relaxed) {
            write!(to, "ondol: {}", prefix(level))?;
            context.format_fields(to.by_ref(), event)?;
            return writeln!(to);
        }
        let Some(left_out) = left_out(event) else { return Ok(()) };
        let mut line = String::new();
        if FOR_SYSTEM.load(Ordering::Relaxed) {
            write!(line, "<{}>ondol[{}]: ", priority(level), std::process::id())?;
            context.format_fields(Writer::new(&mut line), event)?;
        } else {
            Format::default().with_ansi(false).format_event(context, Writer::new(&mut line), event)?;
        }
        let more = if left_out > 0 {
            format!(" ({left_out} messages like this were left out before it)")
        } else {
            String::new()
        };
        writeln!(to, "{}{more}", line.trim_end_matches('\n'))
    }
}

/// What a command says before a message.
fn prefix(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error: ",
        Level::WARN => "warning: ",
        Level::INFO => "",
        Level::DEBUG => "debug: ",
        Level::TRACE => "trace: ",
    }
}

/// syslog(3)'s number for a daemon's message.
fn priority(level: Level) -> u8 {
    const DAEMON: u8 = 3 << 3;
    DAEMON
        + match level {
            Level::ERROR => 3,
            Level::WARN => 4,
            Level::INFO => 6,
            _ => 7,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(log: &Log) -> bool {
        File::from(log.to.try_clone().unwrap()).write_all(b"<30>ondol[1]: text\n").is_ok()
    }

    #[test]
    fn there_is_always_a_place_or_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let places = Places { system: at("log"), kernel: at("kmsg"), files: vec![at("x/y"), at("last")] };
        // The user's first file, whose directory is made; then, when that cannot be had, the next.
        let log = places.open().unwrap();
        assert!(!log.of_system && written(&log));
        assert_eq!(std::fs::read(at("x/y")).unwrap(), b"<30>ondol[1]: text\n");
        assert_eq!(at("x/y").metadata().unwrap().mode() & 0o077, 0);
        std::fs::remove_file(at("x/y")).unwrap();
        std::os::unix::fs::symlink(at("elsewhere"), at("x/y")).unwrap();
        assert!(written(&places.open().unwrap()) && at("last").exists() && !at("elsewhere").exists());
        std::fs::remove_file(at("last")).unwrap();
        std::fs::create_dir(at("last")).unwrap();
        let said = places.open().unwrap_err();
        assert!(said.contains("-o log=FILE") && said.contains("last"), "{said}");
        // The kernel's log before files, the system's before the kernel's.
        File::create(at("kmsg")).unwrap();
        let log = places.open().unwrap();
        assert!(log.of_system && written(&log) && at("kmsg").metadata().unwrap().len() > 0);
        let system = UnixDatagram::bind(at("log")).unwrap();
        assert!(written(&places.open().unwrap()));
        let mut message = [0; 64];
        let len = system.recv(&mut message).unwrap();
        assert_eq!(&message[..len], b"<30>ondol[1]: text\n");
    }

    #[test]
    fn levels_are_words_of_the_log_and_nothing_else() {
        for known in ["error", "trace", "warn,ondol_fuse=debug", "ondol::mount=info", "off"] {
            assert_eq!(level(known).as_deref(), Ok(known));
            known.parse::<Targets>().unwrap();
        }
        for wrong in ["", "sparkle", "warn,", "warn,ondol_fuse", "ondol_fuse=loud", "[x]=info", "=info"] {
            assert!(level(wrong).is_err_and(|said| said.contains("no log level")), "{wrong}");
        }
        let asked =
            |verbose, log_level: Option<&str>| Verbosity { verbose, log_level: log_level.map(str::to_owned) }.asked();
        assert_eq!(asked(0, None), None);
        assert_eq!(asked(2, None).as_deref(), Some("debug"));
        assert_eq!(asked(9, Some("error")).as_deref(), Some("error"));
    }

    #[test]
    fn levels_have_the_systems_priorities() {
        let levels = [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE];
        assert_eq!(levels.map(priority), [27, 28, 30, 31, 31]);
    }
}
