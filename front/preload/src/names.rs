//! Making, removing, renaming and linking files, in directories whose changes are all in the log; and who a file belongs to.

use crate::call::{FdCall, now_ns};
use crate::files::{directory, text};
use crate::raw::{self, system};
use crate::seconds;
use crate::shim::{self, Inside, Shim, Slot};
use libc::{
    AT_FDCWD, O_CLOEXEC, O_CREAT, O_DIRECTORY, O_EXCL, O_PATH, c_char, c_int, c_uint, dev_t, gid_t, mode_t, uid_t,
};
use ondol_run_log::{Change, FileKind, Look, NameCall, Names, Subject, Written};
use std::cell::Cell;
use std::ffi::{CStr, CString};

/// A trusted directory that a path leads into. It is gone by by its path, so that no descriptor is open that the program does not know: whether it is still the same is looked at behind each change.
struct Parent {
    shim: &'static Shim,
    slot: Slot,
    dir: c_int,
    before: CString,
    /// The path's last part.
    name: CString,
    look: Look,
    _inside: Inside,
}

/// Splits a path before its last part; none if that names no file.
fn split(path: &CStr) -> Option<(CString, CString)> {
    let bytes = path.to_bytes();
    let bytes = bytes.get(..bytes.iter().rposition(|byte| *byte != b'/')? + 1)?;
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
        let (shim, inside) = shim::enter_for_names()?;
        let (before, name) = split(text(path)?)?;
        let look = Look::path(directory(dir)?, &before).ok()?;
        if !shim.is_on(&look) {
            return None;
        }
        let slot = shim.client.trusted(&look).ok().flatten().filter(|_| look.kind == FileKind::Directory)?;
        // A child of vfork(2) has this memory, and its parent's number in it.
        if !seconds::is_owner() {
            return None;
        }
        Some(Self { shim, slot, dir, before, name, look, _inside: inside })
    }

    /// Does a change by `real`, into the log, too; none if the kernel is to be asked without: it refuses, or the directory is not trusted after all.
    fn change(
        &self,
        change: Change,
        old: Option<CString>,
        path: *const c_char,
        real: &dyn Fn() -> c_int,
    ) -> Option<c_int> {
        let bytes = |name: &CString| name.to_bytes().to_vec();
        let names = Names { change, name: bytes(&self.name), old: old.as_ref().map(bytes).unwrap_or_default() };
        let call = OneChange { parent: self, names, path, real, answer: Cell::new(-1) };
        match self.shim.client.change_names(self.slot, &call) {
            Ok(Written::Done(())) => Some(call.answer.get()),
            Ok(Written::Stale) | Err(_) => None,
        }
    }
}

/// A change of names and how the kernel does it.
struct OneChange<'a> {
    parent: &'a Parent,
    names: Names,
    /// The name that the file has before, in the same directory: the old one of a rename or a link.
    path: *const c_char,
    real: &'a dyn Fn() -> c_int,
    /// What the kernel has answered: the descriptor of a file that was made.
    answer: Cell<c_int>,
}

impl OneChange<'_> {
    fn at(&self, path: &CStr) -> Option<Subject> {
        Subject::at(directory(self.parent.dir)?, path).ok()
    }
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
        if shim::seen_inside() {
            // A signal handler has changed names meanwhile, which nobody has seen.
            return Err(libc::EINTR);
        }
        let dir = directory(self.parent.dir).ok_or(libc::EBADF)?;
        Look::path(dir, &self.parent.before).map_err(|e| e.raw_os_error())
    }

    fn subject(&self, done: bool) -> Option<Subject> {
        match (self.names.change, done) {
            (Change::Create, _) => Subject::at(raw::borrow(self.answer.get())?, c"").ok(),
            (Change::Rename | Change::Link, false) => self.at(text(self.path)?),
            _ => self.replaced(),
        }
    }

    fn replaced(&self) -> Option<Subject> {
        let whole = [self.parent.before.to_bytes(), b"/", self.parent.name.to_bytes()].concat();
        self.at(&CString::new(whole).ok()?)
    }

    fn run(&self) -> Result<(), c_int> {
        self.answer.set((self.real)());
        if self.answer.get() < 0 { Err(raw::errno()) } else { Ok(()) }
    }
}

