//! Making, removing, renaming and linking files, in directories whose changes are all in the log; and who a file belongs to.

use crate::call::{FdCall, now_ns};
use crate::files::{directory, text};
use crate::raw::{self, system};
use crate::shim::{self, Inside, Shim, Slot};
use libc::{
    AT_FDCWD, O_CLOEXEC, O_CREAT, O_DIRECTORY, O_EXCL, O_PATH, c_char, c_int, c_uint, dev_t, gid_t, mode_t, uid_t,
};
use ondol_run_log::{Change, Look, NameCall, Names, Subject, Written};
use std::cell::Cell;
use std::ffi::{CStr, CString};

/// A trusted directory that a path leads into, open until this is dropped.
struct Parent {
    shim: &'static Shim,
    slot: Slot,
    fd: c_int,
    /// The path's last part.
    name: CString,
    /// The descriptor's number is the program's now.
    given: Cell<bool>,
    _inside: Inside,
}

impl Drop for Parent {
    fn drop(&mut self) {
        if !self.given.get() {
            let error = raw::errno();
            system!(libc::SYS_close, self.fd);
            raw::fail(error);
        }
    }
}

/// Splits a path before its last part; none if that names no file.
fn split(path: &CStr) -> Option<(CString, CString)> {
    let bytes = path.to_bytes();
    let (before, name) = match bytes.iter().rposition(|byte| *byte == b'/') {
        Some(at) => bytes.split_at_checked(at + 1)?,
        None => (&b"."[..], bytes),
    };
    let names = !matches!(name, b"" | b"." | b"..");
    names.then_some((CString::new(before).ok()?, CString::new(name).ok()?))
}

impl Parent {
    /// The directory that a path leads into, if all its changes are in the log.
    fn of(dir: c_int, path: *const c_char) -> Option<Self> {
        let (shim, inside) = shim::enter()?;
        let (before, name) = split(text(path)?)?;
        let look = Look::path(directory(dir)?, &before).ok()?;
        if !shim.is_on(&look) {
            return None;
        }
        let slot = shim.client.trusted_dir(&look).ok().flatten()?;
        let fd = system!(libc::SYS_openat, dir, before.as_ptr(), O_PATH | O_DIRECTORY | O_CLOEXEC, 0) as c_int;
        (fd >= 0).then(|| Self { shim, slot, fd, name, given: Cell::new(false), _inside: inside })
    }
}

/// A change of names and how the kernel does it.
struct OneChange<'a> {
    parent: &'a Parent,
    names: Names,
    /// Where the file has a name before, from which directory; for a rename and a link.
    from: (c_int, CString),
    real: &'a dyn Fn() -> c_int,
    /// What the kernel has answered: the descriptor of a file that was made.
    answer: Cell<c_int>,
}

impl NameCall for OneChange<'_> {
    type Fail = c_int;

    fn now_ns(&self) -> u64 {
        now_ns()
    }

    fn names(&self) -> &Names {
        &self.names
    }

    fn look(&self) -> Result<Look, c_int> {
        Look::at(raw::borrow(self.parent.fd).ok_or(libc::EBADF)?).map_err(|e| e.raw_os_error())
    }

    fn subject(&self, done: bool) -> Option<Subject> {
        match (self.names.change, done) {
            (Change::Create, _) => Subject::at(raw::borrow(self.answer.get())?, c"").ok(),
            (Change::Rename | Change::Link, false) => Subject::at(directory(self.from.0)?, &self.from.1).ok(),
            _ => self.replaced(),
        }
    }

    fn replaced(&self) -> Option<Subject> {
        Subject::at(raw::borrow(self.parent.fd)?, &self.parent.name).ok()
    }

    fn run(&self) -> Result<(), c_int> {
        self.answer.set((self.real)());
        if self.answer.get() < 0 { Err(raw::errno()) } else { Ok(()) }
    }
}

impl Parent {
    /// Does a change by `real`, into the log, too; none if the kernel is to be asked without: it refuses, or the directory is not trusted after all.
    fn change(&self, change: Change, from: (c_int, CString), real: &dyn Fn() -> c_int) -> Option<c_int> {
        let old = if change == Change::Rename { from.1.to_bytes().to_vec() } else { Vec::new() };
        let names = Names { change, name: self.name.to_bytes().to_vec(), old };
        let call = OneChange { parent: self, names, from, real, answer: Cell::new(-1) };
        match self.shim.client.change_names(self.slot, &call) {
            Ok(Written::Done(())) => Some(call.answer.get()),
            Ok(Written::Stale) | Err(_) => None,
        }
    }
}

