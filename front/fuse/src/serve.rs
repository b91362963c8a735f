//! The life of a mount: made, served by threads of its own, ended from inside or outside.

use crate::MountError;
use crate::coming::Serve;
use crate::dispatch::{Dispatch, Terms};
use crate::flags;
use crate::fusermount;
use crate::kernel::{self, KernelMount};
use crate::meter::Meter;
use crate::ops::Ops;
use crate::options::MountOptions;
use crate::proto::numbers::Init;
use crate::session::{Config, Session};
use ondol::Volume;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// How far the kernel may read ahead, in KiB, where it lets itself be told.
pub(crate) const READ_AHEAD_KIB: u32 = 1024;

/// Serving threads at most, unless options say otherwise: so many fsyncs can share a commit.
const MOST_THREADS: usize = 64;

/// A volume being served on a directory. [`Mount::finish`] ends it; dropping it does the same and logs what fails.
pub struct Mount {
    ops: Arc<Ops>,
    kernel: KernelMount,
    session: Option<JoinHandle<io::Result<()>>>,
    finished: bool,
}

impl Mount {
    /// Mounts `volume` on `dir` and serves it; `/dev/fd/N` is an open `/dev/fuse` that is mounted already. When this
    /// returns, the kernel has accepted the connection. `ended` is called from a serving thread once the kernel side is
    /// gone, whoever unmounted it.
    ///
    /// # Errors
    /// The mount could not be made; the volume is closed then.
    pub fn new(
        volume: Volume,
        source: &Path,
        dir: &Path,
        options: &MountOptions,
        ended: impl FnOnce() + Send + 'static,
    ) -> Result<Self, MountError> {
        let mut options = options.clone();
        options.read_only |= volume.inodes().is_read_only();
        let source = options.fsname.clone().unwrap_or_else(|| fusermount::shown(source.as_os_str()));
        let room = usize::try_from(volume.state().request_bytes()).unwrap_or(usize::MAX);
        let ops = Arc::new(Ops::new(volume));
        // The kernel keeps other users out where they are not allowed; only `allow_root` is for the server to enforce.
        let root_and_owner = options.allow_root && !options.allow_other;
        let only = root_and_owner.then(|| rustix::process::geteuid().as_raw());
        let rings = options.transport.wants_rings();
        let mut wanted = flags::of_mount(options.kernel_checks(), options.writeback_cache, rings);
        // Who is let in is told by each request then.
        wanted.set(Init::ALLOW_IDMAP, only.is_none() && wanted.contains(Init::ALLOW_IDMAP));
        let opens = options.opens();
        let served = Arc::clone(&ops);
        let (shown, minixdf) = (options.shown, options.minixdf);
        let most = options.max_threads.unwrap_or(MOST_THREADS);
        let server = |agreed: Init| {
            let queues = if agreed.contains(Init::OVER_IO_URING) { ondol_ring::queues() } else { 1 };
            let others_serve = most / queues.max(1) > 1;
            let terms = Terms { agreed, only, shown, minixdf, opens, others_serve };
            Box::new(Dispatch::new(served, terms)) as Box<dyn Serve>
        };
        let connected =
            connect(Point { dir, source: &source }, &options, Wanted { room, flags: wanted }, server, ended);
        let (kernel, session) = connected.inspect_err(|_| {
            if let Some(Err(e)) = ops.close().map(Volume::close) {
                tracing::error!("closing the volume: {e}");
            }
        })?;
        kernel.read_ahead(READ_AHEAD_KIB);
        if options.writeback_cache {
            kernel.collect_writes();
        }
        Ok(Self { ops, kernel, session: Some(session), finished: false })
    }

    /// Whether a volume could be mounted on `dir`, before one is opened for it.
    ///
    /// # Errors
    /// `dir` is not there, is no directory, or has a mount without a server.
    pub fn check_point(dir: &Path) -> Result<(), MountError> {
        if ondol::passed::number(dir).is_some() {
            return Ok(());
        }
        kernel::usable(dir).map(drop)
    }