/// A name is about to be changed past the log: its directory is not trusted, whoever syncs it before the change is over.
struct Past(Option<(&'static Shim, Slot)>);

impl Past {
    fn of(dir: c_int, path: *const c_char) -> Self {
        let past = Self(Parent::of(dir, path).map(|parent| (parent.shim, parent.slot)));
        past.distrust();
        past
    }

    fn distrust(&self) {
        if let Some((shim, slot)) = self.0 {
            // If the memory fails nothing is trusted anyway.
            let _ = shim.client.unlogged_names(slot);
        }
    }
}

impl Drop for Past {
    fn drop(&mut self) {
        self.distrust();
    }
}

/// open(2) of a file that is not there yet, in a trusted directory; none if it is not that.
pub(crate) fn create(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> Option<c_int> {
    let other = O_DIRECTORY | O_PATH | libc::O_DIRECT;
    if flags & O_CREAT == 0 || flags & other != 0 {
        return None;
    }
    let real = || system!(libc::SYS_openat, dir, path, flags | O_EXCL, mode) as c_int;
    Parent::of(dir, path)?.change(Change::Create, None, path, &real)
}

/// Removes a name by `real`: into the log, too, in a trusted directory.
fn remove_by(dir: c_int, path: *const c_char, real: &dyn Fn() -> c_int) -> c_int {
    let logged = Parent::of(dir, path).and_then(|parent| parent.change(Change::Remove, None, path, real));
    logged.unwrap_or_else(real)
}

/// unlinkat(2)
#[unsafe(no_mangle)]
extern "C" fn unlinkat(dir: c_int, path: *const c_char, flags: c_int) -> c_int {
    let real = || system!(libc::SYS_unlinkat, dir, path, flags) as c_int;
    if flags == 0 {
        return remove_by(dir, path, &real);
    }
    let _past = Past::of(dir, path);
    real()
}

/// unlink(2)
#[unsafe(no_mangle)]
extern "C" fn unlink(path: *const c_char) -> c_int {
    remove_by(AT_FDCWD, path, &|| old::unlink(path))
}

/// remove(3)
#[unsafe(no_mangle)]
extern "C" fn remove(path: *const c_char) -> c_int {
    match unlink(path) {
        -1 if raw::errno() == libc::EISDIR => rmdir(path),
        answer => answer,
    }
}

/// A change that takes a file from one name to another.
struct Moved {
    change: Change,
    old: (c_int, *const c_char),
    new: (c_int, *const c_char),
}

impl Moved {
    /// Does it by `real`: into the log, too, within one trusted directory.
    fn by(&self, real: &dyn Fn() -> c_int) -> c_int {
        self.logged(real).unwrap_or_else(|| self.past(real))
    }

    /// Does it past the log.
    fn past(&self, real: &dyn Fn() -> c_int) -> c_int {
        let _past = (Past::of(self.old.0, self.old.1), Past::of(self.new.0, self.new.1));
        let source = || {
            let (shim, inside) = shim::enter()?;
            let look = match text(self.old.1)? {
                path if path.is_empty() => Look::at(raw::borrow(self.old.0)?).ok()?,
                path => Look::path(directory(self.old.0)?, path).ok()?,
            };
            Some((shim, inside, look))
        };
        match source().filter(|_| self.change == Change::Link) {
            // Whoever removes the file's other name meanwhile must not take that for its last.
            Some((shim, _inside, look)) => shim.client.unlogged_link(&look, real).unwrap_or_else(|_| real()),
            None => real(),
        }
    }

    fn logged(&self, real: &dyn Fn() -> c_int) -> Option<c_int> {
        let parent = Parent::of(self.new.0, self.new.1)?;
        let (before, name) = split(text(self.old.1)?)?;
        let from = Look::path(directory(self.old.0)?, &before).ok()?;
        let same = from.same(&parent.look) && self.old.0 == self.new.0;
        let old = (self.change == Change::Rename).then_some(name);
        if same { parent.change(self.change, old, self.old.1, real) } else { None }
    }
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
    let real = || system!(libc::SYS_renameat2, old_dir, old, new_dir, new, flags) as c_int;
    if flags == 0 {
        return Moved { change: Change::Rename, old: (old_dir, old), new: (new_dir, new) }.by(&real);
    }
    let _past = (Past::of(old_dir, old), Past::of(new_dir, new));
    real()
}

/// renameat(2)
#[unsafe(no_mangle)]
extern "C" fn renameat(old_dir: c_int, old: *const c_char, new_dir: c_int, new: *const c_char) -> c_int {
    renameat2(old_dir, old, new_dir, new, 0)
}

/// rename(2)
#[unsafe(no_mangle)]
extern "C" fn rename(old: *const c_char, new: *const c_char) -> c_int {
    let moved = Moved { change: Change::Rename, old: (AT_FDCWD, old), new: (AT_FDCWD, new) };
    moved.by(&|| old::rename(old, new))
}

/// linkat(2)
#[unsafe(no_mangle)]
extern "C" fn linkat(old_dir: c_int, old: *const c_char, new_dir: c_int, new: *const c_char, flags: c_int) -> c_int {
    let real = || system!(libc::SYS_linkat, old_dir, old, new_dir, new, flags) as c_int;
    let moved = Moved { change: Change::Link, old: (old_dir, old), new: (new_dir, new) };
    if flags == 0 { moved.by(&real) } else { moved.past(&real) }
}

/// link(2)
#[unsafe(no_mangle)]
extern "C" fn link(old: *const c_char, new: *const c_char) -> c_int {
    let moved = Moved { change: Change::Link, old: (AT_FDCWD, old), new: (AT_FDCWD, new) };
    moved.by(&|| old::link(old, new))
}

/// The system calls that libc makes where the processor has them: a filter of a program's may know no others.
mod old {
    use crate::raw::system;
    use libc::{c_char, c_int, mode_t};

    macro_rules! either {
        ($old:ident($($word:expr),*), $new:ident($($words:expr),*)) => {{
            #[cfg(target_arch = "x86_64")]
            let answer = system!(libc::$old, $($word),*) as c_int;
            #[cfg(not(target_arch = "x86_64"))]
            let answer = system!(libc::$new, $($words),*) as c_int;
            answer
        }};
    }

    pub(super) fn unlink(path: *const c_char) -> c_int {
        either!(SYS_unlink(path), SYS_unlinkat(libc::AT_FDCWD, path, 0))
    }

    pub(super) fn rmdir(path: *const c_char) -> c_int {
        either!(SYS_rmdir(path), SYS_unlinkat(libc::AT_FDCWD, path, libc::AT_REMOVEDIR))
    }

    pub(super) fn rename(old: *const c_char, new: *const c_char) -> c_int {
        either!(SYS_rename(old, new), SYS_renameat2(libc::AT_FDCWD, old, libc::AT_FDCWD, new, 0))
    }

    pub(super) fn link(old: *const c_char, new: *const c_char) -> c_int {
        either!(SYS_link(old, new), SYS_linkat(libc::AT_FDCWD, old, libc::AT_FDCWD, new, 0))
    }

    pub(super) fn mkdir(path: *const c_char, mode: mode_t) -> c_int {
        either!(SYS_mkdir(path, mode), SYS_mkdirat(libc::AT_FDCWD, path, mode))
    }

    pub(super) fn symlink(target: *const c_char, path: *const c_char) -> c_int {
        either!(SYS_symlink(target, path), SYS_symlinkat(target, libc::AT_FDCWD, path))
    }
}

/// mkdirat(2)
#[unsafe(no_mangle)]
extern "C" fn mkdirat(dir: c_int, path: *const c_char, mode: mode_t) -> c_int {
    let _past = Past::of(dir, path);
    system!(libc::SYS_mkdirat, dir, path, mode) as c_int
}

/// mkdir(2)
#[unsafe(no_mangle)]
extern "C" fn mkdir(path: *const c_char, mode: mode_t) -> c_int {
    let _past = Past::of(AT_FDCWD, path);
    old::mkdir(path, mode)
}

/// rmdir(2)
#[unsafe(no_mangle)]
extern "C" fn rmdir(path: *const c_char) -> c_int {
    let _past = Past::of(AT_FDCWD, path);
    old::rmdir(path)
}

/// symlinkat(2)
#[unsafe(no_mangle)]
extern "C" fn symlinkat(target: *const c_char, dir: c_int, path: *const c_char) -> c_int {
    let _past = Past::of(dir, path);
    system!(libc::SYS_symlinkat, target, dir, path) as c_int
}

/// symlink(2)
#[unsafe(no_mangle)]
extern "C" fn symlink(target: *const c_char, path: *const c_char) -> c_int {
    let _past = Past::of(AT_FDCWD, path);
    old::symlink(target, path)
}

/// mknodat(2)
#[unsafe(no_mangle)]
extern "C" fn mknodat(dir: c_int, path: *const c_char, mode: mode_t, device: dev_t) -> c_int {
    let _past = Past::of(dir, path);
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
    let look = raw::borrow(fd).and_then(|fd| Look::at(fd).ok());
    let slot = look.and_then(|look| shim.client.trusted(&look).ok().flatten());
    let Some(slot) = slot else { return real() };
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
