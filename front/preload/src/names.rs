//! Making, removing, renaming and linking files, in directories whose changes are all in the log; and who a file
//! belongs to.

mod calls;
mod change;

use crate::call::FdCall;
use crate::files::{directory, text};
use crate::raw::{self, system};
use crate::seconds;
use crate::shim::{self, Hint, Inside, Shim};
use change::OneChange;
use libc::{AT_FDCWD, O_CLOEXEC, O_CREAT, O_DIRECTORY, O_EXCL, O_PATH, c_char, c_int, gid_t, mode_t, uid_t};
use ondol_run_log::{Change, FileKind, Look, SlotKey, Subject};
use std::cell::Cell;
use std::ffi::{CStr, CString};

/// A trusted directory that a path leads into. It is reached by its path, so that no descriptor is open that the
/// program does not know: whether it is still the same is looked at behind each change.
struct Parent {
    slot: SlotKey,
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
        if shim.client.named() == 0 {
            return None;
        }
        let path = text(path)?;
        // Whatever the descriptor is then.
        let dir = if path.to_bytes().starts_with(b"/") { AT_FDCWD } else { dir };
        let (before, name) = split(path)?;
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

/// A name is changed past the log: its directory is not trusted, even if somebody syncs it before the change is over.
pub(crate) struct Past {
    dir: c_int,
    path: *const c_char,
    /// How often directories had become trusted before this one was not.
    named: u64,
}

impl Past {
    /// Takes the directory's trust away.
    fn of(dir: c_int, path: *const c_char) -> Self {
        let past = Self { dir, path, named: shim::named() };
        past.distrust();
        past
    }

    fn distrust(&self) {
        let trusted = || {
            let (shim, _inside) = shim::enter_for_names()?;
            // If the memory fails nothing is trusted anyway.
            drop(shim.client.unseen(Parent::of(shim, self.dir, self.path)?.slot));
            Some(())
        };
        let _ = trusted();
    }
}

impl Drop for Past {
    fn drop(&mut self) {
        if shim::named() != self.named {
            let error = raw::errno();
            self.distrust();
            raw::fail(error);
        }
    }
}

/// open(2) of a file that is not there yet, in a trusted directory. Otherwise the caller is to ask the kernel, and to
/// drop what this answers after that.
pub(crate) fn create(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> Result<c_int, Option<Past>> {
    if flags & O_CREAT == 0 {
        return Err(None);
    }
    if flags & (O_DIRECTORY | O_PATH | libc::O_DIRECT) != 0 {
        return Err(Some(Past::of(dir, path)));
    }
    let named = shim::named();
    let real = || system!(libc::SYS_openat, dir, path, flags | O_EXCL, mode) as c_int;
    let logged = || {
        let (shim, _inside) = shim::enter_for_names()?;
        OneChange::new(&Parent::of(shim, dir, path)?, Change::Create, &real).done(shim)
    };
    // One that is there is opened by the kernel, if the program has not asked for a new one.
    let is_there = |made: &c_int| *made < 0 && flags & O_EXCL == 0 && raw::errno() == libc::EEXIST;
    logged().filter(|made| !is_there(made)).ok_or(Some(Past { dir, path, named }))
}

/// Removes a name by `real`: into the log, too, in a trusted directory.
fn remove_by(dir: c_int, path: *const c_char, real: &dyn Fn() -> c_int) -> c_int {
    let named = shim::named();
    let logged = || {
        let (shim, _inside) = shim::enter_for_names()?;
        OneChange::new(&Parent::of(shim, dir, path)?, Change::Remove, real).done(shim)
    };
    logged().unwrap_or_else(|| {
        let _past = Past { dir, path, named };
        remove_past(dir, path, real)
    })
}

/// Removes a name past the log: its file is not trusted after that, and nobody who is seen changes its names meanwhile.
fn remove_past(dir: c_int, path: *const c_char, real: &dyn Fn() -> c_int) -> c_int {
    let Some((shim, look, _inside)) = known(dir, path) else { return real() };
    let _file = PastFile(shim.client.find(&look).ok().flatten().map(|slot| (shim, slot)));
    let answer = Cell::new(None);
    let once = || answer.set(Some(real()));
    // Otherwise nothing was done.
    let _ = shim.client.unlogged_names(&look, false, once);
    answer.get().unwrap_or_else(real)
}

/// What a path leads to, itself and not what it points to, if it may have a slot.
fn known(dir: c_int, path: *const c_char) -> Option<(&'static Shim, Look, Inside)> {
    let (shim, inside) = shim::enter().filter(|(shim, _)| shim.client.given() != 0)?;
    let look = Look::name(directory(dir)?, text(path)?).ok().filter(|look| shim.is_on(look))?;
    Some((shim, look, inside))
}

/// Names of a file are changed past the log: whoever writes to it meanwhile must not take that for his own doing, so
/// its next sync is real.
struct PastFile(Option<(&'static Shim, SlotKey)>);

impl PastFile {
    /// What a path leads to, itself and not what it points to.
    fn of(dir: c_int, path: *const c_char) -> Self {
        let slot = || {
            let (shim, look, _inside) = known(dir, path)?;
            Some((shim, shim.client.find(&look).ok().flatten()?))
        };
        Self(slot())
    }
}

impl Drop for PastFile {
    fn drop(&mut self) {
        if let Some((shim, slot)) = self.0 {
            // If the memory fails nothing is trusted anyway.
            let _ = shim.client.unseen(slot);
        }
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
            let _replaced = PastFile::of(self.new.0, self.new.1);
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
        // Whoever removes the file's other name meanwhile must not take that for its last, and whoever writes to it
        // must not take this for his own.
        shim.client.unlogged_names(&look, shim.logs_names_of(&look), real).unwrap_or_else(|_| real())
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

/// fchown(2). One that changes nothing but the ctime leaves a file trusted.
#[unsafe(no_mangle)]
extern "C" fn fchown(fd: c_int, owner: uid_t, group: gid_t) -> c_int {
    let real = || system!(libc::SYS_fchown, fd, owner, group) as c_int;
    let Some((shim, _inside)) = shim::enter() else { return real() };
    let given = shim.client.given();
    // No file has a slot, or this one had none.
    if given == 0 || shim::hint(fd) == Hint::Later(given as u32) {
        return real();
    }
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
