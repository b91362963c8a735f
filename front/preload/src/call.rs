//! A call on a descriptor, for the log's protocol.

use crate::raw::{self, Quiet, system};
use crate::seconds;
use libc::{c_int, c_long, iovec};
use ondol_run_log::{Call, FileKind, Identity, Look, Place, WriteCall};
use std::cell::{Cell, OnceCell};
use std::ffi::CString;
use std::path::PathBuf;

/// Flags that make one write durable.
const DURABLE: c_int = libc::RWF_DSYNC | libc::RWF_SYNC;

/// Monotonic time, nanoseconds.
pub(crate) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.cast_unsigned().wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec.cast_unsigned())
}

/// A call on a descriptor.
pub(crate) struct FdCall<'a> {
    pub(crate) fd: c_int,
    /// What is written; nothing for a sync.
    pub(crate) parts: &'a [iovec],
    /// Where, unless at the descriptor's offset.
    pub(crate) offset: Option<i64>,
    /// `RWF_*`.
    pub(crate) flags: c_int,
    /// The write itself.
    pub(crate) real: &'a dyn Fn() -> c_long,
    /// What the kernel has told of the descriptor during this call.
    pub(crate) seen: Seen,
}

/// What is asked once in a call.
#[derive(Default)]
pub(crate) struct Seen {
    process: OnceCell<u32>,
    flags: Cell<Option<c_int>>,
    look: Cell<Option<Look>>,
    /// No signal is handled while the offset is not where the write ends: a handler that writes to the same descriptor
    /// must not find it as it was.
    quiet: Cell<Option<Quiet>>,
    /// By how much the program's offset is yet to be moved.
    behind: Cell<Option<i64>>,
}

impl FdCall<'_> {
    /// A call that writes nothing.
    pub(crate) fn sync(fd: c_int) -> Self {
        Self { fd, parts: &[], offset: None, flags: 0, real: &|| 0, seen: Seen::default() }
    }

    /// The descriptor's flags when they were asked for first.
    fn modes(&self) -> c_int {
        self.seen.flags.get().unwrap_or_else(|| {
            let flags = raw::flags(self.fd);
            self.seen.flags.set(Some(flags));
            flags
        })
    }

    /// The second description, of the file that this call has found.
    fn second(&self) -> Option<c_int> {
        let look = self.seen.look.get().or_else(|| self.look().ok())?;
        seconds::of(self.fd, self.process(), &look)
    }

    /// Writes to a descriptor with flags (`RWF_*`); at its own offset if that is -1.
    fn to(&self, fd: c_int, offset: i64, flags: c_int) -> Result<usize, c_int> {
        let (parts, count) = (self.parts.as_ptr(), self.parts.len());
        raw::result(system!(libc::SYS_pwritev2, fd, parts, count, offset, 0, flags)).map(|wrote| wrote as usize)
    }

    /// Writes to the second description, at `start` or behind the end. The program's offset moves as the kernel would
    /// move it, or with [`Call::moved`].
    fn to_second(&self, second: c_int, start: i64, append: bool) -> Result<usize, c_int> {
        // A handler that appends moves the offset farther than this does.
        let _quiet = (append && self.offset.is_none()).then(Quiet::new);
        let wrote = match self.to(second, start, if append { libc::RWF_APPEND } else { libc::RWF_NOAPPEND }) {
            // What is there cannot be written to like this: the program has put it there.
            Err(libc::EBADF | libc::EINVAL | libc::EOPNOTSUPP) => return self.write(),
            answer => answer?,
        };
        match self.offset {
            Some(_) => {}
            None if append => drop(system!(libc::SYS_lseek, self.fd, start + wrote as i64, libc::SEEK_SET)),
            None => self.seen.behind.set(Some(wrote as i64)),
        }
        Ok(wrote)
    }
}

