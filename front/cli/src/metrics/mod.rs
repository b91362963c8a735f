//! `metrics=`: what a mount has done, as Prometheus reads it, by HTTP or in a file.
//!
//! Why it is so: `docs/design/seeing.md`.

mod file;
mod http;
mod spot;
mod store;
mod text;

pub(crate) use store::told;

use ondol_fuse::Meter;
use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use spot::Spot;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Where metrics are to be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outlet {
    /// HTTP on a port of what this name or number stands for.
    Address(String, u16),
    /// HTTP on a socket in the file system.
    Socket(PathBuf),
    /// A file for node_exporter's textfile collector.
    File(PathBuf),
}

impl Outlet {
    /// Reads what `metrics=` says.
    ///
    /// # Errors
    /// A sentence for the user.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let what = "write PORT or HOST:PORT, unix:PATH for a socket, or an absolute path that ends in .prom for a file";
        let wrong = |why: &str| format!("mount option `metrics={text}`: {why}; {what}");
        if let Some(path) = text.strip_prefix("unix:") {
            return match path {
                "" => Err(wrong("there is no path")),
                path => std::path::absolute(path).map(Self::Socket).map_err(|e| wrong(&e.to_string())),
            };
        }
        if text.starts_with('/') {
            let is_read = text.ends_with(".prom") && !text.ends_with("/.prom");
            let why = "node_exporter reads files that end in .prom alone";
            return if is_read { Ok(Self::File(text.into())) } else { Err(wrong(why)) };
        }
        let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
        let port: u16 = port.parse().map_err(|_| wrong("there is no port"))?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        // What it stands for is asked only where it is to be used.
        let host = if host.is_empty() { "127.0.0.1" } else { host };
        Ok(Self::Address(host.to_owned(), port))
    }

    /// Makes sure that they can be had there, before anything is mounted on `point`, if that is in this mount
    /// namespace.
    ///
    /// # Errors
    /// A sentence for the user.
    pub(crate) fn open(&self, point: Option<&Path>) -> Result<Opened, String> {
        match self {
            Self::Address(host, port) => {
                let listen = |e| format!("no metrics: cannot listen on {}: {e}", shown(host, *port));
                let listener = TcpListener::bind((host.as_str(), *port)).map_err(listen)?;
                let address = listener.local_addr().map_err(listen)?;
                if !address.ip().is_loopback() {
                    tracing::warn!("metrics are to be had by whoever reaches {address}");
                }
                let what = format!("on http://{address}{}", http::PATH);
                Ok(Opened::Server { listener: listener.into(), what, socket: None })
            }
            Self::Socket(path) => {
                let listened = listen(path, point);
                let (listener, socket) =
                    listened.map_err(|e| format!("no metrics: cannot listen on {}: {e}", path.display()))?;
                let what = format!("on unix:{}", path.display());
                Ok(Opened::Server { listener, what, socket: Some(socket) })
            }
            Self::File(path) => {
                let target = file::Target::claim(path, point).map_err(|e| format!("no metrics: {e}"))?;
                Ok(Opened::File { target, what: format!("in {}", path.display()) })
            }
        }
    }
}

fn shown(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

fn socket(flags: SocketFlags) -> std::io::Result<OwnedFd> {
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags | SocketFlags::CLOEXEC, None)?)
}

/// Whether nobody listens on what lies there. Who listens may be too busy to be waited for.
fn is_dead(path: &Path) -> bool {
    let connected =
        socket(SocketFlags::NONBLOCK).and_then(|socket| Ok(rustix::net::connect(socket, &SocketAddrUnix::new(path)?)?));
    let is_socket = || rustix::fs::lstat(path).is_ok_and(|found| FileType::from_raw_mode(found.st_mode).is_socket());
    connected.is_err_and(|e| e.raw_os_error() == Some(Errno::CONNREFUSED.raw_os_error())) && is_socket()
}

/// Listens on a socket to which only this user may connect. One that nobody listens on is replaced.
fn listen(path: &Path, point: Option<&Path>) -> std::io::Result<(OwnedFd, Spot)> {
    if !spot::is_short(path) {
        return Err(Errno::NAMETOOLONG.into());
    }
    let mut spot = Spot::open(path, point)?;
    let socket = socket(SocketFlags::empty())?;
    // What it is bound to gets the mode that it has.
    rustix::fs::fchmod(&socket, rustix::fs::Mode::from_raw_mode(0o600))?;
    let mut put = || {
        // Nobody finds it before it listens, and so takes it for a dead one.
        rustix::net::bind(&socket, &SocketAddrUnix::new(spot.beside()?)?)?;
        rustix::net::listen(&socket, 16)?;
        match spot.put() {
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
                spot.bury(is_dead)?;
                spot.put()
            }
            other => other,
        }
    };
    let done = put();
    spot.discard();
    done.map(|()| (socket, spot))
}

