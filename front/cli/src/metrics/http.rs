//! As much of HTTP as a scraper needs: GET and HEAD of one page, one request for each connection.
//!
//! One thread, and bounds for everything: whoever connects can delay others who connect, and nobody else.

use super::Render;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::thread::JoinHandle;

/// The page.
pub(super) const PATH: &str = "/metrics";

/// Connections that are served at a time. For another one the oldest goes whose request has not come.
const MOST: usize = 16;
/// Connections that are taken in one [`WINDOW`].
const TAKEN: usize = 16;
/// Bytes of a request's head.
const HEAD: usize = 8 << 10;

const MS: u64 = 1_000_000;
/// For how long a request may come, and for how long an answer may be taken, in nanoseconds.
const PATIENCE: u64 = 5000 * MS;
/// For how long what nobody reads may come behind a request.
const DRAIN: u64 = 1000 * MS;
/// Bytes of that.
const REST: usize = 64 << 10;
/// For how long a page is as good as new.
const WINDOW: u64 = 10 * MS;

/// Where connections come from.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    fn accept(&self) -> io::Result<Stream> {
        let stream = match self {
            Self::Tcp(listener) => Stream::Tcp(listener.accept()?.0),
            Self::Unix(listener) => Stream::Unix(listener.accept()?.0),
        };
        match &stream {
            Stream::Tcp(stream) => stream.set_nonblocking(true)?,
            Stream::Unix(stream) => stream.set_nonblocking(true)?,
        }
        Ok(stream)
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener) => listener.as_fd(),
        }
    }
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }

    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(space),
            Self::Unix(stream) => stream.read(space),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn end_writing(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
        }
    }
}

/// Serves until it is dropped.
pub(super) struct Server {
    /// Its end ends the thread.
    wake: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// # Errors
    /// No descriptor or no thread is to be had.
    pub(super) fn start(listener: Listener, render: Render) -> io::Result<Self> {
        match &listener {
            Listener::Tcp(listener) => listener.set_nonblocking(true)?,
            Listener::Unix(listener) => listener.set_nonblocking(true)?,
        }
        let (wake, woken) = UnixStream::pair()?;
        let page = Page { render, text: None, made: 0 };
        let mut desk = Desk { listener, page, open: Vec::new(), window: 0, taken: 0 };
        let work = move || {
            if let Err(e) = desk.serve(&woken) {
                tracing::warn!("metrics are to be had no more: {e}");
            }
        };
        let thread = std::thread::Builder::new().name("ondol-metrics".into()).spawn(work)?;
        Ok(Self { wake: Some(wake), thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.wake.take());
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::warn!("the server of metrics has panicked");
        }
    }
}

fn now() -> u64 {
    let t = clock_gettime(ClockId::Monotonic);
    t.tv_sec.cast_unsigned() * 1_000_000_000 + t.tv_nsec.cast_unsigned()
}

/// The page, put together when it is asked for.
struct Page {
    render: Render,
    text: Option<Arc<str>>,
    made: u64,
}

impl Page {
    fn get(&mut self, now: u64) -> Option<Arc<str>> {
        if self.text.is_none() || now.saturating_sub(self.made) > WINDOW {
            self.text = (self.render)().map(Arc::from);
            self.made = now;
        }
        self.text.clone()
    }
}

/// What a connection is at.
enum At {
    /// Its request comes.
    Request(Vec<u8>),
    /// Its answer goes, up to here so far.
    Answer(Vec<u8>, usize),
    /// It has its answer, and so many bytes more are passed over: a close before that would take the answer from it.
    Rest(usize),
}

struct Connection {
    stream: Stream,
    at: At,
    until: u64,
}

struct Desk {
    listener: Listener,
    page: Page,
    open: Vec<Connection>,
    /// When connections were counted anew, and how many have been taken since.
    window: u64,
    taken: usize,
}

impl Desk {
    fn serve(&mut self, woken: &UnixStream) -> io::Result<()> {
        loop {
            let begun = now();
            if begun.saturating_sub(self.window) > WINDOW {
                (self.window, self.taken) = (begun, 0);
            }
            let listens = self.taken < TAKEN;
            let ends = self.open.iter().map(|one| one.until);
            let end = ends.chain((self.taken >= TAKEN).then_some(self.window + WINDOW + MS)).min();
            let limit = end.map(|end| Timespec {
                tv_sec: (end.saturating_sub(begun) / 1_000_000_000).cast_signed(),
                tv_nsec: (end.saturating_sub(begun) % 1_000_000_000).cast_signed(),
            });
            let mut fds = vec![PollFd::new(woken, PollFlags::IN)];
            fds.extend(self.open.iter().map(|one| PollFd::from_borrowed_fd(one.stream.as_fd(), one.events())));
            if listens {
                fds.push(PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN));
            }
            match poll(&mut fds, limit.as_ref()) {
                Err(rustix::io::Errno::INTR) => continue,
                other => other?,
            };
            let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            if ready.first() == Some(&true) {
                return Ok(());
            }
            let now = now();
            let mut number = 0;
            let page = &mut self.page;
            self.open.retain_mut(|one| {
                number += 1;
                (ready.get(number) != Some(&true) || one.go_on(page, now)) && now < one.until
            });
            if listens && ready.last() == Some(&true) {
                self.accept(now);
            }
        }
    }

    fn accept(&mut self, now: u64) {
        match self.listener.accept() {
            Ok(stream) => {
                self.taken += 1;
                let mut one = Connection { stream, at: At::Request(Vec::new()), until: now + PATIENCE };
                // Its request has mostly come with it.
                if !one.go_on(&mut self.page, now) {
                    return;
                }
                if self.open.len() >= MOST {
                    let waits = |one: &Connection| matches!(one.at, At::Request(_));
                    let oldest = self.open.iter().position(waits).unwrap_or(0);
                    self.open.remove(oldest);
                }
                self.open.push(one);
            }
            // It has gone already, or there are no descriptors: it is tried again, not at once.
            Err(e) => {
                self.taken = TAKEN;
                tracing::debug!("a connection for metrics: {e}");
            }
        }
    }
}

