//! `ondol run`: a program whose fsync ends in NVM; and `ondol recover` of what it left there.

use crate::args;
use crate::failure::{FAILED, Failure, Outcome, USAGE};
use crate::fits;
use crate::say::say;
use crate::size;
use clap::Args;
use ondol::machine::locks::shown;
use ondol::run::{Drained, Outcome as Became, Recovered, Run};
use ondol::{counted, printable};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use std::ffi::{CString, OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};

/// What else is to be known.
const NOTES: &str = "A file that the program has synced once is copied into the pool as it is written; its next fsync \
                     or fdatasync ends there, as do writes with O_SYNC or O_DSYNC, and this command syncs the file \
                     itself within about a second. After a power cut, `ondol recover POOL` brings back what was \
                     synced. Files outside of the directories, on other file systems than ext4, and programs that \
                     cannot be preloaded (static ones, Go, those of another libc than glibc or with a sanitizer) are \
                     as without this command. So are programs that change their user or give up rights, from then on.

The exit code is the program's; 126 if it cannot be started, 127 if it is not there, 125 if this command fails \
                     before. A signal that ends the program ends this command, too.";

/// Run a program whose fsync ends in NVM
#[derive(Debug, Args)]
#[command(after_long_help = NOTES)]
pub(crate) struct RunArgs {
    /// The pool: a DAX device or a file; made if it is not there [default: run.pool in ~/.local/state/ondol]
    #[arg(long, value_name = "POOL")]
    buffer: Option<PathBuf>,
    /// Size of a pool that is made
    #[arg(long, value_parser = size::parse, value_name = "SIZE", default_value = "64M")]
    size: u64,
    /// Directory whose files, and those below it, are to be fast; may be given several times [default: the current one]
    #[arg(long, value_name = "DIR")]
    dir: Vec<PathBuf>,
    /// Say nothing of the pool and the directories
    #[arg(short, long)]
    quiet: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// env(1)'s codes: this command failed, the program cannot be started, it is not there.
const BEFORE: u8 = 125;
const CANNOT: u8 = 126;
const MISSING: u8 = 127;

/// What is preloaded.
const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libondol_preload.so"));

/// What starts programs of glibc.
const LOADER: &str =
    if cfg!(target_arch = "x86_64") { "/lib64/ld-linux-x86-64.so.2" } else { "/lib/ld-linux-aarch64.so.1" };

/// How long the drain rests, and how long when there is not much room: nanoseconds.
const REST: i64 = 20_000_000;
const SHORT_REST: i64 = 1_000_000;

/// How often the last step is tried when programs go on writing.
const LAST_STEPS: u32 = 100;

/// Runs a program.
pub(crate) fn run(args: &RunArgs) -> Outcome {
    if LIBRARY.is_empty() {
        return Err(Failure::new(BEFORE, "`ondol run` works on Linux on 64-bit processors only"));
    }
    let Some((program, arguments)) = args.command.split_first() else {
        return Err(Failure::new(USAGE, "no program: say `ondol run -- COMMAND`"));
    };
    let dirs = directories(args)?;
    let pool = match &args.buffer {
        Some(pool) => pool.clone(),
        None => private("XDG_STATE_HOME", ".local/state")?.join("run.pool"),
    };
    let started = ondol::run::start(&pool, args.size).map_err(Failure::with(BEFORE))?;
    // The program may go elsewhere before it starts others.
    let pool = pool.canonicalize().map_err(|e| at(&pool, &e))?;
    let library = library()?;
    if let Some(recovered) = &started.recovered {
        report(&pool, recovered, &mut |line| eprintln!("ondol: {line}"));
    }
    // What is said of them concerns nobody where the program does not take the library.
    let is_loaded = takes_library(program, args.quiet) && is_loadable(&library, args.quiet);
    let dirs = if is_loaded { dirs } else { Vec::new() };
    if !args.quiet && !dirs.is_empty() {
        let slow = if started.on_disk { "; an fsync there is one of its disk" } else { "" };
        eprintln!("ondol: fsync ends in {}: {}{slow}", shown(&pool), started.survives);
    }
    let mut signals =
        Signals::new([SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2]).map_err(Failure::with(BEFORE))?;
    let mut command = Command::new(program);
    command.args(arguments);
    if !dirs.is_empty() {
        let listed = |dirs: &[PathBuf]| {
            std::env::join_paths(dirs).map_err(|e| Failure::new(USAGE, format!("a directory's name: {e}")))
        };
        let named: Vec<_> = dirs.iter().filter(|dir| names(dir, args.quiet)).cloned().collect();
        command.env("LD_PRELOAD", preloads(&library)).env("ONDOL_RUN_POOL", &pool);
        command.env("ONDOL_RUN_DIRS", listed(&dirs)?).env("ONDOL_RUN_NAMES", listed(&named)?);
    }
    let child = command.spawn().map_err(|e| {
        let code = if e.kind() == io::ErrorKind::NotFound { MISSING } else { CANNOT };
        Failure::new(code, format!("{}: {e}", printable(program.as_encoded_bytes())))
    })?;
    let status = attend(child, started.run, &mut signals, args.quiet).map_err(Failure::with(BEFORE))?;
    Ok(pass_on(status))
}

/// The directories that are made faster; says which are not.
fn directories(args: &RunArgs) -> Result<Vec<PathBuf>, Failure> {
    let named = if args.dir.is_empty() { vec![PathBuf::from(".")] } else { args.dir.clone() };
    let mut dirs = Vec::new();
    for dir in named {
        let real = dir.canonicalize().map_err(|e| at(&dir, &e))?;
        if !real.is_dir() {
            return Err(Failure::new(USAGE, format!("{} is no directory", shown(&dir))));
        }
        match ondol::run::why_not(&real) {
            None => dirs.push(real),
            Some(why) if !args.quiet => eprintln!("ondol: {}: fsync is as without this command: {why}", shown(&real)),
            Some(_) => {}
        }
    }
    Ok(dirs)
}

/// The program is one that takes the library, or starts others that may; says why not.
fn takes_library(program: &OsStr, quiet: bool) -> bool {
    let dirs = std::env::var_os("PATH");
    let named = |name: CString| fits::why_not_named(&name, dirs.as_deref().map(OsStr::as_bytes));
    let why_not = CString::new(program.as_bytes()).ok().and_then(named);
    if let Some(why) = why_not.filter(|_| !quiet) {
        eprintln!("ondol: {}: fsync is as without this command: {why}", printable(program.as_bytes()));
    }
    // The loaders of other libcs end programs with a library of glibc.
    why_not.is_none_or(|why| why == fits::STATIC && Path::new(LOADER).exists())
}

/// The system's glibc can load the library; says why not. Programs would end at their start.
fn is_loadable(library: &Path, quiet: bool) -> bool {
    let listed = Command::new(LOADER).arg("--list").arg(library).env_remove("LD_PRELOAD").output();
    let Ok(listed) = listed else { return true };
    let words = [listed.stdout, listed.stderr].concat();
    // Its exit code says nothing of it.
    let lacks = words.split(|byte| *byte == b'\n').find(|line| line.windows(9).any(|word| word == b"not found"));
    if let Some(line) = lacks.filter(|_| !quiet) {
        eprintln!("ondol: fsync is as without this command: glibc cannot load its library: {}", printable(line));
    }
    lacks.is_none()
}

/// Names in the directory are logged; says why not.
fn names(dir: &Path, quiet: bool) -> bool {
    let why_not = ondol::run::names_why_not(dir);
    if let Some(why) = why_not.as_ref().filter(|_| !quiet) {
        let what = "the first fsync of a new file, and that of a directory, is as without this command";
        eprintln!("ondol: {}: {what}: {why}", shown(dir));
    }
    why_not.is_none()
}

fn at(path: &Path, e: &io::Error) -> Failure {
    Failure::new(BEFORE, format!("{}: {e}", shown(path)))
}

/// The user's own directory `ondol` of a kind; made if it is not there, and nobody else's.
fn private(variable: &str, below_home: &str) -> Result<PathBuf, Failure> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute(variable).or_else(|| absolute("HOME").map(|home| home.join(below_home)));
    let Some(base) = base else {
        return Err(Failure::new(
            BEFORE,
            format!("there is no place for a pool: set HOME or {variable}, or say --buffer POOL"),
        ));
    };
    let dir = base.join("ondol");
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir).map_err(|e| at(&dir, &e))?;
    let meta = dir.metadata().map_err(|e| at(&dir, &e))?;
    if meta.uid() != rustix::process::geteuid().as_raw() || meta.mode() & 0o022 != 0 {
        return Err(Failure::new(BEFORE, format!("{}: others may change it; make it yours alone", shown(&dir))));
    }
    Ok(dir)
}