/// A place where metrics can be had.
#[derive(Debug)]
pub(crate) enum Opened {
    /// Somebody can connect to it.
    Server { listener: OwnedFd, what: String, socket: Option<Spot> },
    /// It will be written.
    File { target: file::Target, what: String },
}

impl Opened {
    /// Tells of a mount from now on, until what is returned is dropped.
    ///
    /// # Errors
    /// A sentence for the user.
    pub(crate) fn start(self, meter: Meter, point: &Path) -> Result<Outgoing, String> {
        meter.time_all();
        let point = point.to_owned();
        let thread = |e: std::io::Error| format!("no metrics: {e}");
        match self {
            Self::Server { listener, what, socket } => {
                let render = move || Some(text::render(meter.read()?, &point, text::For::Scrape));
                let server = http::Server::start(listener, Box::new(render)).map_err(thread)?;
                Ok(Outgoing { what, running: Some(Running::Server(server, socket)) })
            }
            Self::File { target, what } => {
                let render = move || Some(text::render(meter.read()?, &point, text::For::File));
                let file = file::Writer::start(target, Box::new(render)).map_err(thread)?;
                Ok(Outgoing { what, running: Some(Running::File(file)) })
            }
        }
    }
}

/// What goes in this order.
enum Running {
    Server(http::Server, Option<Spot>),
    File(file::Writer),
}

/// What `start` has started; dropping it ends that.
pub(crate) struct Outgoing {
    /// Where they are to be had: "on …" or "in …".
    pub(crate) what: String,
    running: Option<Running>,
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        let running = self.running.take();
        spot::briefly(&self.what, move || match running {
            Some(Running::Server(server, socket)) => {
                drop(server);
                drop(socket);
            }
            Some(Running::File(file)) => drop(file),
            None => {}
        });
    }
}

/// Puts metrics together; `None` when the mount ends.
pub(crate) type Render = Box<dyn Fn() -> Option<String> + Send>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outlet_is_an_address_a_socket_or_a_file() {
        let parse = |text: &str| Outlet::parse(text);
        let address = |host: &str| Ok(Outlet::Address(host.into(), 9464));
        assert_eq!(parse("9464"), address("127.0.0.1"));
        assert_eq!(parse(":9464"), address("127.0.0.1"));
        assert_eq!(parse("0.0.0.0:9464"), address("0.0.0.0"));
        assert_eq!(parse("[::1]:9464"), address("::1"));
        // Nobody is asked what a name stands for.
        assert_eq!(parse("no.such.host.invalid:9464"), address("no.such.host.invalid"));
        assert_eq!((shown("::1", 1), shown("host", 1)), ("[::1]:1".into(), "host:1".into()));
        assert_eq!(parse("unix:/run/x"), Ok(Outlet::Socket("/run/x".into())));
        assert!(matches!(parse("unix:x"), Ok(Outlet::Socket(path)) if path.is_absolute()));
        assert_eq!(parse("/var/lib/x.prom"), Ok(Outlet::File("/var/lib/x.prom".into())));
        for (text, why) in [
            ("", "no port"),
            ("65536", "no port"),
            ("localhost", "no port"),
            ("localhost:http", "no port"),
            ("unix:", "no path"),
            ("/var/lib/x", "end in .prom"),
            ("/var/lib/.prom", "end in .prom"),
        ] {
            let said = parse(text).unwrap_err();
            assert!(said.contains(why) && said.contains("unix:PATH"), "{said}");
        }
    }

    #[test]
    fn a_socket_is_for_its_user_alone_and_replaces_a_dead_one() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let (listener, spot) = listen(&path, None).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(listen(&path, None).is_err(), "somebody listens");
        // Who listens and is busy is as alive.
        let waiting: Vec<_> = (0..40)
            .map_while(|_| {
                let socket = socket(SocketFlags::NONBLOCK).unwrap();
                rustix::net::connect(&socket, &SocketAddrUnix::new(&path).unwrap()).ok().map(|()| socket)
            })
            .collect();
        assert!(waiting.len() < 40 && listen(&path, None).is_err());
        drop(listener);
        let second = listen(&path, None).unwrap();
        drop(spot);
        assert!(path.exists(), "it is the second one's");
        drop(second);
        assert!(!path.exists());
        std::fs::write(&path, "a file").unwrap();
        assert!(listen(&path, None).is_err() && path.exists());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
