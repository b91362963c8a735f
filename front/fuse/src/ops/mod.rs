//! What each request means: plain arguments in, plain results or an errno out. No FUSE type appears here.
//!
//! [`Ops`] is where requests enter the volume. It counts them, keeps them out once the volume is being closed, and
//! keeps a panic from taking the server down: the request fails with `EIO`, the panic is logged, and since state in
//! memory may be half changed, the volume takes no change any more; reading goes on.

mod carrier;
mod contents;
mod count;
mod exchange;
mod failed;
mod inode;
mod listing;
mod names;
mod pages;
mod sender;
mod state;
mod tickets;
mod timing;
mod whole;

pub(crate) use carrier::Carrier;
pub(crate) use contents::{CopyFrom, CopyTo, Opening, Range, Write};
pub(crate) use count::{Counters, Op};
pub(crate) use exchange::Asked;
pub(crate) use inode::SetAttribute;
pub(crate) use listing::{Listed, ListedPlus};
pub(crate) use names::Named;
pub(crate) use sender::{Sender, UNTOLD};
pub(crate) use tickets::Ticket;

use crate::gate::Gate;
use carrier::Carried;
use failed::Failed;
use ondol::Volume;
use ondol::inodes::{Error, Inodes};
use parking_lot::Mutex;
use state::Identity;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use tickets::Tickets;
use timing::Timing;
use whole::Said;

/// A number of errno(3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) i32);

impl From<rustix::io::Errno> for Errno {
    fn from(e: rustix::io::Errno) -> Self {
        Self(e.raw_os_error())
    }
}

/// The result of a request.
pub(crate) type Answer<T> = Result<T, Errno>;

/// The operations on one mounted volume.
pub(crate) struct Ops {
    gate: Gate<Volume>,
    counters: Counters,
    timing: Timing,
    failed: Failed,
    /// When the mount began, by the monotonic clock.
    since: u64,
    identity: Identity,
    served_with: OnceLock<String>,
    broken: AtomicBool,
    carried: Carried,
    /// Held while the kernel is made to forget the pages of two files that are exchanged.
    exchanging: Mutex<()>,
    tickets: Tickets,
    /// Changes of the whole volume that somebody is about to make.
    said: Mutex<Vec<Said>>,
}

impl Ops {
    pub(crate) fn new(volume: Volume) -> Self {
        Self {
            identity: Identity::of(&volume),
            gate: Gate::new(volume),
            counters: Counters::default(),
            timing: Timing::default(),
            failed: Failed::default(),
            since: timing::now(),
            served_with: OnceLock::new(),
            broken: AtomicBool::new(false),
            carried: Carried::default(),
            exchanging: Mutex::default(),
            tickets: Tickets::default(),
            said: Mutex::default(),
        }
    }

    /// Waits for the requests under way and hands back the volume; later requests fail with `ENODEV`.
    pub(crate) fn close(&self) -> Option<Volume> {
        self.gate.close()
    }

    /// From now on requests come through `carrier`, whose messages take so many bytes beyond the volume's share for
    /// them.
    pub(crate) fn is_carried_by(&self, carrier: Carrier, excess: usize) {
        self.carried.set(carrier, excess);
    }

    /// Whether a request has panicked.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    /// Serves a request that changes nothing.
    fn ask<T>(&self, op: Op, f: impl FnOnce(&Inodes) -> Result<T, Error>) -> Answer<T> {
        self.enter(op, |volume| f(volume.inodes()))
    }

    /// Serves a request that changes something, for its sender.
    fn change<T>(&self, op: Op, sender: Sender, f: impl FnOnce(&Inodes) -> Result<T, Error>) -> Answer<T> {
        self.vouch(op, |i| sender.act(i, || f(i)))
    }

    /// Serves a request that vouches for changes.
    fn vouch<T>(&self, op: Op, f: impl FnOnce(&Inodes) -> Result<T, Error>) -> Answer<T> {
        if self.is_broken() {
            self.counters.count(op);
            return self.refused(op, rustix::io::Errno::IO.into());
        }
        self.enter(op, |volume| f(volume.inodes()))
    }

    fn enter<T>(&self, op: Op, f: impl FnOnce(&Volume) -> Result<T, Error>) -> Answer<T> {
        self.counters.count(op);
        let begun = self.timing.begin();
        let outcome = self.gate.enter(|volume| {
            let outcome = catch_unwind(AssertUnwindSafe(|| f(volume)));
            if outcome.is_err() {
                self.broken.store(true, Ordering::Relaxed);
                volume.inodes().refuse_changes("a request has failed unexpectedly");
            }
            outcome
        });
        self.timing.end(op, begun);
        let errno = match outcome {
            None => rustix::io::Errno::NODEV.into(),
            Some(Ok(Ok(answer))) => return Ok(answer),
            Some(Ok(Err(e))) => {
                tracing::debug!(request = op.name(), "{e}");
                Errno(ondol::errno_of(&e))
            }
            Some(Err(panic)) => {
                tracing::error!(request = op.name(), "panic: {}; changes are refused from now on", said(&*panic));
                rustix::io::Errno::IO.into()
            }
        };
        self.refused(op, errno)
    }

    /// Answers with an error.
    fn refused<T>(&self, op: Op, errno: Errno) -> Answer<T> {
        self.failed.count(op, errno.0);
        Err(errno)
    }
}

fn said(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondol::{FormatOptions, Options, ROOT};

    #[test]
    fn after_a_panic_nothing_changes_any_more() {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("image");
        Volume::format(&image, &FormatOptions::new().size(8 << 20)).unwrap();
        let ops = Ops::new(Volume::open_with(&image, &Options::default()).unwrap());
        let root = Sender { uid: 0, gid: 0, umask: 0, thread: 0, mapped: false };
        let gone = ops.names().create(ROOT, b"gone", 0o600, root).unwrap().ino;
        ops.names().unlink(ROOT, b"gone", root).unwrap();
        let eio: Errno = rustix::io::Errno::IO.into();
        assert_eq!(ops.ask(Op::Statfs, |_| -> Result<(), Error> { panic!("a defect") }), Err(eio));
        assert_eq!(ops.names().mkdir(ROOT, b"d", 0o755, root).unwrap_err(), eio);
        assert_eq!(ops.fsync(ROOT, false).unwrap_err(), eio);
        // Whatever fails was asked for.
        let told = ops.measure().unwrap();
        assert!(told["requests"]["fsync"] == 1 && told["errors"]["fsync"]["EIO"] == 1, "{told}");
        // The last close of a file without names would delete it.
        ops.release(gone).unwrap();
        assert!(ops.getattr(Op::Getattr, gone).is_ok());
        ops.close().unwrap().close().unwrap();
        let report = ondol::check(&image).unwrap();
        assert!(report.problems.is_empty(), "{:?}", report.problems);
        assert_eq!(ondol::info(&image).unwrap().state, "errors");
        let volume = Volume::open(&image).unwrap();
        assert_eq!(volume.recovered().orphans_deleted, 1);
    }

    #[test]
    fn a_mount_tells_of_itself_when_its_medium_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("image");
        Volume::format(&image, &FormatOptions::new().size(8 << 20).label("name")).unwrap();
        let ops = Ops::new(Volume::open_with(&image, &Options::default()).unwrap());
        std::fs::OpenOptions::new().write(true).open(&image).unwrap().set_len(0).unwrap();
        let told = ops.measure().unwrap();
        assert!(told["label"] == "name" && told["target"] == image.to_str().unwrap(), "{told}");
        // What that does to the image is not of interest.
        let _ = ops.close().unwrap().close();
    }
}
