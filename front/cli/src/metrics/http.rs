//! The page of metrics by HTTP: GET and HEAD, one request for each connection.
//!
//! Each connection has a thread, and everything a bound: whoever connects can delay others who connect, and nobody
//! else.

#![allow(clippy::disallowed_types, reason = "who looks at a mount is no part of what is scheduled")]

use super::Render;
use crate::log::now;
use httparse::Status;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{Shutdown, SocketFlags, accept_with, shutdown};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// The page.
pub(super) const PATH: &str = "/metrics";

/// Connections that are served at a time. For another one the oldest goes.
const MOST: usize = 16;
/// Bytes of a request's head, and its lines.
const HEAD: usize = 8 << 10;
const LINES: usize = 64;

/// For how long a request may come, and for how long an answer may be taken.
const PATIENCE: Duration = Duration::from_secs(5);
/// For how long what nobody reads may come behind a request: a close before that would take the answer from its reader.
const DRAIN: Duration = Duration::from_secs(1);
/// Bytes of that.
const REST: usize = 64 << 10;
/// For how long a page is as good as new, and after how long connections are taken again when there were many.
const WINDOW: Duration = Duration::from_millis(10);

/// Serves until it is dropped.
pub(super) struct Server {
    listener: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves whoever connects to `listener`, of whatever family that is.
    ///
    /// # Errors
    /// No thread is to be had.
    pub(super) fn start(listener: OwnedFd, render: Render) -> io::Result<Self> {
        let listener = Arc::new(listener);
        let page = Arc::new(Mutex::new(Page { render, text: None, made: Duration::ZERO }));
        let listened = Arc::clone(&listener);
        let thread = Builder::new().name("ondol-metrics".into()).spawn(move || serve(&listened, &page))?;
        Ok(Self { listener, thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nobody is taken any more.
        let _ = shutdown(&self.listener, Shutdown::Both);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::warn!("the server of metrics has panicked");
        }
    }
}

/// The page, put together when it is asked for.
struct Page {
    render: Render,
    text: Option<Arc<str>>,
    made: Duration,
}

impl Page {
    fn get(&mut self, now: Duration) -> Option<Arc<str>> {
        if self.text.is_none() || now.saturating_sub(self.made) > WINDOW {
            self.text = (self.render)().map(Arc::from);
            self.made = now;
        }
        self.text.clone()
    }
}

/// A connection that is served, which can be ended.
struct Open {
    socket: Arc<OwnedFd>,
    thread: JoinHandle<()>,
}

impl Open {
    fn new(socket: OwnedFd, page: &Arc<Mutex<Page>>) -> io::Result<Self> {
        let socket = Arc::new(socket);
        let (served, page) = (Arc::clone(&socket), Arc::clone(page));
        let work = move || {
            if let Err(e) = attend(&served, &page) {
                tracing::debug!("a connection for metrics: {e}");
            }
        };
        let thread = Builder::new().name("ondol-metrics".into()).spawn(work)?;
        Ok(Self { socket, thread })
    }

    fn end(self) {
        let _ = shutdown(&self.socket, Shutdown::Both);
        // Until it is gone, another one would be one too many. It has said itself what went wrong.
        let _ = self.thread.join();
    }
}

/// Takes connections until that is no longer possible.
fn serve(listener: &OwnedFd, page: &Arc<Mutex<Page>>) {
    let mut open: Vec<Open> = Vec::new();
    for taken in 1_usize.. {
        let one = match accept_with(listener, SocketFlags::CLOEXEC) {
            Ok(socket) => Open::new(socket, page),
            Err(Errno::INVAL) => break,
            Err(e) => Err(e.into()),
        };
        open.retain(|one| !one.thread.is_finished());
        if open.len() >= MOST {
            open.remove(0).end();
        }
        let failed = one.map(|one| open.push(one)).inspect_err(|e| tracing::debug!("a connection for metrics: {e}"));
        // It has gone already, or there are no descriptors or threads: it is tried again, not at once.
        if failed.is_err() || taken.is_multiple_of(MOST) {
            std::thread::sleep(WINDOW);
        }
    }
    open.into_iter().for_each(Open::end);
}

/// Gives a connection its answer. Whoever says nothing gets nothing.
fn attend(socket: &OwnedFd, page: &Mutex<Page>) -> io::Result<()> {
    let (mut head, mut space) = (Vec::new(), [0; 2048]);
    let until = now() + PATIENCE;
    let answer = loop {
        let len = read(socket, &mut space, until)?;
        head.extend_from_slice(space.get(..len).unwrap_or_default());
        match answer(&head, page) {
            Some(answer) => break answer,
            None if len == 0 => return Ok(()),
            None => {}
        }
    };
    let (mut left, until) = (&answer[..], now() + PATIENCE);
    while !left.is_empty() {
        set_socket_timeout(socket, Timeout::Send, Some(remaining(until)?))?;
        left = left.get(rustix::io::write(socket, left)?..).unwrap_or_default();
    }
    shutdown(socket, Shutdown::Write)?;
    let (mut rest, until) = (0, now() + DRAIN);
    while rest < REST {
        match read(socket, &mut space, until)? {
            0 => break,
            len => rest += len,
        }
    }
    Ok(())
}

fn read(socket: &OwnedFd, space: &mut [u8], until: Duration) -> io::Result<usize> {
    set_socket_timeout(socket, Timeout::Recv, Some(remaining(until)?))?;
    Ok(rustix::io::read(socket, space)?)
}

/// The time until then.
fn remaining(until: Duration) -> io::Result<Duration> {
    until.checked_sub(now()).filter(|left| !left.is_zero()).ok_or_else(|| Errno::TIMEDOUT.into())
}

/// The answer to a request; `None` while more of it is to come.
fn answer(head: &[u8], page: &Mutex<Page>) -> Option<Vec<u8>> {
    let mut lines = [httparse::EMPTY_HEADER; LINES];
    let mut request = httparse::Request::new(&mut lines);
    match request.parse(head) {
        Ok(Status::Complete(_)) => {}
        Ok(Status::Partial) if head.len() <= HEAD => return None,
        Ok(Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            return Some(refusal("431 Request Header Fields Too Large"));
        }
        Err(_) => return Some(refusal("400 Bad Request")),
    }
    let (method, target) = (request.method.unwrap_or_default(), request.path.unwrap_or_default());
    if !matches!(method, "GET" | "HEAD") {
        return Some(refusal("405 Method Not Allowed\r\nAllow: GET, HEAD"));
    }
    let found = match target.split('?').next().unwrap_or_default() {
        PATH => page.lock().unwrap_or_else(PoisonError::into_inner).get(now()).ok_or("503 Service Unavailable"),
        "/" => Ok(Arc::from(format!("ondol: metrics are on {PATH}\n"))),
        _ => Err("404 Not Found"),
    };
    Some(match found {
        Ok(text) => message("200 OK", &text, method == "HEAD"),
        Err(status) => message(status, &format!("{status}\n"), method == "HEAD"),
    })
}

fn refusal(status: &str) -> Vec<u8> {
    let text = status.lines().next().unwrap_or_default();
    message(status, &format!("{text}\n"), false)
}

fn message(status: &str, text: &str, only_head: bool) -> Vec<u8> {
    let kind = "Content-Type: text/plain; version=0.0.4; charset=utf-8";
    let head = format!("HTTP/1.1 {status}\r\n{kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", text.len());
    (if only_head { head } else { head + text }).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// A server on a socket of its own, and how often it has put the page together.
    fn server(text: &'static str) -> (Server, std::path::PathBuf, Arc<AtomicUsize>, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap().into();
        let made = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&made);
        let render = move || {
            count.fetch_add(1, Relaxed);
            (!text.is_empty()).then(|| text.to_owned())
        };
        (Server::start(listener, Box::new(render)).unwrap(), path, made, dir)
    }