/// The library as a file, named after what is in it.
fn library() -> Result<PathBuf, Failure> {
    let dir = private("XDG_CACHE_HOME", ".cache")?;
    let path = dir.join(format!("preload-{:016x}.so", fingerprint(LIBRARY)));
    if path.as_os_str().as_encoded_bytes().iter().any(|byte| b" :".contains(byte)) {
        let what =
            "the loader takes no library whose path has a space or colon: set XDG_CACHE_HOME to another directory";
        return Err(Failure::new(BEFORE, format!("{}: {what}", shown(&path))));
    }
    if std::fs::read(&path).is_ok_and(|bytes| bytes == LIBRARY) {
        return Ok(path);
    }
    // Under another name first: another `ondol run` may be about to use it.
    let new = dir.join(format!("preload-{}.new", std::process::id()));
    let written = std::fs::remove_file(&new).or(Ok(())).and_then(|()| {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mut file = std::fs::File::from(rustix::fs::openat(CWD, &new, flags, Mode::RWXU)?);
        file.write_all(LIBRARY)?;
        std::fs::rename(&new, &path)
    });
    written.map(|()| path.clone()).map_err(|e| at(&path, &e))
}

/// FNV-1a.
fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3))
}

/// What was to be preloaded anyway comes behind.
fn preloads(library: &Path) -> OsString {
    let mut all = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        all.push(OsStr::new(":"));
        all.push(others);
    }
    all
}

