//! `ondol mount`, and the helper that mount(8) calls.

use crate::failure::{Failure, INTERRUPTED, MOUNT, MOUNT_USAGE, Message, Outcome, SYSTEM};
use crate::log::Log;
use crate::options::{Wishes, located};
use crate::passed::{enter_namespace, in_pool, source};
use crate::say::say;
use crate::{args, background, further, image, log, metrics, remount};
use ondol::{Access, Volume, counted};
use ondol_fuse::Mount;
use sd_notify::NotifyState;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel};

/// What is to be mounted where.
struct Request<'a> {
    target: &'a Path,
    dir: &'a Path,
    /// The size of an image to make if there is none.
    create: Option<u64>,
    /// The mount namespace of the mount, if it is another one.
    namespace: Option<&'a OsStr>,
    wishes: Wishes,
    /// This very process serves, with messages on standard error.
    foreground: bool,
    codes: Codes,
}

/// Exit codes for what keeps a mount from being made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Codes {
    /// The image is not there, or cannot be mounted.
    pub(crate) image: u8,
    /// The directory is not there, or none.
    pub(crate) point: u8,
}

impl Codes {
    const MOUNT_8: Self = Self { image: MOUNT, point: MOUNT };
}

/// Mounts, and serves in the background unless told otherwise.
pub(crate) fn mount(args: &args::Mount, log_level: Option<String>) -> Outcome {
    if asks_for_remount(&args.options) {
        let dir = args.dir.display();
        return Err(Failure::new(MOUNT_USAGE, format!("remount is for mount(8) to ask: `mount -o remount,… {dir}`")));
    }
    let mut wishes = Wishes::read(&args.options, false)?;
    wishes.log_level = log_level.or(wishes.log_level);
    if args.take_over {
        wishes.volume = wishes.volume.with_take_over(true);
    }
    let target = &*located(&args.target, wishes.part, args.partition).map_err(Failure::with(MOUNT_USAGE))?;
    let (dir, foreground) = (&*args.dir, args.foreground);
    let codes = Codes::MOUNT_8;
    start(&Request { target, dir, create: args.create, namespace: None, wishes, foreground, codes })
}

/// Mounts as another program would be asked to.
pub(crate) fn in_place_of(target: &Path, dir: &Path, wishes: Wishes, foreground: bool, codes: Codes) -> Outcome {
    let target = &*located(target, wishes.part, None).map_err(Failure::with(MOUNT_USAGE))?;
    start(&Request { target, dir, create: None, namespace: None, wishes, foreground, codes })
}

/// Mounts as mount(8) asks for it.
pub(crate) fn helper(args: &args::MountHelper) -> Outcome {
    if asks_for_remount(&args.options) {
        return remount::remount(args);
    }
    let mut lists = args.options.clone();
    if rustix::process::geteuid().is_root() {
        // mount(8)'s own defaults, which it does not spell out.
        lists.insert(0, "suid,dev".into());
    }
    let wishes = Wishes::read(&lists, args.sloppy)?;
    if args.fake {
        return Ok(ExitCode::SUCCESS);
    }
    let namespace = args.namespace.as_deref();
    let target = &*located(&args.source, wishes.part, None).map_err(Failure::with(MOUNT_USAGE))?;
    let dir = &*args.dir;
    if namespace.is_none()
        && let Some(entry) = further::mounted(target, dir)
    {
        return further::mount(&entry, &lists, args);
    }
    let codes = Codes::MOUNT_8;
    let code = start(&Request { target, dir, create: None, namespace, wishes, foreground: false, codes })?;
    if args.verbose && code == ExitCode::SUCCESS && !background::is_child() {
        say!("{} mounted on {}", args.source.display(), args.dir.display());
    }
    Ok(code)
}

fn asks_for_remount(lists: &[String]) -> bool {
    lists.iter().flat_map(|list| list.split(',')).any(|word| word == "remount")
}

fn start(request: &Request<'_>) -> Outcome {
    if !request.foreground {
        if !background::is_child() {
            return background::start();
        }
        background::leave_session().map_err(Failure::with(SYSTEM))?;
    }
    log::to_stderr(request.wishes.log_level.clone());
    serve(request)
}

