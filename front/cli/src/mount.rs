//! `ondol mount`, `umount` and `sync`.

use crate::args;
use crate::failure::{FAILED, Failure, MOUNT, Outcome, SYSTEM, USAGE};
use crate::{background, image, log};
use ondol::{Options, Volume};
use ondol_fuse::{Mount, MountOptions, client};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel};

/// What `-o` says, by whom it concerns.
struct Wishes {
    mount: MountOptions,
    volume: Options,
    log: Option<PathBuf>,
}

impl Wishes {
    fn read(lists: &[String]) -> Result<Self, Failure> {
        let (mount, rest) = MountOptions::take(&lists.join(",")).map_err(Failure::with(USAGE))?;
        let (log, rest): (Vec<&str>, Vec<&str>) = rest.split(',').partition(|w| w.starts_with("log="));
        let volume = Options::parse(&rest.join(",")).map_err(Failure::with(USAGE))?;
        let log = log.last().and_then(|w| w.strip_prefix("log=")).map(PathBuf::from);
        Ok(Self { mount, volume, log })
    }
}

/// Mounts, and serves in the background unless told otherwise.
pub(crate) fn mount(args: &args::Mount) -> Outcome {
    image::refuse_pool(&args.target, USAGE)?;
    let wishes = Wishes::read(&args.options)?;
    if args.foreground {
        log::to_stderr();
        return serve(args, &wishes, |_| Ok(()));
    }
    if !background::is_child() {
        return background::start();
    }
    background::leave_session().map_err(Failure::with(SYSTEM))?;
    log::to_stderr();
    serve(args, &wishes, background::ready)
}

/// Why a server ends.
enum End {
    Signal(i32),
    Unmounted,
}

fn serve(args: &args::Mount, wishes: &Wishes, ready: impl FnOnce(Option<&OwnedFd>) -> std::io::Result<()>) -> Outcome {
    let (tell, told) = channel();
    listen_to_signals(tell.clone())?;
    let log = wishes.log.as_deref().map(|path| {
        log::open(path).map_err(|e| Failure::new(MOUNT, format!("cannot open the log {}: {e}", path.display())))
    });
    let log = log.transpose()?;
    Mount::check_point(&args.dir).map_err(Failure::with(MOUNT))?;
    if let Some(size) = args.create.filter(|_| !args.target.exists()) {
        image::create(&args.target, size).map_err(Failure::with(MOUNT))?;
    }
    let source = source(&args.target)?;
    let options = wishes.volume.clone().with_mounted_on(args.dir.canonicalize().unwrap_or_else(|_| args.dir.clone()));
    let volume = Volume::open_with(&args.target, &options).map_err(Failure::with(MOUNT))?;
    let ended = move || {
        // Nobody listens any more when a signal came first.
        let _ = tell.send(End::Unmounted);
    };
    let mount = Mount::new(volume, &source, &args.dir, &wishes.mount, ended).map_err(Failure::with(MOUNT))?;
    let told_parent = ready(log.as_ref());
    if told_parent.is_ok() {
        wait(&told);
    }
    mount.finish().map_err(Failure::with(MOUNT))?;
    told_parent.map(|()| ExitCode::SUCCESS).map_err(Failure::with(SYSTEM))
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
        Ok(End::Unmounted) | Err(_) => tracing::info!("unmounted"),
    }
}

/// The full path of the image: what mount tables show, and where `ondol umount` finds it.
fn source(target: &Path) -> Result<PathBuf, Failure> {
    let fail = |e| Failure::new(MOUNT, format!("cannot open {}: {e}", target.display()));
    target.canonicalize().map_err(fail)
}

/// Unmounts, and returns when the image is clean.
pub(crate) fn umount(args: &args::Umount) -> Outcome {
    client::unmount(&args.dir).map(|()| ExitCode::SUCCESS).map_err(Failure::with(MOUNT))
}

/// Makes everything durable that was done before.
pub(crate) fn sync(args: &args::Sync) -> Outcome {
    client::sync(&args.dir).map(|()| ExitCode::SUCCESS).map_err(Failure::with(FAILED))
}