/// Drains until the program has ended, and then what it left. Signals go on to it, but for those that the terminal
/// sends to both.
fn attend(mut child: Child, mut run: Run, signals: &mut Signals, quiet: bool) -> io::Result<ExitStatus> {
    let pid = Pid::from_child(&child);
    let ended = pidfd_open(pid, PidfdFlags::empty())?;
    let (mut broken, mut pressed) = (false, false);
    let mut notices = Notices { said: [quiet; 2] };
    let status = loop {
        let rest = Timespec { tv_sec: 0, tv_nsec: if pressed { SHORT_REST } else { REST } };
        match poll(&mut [PollFd::new(&ended, PollFlags::IN)], Some(&rest)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        for signal in signals.pending().filter(|signal| ![SIGINT, SIGQUIT].contains(signal)) {
            if let Some(signal) = Signal::from_named_raw(signal) {
                // It may have ended already.
                let _ = kill_process(pid, signal);
            }
        }
        let drained = if broken { None } else { drain(&mut run, false) };
        broken = drained.is_none();
        drained.iter().for_each(|drained| notices.say(drained));
        pressed = drained.is_some_and(|drained| drained.pressed);
        if let Some(status) = child.try_wait()? {
            break status;
        }
    };
    let mut live = true;
    for _ in 0..LAST_STEPS {
        if broken || !live {
            break;
        }
        let drained = drain(&mut run, true);
        drained.iter().for_each(|drained| notices.say(drained));
        (broken, live) = (drained.is_none(), drained.is_some_and(|drained| drained.live > 0));
    }
    if broken || live {
        eprintln!("ondol: what is not synced is in the pool; `ondol recover` brings it home");
    }
    Ok(status)
}

/// What is said once of programs that are not as fast as the others.
struct Notices {
    said: [bool; 2],
}

impl Notices {
    fn say(&mut self, drained: &Drained) {
        let left = "a program has changed its user or rights: from then on its fsync is as without this command";
        let unfit = "a program does not take the library (it is not of glibc, or built with a sanitizer): its fsync \
                     is as without this command";
        for (said, (count, what)) in self.said.iter_mut().zip([(drained.left, left), (drained.unfit, unfit)]) {
            if count > 0 && !std::mem::replace(said, true) {
                eprintln!("ondol: {what}");
            }
        }
    }
}

/// One step; none if the pool cannot be used any more, which programs notice themselves.
fn drain(run: &mut Run, now: bool) -> Option<Drained> {
    match run.step(now) {
        Ok(drained) => {
            drained.failed.iter().for_each(|line| eprintln!("ondol: {}", printable(line.as_bytes())));
            Some(drained)
        }
        Err(e) => {
            eprintln!("ondol: {}", printable(e.to_string().as_bytes()));
            None
        }
    }
}

/// Ends as the program did.
fn pass_on(status: ExitStatus) -> ExitCode {
    if let Some(signal) = status.signal() {
        // Does not return where the signal ends a process; a core of this one helps nobody.
        let none = rustix::process::Rlimit { current: Some(0), maximum: None };
        let _ = rustix::process::setrlimit(rustix::process::Resource::Core, none);
        let _ = signal_hook::low_level::emulate_default_handler(signal);
        return ExitCode::from(128u8.saturating_add(signal as u8));
    }
    ExitCode::from(status.code().unwrap_or(1) as u8)
}

/// Brings home what programs left in a pool.
pub(crate) fn recover(args: &args::Recover) -> Outcome {
    if args.discard_nvm || args.nvm.is_some() {
        let what = "it is the pool of `ondol run`: --nvm and --discard-nvm are for images";
        return Err(Failure::new(USAGE, format!("{}: {what}", shown(&args.target))));
    }
    let recovered = ondol::run::recover(&args.target, args.force).map_err(Failure::with(FAILED))?;
    report(&args.target, &recovered, &mut |line| say!("{line}"));
    match recovered.is_complete() || args.force {
        true => {
            say!("{}: nothing is left in it", shown(&args.target));
            Ok(ExitCode::SUCCESS)
        }
        false => {
            let what = "what is left stays in it; mount the file systems and try again, or give it up with --force";
            Err(Failure::new(FAILED, format!("{}: {what}", shown(&args.target))))
        }
    }
}

/// One line for each file.
fn report(pool: &Path, recovered: &Recovered, say: &mut dyn FnMut(&str)) {
    for (path, became) in &recovered.files {
        let what = match became {
            Became::Replayed(bytes) => format!("{} brought home", counted(*bytes, "byte")),
            Became::Made(bytes) => format!("made again, with {}", counted(*bytes, "byte")),
            Became::Named(names) => format!("{} given or taken", counted(*names, "name")),
            Became::Changed(names) => {
                format!("somebody else has changed it since; {} in it were left as they are", counted(*names, "change"))
            }
            Became::Whole => "had everything already".into(),
            Became::Gone => "was removed".into(),
            Became::Beside(beside) => {
                format!("somebody else has changed it since; what was written before is in {}", shown(beside))
            }
            Became::Unreachable(why) => format!("cannot be reached: {why}"),
        };
        say(&printable(format!("{}: {}: {what}", pool.display(), path.display()).as_bytes()));
    }
}
