//! fusermount3(1): mounts and unmounts for users who may not call mount(2).

use crate::MountError;
use crate::options::MountOptions;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use std::ffi::OsStr;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Where the helper looks for its end of the socket. It is given as standard input, which a child inherits without ado.
const SOCKET_VARIABLE: &str = "_FUSE_COMMFD";

const NAMES: [&str; 2] = ["fusermount3", "fusermount"];

/// Mounts on `dir`. Answers with the connection, and with the socket that must stay open for `auto_unmount`.
///
/// # Errors
/// `Helper` with the helper's own words.
pub(crate) fn mount(dir: &Path, source: &str, options: &MountOptions) -> Result<(OwnedFd, UnixStream), MountError> {
    let fail = |said: String| MountError::Helper { dir: dir.to_owned(), said };
    let (ours, theirs) = UnixStream::pair().map_err(|e| fail(e.to_string()))?;
    let mut child = start(dir, &words(source, options), theirs).map_err(|e| fail(e.to_string()))?;
    match receive(&ours) {
        Ok(connection) => {
            if !options.auto_unmount {
                // It has done its work; an error after the hand-over cannot matter any more.
                let _ = child.wait();
            }
            Ok((connection, ours))
        }
        Err(e) => {
            drop(ours);
            let said = child.wait_with_output().map(|o| String::from_utf8_lossy(&o.stderr).trim().to_owned());
            Err(fail(said.ok().filter(|s| !s.is_empty()).unwrap_or_else(|| e.to_string())))
        }
    }
}

/// Unmounts `dir`: when it is free, or (`lazy`) out of sight at once and for good when its last user is gone.
///
/// # Errors
/// What the helper said, or why it did not run.
pub(crate) fn unmount(dir: &Path, lazy: bool) -> io::Result<()> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for name in NAMES {
        let mut command = Command::new(name);
        command.arg("-u");
        if lazy {
            command.arg("-z");
        }
        match command.arg("--").arg(dir).stdin(Stdio::null()).output() {
            Ok(out) if out.status.success() => return Ok(()),
            Ok(out) => {
                let said = String::from_utf8_lossy(&out.stderr).trim().to_owned();
                let kind = if said.contains("busy") { io::ErrorKind::ResourceBusy } else { io::ErrorKind::Other };
                return Err(io::Error::new(kind, said));
            }
            Err(e) => last = e,
        }
    }
    Err(io::Error::new(last.kind(), format!("fusermount3 is needed to unmount without privilege: {last}")))
}

fn start(dir: &Path, words: &str, socket: UnixStream) -> io::Result<Child> {
    let socket = OwnedFd::from(socket);
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for name in NAMES {
        let stdin = Stdio::from(socket.try_clone()?);
        let mut command = Command::new(name);
        command.arg("-o").arg(words).arg("--").arg(dir).env(SOCKET_VARIABLE, "0");
        match command.stdin(stdin).stdout(Stdio::null()).stderr(Stdio::piped()).spawn() {
            Ok(child) => return Ok(child),
            Err(e) => last = e,
        }
    }
    Err(io::Error::new(last.kind(), format!("fusermount3 is needed to mount without privilege: {last}")))
}

fn words(source: &str, options: &MountOptions) -> String {
    let mut words = options.fuse_words();
    words.extend(options.flag_words().into_iter().map(str::to_owned));
    words.push(format!("fsname={}", escape(source)));
    words.push(format!("subtype={}", escape(&options.subtype)));
    if options.auto_unmount {
        words.push("auto_unmount".into());
    }
    words.join(",")
}

/// The helper splits at commas; a backslash keeps one.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace(',', "\\,")
}

/// The file descriptor that the helper passes through the socket.
fn receive(socket: &UnixStream) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0u8; 1];
    let mut parts = [IoSliceMut::new(&mut byte)];
    rustix::io::retry_on_intr(|| rustix::net::recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC))?;
    let fd = control.drain().find_map(|m| match m {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    fd.ok_or_else(|| io::Error::new(io::ErrorKind::UnexpectedEof, "the helper passed no connection"))
}

/// What mount tables are to show for `path`; they hold text.
pub(crate) fn shown(path: &OsStr) -> String {
    String::from_utf8_lossy(path.as_bytes()).into_owned()
}