impl Call for FdCall<'_> {
    type Fail = c_int;

    fn look(&self) -> Result<Look, c_int> {
        let look = Look::at(raw::borrow(self.fd).ok_or(libc::EBADF)?).map_err(|e| e.raw_os_error())?;
        self.seen.look.set(Some(look));
        Ok(look)
    }

    fn process(&self) -> u32 {
        *self.seen.process.get_or_init(std::process::id)
    }

    fn now_ns(&self) -> u64 {
        now_ns()
    }

    fn settle(&self) -> bool {
        // A change of names has its directory's ctime after it, and in the same transaction.
        if self.seen.look.get().is_some_and(|look| look.kind == FileKind::Directory) {
            return true;
        }
        // A write of no bytes takes the lock that every change of the file holds from its ctime to its end. Direct
        // writes may go on without it.
        let direct = self.modes() & libc::O_DIRECT != 0;
        !direct && system!(libc::SYS_pwrite64, self.fd, c"".as_ptr(), 0usize, 0i64) == 0
    }

    fn sync(&self) -> Result<(), c_int> {
        match raw::result(system!(libc::SYS_fsync, self.fd)) {
            // Open for its name only (`truncate`, `utimensat`). What is opened for this stays open: closing it would
            // drop the record locks that the program has on the file.
            Err(libc::EBADF) if self.modes() & libc::O_PATH != 0 => {
                let path = CString::new(format!("/proc/thread-self/fd/{}", self.fd)).map_err(|_| libc::EBADF)?;
                let flags = libc::O_NONBLOCK | libc::O_CLOEXEC;
                let open = |access: c_int| {
                    raw::result(system!(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags | access, 0))
                };
                let fd = open(libc::O_WRONLY).or_else(|_| open(libc::O_RDONLY))?;
                raw::result(system!(libc::SYS_fsync, fd)).map(drop)
            }
            answer => answer.map(drop),
        }
    }

    fn refused(&self) -> c_int {
        libc::EIO
    }

    fn refuses_sync(&self, fail: &c_int) -> bool {
        matches!(*fail, libc::EIO | libc::ENOSPC | libc::EDQUOT)
    }

    fn identity(&self) -> Option<Identity> {
        let path = std::fs::read_link(format!("/proc/self/fd/{}", self.fd)).unwrap_or_else(|_| PathBuf::new());
        Identity::of(raw::borrow(self.fd)?, path)
    }

    fn may_cut(&self) -> bool {
        // By name: the caller has asked.
        self.modes() & (libc::O_ACCMODE | libc::O_PATH) != libc::O_RDONLY
    }
}

impl WriteCall for FdCall<'_> {
    fn refuses_write(&self, fail: &c_int) -> bool {
        *fail == libc::EIO && self.durable()
    }

    fn write(&self) -> Result<usize, c_int> {
        // It moves the offset by itself.
        drop(self.seen.quiet.take());
        raw::result((self.real)()).map(|wrote| wrote as usize)
    }

    fn durable(&self) -> bool {
        !self.parts.is_empty() && (self.flags & DURABLE != 0 || self.modes() & libc::O_DSYNC != 0)
    }

    fn may_be_durable(&self) -> bool {
        let synced = || seconds::is_synced(self.fd).unwrap_or_else(|| self.modes() & libc::O_DSYNC != 0);
        self.flags & DURABLE != 0 || synced()
    }

    fn lazy(&self) -> bool {
        let flags = self.modes();
        let usual = flags & libc::O_DIRECT == 0 && self.flags & !DURABLE == 0;
        usual && (flags & libc::O_DSYNC == 0 || self.second().is_some())
    }

    fn write_lazily(&self, start: u64) -> Result<usize, c_int> {
        let flags = self.modes();
        if flags & libc::O_DSYNC == 0 && self.flags & !DURABLE == 0 {
            // Durable only by the call's own flags.
            return self.to(self.fd, self.offset.unwrap_or(-1), 0);
        }
        match (self.second(), i64::try_from(start)) {
            (Some(second), Ok(start)) => self.to_second(second, start, flags & libc::O_APPEND != 0),
            _ => self.write(),
        }
    }

    fn place(&self) -> Option<Place> {
        let flags = self.modes();
        if flags & libc::O_DIRECT != 0 || self.flags & !DURABLE != 0 {
            return None;
        }
        Some(match self.offset {
            // On Linux, whatever the offset.
            _ if flags & libc::O_APPEND != 0 => Place::Append,
            Some(offset) => Place::At(u64::try_from(offset).ok()?),
            None => Place::Cursor,
        })
    }

    fn cursor(&self) -> Option<u64> {
        if self.modes() & libc::O_DSYNC != 0 {
            // Before the next one, which would take the mask of this for the program's.
            drop(self.seen.quiet.take());
            self.seen.quiet.set(Some(Quiet::new()));
        }
        u64::try_from(system!(libc::SYS_lseek, self.fd, 0i64, libc::SEEK_CUR)).ok()
    }

    fn moved(&self, end: u64) -> bool {
        // In one step, so that what others have moved it by meanwhile stays.
        let by = self.seen.behind.take().unwrap_or(0);
        let now = system!(libc::SYS_lseek, self.fd, by, libc::SEEK_CUR);
        drop(self.seen.quiet.take());
        u64::try_from(now) == Ok(end)
    }

    fn len(&self) -> u64 {
        self.parts.iter().map(|part| part.iov_len as u64).fold(0, u64::saturating_add)
    }

    fn bytes(&self, len: usize, show: &mut dyn FnMut(&[&[u8]])) {
        show(&[&raw::copy(self.parts, len)]);
    }
}