/// Why a server ends.
enum End {
    Signal(i32),
    Unmounted,
}

/// Serves until the volume is unmounted or a signal comes.
fn serve(request: &Request<'_>) -> Outcome {
    let mut prepared = prepare(request)?;
    let (tell, told) = channel();
    listen_to_signals(tell.clone())?;
    let volume = open(request, &prepared.target)?;
    if let Ok(End::Signal(signal)) = told.try_recv() {
        volume.close().map_err(Failure::with(MOUNT))?;
        return Err(Failure::new(INTERRUPTED, format!("not mounted: signal {signal} came before")));
    }
    let log = Account::of(request, &volume);
    let ended = move || {
        // Nobody listens any more when a signal came first.
        let _ = tell.send(End::Unmounted);
    };
    let mount = Mount::new(volume, &prepared.source, request.dir, &request.wishes.mount, ended);
    let mount = mount.map_err(Failure::with(MOUNT))?;
    mount.is_served_with(&request.wishes.own.join(","));
    let metrics = prepared.metrics.take().map(|opened| opened.start(mount.meter(), mount.dir()));
    let metrics = metrics.transpose().map_err(Failure::with(MOUNT))?;
    let metrics_at = metrics.as_ref().map(|metrics| metrics.what.as_str());
    let told_caller = prepared.log.as_ref().map_or_else(
        || {
            notify(NotifyState::Ready);
            Ok(())
        },
        background::ready,
    );
    if told_caller.is_ok() {
        log.begin(metrics_at);
        wait(&told);
    }
    if request.foreground {
        notify(NotifyState::Stopping);
    }
    // The volume first: who puts metrics out may be waiting for another file system.
    let finished = mount.finish();
    drop(metrics);
    finished.map_err(|e| Failure::new(MOUNT, format!("{}: {}", log.what, e.said())))?;
    log.end();
    told_caller.map(|()| ExitCode::SUCCESS).map_err(Failure::with(SYSTEM))
}

/// What the log says of a mount: one line each for what was replayed, for its beginning, and for its end.
struct Account {
    /// Image and directory.
    what: String,
    replayed: Option<String>,
    how: String,
}

impl Account {
    fn of(request: &Request<'_>, volume: &Volume) -> Self {
        let report = volume.recovered();
        let (transactions, blocks) = (counted(report.transactions, "transaction"), counted(report.blocks, "block"));
        let replayed = report.transactions > 0 || report.blocks > 0;
        let mount = volume.info().ok().and_then(|info| info.mount);
        let how = mount.map_or_else(String::new, |mount| match mount.read_only {
            true => ", read-only".to_owned(),
            false => format!(", journal {}, data {}", mount.engine, mount.data),
        });
        Self {
            what: format!("{} on {}", request.target.display(), request.dir.display()),
            replayed: replayed.then(|| format!("replayed {transactions}, {blocks}")),
            how,
        }
    }

    fn begin(&self, metrics: Option<&str>) {
        if let Some(replayed) = &self.replayed {
            tracing::info!("{}: {replayed}", self.what);
        }
        tracing::info!("{}: mounted{}", self.what, self.how);
        if let Some(metrics) = metrics {
            tracing::info!("{}: metrics {metrics}", self.what);
        }
    }

    fn end(&self) {
        tracing::info!("{}: unmounted, clean", self.what);
    }
}

/// What has to be done before threads begin, and where the caller's paths mean what the caller means.
struct Prepared {
    target: PathBuf,
    source: PathBuf,
    /// Where messages of a server in the background go.
    log: Option<Log>,
    /// Where metrics will be had.
    metrics: Option<metrics::Opened>,
    /// Open while `target` names it.
    _image: Option<File>,
}