impl Connection {
    fn events(&self) -> PollFlags {
        match self.at {
            At::Answer(..) => PollFlags::OUT,
            At::Request(_) | At::Rest(_) => PollFlags::IN,
        }
    }

    /// Does what can be done without waiting; false when it is over.
    fn go_on(&mut self, page: &mut Page, now: u64) -> bool {
        match self.step(page, now) {
            Ok(goes_on) => goes_on,
            Err(e) => matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
        }
    }

    fn step(&mut self, page: &mut Page, now: u64) -> io::Result<bool> {
        let mut space = [0; 2048];
        if let At::Request(head) = &mut self.at {
            let len = self.stream.read(&mut space)?;
            head.extend_from_slice(space.get(..len).unwrap_or_default());
            let answer = if is_whole(head, len) {
                answer(head, page, now)
            } else if head.len() > HEAD {
                refusal("431 Request Header Fields Too Large")
            } else if len == 0 {
                // Whoever says nothing gets nothing.
                return Ok(false);
            } else {
                return Ok(true);
            };
            self.at = At::Answer(answer, 0);
            self.until = now + PATIENCE;
        }
        if let At::Answer(bytes, sent) = &mut self.at {
            while *sent < bytes.len() {
                let left = bytes.get(*sent..).unwrap_or_default();
                *sent += self.stream.write(left)?;
            }
            self.stream.end_writing()?;
            self.at = At::Rest(REST);
            self.until = self.until.min(now + DRAIN);
        }
        let len = self.stream.read(&mut space)?;
        let At::Rest(left) = &mut self.at else { return Ok(false) };
        *left = left.saturating_sub(len);
        Ok(len > 0 && *left > 0)
    }
}

/// Whether the end of a request's head is among its last bytes, of which so many are new.
fn is_whole(head: &[u8], new: usize) -> bool {
    let head = head.get(head.len().saturating_sub(new + 3)..).unwrap_or(head);
    let ends = |end: &[u8]| head.windows(end.len()).any(|bytes| bytes == end);
    ends(b"\r\n\r\n") || ends(b"\n\n")
}

/// The answer to a request.
fn answer(head: &[u8], page: &mut Page, now: u64) -> Vec<u8> {
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = std::str::from_utf8(line).unwrap_or_default().trim_end_matches('\r');
    let words: Vec<&str> = line.split(' ').collect();
    let [method, target, version] = words[..] else { return refusal("400 Bad Request") };
    if !version.starts_with("HTTP/1.") {
        return refusal("400 Bad Request");
    }
    if !matches!(method, "GET" | "HEAD") {
        return refusal("405 Method Not Allowed\r\nAllow: GET, HEAD");
    }
    let found = match target.split('?').next().unwrap_or_default() {
        PATH => page.get(now).ok_or("503 Service Unavailable"),
        "/" => Ok(Arc::from(format!("ondol: metrics are on {PATH}\n"))),
        _ => Err("404 Not Found"),
    };
    match found {
        Ok(text) => message("200 OK", &text, method == "HEAD"),
        Err(status) => message(status, &format!("{status}\n"), method == "HEAD"),
    }
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
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// A server on a socket of its own, and how often it has put the page together.
    fn server(text: &'static str) -> (Server, std::path::PathBuf, Arc<AtomicUsize>, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listener = Listener::Unix(UnixListener::bind(&path).unwrap());
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
        for (request, status) in [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], "200 OK"),
            (b"GET /other HTTP/1.1\r\n\r\n", "404 "),
            (b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "405 "),
            (b"GET /metrics\r\n\r\n", "400 "),
            (b"\xff\xfe\x00\r\n\r\n", "400 "),
            (b"GET /metrics SMTP\r\n\r\n", "400 "),
            (&long, "431 "),
        ] {
            let answer = said(&path, request);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
        }
    }

    #[test]
    fn the_end_of_a_head_is_found_wherever_it_is_cut() {
        for text in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"GET / HTTP/1.1\n\n"] {
            assert!(is_whole(text, 1) && is_whole(text, text.len()));
            assert!((1..text.len()).all(|len| !is_whole(&text[..len], len)));
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
        let mut page = Page { render: Box::new(render), text: None, made: 0 };
        let at = |page: &mut Page, now| page.get(now).unwrap().to_string();
        assert_eq!(
            (at(&mut page, 5 * MS), at(&mut page, 6 * MS), at(&mut page, 15 * MS)),
            ("0".into(), "0".into(), "0".into())
        );
        assert_eq!(at(&mut page, 16 * MS), "1");
    }

    #[test]
    fn a_mount_that_ends_has_no_page() {
        let (_server, path, _, _dir) = server("");
        assert!(said(&path, b"GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 503 "));
    }
}
