//! `metrics=`: what a mount has done, as Prometheus reads it, by HTTP or in a file.
//!
//! Why it is so: `docs/design/seeing.md`.

mod file;
mod http;
mod names;
mod text;

pub(crate) use names::{Kind, NAMES};

use ondol_fuse::Meter;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Where metrics are to be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outlet {
    /// HTTP on any of these.
    Address(Vec<SocketAddr>),
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
        if host.is_empty() {
            return Ok(Self::Address(vec![SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)]));
        }
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let found = (host, port).to_socket_addrs().map_err(|e| wrong(&format!("{host}: {e}")))?;
        Ok(Self::Address(found.collect()))
    }

    /// Makes sure that they can be had there, before anything is mounted.
    ///
    /// # Errors
    /// A sentence for the user.
    pub(crate) fn open(&self) -> Result<Opened, String> {
        match self {
            Self::Address(addresses) => {
                let listen = |e| format!("no metrics: cannot listen on {}: {e}", shown(addresses));
                let listener = TcpListener::bind(&addresses[..]).map_err(listen)?;
                let address = listener.local_addr().map_err(listen)?;
                if !address.ip().is_loopback() {
                    tracing::warn!("metrics are to be had by whoever reaches {address}");
                }
                let what = format!("on http://{address}{}", http::PATH);
                Ok(Opened::Server { listener: http::Listener::Tcp(listener), what, socket: None })
            }
            Self::Socket(path) => {
                let listener =
                    listen(path).map_err(|e| format!("no metrics: cannot listen on {}: {e}", path.display()))?;
                let what = format!("on unix:{}", path.display());
                Ok(Opened::Server {
                    listener: http::Listener::Unix(listener),
                    what,
                    socket: Some(Socket(path.clone())),
                })
            }
            Self::File(path) => Ok(Opened::File(path.clone())),
        }
    }
}

fn shown(addresses: &[SocketAddr]) -> String {
    addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(", ")
}

/// Listens on a socket to which only this user may connect. One that nobody listens on is replaced.
fn listen(path: &Path) -> std::io::Result<UnixListener> {
    let is_socket = path.symlink_metadata().is_ok_and(|found| found.file_type().is_socket());
    if is_socket && UnixStream::connect(path).is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionRefused) {
        std::fs::remove_file(path)?;
    }
    let flags = rustix::net::SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // What it is bound to gets the mode that it has.
    rustix::fs::fchmod(&socket, rustix::fs::Mode::from_raw_mode(0o600))?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    if let Err(e) = rustix::net::listen(&socket, 16) {
        // What went wrong is the thing to tell.
        let _ = std::fs::remove_file(path);
        return Err(e.into());
    }
    Ok(socket.into())
}

/// A socket in the file system, which goes with its listener.
#[derive(Debug)]
pub(crate) struct Socket(PathBuf);

impl Drop for Socket {
    fn drop(&mut self) {
        if let Err(e) = std::fs::remove_file(&self.0) {
            tracing::warn!("{}: {e}", self.0.display());
        }
    }
}

/// A place where metrics can be had.
#[derive(Debug)]
pub(crate) enum Opened {
    /// Somebody can connect to it.
    Server { listener: http::Listener, what: String, socket: Option<Socket> },
    /// It will be written.
    File(PathBuf),
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
                let render = move || Some(text::render(&meter.read()?, &point, text::For::Scrape));
                let server = http::Server::start(listener, Box::new(render)).map_err(thread)?;
                Ok(Outgoing { what, _server: Some(server), _file: None, _socket: socket })
            }
            Self::File(path) => {
                let render = move || Some(text::render(&meter.read()?, &point, text::For::File));
                let what = format!("in {}", path.display());
                let file = file::Writer::start(path, Box::new(render)).map_err(thread)?;
                Ok(Outgoing { what, _server: None, _file: Some(file), _socket: None })
            }
        }
    }
}

/// What `start` has started; dropping it ends that.
pub(crate) struct Outgoing {
    /// Where they are to be had: "on …" or "in …".
    pub(crate) what: String,
    _server: Option<http::Server>,
    _file: Option<file::Writer>,
    _socket: Option<Socket>,
}

/// Puts metrics together; `None` when the mount ends.
pub(crate) type Render = Box<dyn Fn() -> Option<String> + Send>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outlet_is_an_address_a_socket_or_a_file() {
        let parse = |text: &str| Outlet::parse(text);
        let address = |text: &str| Ok(Outlet::Address(vec![text.parse().unwrap()]));
        assert_eq!(parse("9464"), address("127.0.0.1:9464"));
        assert_eq!(parse(":9464"), address("127.0.0.1:9464"));
        assert_eq!(parse("0.0.0.0:9464"), address("0.0.0.0:9464"));
        assert_eq!(parse("[::1]:9464"), address("[::1]:9464"));
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
        let listener = listen(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(listen(&path).is_err(), "somebody listens");
        drop(listener);
        drop((listen(&path).unwrap(), Socket(path.clone())));
        assert!(!path.exists());
        std::fs::write(&path, "a file").unwrap();
        assert!(listen(&path).is_err() && path.exists());
    }
}