fn prepare(request: &Request<'_>) -> Result<Prepared, Failure> {
    let log = (!request.foreground).then(|| Log::open(request.wishes.log.as_deref()));
    let log = log.transpose().map_err(Failure::with(MOUNT))?;
    if request.namespace.is_none() {
        Mount::check_point(request.dir).map_err(Failure::with(request.codes.point))?;
    }
    // Paths of another namespace mean nothing here.
    let point = request.namespace.is_none().then_some(request.dir);
    let metrics = request.wishes.metrics.as_ref().map(|outlet| outlet.open(point));
    let metrics = metrics.transpose().map_err(Failure::with(MOUNT))?;
    if let Some(size) = request.create
        && !image::is_there(request.target).map_err(Failure::with(MOUNT))?
    {
        image::create(request.target, size).map_err(Failure::with(MOUNT))?;
    }
    let unnamed = |failure: Failure| {
        let missing = matches!(image::file(request.target).try_exists(), Ok(false));
        let hint = if missing { "; `ondol mount --create SIZE` makes a volume there" } else { "" };
        Failure::new(request.codes.image, failure.message + hint)
    };
    let source = source(request.target).map_err(unnamed)?;
    let mut prepared = Prepared { target: request.target.into(), source, log, metrics, _image: None };
    if let Some(namespace) = request.namespace
        && ondol::is_in_bucket(request.target)
    {
        enter_namespace(namespace)?;
    } else if let Some(namespace) = request.namespace {
        let image = open_image(request)
            .map_err(|e| Failure::new(MOUNT, format!("cannot open {}: {e}", request.target.display())))?;
        let open = PathBuf::from(format!("/dev/fd/{}", image.as_raw_fd()));
        prepared.target = match ondol::part_of(request.target) {
            Some((_, part)) => part.target(&open),
            None if ondol::pool_of(request.target).is_some() => in_pool(&open),
            None => open,
        };
        prepared._image = Some(image);
        enter_namespace(namespace)?;
    }
    Ok(prepared)
}

/// Opens the image; for reading only where it cannot be written.
fn open_image(request: &Request<'_>) -> std::io::Result<File> {
    if !request.wishes.volume.read_only() {
        match ondol::open_file(image::file(request.target), Access::Write) {
            Err(e) if e.raw_os_error().is_some_and(is_protected) => {}
            other => return other,
        }
    }
    ondol::open_file(image::file(request.target), Access::Read)
}

/// Whether this error of open(2) says that something cannot be written: it lies on a read-only file system or device,
/// is immutable, or belongs to somebody else. What cannot be read either fails again when it is opened for reading.
fn is_protected(errno: i32) -> bool {
    use rustix::io::Errno;
    [Errno::ROFS, Errno::ACCESS, Errno::PERM].contains(&Errno::from_raw_os_error(errno))
}

/// Opens the volume; for reading only where its medium cannot be written, as mount(8) does.
fn open(request: &Request<'_>, target: &Path) -> Result<Volume, Failure> {
    let mut options = request.wishes.volume.clone();
    if ondol::passed::number(request.dir).is_none() {
        options = options.with_mounted_on(request.dir.canonicalize().unwrap_or_else(|_| request.dir.into()));
    }
    match Volume::open_with(target, &options) {
        Err(e) if !options.read_only() && is_protected(e.errno()) => {
            tracing::warn!("{} is write-protected, mounted read-only", request.target.display());
            Volume::open_with(target, &options.with_read_only(true)).map_err(Failure::with(MOUNT))
        }
        other => other.map_err(|e| Failure::new(request.codes.image, image::unopened(e, request.target))),
    }
}

fn listen_to_signals(tell: Sender<End>) -> Result<(), Failure> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(Failure::with(SYSTEM))?;
    let listen = move || {
        for signal in signals.forever() {
            if tell.send(End::Signal(signal)).is_err() {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name("ondol-signals".into()).spawn(listen);
    thread.map(drop).map_err(Failure::with(SYSTEM))
}

fn wait(told: &Receiver<End>) {
    match told.recv() {
        Ok(End::Signal(signal)) => tracing::info!("ending after signal {signal}"),
        Ok(End::Unmounted) | Err(_) => {}
    }
}

/// Tells the service manager, if one started this process and listens.
fn notify(state: NotifyState<'_>) {
    if let Err(e) = sd_notify::notify(&[state]) {
        tracing::warn!("the service manager cannot be told: {e}");
    }
}
