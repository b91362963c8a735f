//! One change of names, as the log's protocol asks for it.

use crate::call::now_ns;
use crate::files::{directory, text};
use crate::names::Parent;
use crate::raw::{self, system};
use crate::shim::{self, Shim};
use libc::{AT_FDCWD, O_CLOEXEC, O_PATH, c_char, c_int};
use ondol_run_log::{Change, Look, NameCall, Names, Side, Subject, Written};
use std::cell::Cell;
use std::ffi::{CStr, CString};

/// A change of names and how the kernel does it.
pub(super) struct OneChange<'a> {
    /// Where the name is that is made or removed.
    there: &'a Parent,
    /// The directory that a file leaves for that one.
    pub(super) left: Option<&'a Parent>,
    pub(super) names: Names,
    /// The name that a renamed or linked file has before.
    pub(super) old: (c_int, *const c_char),
    real: &'a dyn Fn() -> c_int,
    /// What the kernel has answered: the descriptor of a file that was made.
    answer: Cell<c_int>,
    /// A descriptor of a file that loses one of its names.
    held: Cell<Option<c_int>>,
}

impl<'a> OneChange<'a> {
    pub(super) fn new(there: &'a Parent, change: Change, real: &'a dyn Fn() -> c_int) -> Self {
        let names = Names { change, name: there.name.to_bytes().to_vec(), old: Vec::new() };
        let (answer, held) = (Cell::new(-1), Cell::new(None));
        Self { there, left: None, names, old: (AT_FDCWD, std::ptr::null()), real, answer, held }
    }

    /// Does it, into the log, too; none if nothing was done, since a directory is not trusted after all.
    pub(super) fn done(&self, shim: &Shim) -> Option<c_int> {
        match shim.client.change_names(self.there.slot, self.left.map(|left| left.slot), self) {
            Ok(Written::Done(())) => Some(self.answer.get()),
            Ok(Written::Stale) => None,
            // Not once more: by now it might be done, unseen.
            Err(error) => Some(raw::fail(error)),
        }
    }
}

impl Drop for OneChange<'_> {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            let error = raw::errno();
            system!(libc::SYS_close, held);
            raw::fail(error);
        }
    }
}

fn subject(dir: c_int, path: &CStr) -> Option<Subject> {
    Subject::at(directory(dir)?, path).ok()
}

impl NameCall for OneChange<'_> {
    type Fail = c_int;

    fn now_ns(&self) -> u64 {
        now_ns()
    }

    fn names(&self) -> &Names {
        &self.names
    }

    fn look(&self, side: Side) -> Result<Look, c_int> {
        if shim::seen_inside() {
            // A signal handler has changed names meanwhile, which nobody has seen.
            return Err(libc::EINTR);
        }
        match (side, self.left) {
            (Side::Left, Some(left)) => left.look(),
            _ => self.there.look(),
        }
    }

    fn subject(&self, done: bool) -> Option<Subject> {
        match (self.names.change, done) {
            (Change::Create, _) => Subject::at(raw::borrow(self.answer.get())?, c"").ok(),
            (Change::Rename | Change::Arrive | Change::Link, false) => subject(self.old.0, text(self.old.1)?),
            _ => match self.held.get() {
                Some(held) => Subject::at(raw::borrow(held)?, c"").ok(),
                None => self.replaced().ok()?,
            },
        }
    }

    fn hold(&self) -> bool {
        let flags = O_PATH | O_CLOEXEC | libc::O_NOFOLLOW;
        let open = |path: CString| system!(libc::SYS_openat, self.there.dir, path.as_ptr(), flags, 0) as c_int;
        self.held.set(self.there.whole().map(open).filter(|fd| *fd >= 0));
        self.held.get().is_some()
    }

    fn replaced(&self) -> Result<Option<Subject>, c_int> {
        let whole = self.there.whole().ok_or(libc::EINVAL)?;
        let dir = directory(self.there.dir).ok_or(libc::EBADF)?;
        match Subject::at(dir, &whole) {
            Ok(subject) => Ok(Some(subject)),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e.raw_os_error().unwrap_or(libc::EIO)),
        }
    }

    fn run(&self) -> Result<(), c_int> {
        self.answer.set((self.real)());
        if self.answer.get() < 0 { Err(raw::errno()) } else { Ok(()) }
    }
}
