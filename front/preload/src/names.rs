//! Making, removing, renaming and linking files, in directories whose changes are all in the log; and who a file belongs to.

use crate::call::{FdCall, now_ns};
use crate::files::{directory, text};
use crate::raw::{self, system};
use crate::seconds;
use crate::shim::{self, Shim, Slot};
use libc::{
    AT_FDCWD, O_CLOEXEC, O_CREAT, O_DIRECTORY, O_EXCL, O_PATH, c_char, c_int, c_uint, dev_t, gid_t, mode_t, uid_t,
};
use ondol_run_log::{Change, FileKind, Look, NameCall, Names, Side, Subject, Written};
use std::cell::Cell;
use std::ffi::{CStr, CString};

/// A trusted directory that a path leads into. It is gone by by its path, so that no descriptor is open that the program does not know: whether it is still the same is looked at behind each change.
struct Parent {
    slot: Slot,
    dir: c_int,
    before: CString,
    /// The path's last part.
    name: CString,
    look: Look,
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
    fn of(shim: &Shim, dir: c_int, path: *const c_char) -> Option<Self> {
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
        Some(Self { slot, dir, before, name, look })
    }

    fn look(&self) -> Result<Look, c_int> {
        let dir = directory(self.dir).ok_or(libc::EBADF)?;
        Look::path(dir, &self.before).map_err(|e| e.raw_os_error())
    }

    /// The path whose directory this is.
    fn whole(&self) -> Option<CString> {
        CString::new([self.before.to_bytes(), b"/", self.name.to_bytes()].concat()).ok()
    }
}

/// A change of names and how the kernel does it.
struct OneChange<'a> {
    /// Where the name is that is made or removed.
    there: &'a Parent,
    /// The directory that a file leaves for that one.
    left: Option<&'a Parent>,
    names: Names,
    /// The name that a renamed or linked file has before.
    old: (c_int, *const c_char),
    real: &'a dyn Fn() -> c_int,
    /// What the kernel has answered: the descriptor of a file that was made.
    answer: Cell<c_int>,
    /// A descriptor of a file that loses one of its names.
    held: Cell<Option<c_int>>,
}

impl<'a> OneChange<'a> {
    fn new(there: &'a Parent, change: Change, real: &'a dyn Fn() -> c_int) -> Self {
        let names = Names { change, name: there.name.to_bytes().to_vec(), old: Vec::new() };
        let (answer, held) = (Cell::new(-1), Cell::new(None));
        Self { there, left: None, names, old: (AT_FDCWD, std::ptr::null()), real, answer, held }
    }

    /// Does it, into the log, too; none if the kernel is to be asked without: it refuses, or a directory is not trusted after all.
    fn done(&self, shim: &Shim) -> Option<c_int> {
        match shim.client.change_names(self.there.slot, self.left.map(|left| left.slot), self) {
            Ok(Written::Done(())) => Some(self.answer.get()),
            Ok(Written::Stale) | Err(_) => None,
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
                None => self.replaced(),
            },
        }
    }

    fn hold(&self) -> bool {
        let flags = O_PATH | O_CLOEXEC | libc::O_NOFOLLOW;
        let open = |path: CString| system!(libc::SYS_openat, self.there.dir, path.as_ptr(), flags, 0) as c_int;
        self.held.set(self.there.whole().map(open).filter(|fd| *fd >= 0));
        self.held.get().is_some()
    }

    fn replaced(&self) -> Option<Subject> {
        subject(self.there.dir, &self.there.whole()?)
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
        let trusted = || {
            let (shim, _inside) = shim::enter_for_names()?;
            Some((shim, Parent::of(shim, dir, path)?.slot))
        };
        let past = Self(trusted());
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
    let (shim, _inside) = shim::enter_for_names()?;
    OneChange::new(&Parent::of(shim, dir, path)?, Change::Create, &real).done(shim)
}

/// Removes a name by `real`: into the log, too, in a trusted directory.
fn remove_by(dir: c_int, path: *const c_char, real: &dyn Fn() -> c_int) -> c_int {
    let logged = || {
        let (shim, _inside) = shim::enter_for_names()?;
        OneChange::new(&Parent::of(shim, dir, path)?, Change::Remove, real).done(shim)
    };
    logged().unwrap_or_else(real)
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
    /// Does it by `real`: into the log, too, where the directories are trusted.
    fn by(&self, real: &dyn Fn() -> c_int) -> c_int {
        self.logged(real).unwrap_or_else(|| self.past(real))
    }

    /// Does it past the log.
    fn past(&self, real: &dyn Fn() -> c_int) -> c_int {
        let synced = Cell::new(false);
        let answer = {
            let _past = (Past::of(self.old.0, self.old.1), Past::of(self.new.0, self.new.1));
            self.past_both(real, &synced)
        };
        // A program that syncs new files and moves them elsewhere will do so again.
        if let (true, 0, Some((shim, _inside))) = (synced.get(), answer, shim::enter()) {
            for (dir, path) in [self.new, self.old] {
                begin_at(shim, dir, path);
            }
        }
        answer
    }

    /// Does it, with both directories untrusted; says whether the file is a new one that was synced.
    fn past_both(&self, real: &dyn Fn() -> c_int, synced: &Cell<bool>) -> c_int {
        let source = || {
            let (shim, inside) = shim::enter()?;
            let look = match text(self.old.1)? {
                path if path.is_empty() => Look::at(raw::borrow(self.old.0)?).ok()?,
                path => Look::path(directory(self.old.0)?, path).ok()?,
            };
            Some((shim, inside, look))
        };
        let Some((shim, _inside, look)) = source() else { return real() };
        synced.set(look.is_new() && shim.client.trusted(&look).is_ok_and(|trusted| trusted.is_some()));
        match self.change {
            // Whoever removes the file's other name meanwhile must not take that for its last.
            Change::Link => shim.client.unlogged_link(&look, real).unwrap_or_else(|_| real()),
            _ => real(),
        }
    }

    fn logged(&self, real: &dyn Fn() -> c_int) -> Option<c_int> {
        let (shim, _inside) = shim::enter_for_names()?;
        let there = Parent::of(shim, self.new.0, self.new.1)?;
        if self.change == Change::Link {
            let mut call = OneChange::new(&there, self.change, real);
            call.old = self.old;
            return call.done(shim);
        }
        let (before, name) = split(text(self.old.1)?)?;
        let same = Look::path(directory(self.old.0)?, &before).ok()?.same(&there.look);
        let left = if same { None } else { Some(Parent::of(shim, self.old.0, self.old.1)?) };
        let mut call = OneChange::new(&there, if same { Change::Rename } else { Change::Arrive }, real);
        call.old = self.old;
        call.names.old = name.to_bytes().to_vec();
        call.left = left.as_ref();
        call.done(shim)
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
    let dir = path.as_deref().and_then(|path| CString::new(path.parent()?.as_os_str().as_encoded_bytes()).ok());
    if let Some(dir) = dir {
        begin_in(shim, AT_FDCWD, &dir);
    }
}

/// A file that is synced was moved past the log: the names in the directory that a path leads into are logged soon.
fn begin_at(shim: &Shim, dir: c_int, path: *const c_char) {
    if let Some((before, _)) = text(path).and_then(split) {
        begin_in(shim, dir, &before);
    }
}

/// Syncs a directory for real, if it is one whose names would better be logged.
fn begin_in(shim: &Shim, at: c_int, path: &CStr) {
    let dir = system!(libc::SYS_openat, at, path.as_ptr(), O_DIRECTORY | O_CLOEXEC, 0) as c_int;
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