/// A name is about to be changed past the log.
fn past(dir: c_int, path: *const c_char) -> Option<c_int> {
    let parent = Parent::of(dir, path)?;
    // If the memory fails nothing is trusted anyway.
    let _ = parent.shim.client.unlogged_names(parent.slot);
    None
}

/// open(2) of a file that is not there yet, in a trusted directory; none if it is not that.
pub(crate) fn create(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> Option<c_int> {
    let other = O_DIRECTORY | O_PATH | libc::O_DIRECT;
    if flags & O_CREAT == 0 || flags & other != 0 {
        return None;
    }
    let parent = Parent::of(dir, path)?;
    let real = || system!(libc::SYS_openat, parent.fd, parent.name.as_ptr(), flags | O_EXCL, mode) as c_int;
    let made = parent.change(Change::Create, (parent.fd, CString::default()), &real)?;
    if made < parent.fd {
        return Some(made);
    }
    // The program gets the lowest number that was free, as from open(2).
    let lowest = system!(libc::SYS_dup3, made, parent.fd, flags & O_CLOEXEC) as c_int;
    if lowest < 0 {
        return Some(made);
    }
    system!(libc::SYS_close, made);
    parent.given.set(true);
    Some(lowest)
}

/// unlink(2) of a name in a trusted directory.
fn remove_name(dir: c_int, path: *const c_char) -> Option<c_int> {
    let parent = Parent::of(dir, path)?;
    let real = || system!(libc::SYS_unlinkat, parent.fd, parent.name.as_ptr(), 0) as c_int;
    parent.change(Change::Remove, (parent.fd, CString::default()), &real)
}

/// unlinkat(2)
#[unsafe(no_mangle)]
extern "C" fn unlinkat(dir: c_int, path: *const c_char, flags: c_int) -> c_int {
    let logged = if flags == 0 { remove_name(dir, path) } else { past(dir, path) };
    logged.unwrap_or_else(|| system!(libc::SYS_unlinkat, dir, path, flags) as c_int)
}

/// unlink(2)
#[unsafe(no_mangle)]
extern "C" fn unlink(path: *const c_char) -> c_int {
    unlinkat(AT_FDCWD, path, 0)
}

/// remove(3)
#[unsafe(no_mangle)]
extern "C" fn remove(path: *const c_char) -> c_int {
    match unlink(path) {
        -1 if raw::errno() == libc::EISDIR => unlinkat(AT_FDCWD, path, libc::AT_REMOVEDIR),
        answer => answer,
    }
}

/// rename(2) of a trusted file within a trusted directory.
fn rename_within(old_dir: c_int, old: *const c_char, new_dir: c_int, new: *const c_char) -> Option<c_int> {
    let (before, name) = split(text(old)?)?;
    let from = Look::path(directory(old_dir)?, &before).ok()?;
    let parent = Parent::of(new_dir, new)?;
    let to = Look::at(raw::borrow(parent.fd)?).ok()?;
    if !from.same(&to) {
        drop(parent);
        return past(old_dir, old).or_else(|| past(new_dir, new));
    }
    let (at, was) = (parent.fd, name.clone());
    let real = || system!(libc::SYS_renameat2, at, was.as_ptr(), at, parent.name.as_ptr(), 0) as c_int;
    parent.change(Change::Rename, (at, name), &real)
}

/// renameat2(2)
#[unsafe(no_mangle)]
extern "C" fn renameat2(
    old_dir: c_int,
    old: *const c_char,
    new_dir: c_int,
    new: *const c_char,
    flags: c_uint,
) -> c_int {
    let logged = match flags {
        0 => rename_within(old_dir, old, new_dir, new),
        _ => past(old_dir, old).or_else(|| past(new_dir, new)),
    };
    logged.unwrap_or_else(|| system!(libc::SYS_renameat2, old_dir, old, new_dir, new, flags) as c_int)
}

/// renameat(2)
#[unsafe(no_mangle)]
extern "C" fn renameat(old_dir: c_int, old: *const c_char, new_dir: c_int, new: *const c_char) -> c_int {
    renameat2(old_dir, old, new_dir, new, 0)
}

/// rename(2)
#[unsafe(no_mangle)]
extern "C" fn rename(old: *const c_char, new: *const c_char) -> c_int {
    renameat2(AT_FDCWD, old, AT_FDCWD, new, 0)
}

/// link(2) of a trusted file into a trusted directory.
fn link_into(old_dir: c_int, old: *const c_char, new_dir: c_int, new: *const c_char) -> Option<c_int> {
    let parent = Parent::of(new_dir, new)?;
    let from = (old_dir, text(old)?.to_owned());
    let real = || system!(libc::SYS_linkat, old_dir, old, parent.fd, parent.name.as_ptr(), 0) as c_int;
    parent.change(Change::Link, from, &real)
}

/// linkat(2)
#[unsafe(no_mangle)]
extern "C" fn linkat(old_dir: c_int, old: *const c_char, new_dir: c_int, new: *const c_char, flags: c_int) -> c_int {
    let logged = if flags == 0 { link_into(old_dir, old, new_dir, new) } else { past(new_dir, new) };
    logged.unwrap_or_else(|| system!(libc::SYS_linkat, old_dir, old, new_dir, new, flags) as c_int)
}

/// link(2)
#[unsafe(no_mangle)]
extern "C" fn link(old: *const c_char, new: *const c_char) -> c_int {
    linkat(AT_FDCWD, old, AT_FDCWD, new, 0)
}

/// mkdirat(2)
#[unsafe(no_mangle)]
extern "C" fn mkdirat(dir: c_int, path: *const c_char, mode: mode_t) -> c_int {
    past(dir, path);
    system!(libc::SYS_mkdirat, dir, path, mode) as c_int
}

/// mkdir(2)
#[unsafe(no_mangle)]
extern "C" fn mkdir(path: *const c_char, mode: mode_t) -> c_int {
    mkdirat(AT_FDCWD, path, mode)
}

/// rmdir(2)
#[unsafe(no_mangle)]
extern "C" fn rmdir(path: *const c_char) -> c_int {
    unlinkat(AT_FDCWD, path, libc::AT_REMOVEDIR)
}

/// symlinkat(2)
#[unsafe(no_mangle)]
extern "C" fn symlinkat(target: *const c_char, dir: c_int, path: *const c_char) -> c_int {
    past(dir, path);
    system!(libc::SYS_symlinkat, target, dir, path) as c_int
}

/// symlink(2)
#[unsafe(no_mangle)]
extern "C" fn symlink(target: *const c_char, path: *const c_char) -> c_int {
    symlinkat(target, AT_FDCWD, path)
}

/// mknodat(2)
#[unsafe(no_mangle)]
extern "C" fn mknodat(dir: c_int, path: *const c_char, mode: mode_t, device: dev_t) -> c_int {
    past(dir, path);
    system!(libc::SYS_mknodat, dir, path, mode, device) as c_int
}

/// mknod(2)
#[unsafe(no_mangle)]
extern "C" fn mknod(path: *const c_char, mode: mode_t, device: dev_t) -> c_int {
    mknodat(AT_FDCWD, path, mode, device)
}

/// fchown(2). One that changes nothing but the ctime leaves a file trusted.
#[unsafe(no_mangle)]
extern "C" fn fchown(fd: c_int, owner: uid_t, group: gid_t) -> c_int {
    let real = || system!(libc::SYS_fchown, fd, owner, group) as c_int;
    let Some((shim, _inside)) = shim::enter() else { return real() };
    let Some(slot) = shim.resolve(fd) else { return real() };
    let answer = Cell::new(-1);
    shim.client.kept(slot, &FdCall::sync(fd), || {
        let subject = || raw::borrow(fd).and_then(|fd| Subject::at(fd, c"").ok());
        let before = subject();
        answer.set(real());
        let rights = |subject: &Subject| (subject.uid, subject.gid, subject.mode, subject.links);
        before.is_some() && before.as_ref().map(rights) == subject().as_ref().map(rights)
    });
    answer.get()
}

/// A file that is new was synced for real: the names in its directory are logged from the second such file on.
pub(crate) fn begin(shim: &Shim, fd: c_int) {
    let is_new = raw::borrow(fd).and_then(|fd| Look::at(fd).ok()).is_some_and(|look| look.is_new());
    let path = if is_new { shim.path(fd) } else { None };
    let Some(path) = path.as_deref().and_then(|path| CString::new(path.parent()?.as_os_str().as_encoded_bytes()).ok())
    else {
        return;
    };
    let dir = system!(libc::SYS_openat, AT_FDCWD, path.as_ptr(), O_DIRECTORY | O_CLOEXEC, 0) as c_int;
    if dir < 0 {
        return;
    }
    if let Some(slot) = shim.unnoted(dir)
        && shim.client.wants_names(slot).unwrap_or(false)
    {
        // The file is durable, whatever becomes of this.
        let _ = shim.client.sync(slot, &FdCall::sync(dir));
    }
    system!(libc::SYS_close, dir);
}