    /// Where it is mounted.
    pub fn dir(&self) -> &Path {
        self.kernel.dir()
    }

    /// Notes the options that whoever serves has taken himself, as `NAME=VALUE,…`: [`crate::client::info`] tells them.
    pub fn is_served_with(&self, options: &str) {
        self.ops.is_served_with(options);
    }

    /// Reads what it has done.
    pub fn meter(&self) -> Meter {
        Meter::new(&self.ops)
    }

    /// Ends the mount: unmounts unless that has happened (cutting off whoever uses it), lets the requests under way
    /// finish, and closes the volume. When this returns without error, the image is clean and unlocked.
    ///
    /// # Errors
    /// What failed first; the rest was done all the same.
    pub fn finish(mut self) -> Result<(), MountError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), MountError> {
        self.finished = true;
        let unmounted = self.unmount();
        let closed = self.ops.close().map_or(Ok(()), Volume::close).map_err(MountError::Close);
        let served = match self.session.take() {
            // Threads whose connection lives on (users of a lazy unmount) find the gate closed; they end with the
            // process.
            Some(session) if session.is_finished() || matches!(unmounted, Ok(true)) => join(session),
            _ => Ok(()),
        };
        let whole = if self.ops.is_broken() { Err(MountError::Broken) } else { Ok(()) };
        closed.and(unmounted.map(|_| ())).and(served).and(whole)
    }

    /// True when nobody is left on the connection.
    fn unmount(&self) -> Result<bool, MountError> {
        let over = self.session.as_ref().is_none_or(JoinHandle::is_finished);
        if over || !self.kernel.is_there() {
            return Ok(over);
        }
        self.kernel.write_back();
        let dir = self.kernel.dir().to_owned();
        self.kernel.unmount().map_err(|source| MountError::Unmount { dir, source })
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if !self.finished
            && let Err(e) = self.end()
        {
            tracing::error!("{e}");
        }
    }
}

pub(crate) fn join(session: JoinHandle<io::Result<()>>) -> Result<(), MountError> {
    match session.join() {
        Ok(served) => served.map_err(MountError::Served),
        Err(_) => Err(MountError::Broken),
    }
}

/// Where a mount is to be, and what the table of mounts says it is of.
pub(crate) struct Point<'a> {
    pub(crate) dir: &'a Path,
    pub(crate) source: &'a str,
}

/// What the kernel is asked for.
pub(crate) struct Wanted {
    /// Bytes of a message.
    pub(crate) room: usize,
    pub(crate) flags: Init,
}

/// Makes the mount and starts the threads that serve it.
pub(crate) fn connect(
    Point { dir, source }: Point<'_>,
    options: &MountOptions,
    Wanted { room, flags: wanted }: Wanted,
    server: impl FnOnce(Init) -> Box<dyn Serve>,
    ended: impl FnOnce() + Send + 'static,
) -> Result<(KernelMount, JoinHandle<io::Result<()>>), MountError> {
    if let Some(why) = options.transport.refusal() {
        return Err(MountError::Handshake(why));
    }
    let (kernel, connection) = KernelMount::new(dir, source, options)?;
    let give_up = |e: MountError| {
        if let Err(unmount) = kernel.unmount() {
            tracing::error!("cannot unmount {}: {unmount}", kernel.dir().display());
        }
        e
    };
    let config = Config {
        running: thread::available_parallelism().map_or(1, usize::from),
        most: options.max_threads.unwrap_or(MOST_THREADS),
        room,
        wanted,
        dir: kernel.device().map(|_| kernel.dir().into()),
    };
    let session = Session::begin(connection, &config, server).map_err(MountError::Handshake);
    let session = session.map_err(give_up)?;
    let serve = move || {
        let served = session.run();
        ended();
        served
    };
    let thread = thread::Builder::new().name("ondol-fuse".into()).spawn(serve).map_err(MountError::Threads);
    let thread = thread.map_err(give_up)?;
    Ok((kernel, thread))
}