    fn said(path: &std::path::Path, request: &[u8]) -> String {
        let mut stream = UnixStream::connect(path).unwrap();
        stream.write_all(request).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn what_is_asked_for_decides_the_answer() {
        let (_server, path, _, _dir) = server("a 1\n");
        let page = said(&path, b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n");
        assert!(page.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4;"), "{page}");
        assert!(page.contains("\r\nContent-Length: 4\r\n") && page.ends_with("\r\n\r\na 1\n"), "{page}");
        let head = said(&path, b"HEAD /metrics?x=1 HTTP/1.0\n\n");
        assert!(head.contains("Content-Length: 4\r\n") && head.ends_with("\r\n\r\n"), "{head}");
        let long = [b"GET /metrics HTTP/1.1\r\nx: ".as_slice(), &[b'y'; 2 * HEAD]].concat();
        let many = [b"GET /metrics HTTP/1.1\r\n".as_slice(), &b"x: y\r\n".repeat(LINES + 1), b"\r\n"].concat();
        for (request, status) in [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], "200 OK"),
            (b"GET /other HTTP/1.1\r\n\r\n", "404 "),
            (b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "405 "),
            (b"GET /metrics\r\n\r\n", "400 "),
            (b"\xff\xfe\x00\r\n\r\n", "400 "),
            (b"GET /metrics SMTP\r\n\r\n", "400 "),
            (&long, "431 "),
            (&many, "431 "),
        ] {
            let answer = said(&path, request);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
        }
    }

    /// Who connects and says nothing, who says half of it, and who does not take the answer.
    #[test]
    fn nobody_is_kept_from_the_page_by_others() {
        let (_server, path, made, _dir) = server("a 1\n");
        let mut others = Vec::new();
        for n in 0..3 * MOST {
            let mut other = UnixStream::connect(&path).unwrap();
            // Some are gone by then, which is what should be.
            let _ = other.write_all([&b""[..], b"GET /metr", b"GET /metrics HTTP/1.1\r\n\r\n"][n % 3]);
            others.push(other);
        }
        for _ in 0..100 {
            assert!(said(&path, b"GET /metrics HTTP/1.1\r\n\r\n").ends_with("\r\n\r\na 1\n"));
        }
        assert!(made.load(Relaxed) <= 3 * MOST + 100);
        let mut ended = 0;
        for other in &mut others[..2 * MOST] {
            ended += usize::from(other.read_to_end(&mut Vec::new()).is_ok());
        }
        assert_eq!(ended, 2 * MOST, "the first ones are let go");
    }

    #[test]
    fn a_page_is_put_together_once_for_all_who_ask_at_a_time() {
        let made = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&made);
        let render = move || Some(count.fetch_add(1, Relaxed).to_string());
        let mut page = Page { render: Box::new(render), text: None, made: Duration::ZERO };
        let mut at = |ms| page.get(Duration::from_millis(ms)).unwrap().to_string();
        assert_eq!([at(5), at(6), at(15), at(16)], ["0", "0", "0", "1"]);
    }

    #[test]
    fn a_mount_that_ends_has_no_page() {
        let (_server, path, _, _dir) = server("");
        assert!(said(&path, b"GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 503 "));
    }
}
